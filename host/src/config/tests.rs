//! What a whole configuration reads as, and what is said about a wrong one.

use super::*;
use crate::diagnostic::Diagnostic;
use std::collections::HashMap;

fn load_text(text: &str, env: &[(&str, &str)], flags: &[(&str, &str, &str)]) -> Result<Loaded, ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plugins.toml");
    std::fs::write(&path, text).unwrap();
    let env: HashMap<String, String> = env.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let mut overrides = Overrides::default();
    for (flag, key, value) in flags {
        overrides.set(flag, key, *value);
    }
    load_from(Some(&path), &overrides, &|name| env.get(name).cloned(), Path::new("/working"))
}

/// The mistakes of a file: code, line and column, message; the hint behind `→`.
fn check(text: &str, expected: &[&str]) {
    let error = load_text(text, &[], &[]).unwrap_err();
    let ConfigError::Invalid { problems, .. } = &error else { panic!("{error}") };
    let shown: Vec<String> = problems
        .iter()
        .map(|p| {
            let hint = p.hint.as_deref().map(|hint| format!(" → {hint}")).unwrap_or_default();
            format!("{} {} {}{hint}", p.code, p.place, p.message)
        })
        .collect();
    assert_eq!(shown, expected);
}

fn source(loaded: &Loaded, key: &str) -> String {
    loaded.origins.iter().find(|origin| origin.key == key).map(|origin| origin.source.to_string()).unwrap_or_default()
}

#[test]
fn an_unknown_key_names_the_nearest_and_its_place() {
    check(
        "[gateway]\nlisten = \"127.0.0.1:1\"\n lisen = 1\n",
        &["CE110 3:2 unknown key gateway.lisen → did you mean listen?"],
    );
    check(
        "[plugins.slots]\ncontext_engine = \"x\"\n",
        &["CE110 2:1 unknown key plugins.slots.context_engine → did you mean contextEngine?"],
    );
    check("[plugin]\n", &["CE110 1:2 unknown key plugin → did you mean plugins?"]);
    check(
        "[plugins.entries.w]\nenable = true\n",
        &["CE110 2:1 unknown key plugins.entries.w.enable → did you mean enabled?"],
    );
    check("[agents.support]\nslot = 1\n", &["CE110 2:1 unknown key agents.support.slot → did you mean slots?"]);
    check(
        "[plugins.deadlines]\nassembel_ms = 1\n",
        &["CE110 2:1 unknown key plugins.deadlines.assembel_ms → did you mean assemble_ms?"],
    );
}

#[test]
fn an_execution_host_says_what_it_needs() {
    let hint = "write command = [\"PROGRAM\", \"ARGUMENT\"]; the turn comes on its standard input";
    check(
        "[model]\nprovider = \"cli\"\n",
        &[&format!("CE114 2:12 model.command is missing, which provider \"cli\" needs → {hint}")],
    );
    check(
        "[model]\nprovider = \"thread\"\n",
        &[
            "CE114 2:12 model.base_url is missing, which provider \"thread\" needs → write the address of the Responses \
           endpoint, up to and including /v1",
        ],
    );
    check(
        "[model]\ncommand = \"agent\"\nenv = [\"A=b\"]\n",
        &[
            "CE111 2:11 model.command must be an array of strings, the program first, is a string",
            "CE112 3:7 model.env must hold names of environment variables, holds \"A=b\" → name the variable; its value \
             comes from the gateway's environment",
        ],
    );
}

#[test]
fn a_command_keeps_its_words_and_a_program_with_a_slash_is_absolute() {
    let text = "[model]\nprovider = \"cli\"\ncommand = [\"./bin/agent\", \"-p\", \"a b\", \"-p\"]\n\
                resume_command = [\"agent\", \"--resume\", \"{session}\"]\n";
    let model = load_text(text, &[], &[]).unwrap().config.model;
    assert!(model.command[0].starts_with('/') && model.command[0].ends_with("/bin/agent"), "{:?}", model.command);
    assert_eq!(model.command[1..], ["-p", "a b", "-p"]);
    assert_eq!(model.resume_command, ["agent", "--resume", "{session}"]);
    let variable = [("ENGINEROOM_MODEL_COMMAND", "agent  --print")];
    let model = load_text("[model]\nprovider = \"cli\"\n", &variable, &[]).unwrap().config.model;
    assert_eq!(model.command, ["agent", "--print"]);
}

