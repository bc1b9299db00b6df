//! Tools that the gateway runs: an engine's tools beside the client's, in one reply.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use engineroom_tests::model::{chunk, message, stream_end, stream_head};
use engineroom_tests::{Answer, Client, MockModel, Setup};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Messages behind the last user message that the model itself said.
fn step(request: &Value) -> usize {
    let messages = request["messages"].as_array().unwrap();
    messages.iter().rev().take_while(|m| m["role"] != "user").filter(|m| m["role"] == "assistant").count()
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

fn calls(text: &str, calls: &[Value]) -> Value {
    json!({"role": "assistant", "content": text, "tool_calls": calls})
}

fn says(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

/// Says a message in the form that the request asks for; a stream comes in small pieces.
fn reply(request: &Value, stream: &mut TcpStream, said: Value) {
    let finish = if said["tool_calls"].is_array() { "tool_calls" } else { "stop" };
    if request["stream"] != true {
        return message(stream, said, finish);
    }
    stream_head(stream);
    chunk(stream, json!({"role": "assistant", "content": ""}), Value::Null);
    let text = said["content"].as_str().unwrap_or_default();
    for word in text.split_inclusive(' ') {
        chunk(stream, json!({"content": word}), Value::Null);
    }
    let calls = said["tool_calls"].as_array().cloned().unwrap_or_default();
    for (index, call) in calls.iter().enumerate() {
        let (name, arguments) = (&call["function"]["name"], call["function"]["arguments"].as_str().unwrap());
        let head =
            json!({"index": index, "id": call["id"], "type": "function", "function": {"name": name, "arguments": ""}});
        chunk(stream, json!({"tool_calls": [head]}), Value::Null);
        let half = arguments.len() / 2;
        for part in [&arguments[..half], &arguments[half..]] {
            chunk(stream, json!({"tool_calls": [{"index": index, "function": {"arguments": part}}]}), Value::Null);
        }
    }
    chunk(stream, json!({}), json!(finish));
    let usage = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "mock", "choices": [],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}});
    let _ = write!(stream, "data: {usage}\n\n");
    stream_end(stream);
}

/// A model that says `steps[n]` when it has said `n` things since the last user message; the last one again after that.
fn model(steps: Vec<Value>) -> MockModel {
    MockModel::start(move |request, stream| {
        let at = step(request).min(steps.len() - 1);
        reply(request, stream, steps[at].clone());
    })
}

fn tools(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"name": name, "answer": format!("{name} says {{arguments}}")})).collect()
}

fn setup(model: &MockModel, config: &Value) -> Setup {
    Setup::new().toml(&model.toml(32_000)).recorder(config)
}

/// The usual engine: one tool, `lookup`.
fn lookup(model: &MockModel) -> Setup {
    setup(model, &json!({"tools": tools(&["lookup"])}))
}

fn client_tool(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}})
}

fn ask(client: &Client, session: &str, messages: &Value, more: Value) -> Answer {
    let mut body = json!({"model": "mock", "messages": messages});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    client.post("/v1/chat/completions", &[("x-engineroom-session", session)], &body)
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// The chunks of a stream, and its comments.
fn events(answer: &Answer) -> (Vec<Value>, Vec<String>) {
    assert!(answer.body.ends_with("data: [DONE]\n\n"), "{}", answer.body);
    let data = answer.body.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|line| *line != "[DONE]");
    let notes = answer.body.lines().filter_map(|line| line.strip_prefix(": ")).map(str::to_owned);
    (data.map(|line| serde_json::from_str(line).unwrap()).collect(), notes.collect())
}

fn text_of(chunks: &[Value]) -> String {
    chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect()
}

fn finishes(chunks: &[Value]) -> Vec<String> {
    chunks.iter().filter_map(|chunk| chunk["choices"][0]["finish_reason"].as_str()).map(str::to_owned).collect()
}

fn roles(request: &Value) -> Vec<&str> {
    request["messages"].as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect()
}

fn offered(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().map_or(&[][..], Vec::as_slice);
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect()
}

fn session(client: &Client, key: &str) -> Value {
    client.get(&format!("/api/sessions/{key}")).json()
}

