//! What holds for every conversation, whatever its shape.

use super::*;
use proptest::prelude::*;
use std::time::{Duration, Instant};

#[derive(Debug, Clone)]
enum Step {
    User(u8),
    Assistant(u8),
    Blank,
    Calls(u8, u8),
    Result(u8, u16),
    Compaction(u8),
    Branch(u8),
    Prune,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any::<u8>().prop_map(Step::User),
        4 => any::<u8>().prop_map(Step::Assistant),
        1 => Just(Step::Blank),
        3 => (0..6u8, 1..4u8).prop_map(|(first, n)| Step::Calls(first, n)),
        5 => (0..8u8, 0..9_000u16).prop_map(|(id, chars)| Step::Result(id, chars)),
        1 => any::<u8>().prop_map(Step::Compaction),
        1 => any::<u8>().prop_map(Step::Branch),
        1 => Just(Step::Prune),
    ]
}

fn tell(story: &mut Story, step: &Step) {
    match step {
        Step::User(n) => {
            story.user(&format!("question {n} about /srv/data/{n}.txt {}", "and so on ".repeat(usize::from(*n) / 8)));
        }
        Step::Assistant(n) => {
            story.assistant(&format!("answer {n}: port {}", 8000 + u32::from(*n)));
        }
        Step::Blank => {
            story.user(" ");
        }
        Step::Calls(first, n) => {
            let ids: Vec<String> = (*first..first + n).map(|n| format!("c{n}")).collect();
            story.calls(&ids.iter().map(String::as_str).collect::<Vec<_>>());
        }
        Step::Result(id, chars) => {
            story.result(&format!("c{id}"), &"data ".repeat(usize::from(*chars) / 5));
        }
        Step::Compaction(back) => {
            let len = story.branch.len();
            if len > 0 {
                let first_kept = story.branch[len - 1 - usize::from(*back) % len].id;
                story.compaction(&format!("summary before {first_kept}"), first_kept);
            }
        }
        Step::Branch(back) => {
            let len = story.branch.len();
            story.branch.truncate(len - usize::from(*back) % (len + 1));
        }
        Step::Prune => {}
    }
}

fn same(one: &Projection, other: &Projection) {
    let (one_view, other_view) = (one.view(), other.view());
    assert_eq!(one_view.heads, other_view.heads);
    assert_eq!(one_view.bodies, other_view.bodies);
    assert_eq!(one_view.attached, other_view.attached);
    assert_eq!(one.tokens(), other.tokens());
}

