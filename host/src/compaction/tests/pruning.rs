use super::*;
use engine_abi::wire::entry_flags::PRUNED;

/// `turns` turns, each with one call whose result has `chars` characters.
fn tools(turns: usize, chars: usize) -> Story {
    let mut story = Story::default();
    for n in 0..turns {
        let id = format!("c{n}");
        story.user(&format!("look {n}"));
        story.calls(&[&id]);
        story.result(&id, &format!("{n} {}", "word ".repeat(chars / 5)));
        story.assistant("seen");
    }
    story
}

const NOW: i64 = 1_800_000_000_000;

fn pruned(projection: &Projection) -> Vec<EntryId> {
    projection.view().heads.iter().filter(|head| head.flags & PRUNED != 0).map(|head| head.id).collect()
}

#[test]
fn a_warm_cache_is_left_alone() {
    let mut projection = tools(5, 8_000).projection();
    let call = NOW - 299_999;
    assert!(projection.prune(NOW, Some(call), 10_000, &pruning()).is_empty());
    assert!(!projection.prune(NOW + 1, Some(call), 10_000, &pruning()).is_empty());
}

#[test]
fn an_unknown_last_call_counts_from_the_newest_answer() {
    let story = tools(5, 8_000);
    let newest = story.branch.last().unwrap().time_ms;
    let mut projection = story.projection();
    assert!(projection.prune(newest + 1_000, None, 10_000, &pruning()).is_empty());
    assert!(!projection.prune(newest + 300_000, None, 10_000, &pruning()).is_empty());
}

#[test]
fn a_small_view_and_a_switch_leave_everything() {
    let mut projection = tools(5, 8_000).projection();
    assert!(projection.prune(NOW, None, 1_000_000, &pruning()).is_empty());
    let off = PruningConfig { enabled: false, ..pruning() };
    assert!(projection.prune(NOW, None, 10_000, &off).is_empty());
}

#[test]
fn long_results_lose_their_middle_and_the_newest_answers_are_protected() {
    let story = tools(5, 8_000);
    let mut projection = story.projection();
    let before = projection.tokens();
    let frozen = projection.prune(NOW, None, 20_000, &pruning());
    // The three newest assistant rows are the last answer, its call, and the answer before.
    assert_eq!(frozen.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [3, 7, 11, 15]);
    assert_eq!(pruned(&projection), [3, 7, 11, 15]);
    let text = &frozen[0].1;
    assert!(text.starts_with("0 word") && text.trim_end().ends_with("word"), "{text}");
    assert!(text.contains("characters of this tool result left out"));
    assert!(text.chars().count() < 3_100);
    assert!(projection.tokens() < before);
    let view = projection.view();
    assert_eq!(projection.tokens(), view.tokens(0..view.len()));
}

#[test]
fn what_is_frozen_is_shown_byte_for_byte_by_a_new_projection() {
    let mut story = tools(5, 8_000);
    let mut projection = story.projection();
    let frozen: HashMap<EntryId, String> = projection.prune(NOW, None, 20_000, &pruning()).into_iter().collect();
    story.user("more");
    projection.sync(&story.branch, &HashMap::new(), &counter());
    let mut fresh = Projection::new(ProjectionPolicy::default());
    fresh.sync(&story.branch, &frozen, &counter());
    assert_eq!(projection.view().heads, fresh.view().heads);
    assert_eq!(projection.view().bodies, fresh.view().bodies);
    // Nothing is left to do, so nothing changes again.
    assert!(fresh.prune(NOW, None, 20_000, &pruning()).is_empty());
}

#[test]
fn a_full_window_clears_the_oldest_results_until_half_is_free() {
    let mut projection = tools(60, 3_500).projection();
    let window = projection.tokens() * 10 / 8;
    let frozen = projection.prune(NOW, None, window, &pruning());
    assert!(!frozen.is_empty());
    assert!(frozen.iter().all(|(_, text)| text == "[Old tool result content cleared]"));
    assert!(frozen.is_sorted_by_key(|(id, _)| *id) && frozen[0].0 == 3, "oldest first");
    assert!(projection.tokens() * 2 < window);
    let left = projection.view().heads.iter().filter(|head| head.flags & PRUNED == 0 && head.role == 3).count();
    assert_eq!(left, 60 - frozen.len());
}

#[test]
fn clearing_needs_enough_to_win() {
    let mut projection = tools(10, 3_500).projection();
    let window = projection.tokens() * 10 / 8;
    assert!(projection.prune(NOW, None, window, &pruning()).is_empty(), "35,000 characters are below the least");
}