#[test]
fn a_key_in_the_wrong_section_is_sent_home() {
    check("[pruning]\nbase_url = \"x\"\n", &["CE110 2:1 unknown key pruning.base_url → base_url belongs to [model]"]);
}

#[test]
fn wrong_types_and_values_say_what_is_expected() {
    check(
        "[gateway]\nlisten = 7421\n",
        &["CE111 2:10 gateway.listen must be an address such as \"127.0.0.1:7421\", is an integer"],
    );
    check(
        "[gateway]\nlisten = \"here\"\n",
        &["CE112 2:10 gateway.listen must be an IP address and a port such as \"127.0.0.1:7421\", is \"here\""],
    );
    check(
        "[plugins.policy.contextEngine]\non_failure = \"stric\"\n",
        &[
            "CE112 2:14 plugins.policy.contextEngine.on_failure must be one of \"fallback\", \"strict\", is \"stric\" → did you mean \"strict\"?",
        ],
    );
    check(
        "[plugins]\nallow = [\"a\", 3]\n",
        &["CE111 2:9 plugins.allow must be an array of strings, is an array with something else"],
    );
    check("plugins = 3\n", &["CE111 1:1 plugins must be a table → write [plugins]"]);
    check(
        "[pruning]\nttl = \"5 parsecs\"\n",
        &["CE112 2:7 pruning.ttl must be a span of time such as \"250ms\", \"10s\" or \"5m\", is \"5 parsecs\""],
    );
    check(
        "[plugins.deadlines]\nassemble_ms = 0\n",
        &["CE112 2:15 plugins.deadlines.assemble_ms must be at least 1, is 0"],
    );
    check(
        "[model]\ncontext_window = 1000\nmax_output_tokens = 1000\n",
        &["CE112 3:21 model.max_output_tokens (1000) must be smaller than model.context_window (1000)"],
    );
    check(
        "[plugins.entries.w]\nsha256 = \"abc\"\n",
        &["CE112 2:10 plugins.entries.w.sha256 must be 64 hexadecimal digits → sha256sum FILE prints them"],
    );
    check(
        "[plugins.slots]\ncontextEngine = [\"a\", \"none\"]\n",
        &["CE112 2:17 plugins.slots.contextEngine \"none\" has no place in a chain → write \"legacy\" as the last"],
    );
}

#[test]
fn several_mistakes_are_told_together() {
    let error = load_text("[gateway]\nlisen = 1\n[model]\nprovider = 2\n", &[], &[]).unwrap_err();
    let report = error.report();
    assert_eq!((report.code, report.causes.len()), ("CE104", 2));
    assert!(report.causes[0].contains("plugins.toml:2:1: unknown key gateway.lisen; did you mean listen?"), "{report}");
    assert!(report.causes[1].starts_with("[CE111]"), "{report}");
}

#[test]
fn what_is_not_toml_is_told_with_its_place() {
    let error = load_text("[gateway]\nlisten = = 1\n", &[], &[]).unwrap_err();
    assert!(matches!(error, ConfigError::Syntax { line: 2, column: 10, .. }), "{error:?}");
}

#[test]
fn columns_count_characters() {
    check(
        "gateway = { \"ö\" = 1, x = 2 }\n",
        &[
            "CE110 1:13 unknown key gateway.ö → known here: listen, hosts, state_dir, auth_token_env, auth_token_file, open_agents, unknown_agents, hot_sessions_bytes, queue_per_session, queue_total, queue_timeout_ms, drain_ms, tokens",
            "CE110 1:22 unknown key gateway.x → known here: listen, hosts, state_dir, auth_token_env, auth_token_file, open_agents, unknown_agents, hot_sessions_bytes, queue_per_session, queue_total, queue_timeout_ms, drain_ms, tokens",
        ],
    );
}

