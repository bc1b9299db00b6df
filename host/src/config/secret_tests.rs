use super::*;
use crate::config::Config;
use crate::diagnostic::Diagnostic;
use std::os::unix::fs::{PermissionsExt, symlink};

const GOOD: &str = "0123456789abcdef0123456789abcdef";

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Files {
        Files(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }
}

fn gateway() -> GatewayConfig {
    Config::defaults("/x/plugins.toml".into()).gateway
}

fn of_file(path: PathBuf) -> Result<Option<Secret>, ConfigError> {
    GatewayConfig { auth_token_file: Some(path), ..gateway() }.token()
}

#[test]
fn a_token_of_a_private_file_is_read_without_its_line_end() {
    let files = Files::new();
    assert_eq!(of_file(files.file("t", &format!("{GOOD}\n"), 0o600)).unwrap().unwrap().reveal(), GOOD);
    assert_eq!(of_file(files.file("u", GOOD, 0o400)).unwrap().unwrap().reveal(), GOOD);
}

#[test]
fn a_file_that_others_can_read_is_refused_with_the_command_that_mends_it() {
    let files = Files::new();
    for mode in [0o640, 0o604, 0o620, 0o602, 0o644, 0o666, 0o610] {
        let path = files.file("t", GOOD, mode);
        let error = of_file(path.clone()).unwrap_err();
        assert_eq!(error.code(), "CE106", "{mode:o}");
        assert_eq!(error.hint().unwrap(), format!("chmod 600 '{}'", path.display()), "{mode:o}");
    }
}

#[test]
fn what_is_no_file_of_a_token_is_refused_and_never_waited_for() {
    let files = Files::new();
    let fifo = files.0.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, Mode::from_bits_truncate(0o600), 0)
        .unwrap();
    let rows = [
        (files.0.path().join("absent"), "No such file"),
        (files.0.path().to_owned(), "no regular file"),
        (fifo, "no regular file"),
        (files.file("empty", " \n", 0o600), "empty"),
        (files.file("large", &GOOD.repeat(200), 0o600), "no token"),
    ];
    for (path, reason) in rows {
        let error = of_file(path.clone()).unwrap_err();
        assert_eq!(error.code(), "CE106", "{error}");
        assert!(error.to_string().contains(reason), "{error}");
        assert!(error.hint().unwrap().contains("openssl"), "{error}");
    }
}

#[test]
fn a_link_may_stay_in_its_folder_and_may_not_leave_it() {
    let (files, elsewhere) = (Files::new(), Files::new());
    let inner = files.file("real", GOOD, 0o600);
    let link = files.0.path().join("link");
    symlink(&inner, &link).unwrap();
    assert!(of_file(link).is_ok());
    let outer = elsewhere.file("t", GOOD, 0o600);
    let away = files.0.path().join("away");
    symlink(&outer, &away).unwrap();
    let error = of_file(away).unwrap_err();
    assert!(error.to_string().contains("outside its folder"), "{error}");
    assert!(error.hint().unwrap().contains("gateway.auth_token_file = "), "{:?}", error.hint());
}

#[test]
fn a_token_that_can_be_guessed_is_refused() {
    let files = Files::new();
    for (text, reason) in [
        ("secret", "6 characters"),
        ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "1 different"),
        ("ababababababababababab", "2 different"),
        ("0123456789 bcdef0123456789abcdef", "no header"),
        ("0123456789äbcdef0123456789abcdef", "no header"),
    ] {
        let error = of_file(files.file("t", text, 0o600)).unwrap_err();
        assert_eq!(error.code(), "CE107", "{text}: {error}");
        assert!(error.to_string().contains(reason) && !error.to_string().contains(text), "{error}");
        assert!(error.hint().unwrap().contains("openssl rand -hex 32"));
    }
}

