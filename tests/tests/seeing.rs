//! What an operator can see of sessions and engines, and settings of one agent.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use engineroom_tests::{Client, MockModel, Setup};
use serde_json::{Value, json};

fn context(client: &Client, session: &str) -> Value {
    client.get(&format!("/api/sessions/{session}/context")).json()
}

fn turns(client: &Client, query: &str) -> Value {
    client.get(&format!("/api/sessions/s/turns{query}")).json()
}

/// Waits until the newest turn tells of this hook, which is called after the reply.
fn settled(client: &Client, hook: &str) {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let newest = turns(client, "?limit=1")["turns"][0].clone();
        if newest["hooks"].as_array().unwrap().iter().any(|call| call["hook"] == hook) {
            return;
        }
        assert!(std::time::Instant::now() < until, "{newest:#}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn states(context: &Value) -> Vec<(&str, Option<u64>)> {
    let entries = context["entries"].as_array().unwrap();
    entries.iter().map(|entry| (entry["state"].as_str().unwrap(), entry["span"].as_u64())).collect()
}

#[test]
fn an_agent_has_a_model_an_engine_and_settings_of_its_own() {
    let (common, own) = (MockModel::saying("common"), MockModel::saying("own"));
    let section = own.toml(9_000).replace("[model]", "[agents.support.model]");
    let setup =
        Setup::new().recorder(&json!({})).library("window").select("window").toml(&common.toml(40_000)).toml(&format!(
            "{section}\n[agents.support.slots]\ncontextEngine = \"recorder\"\n\n\
             [agents.support.compaction]\nreserve_tokens = 1234\n\n[agents.support.pruning]\nenabled = false\n"
        ));
    let gateway = setup.start();
    let client = gateway.client();

    let answer = client.say("agent:support:main", "Hello?");
    assert_eq!(answer.engine(), Some("recorder"), "an engine that only an agent names is loaded: {answer:?}");
    assert!(answer.text().contains("own"), "{answer:?}");
    let answer = client.say("s", "Hello?");
    assert_eq!(answer.engine(), Some("window"), "{answer:?}");
    assert!(answer.text().contains("common"), "{answer:?}");
    assert_eq!((common.requests().len(), own.requests().len()), (1, 1));

    let window = |session: &str| context(client, session)["contextWindow"].as_u64();
    assert_eq!((window("agent%3Asupport%3Amain"), window("s")), (Some(9_000), Some(40_000)));
    let chains = client.get("/api/engines/recorder").json()["chains"].clone();
    assert_eq!(chains, json!([{"agent": "support", "place": 1}]));

    let doctor = setup.cli(&["doctor", "--json"]).json();
    let value = |key: &str| {
        let values = doctor["config"]["values"].as_array().unwrap();
        let found = values.iter().find(|value| value["key"] == key).unwrap_or_else(|| panic!("no {key}"));
        (found["value"].clone(), found["source"].as_str().unwrap().starts_with("file:"))
    };
    assert_eq!(value("agents.support.model.context_window"), (json!(9_000), true));
    assert_eq!(value("agents.support.compaction.reserve_tokens"), (json!(1234), true));
    assert_eq!(value("agents.support.pruning.enabled"), (json!(false), true));
    assert_eq!(doctor["agent_models"]["support"]["context_window"], 9_000, "{doctor:#}");
}

#[test]
fn a_wrong_key_of_an_agent_is_refused_with_the_nearest() {
    let setup = Setup::new().toml("[agents.support.model]\ncontext_windw = 1\n");
    let doctor = setup.cli(&["doctor"]);
    assert_eq!(doctor.code, Some(2), "{doctor:?}");
    assert!(doctor.stderr.contains("context_window"), "{doctor:?}");
}

#[test]
fn the_context_tells_every_entry_with_its_state_span_and_tokens() {
    let setup = Setup::new().recorder(&json!({"turns": 1, "note": "a note", "volatile": "it rains"}));
    let gateway = setup.start();
    let client = gateway.client();
    for text in ["One?", "Two?", "Three?"] {
        client.say("s", text);
    }
    let report = context(client, "s");
    assert_eq!(
        states(&report),
        [
            ("made", None),
            ("kept", Some(1)),
            ("kept", Some(1)),
            ("dropped", None),
            ("dropped", None),
            ("dropped", None),
            ("dropped", None),
        ],
        "{report:#}"
    );
    let totals = &report["totals"];
    assert_eq!((totals["kept"]["entries"].as_u64(), totals["dropped"]["entries"].as_u64()), (Some(2), Some(4)));
    assert_eq!((totals["spans"].as_u64(), totals["made"]["entries"].as_u64()), (Some(1), Some(1)));
    let entries = report["entries"].as_array().unwrap();
    let shown: u64 = entries.iter().filter(|e| e["shown"] == true).map(|e| e["tokens"].as_u64().unwrap()).sum();
    assert_eq!(totals["shown"]["tokens"].as_u64(), Some(shown));
    let additions = totals["additions"].as_u64().unwrap();
    assert!(additions > 0, "{report:#}");
    assert_eq!(report["tokens"].as_u64(), Some(shown + additions));
    assert_eq!(report["volatilePromptAddition"], "it rains");
    assert_eq!((entries[3]["by"].as_str(), entries[1]["by"].as_str()), (Some("recorder"), Some("recorder")));
    assert!(entries[3]["why"].as_str().unwrap().contains("left out by recorder"), "{report:#}");

    client.post("/api/sessions/s/compact", &[], &json!({}));
    let report = context(client, "s");
    let summarised = report["totals"]["summarised"]["entries"].as_u64();
    assert!(summarised >= Some(2) || report["totals"]["dropped"]["entries"].as_u64() >= Some(2), "{report:#}");

    let table = setup.cli(&["sessions", "context", "s"]);
    assert_eq!(table.code, Some(0), "{table:?}");
    for word in ["recorder", "kept", "entry\trole\ttokens\tstate\tspan"] {
        assert!(table.stdout.contains(word), "{word}: {table:?}");
    }
}

#[test]
fn looking_at_the_context_changes_nothing() {
    let setup = Setup::new().recorder(&json!({"do": {"assemble": ["get:looked"]}}));
    let gateway = setup.start();
    gateway.client().say("s", "One?");
    gateway.client().say("s", "Two?");
    setup.calls().wait_for("maintain", 2);
    settled(gateway.client(), "maintain");
    let session = gateway.client().get("/api/sessions/s").body;
    let engine = gateway.client().get("/api/engines/recorder").json();
    setup.calls().clear();
    let report = context(gateway.client(), "s");
    assert_eq!((report["takenUp"].as_bool(), report["engine"].as_str()), (Some(true), Some("recorder")), "{report:#}");
    assert_eq!(setup.calls().hooks(), ["assemble"]);
    assert_eq!(gateway.client().get("/api/sessions/s").body, session);
    assert_eq!(gateway.client().get("/api/engines/recorder").json()["estimates"], engine["estimates"]);
    assert!(gateway.stop().success());

    // An engine that has not taken the session up is not made to.
    let gateway = setup.start();
    setup.calls().clear();
    let report = context(gateway.client(), "s");
    assert_eq!(report["takenUp"], false, "{report:#}");
    assert_eq!(setup.calls().hooks(), ["assemble"]);
    let report = gateway.client().get("/api/sessions/s/context?take_up=true").json();
    assert_eq!(report["takenUp"], true, "{report:#}");
    assert_eq!(setup.calls().hooks(), ["assemble", "bootstrap", "maintain", "tools", "assemble"]);
}

#[test]
fn an_engine_that_fails_under_a_look_stays_in_service_and_what_would_serve_is_shown() {
    let setup = Setup::new().recorder(&json!({"fail": {"assemble": {"after": 2, "times": 1}}}));
    let gateway = setup.start();
    let client = gateway.client();
    client.say("s", "One?");
    client.say("s", "Two?");
    let report = context(client, "s");
    assert_eq!(
        (report["engine"].as_str(), report["selected"].as_str()),
        (Some("legacy"), Some("recorder")),
        "{report:#}"
    );
    assert_eq!(report["passed"][0]["engine"], "recorder");
    let engine = client.get("/api/engines/recorder").json();
    assert_eq!((engine["state"].as_str(), engine["quarantine"].is_null()), (Some("ready"), true), "{engine:#}");
    assert_eq!(engine["hooks"]["assemble"]["failures"], 0, "{engine:#}");
    let next = client.say("s", "Three?");
    assert_eq!((next.engine(), next.degraded()), (Some("recorder"), None), "{next:?}");
}

#[test]
fn a_look_lets_an_engine_keep_nothing_and_says_when_that_is_not_enough() {
    for deed in ["must:llm:Hello?", "put:looked={n}"] {
        let model = MockModel::saying("Fine.");
        let setup = Setup::new().recorder(&json!({"do": {"assemble": [deed]}})).toml(&model.toml(32_000));
        let gateway = setup.start();
        let client = gateway.client();
        assert_eq!(client.say("s", "One?").engine(), Some("recorder"));
        let asked = model.requests().len();
        let answer = client.get("/api/sessions/s/context");
        assert_eq!(answer.status, 409, "{deed}: {answer:?}");
        assert!(answer.body.contains("take_up"), "{deed}: {answer:?}");
        assert_eq!(model.requests().len(), asked, "a look asks no model");
        assert_eq!(client.get("/api/engines/recorder").json()["state"], "ready", "{deed}");
        assert_eq!(client.get("/api/sessions/s/context?take_up=true").status, 200, "{deed}");
    }
}

#[test]
fn the_turns_tell_who_served_why_not_another_and_what_each_hook_took() {
    let setup = Setup::new().recorder(&json!({})).chain(&["absent", "recorder"]);
    let gateway = setup.start();
    let client = gateway.client();
    for text in ["One?", "Two?", "Three?"] {
        client.say("s", text);
    }
    settled(client, "commitTurn");
    let page = turns(client, "?limit=2");
    assert_eq!((page["turns"].as_array().unwrap().len(), page["more"].as_bool()), (2, Some(true)), "{page:#}");
    let newest = &page["turns"][0];
    assert_eq!((newest["engine"].as_str(), newest["selected"].as_str()), (Some("recorder"), Some("absent")));
    assert_eq!((newest["degraded"].as_str(), newest["outcome"].as_str()), (Some("engine-missing"), Some("answered")));
    assert_eq!(newest["passed"][0]["engine"], "absent");
    assert!(newest["passed"][0]["reason"].as_str().unwrap().len() > 5, "{newest:#}");
    assert!(newest["tokens"]["prompt"].as_u64() > Some(0) && newest["tokens"]["limit"].as_u64() > Some(0));
    // What is called after the reply is told, too.
    let hooks: Vec<&str> =
        newest["hooks"].as_array().unwrap().iter().map(|call| call["hook"].as_str().unwrap()).collect();
    assert!(hooks.contains(&"assemble") && hooks.contains(&"commitTurn"), "{newest:#}");
    assert!(newest["hooks"].as_array().unwrap().iter().all(|call| call["took_us"].is_u64()), "{newest:#}");

    let before = page["turns"][1]["turn_id"].as_str().unwrap();
    let older = turns(client, &format!("?limit=2&before={before}"));
    assert_eq!((older["turns"].as_array().unwrap().len(), older["more"].as_bool()), (1, Some(false)), "{older:#}");
    assert!(older["turns"][0]["turn_id"].as_str().unwrap() < before);

    let table = setup.cli(&["sessions", "turns", "s", "--limit", "1"]);
    assert_eq!(table.code, Some(0), "{table:?}");
    assert!(table.stdout.contains("engine-missing") && table.stdout.contains("commitTurn"), "{table:?}");
    assert!(table.stderr.contains("--before"), "{table:?}");
}

#[test]
fn a_deletion_is_told_once_to_every_engine_that_knows_the_session() {
    let setup = Setup::new().recorder(&json!({"do": {"bootstrap": ["scan:entry/"]}})).library("window");
    let gateway = setup.start();
    gateway.client().say("s", "One?");
    setup.calls().wait_for("commit_turn", 1);
    assert!(gateway.stop().success());

    // Another engine serves now; the first one is only next in the chain.
    let setup = setup.chain(&["window", "recorder"]);
    let gateway = setup.start();
    let client = gateway.client();
    assert_eq!(client.say("s", "Two?").engine(), Some("window"));
    let deleted = client.delete("/api/sessions/s").json();
    let told: Vec<(&str, bool)> = deleted["engines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|engine| (engine["engine"].as_str().unwrap(), engine["told"].as_bool().unwrap()))
        .collect();
    assert!(told.contains(&("recorder", true)), "{deleted:#}");
    assert!(told.iter().any(|(engine, _)| *engine == "window"), "{deleted:#}");
    let ended = setup.calls().of("on_session_ended");
    assert_eq!(ended.len(), 1, "{ended:?}");
    assert_eq!(ended[0]["reason"], "Deleted");
    assert_eq!(client.get("/api/sessions/s").status, 404);
    assert_eq!(client.delete("/api/sessions/s").status, 404);
    assert_eq!(setup.calls().of("on_session_ended").len(), 1);
}

#[test]
fn a_reset_begins_anew_under_the_same_key_and_engines_keep_nothing_of_before() {
    let setup = Setup::new().recorder(&json!({"do": {"commit_turn": ["scan:entry/"]}}));
    let gateway = setup.start();
    let client = gateway.client();
    client.say("s", "One?");
    client.say("s", "Two?");
    setup.calls().wait_for("commit_turn", 2);
    let reset = setup.cli(&["sessions", "reset", "s"]);
    assert_eq!(reset.code, Some(0), "{reset:?}");
    assert!(reset.stdout.contains("recorder was told"), "{reset:?}");
    assert_eq!(setup.calls().of("on_session_ended")[0]["reason"], "Reset");
    setup.calls().clear();

    let answer = client.say("s", "Three?");
    assert_eq!((answer.engine(), answer.degraded()), (Some("recorder"), None), "{answer:?}");
    let assemble = setup.calls().wait_for("assemble", 1).remove(0);
    assert_eq!(assemble["history"]["count"], 0, "{assemble:#}");
    setup.calls().wait_for("commit_turn", 1);
    let kept = setup.calls().did("scan:entry/")[0].clone();
    assert_eq!(kept, json!([]), "what was kept before the reset is gone");
    let session = client.get("/api/sessions/s").json();
    assert_eq!(session["branches"].as_array().unwrap().len(), 2, "the old branch stays: {session:#}");
    assert_eq!((session["messages"].as_array().unwrap().len(), session["entries"].as_u64()), (2, Some(6)));
}

#[test]
fn an_engine_is_told_of_with_everything_that_is_known() {
    let setup = Setup::new().recorder(&json!({"fail": {"commit_turn": {"after": 1, "service": true}}}));
    let gateway = setup.start();
    let client = gateway.client();
    client.say("s", "One?");
    client.say("s", "Two?");
    setup.calls().wait_for("commit_turn", 2);
    let engine = client.get("/api/engines/recorder").json();
    for known in ["state", "info", "has", "library", "hooks", "estimates", "backlog", "chains", "plugin", "warnings"] {
        assert!(!engine[known].is_null(), "{known}: {engine:#}");
    }
    assert!(engine["library"]["sha256"].as_str().unwrap().len() == 64, "{engine:#}");
    assert!(engine["hooks"]["assemble"]["mean_us"].as_f64() > Some(0.0), "{engine:#}");
    // The row goes to the store with the next submission of the session, soon.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let backlog = client.get("/api/engines/recorder").json()["backlog"].clone();
        if backlog[0]["session"] == "s" && backlog[0]["turns"] == 1 && backlog[0]["attempts"].as_u64() >= Some(1) {
            break;
        }
        assert!(std::time::Instant::now() < until, "{backlog:#}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(client.get("/api/engines/nobody").status, 404);
    let inspected = setup.cli(&["plugins", "inspect", "recorder"]);
    assert_eq!(inspected.code, Some(0), "{inspected:?}");
    for line in ["engine recorder: ready, serves", "commitTurn", "waiting    s: 1 turn(s)"] {
        assert!(inspected.stdout.contains(line), "{line}: {inspected:?}");
    }
}
