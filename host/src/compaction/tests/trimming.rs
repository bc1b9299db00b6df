use super::*;

fn items(story: &Story, current: EntryId) -> Vec<PromptItem> {
    let view = story.view();
    let from = view.index_from(current);
    view.items(0..view.len(), from)
}

fn total(items: &[PromptItem]) -> u64 {
    items.iter().map(|item| item.tokens).sum()
}

fn whole(items: &[PromptItem]) -> bool {
    pairs_whole(items.iter().map(|item| item.message.as_ref()), true)
}

#[test]
fn what_fits_stays_as_it_is() {
    let mut story = Story::default();
    story.user("one");
    let current = story.user("two");
    let before = items(&story, current);
    assert_eq!(trim_to_fit(before.clone(), 1_000, &counter()), before);
}

#[test]
fn tool_results_go_first() {
    let mut story = Story::default();
    story.user("look");
    story.calls(&["a"]);
    story.result("a", &"word ".repeat(3_000));
    story.assistant("seen");
    let current = story.user("and now?");
    let trimmed = trim_to_fit(items(&story, current), 500, &counter());
    assert_eq!(trimmed.iter().map(|item| item.id).collect::<Vec<_>>(), [1, 2, 3, 4, 5].map(Some));
    assert!(trimmed[2].message.text().contains("characters left out"));
    assert!(total(&trimmed) <= 500 && whole(&trimmed));
}

#[test]
fn then_the_oldest_turns_and_the_summary_last() {
    let mut story = Story::default();
    for n in 0..20 {
        story.user(&format!("question {n} {}", "so ".repeat(40)));
        story.assistant(&format!("answer {n} {}", "thus ".repeat(40)));
    }
    story.compaction("the beginning", 11);
    let current = story.user("and now?");
    let before = items(&story, current);
    let trimmed = trim_to_fit(before.clone(), total(&before) / 3, &counter());
    assert!(trimmed[0].message.text().ends_with("the beginning"));
    assert_eq!(trimmed[1].message.role, Role::User);
    assert_eq!(trimmed.last().unwrap().id, Some(current));
    assert_eq!(trimmed.last().unwrap().message.text(), "and now?");
    let tiny = trim_to_fit(before, 20, &counter());
    assert_eq!(tiny.len(), 1);
    assert_eq!(tiny[0].message.text(), "and now?");
}

#[test]
fn a_turn_longer_than_the_budget_loses_its_oldest_calls() {
    let mut story = Story::default();
    let current = story.user("do it all");
    for n in 0..50 {
        let id = format!("c{n}");
        story.calls(&[&id]);
        story.result(&id, &format!("result {n} {}", "x ".repeat(60)));
    }
    let trimmed = trim_to_fit(items(&story, current), 400, &counter());
    assert!(total(&trimmed) <= 400 && whole(&trimmed));
    assert_eq!(trimmed[0].message.text(), "do it all");
    assert!(trimmed.last().unwrap().message.text().starts_with("result 49"));
}

#[test]
fn the_last_words_are_cut_in_the_middle_at_the_extreme() {
    let mut story = Story::default();
    story.user("old");
    let current = story.user(&format!("Begin here. {} End here.", "very long ".repeat(5_000)));
    let trimmed = trim_to_fit(items(&story, current), 64, &counter());
    assert!(total(&trimmed) <= 64);
    let text = trimmed[0].message.text().into_owned();
    assert!(text.starts_with("Begin here.") && text.ends_with("End here.") && text.contains("left out"), "{text}");
}

#[test]
fn images_give_way_to_words() {
    let mut message = Message::text_of(Role::User, "");
    message.content = crate::transcript::Content::Parts(vec![
        serde_json::json!({"type": "text", "text": "what is this?"}),
        serde_json::json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}),
    ]);
    let tokens = u64::from(counter().message(&message));
    let item = PromptItem { id: Some(1), message: Arc::new(message), tokens, current_turn: true };
    let trimmed = trim_to_fit(vec![item], 64, &counter());
    assert!(total(&trimmed) <= 64);
    assert!(trimmed[0].message.text().contains("what is this?"));
}