/// Every call in a request has its result right behind it, and every result its call.
#[track_caller]
fn pairs_are_whole(request: &Value) {
    let mut open: Vec<String> = Vec::new();
    for message in request["messages"].as_array().unwrap() {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap();
            let at =
                open.iter().position(|open| open == id).unwrap_or_else(|| panic!("{id} answers nothing: {request:#}"));
            open.remove(at);
        } else {
            assert!(open.is_empty(), "{open:?} have no result: {request:#}");
            let calls = message["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
            open.extend(calls.iter().map(|call| call["id"].as_str().unwrap().to_owned()));
        }
    }
    assert!(open.is_empty(), "{open:?} have no result: {request:#}");
}

#[test]
fn an_engines_tool_is_run_here_and_the_engine_assembles_again() {
    let model = model(vec![calls("Let me look.", &[call("c1", "lookup", r#"{"q":1}"#)]), says("It is there.")]);
    let setup = lookup(&model);
    let gateway = setup.start();
    let answer = ask(gateway.client(), "s", &json!([user("Where?")]), json!({}));
    let body = answer.json();
    assert_eq!(answer.text(), "Let me look.\n\nIt is there.");
    assert_eq!(body["choices"][0]["finish_reason"], "stop");
    assert!(body["choices"][0]["message"]["tool_calls"].is_null(), "{body}");
    assert_eq!(body["usage"]["total_tokens"], 24, "both calls of the model: {body}");
    assert_eq!(answer.engine(), Some("recorder"));

    let requests = model.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(offered(&requests[0]), ["lookup"]);
    assert_eq!(roles(&requests[1]), ["user", "assistant", "tool"]);
    assert_eq!(requests[1]["messages"][2]["content"], r#"lookup says {"q":1}"#);
    pairs_are_whole(&requests[1]);

    let log = setup.calls();
    let assembled = log.of("assemble");
    assert_eq!(assembled.len(), 2, "once before each call of the model");
    assert_eq!(assembled[1]["tools"], json!(["lookup"]));
    assert!(
        assembled[1]["prompt"]["tokens"].as_u64() > assembled[0]["prompt"]["tokens"].as_u64(),
        "the turn has grown"
    );
    assert_eq!(log.of("call_tool")[0]["arguments"], r#"{"q":1}"#);
    let committed = log.wait_for("commit_turn", 1);
    let roles: Vec<_> = committed[0]["entries"].as_array().unwrap().iter().map(|entry| entry["role"].clone()).collect();
    assert_eq!(roles, ["User", "Assistant", "Tool", "Assistant"]);
}

#[test]
fn nothing_is_handed_over_twice_in_a_loop_and_the_end_gets_the_whole_turn_once() {
    let model = model(vec![
        calls("", &[call("c1", "lookup", "{}")]),
        calls("", &[call("c2", "lookup", "{}")]),
        calls("", &[call("c3", "lookup", "{}")]),
        says("Done."),
    ]);
    let setup = lookup(&model);
    let gateway = setup.start();
    for turn in 1..=2 {
        assert_eq!(ask(gateway.client(), "s", &json!([user("Go.")]), json!({})).text(), "Done.");
        setup.calls().wait_for("commit_turn", turn);
    }
    let log = setup.calls();
    assert_eq!(log.of("assemble").len(), 8);
    assert!(log.of("ingest").is_empty() && log.of("ingest_batch").is_empty() && log.of("after_turn").is_empty());
    let committed = log.of("commit_turn");
    let ids = |turn: &Value| -> Vec<u64> {
        turn["entries"].as_array().unwrap().iter().map(|entry| entry["id"].as_u64().unwrap()).collect()
    };
    assert_eq!(committed.len(), 2);
    let (first, second) = (ids(&committed[0]), ids(&committed[1]));
    assert_eq!((first.len(), second.len()), (8, 8), "the user, three calls with their results, the answer");
    assert!(first.iter().all(|id| !second.contains(id)));
    // Inside a loop the history does not change: what was added belongs to the current turn.
    let history: Vec<_> = log.of("assemble").iter().map(|call| call["history"]["count"].clone()).collect();
    assert_eq!(history, [0, 0, 0, 0, 8, 8, 8, 8]);
}

#[test]
fn a_throw_away_session_gets_its_turn_once_at_the_end() {
    let model = model(vec![calls("", &[call("c1", "lookup", "{}")]), says("Done.")]);
    let setup = lookup(&model);
    let gateway = setup.start();
    let answer = gateway.client().chat(None, json!([user("One."), says("1"), user("Two.")]));
    assert_eq!(answer.text(), "Done.");
    let log = setup.calls();
    let turns = log.wait_for("after_turn", 1);
    assert_eq!(turns.len(), 1);
    assert_eq!(turns[0]["prePromptMessageCount"], 2, "{turns:#?}");
    let roles: String = turns[0]["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["role"].as_str().unwrap().chars().next().unwrap())
        .collect();
    assert_eq!(roles, "UAUATA");
}

#[test]
fn the_clients_tools_go_to_the_client() {
    let model = model(vec![calls("", &[call("c1", "weather", r#"{"at":"sea"}"#)]), says("Fog.")]);
    let setup = lookup(&model);
    let gateway = setup.start();
    let with_tools = json!({"tools": [client_tool("weather")]});
    let mut history = vec![user("The weather?")];
    let answer = ask(gateway.client(), "s", &history.clone().into(), with_tools.clone());
    let body = answer.json();
    assert_eq!(body["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(body["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "weather");
    assert_eq!(offered(&model.requests()[0]), ["weather", "lookup"], "the client's first");
    assert!(setup.calls().of("call_tool").is_empty());
    history.push(body["choices"][0]["message"].clone());
    history.push(json!({"role": "tool", "tool_call_id": "c1", "content": "fog"}));
    assert_eq!(ask(gateway.client(), "s", &history.into(), with_tools).text(), "Fog.");
    let committed = setup.calls().wait_for("commit_turn", 1);
    assert_eq!(committed.len(), 1, "one logical turn");
    assert_eq!(committed[0]["entries"].as_array().unwrap().len(), 4);
}

#[test]
fn a_message_with_calls_of_both_sides_is_split_and_its_pairs_stay_whole() {
    for stream in [false, true] {
        let model = model(vec![
            calls("Both.", &[call("ours", "lookup", "{}"), call("theirs", "weather", r#"{"at":"sea"}"#)]),
            says("Fog, and it is there."),
        ]);
        let setup = lookup(&model);
        let gateway = setup.start();
        let more = json!({"tools": [client_tool("weather")], "stream": stream});
        let mut history = vec![user("Both?")];
        let answer = ask(gateway.client(), "s", &history.clone().into(), more.clone());
        let given = if stream {
            let (chunks, _) = events(&answer);
            assert_eq!(finishes(&chunks), ["tool_calls"]);
            assert!(!answer.body.contains("lookup") && !answer.body.contains("ours"), "it leaks: {}", answer.body);
            let pieces: Vec<_> = chunks
                .iter()
                .filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].as_array())
                .flatten()
                .collect();
            assert!(pieces.iter().all(|piece| piece["index"] == 0), "{pieces:?}");
            let arguments: String = pieces.iter().filter_map(|piece| piece["function"]["arguments"].as_str()).collect();
            assert_eq!(arguments, r#"{"at":"sea"}"#);
            calls("Both.", &[call("theirs", "weather", &arguments)])
        } else {
            let body = answer.json();
            assert_eq!(body["choices"][0]["finish_reason"], "tool_calls");
            assert!(!answer.body.contains("lookup"), "it leaks: {}", answer.body);
            body["choices"][0]["message"].clone()
        };
        assert_eq!(given["tool_calls"].as_array().unwrap().len(), 1);
        assert_eq!(setup.calls().of("call_tool").len(), 1, "ours ran at once");
        history.push(given);
        history.push(json!({"role": "tool", "tool_call_id": "theirs", "content": "fog"}));
        // Also after a restart.
        assert!(gateway.stop().success());
        let gateway = setup.start();
        let answer = ask(gateway.client(), "s", &history.into(), json!({"tools": [client_tool("weather")]}));
        assert_eq!(answer.text(), "Fog, and it is there.");
        let requests = model.requests();
        assert_eq!(roles(&requests[1]), ["user", "assistant", "tool", "tool"]);
        pairs_are_whole(&requests[1]);
        assert_eq!(requests[1]["messages"][1]["tool_calls"].as_array().unwrap().len(), 2);
        let stored = session(gateway.client(), "s");
        assert_eq!(stored["branches"].as_array().unwrap().len(), 1, "the client's history was known: {stored}");
        assert_eq!(stored["entries"], 5);
    }
}

#[test]
fn one_stream_tells_the_texts_of_all_steps_and_nothing_of_the_engines_calls() {
    let model = model(vec![
        calls("Let me look.", &[call("c1", "lookup", r#"{"secret":"amber"}"#)]),
        calls("", &[call("c2", "lookup", "{}")]),
        says("It is there."),
    ]);
    let setup = lookup(&model);
    let gateway = setup.start();
    let more = json!({"stream": true, "stream_options": {"include_usage": true}});
    let mut history = vec![user("Where?")];
    let answer = ask(gateway.client(), "s", &history.clone().into(), more);
    let (chunks, notes) = events(&answer);
    assert_eq!(text_of(&chunks), "Let me look.\n\nIt is there.");
    assert_eq!(finishes(&chunks), ["stop"]);
    assert!(!answer.body.contains("lookup") && !answer.body.contains("amber"), "it leaks: {}", answer.body);
    assert!(chunks.iter().all(|chunk| chunk["id"] == chunks[0]["id"]));
    let usages: Vec<_> = chunks.iter().filter(|chunk| chunk["usage"].is_object()).collect();
    assert_eq!(usages.len(), 1);
    assert_eq!(usages[0]["usage"]["total_tokens"], 36);
    assert!(notes.is_empty(), "the same engine served all of it: {notes:?}");
    // What the client was told is known again when it comes back.
    history.push(says("Let me look.\n\nIt is there."));
    history.push(user("Sure?"));
    ask(gateway.client(), "s", &history.into(), json!({}));
    assert_eq!(session(gateway.client(), "s")["branches"].as_array().unwrap().len(), 1);
}

#[test]
fn a_stream_without_usage_asked_for_has_none() {
    let model = model(vec![calls("", &[call("c1", "lookup", "{}")]), says("There.")]);
    let setup = lookup(&model);
    let gateway = setup.start();
    let answer = ask(gateway.client(), "s", &json!([user("Where?")]), json!({"stream": true}));
    assert!(!answer.body.contains("usage"), "{}", answer.body);
    assert_eq!(text_of(&events(&answer).0), "There.");
}

#[test]
fn past_the_bound_the_model_is_told_and_asked_once_more_without_the_engines_tools() {
    for stream in [false, true] {
        let model = model(vec![calls("", &[call("c", "lookup", "{}"), call("d", "lookup", "{}")])]);
        let setup = lookup(&model).toml("[tools]\nmax_calls = 3\n");
        let gateway = setup.start();
        let more = json!({"tools": [client_tool("weather")], "stream": stream});
        let answer = ask(gateway.client(), "s", &json!([user("Go.")]), more);
        let text = if stream {
            let (chunks, _) = events(&answer);
            assert_eq!(finishes(&chunks), ["stop"]);
            text_of(&chunks)
        } else {
            assert_eq!(answer.json()["choices"][0]["finish_reason"], "stop");
            answer.text()
        };
        assert!(text.contains("limit of tool calls"), "{text}");
        let requests = model.requests();
        assert_eq!(requests.len(), 3);
        assert_eq!(offered(&requests[1]), ["weather", "lookup"]);
        assert_eq!(offered(&requests[2]), ["weather"], "the last one without");
        let last = requests[2]["messages"].as_array().unwrap().last().unwrap();
        assert!(last["content"].as_str().unwrap().contains("the limit of 3 tool calls"), "{last}");
        assert_eq!(setup.calls().of("call_tool").len(), 3);
        pairs_are_whole(&requests[2]);
    }
}

#[test]
fn the_client_wins_a_name_and_the_clash_is_loud() {
    let model = model(vec![calls("", &[call("c", "lookup", "{}")])]);
    let setup = setup(&model, &json!({"tools": tools(&["lookup", "other"])}));
    let gateway = setup.start();
    let answer = ask(gateway.client(), "s", &json!([user("Go.")]), json!({"tools": [client_tool("lookup")]}));
    assert_eq!(answer.json()["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "lookup");
    assert!(setup.calls().of("call_tool").is_empty());
    assert_eq!(offered(&model.requests()[0]), ["lookup", "other"]);
    let loud = gateway.stderr();
    assert!(loud.contains("lookup") && loud.contains("not offered"), "{loud}");
}

#[test]
fn where_a_client_wants_several_answers_or_the_old_form_nothing_is_offered() {
    let model = MockModel::saying("Hello.");
    let setup = lookup(&model);
    let gateway = setup.start();
    for more in [json!({"n": 2}), json!({"functions": [{"name": "f", "parameters": {"type": "object"}}]})] {
        assert_eq!(ask(gateway.client(), "s", &json!([user("Hello?")]), more).text(), "Hello.");
        assert!(offered(model.requests().last().unwrap()).is_empty());
    }
    ask(gateway.client(), "s", &json!([user("Hello?")]), json!({"n": 1}));
    assert_eq!(offered(model.requests().last().unwrap()), ["lookup"]);
}

#[test]
fn a_tool_with_a_schema_that_is_none_is_not_offered() {
    let model = MockModel::saying("Hello.");
    let bad = json!([{"name": "bad", "answer": "x", "parameters": r#"{"type":"string"}"#},
        {"name": "good", "answer": "x", "parameters": r#"{"type":"object","properties":{"q":{"type":"string"}}}"#}]);
    let setup = setup(&model, &json!({"tools": bad}));
    let gateway = setup.start();
    assert_eq!(ask(gateway.client(), "s", &json!([user("Hello?")]), json!({})).engine(), Some("recorder"));
    assert_eq!(offered(&model.requests()[0]), ["good"]);
    assert!(gateway.stderr().contains("bad"));
}

#[test]
fn a_tool_that_nobody_has_and_arguments_that_are_none_are_answered_with_errors() {
    let model = model(vec![
        calls("", &[call("a", "loukup", "{}"), call("b", "lookup", "{\"q\":"), call("c", "lookup", "")]),
        says("I see."),
    ]);
    let setup = lookup(&model);
    let gateway = setup.start();
    assert_eq!(ask(gateway.client(), "s", &json!([user("Go.")]), json!({})).text(), "I see.");
    let request = &model.requests()[1];
    let content = |at: usize| request["messages"][at]["content"].as_str().unwrap().to_owned();
    assert!(
        content(2).starts_with("error:") && content(2).contains("lookup"),
        "it names what there is: {}",
        content(2)
    );
    assert!(content(3).contains("not JSON"), "{}", content(3));
    assert_eq!(content(4), "lookup says {}");
    assert_eq!(setup.calls().of("call_tool").len(), 1);
    pairs_are_whole(request);
}

#[test]
fn a_model_that_calls_what_nobody_has_for_ever_comes_to_an_end() {
    let model = model(vec![calls("Hm.", &[call("a", "loukup", "{}")])]);
    let setup = lookup(&model).toml("[tools]\nmax_calls = 2\n");
    let gateway = setup.start();
    let answer = ask(gateway.client(), "s", &json!([user("Go.")]), json!({}));
    assert_eq!(answer.text(), "Hm.\n\nHm.\n\nHm.\n\nHm.");
    assert_eq!(answer.json()["choices"][0]["finish_reason"], "stop");
    assert_eq!(model.requests().len(), 4, "two errors, one word about the limit, one last call");
}

#[test]
fn parallel_calls_are_answered_in_their_order() {
    let model = model(vec![
        calls("", &[call("a", "first", "1"), call("b", "second", r#"{"x":2}"#), call("c", "first", r#"{"x":3}"#)]),
        says("All."),
    ]);
    let setup = setup(&model, &json!({"tools": tools(&["first", "second"])}));
    let gateway = setup.start();
    ask(gateway.client(), "s", &json!([user("Go.")]), json!({}));
    let request = &model.requests()[1];
    let results: Vec<_> = request["messages"].as_array().unwrap()[2..]
        .iter()
        .map(|m| (m["tool_call_id"].as_str().unwrap(), m["content"].as_str().unwrap()))
        .collect();
    assert_eq!(
        results,
        [
            ("a", "error: the arguments are no JSON object"),
            ("b", r#"second says {"x":2}"#),
            ("c", r#"first says {"x":3}"#)
        ]
    );
}

#[test]
fn an_engine_dropped_in_the_middle_answers_with_errors_and_the_next_one_goes_on() {
    let steps = vec![
        calls("Looking.", &[call("c1", "lookup", "{}"), call("c2", "lookup", "{}")]),
        calls("", &[call("c3", "lookup", "{}")]),
        says("I could not look."),
    ];
    for stream in [false, true] {
        let model = model(steps.clone());
        let setup = setup(&model, &json!({"tools": tools(&["lookup"]), "fail": {"call_tool": {"after": 0}}}));
        let gateway = setup.start();
        let answer = ask(gateway.client(), "s", &json!([user("Go.")]), json!({"stream": stream}));
        if stream {
            let (chunks, notes) = events(&answer);
            assert_eq!(text_of(&chunks), "Looking.\n\nI could not look.");
            assert_eq!(answer.engine(), Some("recorder"), "the headers left with the first chunk");
            assert_eq!(notes, ["engineroom-engine: legacy; engineroom-degraded: engine-quarantined"]);
        } else {
            assert_eq!(answer.text(), "Looking.\n\nI could not look.");
            assert_eq!((answer.engine(), answer.degraded()), (Some("legacy"), Some("engine-quarantined")));
        }
        let record = gateway.client().get("/api/sessions/s/turns").json();
        let record = record["turns"][0].clone();
        assert_eq!(
            (record["engine"].as_str(), record["model_calls"].as_u64()),
            (Some("legacy"), Some(3)),
            "{record:#}"
        );
        assert_eq!(record["headers_named"].as_str(), stream.then_some("recorder"), "{record:#}");
        let failed: Vec<_> = record["tools"].as_array().unwrap().iter().map(|call| call["error"].clone()).collect();
        assert_eq!(failed, [true, true, true], "{record:#}");
        let requests = model.requests();
        assert_eq!(requests.len(), 3);
        let results = requests[2]["messages"].as_array().unwrap().iter().filter(|m| m["role"] == "tool");
        let results: Vec<_> = results.map(|m| m["content"].as_str().unwrap().to_owned()).collect();
        assert!(results.iter().all(|result| result.starts_with("error:")), "{results:?}");
        assert!(
            results[0].contains("failed") && results[1].contains("gone") && results[2].contains("gone"),
            "{results:?}"
        );
        assert_eq!(setup.calls().of("call_tool").len(), 1, "a dropped engine is not called again");
        requests.iter().for_each(pairs_are_whole);

        // What the engine put into the turn ended with it.
        assert_eq!(ask(gateway.client(), "s", &json!([user("And now?")]), json!({})).engine(), Some("legacy"));
        assert!(offered(model.requests().last().unwrap()).is_empty());
    }
}

#[test]
fn a_tool_that_hangs_ends_at_its_deadline_and_the_turn_goes_on() {
    let model = model(vec![calls("", &[call("c1", "lookup", "{}")]), says("Too slow.")]);
    let setup = setup(&model, &json!({"tools": tools(&["lookup"]), "deaf": {"call_tool": 5_000}}))
        .toml("[plugins.deadlines]\ncall_tool_ms = 200\n");
    let gateway = setup.start();
    let since = Instant::now();
    let answer = ask(gateway.client(), "s", &json!([user("Go.")]), json!({}));
    assert_eq!(answer.text(), "Too slow.");
    assert!(since.elapsed() < Duration::from_secs(4), "{:?}", since.elapsed());
    assert_eq!(answer.engine(), Some("legacy"));
    let result = &model.requests()[1]["messages"][2]["content"];
    assert!(result.as_str().unwrap().starts_with("error:"), "{result}");
}

#[test]
fn an_assembly_that_fails_in_the_loop_leaves_the_rest_to_the_next_candidate() {
    let model = model(vec![calls("", &[call("c1", "lookup", "{}")]), says("There.")]);
    let setup = setup(&model, &json!({"turns": 0, "tools": tools(&["lookup"]), "fail": {"assemble": {"after": 3}}}));
    let gateway = setup.start();
    ask(gateway.client(), "s", &json!([user("First.")]), json!({}));
    let answer = ask(gateway.client(), "s", &json!([user("Second.")]), json!({}));
    assert_eq!((answer.text().as_str(), answer.engine()), ("There.", Some("legacy")));
    let requests = model.requests();
    // The engine shows no history at all; legacy, which serves in its place, all of it.
    assert_eq!(roles(&requests[2]), ["user"]);
    assert_eq!(roles(&requests[3]), ["user", "assistant", "tool", "assistant", "user", "assistant", "tool"]);
    assert_eq!(setup.calls().of("assemble").len(), 4, "out for the rest of the process");
}

/// An engine that answers nonsense from its second assembly on.
fn nonsense(mode: &str) {
    let model = model(vec![calls("", &[call("c1", "chaos_echo", r#"{"x":1}"#)]), says("There.")]);
    let hooks = ["bootstrap", "maintain", "ingest_batch", "after_turn", "on_session_ended", "tools", "call_tool"];
    let setup = Setup::new()
        .toml(&model.toml(32_000))
        .chaos(&json!({"mode": mode, "hook": "assemble", "after": 1, "hooks": hooks}));
    let gateway = setup.start();
    let answer = ask(gateway.client(), "s", &json!([user("First.")]), json!({}));
    assert_eq!((answer.text().as_str(), answer.engine()), ("There.", Some("legacy")), "{mode}");
    assert!(answer.degraded().is_some(), "{mode}");
    let requests = model.requests();
    assert_eq!(requests.len(), 2, "{mode}");
    assert_eq!(roles(&requests[1]), ["user", "assistant", "tool"], "{mode}");
    pairs_are_whole(&requests[1]);
    // The transcript is the host's: nothing of the nonsense is in it.
    ask(gateway.client(), "s", &json!([user("Second.")]), json!({}));
    assert_eq!(roles(&model.requests()[2]), ["user", "assistant", "tool", "assistant", "user"], "{mode}");
}

#[test]
fn an_assembly_without_a_result_is_a_failure() {
    nonsense("no-result");
}

#[test]
fn orphans_of_an_engine_reach_neither_the_model_nor_the_transcript() {
    nonsense("result-without-call");
    nonsense("call-without-result");
}

#[test]
fn an_edited_history_of_the_same_length_is_what_the_engine_sees() {
    let model = MockModel::start(|request, stream| {
        let last = request["messages"].as_array().unwrap().last().unwrap()["content"].clone();
        reply(request, stream, says(&format!("You said {last}")));
    });
    let setup = setup(&model, &json!({}));
    let gateway = setup.start();
    let history = |first: &str| json!([user(first), says("A"), user("Two."), says("B"), user("Three.")]);
    ask(gateway.client(), "s", &history("One."), json!({}));
    ask(gateway.client(), "s", &history("Uno."), json!({}));
    let shorter = json!([user("Eins."), says("A"), user("Three.")]);
    ask(gateway.client(), "s", &shorter, json!({}));
    let requests = model.requests();
    assert_eq!(requests[0]["messages"], history("One."));
    assert_eq!(requests[1]["messages"], history("Uno."));
    assert_eq!(requests[2]["messages"], shorter);
    let seen: Vec<_> = setup.calls().of("assemble").iter().map(|call| call["history"]["count"].clone()).collect();
    assert_eq!(seen, [4, 4, 2]);
}

#[test]
fn what_the_engine_leaves_out_is_no_pressure() {
    let long = "word ".repeat(400);
    let model = model(vec![calls("", &[call("c1", "lookup", "{}")]), says("There.")]);
    let config =
        json!({"turns": 1, "tools": [{"name": "lookup", "answer": "found ".repeat(100)}], "owns_compaction": true});
    let setup = Setup::new().toml(&model.toml(2_400)).recorder(&config);
    let gateway = setup.start();
    for _ in 0..8 {
        let answer = ask(gateway.client(), "s", &json!([user(&long)]), json!({}));
        assert_eq!((answer.text().as_str(), answer.engine()), ("There.", Some("recorder")));
    }
    assert!(setup.calls().of("compact").is_empty(), "what it assembled fits: {:?}", setup.calls().hooks());
    model.requests().iter().for_each(pairs_are_whole);
}

#[test]
fn one_turn_longer_than_the_window_is_trimmed_inside_and_keeps_the_users_words() {
    let long = format!("result {}", "filler ".repeat(700));
    let mut steps: Vec<Value> = (0..8).map(|n| calls("", &[call(&format!("c{n}"), "lookup", "{}")])).collect();
    steps.push(says("Enough."));
    let model = MockModel::start(move |request, stream| {
        // A trimmed prompt does not hold every step, so the model counts by the last call that it sees.
        let text = request["messages"].to_string();
        let last = text.rfind("\"id\":\"c").map_or(0, |at| usize::from(text.as_bytes()[at + 7] - b'0') + 1);
        reply(request, stream, steps[last.min(8)].clone());
    });
    let config = json!({"tools": [{"name": "lookup", "answer": long}]});
    let setup = Setup::new().toml(&model.toml(2_000)).recorder(&config);
    let gateway = setup.start();
    let answer = ask(gateway.client(), "s", &json!([user("Find the brass key, please.")]), json!({}));
    assert_eq!(answer.text(), "Enough.", "{}", gateway.stderr());
    let requests = model.requests();
    assert_eq!(requests.len(), 9);
    for request in &requests {
        pairs_are_whole(request);
        assert!(request["messages"].to_string().contains("Find the brass key, please."), "{request:#}");
        let size = request["messages"].to_string().len();
        assert!(size < 2_000 * 6, "{size} characters for 2,000 tokens");
    }
    assert_eq!(session(gateway.client(), "s")["entries"], 18, "the transcript keeps all of it");
}

#[test]
fn a_client_that_leaves_while_a_tool_runs_ends_the_turn_there() {
    let model = model(vec![calls("Wait.", &[call("c1", "lookup", "{}")]), says("There.")]);
    let setup = setup(&model, &json!({"tools": tools(&["lookup"]), "slow": {"call_tool": 3_000}}));
    let gateway = setup.start();
    let body = json!({"model": "m", "stream": true, "messages": [user("Go.")]}).to_string();
    let address = gateway.client().base().trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(&address).unwrap();
    write!(
        stream,
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         x-engineroom-session: s\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut seen = Vec::new();
    let mut some = [0; 512];
    while !String::from_utf8_lossy(&seen).contains("Wait.") {
        let n = stream.read(&mut some).unwrap();
        assert!(n > 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&some[..n]);
    }
    setup.calls().wait_for("call_tool", 1);
    drop(stream);
    // The next turn of the session waits for the one that was cancelled; that one neither called the model nor the engine again.
    let answer = ask(gateway.client(), "s", &json!([user("Still there?")]), json!({"tool_choice": "none"}));
    assert_eq!(answer.engine(), Some("recorder"), "a cancelled call is nobody's fault: {answer:?}");
    let asked: Vec<_> =
        model.requests().iter().map(|r| r["messages"].as_array().unwrap().last().unwrap()["role"].clone()).collect();
    assert_eq!(asked[..2], ["user", "user"], "{asked:?}");
    let log = setup.calls();
    let hooks = log.hooks();
    let at = hooks.iter().position(|hook| hook == "call_tool").unwrap();
    assert!(
        !hooks[at + 1..].iter().take_while(|hook| *hook != "assemble").any(|hook| hook == "commit_turn"),
        "{hooks:?}"
    );
    model.requests().iter().for_each(pairs_are_whole);
}

#[test]
fn what_a_loop_did_is_on_disk_before_it_goes_on() {
    let model = model(vec![calls("", &[call("c1", "lookup", "{}")]), says("There.")]);
    let setup = setup(&model, &json!({"tools": tools(&["lookup"]), "slow": {"call_tool": 2_000}}));
    let gateway = setup.start();
    let body = json!({"model": "m", "messages": [user("Go.")]});
    let headers = [("x-engineroom-session", "s"), ("idempotency-key", "k")];
    let asking = std::thread::spawn({
        let (client, body) = (gateway.client().clone(), body.clone());
        move || client.try_post("/v1/chat/completions", &headers, &body).is_ok()
    });
    setup.calls().wait_for("call_tool", 1);
    gateway.kill();
    assert!(!asking.join().unwrap());

    let gateway = setup.start();
    assert_eq!(session(gateway.client(), "s")["entries"], 2, "the user's words, and the call that was under way");
    // The same request again: the steps that led to no answer are taken again, on a branch of their own.
    let answer = gateway.client().post("/v1/chat/completions", &headers, &body);
    assert_eq!(answer.text(), "There.");
    let requests = model.requests();
    assert_eq!(requests.len(), 3);
    assert_eq!(roles(&requests[1]), ["user"]);
    assert_eq!(roles(&requests[2]), ["user", "assistant", "tool"]);
    let committed = setup.calls().wait_for("commit_turn", 1);
    assert_eq!(committed.len(), 1);
    assert_eq!(committed[0]["entries"].as_array().unwrap().len(), 4);
    let replayed = gateway.client().post("/v1/chat/completions", &headers, &body);
    assert_eq!((replayed.text().as_str(), replayed.header("x-engineroom-replayed")), ("There.", Some("true")));
    assert_eq!(model.requests().len(), 3);
}
