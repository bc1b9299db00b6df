//! A few cells of the chaos matrix, so that every change of code meets each kind of harm; `cargo xtask chaos` runs all of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use engineroom_tests::matrix::{Cell, House, Isolation, Outcome, cells, render, run};

/// Runs the cells of these modes and hooks, which must all be as the rules say.
#[track_caller]
fn holds(isolation: Isolation, wanted: &[(&str, &str)]) {
    let house = House::new();
    let all = cells();
    let cell = |(mode, hook): &(&str, &str)| -> Cell {
        let named = |cell: &&Cell| cell.isolation == isolation && cell.case.name == *mode && cell.spot.hook == *hook;
        *all.iter().find(named).unwrap_or_else(|| panic!("{mode} × {hook} is no cell"))
    };
    let outcomes: Vec<Outcome> = wanted.iter().map(|wanted| run(&house, cell(wanted))).collect();
    let wrong: Vec<String> = outcomes
        .iter()
        .filter(|outcome| !outcome.problems.is_empty())
        .map(|outcome| format!("{}: {}", outcome.cell, outcome.problems.join("; ")))
        .collect();
    assert!(wrong.is_empty(), "{}\n{}", render(&outcomes), wrong.join("\n"));
}

const ODD_PANICS: &[(&str, &str)] = &[
    ("panic-string", "tools"),
    ("panic-box", "commit_turn"),
    ("panic-bomb", "memory_search"),
    ("panic-resume", "on_subagent_ended"),
    ("panic-in-thread", "ingest"),
    ("panic-in-drop", "dispose"),
];

const LATE: &[(&str, &str)] = &[
    ("slow-under", "assemble"),
    ("slow-over", "memory_prompt"),
    ("deadlock", "bootstrap"),
    ("late-store", "after_turn"),
    ("late-rewrite", "maintain"),
    ("late-llm", "assemble"),
];

const HUGE: &[(&str, &str)] = &[
    ("huge-text", "memory_search"),
    ("huge-spans", "assemble"),
    ("huge-reason", "compact"),
    ("flag-unknown", "call_tool"),
    ("huge-tools", "tools"),
    ("huge-hits", "memory_search"),
];

const MISUSED_SERVICES: &[(&str, &str)] = &[
    ("service-foreign", "compact"),
    ("service-recursive", "assemble"),
    ("service-stale", "factory"),
    ("service-stale", "commit_turn"),
    ("wrong-thread", "ingest_batch"),
    ("wrong-result", "maintain"),
];

const PROCESS: &[(&str, &str)] =
    &[("fork", "prepare_subagent_spawn"), ("stdout", "assemble"), ("block-signals", "on_session_ended")];

const FATAL: &[(&str, &str)] = &[
    ("abort", "assemble"),
    ("exit", "info"),
    ("exit-fast", "commit_turn"),
    ("exit-raw", "bootstrap"),
    ("segfault", "memory_prompt"),
    ("stack-overflow", "compact"),
    ("panic-twice", "tools"),
    ("crash-later", "maintain"),
];

const STARVING: &[(&str, &str)] = &[("memory", "call_tool"), ("fds", "assemble"), ("close-fds", "after_turn")];

#[test]
fn in_process_odd_panics_are_contained() {
    holds(Isolation::InProcess, ODD_PANICS);
}

#[test]
fn in_process_nothing_that_comes_late_counts() {
    holds(Isolation::InProcess, LATE);
}

#[test]
fn in_process_huge_and_wrong_results_reach_nobody() {
    holds(Isolation::InProcess, HUGE);
}

#[test]
fn in_process_services_that_are_called_where_they_must_not_be_harm_nobody() {
    holds(Isolation::InProcess, MISUSED_SERVICES);
}

#[test]
fn in_process_what_an_engine_does_beside_its_hook_is_its_own_business() {
    holds(Isolation::InProcess, PROCESS);
}

#[test]
fn in_process_what_ends_the_gateway_costs_nothing_acknowledged_and_is_explained_at_the_next_start() {
    holds(Isolation::InProcess, FATAL);
}

#[test]
fn in_a_worker_odd_panics_are_contained() {
    holds(Isolation::Process, ODD_PANICS);
}

#[test]
fn in_a_worker_nothing_that_comes_late_counts() {
    holds(Isolation::Process, LATE);
}

#[test]
fn in_a_worker_huge_and_wrong_results_reach_nobody() {
    holds(Isolation::Process, HUGE);
}

#[test]
fn in_a_worker_services_that_are_called_where_they_must_not_be_harm_nobody() {
    holds(Isolation::Process, MISUSED_SERVICES);
}

#[test]
fn in_a_worker_whatever_ends_or_starves_the_process_costs_its_engine_and_nobody_else() {
    holds(Isolation::Process, PROCESS);
    holds(Isolation::Process, FATAL);
    holds(Isolation::Process, STARVING);
}
