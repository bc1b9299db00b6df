use super::*;
use engine_abi::testing::Talk;

fn talk(engine: &Engine) -> Talk<'_> {
    engine.talk("session", "test:session")
}

/// What is shown without a current turn, as the host measures a compaction.
fn tokens(engine: &Engine, history: &[Line], budget: u64) -> u64 {
    let answer = engine.assemble(history, Some(budget)).unwrap();
    check(history, &answer, budget);
    answer.estimated_tokens
}

#[test]
fn a_compaction_by_hand_makes_the_next_prompt_smaller_and_says_by_how_much() {
    for (turns, budget) in [(8, 100_000), (60, 100_000), (300, 16_000), (300, 10_900), (40, 2_000)] {
        let engine = engine("{}");
        let history = dialogue(turns, 60);
        let before = tokens(&engine, &history, budget);
        let done = engine.compact(&history, Some(budget)).unwrap();
        assert!(done.ok && done.compacted, "{turns} turns: {done:?}");
        assert_eq!(done.tokens.0, Some(before));
        let after = tokens(&engine, &history, budget);
        assert_eq!(done.tokens.1, Some(after), "what it says is what is shown");
        assert!(after <= before / 2, "{before} to {after}");
        assert!(history.iter().any(|line| line.id == done.first_kept_entry_id));
        let summary = done.summary.unwrap();
        let next = sent(&history, &engine.assemble(&history, Some(budget)).unwrap());
        if budget < 8_192 || turns < 10 {
            assert!(summary.starts_with("Entries 1 to ") && summary.contains("no log stands for them"), "{summary}");
            assert!(next.iter().all(|sent| !sent.text.starts_with("[recall log")));
        } else {
            assert!(summary.starts_with("[recall log · entries 1 to ") && summary.contains("\n> "), "{summary}");
            let log: Vec<&str> =
                next.iter().map(|sent| sent.text.as_str()).filter(|text| text.starts_with("[recall log")).collect();
            assert_eq!(log.join("\n\n"), summary, "what it says is what stands there");
        }
        // It stays done while the session goes on.
        let longer = dialogue(turns + 1, 60);
        assert!(tokens(&engine, &longer, budget) < before);
    }
}

#[test]
fn compacting_again_and_again_ends_and_says_that_nothing_is_left() {
    let engine = engine("{}");
    let mut history = dialogue(40, 60);
    history.extend(looped(1_001, 30, 2_000));
    let mut before = tokens(&engine, &history, 50_000);
    for _ in 0..40 {
        let done = engine.compact(&history, Some(50_000)).unwrap();
        let after = tokens(&engine, &history, 50_000);
        if !done.compacted {
            assert!(matches!(done.reason.as_deref(), Some("no_candidate" | "no_progress")), "{done:?}");
            assert_eq!(after, before);
            return;
        }
        assert!(after < before, "said to be compacted: {before} to {after}");
        before = after;
    }
    panic!("it never ends");
}

#[test]
fn what_nobody_needs_is_not_done() {
    let engine = engine("{}");
    let history = dialogue(20, 40);
    let answer = talk(&engine).compact_for(&history, Some(50_000), false, None).unwrap();
    assert!(answer.ok && !answer.compacted);
    assert_eq!(answer.reason.as_deref(), Some("below_threshold"));
    let answer = engine.compact(&[], Some(1_000)).unwrap();
    assert_eq!(answer.reason.as_deref(), Some("no_candidate"));
    let all: Vec<u64> = history.iter().map(|line| line.id).collect();
    assert_eq!(engine.assemble(&history, Some(50_000)).unwrap().ids(&history), all);
}

#[test]
fn a_focus_says_what_the_log_keeps() {
    let mut history = dialogue(100, 60);
    for line in &mut history {
        let id = line.id;
        line.text = format!("Ship alpha{id} brings beta{id} towards gamma{id} under delta{id}.");
    }
    let summary = |focus: Option<&str>| {
        let engine = engine("{}");
        talk(&engine).compact_for(&history, Some(30_000), true, focus).unwrap().summary.unwrap()
    };
    let without = summary(None);
    let ship = |id: u64| format!("Ship alpha{id} brings");
    // Of what is folded and read, something is left out.
    let id = (61..100).step_by(2).find(|id| !without.contains(&ship(*id))).expect("the log does not keep everything");
    let with = summary(Some(&format!("keep all about alpha{id}")));
    assert!(with.contains(&ship(id)), "{id} in {with}");
}

#[test]
fn a_restart_shows_the_same_bytes() {
    let world = engine_abi::testing::World::default();
    let mut history = dialogue(30, 60);
    history.extend(looped(1_001, 30, 3_000));
    history.extend(dialogue(3, 60).into_iter().map(|line| Line { id: line.id + 2_000, ..line }));
    let mut turns: Vec<&[Line]> = Vec::new();
    let mut rest = history.as_slice();
    while !rest.is_empty() {
        let next = (1..rest.len()).find(|at| rest[*at].role == role::USER).unwrap_or(rest.len());
        let (turn, behind) = rest.split_at(next);
        turns.push(turn);
        rest = behind;
    }
    let run = || Engine::within::<Recall>("{}", &world).unwrap();
    let first = run();
    for (at, turn) in turns.iter().enumerate() {
        talk(&first).commit(&format!("turn {at}"), turn).unwrap();
    }
    let done = first.compact(&history, Some(20_000)).unwrap();
    assert!(done.compacted);
    let before = sent(&history, &first.assemble(&history, Some(20_000)).unwrap());
    drop(first);
    assert_eq!(sent(&history, &run().assemble(&history, Some(20_000)).unwrap()), before);
}

#[test]
fn by_hand_nothing_goes_that_nothing_would_stand_for() {
    for budget in [6_000, 32_000] {
        let engine = engine("{}");
        let mut history = Vec::new();
        for (turn, said) in ["My cat is called Biscuit.", "It is 3 years old.", "Ok thanks."].iter().enumerate() {
            let id = turn as u64 * 2 + 1;
            history.extend([Line::user(id, said), Line::assistant(id + 1, "Noted.")]);
        }
        let before = tokens(&engine, &history, budget);
        let done = engine.compact(&history, Some(budget)).unwrap();
        assert_eq!((done.ok, done.compacted, done.reason.as_deref()), (true, false, Some("no_candidate")), "{budget}");
        assert_eq!(tokens(&engine, &history, budget), before);
    }
}
