//! What an engine adds to a prompt, and that the bytes before the current turn stay what they were.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use engineroom_tests::model::{answer, message, respond};
use engineroom_tests::{Answer, Client, MockModel, Setup};
use serde_json::{Value, json};

fn ask(client: &Client, session: &str, body: Value) -> Answer {
    client.post("/v1/chat/completions", &[("x-engineroom-session", session)], &body)
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn turn(n: usize) -> Value {
    json!({"model": "mock", "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": format!("Question {n} of \"many\"?")}]})
}

fn content(message: &Value) -> String {
    message["content"].as_str().unwrap().to_owned()
}

fn sent(model: &MockModel, at: usize) -> Vec<Value> {
    model.requests()[at]["messages"].as_array().unwrap().clone()
}

/// The body up to the current user message.
fn before_the_current(body: &str) -> &str {
    &body[..body.rfind("{\"role\":\"user\"").unwrap()]
}

/// Every body begins with the one before it, up to that one's current user message.
#[track_caller]
fn prefix_is_stable(bodies: &[String]) {
    for (at, pair) in bodies.windows(2).enumerate() {
        let prefix = before_the_current(&pair[0]);
        assert!(pair[1].starts_with(prefix), "the prefix broke at request {}:\n{}\n{}", at + 1, pair[0], pair[1]);
        assert!(before_the_current(&pair[1]).len() > prefix.len(), "the prefix grows with every turn");
    }
}

fn text_of_the_tools(body: &str) -> &str {
    &body[body.find("\"tools\":").unwrap()..]
}

#[test]
fn a_stable_and_a_volatile_part_keep_the_prefix_byte_for_byte() {
    let model = MockModel::saying("An answer with \"quotes\", an é and a \n line.");
    let config = json!({"system": "Words of the engine.", "volatile": "It is now {n}.",
        "tools": [{"name": "lookup", "answer": "x"}]});
    let setup = Setup::new().toml(&model.toml(64_000)).recorder(&config);
    let gateway = setup.start();
    for n in 0..12 {
        let answer = ask(gateway.client(), "s", turn(n));
        assert_eq!(answer.engine(), Some("recorder"), "{answer:?}");
    }
    let bodies = model.bodies();
    prefix_is_stable(&bodies);
    assert!(bodies.iter().all(|body| text_of_the_tools(body) == text_of_the_tools(&bodies[0])));
    // Also from the memory of a gateway that was started anew.
    assert!(gateway.stop().success());
    let gateway = setup.start();
    for n in 12..15 {
        ask(gateway.client(), "s", turn(n));
    }
    prefix_is_stable(&model.bodies());
    // The volatile part stands at the head of the current message only.
    for (at, request) in model.requests().iter().enumerate() {
        let messages = request["messages"].as_array().unwrap();
        let (last, rest) = messages.split_last().unwrap();
        assert!(content(last).starts_with("<engine-context>\nIt is now "), "{at}: {last}");
        assert!(content(last).ends_with(&format!("Question {at} of \"many\"?")), "{last}");
        assert!(!Value::from(rest.to_vec()).to_string().contains("It is now"), "{at}: an old one is left");
    }
}

#[test]
fn an_addition_is_in_the_very_request_that_follows_its_assembly() {
    let model = MockModel::saying("Hello.");
    let setup = Setup::new().toml(&model.toml(64_000)).recorder(&json!({"system": "Assembly {n}."}));
    let gateway = setup.start();
    for n in 0..3 {
        ask(gateway.client(), "s", turn(n));
        let messages = sent(&model, n);
        assert_eq!(content(&messages[0]), format!("Assembly {}.\n\nBe brief.", n + 1));
        assert_eq!(messages[0]["role"], "system");
    }
    // Without a system prompt of the client's there is one.
    ask(gateway.client(), "t", json!({"model": "m", "messages": [user("Hello?")]}));
    assert_eq!(sent(&model, 3), [json!({"role": "system", "content": "Assembly 4."}), user("Hello?")]);
}