#[test]
fn an_open_door_needs_a_token() {
    check(
        "[gateway]\nlisten = \"0.0.0.0:1\"\n",
        &[
            "CE113 2:10 gateway.listen is 0.0.0.0:1, which is not loopback, and no token is configured → name the token's variable in gateway.auth_token_env or its file in gateway.auth_token_file, or listen on 127.0.0.1",
        ],
    );
    let error = load_text("", &[("ENGINEROOM_GATEWAY_LISTEN", "[::]:80")], &[]).unwrap_err();
    assert!(error.to_string().starts_with("env ENGINEROOM_GATEWAY_LISTEN: "), "{error}");
    assert!(load_text("[gateway]\nlisten = \"0.0.0.0:1\"\nauth_token_env = \"T\"\n", &[], &[]).is_ok());
    assert!(load_text("[gateway]\nlisten = \"[::1]:1\"\n", &[], &[]).is_ok());
}

#[test]
fn a_token_that_is_named_but_not_set_is_an_error() {
    let loaded = load_text("[gateway]\nauth_token_env = \"ENGINEROOM_TEST_NEVER_SET\"\n", &[], &[]).unwrap();
    assert_eq!(loaded.config.gateway.token().unwrap_err().code(), "CE105");
    assert_eq!(Config::defaults("x".into()).gateway.token().unwrap(), None);
}

#[test]
fn named_tokens_say_where_they_are_and_whom_they_are_for() {
    let text = "[gateway.tokens.desk]\nenv = \"DESK\"\nagents = [\"support\"]\n[gateway.tokens.ops]\nfile = \"ops\"\nagents = [\"*\"]\n";
    let loaded = load_text(text, &[], &[]).unwrap();
    let tokens = &loaded.config.gateway.tokens;
    assert_eq!(
        (tokens["desk"].env.as_deref(), tokens["desk"].agents.as_slice()),
        (Some("DESK"), &["support".to_owned()][..])
    );
    assert!(tokens["ops"].file.as_ref().is_some_and(|file| file.is_absolute()));
    assert_eq!(source(&loaded, "gateway.tokens.desk.env"), "file:2");
    check(
        "[gateway]\nauth_token_env = \"A\"\nauth_token_file = \"b\"\n[gateway.tokens.x]\nagents = [\"a\"]\n[gateway.tokens.y]\nenv = \"Y\"\nagent = 1\n",
        &[
            "CE110 8:1 unknown key gateway.tokens.y.agent → did you mean agents?",
            "CE112 3:19 gateway.auth_token_env and gateway.auth_token_file are both set → the token comes from one place: remove one",
            "CE114 5:10 gateway.tokens.x has neither env nor file → name the variable in env, or the file in file",
            "CE114 7:7 gateway.tokens.y.agents is missing → list the agents that it may use, or write agents = [\"*\"]",
        ],
    );
    assert!(
        load_text("[gateway]\nlisten = \"0.0.0.0:1\"\n[gateway.tokens.x]\nenv = \"X\"\nagents = [\"a\"]\n", &[], &[])
            .is_ok()
    );
}

#[test]
fn an_address_that_is_refused_does_not_tell_its_password() {
    check(
        "[model]\nbase_url = \"ftp://user:hunter2@host/v1\"\n",
        &["CE112 2:12 model.base_url must begin with http:// or https://, is \"ftp://***@host/v1\""],
    );
}

#[test]
fn later_sources_win_and_each_value_knows_its_own() {
    let text =
        "[gateway]\nlisten = \"127.0.0.1:1\"\nqueue_per_session = 4\n[plugins.slots]\ncontextEngine = \"file\"\n";
    let env = [
        ("ENGINEROOM_GATEWAY_LISTEN", "127.0.0.1:2"),
        ("ENGINEROOM_PLUGINS_SLOTS_CONTEXT_ENGINE", "recall, window"),
        ("ENGINEROOM_PLUGINS_DEADLINES_ASSEMBLE_MS", "2s"),
        ("ENGINEROOM_MODEL_PROVIDER", " "),
    ];
    let loaded = load_text(text, &env, &[("--listen", "gateway.listen", "127.0.0.1:3")]).unwrap();
    assert_eq!(loaded.config.gateway.listen.port(), 3);
    assert_eq!(loaded.config.plugins.slots.context_engine, ["recall", "window"]);
    assert_eq!(loaded.config.plugins.deadlines.get("assemble"), Some(&2_000));
    assert_eq!(loaded.config.model.provider, "offline");
    assert_eq!(source(&loaded, "gateway.listen"), "flag --listen");
    assert_eq!(source(&loaded, "gateway.queue_per_session"), "file:3");
    assert_eq!(source(&loaded, "plugins.slots.contextEngine"), "env ENGINEROOM_PLUGINS_SLOTS_CONTEXT_ENGINE");
    assert_eq!(source(&loaded, "plugins.deadlines.assemble_ms"), "env ENGINEROOM_PLUGINS_DEADLINES_ASSEMBLE_MS");
    assert_eq!(source(&loaded, "model.provider"), "default");
}