#[test]
fn named_tokens_come_beside_the_gateway_s_own() {
    let files = Files::new();
    let mut config = gateway();
    let token = |name: &str, text: &str, agents: &[&str]| TokenConfig {
        env: None,
        file: Some(files.file(name, text, 0o600)),
        agents: agents.iter().map(|&agent| agent.to_owned()).collect(),
    };
    config.tokens.insert("desk".into(), token("desk", &format!("{GOOD}1"), &["support"]));
    config.tokens.insert("ops".into(), token("ops", &format!("{GOOD}2"), &["*"]));
    assert!(config.has_token());
    assert_eq!(config.token().unwrap().unwrap().reveal(), format!("{GOOD}2"), "the command line needs all of it");
    config.auth_token_file = Some(files.file("own", GOOD, 0o600));
    let tokens = config.tokens().unwrap();
    let names: Vec<_> = tokens.iter().map(|token| (token.name.as_deref(), token.unlimited())).collect();
    assert_eq!(names, [(None, true), (Some("desk"), false), (Some("ops"), true)]);
    assert_eq!(config.token().unwrap().unwrap().reveal(), GOOD);
    config.tokens.insert("twin".into(), token("twin", GOOD, &["main"]));
    let error = config.tokens().unwrap_err();
    assert_eq!((error.code(), error.to_string().contains(GOOD)), ("CE108", false), "{error}");
}

#[test]
fn the_command_line_reads_its_own_token_and_no_variable_of_a_client() {
    let files = Files::new();
    let mut config = gateway();
    let token = |env: Option<&str>, file: Option<PathBuf>, agent: &str| TokenConfig {
        env: env.map(str::to_owned),
        file,
        agents: vec![agent.to_owned()],
    };
    config.tokens.insert("desk".into(), token(Some("ENGINEROOM_TEST_NEVER_SET"), None, "support"));
    let error = config.token().unwrap_err();
    assert_eq!(error.code(), "CE105");
    let hint = error.hint().unwrap();
    assert!(hint.ends_with("or remove [gateway.tokens.desk]"), "{hint}");
    config.tokens.insert("ops".into(), token(None, Some(files.file("ops", &format!("{GOOD}2"), 0o600)), "*"));
    assert_eq!(config.token().unwrap().unwrap().reveal(), format!("{GOOD}2"));
    config.auth_token_file = Some(files.file("own", GOOD, 0o600));
    assert_eq!(config.token().unwrap().unwrap().reveal(), GOOD);
    assert_eq!(config.tokens().unwrap_err().code(), "CE105", "the gateway needs all of them");
    config.auth_token_file = Some(files.0.path().join("absent"));
    assert_eq!(config.token().unwrap_err().code(), "CE106", "its own is never passed over");
}

#[test]
fn a_folder_in_place_of_a_token_file_is_told_with_a_command_that_works() {
    let files = Files::new();
    let error = of_file(files.0.path().to_owned()).unwrap_err();
    assert!(error.to_string().contains("it is a folder"), "{error}");
    let inside = std::fs::canonicalize(files.0.path()).unwrap().join("token");
    assert!(error.hint().unwrap().contains(&format!("> '{}')", inside.display())), "{:?}", error.hint());
}

#[test]
fn nothing_that_holds_a_secret_shows_it() {
    let secret = Secret::new("hunter2-and-more");
    assert_eq!(format!("{secret:?}"), "***");
    let mut config = Config::defaults("/x/plugins.toml".into());
    let inner = serde_json::json!({"api_key": "hunter2", "credentials": {"user": "hunter2"}, "list": [{"password": "hunter2"}]});
    let entry = crate::config::EntryConfig { config: inner.as_object().unwrap().clone(), ..Default::default() };
    config.plugins.entries.insert("x".into(), entry);
    let shown = format!("{config:?}{config:#?}");
    assert!(!shown.contains("hunter2") && shown.contains("api_key"), "{shown}");
}

#[test]
fn a_url_is_shown_without_user_and_query() {
    for (url, shown) in [
        ("ftp://user:pass@host/x", "ftp://***@host/x"),
        ("user:p@ss@host", "***@host"),
        ("http://host/v1?key=abc", "http://host/v1?***"),
        ("http://host:1/v1", "http://host:1/v1"),
    ] {
        assert_eq!(shown_url(url), shown);
    }
}
