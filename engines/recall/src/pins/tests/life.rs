//! Pins are confirmed, replaced, taken back, closed, chosen and stored.

use super::*;

#[test]
fn what_is_said_again_is_one_pin_that_grows_stronger() {
    let pins = learned(&["Always answer in English.", "hm", "Please always answer in English!"]);
    assert_eq!(texts(&pins), ["Always answer in English."]);
    assert_eq!((pins.all()[0].strength, pins.all()[0].ordinal, pins.all()[0].entry_id), (4, 0, 100));
    let pins = learned(&["Never use tabs in Makefiles.", "As I said, no tabs in Makefiles, thanks for fixing it."]);
    assert_eq!((pins.all().len(), pins.all()[0].strength), (1, 4));
}

#[test]
fn the_newer_word_on_a_matter_counts() {
    let pins = learned(&["Always round prices to two decimals.", "From now on round prices to three decimals."]);
    assert_eq!(texts(&pins), ["From now on round prices to three decimals."]);
    let pins = learned(&["Call me Bob.", "Actually, call me Robert."]);
    assert_eq!(texts(&pins), ["Actually, call me Robert."]);
    let pins = learned(&["Always use semicolons.", "Never use semicolons."]);
    assert_eq!(texts(&pins), ["Never use semicolons."]);
    let pins = learned(&["Always use Jest for unit tests.", "From now on use Vitest instead of Jest for unit tests."]);
    assert_eq!(texts(&pins), ["From now on use Vitest instead of Jest for unit tests."]);
    // Two services are two matters.
    let both = ["Never restart the billing worker by day.", "Never restart the search proxy by day."];
    assert_eq!(texts(&learned(&both)), both);
}

#[test]
fn what_is_taken_back_is_dropped() {
    for (said, back) in [
        ("Always attach the coverage report.", "Forget what I said about the coverage report."),
        ("Always greet me in Klingon.", "You no longer need to greet me in Klingon."),
        ("Never deploy on rainy days.", "The rule about rainy days no longer applies."),
        ("Bitte immer einen Witz anhängen.", "Vergiss die Regel mit dem Witz."),
        ("Añade siempre un refrán al final.", "Ya no hace falta que añadas un refrán."),
        ("Ajoute toujours un proverbe.", "Tu n'as plus besoin d'ajouter un proverbe."),
    ] {
        let kept = "Never mention the merger.";
        let pins = learned(&[said, kept, back]);
        assert_eq!(texts(&pins), [kept], "{back}");
    }
    let pins = learned(&["Always attach the coverage report.", "Forget what I said about lunch."]);
    assert_eq!(pins.all().len(), 1);
}

#[test]
fn tasks_are_closed_when_they_are_done() {
    let pins = learned(&[
        "Remind me to renew the wildcard certificate.",
        "TODO: write the changelog for March.",
        "The wildcard certificate is renewed, that's done.",
    ]);
    assert_eq!(texts(&pins), ["TODO: write the changelog for March."]);
    let pins = learned(&["Wir müssen noch den Mietvertrag kündigen.", "Mietvertrag kündigen ist erledigt."]);
    assert!(pins.all().is_empty());
    let many: Vec<String> = (0..60).map(|n| format!("TODO: look at ticket number {n}.")).collect();
    let pins = learned(&many.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(pins.all().len(), MAX_TASKS);
    assert_eq!(pins.all()[0].text, "TODO: look at ticket number 36.");
}

#[test]
fn the_tool_pins_and_removes() {
    let mut pins = learned(&["Always answer in English."]);
    let id = pins.pin(Kind::Constraint, 4, 104, 9, "  The launch is on the ninth. ");
    assert_eq!(pins.pin(Kind::Constraint, 5, 105, 9, "The launch is on the ninth."), id, "the same text is one pin");
    assert_eq!(pins.all()[1].text, "The launch is on the ninth.");
    pins.learn(6, 106, 10, Role::User, "Forget what I said about the launch on the ninth.");
    assert_eq!(pins.all().len(), 2, "no rule drops what the tool pinned");
    assert_eq!(pins.remove(1).map(|pin| pin.text), Some("Always answer in English.".to_owned()));
    assert_eq!(pins.remove(1), None);
    pins.learn(7, 107, 11, Role::User, "Never use tabs.");
    assert_eq!(pins.all().last().map(|pin| pin.id), Some(3), "numbers are not used again");
}

#[test]
fn what_fits_is_chosen_oldest_first() {
    let mut pins = learned(&[
        "Don't touch the parser.",
        "Never use tabs in the parser.",
        "From now on write short answers.",
        "Never use tabs in the parser.",
    ]);
    let id = pins.pin(Kind::Preference, 9, 109, 9, "likes tea");
    let ids = |budget: u64| pins.choose(budget, &|_| 10).iter().map(|pin| pin.id).collect::<Vec<_>>();
    assert_eq!(ids(40), [1, 2, 3, id]);
    assert_eq!(ids(39), [2, 3, id], "the weakest is left out");
    assert_eq!(ids(20), [2, id], "confirmed before said once");
    assert_eq!(ids(10), [id], "the tool's before all");
    assert!(ids(9).is_empty());
}

#[test]
fn pins_are_stored_and_read_again() {
    let pins = learned(&["Always answer in English.", "Nenn mich Jo.", "TODO: 写报告。", "永远不要修改数据库。"]);
    let bytes = postcard::to_stdvec(&pins).unwrap();
    assert!(bytes.len() < 400, "{}", bytes.len());
    let mut again: Pins = postcard::from_bytes(&bytes).unwrap();
    assert_eq!(pins, again);
    let mut pins = pins;
    for pins in [&mut pins, &mut again] {
        pins.learn(9, 9, 9, Role::User, "Forget what I said about answering in English.");
    }
    assert_eq!(pins, again);
}