#[test]
fn a_wrong_variable_or_flag_is_named() {
    let error = load_text("", &[("ENGINEROOM_GATEWAY_DRAIN_MS", "soon")], &[]).unwrap_err();
    assert!(
        error.to_string().starts_with("env ENGINEROOM_GATEWAY_DRAIN_MS: gateway.drain_ms must be a span"),
        "{error}"
    );
    let error = load_text("", &[], &[("--listen", "gateway.listen", "x")]).unwrap_err();
    assert!(error.to_string().starts_with("flag --listen: "), "{error}");
    let error = load_text("", &[], &[("--set", "gateway.drain", "5")]).unwrap_err();
    assert_eq!((error.code(), error.hint().as_deref()), ("CE110", Some("did you mean gateway.drain_ms?")));
}

#[test]
fn the_policy_of_trust_can_only_be_tightened_from_outside_and_keys_stand_in_the_file() {
    let policy = |written: &str, env: &str, flag: &str| {
        let env = [("ENGINEROOM_PLUGINS_TRUST_POLICY", env)];
        let flags = [("--set", "plugins.trust.policy", flag)];
        let text = format!("[plugins.trust]\npolicy = \"{written}\"\n");
        load_text(&text, if env[0].1.is_empty() { &[] } else { &env }, if flag.is_empty() { &[] } else { &flags })
            .map(|loaded| loaded.config.plugins.trust_policy)
            .map_err(|error| error.to_string())
    };
    assert_eq!(policy("any", "pinned", ""), Ok(TrustPolicy::Pinned));
    assert_eq!(policy("pinned", "pinned", "signed"), Ok(TrustPolicy::Signed));
    for (written, env, flag) in [("pinned", "any", ""), ("signed", "", "pinned"), ("any", "pinned", "any")] {
        let why = policy(written, env, flag).unwrap_err();
        assert!(why.contains("can only be tightened"), "{why}");
    }
    let key = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
    let text = format!("[plugins.trust]\nkeys = [\"{key}\"]\n");
    assert_eq!(load_text(&text, &[], &[]).unwrap().config.plugins.trust_keys, [key]);
    let why = load_text(&text, &[("ENGINEROOM_PLUGINS_TRUST_KEYS", key)], &[]).unwrap_err().to_string();
    assert!(why.contains("in the file only"), "{why}");
    check(
        "[plugins.trust]\nkeys = [\"untrusted comment: minisign public key\"]\n",
        &[
            "CE112 2:8 plugins.trust.keys must hold public keys of minisign, holds \"untrusted comment: minisign public key\" → a key is the second line of minisign.pub: 56 characters that begin with RW",
        ],
    );
}

#[test]
fn relative_paths_start_at_the_file_and_in_flags_at_the_working_folder() {
    let loaded = load_text(
        "[gateway]\nstate_dir = \"state\"\n[plugins]\ndir = \"./p\"\nlinks = [\"/abs/x.so\", \"l\"]\n",
        &[],
        &[("--plugins", "plugins.dir", "q")],
    )
    .unwrap();
    let base = loaded.config.path.parent().unwrap().to_path_buf();
    assert_eq!(loaded.config.gateway.state_dir, base.join("state"));
    assert_eq!(loaded.config.plugins.dir, Path::new("/working/q"));
    assert_eq!(loaded.config.plugins.links, [PathBuf::from("/abs/x.so"), base.join("l")]);
}

