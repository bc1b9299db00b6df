use super::*;
use engine_abi::wire::entry_flags::*;

#[test]
fn blank_turns_are_left_out() {
    let mut story = Story::default();
    story.user("hello");
    story.assistant("  ");
    story.user("\n");
    story.assistant("hi");
    assert_eq!(outline(&story.view()), ["1:user", "4:assistant"]);
}

#[test]
fn a_blank_user_turn_with_an_image_stays() {
    let mut story = Story::default();
    let mut message = Message::text_of(Role::User, "");
    message.content = crate::transcript::Content::Parts(vec![
        serde_json::json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}),
    ]);
    story.add(EntryBody::Message(Arc::new(message)));
    let view = story.view();
    assert_eq!(outline(&view), ["1:user"]);
    assert_ne!(view.heads[0].flags & MEDIA, 0);
}

#[test]
fn results_stay_with_their_calls() {
    let mut story = Story::default();
    story.user("look");
    story.calls(&["a", "b"]);
    story.result("b", "two");
    story.result("a", "one");
    story.assistant("done");
    let view = story.view();
    assert_eq!(outline(&view), ["1:user", "2:assistant", "3:tool", "4:tool", "5:assistant"]);
    assert_ne!(view.heads[1].flags & TOOL_CALLS, 0);
    assert!(sent_whole(&view));
}

#[test]
fn a_call_without_a_result_gets_an_error_result_once_the_talk_goes_on() {
    let mut story = Story::default();
    story.user("look");
    story.calls(&["a", "b"]);
    story.result("a", "one");
    // The turn is still open: the result of "b" may come any moment.
    assert_eq!(outline(&story.view()), ["1:user", "2:assistant", "3:tool"]);
    story.user("never mind");
    let view = story.view();
    assert_eq!(outline(&view), ["1:user", "2:assistant+1", "3:tool", "4:user"]);
    assert_ne!(view.heads[1].flags & SYNTHETIC, 0);
    assert!(view.attached_at(1)[0].synthetic());
    assert!(sent_whole(&view));
}

#[test]
fn a_displaced_result_moves_when_one_call_can_own_it() {
    let mut story = Story::default();
    story.user("look");
    story.calls(&["a"]);
    story.user("and?");
    story.result("a", "late");
    story.assistant("here");
    let view = story.view();
    assert_eq!(outline(&view), ["1:user", "2:assistant+1", "3:user", "5:assistant"]);
    assert_eq!(view.attached_at(1)[0].source, 4);
    assert_eq!(view.heads[1].flags & SYNTHETIC, 0);
    assert!(sent_whole(&view));
}

#[test]
fn an_ambiguous_or_foreign_result_is_dropped() {
    let mut story = Story::default();
    story.user("look");
    story.calls(&["a"]);
    story.user("again");
    story.calls(&["a"]);
    story.user("and?");
    story.result("a", "whose?");
    story.result("z", "nobody's");
    story.assistant("well");
    let view = story.view();
    assert_eq!(outline(&view), ["1:user", "2:assistant+1", "3:user", "4:assistant+1", "5:user", "8:assistant"]);
    assert!(sent_whole(&view));
}

#[test]
fn calls_that_nothing_can_answer_are_taken_away() {
    let mut story = Story::default();
    story.user("look");
    story.calls(&[""]);
    story.calls(&["", "a"]);
    story.result("a", "one");
    let view = story.view();
    assert_eq!(outline(&view), ["1:user", "3:assistant", "4:tool"]);
    assert_eq!(view.bodies[1].tool_calls.len(), 1);
    assert_eq!(view.heads[1].tokens, counter().message(&view.bodies[1]));
}

#[test]
fn turns_start_at_requests_and_unanswered_ones_are_marked() {
    let mut story = Story::default();
    story.user("one");
    story.user("two");
    story.assistant("both");
    story.user("three");
    let view = story.view();
    let flags: Vec<u32> = view.heads.iter().map(|head| head.flags & (TURN_START | UNANSWERED)).collect();
    assert_eq!(flags, [TURN_START | UNANSWERED, TURN_START, 0, TURN_START]);
}

#[test]
fn messages_of_one_request_are_one_turn() {
    let mut story = Story::default();
    story.user("one");
    story.user("two");
    let time_ms = story.branch[0].time_ms;
    let second = Entry { time_ms, ..Entry::clone(&story.branch[1]) };
    story.branch[1] = Arc::new(second);
    story.assistant("both");
    story.user("three");
    let view = story.view();
    let flags: Vec<u32> = view.heads.iter().map(|head| head.flags & (TURN_START | UNANSWERED)).collect();
    assert_eq!(flags, [TURN_START, 0, 0, TURN_START]);
}

