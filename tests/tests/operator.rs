//! What an operator of `recall` tries: a model without tools, a question to the context, settings that do nothing, a deletion.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use engineroom_tests::model::{answer, respond};
use engineroom_tests::{MockModel, Setup};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

fn recall() -> Setup {
    Setup::new().library("recall").select("recall")
}

#[test]
fn a_model_that_takes_no_tools_is_asked_again_without_the_engines_and_it_is_remembered() {
    let model = MockModel::start(|request, stream| match request["tools"].is_array() {
        true => {
            let message = "registry.ollama.ai/library/m does not support tools";
            respond(
                stream,
                "400 Bad Request",
                &json!({"error": {"message": message, "type": "api_error", "code": null}}),
            );
        }
        false => answer(request, stream, "Yes."),
    });
    let setup = recall().toml(&model.toml(32_000));
    let gateway = setup.start();
    let client = gateway.client();
    for n in 0..3 {
        let said = client.say("s", &format!("Question {n}?"));
        assert_eq!((said.status, said.text().as_str(), said.engine()), (200, "Yes.", Some("recall")), "{said:?}");
    }
    let offered: Vec<bool> = model.requests().iter().map(|request| request["tools"].is_array()).collect();
    assert_eq!(offered, [true, false, false, false]);
    let turns = client.get("/api/sessions/s/turns").json();
    let told: Vec<&Value> = turns["turns"].as_array().unwrap().iter().map(|turn| &turn["tools_withheld"]).collect();
    assert!(told.iter().all(|told| told.as_str().unwrap().contains("does not support tools")), "{turns:#}");
    let log = gateway.stderr();
    assert_eq!(log.matches("the model takes no tools").count(), 1, "{log}");
    assert!(log.contains("[plugins.entries.recall.config]"), "{log}");
    // The client's own are the client's to leave out.
    let own = json!([{"type": "function", "function": {"name": "own", "parameters": {"type": "object"}}}]);
    let body = json!({"model": "mock", "messages": [{"role": "user", "content": "And mine?"}], "tools": own});
    let refused = client.post("/v1/chat/completions", &[("x-engineroom-session", "own")], &body);
    let error = refused.json()["error"].clone();
    assert_eq!((refused.status, &error["diagnostic"]), (400, &json!("CE513")), "{error:#}");
    assert!(error["hint"].as_str().unwrap().contains("the client send its request without tools"), "{error:#}");
}

#[test]
fn a_question_to_the_context_shows_what_would_be_found_for_it_whole_and_leaves_no_trace() {
    let setup = recall().toml(&MockModel::saying("Noted.").toml(2_600));
    let gateway = setup.start();
    let client = gateway.client();
    let old = "The spare key of the boathouse at Quarrendon hangs behind the third barometer.";
    client.say("s", old);
    for n in 0..160 {
        client.say(
            "s",
            &format!("Day {n}: the tide table says {n} more, and {} boxes of rope are left in the shed.", n * 3),
        );
    }
    let before = client.get("/api/sessions/s/context").json();
    assert!(!before["volatilePromptAddition"].as_str().unwrap_or("").contains("barometer"), "{before:#}");
    let ask = ["sessions", "context", "s", "--ask", "Where does the spare key of the boathouse hang?"];
    let asked = setup.cli(&[&ask[..], &["--json"]].concat()).json();
    let found = asked["volatilePromptAddition"].as_str().unwrap_or_default();
    assert!(found.contains("third barometer") && found.len() > 200, "{asked:#}");
    let last = asked["entries"].as_array().unwrap().iter().rfind(|entry| entry["shown"] == true).unwrap();
    assert_eq!((&last["why"], &last["id"]), (&json!("the question, which is not stored"), &Value::Null));
    let whole = setup.cli(&[&ask[..], &["--full"]].concat());
    assert!(whole.stdout.contains("third barometer") && !whole.stdout.contains('…'), "{whole:?}");
    let table = setup.cli(&ask);
    assert!(
        table.stdout.contains("entry: the store's id") || table.stderr.contains("entry: the store's id"),
        "{table:?}"
    );
    assert_eq!(client.get("/api/sessions/s/context").json()["entries"], before["entries"], "nothing is left of it");
    assert_eq!(client.get("/api/sessions/s/context?ask=%20").status, 400);
}

#[test]
fn settings_that_do_nothing_or_do_not_fit_are_told_by_doctor() {
    let findings = |config: &str| {
        let lines = format!("[plugins.entries.recall.config]\n{config}\n");
        let doctor = recall().toml(&lines).cli(&["doctor", "--json"]).json();
        doctor["findings"].to_string()
    };
    let told = findings("other_sessions = true\ngists = \"model\"");
    assert!(told.contains("recall.config.other_sessions = true has no effect without the grant"), "{told}");
    assert!(told.contains("gists = \\\"model\\\" has no effect with the gateway's model"), "{told}");
    let told = findings("retrieved_share = \"lots\"");
    assert!(
        told.contains(
            "recall.config.retrieved_share is \\\"lots\\\"; it takes a number from 0 to 0.75 or \\\"auto\\\""
        ),
        "{told}"
    );
    let told = findings("retrived_share = 0.5");
    assert!(told.contains("did you mean \\\"retrieved_share\\\"?"), "{told}");
}

/// True when the bytes stand in a file of the folder; what is below it are libraries.
fn stands_in(folder: &Path, bytes: &[u8]) -> bool {
    let files = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()).filter(|path| path.is_file());
    // One may go meanwhile.
    files
        .into_iter()
        .any(|file| std::fs::read(file).is_ok_and(|all| all.windows(bytes.len()).any(|part| part == bytes)))
}

#[test]
fn no_word_of_a_deleted_session_stays_in_the_state_folder() {
    let setup = recall();
    let gateway = setup.start();
    let client = gateway.client();
    for n in 0..8 {
        client.say(
            "gone",
            &format!("Always greet me as Zephyrine-{n}; {}", "the harbour is closed on Mondays. ".repeat(200)),
        );
        client.say("stays", &format!("Call the dog Barnabas-{n}."));
    }
    assert!(stands_in(&setup.state(), b"Zephyrine"));
    assert_eq!(client.delete("/api/sessions/gone").status, 200);
    let until = Instant::now() + Duration::from_secs(60);
    while stands_in(&setup.state(), b"Zephyrine") {
        assert!(Instant::now() < until, "it is still there");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(stands_in(&setup.state(), b"Barnabas"));
    gateway.stop();
    assert!(!stands_in(&setup.state(), b"Zephyrine"));
    assert_eq!(setup.cli(&["store", "shrink"]).code, Some(0));
    assert!(stands_in(&setup.state(), b"Barnabas"));
    assert_eq!(setup.cli(&["store", "check"]).code, Some(0));
}
