use super::*;
use engine_abi::testing::{Engine, Failure};

#[test]
fn everything_that_fits_is_shown() -> Result<(), Failure> {
    let engine = Engine::new::<Window>("{}")?;
    let mut play = engine.play("desk").with_budget(1_000);
    play.turn("My name is Ada.", "Good morning, Ada.")?;
    let shown = play.ask("What is my name?")?;
    assert_eq!(
        shown.texts(),
        ["My name is Ada.", "Good morning, Ada.", "What is my name?"]
    );
    Ok(())
}

#[test]
fn old_turns_go_in_steps_and_the_newest_stays() -> Result<(), Failure> {
    let engine = Engine::new::<Window>(r#"{ "step": 4 }"#)?;
    let mut play = engine.play("desk").with_budget(100);
    let mut moves = 0;
    let mut before = None;
    for day in 1..=60 {
        play.turn(&format!("Day {day}?"), "It is fair.")?;
        let shown = play.ask("And now?")?;
        assert!(
            shown.tokens() <= 100,
            "day {day}: {} tokens",
            shown.tokens()
        );
        assert!(
            shown.contains(&format!("Day {day}?")),
            "day {day}: {:?}",
            shown.texts()
        );
        let first = shown.texts()[0].to_owned();
        moves += usize::from(before.as_ref().is_some_and(|before| *before != first));
        before = Some(first);
    }
    assert!(
        (5..=15).contains(&moves),
        "the window moved {moves} times in 60 turns"
    );
    Ok(())
}

#[test]
fn the_host_compacts_and_its_summary_is_shown() -> Result<(), Failure> {
    let engine = Engine::new::<Window>("{}")?;
    let mut play = engine.play("desk").with_budget(300);
    play.small_talk(10)?;
    let compacted = play.compact()?;
    let shown = play.ask("And now?")?;
    assert_eq!(shown.texts()[0], compacted.summary.unwrap_or_default());
    Ok(())
}

#[test]
fn a_key_that_it_does_not_know_is_refused() {
    assert!(Engine::new::<Window>(r#"{ "stepp": 4 }"#).is_err());
}
