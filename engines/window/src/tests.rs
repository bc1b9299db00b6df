use super::*;
use engine_abi::testing::{Engine, Line};
use engine_abi::wire::{commit_status, entry_flags, semantics};
use std::collections::HashSet;

/// Turns of a question, a tool call's way and an answer: 3 entries, ids from 1.
fn conversation(turns: u64, tokens: u32) -> Vec<Line> {
    (0..turns)
        .flat_map(|turn| {
            [Line::user(turn * 3 + 1, "?"), Line::tool(turn * 3 + 2, "…"), Line::assistant(turn * 3 + 3, "!")]
        })
        .map(|line| line.with_tokens(tokens))
        .collect()
}

fn engine(pin: bool) -> Engine {
    Engine::new::<Window>(&format!(r#"{{"pin_first_turn": {pin}}}"#)).unwrap()
}

fn shown(engine: &Engine, history: &[Line], budget: u64) -> Vec<u64> {
    let assembled = engine.assemble(history, Some(budget)).unwrap();
    let ids = assembled.ids(history);
    let is_shown: HashSet<u64> = ids.iter().copied().collect();
    let cost: u64 = history.iter().filter(|line| is_shown.contains(&line.id)).map(|line| u64::from(line.tokens)).sum();
    assert!(cost <= budget, "{cost} of {budget}");
    assert_eq!(assembled.estimated_tokens, cost);
    ids
}

#[test]
fn everything_that_fits_is_shown() {
    let history = conversation(10, 100);
    assert_eq!(shown(&engine(false), &history, 3000).len(), 30);
    assert_eq!(engine(false).assemble(&history, None).unwrap().ids(&history).len(), 30);
    assert!(shown(&engine(true), &[], 3000).is_empty());
}

#[test]
fn only_whole_turns_are_shown_and_the_newest_always() {
    let engine = engine(false);
    for turns in 1..200 {
        for budget in [0, 299, 300, 1000, 5000, 20_000] {
            let history = conversation(turns, 100);
            let ids = shown(&engine, &history, budget);
            assert_eq!(ids.len() % 3, 0);
            assert!(ids.first().is_none_or(|id| id % 3 == 1), "starts within a turn: {ids:?}");
            assert_eq!(ids.last().copied(), (budget >= 300).then_some(turns * 3));
        }
    }
}

#[test]
fn the_start_moves_only_when_the_budget_is_exceeded_and_then_by_a_batch() {
    let (engine, budget) = (engine(false), 100_000);
    let mut moves = 0;
    let mut before = 1;
    for turns in 300..900 {
        let history = conversation(turns, 120);
        let ids = shown(&engine, &history, budget);
        if ids[0] != before {
            let stays: u64 = (before..=turns * 3).count() as u64 * 120;
            assert!(stays > budget, "the start moved although everything since {before} fits");
            assert!(ids.len() as u64 * 120 >= budget / 2);
            moves += 1;
            before = ids[0];
        }
    }
    assert!((10..=40).contains(&moves), "{moves} moves in 600 turns");
}

#[test]
fn huge_entries_still_fill_most_of_the_budget() {
    let history = conversation(50, 9_000);
    assert!(shown(&engine(false), &history, 100_000).len() >= 6);
}

#[test]
fn the_first_turn_is_kept_when_pinned_and_small() {
    let mut history = conversation(100, 100);
    assert_eq!(shown(&engine(true), &history, 3000)[..3], [1, 2, 3]);
    assert_ne!(shown(&engine(false), &history, 3000)[0], 1);
    history[1].tokens = 2_000;
    assert_ne!(shown(&engine(true), &history, 3000)[0], 1);
}

#[test]
fn the_summary_of_a_compaction_is_kept_without_being_asked() {
    let mut history = conversation(100, 100);
    history[0].flags |= entry_flags::SUMMARY;
    history[1].flags |= entry_flags::TURN_START;
    let ids = shown(&engine(false), &history, 3000);
    assert_eq!(ids[0], 1);
    assert!(ids[1] > 3);
}

#[test]
fn a_restart_or_another_process_shows_the_same() {
    let history = conversation(400, 77);
    assert_eq!(shown(&engine(false), &history, 9_000), shown(&engine(false), &history, 9_000));
}

#[test]
fn turns_are_durable_and_compaction_is_the_hosts() {
    let engine = engine(false);
    let info = engine.info().unwrap();
    assert_eq!(
        (info.id.as_str(), info.owns_compaction, info.transcript_semantics),
        ("window", false, semantics::DURABLE)
    );
    assert_eq!(engine.commit("key", &conversation(1, 10)), Ok(commit_status::COMMITTED));
    assert_eq!(engine.stored_keys(), 0);
    assert_eq!(engine.compact(&conversation(3, 10), None).unwrap().summary.as_deref(), Some("a summary by the host"));
}
