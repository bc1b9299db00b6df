//! The doors of the real gateway: nothing that is secret leaves it, whatever fails and however much it logs; names of clients never
//! become paths; the command line uses the gateway's token.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use engineroom_tests::model::{chunk, respond, stream_head};
use engineroom_tests::{Gateway, MockModel, Setup};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const KEY: &str = "sk-planted-model-key-0123456789";
const OWN: &str = "planted-own-token-0123456789";
const DESK: &str = "planted-desk-token-0123456789";
const WRONG: &str = "planted-wrong-token-0123456789";
const PASSWORD: &str = "planted-password-0123456789";
const PLANTED: &str = "planted";

/// One request on a connection of its own; everything that came back.
fn exchange(gateway: &Gateway, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
    let address = gateway.client().base().trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(address).expect("the gateway");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a bound");
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = Vec::new();
    // A refusal may end the connection before all was sent.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn private(path: &Path, text: &str) {
    std::fs::write(path, text).expect("a file");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("its mode");
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        match entry.file_type().expect("a kind").is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found
}

/// A model that repeats the key in every way that it can.
fn telltale() -> MockModel {
    MockModel::start(|request, stream| {
        let said = request["messages"].as_array().and_then(|all| all.last()).map(|last| last["content"].to_string());
        let said = said.unwrap_or_default();
        let error = json!({"error": {"message": format!("bad key {KEY}"), "code": "x", "sent": [{KEY: format!("Bearer {KEY}")}]}});
        match said.trim_matches('"') {
            "stream" => {
                stream_head(stream);
                chunk(stream, json!({"content": "half"}), Value::Null);
                let _ = write!(stream, "data: {error}\n\n");
            }
            "inside" => respond(stream, "200 OK", &error),
            "nonsense" => respond(stream, "200 OK", &json!(KEY)),
            status => respond(stream, &format!("{status} Oops"), &error),
        }
    })
}

#[test]
fn nothing_that_is_secret_leaves_the_gateway() {
    let model = telltale();
    let toml = format!(
        "{}api_key_env = \"DOORS_KEY\"\nmax_attempts = 2\n[gateway.tokens.desk]\nenv = \"DESK_TOKEN\"\nagents = [\"main\"]\n\
         [plugins.entries.window.config]\napi_key = \"{PASSWORD}\"\npin_first_turn = \"yes\"\n\
         [plugins.entries.other.config]\npassword = \"{PASSWORD}\"\ncredentials = {{ user = \"{PASSWORD}\" }}\n",
        model.toml(8_000)
    );
    let setup = Setup::new().library("window").select("window").toml(&toml);
    let token = setup.path().join("token");
    private(&token, OWN);
    let setup = setup
        .env("DOORS_KEY", KEY)
        .env("DESK_TOKEN", DESK)
        .env("ENGINEROOM_GATEWAY_AUTH_TOKEN_FILE", &token)
        .env("ENGINEROOM_LOG", "trace");
    let gateway = setup.start();
    let mut heard = Vec::new();
    let own = format!("Bearer {OWN}");
    let others = [format!("Bearer {DESK}"), format!("Bearer {WRONG}"), format!("Basic {OWN}")];
    let session = ("x-engineroom-session", "s");
    for (number, said) in
        ["400", "401", "403", "404", "413", "429", "500", "503", "stream", "inside", "nonsense"].iter().enumerate()
    {
        for stream in [false, true] {
            let body =
                json!({"model": "m", "stream": stream, "messages": [{"role": "user", "content": said}]}).to_string();
            let key = format!("k{number}{stream}");
            let headers = [("authorization", own.as_str()), session, ("idempotency-key", key.as_str())];
            let answer = exchange(&gateway, "POST", "/v1/chat/completions", &headers, &body);
            let told = answer.contains("***") || *said == "nonsense" || (*said == "stream" && !stream);
            assert!(told, "the error was told, without the key: {said} {answer}");
            heard.push(answer);
        }
    }
    let paths = [
        "/healthz",
        "/readyz",
        "/metrics",
        "/v1/models",
        "/v1/models/x",
        "/api/engines",
        "/api/engines/window",
        "/api/engines/nope",
        "/api/sessions",
        "/api/sessions/s",
        "/api/sessions/s/turns",
        "/api/sessions/s/context",
        "/api/sessions/s/subagents",
        "/nowhere",
    ];
    for path in paths {
        for bearer in others.iter().chain([&own]) {
            for method in ["GET", "POST", "DELETE"].iter().filter(|method| **method != "DELETE" || bearer != &own) {
                heard.push(exchange(&gateway, method, path, &[("authorization", bearer)], "{\"focus\": 1"));
            }
        }
    }
    for broken in ["{", "[]", "{\"messages\": 1}"] {
        heard.push(exchange(&gateway, "POST", "/v1/chat/completions", &[("authorization", &own), session], broken));
    }
    for args in [
        &["doctor"][..],
        &["doctor", "--json"],
        &["plugins", "list"],
        &["plugins", "inspect", "window"],
        &["sessions", "list"],
        &["sessions", "show", "s"],
        &["sessions", "turns", "s"],
        &["sessions", "turns", "s", "--json"],
        &["sessions", "context", "s"],
        &["turn", "--session", "s", "401"],
        &["turn", "--session", "s", "500"],
        &["sessions", "delete", "nope"],
    ] {
        let said = setup.cli(args);
        assert_ne!(said.code, Some(2), "{args:?}: {said:?}");
        heard.push(format!("{}{}", said.stdout, said.stderr));
    }
    let (_, log) = gateway.stop_and_hear();
    assert!(log.contains("TRACE") && log.len() > 10_000, "it did log everything");
    heard.push(log);
    // The same without a gateway, and what is said of a configuration that is refused.
    heard.push(format!("{:?}", setup.cli(&["doctor"])));
    for (name, value) in [
        ("ENGINEROOM_MODEL_BASE_URL", format!("ftp://user:{PASSWORD}@localhost/v1")),
        ("ENGINEROOM_MODEL_BASE_URL", format!("http://user:{PASSWORD}@localhost/v1")),
        ("ENGINEROOM_GATEWAY_AUTH_TOKEN_ENV", format!("{PASSWORD}!")),
    ] {
        let output = setup.command(&["gateway"]).env(name, value).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        heard.push(format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)));
    }
    for text in &heard {
        if let Some(at) = text.find(PLANTED) {
            let from = text[..at].char_indices().rev().nth(300).map_or(0, |(at, _)| at);
            panic!("a secret was told: …{}", &text[from..text.len().min(at + 60)]);
        }
    }
    for file in files(&setup.state()) {
        let bytes = std::fs::read(&file).expect("a file of the state");
        let held = bytes.windows(PLANTED.len()).any(|window| window == PLANTED.as_bytes());
        assert!(!held, "{} holds a secret", file.display());
    }
}

