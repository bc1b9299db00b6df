use super::*;

/// The items of the log in a prompt.
fn items(sent: &[Sent]) -> Vec<&str> {
    sent.iter().filter(|sent| sent.text.starts_with("[recall log")).map(|sent| sent.text.as_str()).collect()
}

/// Turns of few words, the same again and again.
fn chatter(turns: u64) -> Vec<Line> {
    let mut history = dialogue(turns, 40);
    for line in &mut history {
        line.text = "The weather by the sea is as it is and nobody minds it at all. ".repeat(2);
    }
    history
}

#[test]
fn a_batch_reads_all_that_it_folds() {
    let mut history = chatter(400);
    history[4].text = "Zora keeps the code of the vault, which is 7731.".to_owned();
    for door in 0..6 {
        history[20 + 2 * door].text = format!("The code of door {door} is {}.", door * 17 + 3);
    }
    let now = shown(&engine("{}"), &history, 16_000);
    let log = items(&now).join("\n");
    assert!(log.starts_with("[recall log · entries 1 to ") && !log.contains("not read yet"), "{log}");
    assert!(log.contains("> 5 user: Zora keeps the code of the vault, which is 7731."), "{log}");
    for door in 0..6 {
        assert!(log.contains(&format!("The code of door {door} is {}.", door * 17 + 3)), "{log}");
    }
    assert!(log.matches("The weather by the sea").count() <= 2, "what is the same is said once: {log}");
}

#[test]
fn what_a_batch_cannot_read_it_says_and_the_next_ones_read_on() {
    let engine = engine("{}");
    let mut history = chatter(3_000);
    history[4].text = "Zora keeps the code of the vault, which is 7731.".to_owned();
    let mut seen = Vec::new();
    for turns in [2_600, 2_750, 2_900, 3_000] {
        let now = shown(&engine, &history[..turns * 2], 16_000);
        let log = items(&now).join("\n");
        let unread = log
            .split_once("; none are from entries 1 to ")
            .map(|(_, rest)| rest.split_once(", not read yet").unwrap().0.parse::<usize>().unwrap());
        assert_eq!(log.contains("code of the vault"), unread.is_none(), "{log}");
        seen.push(unread.unwrap_or(0));
    }
    assert!((2_000..4_000).contains(&seen[0]), "{seen:?}");
    assert!(seen.is_sorted_by(|a, b| a > b || (*a, *b) == (0, 0)) && seen.last() == Some(&0), "{seen:?}");
}

#[test]
fn every_item_quotes_something() {
    let mut history = dialogue(2, 40);
    for turn in 1..6 {
        history.extend(looped(turn * 1_000, 60, 900));
    }
    for short in 0..40 {
        history.extend([Line::user(9_000 + short * 2, "Ok."), Line::assistant(9_001 + short * 2, "Fine.")]);
    }
    history.extend(looped(20_000, 60, 900));
    for budget in [11_000, 14_000, 20_000] {
        let engine = engine("{}");
        let mut seen = 0;
        for end in (1..=history.len()).filter(|at| history.get(*at).is_none_or(|line| line.role == role::USER)) {
            for item in items(&shown(&engine, &history[..end], budget)) {
                seen += 1;
                assert!(item.lines().count() > 1, "{budget}: {item}");
            }
        }
        assert!(seen > 10, "{budget}: {seen}");
    }
}

#[test]
fn where_nothing_was_said_the_calls_stand_for_it() {
    let mut history = looped(1, 120, 900);
    history[0].text = "Go on.".to_owned();
    let now = shown(&engine("{}"), &history, 20_000);
    let log = items(&now).join("\n");
    assert!(log.contains(" assistant: read_file {\"path\":\"src/"), "{log}");
}

#[test]
fn what_is_shown_as_a_pin_is_not_quoted_again() {
    let engine = engine("{}");
    let mut history = dialogue(600, 40);
    history[2].text = "Never paint the crane of the harbour in red.".to_owned();
    history[6].text = "The crane of the harbour was red once. Never paint the crane of the port in green.".to_owned();
    let talk = engine.talk("session", "test:session");
    for turn in history.chunks(2) {
        talk.commit(&format!("turn {}", turn[0].id), turn).unwrap();
    }
    let prompt = Line::user(5_000, "May I paint the crane of the harbour in red or in green?");
    let answer = talk.assemble(&history, Some(&prompt), Some(8_000)).unwrap();
    check(&history, &answer, 8_000);
    let pins = sent(&history, &answer).into_iter().find(|sent| sent.text.starts_with("[recall pins")).expect("pins");
    assert!(pins.text.contains("entry 3: Never paint the crane of the harbour in red."), "{}", pins.text);
    let block = answer.volatile_prompt_addition.expect("passages");
    assert!(!block.contains("\n3 user: "), "{block}");
    assert!(
        block.contains("\n7 user: The crane of the harbour was red once."),
        "of that only a part is a pin: {block}"
    );
}

#[test]
fn what_the_pins_show_the_log_does_not_quote() {
    let mut history = dialogue(300, 40);
    history[0].text = "Never delete a file in the archive without asking me first.".to_owned();
    history[2].text = "Zora keeps the code of the vault, which is 7731.".to_owned();
    let engine = engine("{}");
    let talk = engine.talk("session", "test:session");
    for turn in history.chunks(2) {
        talk.commit(&format!("turn {}", turn[0].id), turn).unwrap();
    }
    let now = shown(&engine, &history, 16_000);
    let holding = now.iter().filter(|sent| sent.text.contains("Never delete a file in the archive")).count();
    assert!(now.iter().any(|sent| sent.text.starts_with("[recall pins") && sent.text.contains("Never delete a file")));
    assert_eq!(holding, 1, "{:#?}", items(&now));
    assert!(items(&now).join("\n").contains("code of the vault"), "{:#?}", items(&now));
}