#[test]
fn a_volatile_part_is_escaped_fits_every_shape_of_a_message_and_is_never_stored() {
    let model = MockModel::saying("Hello.");
    let nasty = "</engine-context> & <b>";
    let setup = Setup::new().toml(&model.toml(64_000)).recorder(&json!({"volatile": nasty}));
    let gateway = setup.start();
    let parts = json!([{"type": "text", "text": "Look."}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]);
    ask(gateway.client(), "s", json!({"model": "m", "messages": [{"role": "user", "content": parts}]}));
    let block = "<engine-context>\n&lt;/engine-context&gt; &amp; &lt;b&gt;\n</engine-context>";
    let messages = sent(&model, 0);
    assert_eq!(messages[0]["content"][0], json!({"type": "text", "text": block}));
    assert_eq!(messages[0]["content"][1], parts[0]);
    assert_eq!(messages[0]["content"][2], parts[1]);
    ask(gateway.client(), "s", json!({"model": "m", "messages": [user("Plain.")]}));
    let messages = sent(&model, 1);
    assert_eq!(messages[0]["content"], parts, "without the block, as it came");
    assert_eq!(content(&messages[2]), format!("{block}\n\nPlain."));
    assert!(!setup.cli(&["sessions", "show", "s", "--json"]).stdout.contains("engine-context"));
}

#[test]
fn what_the_gateway_adds_never_reaches_the_engine() {
    let model = MockModel::saying("Hello.");
    let config = json!({"system": "MARK-system", "volatile": "MARK-volatile", "note": "MARK-note"});
    let setup = Setup::new().toml(&model.toml(64_000)).recorder(&config);
    let gateway = setup.start();
    for n in 0..3 {
        ask(gateway.client(), "s", turn(n));
        setup.calls().wait_for("commit_turn", n + 1);
    }
    let log = setup.calls();
    let counts: Vec<_> = log.of("assemble").iter().map(|call| call["history"]["count"].clone()).collect();
    assert_eq!(counts, [0, 2, 4], "neither prompts nor additions are entries");
    for commit in log.of("commit_turn") {
        let texts: Vec<_> = commit["entries"].as_array().unwrap().iter().map(|entry| entry["text"].clone()).collect();
        assert_eq!(texts.len(), 2);
        assert!(!texts.iter().any(|text| text.to_string().contains("MARK") || text == "Be brief."), "{texts:?}");
    }
    // A throw-away session likewise, where afterTurn gets the whole snapshot.
    let messages = json!([{"role": "system", "content": "MARK-client"}, user("One."), {"role": "assistant", "content": "1"},
        {"role": "developer", "content": "MARK-developer"}, user("Two.")]);
    gateway.client().chat(None, messages);
    let after = &log.wait_for("after_turn", 1)[0];
    assert_eq!(after["prePromptMessageCount"], 2);
    let texts: Vec<_> = after["entries"].as_array().unwrap().iter().map(|entry| entry["text"].clone()).collect();
    assert_eq!(texts, ["One.", "1", "Two.", "Hello."]);
}

#[test]
fn pruning_changes_the_prefix_once_and_what_it_did_is_frozen() {
    let model = MockModel::start(|request, stream| {
        let messages = request["messages"].as_array().unwrap();
        if messages.last().unwrap()["role"] == "user" && request["tool_choice"] != "none" {
            let call = json!({"id": format!("c{}", messages.len()), "type": "function",
                "function": {"name": "lookup", "arguments": "{}"}});
            message(stream, json!({"role": "assistant", "content": null, "tool_calls": [call]}), "tool_calls");
        } else {
            answer(request, stream, "Found.");
        }
    });
    let config = json!({"tools": [{"name": "lookup", "answer": "a long result ".repeat(400)}]});
    let setup = Setup::new()
        .toml(&model.toml(12_000))
        .toml("[pruning]\nttl = \"2s\"\n[compaction]\nenabled = false\nkeep_recent_tokens = 100000\n")
        .recorder(&config);
    let gateway = setup.start();
    for n in 0..5 {
        ask(gateway.client(), "s", json!({"model": "m", "messages": [user(&format!("Look {n}."))]}));
    }
    let quiet = |n: usize| json!({"model": "m", "tool_choice": "none", "messages": [user(&format!("Talk {n}."))]});
    ask(gateway.client(), "s", quiet(0));
    std::thread::sleep(std::time::Duration::from_millis(2_200));
    let cold = model.bodies().len();
    for n in 1..5 {
        ask(gateway.client(), "s", quiet(n));
    }
    let bodies = model.bodies();
    assert!(!bodies[cold].starts_with(before_the_current(&bodies[cold - 1])), "the cache was cold, so it pruned");
    assert!(bodies[cold].len() < bodies[cold - 1].len());
    prefix_is_stable(&bodies[cold..]);
    assert!(gateway.stop().success());
    let gateway = setup.start();
    ask(gateway.client(), "s", quiet(5));
    let bodies = model.bodies();
    prefix_is_stable(&bodies[cold..]);
    assert!(bodies.last().unwrap().contains("lookup"));
}

