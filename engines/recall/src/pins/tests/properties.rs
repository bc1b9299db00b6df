//! Whatever a message holds: ranges are sentences of it, the same comes of the same, and time grows with size.

use super::*;
use proptest::prelude::*;

/// Messages made of pieces that matter to the rules.
fn message() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("always ".to_owned()),
        Just("never ".to_owned()),
        Just("from now on ".to_owned()),
        Just("bitte immer ".to_owned()),
        Just("请永远不要".to_owned()),
        Just("\n- ".to_owned()),
        Just("\n```\n".to_owned()),
        Just("\n\n".to_owned()),
        Just("<a>\n".to_owned()),
        Just("Rules:\n".to_owned()),
        Just("Summarise this: ".to_owned()),
        Just("Summarise this:\n".to_owned()),
        Just("What does this mean?\n".to_owned()),
        Just("\nTranslate the text above".to_owned()),
        Just("总结一下：".to_owned()),
        Just("\n> ".to_owned()),
        Just("remember: ".to_owned()),
        Just("ne me ".to_owned()),
        Just(" jamais, ok ?".to_owned()),
        Just("Could you stop ".to_owned()),
        Just("Never Let Me ".to_owned()),
        Just("\"".to_owned()),
        Just("'".to_owned()),
        Just("„".to_owned()),
        Just(". ".to_owned()),
        Just("。".to_owned()),
        Just("1.".to_owned()),
        Just("(".to_owned()),
        "\\PC{0,12}",
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn ranges_are_parts_of_the_text_in_order(text in message()) {
        let mut last = 0;
        for found in detect(&text, Role::User) {
            prop_assert!(found.start >= last && found.start < found.end);
            prop_assert!(text.is_char_boundary(found.start) && text.is_char_boundary(found.end));
            prop_assert_eq!(text[found.start..found.end].trim(), &text[found.start..found.end]);
            prop_assert!(found.end - found.start <= MAX_BYTES);
            last = found.end;
        }
    }

    #[test]
    fn the_same_entries_give_the_same_pins(texts in proptest::collection::vec(message(), 0..12)) {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let pins = learned(&texts);
        prop_assert_eq!(&pins, &learned(&texts));
        let again: Pins = postcard::from_bytes(&postcard::to_stdvec(&pins).unwrap()).unwrap();
        prop_assert_eq!(&pins, &again);
        prop_assert!(pins.all().windows(2).all(|two| two[0].id < two[1].id));
    }
}

#[test]
fn huge_messages_are_read_in_passes_over_their_bytes() {
    // Were any step quadratic, so much of these would take minutes in a debug build.
    for piece in [
        "\"",
        "(",
        "'a ",
        "`",
        "„",
        "<a>",
        "- ",
        "1.",
        "。",
        "never ",
        "if ",
        "please ",
        "always, ",
        "i want ",
        "a.b",
        "# ",
        "say: ",
        "x: \"a\" ",
        "summarise: \"a\". ",
        "sum this up\n> a\n\n",
        "what is this?\n",
        "ok - ",
        "记住：",
        "Never Let ",
    ] {
        let text = piece.repeat(40_000 / piece.len());
        assert!(detect(&text, Role::User).len() < 40_000, "{piece}");
    }
    let rules = "Rules:\n".to_owned() + &"- Never do this one thing.\n".repeat(1_000);
    assert_eq!(detect(&rules, Role::User).len(), 1_000);
    let mut pins = Pins::default();
    pins.learn(0, 1, 1, Role::User, &rules);
    assert_eq!(pins.all().len(), 1);
    let many: String = (0..600).map(|n| format!("Never open door {n}.\n")).collect();
    pins.learn(1, 2, 2, Role::User, &many);
    assert_eq!(pins.all().len(), MAX_FOUND);
}
