//! Sessions, branches, retries, streams, restarts.

use super::bench::{Bench, Plan, ask, chunk, echo, message, read, text};
use crate::model::{ModelError, ModelReply};
use crate::transcript::{OutboxState, Role};
use crate::turn::{ContextAsk, HistoryMode, TurnError, TurnRequest};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

#[tokio::test(flavor = "multi_thread")]
async fn thirty_whole_histories_leave_sixty_entries_and_an_edit_leaves_two_branches() {
    let bench = Bench::ordinary();
    let mut history = Vec::new();
    for turn in 0..30 {
        history.push(json!({"role": "user", "content": format!("Question {turn}?")}));
        let reply = bench.turns.run(ask("s", Value::from(history.clone()))).await.unwrap();
        assert_eq!((reply.engine.as_str(), &reply.degraded), ("legacy", &None));
        history.push(json!({"role": "assistant", "content": text(&reply)}));
    }
    assert_eq!((bench.session("s").entries, bench.branches("s")), (60, 1));
    assert_eq!(bench.model.last_prompt().len(), 59);

    history.truncate(6);
    history.push(json!({"role": "user", "content": "Something else?"}));
    bench.turns.run(ask("s", Value::from(history))).await.unwrap();
    assert_eq!((bench.session("s").entries, bench.branches("s")), (62, 2));
    let prompt: Vec<_> = bench.model.last_prompt().into_iter().map(|(_, text)| text).collect();
    assert_eq!(prompt.len(), 7);
    assert_eq!(prompt[6], "Something else?");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_equal_history_regenerates_and_with_a_key_it_is_a_retry() {
    let bench = Bench::ordinary();
    let history = json!([
        {"role": "user", "content": "One?"}, {"role": "assistant", "content": "1"}, {"role": "user", "content": "Two?"}
    ]);
    let keyed = || TurnRequest { idempotency_key: Some("k".into()), ..ask("s", history.clone()) };
    let first = bench.turns.run(keyed()).await.unwrap();
    let retry = bench.turns.run(keyed()).await.unwrap();
    let (crate::turn::TurnBody::Full(first), crate::turn::TurnBody::Full(again)) = (&first.body, &retry.body) else {
        panic!("streams")
    };
    assert_eq!(first.to_string(), again.to_string());
    assert!(retry.facts.replayed);
    assert_eq!((bench.model.calls(), bench.session("s").entries), (1, 4));

    bench.turns.run(ask("s", history)).await.unwrap();
    assert_eq!((bench.model.calls(), bench.session("s").entries, bench.branches("s")), (2, 5, 2));
    assert_eq!(bench.model.last_prompt().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on_after_a_restart() {
    let bench = Bench::ordinary();
    bench.say("s", "My pilot is Marisol.").await;
    let bench = bench.restart(&[], &[]).await;
    bench.say("s", "Who is it?").await;
    let prompt: Vec<_> = bench.model.last_prompt().into_iter().map(|(_, text)| text).collect();
    assert_eq!(prompt, ["My pilot is Marisol.", "re: My pilot is Marisol.", "Who is it?"]);
    assert_eq!(bench.session("s").entries, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_after_its_turn_is_stored() {
    let bench = Bench::ordinary();
    let request = TurnRequest { stream: true, ..ask("s", json!([{"role": "user", "content": "a b c"}])) };
    let reply = bench.turns.run(request).await.unwrap();
    assert_eq!(read(reply).await.unwrap(), "re: a b c");
    assert_eq!(bench.session("s").entries, 2);
    assert_ne!(bench.records("s")[0].terminal, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn system_messages_lead_the_prompt_and_are_not_stored() {
    let bench = Bench::ordinary();
    let messages = json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello?"}]);
    bench.turns.run(ask("s", messages)).await.unwrap();
    assert_eq!(bench.model.last_prompt()[0], ("system".into(), "Be brief.".into()));
    assert_eq!(bench.session("s").entries, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_session_nothing_is_stored() {
    let bench = Bench::ordinary();
    let request = TurnRequest { session_key: None, ..ask("", json!([{"role": "user", "content": "Hello?"}])) };
    let reply = bench.turns.run(request).await.unwrap();
    assert_eq!(text(&reply), "re: Hello?");
    bench.settled().await;
    assert!(bench.store.sessions(10, 0).unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_of_the_client_keep_one_logical_turn_open() {
    let call = json!({"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}});
    let bench = Bench::start(Plan::default(), move |request, _| {
        let answered = request.messages.iter().any(|message| message["role"] == "tool");
        Ok(ModelReply::Full(if answered {
            message(json!({"role": "assistant", "content": "7 degrees"}), "stop")
        } else {
            message(json!({"role": "assistant", "content": null, "tool_calls": [call]}), "tool_calls")
        }))
    });
    bench.say("s", "How cold?").await;
    bench.settled().await;
    let row = bench.session("s").row;
    let open = bench.store.outbox(Some(row)).unwrap();
    assert_eq!((open.len(), open[0].state), (1, OutboxState::Admitted));
    let result = json!([{"role": "tool", "tool_call_id": "c1", "content": "7"}]);
    let reply = bench.turns.run(ask("s", result)).await.unwrap();
    assert_eq!(text(&reply), "7 degrees");
    bench.settled().await;
    let roles: Vec<_> = bench.model.last_prompt().into_iter().map(|(role, _)| role).collect();
    assert_eq!(roles, ["user", "assistant", "tool"]);
    assert_eq!(bench.session("s").entries, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_brings_half_of_the_results_gets_its_answer_and_the_model_whole_pairs() {
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "weather", "arguments": "{}"}});
    let calls = json!([call("c1"), call("c2")]);
    let bench = Bench::start(Plan::default(), move |request, _| {
        let answered = request.messages.iter().any(|message| message["role"] == "tool");
        Ok(ModelReply::Full(if answered {
            message(json!({"role": "assistant", "content": "7 degrees"}), "stop")
        } else {
            message(json!({"role": "assistant", "content": null, "tool_calls": calls}), "tool_calls")
        }))
    });
    bench.say("s", "How cold?").await;
    let result = json!([{"role": "tool", "tool_call_id": "c2", "content": "7"}]);
    bench.turns.run(ask("s", result)).await.unwrap();
    let answered = || -> Vec<_> {
        let requests = bench.model.requests();
        let prompt = &requests.last().unwrap().messages;
        prompt.iter().filter_map(|message| message["tool_call_id"].as_str().map(str::to_owned)).collect()
    };
    assert_eq!(answered(), ["c2", "c1"]);
    // Once the conversation goes on, the history says the same.
    bench.say("s", "And tomorrow?").await;
    assert_eq!(answered().len(), 2);
    assert_eq!(bench.session("s").entries, 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_model_leaves_the_message_and_says_so() {
    let bench = Bench::start(Plan::default(), |request, number| {
        if number == 0 { Err(ModelError::Protocol("nonsense".into())) } else { echo(request, number) }
    });
    let error = bench.turns.run(ask("s", json!([{"role": "user", "content": "One?"}]))).await.unwrap_err();
    assert!(matches!(error, TurnError::Model(ModelError::Protocol(_))), "{error}");
    bench.settled().await;
    assert_eq!(bench.session("s").entries, 1);
    let record = &bench.records("s")[0];
    assert_eq!((record.terminal, record.detail["outcome"].as_str()), (0, Some("unanswered")));
    assert!(bench.store.outbox(None).unwrap().is_empty());

    // The client tries again with its whole history: the same entry is answered.
    let again = TurnRequest { history: HistoryMode::Full, ..ask("s", json!([{"role": "user", "content": "One?"}])) };
    bench.turns.run(again).await.unwrap();
    assert_eq!((bench.session("s").entries, bench.branches("s")), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_after_a_failure_finds_what_was_admitted() {
    let bench = Bench::start(Plan::default(), |request, number| {
        if number == 0 { Err(ModelError::Protocol("nonsense".into())) } else { echo(request, number) }
    });
    let keyed =
        || TurnRequest { idempotency_key: Some("k".into()), ..ask("s", json!([{"role": "user", "content": "One?"}])) };
    bench.turns.run(keyed()).await.unwrap_err();
    bench.turns.run(keyed()).await.unwrap();
    bench.turns.run(keyed()).await.unwrap();
    assert_eq!((bench.session("s").entries, bench.model.calls()), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_whose_conversation_went_on_is_told_so_and_says_nothing_twice() {
    let bench = Bench::start(Plan::default(), |request, number| {
        if number == 0 { Err(ModelError::Protocol("nonsense".into())) } else { echo(request, number) }
    });
    let keyed =
        || TurnRequest { idempotency_key: Some("k".into()), ..ask("s", json!([{"role": "user", "content": "One?"}])) };
    bench.turns.run(keyed()).await.unwrap_err();
    bench.say("s", "Two?").await;
    // Also by another process, which has it from the store alone.
    let bench = bench.restart(&[], &[]).await;
    for _ in 0..2 {
        let error = bench.turns.run(keyed()).await.unwrap_err();
        assert!(matches!(error, TurnError::Superseded), "{error:?}");
    }
    assert_eq!(bench.session("s").entries, 3, "the first message is there once");
    let other =
        TurnRequest { idempotency_key: Some("k".into()), ..ask("s", json!([{"role": "user", "content": "Else?"}])) };
    assert!(matches!(bench.turns.run(other).await.unwrap_err(), TurnError::KeyReused));
    bench.say("s", "Three?").await;
    assert_eq!(bench.session("s").entries, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_regenerate_that_fails_keeps_the_old_answer() {
    let bench = Bench::start(Plan::default(), |request, number| {
        if number == 1 { Err(ModelError::Protocol("nonsense".into())) } else { echo(request, number) }
    });
    bench.say("s", "One?").await;
    let again = || TurnRequest { history: HistoryMode::Full, ..ask("s", json!([{"role": "user", "content": "One?"}])) };
    bench.turns.run(again()).await.unwrap_err();
    bench.say("s", "Two?").await;
    assert_eq!(bench.model.last_prompt().len(), 3, "the old answer is still there");
    assert_eq!((bench.session("s").entries, bench.branches("s")), (4, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_frees_the_session_and_what_it_heard_is_kept() {
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel::<Value>();
    let receiver = Arc::new(Mutex::new(Some(receiver)));
    let bench = Bench::start(Plan::default(), move |request, number| {
        let Some(mut chunks) = receiver.lock().unwrap().take() else { return echo(request, number) };
        Ok(ModelReply::Stream(Box::pin(futures_util::stream::poll_fn(move |cx| {
            chunks.poll_recv(cx).map(|chunk| chunk.map(Ok))
        }))))
    });
    sender.send(chunk(json!({"content": "half an"}), Value::Null)).unwrap();
    let request = TurnRequest { stream: true, ..ask("s", json!([{"role": "user", "content": "Tell me."}])) };
    let reply = bench.turns.run(request).await.unwrap();
    drop(reply);
    // The model still streams: only the missing reader ends the turn.
    bench.settled().await;
    assert!(sender.is_closed(), "the call to the model was dropped");
    assert_eq!(bench.records("s")[0].detail["outcome"], "interrupted");
    bench.say("s", "Go on.").await;
    let prompt: Vec<_> = bench.model.last_prompt().into_iter().map(|(_, text)| text).collect();
    assert_eq!(prompt, ["Tell me.", "half an", "Go on."]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_gives_up_before_the_answer_leaves_it_marked() {
    let bench = Bench::start(Plan::default(), |request, number| {
        if number > 0 {
            return echo(request, number);
        }
        Ok(ModelReply::Stream(Box::pin(futures_util::stream::pending())))
    });
    let request = ask("s", json!([{"role": "user", "content": "Tell me."}]));
    let cancel = request.cancel.clone();
    let running = tokio::spawn({
        let turns = bench.turns.clone();
        async move { turns.run(request).await.map(|_| ()) }
    });
    while bench.model.calls() == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    cancel.cancel();
    assert!(matches!(running.await.unwrap(), Err(TurnError::Cancelled)));
    bench.settled().await;
    assert_eq!(bench.records("s")[0].detail["outcome"], "cancelled");
    bench.say("s", "Still there?").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn others_wait_within_a_bound_and_every_turn_is_stored_in_order() {
    let bench = Arc::new(Bench::start(Plan { queue: Some(3), ..Plan::default() }, echo));
    let mut running = Vec::new();
    for number in 0..12 {
        let bench = bench.clone();
        running.push(tokio::spawn(async move {
            let messages = json!([{"role": "user", "content": format!("n{number}")}]);
            bench.turns.run(ask("s", messages)).await.map(|reply| text(&reply))
        }));
    }
    let mut answered = 0;
    for task in running {
        match task.await.unwrap() {
            Ok(_) => answered += 1,
            Err(error) => assert!(matches!(error, TurnError::QueueFull { waiting: 3 }), "{error}"),
        }
    }
    assert!(answered >= 4, "{answered}");
    let record = bench.session("s");
    assert_eq!(record.entries, 2 * answered);
    let branch = bench.store.branch(record.row, record.head).unwrap();
    for pair in branch.chunks(2) {
        let [question, answer] = pair else { panic!("an odd branch") };
        let (crate::transcript::EntryBody::Message(question), crate::transcript::EntryBody::Message(answer)) =
            (&question.body, &answer.body)
        else {
            panic!("a compaction")
        };
        assert_eq!((question.role, answer.role), (Role::User, Role::Assistant));
        assert_eq!(answer.text(), format!("re: {}", question.text()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_gateway_admits_nothing_and_lets_the_rest_end() {
    let bench = Bench::ordinary();
    bench.say("s", "One?").await;
    assert!(bench.turns.drain(std::time::Duration::from_secs(10)).await);
    let refused = bench.turns.run(ask("s", json!([{"role": "user", "content": "Two?"}]))).await;
    assert!(matches!(refused, Err(TurnError::Draining)));
    assert_eq!(bench.session("s").entries, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_model_would_see_is_shown_entry_by_entry() {
    let bench = Bench::ordinary();
    bench.say("s", "One?").await;
    let report = bench.turns.context("s", ContextAsk::default()).await.unwrap();
    assert_eq!(report.engine, "legacy");
    assert_eq!(report.entries.iter().map(|entry| entry.role).collect::<Vec<_>>(), ["user", "assistant"]);
    assert!(report.entries.iter().all(|entry| entry.shown && entry.tokens > 0 && entry.why == "chosen by legacy"));
    assert_eq!(report.tokens, report.entries.iter().map(|entry| entry.tokens).sum::<u64>());
    assert!(matches!(bench.turns.context("t", ContextAsk::default()).await, Err(TurnError::NoSession { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_may_be_asked_of_the_context_and_leaves_no_trace() {
    let bench = Bench::ordinary();
    let long = "word ".repeat(400);
    bench.say("s", &long).await;
    bench.settled().await;
    let (before, record) = (bench.turns.context("s", ContextAsk::default()).await.unwrap(), bench.session("s"));
    let question = format!("And what of {long}?\nTell me.");
    let ask = ContextAsk { question: Some(question.clone()), ..ContextAsk::default() };
    let asked = bench.turns.context("s", ask.clone()).await.unwrap();
    assert_eq!(asked.asked.as_deref(), Some(question.as_str()));
    let last = asked.entries.last().unwrap();
    assert_eq!((last.id, last.number, last.role, last.shown), (None, None, "user", true));
    assert_eq!(last.text, question, "whole");
    assert_eq!(last.why, "the question, which is not stored");
    let numbers: Vec<_> = asked.entries.iter().filter_map(|entry| entry.number).collect();
    assert_eq!(numbers, [1, 2]);
    assert_eq!(asked.entries[0].text, long, "whole");
    assert!(asked.tokens > before.tokens);
    // The same again, and without: nothing is left of it.
    assert_eq!(bench.turns.context("s", ask).await.unwrap().tokens, asked.tokens);
    assert_eq!(bench.turns.context("s", ContextAsk::default()).await.unwrap(), before);
    bench.settled().await;
    assert_eq!(bench.session("s"), record);
    assert_eq!(bench.model.calls(), 1);
    let both = ContextAsk { question: Some("Well?".into()), take_up: true };
    assert_eq!(bench.turns.context("s", both).await.unwrap().entries.len(), 3);
    let empty = ContextAsk { question: Some("  ".into()), ..ContextAsk::default() };
    assert!(matches!(bench.turns.context("s", empty).await, Err(TurnError::Invalid { .. })));
    bench.say("s", "On.").await;
    let prompt = bench.model.last_prompt();
    assert_eq!(prompt.len(), 3, "{prompt:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_session_is_gone_and_its_key_begins_anew() {
    let bench = Bench::ordinary();
    bench.say("s", "One?").await;
    bench.turns.delete("s").await.unwrap();
    assert!(bench.store.session("s").unwrap().is_none());
    bench.say("s", "Two?").await;
    assert_eq!(bench.session("s").entries, 2);
    assert_eq!(bench.model.last_prompt().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_results_that_answer_nothing_are_refused_and_the_session_goes_on() {
    let bench = Bench::ordinary();
    let results = || json!([{"role": "tool", "tool_call_id": "c", "content": "x"}]);
    let stored = |history| TurnRequest { history, ..ask("s", results()) };
    let fleeting = TurnRequest { session_key: None, ..ask("s", results()) };
    for request in [stored(HistoryMode::Auto), stored(HistoryMode::Full), fleeting] {
        match bench.turns.run(request).await {
            Err(TurnError::Invalid { message, param }) => {
                assert!(message.contains("there is none"), "{message}");
                assert_eq!(param.as_deref(), Some("messages"));
            }
            other => panic!("{:?}", other.map(|_| "answered")),
        }
    }
    assert_eq!(bench.model.calls(), 0, "no engine and no model was asked");
    bench.say("s", "One?").await;
    assert_eq!(bench.session("s").entries, 2, "nothing of it was stored");
    // Behind a user's message it is for the projection to drop.
    bench.turns.run(stored(HistoryMode::Delta)).await.unwrap();
}