#[test]
fn the_state_folder_is_the_users_when_nothing_is_said() {
    let state = |env: &[(&str, &str)]| load_text("", env, &[]).unwrap().config.gateway.state_dir;
    if cfg!(target_os = "macos") {
        assert_eq!(state(&[("HOME", "/h")]), Path::new("/h/Library/Application Support/engineroom"));
    } else {
        assert_eq!(state(&[("HOME", "/h")]), Path::new("/h/.local/state/engineroom"));
        assert_eq!(state(&[("HOME", "/h"), ("XDG_STATE_HOME", "/s")]), Path::new("/s/engineroom"));
        assert_eq!(state(&[("HOME", "/h"), ("XDG_STATE_HOME", "relative")]), Path::new("/h/.local/state/engineroom"));
    }
}

#[test]
fn blank_none_and_legacy_are_legacy() {
    for written in ["\"\"", "\" \"", "\"none\"", "\"legacy\"", "[]", "[\"legacy\"]"] {
        let loaded = load_text(&format!("[plugins.slots]\ncontextEngine = {written}\n"), &[], &[]).unwrap();
        assert_eq!(loaded.config.plugins.slots.context_engine, ["legacy"], "{written}");
    }
    assert!(load_text("", &[], &[]).unwrap().config.plugins.slots.context_engine.is_empty());
    let loaded = load_text("[plugins.slots]\nmemory = \"none\"\n", &[], &[]).unwrap();
    assert_eq!(loaded.config.plugins.slots.memory, None);
}

#[test]
fn entries_and_agents_are_read_whole() {
    let loaded = load_text(
        "[plugins.entries.window]\nisolation = \"process\"\ngrants = [\"sessions\"]\n\
         [plugins.entries.window.config]\npin_first_turn = true\nratio = 0.5\nday = 2026-01-02\napi_key = \"k\"\nnested = { a = [1, 2] }\n\
         [plugins.entries.window.limits]\nmemory_mb = 512\nread = [\"models\"]\nsandbox = \"required\"\n\
         [agents.support]\nworkspace_dir = \"w\"\n[agents.support.slots]\ncontextEngine = [\"recall\", \"window\"]\n",
        &[],
        &[],
    )
    .unwrap();
    let entry = &loaded.config.plugins.entries["window"];
    assert!(entry.enabled);
    assert_eq!(entry.isolation, Isolation::Process);
    assert_eq!(
        serde_json::Value::from(entry.config.clone()),
        serde_json::json!({"pin_first_turn": true, "ratio": 0.5, "day": "2026-01-02", "api_key": "k", "nested": {"a": [1, 2]}})
    );
    let limits = LimitsConfig {
        memory_mb: 512,
        read: vec![loaded.config.path.with_file_name("models")],
        sandbox: SandboxMode::Required,
        ..LimitsConfig::default()
    };
    assert_eq!(entry.limits, limits);
    assert_eq!(entry_limits_default(), (1024, false, SandboxMode::BestEffort));
    let agent = &loaded.config.agents["support"];
    assert_eq!(agent.slots.context_engine, ["recall", "window"]);
    assert_eq!(agent.workspace_dir.as_deref(), Some(loaded.config.path.with_file_name("w").as_path()));
    assert_eq!(source(&loaded, "agents.support.slots.contextEngine"), "file:17");
    let shown = loaded.origins.iter().find(|origin| origin.key == "plugins.entries.window.config").unwrap();
    assert_eq!(shown.value["api_key"], "***");
    let shown = loaded.origins.iter().find(|origin| origin.key == "agents.support.slots.contextEngine").unwrap();
    assert_eq!(shown.value, serde_json::json!(["recall", "window"]));
}

/// What a worker may use of which nobody says anything.
fn entry_limits_default() -> (u64, bool, SandboxMode) {
    let LimitsConfig { memory_mb, network, sandbox, .. } = EntryConfig::default().limits;
    (memory_mb, network, sandbox)
}

