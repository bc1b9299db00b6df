//! Replays of small recordings through `legacy`, which is always there.

use super::*;
use crate::config::Config;
use crate::transcript::{Message, Role};

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

async fn player(budget: u64) -> Player {
    let options = ReplayOptions { budget: Some(budget), ..ReplayOptions::default() };
    Player::open(&config(), &options).await.unwrap()
}

fn question(text: &str, budget: u64) -> Question {
    let system = vec![serde_json::json!({"role": "system", "content": "You are terse."})];
    Question { message: Message::text_of(Role::User, text), time_ms: Some(1_683_554_220_000), system, budget }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_is_the_current_turn_of_a_prompt_and_leaves_no_trace() {
    let player = player(2_000).await;
    let recording = read(&talk(3, 10), Format::Auto).unwrap().remove(0);
    player.play("agent:main:replay:1", &recording, &mut ()).await.unwrap();
    player.take_up("agent:main:replay:1").await.unwrap();
    let before = player.standing("agent:main:replay:1").await.unwrap();
    assert_eq!((before.stored, before.entries), (6, 6));
    assert_eq!(before.told["legacy commitTurn"], 3);
    let asked = player.ask("agent:main:replay:1", question("Where is it?", 1_000)).await.unwrap();
    let texts: Vec<&str> = asked.messages.iter().map(|message| message["content"].as_str().unwrap()).collect();
    assert_eq!((texts.len(), texts[0], texts[asked.question_at]), (8, "You are terse.", "Where is it?"));
    let history: u64 = recording.messages.iter().map(|said| u64::from(player.counter().message(&said.message))).sum();
    assert_eq!((asked.engine.as_str(), asked.tokens, asked.over_budget), ("legacy", history, false));
    // Another question sees nothing of the first, and the first is the same again.
    let other = player.ask("agent:main:replay:1", question("And why?", 1_000)).await.unwrap();
    assert!(other.messages.iter().all(|message| message["content"] != "Where is it?"));
    let again = player.ask("agent:main:replay:1", question("Where is it?", 1_000)).await.unwrap();
    assert_eq!(again.messages.json(), asked.messages.json());
    assert_eq!(player.standing("agent:main:replay:1").await.unwrap(), before);
    player.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_over_the_budget_is_told_and_cut_down_without_a_compaction() {
    let player = player(2_000).await;
    let recording = read(&talk(4, 40), Format::Auto).unwrap().remove(0);
    player.play("agent:main:replay:1", &recording, &mut ()).await.unwrap();
    let before = player.standing("agent:main:replay:1").await.unwrap();
    let asked = player.ask("agent:main:replay:1", question("Where is it?", 100)).await.unwrap();
    assert!(asked.over_budget && asked.tokens > 100);
    let counter = player.counter();
    let shown: u64 = asked.messages[1..asked.question_at].iter().map(|message| counter.json_message(message)).sum();
    assert!(shown > 0 && shown <= 100, "{shown}");
    assert_eq!(player.standing("agent:main:replay:1").await.unwrap(), before);
    player.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_goes_on_after_questions_and_can_be_asked_again() {
    let player = player(4_000).await;
    let mut recording = read(&talk(2, 10), Format::Auto).unwrap().remove(0);
    // The last message has no answer.
    recording.messages.pop();
    let key = "agent:main:replay:1";
    for rounds in 1..=3 {
        player.play(key, &recording, &mut ()).await.unwrap();
        player.take_up(key).await.unwrap();
        let asked = player.ask(key, question("Where is it?", 4_000)).await.unwrap();
        assert_eq!((asked.messages.len(), asked.question_at), (2 + 3 * rounds, 1 + 3 * rounds));
        assert_eq!(player.standing(key).await.unwrap().stored, 3 * rounds);
    }
    assert!(matches!(player.ask("agent:main:nobody", question("?", 10)).await, Err(ReplayError::Ask { .. })));
    player.close().await;
}
