//! Lines of `docs/conformance.md` that only the real binary with a real library can show.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use engineroom_tests::{Setup, built, library_name};
use serde_json::json;

#[test]
fn a_factory_gets_its_configuration_and_its_folders() {
    let setup =
        Setup::new().recorder(&json!({"system": "as configured"})).toml("[agents.main]\nworkspace_dir = \"work\"\n");
    std::fs::create_dir(setup.path().join("work")).unwrap();
    std::fs::create_dir_all(setup.state().join("agents").join("main")).unwrap();
    let gateway = setup.start();
    gateway.client().say("one", "hello").text();
    let made = setup.calls().of("factory");
    assert_eq!(made.len(), 1, "one instance: {made:?}");
    assert_eq!(made[0]["registeredId"], "recorder");
    assert_eq!((&made[0]["agentDir"], &made[0]["workspaceDir"]), (&json!(true), &json!(true)));
}

#[test]
fn an_engine_without_an_entry_gets_an_empty_configuration() {
    let bytes = std::fs::read(built().library("recorder")).unwrap();
    let setup = Setup::new().file(&library_name("recorder"), &bytes).select("recorder");
    let gateway = setup.start();
    assert_eq!(gateway.client().say("one", "hello").engine(), Some("recorder"));
}

#[test]
fn plugins_that_are_switched_off_together_leave_legacy_whatever_the_slot_says() {
    let setup = Setup::new().recorder(&json!({})).env("ENGINEROOM_PLUGINS_ENABLED", "false");
    let gateway = setup.start();
    let answer = gateway.client().say("one", "hello");
    assert_eq!((answer.engine(), answer.degraded()), (Some("legacy"), Some("engine-disabled")));
    assert!(setup.calls().lines().is_empty(), "no line of it ran");
}

#[test]
fn a_restart_asks_a_quarantined_engine_again() {
    let setup = Setup::new().recorder(&json!({"fail": {"assemble": {"times": 1}}}));
    for round in ["first", "second"] {
        let gateway = setup.start();
        let answer = gateway.client().say("one", "hello");
        assert_eq!((answer.engine(), answer.degraded()), (Some("legacy"), Some("engine-quarantined")), "{round}");
        let engines = gateway.client().engines();
        assert_eq!(
            engines["engines"].as_array().unwrap().iter().filter(|row| row["state"] == "quarantined").count(),
            1
        );
        gateway.stop();
    }
    assert_eq!(setup.calls().of("assemble").len(), 2, "once a process: {:?}", setup.calls().hooks());
}

#[test]
fn an_engine_that_rejects_a_call_is_not_asked_again_with_less() {
    let setup = Setup::new().recorder(&json!({"fail": {"assemble": {"times": 1, "message": "unknown field"}}}));
    let gateway = setup.start();
    assert_eq!(gateway.client().say("one", "hello").engine(), Some("legacy"));
    assert_eq!(setup.calls().of("assemble").len(), 1);
}

/// What stderr says of the engine, and the word that tells this failure from the others.
fn loud(setup: &Setup, word: &str) -> String {
    let gateway = setup.start();
    let answer = gateway.client().say("one", "hello");
    assert_eq!(answer.engine(), Some("legacy"), "{word}");
    let said = gateway.stderr();
    let line = said.lines().find(|line| line.contains("It is out until the gateway restarts"));
    let line = line.unwrap_or_else(|| panic!("{word}: nothing is loud: {said}")).to_owned();
    assert!(line.contains(word), "{word} is not in: {line}");
    let start = line.find("context engine").unwrap();
    line[start..].to_owned()
}

#[test]
fn every_kind_of_failure_is_told_by_a_line_of_its_own() {
    let chaos = |config: serde_json::Value| Setup::new().chaos(&config);
    let lines = [
        loud(&chaos(json!({"mode": "error", "hook": "factory"})), "factory"),
        loud(&chaos(json!({"mode": "panic", "hook": "factory"})), "panicked"),
        loud(&chaos(json!({"id": " "})), "contract check"),
        loud(&Setup::new().select("nowhere"), "no library offers the engine"),
        loud(&chaos(json!({"mode": "error", "hook": "assemble"})), "assemble"),
    ];
    for (place, line) in lines.iter().enumerate() {
        for other in &lines[..place] {
            assert_ne!(line, other);
        }
    }
}

#[test]
fn doctor_knows_what_the_running_gateway_knows_and_makes_a_healthy_engine_itself() {
    let setup = Setup::new().recorder(&json!({"fail": {"assemble": {"after": 1}}}));
    // Nobody serves: doctor takes the stages of a start, and finds the engine as it is.
    let alone = setup.cli(&["doctor", "--json"]);
    assert_eq!(alone.code, Some(0), "{}", alone.stdout);
    assert_eq!(alone.json()["slots"]["contextEngine"]["effective"], "recorder");
    let gateway = setup.start();
    assert_eq!(gateway.client().say("one", "hello").engine(), Some("recorder"));
    assert_eq!(setup.cli(&["doctor"]).code, Some(0));
    assert_eq!(gateway.client().say("one", "again").engine(), Some("legacy"));
    let said = setup.cli(&["doctor", "--json"]);
    assert_eq!(said.code, Some(1), "{}", said.stdout);
    let findings = said.json()["findings"].clone();
    let found = findings.as_array().unwrap().iter().find(|finding| finding["subject"] == "recorder").unwrap();
    assert_eq!((&found["level"], &found["at"]), (&json!("failed"), &json!("assemble")), "{findings}");
    assert!(found["hint"].is_string(), "{findings}");
}

#[test]
fn an_agent_has_an_engine_a_model_and_a_compaction_of_its_own() {
    let agents = "[model]\nprovider = \"offline\"\ncontext_window = 4000\nmax_output_tokens = 256\n\
                  [agents.support.slots]\ncontextEngine = \"legacy\"\n[agents.support.model]\ncontext_window = 4100\n\
                  [agents.support.compaction]\nenabled = false\n";
    let setup = Setup::new().recorder(&json!({})).toml(agents);
    let gateway = setup.start();
    let client = gateway.client();
    let (main, support) = ("agent:main:desk", "agent:support:desk");
    let compacted = |key: &str| {
        let session = client.get(&format!("/api/sessions/{key}")).json();
        session["messages"].as_array().unwrap().iter().any(|row| row["role"] == "compaction")
    };
    // Both grow alike, until the one has been compacted ahead of its next turn.
    for turn in 0..80 {
        let text = format!("Message {turn} of many: {}", "the tide goes out and the boats lie on the sand ".repeat(3));
        assert_eq!(client.say(main, &text).engine(), Some("recorder"));
        assert_eq!(client.say(support, &text).engine(), Some("legacy"));
        if compacted(main) {
            break;
        }
    }
    assert!(compacted(main), "the gateway's own settings compact");
    // Past the point at which the gateway's settings would compact its somewhat larger window, too.
    for turn in 0..3 {
        client.say(support, &format!("One more, number {turn}: {}", "the boats lie on the sand ".repeat(3))).text();
    }
    assert!(!compacted(support), "the agent's do not");
    let window = |key: &str| client.get(&format!("/api/sessions/{key}/context")).json()["contextWindow"].clone();
    assert_eq!((window(main), window(support)), (json!(4000), json!(4100)));
}
