//! A hook that fails: the same request is answered, the engine is out for the rest of the process, and everybody can see why.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use engineroom_tests::{Answer, Gateway, Setup};
use serde_json::{Value, json};

/// What must be seen after `hook` failed: the engine quarantined with the hook named, in the API, in the log, in `doctor`.
#[track_caller]
fn quarantined(setup: &Setup, gateway: &Gateway, hook: &str, context: &Value) {
    let engines = gateway.client().engines();
    let row = engines["engines"].as_array().unwrap().iter().find(|row| row["id"] == "chaos").unwrap();
    assert_eq!(row["state"], "quarantined", "{context}: {row:#}");
    assert!(row.to_string().contains(hook), "{context}: the hook {hook} is not named: {row:#}");
    let said = setup.cli(&["doctor"]);
    assert_eq!(said.code, Some(1), "{context}: {said:?}");
    for word in ["chaos", hook, "legacy", "hint"] {
        assert!(said.stdout.contains(word), "{context}: doctor does not say {word:?}:\n{}", said.stdout);
    }
    let loud = gateway.stderr();
    assert!(loud.contains("chaos") && loud.contains(hook) && loud.contains("legacy"), "{context}: not loud: {loud}");
}

/// Waits until the failure was seen, at most a minute.
#[track_caller]
fn wait_for_quarantine(gateway: &Gateway, context: &Value) {
    for _ in 0..3_000 {
        let engines = gateway.client().engines();
        if engines["engines"]
            .as_array()
            .unwrap()
            .iter()
            .any(|row| row["id"] == "chaos" && row["state"] == "quarantined")
        {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("{context}: never quarantined: {:#}", gateway.client().engines());
}

/// The next turn of any session is `legacy`'s, and says so.
#[track_caller]
fn out_for_good(gateway: &Gateway, context: &Value) {
    for session in ["s", "another"] {
        let answer = gateway.client().say(session, "And now?");
        assert_eq!((answer.status, answer.engine()), (200, Some("legacy")), "{context}: {answer:?}");
        assert!(answer.degraded().is_some(), "{context}: {answer:?}");
    }
}

/// Document spelling of a hook.
fn spelled(hook: &str) -> String {
    let mut parts = hook.split('_');
    let mut out = parts.next().unwrap().to_owned();
    for part in parts {
        out.push_str(&part[..1].to_uppercase());
        out.push_str(&part[1..]);
    }
    out
}

/// Fails `hook` with `mode` and checks what follows. `act` makes the hook run and gives the answer of that request.
#[track_caller]
fn check(hook: &str, mode: &str, more: Value, act: impl Fn(&Gateway) -> Answer) {
    let mut config = json!({"mode": mode, "hook": hook});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let setup = Setup::new().chaos(&config);
    let gateway = setup.start();
    let answer = act(&gateway);
    assert_eq!(answer.status, 200, "{config}: {answer:?}\n{}", gateway.stderr());
    // A hook after the reply may still be running. Turns of its session wait for it; others, and the next turn after an ephemeral
    // one, do not.
    wait_for_quarantine(&gateway, &config);
    out_for_good(&gateway, &config);
    quarantined(&setup, &gateway, &spelled(hook), &config);
    // Also with a thread that never came back.
    assert!(gateway.stop().success(), "{config}");
}

const EVERY_HOOK: &[&str] =
    &["error", "panic", "panic-bomb", "hang-sleep", "hang-spin", "status-unknown", "reason-not-utf8"];

fn say(gateway: &Gateway) -> Answer {
    gateway.client().say("s", "Is anybody there?")
}

fn say_twice_over_a_restarted_sight(gateway: &Gateway) -> Answer {
    gateway.client().say("s", "First.");
    gateway.client().say("s", "Is anybody there?")
}

#[test]
fn assemble_fails_in_every_way() {
    for mode in EVERY_HOOK.iter().chain(&["no-result"]) {
        check("assemble", mode, json!({}), |gateway| {
            let answer = say(gateway);
            assert_eq!(answer.engine(), Some("legacy"), "{mode}: the same request is answered by legacy: {answer:?}");
            assert!(answer.degraded().is_some(), "{mode}: {answer:?}");
            answer
        });
    }
}

#[test]
fn assemble_answers_nonsense_of_every_kind() {
    for mode in [
        "span-out-of-range",
        "span-reversed",
        "spans-out-of-order",
        "span-twice",
        "unknown-id",
        "role-unknown",
        "call-without-result",
        "result-without-call",
        "current-turn-twice",
        "text-not-utf8",
        "addition-not-utf8",
        "authority-unknown",
    ] {
        check("assemble", mode, json!({"after": 2}), |gateway| {
            assert_eq!(gateway.client().say("s", "One.").engine(), Some("chaos"));
            assert_eq!(gateway.client().say("s", "Two.").engine(), Some("chaos"));
            let answer = gateway.client().say("s", "Three.");
            assert_eq!(
                (answer.engine(), answer.degraded()),
                (Some("legacy"), Some("invalid-result")),
                "{mode}: {answer:?}"
            );
            answer
        });
    }
}

#[test]
fn assemble_splits_a_tool_pair() {
    check("assemble", "split-pair", json!({"after": 0}), |gateway| {
        gateway.client().chat(
            Some("s"),
            json!([
                {"role": "user", "content": "How cold is it?"},
                {"role": "assistant", "content": null, "tool_calls":
                    [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]},
                {"role": "tool", "tool_call_id": "c1", "content": "7"},
                {"role": "assistant", "content": "7 degrees."},
                {"role": "user", "content": "And tomorrow?"}
            ]),
        )
    });
}

#[test]
fn commit_turn_fails_in_every_way_and_the_reply_is_not_touched() {
    for mode in EVERY_HOOK.iter().chain(&["no-result", "commit-status"]) {
        check("commit_turn", mode, json!({}), |gateway| {
            let answer = say(gateway);
            assert_eq!((answer.engine(), answer.degraded()), (Some("chaos"), None), "{mode}: {answer:?}");
            answer
        });
    }
}

#[test]
fn maintain_fails_in_every_way_and_the_reply_is_not_touched() {
    for mode in EVERY_HOOK {
        check("maintain", mode, json!({}), say);
    }
}

#[test]
fn bootstrap_fails_in_every_way() {
    for mode in EVERY_HOOK.iter().chain(&["no-result"]) {
        // A session that has entries is seen for the first time by this process: the second of two gateways.
        let config = json!({"mode": mode, "hook": "bootstrap"});
        let setup = Setup::new().chaos(&config);
        let quiet = setup.start();
        say_twice_over_a_restarted_sight(&quiet);
        assert!(quiet.stop().success());
        let gateway = setup.start();
        let answer = say(&gateway);
        assert_eq!((answer.status, answer.engine()), (200, Some("legacy")), "{config}: {answer:?}");
        out_for_good(&gateway, &config);
        quarantined(&setup, &gateway, "bootstrap", &config);
        assert!(gateway.stop().success(), "{config}");
    }
}

#[test]
fn hooks_of_an_ephemeral_turn_fail_in_every_way() {
    for (hook, hooks) in [
        ("after_turn", json!(["after_turn"])),
        ("ingest_batch", json!(["ingest_batch"])),
        ("ingest", json!([])),
        ("on_session_ended", json!(["on_session_ended"])),
    ] {
        for mode in EVERY_HOOK {
            check(hook, mode, json!({"hooks": hooks}), |gateway| {
                gateway.client().chat(None, json!([{"role": "user", "content": "Is anybody there?"}]))
            });
        }
    }
}

#[test]
fn compact_fails_in_every_way_and_that_call_fails() {
    for mode in EVERY_HOOK.iter().chain(&["no-result", "kept-unknown", "text-not-utf8"]) {
        let config = json!({"mode": mode, "hook": "compact", "owns_compaction": true});
        let setup = Setup::new().chaos(&config).toml("[compaction]\nkeep_recent_tokens = 100\n");
        let gateway = setup.start();
        for n in 0..30 {
            gateway.client().say("s", &format!("Note {n}: ship Aurora-{n} berths at /quay/{n}."));
        }
        let failed = gateway.client().post("/api/sessions/s/compact", &[], &json!({}));
        assert!(failed.status >= 400, "{config}: a failed compaction must not look done: {failed:?}");
        let next = gateway.client().post("/api/sessions/s/compact", &[], &json!({})).json();
        assert_eq!(next["compacted"], true, "{config}: the next call is legacy's: {next:#}");
        out_for_good(&gateway, &config);
        quarantined(&setup, &gateway, "compact", &config);
        assert!(gateway.stop().success(), "{config}");
    }
}

#[test]
fn a_stop_ends_well_also_when_dispose_fails_or_hangs() {
    for mode in ["error", "panic", "panic-in-drop", "panic-bomb", "hang-sleep", "hang-spin"] {
        let setup = Setup::new().chaos(&json!({"mode": mode, "hook": "dispose"}));
        let gateway = setup.start();
        assert_eq!(say(&gateway).engine(), Some("chaos"));
        assert!(gateway.stop().success(), "{mode}");
    }
}

#[test]
fn a_chain_is_walked_down_within_the_turn() {
    let setup = Setup::new().library("window").chaos(&json!({"mode": "error", "hook": "assemble"}));
    let gateway = setup.chain(&["chaos", "window"]);
    let gateway = gateway.start();
    let answer = say(&gateway);
    assert_eq!(answer.engine(), Some("window"), "{answer:?}");
    assert!(answer.degraded().is_some(), "{answer:?}");
}

#[test]
fn a_strict_slot_refuses_instead_of_serving_by_legacy() {
    let setup = Setup::new()
        .chaos(&json!({"mode": "error", "hook": "assemble"}))
        .toml("[plugins.policy.contextEngine]\non_failure = \"strict\"\n");
    let gateway = setup.start();
    let answer = say(&gateway);
    assert!(answer.status >= 500, "{answer:?}");
    assert!(answer.json()["error"]["message"].as_str().unwrap().contains("chaos"), "{answer:?}");
}

#[test]
fn an_engine_without_durable_semantics_is_passed_over_and_that_is_said() {
    let setup = Setup::new().chaos(&json!({"durable": false}));
    let gateway = setup.start();
    let answer = say(&gateway);
    assert_eq!((answer.engine(), answer.degraded()), (Some("legacy"), Some("durable-semantics-missing")), "{answer:?}");
    // It is not its fault: it is asked again, and ephemeral turns are its own.
    let answer = gateway.client().chat(None, json!([{"role": "user", "content": "Hello?"}]));
    assert_eq!((answer.engine(), answer.degraded()), (Some("chaos"), None), "{answer:?}");
    let said = setup.cli(&["doctor"]);
    assert!(said.stdout.contains("durable"), "{}", said.stdout);
}

#[test]
fn a_disabled_engine_is_passed_over_without_quarantine() {
    let setup = Setup::new().library("window").select("window").toml("[plugins.entries.window]\nenabled = false\n");
    let gateway = setup.start();
    let answer = say(&gateway);
    assert_eq!((answer.engine(), answer.degraded()), (Some("legacy"), Some("engine-disabled")), "{answer:?}");
    assert!(!gateway.client().engines().to_string().contains("\"quarantined\""));
}

#[test]
fn host_requirements_that_cannot_be_met_refuse_the_request() {
    // `thread-bootstrap-projection`, which this host does not have.
    let setup = Setup::new().chaos(&json!({"requires": 1 << 6}));
    let gateway = setup.start();
    let answer = say(&gateway);
    assert_eq!(answer.status, 409, "{answer:?}");
    assert!(answer.body.contains("thread-bootstrap-projection"), "{answer:?}");
    assert!(!gateway.client().engines().to_string().contains("\"quarantined\""));
}

#[test]
fn the_offline_model_knows_only_what_the_engine_showed() {
    let setup = Setup::new().chaos(&json!({"drops": "Marisol"}));
    let gateway = setup.start();
    gateway.client().say("s", "My harbour pilot is called Marisol.");
    let answer = gateway.client().say("s", "What is my harbour pilot called?");
    assert_eq!(answer.engine(), Some("chaos"));
    assert!(!answer.text().contains("Marisol"), "{answer:?}");
    gateway.client().say("s", "My lock keeper is called Anselm.");
    assert!(gateway.client().say("s", "What is my lock keeper called?").text().contains("Anselm"));
}

#[test]
fn past_the_cap_of_lost_threads_the_gateway_asks_for_a_restart_and_goes_on_serving() {
    let hangs = json!({"mode": "hang-sleep", "hook": "assemble"});
    let mut setup = Setup::new();
    for id in ["cha01", "cha02"] {
        setup = setup.chaos_copy(id, "in-process", &hangs);
    }
    let setup = setup
        .chaos_copy("cha03", "in-process", &json!({}))
        .chain(&["cha01", "cha02", "cha03"])
        .env("ENGINEROOM_PLUGINS_ABANDONED_THREADS_MAX", "2")
        .toml("[plugins.deadlines]\nassemble_ms = 400\n");
    let gateway = setup.start();
    let client = gateway.client();
    assert_eq!(client.get("/healthz").json(), json!({"status": "ok"}));
    assert_eq!(client.get("/api/engines").json()["abandonedThreads"]["restart"], Value::Null);

    // The first two take a thread each; by then there are as many as there may be, so the third is not called.
    let answer = say(&gateway);
    assert_eq!(
        (answer.status, answer.engine(), answer.degraded()),
        (200, Some("legacy"), Some("deadline")),
        "{answer:?}"
    );
    for session in ["s", "another"] {
        let answer = client.say(session, "And now?");
        assert_eq!((answer.status, answer.engine()), (200, Some("legacy")), "{answer:?}");
    }
    for path in ["/healthz", "/readyz"] {
        let health = client.get(path);
        assert_eq!((health.status, &health.json()["restart"]), (200, &json!(true)), "{path}: {health:?}");
        assert!(health.json()["reason"].as_str().unwrap().contains("restart"), "{health:?}");
    }
    let engines = client.engines();
    let threads = &engines["abandonedThreads"];
    assert_eq!((&threads["live"], &threads["most"]), (&json!(2), &json!(2)), "{threads}");
    let third = engines["engines"].as_array().unwrap().iter().find(|row| row["id"] == "cha03").unwrap();
    assert_eq!(third["state"], "ready", "it is not its fault: {third}");
    let metrics = client.get("/metrics").body;
    for line in ["engineroom_restart_asked 1", "engineroom_abandoned_threads_live 2"] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    let said = setup.cli(&["doctor"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.stdout.contains("no engine is called in-process any more"), "{}", said.stdout);
    let asked = gateway.stderr().matches("no engine is called in-process any more").count();
    assert_eq!(asked, 1, "once in the log: {}", gateway.stderr());
    assert!(gateway.stop().success());
}

#[test]
fn a_strict_gateway_whose_engines_are_all_out_asks_its_supervisor_for_a_restart() {
    let strict = |mode: &str| {
        Setup::new()
            .chaos(&json!({"mode": mode, "hook": "assemble"}))
            .toml("[plugins.policy.contextEngine]\non_failure = \"strict\"\n")
    };
    let setup = strict("error");
    let gateway = setup.start();
    let client = gateway.client();
    for path in ["/readyz", "/healthz"] {
        assert_eq!(client.get(path).status, 200, "{path}: an engine that has not failed yet serves");
    }
    assert_eq!(client.say("s", "Hello?").status, 503);
    for path in ["/readyz", "/healthz"] {
        let answer = client.get(path);
        assert_eq!((answer.status, &answer.json()["restart"]), (503, &json!(true)), "{path}: {answer:?}");
        assert!(answer.json()["reason"].as_str().unwrap().contains("told to fail in assemble"), "{answer:?}");
    }
    // A restart lets it in again, and with the usual policy `legacy` serves: nothing is asked for.
    let setup = strict("none");
    assert_eq!(setup.start().client().say("s", "Hello?").status, 200);
    let setup = Setup::new().chaos(&json!({"mode": "error", "hook": "assemble"}));
    let lenient = setup.start();
    assert_eq!(lenient.client().say("s", "Hello?").engine(), Some("legacy"));
    assert_eq!((lenient.client().get("/readyz").status, lenient.client().get("/healthz").status), (200, 200));
}
