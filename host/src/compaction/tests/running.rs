use super::*;

const ROOM: u64 = 10_000;

/// A turn of `calls` calls, each with a result of about 600 tokens, that began with `words`.
fn turn(words: &str, calls: usize) -> Vec<PromptItem> {
    let mut story = Story::default();
    let current = story.user(words);
    for call in 0..calls {
        let id = format!("c{call}");
        story.calls(&[&id]);
        story.result(&id, &format!("file {call}: {}", format!("line {call} of it, ").repeat(100)));
    }
    let view = story.view();
    view.items(0..view.len(), view.index_from(current))
}

fn text(items: &[PromptItem]) -> String {
    items.iter().map(|item| format!("{:?} {}\n", item.message.role, item.message.text())).collect()
}

#[test]
fn a_turn_that_leaves_room_stays_as_it_is() {
    let items = turn("Look.", 8);
    assert_eq!(press_turn(items.clone(), ROOM, &counter()), items);
}

#[test]
fn a_turn_that_outgrows_the_window_leaves_room_and_grows_at_its_end() {
    let raw: u64 = turn("Look.", 60).iter().map(|item| item.tokens).sum();
    assert!(raw > 3 * ROOM, "{raw}");
    let (mut before, mut kept, mut grew) = (String::new(), Vec::new(), 0);
    for calls in 1..=60 {
        let items = turn("Look.", calls);
        let last = items.last().unwrap().message.clone();
        let pressed = press_turn(items, ROOM, &counter());
        assert!(pressed.iter().map(|item| item.tokens).sum::<u64>() <= ROOM - ROOM / 8);
        assert!(pressed.iter().all(|item| item.tokens == u64::from(counter().message(&item.message))));
        assert!(pairs_whole(pressed.iter().map(|item| item.message.as_ref()), true));
        assert_eq!(pressed[0].message.text(), "Look.");
        assert_eq!(pressed.last().unwrap().message, last, "the newest result is whole");
        let now = text(&pressed);
        let same = before.bytes().zip(now.bytes()).take_while(|(a, b)| a == b).count();
        grew += usize::from(same == before.len());
        kept.push(same * 100 / now.len());
        before = now;
    }
    kept.sort_unstable();
    assert!(kept[30] >= 85, "median of the prefix: {} %", kept[30]);
    assert!(grew >= 40, "it only grew {grew} times");
    // A room that is counted a little otherwise changes nothing.
    assert_eq!(press_turn(turn("Look.", 60), ROOM + 100, &counter()), press_turn(turn("Look.", 60), ROOM, &counter()));
}

#[test]
fn a_newest_result_that_is_too_long_by_itself_is_cut_and_words_are_not() {
    let mut story = Story::default();
    let current = story.user(&"said ".repeat(300));
    story.calls(&["a", "b"]);
    story.result("a", &"word ".repeat(9_000));
    story.result("b", "short");
    let view = story.view();
    let pressed = press_turn(view.items(0..view.len(), view.index_from(current)), ROOM, &counter());
    assert_eq!(pressed.len(), 4);
    assert_eq!(pressed[0].message.text(), "said ".repeat(300));
    assert!(pressed.iter().map(|item| item.tokens).sum::<u64>() <= ROOM - ROOM / 8);
}
