use super::*;
use proptest::prelude::*;

/// One turn of a made-up session: bytes of the person's words, loops of calls with the bytes of their results, bytes of the answer.
#[derive(Clone, Debug)]
struct Plan {
    said: usize,
    loops: Vec<Vec<usize>>,
    answer: usize,
}

fn plan() -> impl Strategy<Value = Plan> {
    let loops = prop_oneof![
        3 => Just(Vec::new()),
        2 => prop::collection::vec(prop::collection::vec(0usize..6_000, 1..4), 1..8),
    ];
    (1usize..2_000, loops, 0usize..3_000).prop_map(|(said, loops, answer)| Plan { said, loops, answer })
}

fn text(seed: u64, bytes: usize) -> String {
    const WORDS: [&str; 12] =
        ["quay", "crane", "ship", "<b>", "a & b", "Ünïcödé", "漢字", "port 8080", "\n", "x.y_z", "pay", "of"];
    let mut text = String::new();
    let mut at = seed;
    while text.len() < bytes {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(WORDS[(at >> 33) as usize % WORDS.len()]);
        text.push(if at & 7 == 0 { '.' } else { ' ' });
    }
    text
}

/// The entries of a session; ids have gaps.
fn lines(plans: &[Plan]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut id = 0;
    let mut next = || {
        id += 1 + id % 3;
        id
    };
    for plan in plans {
        let at = next();
        lines.push(Line::user(at, &text(at, plan.said)));
        for results in &plan.loops {
            let at = next();
            let mut asking = Line::assistant(at, &text(at, results.len() % 2 * 40));
            for call in 0..results.len() {
                asking = asking.calling(&format!("c{at}-{call}"), "shell", &format!("{{\"run\":\"{at}\"}}"));
            }
            let tokens = asking.tokens + 20 * u32::try_from(results.len()).unwrap();
            lines.push(asking.with_tokens(tokens));
            for (call, bytes) in results.iter().enumerate() {
                let id = next();
                let result = Line::tool(id, &text(id, *bytes)).answering(&format!("c{at}-{call}"));
                let tokens = result.tokens + 9;
                lines.push(result.with_tokens(tokens));
            }
        }
        let at = next();
        lines.push(Line::assistant(at, &text(at, plan.answer)));
    }
    lines
}

/// Places where a turn begins, and the end.
fn starts(history: &[Line]) -> Vec<usize> {
    let mut starts: Vec<usize> =
        (0..history.len()).filter(|at| history[*at].flags & engine_abi::wire::entry_flags::TURN_START != 0).collect();
    starts.push(history.len());
    starts
}

/// Plays a session: before every turn, and again and again as the turn grows.
fn play(history: &[Line], budgets: &[u64], mut look: impl FnMut(u64, Vec<Sent>)) {
    let engine = engine("{}");
    for (turn, start) in starts(history).into_iter().enumerate() {
        let mut budget = budgets[turn % budgets.len()];
        for _ in 0..3 {
            look(budget, shown(&engine, &history[..start], budget));
            budget -= budget / 3;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn budgets_are_kept_and_pairs_stay_whole(
        plans in prop::collection::vec(plan(), 1..14),
        budgets in prop::collection::vec(prop_oneof![0u64..200, 200u64..6_000, 6_000u64..60_000], 1..4),
    ) {
        play(&lines(&plans), &budgets, |_, _| {});
    }

    #[test]
    fn two_runs_give_the_same_bytes(
        plans in prop::collection::vec(plan(), 1..8),
        budget in 100u64..40_000,
    ) {
        let history = lines(&plans);
        let mut first = Vec::new();
        play(&history, &[budget], |_, sent| first.push(sent));
        let mut at = 0;
        play(&history, &[budget], |_, sent| {
            assert_eq!(first[at], sent);
            at += 1;
        });
    }

    #[test]
    fn histories_that_are_edited_at_random_stay_valid(
        plans in prop::collection::vec(plan(), 2..10),
        budget in 50u64..30_000,
        cuts in prop::collection::vec((0usize..10, 1usize..3), 1..4),
    ) {
        let mut history = lines(&plans);
        let engine = engine("{}");
        shown(&engine, &history, budget);
        for (turn, turns) in cuts {
            let starts = starts(&history);
            let from = starts[turn % starts.len()];
            let to = starts[(turn % starts.len() + turns).min(starts.len() - 1)];
            history.drain(from.min(to)..to);
            shown(&engine, &history, budget);
        }
    }
}
