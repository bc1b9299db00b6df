use super::*;
use engine_abi::testing::{Engine, Failure, World};

#[test]
fn a_compaction_makes_old_turns_a_digest_and_says_truly_what_it_saved() -> Result<(), Failure> {
    let engine = Engine::new::<Keeper>("{}")?;
    let mut play = engine.play("desk").with_budget(400);
    play.turn("My name is Ada.", &"Good morning, Ada. ".repeat(20))?;
    play.small_talk(30)?;
    let before = play.ask("And now?")?;
    let compacted = play.compact()?;
    let after = play.ask("And now?")?;

    assert!(compacted.ok && compacted.compacted, "{compacted:?}");
    let (said_before, said_after) = compacted.tokens;
    assert_eq!(said_before, Some(before.estimated_tokens));
    assert_eq!(said_after, Some(after.estimated_tokens));
    assert!(
        after.estimated_tokens <= 400,
        "{} tokens",
        after.estimated_tokens
    );
    assert_eq!(
        after.ids(&play.history()).first(),
        Some(&compacted.first_kept_entry_id)
    );
    assert!(
        after.contains("How is the weather on day 30?"),
        "the newest turn stays as it was said"
    );
    assert!(
        after.contains("My name is Ada."),
        "the digest tells the first turn"
    );
    Ok(())
}

#[test]
fn a_digest_outlives_a_restart() -> Result<(), Failure> {
    let world = World::default();
    let first = Engine::within::<Keeper>("{}", &world)?;
    let mut play = first.play("desk").with_budget(400);
    play.small_talk(40)?;
    play.compact()?;
    let before = play.ask("And now?")?.texts().len();
    drop(first);

    let second = Engine::within::<Keeper>("{}", &world)?;
    let shown = second.play("desk").with_budget(400).ask("And now?")?;
    assert_eq!(shown.texts().len(), before);
    assert!(shown.contains("Earlier in this conversation"));
    Ok(())
}

#[test]
fn nothing_to_compact_is_said_and_nothing_is_written() -> Result<(), Failure> {
    let engine = Engine::new::<Keeper>("{}")?;
    let mut play = engine.play("desk").with_budget(400);
    play.turn("Hello.", "Hello.")?;
    let compacted = play.compact()?;
    assert!(
        compacted.ok && !compacted.compacted && compacted.reason.is_some(),
        "{compacted:?}"
    );
    assert_eq!(engine.stored_keys(), 0);
    Ok(())
}

#[test]
fn what_is_kept_of_a_session_goes_with_it() -> Result<(), Failure> {
    let engine = Engine::new::<Keeper>("{}")?;
    let mut play = engine.play("desk").with_budget(400);
    play.small_talk(40)?;
    play.compact()?;
    assert_eq!(engine.stored_keys(), 1);
    play.delete()?;
    assert_eq!(engine.stored_keys(), 0);
    Ok(())
}