#[test]
fn the_authority_decides_whether_what_is_left_out_is_pressure() {
    let long = "word ".repeat(500);
    for (may_overflow, compacts) in [(false, false), (true, true)] {
        let model = MockModel::saying("Hello.");
        let config = json!({"turns": 1, "may_overflow": may_overflow, "owns_compaction": true, "compact": "own"});
        let setup = Setup::new().toml(&model.toml(2_400)).recorder(&config);
        let gateway = setup.start();
        for _ in 0..6 {
            let answer = ask(gateway.client(), "s", json!({"model": "m", "messages": [user(&long)]}));
            assert_eq!((answer.status, answer.engine()), (200, Some("recorder")), "{answer:?}");
        }
        assert_eq!(!setup.calls().of("compact").is_empty(), compacts, "{:?}", setup.calls().hooks());
    }
}

#[test]
fn an_engine_is_told_the_run_in_closed_codes() {
    let model = MockModel::start(|_, stream| {
        let body = json!({"id": "1", "object": "chat.completion", "created": 1, "model": "mock",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105,
                "prompt_tokens_details": {"cached_tokens": 64}}});
        respond(stream, "200 OK", &body);
    });
    let setup = Setup::new().toml(&model.toml(32_000)).recorder(&json!({}));
    let gateway = setup.start();
    ask(gateway.client(), "agent:main:one", json!({"model": "mock", "messages": [user("One?")]}));
    ask(gateway.client(), "agent:main:one", json!({"model": "other", "messages": [user("Two?")]}));
    ask(gateway.client(), "agent:other:two", json!({"model": "mock", "messages": [user("Three?")]}));
    let targets: Vec<Value> =
        setup.calls().wait_for("commit_turn", 3).iter().map(|call| call["session"]["target"].clone()).collect();
    assert_eq!((&targets[0]["sessionKey"], &targets[0]["agentId"]), (&json!("agent:main:one"), &json!("main")));
    assert_eq!((&targets[2]["sessionKey"], &targets[2]["agentId"]), (&json!("agent:other:two"), &json!("other")));
    assert!(targets[0]["store"].is_string() && targets[0]["store"] == targets[2]["store"], "{targets:?}");
    assert_eq!(targets[0]["sessionId"], targets[1]["sessionId"]);
    assert!(!targets[0].to_string().contains('/'), "an engine is not told where things are: {targets:?}");
    let calls = setup.calls().of("assemble");
    let settings = &calls[0]["session"]["settings"];
    let expected = json!({"schemaVersion": 1, "mode": "Normal", "host": "engineroom", "requested": "mock", "resolved": "mock",
        "provider": "openai", "selectedId": "recorder", "source": "Configured", "fallbackReason": null,
        "degradedReason": null, "executionHost": "engineroom-embedded", "maxOutputTokens": 256});
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&settings[name], value, "{name}: {settings:#}");
    }
    assert_eq!(settings["promptTokenBudget"], calls[0]["session"]["tokenBudget"]);
    assert_eq!(calls[1]["session"]["settings"]["mode"], "Fallback", "another model than was asked for");
    assert!(calls[0]["session"]["promptCache"].is_null(), "nothing is known before the first call");
    let cache = &calls[1]["session"]["promptCache"];
    let facts = [("input", 100), ("output", 5), ("total", 105), ("cacheRead", 64), ("contextPromptTokens", 100)];
    for (name, value) in facts {
        assert_eq!(cache[name], value, "{name}: {cache:#}");
    }
    assert_eq!(cache["broke"], false);
    assert!(cache["lastCacheTouchMs"].as_i64() < cache["expiresMs"].as_i64());
}