#[test]
fn a_weak_or_open_token_keeps_the_gateway_from_starting_and_the_words_mend_it() {
    let setup = Setup::new();
    let token = setup.path().join("token");
    let setup = setup.env("ENGINEROOM_GATEWAY_AUTH_TOKEN_FILE", &token);
    let refused = |code: &str, words: &str| {
        let said = setup.cli(&["gateway"]);
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.stderr.contains(code) && said.stderr.contains(words), "{said:?}");
    };
    refused("CE106", "umask 077");
    private(&token, "short");
    refused("CE107", "openssl rand -hex 32");
    private(&token, OWN);
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o644)).expect("its mode");
    refused("CE106", &format!("chmod 600 '{}'", token.display()));
    private(&token, OWN);
    let gateway = setup.start();
    assert!(exchange(&gateway, "GET", "/api/engines", &[], "").starts_with("HTTP/1.1 401"));
    let said = setup.cli(&["turn", "--session", "s", "Hello?"]);
    assert_eq!(said.code, Some(0), "the command line uses the same file: {said:?}");
    assert!(setup.cli(&["sessions", "list"]).stdout.contains('s'));
}

#[test]
fn a_command_needs_no_variable_of_a_client() {
    let setup = Setup::new().toml("[gateway.tokens.desk]\nenv = \"DOORS_NEVER_SET\"\nagents = [\"support\"]\n");
    let token = setup.path().join("token");
    private(&token, OWN);
    let setup = setup.env("ENGINEROOM_GATEWAY_AUTH_TOKEN_FILE", &token);
    let said = setup.cli(&["gateway"]);
    assert!(said.code == Some(2) && said.stderr.contains("CE105"), "it cannot serve without: {said:?}");
    assert!(said.stderr.contains("or remove [gateway.tokens.desk]"), "{said:?}");
    let said = setup.cli(&["turn", "--session", "s", "Hello?"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(setup.cli(&["sessions", "list"]).code, Some(0));
    let said = setup.cli(&["doctor"]);
    assert!(said.code == Some(0) && said.stdout.contains("DOORS_NEVER_SET"), "{said:?}");
}

#[test]
fn an_entry_without_effect_is_told_at_the_start_and_by_doctor() {
    let setup =
        Setup::new().library("window").select("window").toml("[plugins.entries.windw]\nisolation = \"process\"\n");
    let said = setup.cli(&["doctor"]);
    assert!(said.code == Some(0) && said.stdout.contains("did you mean \"window\"?"), "{said:?}");
    let said = setup.cli(&["turn", "--session", "s", "Hello?"]);
    assert_eq!(said.stderr.matches("no library has the plugin id").count(), 1, "{said:?}");
    let setup = Setup::new().toml("[plugins.entries.w.limits]\nwrite = [\".\"]\n");
    let said = setup.cli(&["doctor"]);
    assert!(said.code == Some(2) && said.stderr.contains("limits.write"), "{said:?}");
}

#[test]
fn names_of_clients_never_become_paths() {
    let setup = Setup::new().library("window").select("window");
    let gateway = setup.start();
    let long = format!("agent:{}:x", "l/".repeat(200));
    let keys = [
        "../../../../tmp/planted",
        "a/../../b",
        "..",
        ".",
        "/etc/passwd",
        "%2e%2e%2fplanted",
        "agent:../../../planted:x",
        "agent:..:x",
        "agent:.:x",
        "agent:/:x",
        "agent:%2e%2e:x",
        "agent:NUL:x",
        "agent:CON:x",
        "agent:a\\..\\b:x",
        "agent:ünï/cödé:x",
        "agent:~:x",
        &long,
        "C:\\windows",
        "agent:a b:x",
        "\u{202e}x",
    ];
    for key in keys {
        let answer = gateway.client().say(key, "Hello?");
        assert_eq!((answer.status, answer.header("x-engineroom-engine")), (200, Some("window")), "{key}: {answer:?}");
        assert_eq!(answer.degraded(), None, "{key}: a name is nothing that an engine could be blamed for");
        let piece: String = key.bytes().map(|byte| format!("%{byte:02x}")).collect();
        for op in ["", "/context", "/turns", "/subagents"] {
            let shown = gateway.client().get(&format!("/api/sessions/{piece}{op}"));
            assert_eq!(shown.status, 200, "{key}{op}: {shown:?}");
        }
        let cli = setup.cli(&["sessions", "show", "--json", key]);
        assert!(cli.code == Some(0) && cli.stdout.contains("Hello?"), "{key}: {cli:?}");
    }
    for odd in ["%00", "a%00b", "%0a", &"x".repeat(600), "%ff", "%zz"] {
        for (method, op) in
            [("GET", ""), ("DELETE", ""), ("POST", "/compact"), ("GET", "/context"), ("POST", "/subagents")]
        {
            let answer = exchange(&gateway, method, &format!("/api/sessions/{odd}{op}"), &[], "");
            let status = answer.split(' ').nth(1).unwrap_or_default();
            assert!(["400", "404"].contains(&status), "{method} {odd}{op}: {answer}");
        }
    }
    assert!(gateway.stop().success());
    for file in files(&setup.state()) {
        let below = file.strip_prefix(setup.state()).expect("below the state");
        for part in below.components() {
            let part = part.as_os_str().to_str().expect("plain names");
            assert!(
                part.len() <= 160 && part.is_ascii() && !part.contains("..") && !part.contains("planted\0"),
                "{part}"
            );
        }
    }
    let folders = std::fs::read_dir(setup.state()).expect("the state").flatten().map(|entry| entry.file_name());
    let folders: Vec<String> = folders.map(|name| name.to_string_lossy().into_owned()).collect();
    assert!(folders.iter().all(|name| !name.contains("planted")), "{folders:?}");
    for folder in [setup.path(), setup.path().parent().expect("a folder above"), Path::new("/tmp"), Path::new("/")] {
        assert!(!folder.join("planted").exists(), "{} has what a client named", folder.display());
    }
}

#[test]
fn an_isolated_engine_gets_no_secret_that_it_was_not_granted() {
    let model = MockModel::saying("well");
    let toml = format!(
        "{}api_key_env = \"DOORS_KEY\"\n[gateway.tokens.desk]\nenv = \"DESK_TOKEN\"\nagents = [\"*\"]\n",
        model.toml(1_000_000)
    );
    let setup = Setup::new().isolation("process").recorder(&json!({})).toml(&toml);
    let setup = setup.env("DOORS_KEY", KEY).env("DESK_TOKEN", DESK).env("PLANTED_OTHER", PASSWORD);
    let gateway = setup.start();
    let desk = format!("Bearer {DESK}");
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "Hello?"}]}).to_string();
    let headers = [("authorization", desk.as_str()), ("x-engineroom-session", "s")];
    let answer = exchange(&gateway, "POST", "/v1/chat/completions", &headers, &body);
    assert!(answer.contains("x-engineroom-engine: recorder") && answer.contains("well"), "{answer}");
    let engine = exchange(&gateway, "GET", "/api/engines/recorder", &headers[..1], "");
    let engine: Value = serde_json::from_str(engine.split_once("\r\n\r\n").expect("a body").1).expect("JSON");
    let pid = engine["worker"]["pid"].as_u64().unwrap_or_else(|| panic!("no worker: {engine:#}"));
    for what in ["environ", "cmdline"] {
        let told = std::fs::read(format!("/proc/{pid}/{what}")).expect("what the engine reads of itself");
        let told = String::from_utf8_lossy(&told).into_owned();
        assert!(!told.contains(PLANTED) && !told.to_ascii_lowercase().contains("token"), "{what}: {told}");
    }
    // Everything that any hook was told: configuration, settings of the run, session.
    let calls = setup.calls().wait_for("assemble", 1);
    assert!(!calls.is_empty());
    for line in setup.calls().lines() {
        let told = line.to_string();
        assert!(!told.contains(PLANTED) && !told.contains("DOORS_KEY") && !told.contains("DESK_TOKEN"), "{told}");
    }
}