fn holds(projection: &Projection) {
    let view = projection.view();
    assert!(sent_whole(&view), "pairs are whole");
    assert!(view.heads.is_sorted_by(|a, b| a.id < b.id), "ids rise");
    assert_eq!(projection.tokens(), view.tokens(0..view.len()), "the sum is the sum");
    let sent: u64 = view.sent(0..view.len()).map(|sent| u64::from(sent.tokens)).sum();
    assert_eq!(projection.tokens(), sent, "what is sent costs what the rows say");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_projection_kept_up_to_date_equals_a_fresh_one(
        steps in prop::collection::vec((step(), any::<bool>()), 1..60),
        limit in prop::option::of(2..5usize),
    ) {
        let counter = counter();
        let policy = ProjectionPolicy { turn_limit: limit };
        let mut story = Story::default();
        let mut kept = Projection::new(policy.clone());
        let mut frozen = HashMap::new();
        for (step, sync) in &steps {
            tell(&mut story, step);
            if *sync || matches!(step, Step::Prune) {
                kept.sync(&story.branch, &frozen, &counter);
                let mut fresh = Projection::new(policy.clone());
                fresh.sync(&story.branch, &frozen, &counter);
                same(&kept, &fresh);
                holds(&kept);
            }
            if matches!(step, Step::Prune) {
                frozen.extend(kept.prune(1_900_000_000_000, None, 4_000, &pruning()));
                holds(&kept);
            }
        }
    }

    #[test]
    fn a_compaction_keeps_its_promises(
        steps in prop::collection::vec(step(), 1..80),
        keep in 20..3_000u64,
        budget in 200..20_000u64,
        open in 0..3usize,
        force in any::<bool>(),
    ) {
        let counter = counter();
        let mut story = Story::default();
        steps.iter().for_each(|step| tell(&mut story, step));
        let mut projection = story.projection();
        let view = projection.view();
        let until = view.len().saturating_sub(open);
        let input = CompactInput {
            view: Arc::clone(&view),
            until,
            token_budget: budget,
            force,
            keep_recent_tokens: keep,
            custom_instructions: None,
            max_summary_chars: 16_000,
            must_keep_from: None,
            planned: None,
            may_extract: true,
            deadline: Instant::now() + Duration::from_secs(60),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let outcome = runtime.block_on(compact(input, &NoModel, &counter)).unwrap();
        if let Outcome::Compacted { summary, first_kept, tokens_before, tokens_after, .. } = outcome {
            let cut = view.index_of(first_kept).unwrap();
            prop_assert!(cut > 0 && cut <= until.max(1));
            prop_assert!(view.bodies[cut].role != Role::Tool, "a cut never parts a call from its results");
            let kept = view.tokens(cut..until);
            let wanted = keep.min(budget / 3);
            let total = view.tokens(usize::from(view.is_summary(0))..until);
            let wanted = if force && total <= wanted + wanted / 2 { wanted.min(total / 2) } else { wanted };
            let longest = (0..until).map(|row| row..(row + 1..until).find(|&r| view.bodies[r].role != Role::Tool).unwrap_or(until)).map(|group| view.tokens(group)).max().unwrap();
            prop_assert!(kept >= wanted / 2 || kept + longest >= wanted / 2, "enough stays: {kept} of {wanted}, longest {longest}");
            prop_assert!(u64::from(counter.message(&summary_message(&summary))) < view.tokens(0..cut), "smaller than its source");
            prop_assert_eq!(tokens_before, projection.tokens());
            // What the outcome says is what the projection shows once it is stored.
            story.compaction(&summary, first_kept);
            projection.sync(&story.branch, &HashMap::new(), &counter);
            let after = projection.view();
            prop_assert!(after.is_summary(0));
            prop_assert_eq!(&after.heads[1..].iter().map(|h| h.id).collect::<Vec<_>>(), &view.heads[cut..].iter().map(|h| h.id).collect::<Vec<_>>());
            // A result that two calls could own may have one owner once the other call is summarised; then the tail differs.
            if after.tokens(1..after.len()) == view.tokens(cut..view.len()) {
                prop_assert_eq!(projection.tokens(), tokens_after);
            }
            prop_assert!(sent_whole(&after));
        }
    }

    #[test]
    fn a_trimmed_prompt_fits_and_keeps_the_last_words(
        steps in prop::collection::vec(step(), 0..60),
        words in "[a-z]{1,12}( [a-z]{1,12}){0,400}",
        later in prop::collection::vec((0..4u8, 0..9_000u16), 0..6),
        budget in 64..6_000u64,
    ) {
        let counter = counter();
        let mut story = Story::default();
        steps.iter().filter(|step| !matches!(step, Step::Branch(_))).for_each(|step| tell(&mut story, step));
        let current = story.user(&words);
        for (id, chars) in &later {
            story.calls(&[&format!("n{id}")]);
            story.result(&format!("n{id}"), &"data ".repeat(usize::from(*chars) / 5));
        }
        let view = story.view();
        let items = view.items(0..view.len(), view.index_from(current));
        let trimmed = trim_to_fit(items, budget, &counter);
        prop_assert!(trimmed.iter().map(|item| item.tokens).sum::<u64>() <= budget);
        prop_assert!(trimmed.iter().all(|item| item.tokens == u64::from(counter.message(&item.message))));
        prop_assert!(pairs_whole(trimmed.iter().map(|item| item.message.as_ref()), true));
        let last = trimmed.iter().rfind(|item| item.message.role == Role::User).unwrap();
        prop_assert_eq!(last.id, Some(current));
        let first_word = words.split(' ').next().unwrap();
        prop_assert!(last.message.text().starts_with(first_word), "{}", last.message.text());
    }
}
