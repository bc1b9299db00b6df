//! The smallest engine is small, and an engine.
#![allow(unsafe_code, reason = "goes in by the door that the engine exports, as a host does")]
#![allow(clippy::unwrap_used, reason = "helpers of tests may")]

#[path = "../examples/smallest.rs"]
mod smallest;

use engine_abi::host::check_entry;
use engine_abi::testing::Engine;
use engine_abi::wire::{EntryPointV1, semantics};

unsafe extern "C" {
    /// The door of the engine above, which is a part of this test.
    safe fn engineroom_entry_v1() -> *const EntryPointV1;
}

/// Lines that an author of an engine must write, as rustfmt leaves them (`cargo fmt --check` formats examples, too).
const MOST_LINES: usize = 30;

#[test]
fn it_has_at_most_30_lines() {
    let source = include_str!("../examples/smallest.rs");
    assert!(source.lines().count() <= MOST_LINES, "{} lines", source.lines().count());
    assert!(!source.contains("rustfmt"), "it is what rustfmt leaves");
}

#[test]
fn it_serves_durable_turns_within_the_budget() {
    // SAFETY: the door gives a static.
    let entry = unsafe { check_entry(engineroom_entry_v1()) }.unwrap();
    let engine = Engine::from_entry(entry, "{}").unwrap();
    assert_eq!(engine.info().unwrap().transcript_semantics, semantics::DURABLE);
    let mut play = engine.play("desk").with_budget(200);
    play.small_talk(20).unwrap();
    let shown = play.ask("And now?").unwrap();
    assert!((100..=200).contains(&shown.tokens()), "{}", shown.tokens());
    assert!(shown.contains("day 20?") && !shown.contains("day 1?"), "{:?}", shown.texts());
    assert!(play.compact().unwrap().compacted);
}