#[test]
fn limits_have_least_values_and_no_strangers() {
    for (line, expected) in [
        ("memory_mb = 1", "plugins.entries.w.limits.memory_mb must be at least 64, is 1"),
        ("open_files = \"many\"", "plugins.entries.w.limits.open_files must be a whole number, is a string"),
        ("sandbox = \"none\"", "must be one of \"best-effort\", \"required\""),
        ("memory = 512", "unknown key plugins.entries.w.limits.memory"),
    ] {
        let error = load_text(&format!("[plugins.entries.w.limits]\n{line}\n"), &[], &[]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn an_agent_inherits_what_it_does_not_set_whatever_source_that_came_from() {
    let loaded = load_text(
        "[model]\ncontext_window = 64000\nmax_output_tokens = 900\n[compaction]\nkeep_recent_tokens = 7\n\
         [agents.support.model]\ncontext_window = 8000\n[agents.support.compaction]\nreserve_tokens = 5\n\
         [agents.\"a.b\".pruning]\nttl = \"1m\"\n",
        &[("ENGINEROOM_MODEL_TIMEOUT_MS", "77"), ("ENGINEROOM_MODEL_CONTEXT_WINDOW", "32000")],
        &[],
    )
    .unwrap();
    let config = &loaded.config;
    let support = config.model_of("support");
    assert_eq!((support.context_window, support.max_output_tokens, support.timeout_ms), (8_000, 900, 77));
    assert_eq!(config.model.context_window, 32_000);
    let compaction = config.compaction_of("support");
    assert_eq!((compaction.reserve_tokens, compaction.keep_recent_tokens), (5, 7));
    assert_eq!((config.pruning_of("a.b").ttl_ms, config.pruning_of("support").ttl_ms), (60_000, 300_000));
    assert_eq!(config.model_of("other"), &config.model);
    let of = |key: &str| {
        loaded.origins.iter().find(|origin| origin.key == key).map(|o| (o.value.clone(), o.source.to_string()))
    };
    assert_eq!(of("agents.support.model.context_window"), Some((8_000.into(), "file:7".into())));
    assert_eq!(of("agents.a.b.pruning.ttl"), Some((60_000.into(), "file:11".into())));
}

#[test]
fn a_wrong_setting_of_an_agent_is_named_with_its_place() {
    check(
        "[agents.support.model]\ncontext_windw = 1\n",
        &["CE110 2:1 unknown key agents.support.model.context_windw → did you mean context_window?"],
    );
    check(
        "[agents.support.compaction]\nenabled = 1\n",
        &["CE111 2:11 agents.support.compaction.enabled must be true or false, is an integer"],
    );
    check(
        "[agents.support.model]\nmax_output_tokens = 200000\n",
        &["CE112 2:21 agents.support.model.max_output_tokens (200000) must be smaller than \
           agents.support.model.context_window (128000)"],
    );
}

#[test]
fn a_missing_default_file_is_noted_and_a_missing_named_one_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let none = |_: &str| None;
    let loaded = load_from(None, &Overrides::default(), &none, folder.path()).unwrap();
    assert!(!loaded.from_file);
    assert!(loaded.notes[0].contains("no plugins.toml"), "{:?}", loaded.notes);
    let error = load_from(Some(Path::new("x.toml")), &Overrides::default(), &none, folder.path()).unwrap_err();
    assert_eq!(error.code(), "CE101");
}

#[test]
fn the_repositorys_own_file_is_good() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins.toml");
    let loaded = load_from(Some(&path), &Overrides::default(), &|_| None, Path::new("/working")).unwrap();
    assert_eq!(loaded.config.plugins.slots.context_engine, ["window"]);
    assert!(loaded.config.gateway.state_dir.ends_with("state"));
}

#[test]
fn every_hook_can_be_given_a_deadline() {
    for hook in crate::slot::Hook::ALL {
        assert!(DEADLINE_NAMES.contains(&hook.key()), "{hook}");
    }
}

#[test]
fn a_worker_is_never_given_what_belongs_to_the_gateway() {
    let entry = |write: &str| format!("[plugins.entries.w.limits]\nwrite = [{write:?}]\n");
    for (write, what) in [
        ("state", "the state folder"),
        (".", "the state folder"),
        ("/", "the state folder"),
        ("nope/../state", "the state folder"),
        ("state/transcript.db", "the gateway's own state"),
        ("state/staged/x", "the gateway's own state"),
        ("plugins", "the plugins folder"),
        ("plugins/inner", "the plugins folder"),
        ("plugins.toml", "the configuration"),
        ("linked", "a linked plugin"),
        ("secret", "a token"),
    ] {
        let text = format!(
            "[gateway]\nstate_dir = \"state\"\nauth_token_file = \"secret/token\"\n[plugins]\nlinks = [\"linked/x.so\"]\n{}",
            entry(write)
        );
        let error = load_text(&text, &[], &[]).unwrap_err();
        let report = error.report();
        assert_eq!(error.code(), "CE112", "{write}: {report}");
        assert!(report.message.contains(":7:9: plugins.entries.w.limits.write holds"), "{write}: {report}");
        assert!(report.message.contains(&format!("could change {what} (")), "{write}: {report}");
    }
    for write in ["workspace", "state/agents/main/workspace", "plugins2"] {
        let text = format!("[gateway]\nstate_dir = \"state\"\n{}", entry(write));
        assert!(load_text(&text, &[], &[]).is_ok(), "{write}");
    }
}

#[test]
fn a_link_to_the_state_folder_is_the_state_folder() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("state")).unwrap();
    std::os::unix::fs::symlink(folder.path().join("state"), folder.path().join("other")).unwrap();
    let mut config = Config::defaults(folder.path().join("plugins.toml"));
    config.gateway.state_dir = folder.path().join("state");
    assert_eq!(config.of_the_gateway(&folder.path().join("other")).unwrap().0, "the state folder");
    assert!(config.of_the_gateway(&folder.path().join("third")).is_none());
}

