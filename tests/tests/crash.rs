//! `kill -9` at fail points and at random moments, under load: nothing that was acknowledged is lost, nothing is there twice.
//!
//! A few rounds here; `cargo xtask crash --rounds 1000` runs more, with the same code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "tests")]

use engineroom_tests::crash::{Kill, Rounds, rounds, shown_tally};
use engineroom_tests::failpoints;

fn run(kill: Kill) {
    let asked = Rounds::from_env(kill, 8);
    let tally = rounds(&asked);
    eprintln!("{}", shown_tally(&asked, &tally));
    assert_eq!(tally.rounds, asked.number);
    assert!(tally.acknowledged > 0 || asked.number == 0, "there must be something to lose: {tally:?}");
}

#[test]
fn killed_at_fail_points_it_loses_nothing_that_was_acknowledged() {
    run(Kill::Point);
}

#[test]
fn killed_at_random_moments_it_loses_nothing_that_was_acknowledged() {
    run(Kill::Moment);
}

#[test]
fn every_step_of_a_turn_and_of_the_store_has_a_point() {
    let points = failpoints();
    for step in [
        "turn.lane.entered",
        "turn.admit.queued",
        "turn.admit.before_durable",
        "turn.model.before",
        "turn.model.after",
        "turn.tool.before",
        "turn.tool.after",
        "turn.answer.durable",
        "turn.commit.before",
        "turn.commit.after",
        "turn.maintain.before",
        "outbox.settle",
        "compact.boundary.queued",
        "rewrite.queued",
        "subagent.record.after",
        "session.end.done",
        "store.migrate.before_commit",
        "store.commit.before",
        "store.commit.after",
        "store.checkpoint.before",
        "store.close.before",
    ] {
        assert!(points.iter().any(|point| point == step), "no point {step}");
    }
}
