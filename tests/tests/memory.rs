//! The memory slot: notes in a folder reach the model, engines search them and add to them, and whatever happens to the
//! provider, turns go on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use engineroom_tests::{Gateway, MockModel, Setup, model};
use serde_json::{Value, json};
use std::path::PathBuf;

const WINDOW: u32 = 16_000;

/// `notes` selected for a workspace of its own.
fn with_notes() -> Setup {
    // In a worker it may write to a workspace only where that is granted.
    Setup::new().library("notes").memory("notes").toml(
        "[agents.main]\nworkspace_dir = \"workspace\"\n[plugins.entries.notes.limits]\nwrite = [\"workspace\", \"ada\"]\n",
    )
}

fn folder(setup: &Setup) -> PathBuf {
    setup.path().join("workspace/memory")
}

fn note(setup: &Setup, name: &str, text: &str) {
    let path = folder(setup).join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Text of the system prompt of the model's last request; empty when it has none.
fn system(model: &MockModel) -> String {
    let requests = model.requests();
    let first = &requests.last().expect("a request")["messages"][0];
    if first["role"] == "system" { first["content"].as_str().unwrap_or_default().to_owned() } else { String::new() }
}

/// The memory slot as the API shows it.
fn slot(gateway: &Gateway) -> Value {
    gateway.client().engines()["memory"].clone()
}

fn provider(gateway: &Gateway) -> Value {
    slot(gateway)["providers"][0].clone()
}

#[test]
fn the_section_stands_at_the_head_of_legacys_system_prompt_and_survives_a_restart() {
    let model = MockModel::saying("ok");
    let setup = with_notes().toml(&model.toml(WINDOW));
    note(&setup, "MEMORY.md", "- The captain likes tea.\n");
    let gateway = setup.start();
    assert_eq!(slot(&gateway)["effective"], "notes", "{:#}", slot(&gateway));
    let messages = json!([{"role": "system", "content": "You are terse."}, {"role": "user", "content": "Hi"}]);
    let answer = gateway.client().chat(Some("s"), messages.clone());
    assert_eq!((answer.status, answer.engine(), answer.degraded()), (200, Some("legacy"), None), "{answer:?}");
    let first = system(&model);
    assert!(first.starts_with("## Memory") && first.contains("- The captain likes tea."), "{first}");
    assert!(first.ends_with("\n\nYou are terse."), "{first}");

    // The same words as long as the notes are the same: the prefix can be cached.
    gateway.client().say("s", "And?");
    assert!(system(&model).starts_with("## Memory"));
    assert!(gateway.stop().success());
    let gateway = setup.start();
    gateway.client().chat(Some("s2"), messages);
    assert_eq!(system(&model), first);
    // An ephemeral turn has it as well, and a change of the notes is seen at once.
    note(&setup, "MEMORY.md", "- The captain likes coffee.\n");
    gateway.client().chat(None, json!([{"role": "user", "content": "Hi"}]));
    assert!(system(&model).contains("coffee"), "{}", system(&model));
    let turns = gateway.client().get("/api/sessions/s2").json();
    assert!(gateway.stop().success(), "{turns}");
}

#[test]
fn without_a_provider_nothing_is_added() {
    let model = MockModel::saying("ok");
    let setup = Setup::new().library("notes").toml(&model.toml(WINDOW));
    let gateway = setup.start();
    gateway.client().say("s", "Hi");
    assert_eq!(system(&model), "");
    assert_eq!(
        (slot(&gateway)["selected"].clone(), slot(&gateway)["effective"].clone()),
        (json!("none"), json!("none"))
    );
    // What no slot lists is inspected, and no line of it runs.
    let engines = gateway.client().engines();
    let file = engines["plugins"].as_array().unwrap().iter().find(|plugin| plugin["plugin_id"] == "notes").unwrap();
    assert_eq!((file["state"].clone(), file["staged"].clone()), (json!("declared"), Value::Null), "{file:#}");
}

#[test]
fn another_engine_gets_the_section_only_by_asking_for_it() {
    let model = MockModel::saying("ok");
    let silent = with_notes().toml(&model.toml(WINDOW)).recorder(&json!({}));
    note(&silent, "MEMORY.md", "- Moored at pier 9.\n");
    let gateway = silent.start();
    gateway.client().say("s", "Where?");
    assert_eq!(system(&model), "", "the host adds nothing to another engine's prompt");
    drop(gateway);

    let asking = with_notes().toml(&model.toml(WINDOW)).recorder(&json!({"memory": true, "system": "Own words."}));
    note(&asking, "MEMORY.md", "- Moored at pier 9.\n");
    let gateway = asking.start();
    let answer = gateway.client().say("s", "Where?");
    assert_eq!((answer.engine(), answer.degraded()), (Some("recorder"), None), "{}", gateway.stderr());
    let seen = system(&model);
    assert!(seen.contains("pier 9") && seen.ends_with("Own words."), "{seen}");
}

#[test]
fn the_helper_answers_only_the_arguments_that_the_section_was_prepared_for() {
    let model = MockModel::saying("ok");
    let config = json!({"do": {"assemble": ["memory-prompt", "memory-prompt!"], "bootstrap": ["memory-prompt"]}});
    let setup = with_notes().toml(&model.toml(WINDOW)).recorder(&config);
    note(&setup, "MEMORY.md", "- Moored at pier 9.\n");
    let gateway = setup.start();
    let tools = json!([{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]);
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": tools});
    let answer = gateway.client().post("/v1/chat/completions", &[("x-engineroom-session", "s")], &body);
    assert_eq!((answer.engine(), answer.degraded()), (Some("recorder"), None), "{answer:?}");
    let right = &setup.calls().did("memory-prompt")[0];
    assert!(right.as_str().is_some_and(|text| text.contains("pier 9")), "{right}");
    let wrong = &setup.calls().did("memory-prompt!")[0];
    let error = wrong["error"].as_str().unwrap_or_default();
    assert!(error.contains("prepared memory prompt section does not match the current run"), "{wrong}");
}

#[test]
fn engines_search_the_notes_and_add_to_them_only_where_it_is_granted() {
    let model = MockModel::saying("ok");
    let config =
        json!({"do": {"assemble": ["memory-search:door code", "memory-append:The spare key is under the mat."]}});
    let refused = with_notes().toml(&model.toml(WINDOW)).recorder(&config);
    note(&refused, "home.md", "# Home\n\n## Door\nThe code is 4711.\n");
    let gateway = refused.start();
    gateway.client().say("s", "Hi");
    let found = &refused.calls().did("memory-search:door code")[0];
    assert_eq!(found[0], json!({"id": "home.md#L4", "text": "Home › Door\nThe code is 4711."}), "{found}");
    let kept = &refused.calls().did("memory-append:The spare key is under the mat.")[0];
    assert!(kept["error"].is_string(), "{kept}");
    assert_eq!(std::fs::read_dir(folder(&refused)).unwrap().count(), 1, "nothing was written");
    drop(gateway);

    let granted = with_notes().toml(&model.toml(WINDOW)).recorder_granted(&config, &["memory-append"]);
    let gateway = granted.start();
    gateway.client().say("s", "Hi");
    assert_eq!(granted.calls().did("memory-append:The spare key is under the mat."), [json!("kept")]);
    // An engine that is only looked at keeps nothing.
    assert_eq!(gateway.client().get("/api/sessions/s/context").status, 200);
    let looked = granted.calls().did("memory-append:The spare key is under the mat.");
    assert!(looked.iter().skip(1).all(|result| result["error"].is_string()), "{looked:?}");
    // Durable: a killed gateway has lost nothing of it.
    gateway.kill();
    let files: Vec<_> = std::fs::read_dir(folder(&granted)).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let kept = std::fs::read_to_string(&files[0]).unwrap();
    assert_eq!(kept.matches("The spare key is under the mat.").count(), 1, "{kept}");
    let gateway = granted.start();
    gateway.client().say("s", "Again");
    assert!(gateway.client().say("s2", "Third").status == 200);
}

/// A provider that fails in `hook`: every turn is answered by the engine that is selected, without memory, and everybody can
/// see why. `config` is that of an engine that searches in each assembly.
fn goes_on_without(hook: &str, mode: &str) {
    let model = MockModel::saying("ok");
    let context = format!("{mode} in {hook}");
    let setup = Setup::new()
        .toml(&model.toml(WINDOW))
        .chaos_memory(&json!({"mode": mode, "hook": hook}))
        .recorder_granted(&json!({"do": {"assemble": ["memory-search:a", "memory-append:b"]}}), &["memory-append"]);
    let gateway = setup.start();
    for turn in 0..3 {
        let answer = gateway.client().say("s", "Hi");
        let served = (answer.status, answer.engine(), answer.degraded());
        assert_eq!(served, (200, Some("recorder"), None), "{context}, turn {turn}: {answer:?}\n{}", gateway.stderr());
    }
    let shown = slot(&gateway);
    assert_eq!((&shown["selected"], &shown["effective"]), (&json!("chaos"), &json!("none")), "{context}: {shown:#}");
    assert_eq!(shown["code"], "memory-quarantined", "{context}: {shown:#}");
    let row = provider(&gateway);
    assert_eq!((&row["state"], &row["code"]), (&json!("quarantined"), &json!("memory-quarantined")), "{context}");
    let spelled = match hook {
        "memory_prompt" => "memoryPrompt",
        "memory_search" => "memorySearch",
        _ => "memoryAppend",
    };
    assert_eq!(row["quarantine"]["at"], spelled, "{context}: {row:#}");
    assert_eq!(row["quarantine"]["serves"], "none", "{context}: no engine stands in for a memory");
    // The call that failed was the last: the latch is read before each.
    assert_eq!(row["hooks"][spelled]["failures"], 1, "{context}: {row:#}");
    let loud = gateway.stderr();
    let lines = loud.lines().filter(|line| line.contains("turns go on without memory")).count();
    assert_eq!(lines, 1, "{context}: told once, loudly: {loud}");
    let doctor = setup.cli(&["doctor"]);
    assert_eq!(doctor.code, Some(1), "{context}: {doctor:?}");
    for word in ["chaos", spelled, "without memory", "memory-quarantined"] {
        assert!(doctor.stdout.contains(word), "{context}: doctor does not say {word:?}:\n{}", doctor.stdout);
    }
    // No engine was blamed.
    let engines = gateway.client().engines();
    let recorder = engines["engines"].as_array().unwrap().iter().find(|row| row["id"] == "recorder").unwrap();
    assert_eq!((&recorder["state"], &engines["degraded"]), (&json!("ready"), &Value::Null), "{context}: {recorder:#}");
    assert!(gateway.stop().success(), "{context}: also with a thread that never came back");
}

#[test]
fn a_provider_that_fails_in_its_section_costs_no_turn() {
    for mode in ["error", "panic", "panic-bomb", "hang-sleep", "hang-spin"] {
        goes_on_without("memory_prompt", mode);
    }
}

#[test]
fn a_provider_that_fails_in_a_search_costs_no_turn() {
    for mode in ["error", "panic", "hang-sleep", "too-many-hits"] {
        goes_on_without("memory_search", mode);
    }
}

#[test]
fn a_provider_that_fails_to_keep_something_says_so_and_costs_no_turn() {
    for mode in ["error", "panic", "hang-sleep"] {
        goes_on_without("memory_append", mode);
    }
}

#[test]
fn what_fails_while_it_is_built_or_tried_out_never_serves() {
    for config in [
        json!({"mode": "error", "hook": "memory_factory"}),
        json!({"mode": "panic", "hook": "memory_factory", "probe": true}),
        json!({"mode": "error", "hook": "memory_search", "probe": true}),
        json!({"mode": "abort", "hook": "memory_prompt", "probe": true}),
    ] {
        let setup = Setup::new().chaos_memory(&config);
        let gateway = setup.start();
        assert_eq!(gateway.client().say("s", "Hi").status, 200, "{config}");
        let shown = slot(&gateway);
        assert_eq!(
            (&shown["effective"], &shown["code"]),
            (&json!("none"), &json!("memory-refused")),
            "{config}: {shown:#}"
        );
        assert!(gateway.stderr().contains("turns go on without memory"), "{config}: {}", gateway.stderr());
    }
}

#[test]
fn a_missing_a_disabled_and_a_denied_provider_are_none_with_a_code() {
    let cases = [
        (Setup::new().memory("note").library("notes"), "memory-missing", "notes"),
        (with_notes().toml("[plugins.entries.notes]\nenabled = false\n"), "memory-disabled", "notes"),
        (with_notes().env("ENGINEROOM_PLUGINS_DENY", "notes"), "memory-disabled", "deny"),
    ];
    for (setup, code, word) in cases {
        let gateway = setup.start();
        let answer = gateway.client().say("s", "Hi");
        assert_eq!((answer.status, answer.degraded()), (200, None), "{code}: memory degrades no engine");
        let shown = slot(&gateway);
        assert_eq!((&shown["effective"], &shown["code"]), (&json!("none"), &json!(code)), "{shown:#}");
        assert!(gateway.stderr().contains("turns go on without memory"), "{code}: {}", gateway.stderr());
        let doctor = setup.cli(&["doctor"]);
        assert_eq!(doctor.code, Some(1), "{code}: {doctor:?}");
        assert!(doctor.stdout.contains(code) && doctor.stdout.contains(word), "{code}: {}", doctor.stdout);
        let staged = setup.state().join("staged");
        assert!(!staged.exists() || std::fs::read_dir(&staged).unwrap().count() == 0, "{code}: no line of it ran");
    }
}

#[test]
fn a_selected_provider_whose_file_is_gone_is_none_after_a_restart() {
    let model = MockModel::saying("ok");
    let setup = with_notes().toml(&model.toml(WINDOW));
    note(&setup, "MEMORY.md", "- Something.\n");
    let gateway = setup.start();
    gateway.client().say("s", "Hi");
    assert!(system(&model).contains("Something"));
    assert!(gateway.stop().success());
    std::fs::remove_file(setup.plugins().join(engineroom_tests::library_name("notes"))).unwrap();
    let gateway = setup.start();
    assert_eq!(gateway.client().say("s", "Hi").status, 200);
    assert_eq!(system(&model), "");
    assert_eq!((&slot(&gateway)["selected"], &slot(&gateway)["code"]), (&json!("notes"), &json!("memory-missing")));
    assert!(gateway.stderr().contains("no library offers the memory provider notes"), "{}", gateway.stderr());
}

#[test]
fn the_section_counts_in_the_budget_and_never_fills_the_window() {
    let model = MockModel::saying("ok");
    let setup = with_notes()
        .toml(&model.toml(2_000))
        .toml("[memory]\nsection_tokens = 100000\n[plugins.entries.notes.config]\nsection_chars = 100000\n");
    note(&setup, "MEMORY.md", &"- A line that is one of many and says nothing new.\n".repeat(2_000));
    let gateway = setup.start();
    for turn in 0..12 {
        let text = format!("Turn {turn}: {}", "a few more words about the weather at sea ".repeat(8));
        let answer = gateway.client().say("s", &text);
        assert_eq!((answer.status, answer.engine()), (200, Some("legacy")), "turn {turn}: {answer:?}");
        let seen = system(&model);
        assert!(seen.starts_with("## Memory") && seen.ends_with("[…]"), "turn {turn}: {seen}");
        assert!(seen.len() / 5 < 500, "a quarter of the window at most: {} bytes", seen.len());
        let request = model.requests().last().unwrap()["messages"].to_string();
        assert!(request.len() / 6 < 2_000, "turn {turn}: {} bytes", request.len());
        assert!(request.contains(&format!("Turn {turn}:")), "turn {turn}");
    }
}

#[test]
fn citations_are_as_configured_and_an_agent_may_have_no_memory() {
    let model = MockModel::saying("ok");
    let setup = with_notes()
        .toml(&model.toml(WINDOW))
        .toml("[memory]\ncitations = \"on\"\n[agents.quiet.slots]\nmemory = \"none\"\n");
    note(&setup, "MEMORY.md", "- Something.\n");
    let gateway = setup.start();
    gateway.client().say("s", "Hi");
    assert!(system(&model).contains("name its file"), "{}", system(&model));
    gateway.client().say("agent:quiet:s", "Hi");
    assert_eq!(system(&model), "");
    assert_eq!(slot(&gateway)["agents"]["quiet"]["effective"], "none", "{:#}", slot(&gateway));
}

#[test]
fn one_library_may_offer_an_engine_and_a_provider() {
    let model = MockModel::saying("ok");
    let setup = Setup::new().toml(&model.toml(WINDOW)).chaos_memory(&json!({"mode": "none"})).select("chaos");
    let gateway = setup.start();
    let answer = gateway.client().say("s", "Hi");
    assert_eq!((answer.engine(), answer.degraded()), (Some("chaos"), None), "{answer:?}");
    assert_eq!(slot(&gateway)["effective"], "chaos");
    assert_eq!(gateway.client().engines()["effective"], "chaos");
    assert!(gateway.stop().success());
}

/// The answer of a model that calls these tools, or of one that has called enough.
fn calling(request: &Value, stream: &mut std::net::TcpStream, calls: &[(&str, Value)]) {
    let messages = request["messages"].as_array().unwrap();
    let done = messages.iter().filter(|message| message["role"] == "tool").count();
    match calls.get(done) {
        Some((name, arguments)) => {
            let call = json!({"id": format!("call-{done}"), "type": "function",
                "function": {"name": name, "arguments": arguments.to_string()}});
            model::message(stream, json!({"role": "assistant", "content": null, "tool_calls": [call]}), "tool_calls");
        }
        None => model::answer(request, stream, "done"),
    }
}

#[test]
fn the_model_searches_and_keeps_notes_where_its_tools_are_switched_on() {
    let model = MockModel::start(|request, stream| {
        let calls = [
            ("memory_append", json!({"text": "The pilot is called Marisol."})),
            ("memory_search", json!({"query": "pilot"})),
            ("memory_append", json!({"text": ""})),
        ];
        calling(request, stream, &calls);
    });
    let setup = with_notes().toml(&model.toml(WINDOW)).toml("[memory]\ntools = [\"search\", \"append\"]\n");
    let gateway = setup.start();
    let answer = gateway.client().say("s", "Remember the pilot's name: Marisol.");
    assert_eq!(answer.text(), "done", "{answer:?}");
    let requests = model.requests();
    assert_eq!(requests.len(), 4, "{requests:#?}");
    let offered = requests[0]["tools"].to_string();
    assert!(offered.contains("memory_search") && offered.contains("memory_append"), "{offered}");
    assert!(system(&model).contains("`memory_append`"), "{}", system(&model));
    let results: Vec<String> = requests[3]["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(results[0], "kept");
    assert!(results[1].contains("Marisol") && results[1].contains(".md#L"), "{results:?}");
    assert!(results[2].starts_with("error: ") && results[2].contains("empty"), "{results:?}");
    assert_eq!(std::fs::read_dir(folder(&setup)).unwrap().count(), 1);

    // Without the switch, and without a provider, the model is offered nothing.
    for setup in [with_notes(), Setup::new().toml("[memory]\ntools = [\"search\"]\n")] {
        let model = MockModel::saying("ok");
        let setup = setup.toml(&model.toml(WINDOW));
        let gateway = setup.start();
        gateway.client().say("s", "Hi");
        assert_eq!(model.requests()[0].get("tools"), None);
    }
}

#[test]
fn the_turn_record_says_what_the_memory_gave_or_why_it_gave_nothing() {
    let model = MockModel::saying("ok");
    let setup = with_notes().toml(&model.toml(WINDOW));
    note(&setup, "MEMORY.md", "- Something.\n");
    let gateway = setup.start();
    gateway.client().say("s", "Hi");
    let record = last_turn(&gateway);
    assert!(record.contains("\"provider\":\"notes\"") && !record.contains("\"tokens\":0}"), "{record}");
    drop(gateway);
    let setup = Setup::new().memory("gone").toml(&model.toml(WINDOW));
    let gateway = setup.start();
    gateway.client().say("s", "Hi");
    assert!(last_turn(&gateway).contains("memory-missing"), "{}", last_turn(&gateway));
}

fn last_turn(gateway: &Gateway) -> String {
    let turns = gateway.client().get("/api/sessions/s/turns").json();
    turns.to_string()
}

#[test]
fn uninstalling_the_selected_provider_resets_the_slot() {
    let model = MockModel::saying("ok");
    let setup = with_notes().toml(&model.toml(WINDOW)).toml("[agents.own.slots]\nmemory = \"notes\"\n");
    note(&setup, "MEMORY.md", "- Something.\n");
    let gateway = setup.start();
    let config = setup.write_config();
    let away = |args: &[&str]| {
        let mut command = std::process::Command::new(engineroom_tests::built().engineroom());
        let output = command.current_dir(setup.path()).args(args).arg("--config").arg(&config).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let near = away(&["plugins", "uninstall", "note"]);
    assert_eq!(near.0, Some(2), "{near:?}");
    let (code, said) = away(&["plugins", "uninstall", "notes"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("-memory = \"notes\"") && said.contains("+memory = \"none\""), "{said}");
    assert_eq!(std::fs::read_to_string(&config).unwrap().matches("memory = \"none\"").count(), 2);
    assert!(!setup.plugins().join(engineroom_tests::library_name("notes")).exists());
    // What runs goes on with its own copy.
    gateway.client().say("s", "Hi");
    assert!(system(&model).contains("Something"));
    assert!(gateway.stop().success());
    let text = std::fs::read_to_string(&config).unwrap();
    let loaded = away(&["plugins", "list", "--json"]);
    assert_eq!(loaded.0, Some(0), "{text}");
    let doctor = away(&["doctor"]);
    assert_eq!(doctor.0, Some(0), "nothing is missing any more: {}", doctor.1);
}

#[test]
fn each_agent_has_the_notes_of_its_own_workspace() {
    let model = MockModel::saying("ok");
    let setup = with_notes().toml(&model.toml(WINDOW)).toml("[agents.ada]\nworkspace_dir = \"ada\"\n");
    note(&setup, "MEMORY.md", "- Known to everybody else.\n");
    let own = setup.path().join("ada/memory");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join("MEMORY.md"), "- Known to Ada alone.\n").unwrap();
    let gateway = setup.start();
    gateway.client().say("agent:ada:s", "Hi");
    let of_ada = system(&model);
    assert!(of_ada.contains("Ada alone") && !of_ada.contains("everybody"), "{of_ada}");
    gateway.client().say("s", "Hi");
    let of_main = system(&model);
    assert!(of_main.contains("everybody") && !of_main.contains("Ada"), "{of_main}");
    assert_eq!(provider(&gateway)["instances"], 2, "{:#}", provider(&gateway));
}