#[test]
fn a_result_larger_than_its_share_of_the_window_is_cut_at_once_and_for_good() {
    let mut story = tools(1, 60_000);
    let mut projection = story.projection();
    // The cache is warm: a call was made this very moment.
    let frozen = projection.prune(NOW, Some(NOW), 200_000, &pruning());
    assert!(frozen.is_empty(), "60,000 characters are less than the share of a large window");
    let mut projection = story.projection();
    let frozen = projection.prune(NOW, Some(NOW), 20_000, &pruning());
    assert_eq!(frozen.len(), 1);
    assert!(frozen[0].1.chars().count() < 16_200, "{}", frozen[0].1.chars().count());
    let view = projection.view();
    let row = view.index_of(frozen[0].0).unwrap();
    assert_eq!(pruned_because(&view.bodies[row]), "a result larger than its share of the window, cut off");
    assert_eq!(projection.tokens(), view.tokens(0..view.len()));
    drop(view);
    story.user("more");
    projection.sync(&story.branch, &HashMap::new(), &counter());
    assert!(projection.prune(NOW, Some(NOW), 20_000, &pruning()).is_empty(), "once");
    let off = PruningConfig { enabled: false, ..pruning() };
    assert!(story.projection().prune(NOW, Some(NOW), 20_000, &off).is_empty());
}

#[test]
fn images_of_old_turns_give_way_to_a_mark_and_those_of_the_last_turns_stay() {
    let mut story = Story::default();
    let mut with_image = Vec::new();
    for n in 0..6 {
        let content = serde_json::json!([
            {"type": "text", "text": format!("picture {n}")},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        ]);
        let message: Message = serde_json::from_value(serde_json::json!({"role": "user", "content": content})).unwrap();
        with_image.push(story.add(EntryBody::Message(Arc::new(message))));
        story.assistant("a cat");
    }
    let mut projection = story.projection();
    assert!(projection.prune(NOW, Some(NOW), 10_000, &pruning()).is_empty(), "the cache is warm");
    let frozen = projection.prune(NOW, None, 10_000, &pruning());
    let ids: Vec<EntryId> = frozen.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, with_image[..2], "three completed turns and the newest one keep theirs");
    assert_eq!(frozen[0].1, "picture 0\n[image or file of an earlier turn left out]");
    let frozen: HashMap<EntryId, String> = frozen.into_iter().collect();
    let mut fresh = Projection::new(ProjectionPolicy::default());
    fresh.sync(&story.branch, &frozen, &counter());
    assert_eq!(fresh.view().heads, projection.view().heads);
    assert_eq!(fresh.view().bodies, projection.view().bodies);
    assert_eq!(pruned_because(&fresh.view().bodies[0]), "an image or file of an earlier turn, left out");
}

#[test]
fn tools_can_be_taken_out_of_pruning_by_name() {
    let deny = PruningConfig {
        tools: crate::config::PrunedToolsConfig { allow: Vec::new(), deny: vec!["lo*".into()] },
        ..pruning()
    };
    assert!(tools(5, 8_000).projection().prune(NOW, None, 20_000, &deny).is_empty());
    let allow = PruningConfig {
        tools: crate::config::PrunedToolsConfig { allow: vec!["LOOK".into()], deny: Vec::new() },
        ..pruning()
    };
    assert!(!tools(5, 8_000).projection().prune(NOW, None, 20_000, &allow).is_empty());
}

#[test]
fn every_constant_can_be_set() {
    let mut config = pruning();
    config.soft_trim = crate::config::SoftTrimConfig { max_chars: 1_000, head_chars: 100, tail_chars: 50 };
    config.keep_last_assistants = 1;
    let frozen = tools(5, 3_000).projection().prune(NOW, None, 10_000, &config);
    // Only the last answer is protected, so the last result goes as well.
    assert_eq!(frozen.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [3, 7, 11, 15, 19]);
    assert!(frozen[0].1.chars().count() < 250);
    config.soft_trim_ratio = 1.0;
    assert!(tools(5, 3_000).projection().prune(NOW, None, 10_000, &config).is_empty());
    let mut clear = pruning();
    clear.min_prunable_tool_chars = 10_000;
    clear.hard_clear.placeholder = "[gone]".into();
    let mut projection = tools(60, 3_500).projection();
    let window = projection.tokens() * 10 / 8;
    let frozen = projection.prune(NOW, None, window, &clear);
    assert!(!frozen.is_empty() && frozen.iter().all(|(_, text)| text == "[gone]"));
    clear.hard_clear.enabled = false;
    assert!(tools(60, 3_500).projection().prune(NOW, None, window, &clear).is_empty());
}