#[test]
fn a_summary_stands_before_the_kept_tail_with_a_rising_id() {
    let mut story = Story::default();
    for n in 1..=6 {
        story.say(if n % 2 == 1 { Role::User } else { Role::Assistant }, &format!("message {n}"));
    }
    story.compaction("what was", 5);
    story.user("next");
    let view = story.view();
    assert_eq!(outline(&view), ["4:user", "5:user", "6:assistant", "8:user"]);
    assert!(view.is_summary(0));
    assert!(view.bodies[0].text().ends_with("what was"));
    assert_eq!(view.heads[0].flags & TURN_START, 0);
}

#[test]
fn the_latest_compaction_counts_and_covers_the_former_one() {
    let mut story = Story::default();
    for n in 1..=4 {
        story.user(&format!("message {n}"));
    }
    story.compaction("first", 3);
    story.user("six");
    story.compaction("second", 6);
    let view = story.view();
    assert_eq!(outline(&view), ["5:user", "6:user"]);
    assert!(view.bodies[0].text().ends_with("second"));
}

#[test]
fn a_compaction_that_would_hide_history_is_passed_over() {
    for first_kept in [1, 99_999] {
        let mut story = Story::default();
        story.user("one");
        story.user("two");
        story.compaction(if first_kept == 1 { "keeps all" } else { "  " }, first_kept);
        assert_eq!(outline(&story.view()), ["1:user", "2:user"], "first kept {first_kept}");
    }
    // The summary's own id must not bring back the entry under it and lose the summary.
    let mut story = Story::default();
    for n in 1..=4 {
        story.user(&format!("message {n}"));
    }
    story.compaction("first", 3);
    story.compaction("second", 2);
    let view = story.view();
    assert_eq!(outline(&view), ["2:user", "3:user", "4:user"]);
    assert!(view.bodies[0].text().ends_with("first"));
}

#[test]
fn a_snapshot_never_changes_under_its_holder() {
    let mut story = Story::default();
    story.user("look");
    story.calls(&["a"]);
    let mut projection = story.projection();
    let held = projection.view();
    story.user("go on");
    projection.sync(&story.branch, &HashMap::new(), &counter());
    assert_eq!(outline(&held), ["1:user", "2:assistant"]);
    assert_eq!(outline(&projection.view()), ["1:user", "2:assistant+1", "3:user"]);
}

#[test]
fn an_edit_goes_back_to_the_turn_that_both_branches_share() {
    let mut story = Story::default();
    story.user("one");
    story.calls(&["a"]);
    story.user("two");
    story.result("a", "late");
    story.assistant("answer");
    let mut projection = story.projection();
    let mut edited = story.clone();
    edited.branch.truncate(3);
    edited.assistant("another answer");
    projection.sync(&edited.branch, &HashMap::new(), &counter());
    let view = projection.view();
    assert_eq!(outline(&view), ["1:user", "2:assistant+1", "3:user", "6:assistant"]);
    assert!(view.attached_at(1)[0].synthetic(), "the result that was moved here is not on this branch");
    assert_eq!(projection.tokens(), view.tokens(0..view.len()));
}

#[test]
fn the_turn_limit_cuts_in_batches() {
    let mut story = Story::default();
    let mut projection = Projection::new(ProjectionPolicy { turn_limit: Some(4) });
    let mut firsts = Vec::new();
    for n in 0..12 {
        story.user(&format!("question {n}"));
        story.assistant(&format!("answer {n}"));
        projection.sync(&story.branch, &HashMap::new(), &counter());
        firsts.push(projection.view().heads[0].id);
    }
    assert_eq!(firsts, [1, 1, 1, 1, 1, 1, 7, 7, 7, 13, 13, 13]);
}

#[test]
fn the_turn_in_progress_is_found_by_its_id() {
    let mut story = Story::default();
    story.user("one");
    story.assistant("answer");
    let id = story.user("two");
    let projection = story.projection();
    assert_eq!(projection.turn_start(id), 2);
    assert_eq!(projection.turn_start(id + 1), 3);
    assert_eq!(projection.view().tokens(0..2) + projection.view().tokens(2..3), projection.tokens());
}

#[test]
fn a_prompt_with_half_of_the_results_is_completed() {
    let mut story = Story::default();
    story.user("look");
    story.calls(&["a", "b"]);
    story.result("b", "two");
    let view = story.view();
    let mut items = view.items(0..view.len(), 0);
    assert!(!pairs_whole(items.iter().map(|item| item.message.as_ref()), false));
    close_open_calls(&mut items, &counter());
    assert!(pairs_whole(items.iter().map(|item| item.message.as_ref()), false));
    assert_eq!(items.len(), 4);
    close_open_calls(&mut items, &counter());
    assert_eq!(items.len(), 4);
}