#[test]
fn a_sandbox_cannot_be_required_where_there_is_none() {
    let hint = "write isolation = \"process\" in [plugins.entries.w], or remove sandbox";
    let required = "[plugins.entries.w.limits]\nsandbox = \"required\"\n";
    check(
        &format!("[plugins.entries.w]\nisolation = \"in-process\"\n{required}"),
        &[&format!(
            "CE112 4:11 plugins.entries.w.limits.sandbox is \"required\", and plugins.entries.w.isolation is \"in-process\", \
             where there is no sandbox → {hint}"
        )],
    );
    check(
        &format!("[plugins]\nisolation = \"in-process\"\n{required}"),
        &[&format!(
            "CE112 4:11 plugins.entries.w.limits.sandbox is \"required\", and plugins.isolation is \"in-process\", where \
             there is no sandbox → {hint}"
        )],
    );
    let own = "[plugins]\nisolation = \"in-process\"\n[plugins.entries.w]\nisolation = \"process\"\n";
    assert!(load_text(&format!("{own}{required}"), &[], &[]).is_ok());
}

#[test]
fn an_empty_list_of_agents_is_not_a_missing_one() {
    check(
        "[gateway.tokens.x]\nenv = \"A\"\nagents = []\n",
        &[
            "CE112 3:10 gateway.tokens.x.agents names no agent → list the agents that it may use, or write agents = [\"*\"]",
        ],
    );
}

#[test]
fn without_a_home_folder_only_an_unsaid_state_folder_is_worth_a_note() {
    let notes = |text: &str| load_text(text, &[], &[]).unwrap().notes;
    assert!(notes("").iter().any(|note| note.contains("no home folder")));
    assert_eq!(notes("[gateway]\nstate_dir = \"state\"\n"), Vec::<String>::new());
}

#[test]
fn without_a_file_here_the_users_counts_then_the_systems_and_else_it_is_said_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let [working, home, system] = ["working", "home", "system"].map(|name| folder.path().join(name));
    let user = home.join(if cfg!(target_os = "macos") {
        "Library/Application Support/engineroom"
    } else {
        ".config/engineroom"
    });
    for dir in [&working, &user, &system] {
        std::fs::create_dir_all(dir).unwrap();
    }
    let env = |name: &str| (name == "HOME").then(|| home.display().to_string());
    let found = || elsewhere(&env, &working, &system);
    assert_eq!(found(), None);
    let told = load_from(None, &Overrides::default(), &env, &working).unwrap();
    assert!(!told.from_file && told.config.plugins.slots.context_engine.is_empty(), "{:?}", told.config.plugins.slots);
    let place = user.join(DEFAULT_FILE).display().to_string();
    assert!(told.notes.iter().any(|note| note.contains("legacy serves") && note.contains(&place)), "{:?}", told.notes);
    for dir in [&system, &user] {
        std::fs::write(dir.join(DEFAULT_FILE), "").unwrap();
        assert_eq!(found(), Some(dir.join(DEFAULT_FILE)));
    }
    std::fs::write(working.join(DEFAULT_FILE), "").unwrap();
    assert_eq!(found(), None, "the working folder's comes first");
}
