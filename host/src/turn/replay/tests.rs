//! Replays of small recordings through `legacy`, which is always there.

use super::*;
use crate::config::Config;
use crate::transcript::Role;

fn config() -> Config {
    let mut config = Config::defaults("/nowhere/plugins.toml".into());
    // No folder is looked at: `legacy` is all that these tests need.
    config.plugins.enabled = false;
    config
}

/// `turns` turns of about `words` words each.
fn talk(turns: usize, words: usize) -> String {
    let mut messages = Vec::new();
    for n in 0..turns {
        let filler = "word ".repeat(words / 2);
        messages.push(
            serde_json::json!({"role": "user", "content": format!("Question {n}: where is /srv/file_{n}? {filler}")}),
        );
        messages
            .push(serde_json::json!({"role": "assistant", "content": format!("Answer {n}: it is there. {filler}")}));
    }
    serde_json::json!({"messages": messages}).to_string()
}

async fn play(text: &str, format: Format, options: &ReplayOptions) -> ReplayReport {
    let recordings = read(text, format).unwrap();
    replay(&config(), &recordings, options, &mut |_| {}).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_message_becomes_an_entry_and_every_turn_sees_all_before_it() {
    let report = play(&talk(6, 10), Format::Auto, &ReplayOptions::default()).await;
    assert_eq!(report.engine, "legacy");
    let conversation = &report.conversations[0];
    assert_eq!((conversation.messages, conversation.entries), (12, 12));
    let shown: Vec<usize> = conversation.turns.iter().map(|turn| turn.shown).collect();
    assert_eq!(shown, [1, 3, 5, 7, 9, 11]);
    assert!(conversation.turns.iter().all(|turn| turn.shown == turn.stored && turn.engine == "legacy"));
    assert!(conversation.turns.is_sorted_by_key(|turn| turn.tokens) && conversation.turns[0].tokens > 0);
    assert!(conversation.compactions.is_empty());
    let legacy = &report.engines["legacy"];
    assert_eq!((legacy.state.as_str(), &legacy.reason), ("ready", &None));
    let hooks = &legacy.hooks;
    assert_eq!(hooks["assemble"]["count"], 6);
    assert_eq!(hooks["commitTurn"]["count"], 6);
    assert!(hooks["assemble"]["p99_us"].as_f64().unwrap() > 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_budget_is_kept_by_compactions() {
    let options = ReplayOptions { budget: Some(2_000), ..ReplayOptions::default() };
    let report = play(&talk(60, 120), Format::Auto, &options).await;
    let conversation = &report.conversations[0];
    assert!(conversation.tokens > 4 * 2_000);
    assert_eq!(conversation.turns.len(), 60);
    assert_eq!(conversation.shown.over_budget, 0);
    assert!(conversation.turns.iter().all(|turn| turn.tokens <= 2_000 && turn.budget == 2_000));
    assert!(conversation.compactions.len() > 1);
    for compaction in &conversation.compactions {
        assert!(compaction.tokens_after < compaction.tokens_before, "{compaction:?}");
        assert!(compaction.after_turn > 0 && compaction.after_turn <= 60);
        assert_eq!(compaction.by, "legacy");
    }
    assert!(conversation.compactions.is_sorted_by_key(|compaction| compaction.after_turn));
    assert_eq!(conversation.entries, 120 + conversation.compactions.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tool_calls_are_steps_of_their_turn() {
    let text = serde_json::json!({"messages": [
        {"role": "system", "content": "You are terse."},
        {"role": "user", "content": "How warm is it?"},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "21 degrees"},
        {"role": "assistant", "content": "21 degrees."},
        {"role": "user", "content": "And tomorrow?"},
    ]});
    let report = play(&text.to_string(), Format::OpenAi, &ReplayOptions::default()).await;
    let conversation = &report.conversations[0];
    let turns: Vec<_> = conversation.turns.iter().map(|turn| (turn.shown, turn.stored, turn.answered)).collect();
    assert_eq!(turns, [(1, 1, true), (3, 3, true), (5, 5, false)]);
    assert!(conversation.turns.iter().all(|turn| turn.engine == "legacy" && turn.tokens > 0));
    assert_eq!((conversation.messages, conversation.entries), (5, 5));
    assert_eq!(report.engines["legacy"].hooks["commitTurn"]["count"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dated_sessions_keep_their_time_and_progress_is_told() {
    let text = r#"[{"sample_id": "one", "conversation": {"speaker_a": "Ann", "speaker_b": "Ben",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [{"speaker": "Ben", "text": "Hello Ann!"}, {"speaker": "Ann", "text": "Hello Ben!"},
            {"speaker": "Ben", "text": "How are you?"}, {"speaker": "Ben", "text": "Are you there?"}]}},
        {"sample_id": "two", "conversation": {"speaker_a": "Ann", "speaker_b": "Ben",
        "session_1_date_time": "1:57 pm on 8 May, 2023",
        "session_1": [{"speaker": "Ann", "text": "Look!", "blip_caption": "a cat"}, {"speaker": "Ben", "text": "A cat."}]}}]"#;
    let recordings = read(text, Format::Auto).unwrap();
    assert_eq!(recordings[0].messages[0].message.role, Role::Assistant);
    let mut seen = Vec::new();
    let mut progress = |at: Progress<'_>| seen.push((at.name.to_owned(), at.done, at.total));
    let report = replay(&config(), &recordings, &ReplayOptions::default(), &mut progress).await.unwrap();
    assert_eq!(seen, [("one".to_owned(), 0, 3), ("one".to_owned(), 1, 3), ("two".to_owned(), 2, 3)]);
    let times: Vec<_> = report.conversations.iter().flat_map(|c| c.turns.iter().map(|turn| turn.time_ms)).collect();
    assert_eq!(times, [Some(1_683_554_160_000), Some(1_683_554_220_000)]);
    assert_eq!(report.conversations.iter().map(|c| c.entries).collect::<Vec<_>>(), [4, 2]);
    assert_eq!(report.conversations[0].turns.len(), 1);
    assert_eq!(report.conversations[0].turns[0].shown, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_is_not_there_is_told_with_its_reason_and_legacy_serves() {
    let options = ReplayOptions { chain: vec!["nobody".into()], ..ReplayOptions::default() };
    let report = play(&talk(2, 10), Format::Auto, &options).await;
    assert_eq!(report.engine, "nobody");
    let engine = &report.engines["nobody"];
    assert!(engine.code.is_some() && engine.reason.is_some(), "{engine:?}");
    let conversation = &report.conversations[0];
    assert_eq!(conversation.shown.degraded, 2);
    assert!(conversation.turns.iter().all(|turn| turn.engine == "legacy" && turn.degraded.is_some()));
}
