use super::*;
use crate::config::Secret;
use axum::http::HeaderValue;

const LOOPBACK: &str = "127.0.0.1:7421";

fn token(text: &str, agents: &[&str]) -> Token {
    Token { name: None, secret: Secret::new(text), agents: agents.iter().map(|&agent| agent.to_owned()).collect() }
}

fn guard(listen: &str, tokens: &[&str]) -> Guard {
    let tokens: Vec<Token> = tokens.iter().map(|text| token(text, &["*"])).collect();
    Guard::new(listen.parse().unwrap(), &[], &tokens, &["*".to_owned()])
}

fn status_at(guard: &Guard, uri: &str, headers: &[(&'static str, &str)]) -> u16 {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    guard.admit(&map, &uri.parse().unwrap()).map_or_else(|error| error.status(), |_| 200)
}

fn status(listen: &str, tokens: &[&str], headers: &[(&'static str, &str)]) -> u16 {
    status_at(&guard(listen, tokens), "/v1/models", headers)
}

#[test]
fn loopback_names_come_in_with_any_port() {
    let hosts = [
        "127.0.0.1:7421",
        "127.0.0.1",
        "localhost:80",
        "LocalHost",
        "[::1]:7421",
        "[::1]",
        "127.9.9.9",
        "localhost.",
        "localhost.:7421",
        "[0:0:0:0:0:0:0:1]:1",
        "[::ffff:127.0.0.1]:7421",
    ];
    for host in hosts {
        assert_eq!(status(LOOPBACK, &[], &[("host", host)]), 200, "{host}");
    }
}

#[test]
fn every_other_host_is_refused() {
    let hosts = [
        "example.com",
        "example.com:7421",
        "127.0.0.1.example.com",
        "localhost.example.com",
        "192.0.2.1",
        "10.0.0.1:7421",
        "",
        ":7421",
        "localhost:x",
        "localhost:+80",
        "localhost:-1",
        "localhost:65536",
        "localhost: 80",
        "[::1",
        "[::1]x",
        "::1",
        "::1:7421",
        "[::1]:",
        "0.0.0.0:7421",
        "[::]:7421",
        "a@127.0.0.1",
        "localhost..",
        ".localhost",
        ".",
        "127.0.0.1.",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "[127.0.0.1]",
        "[localhost]",
        "[::1%25lo]",
        "[fe80::1]:7421",
        "localhost,example.com",
        "localhost example.com",
        "localhost/",
        "xn--localhost",
        "lоcalhost",
    ];
    for host in hosts {
        assert_eq!(status(LOOPBACK, &[], &[("host", host)]), 403, "{host}");
    }
    assert_eq!(status(LOOPBACK, &[], &[]), 403, "no host");
    for second in ["example.com", "localhost"] {
        assert_eq!(status(LOOPBACK, &[], &[("host", "localhost"), ("host", second)]), 403, "two hosts");
    }
}

#[test]
fn the_host_of_a_whole_address_counts_and_the_header_must_not_say_another() {
    let guard = guard(LOOPBACK, &[]);
    for (uri, host, expected) in [
        ("http://127.0.0.1:7421/v1/models", Some("localhost"), 200),
        ("http://localhost/v1/models", None, 200),
        ("http://[::1]:7421/v1/models", None, 200),
        ("http://example.com/v1/models", Some("localhost"), 403),
        ("http://example.com/v1/models", None, 403),
        ("http://localhost/v1/models", Some("example.com"), 403),
        ("http://localhost@example.com/v1/models", Some("localhost"), 403),
        ("example.com:443", Some("localhost"), 403),
        ("localhost:7421", None, 200),
    ] {
        let headers: Vec<_> = host.map(|host| ("host", host)).into_iter().collect();
        assert_eq!(status_at(&guard, uri, &headers), expected, "{uri} {host:?}");
    }
}

#[test]
fn pages_of_other_sites_are_refused() {
    for (origin, expected) in [
        ("http://localhost:3000", 200),
        ("https://127.0.0.1", 200),
        ("http://[::1]:5173", 200),
        ("http://localhost.", 200),
        ("https://example.com", 403),
        ("https://localhost.example.com", 403),
        ("http://localhost:3000/path", 403),
        ("http://localhost@example.com", 403),
        ("HTTP://localhost", 403),
        ("null", 403),
        ("file://", 403),
        ("file://localhost", 403),
        ("chrome-extension://abc", 403),
        ("localhost", 403),
        ("", 403),
    ] {
        assert_eq!(status(LOOPBACK, &[], &[("host", "localhost"), ("origin", origin)]), expected, "{origin}");
    }
    let two = [("host", "localhost"), ("origin", "http://localhost"), ("origin", "https://example.com")];
    assert_eq!(status(LOOPBACK, &[], &two), 403, "every one of several counts");
}

#[test]
fn with_a_token_only_its_bearer_comes_in() {
    let with = |value: &str| status(LOOPBACK, &["secret"], &[("host", "localhost"), ("authorization", value)]);
    assert_eq!(with("Bearer secret"), 200);
    assert_eq!(with("bearer  secret "), 200);
    for wrong in [
        "Bearer secre",
        "Bearer secret2",
        "Bearer ",
        "Bearer",
        "Basic secret",
        "secret",
        "",
        "Bearer Secret",
        "Bearer sécret",
    ] {
        assert_eq!(with(wrong), 401, "{wrong}");
    }
    assert_eq!(status(LOOPBACK, &["secret"], &[("host", "localhost")]), 401);
    assert_eq!(status(LOOPBACK, &["secret"], &[("host", "example.com"), ("authorization", "Bearer secret")]), 403);
    let twice = [("host", "localhost"), ("authorization", "Bearer secret"), ("authorization", "Bearer secret")];
    assert_eq!(status(LOOPBACK, &["secret"], &twice), 401, "nobody can say which of two counts");
}

#[test]
fn each_token_is_its_own_caller() {
    let tokens = [token("first", &["*"]), token("second", &["support"])];
    let guard = Guard::new(LOOPBACK.parse().unwrap(), &[], &tokens, &[]);
    let caller = |value: &str| {
        let mut headers = HeaderMap::new();
        headers.insert("host", HeaderValue::from_static("localhost"));
        headers.insert("authorization", HeaderValue::from_str(value).unwrap());
        guard.admit(&headers, &Uri::from_static("/v1/models")).ok()
    };
    assert!(caller("Bearer first").unwrap().unlimited());
    let second = caller("Bearer second").unwrap();
    assert!(!second.unlimited() && second.may_use("support") && !second.may_use("main"));
    assert!(caller("Bearer third").is_none());
}

#[test]
fn whoever_watches_needs_no_token_and_is_nobody() {
    let guard = guard(LOOPBACK, &["secret"]);
    for path in ["/healthz", "/readyz"] {
        assert_eq!(status_at(&guard, path, &[("host", "localhost")]), 200, "{path}");
        assert_eq!(status_at(&guard, path, &[("host", "example.com")]), 403, "{path}");
    }
    for path in ["/healthz/", "/readyz/x", "//healthz", "/metrics", "/healthZ"] {
        assert_eq!(status_at(&guard, path, &[("host", "localhost")]), 401, "{path}");
    }
    let mut headers = HeaderMap::new();
    headers.insert("host", HeaderValue::from_static("localhost"));
    assert!(!guard.admit(&headers, &Uri::from_static("/readyz")).unwrap().unlimited());
    headers.insert("authorization", HeaderValue::from_static("Bearer secret"));
    assert!(guard.admit(&headers, &Uri::from_static("/readyz")).unwrap().unlimited());
}

#[test]
fn an_open_gateway_is_known_by_its_address_or_by_any_name_when_it_listens_everywhere() {
    let bearer = ("authorization", "Bearer t");
    assert_eq!(status("192.0.2.1:1", &["t"], &[("host", "192.0.2.1:1"), bearer]), 200);
    assert_eq!(status("192.0.2.1:1", &["t"], &[("host", "192.0.2.2:1"), bearer]), 403);
    assert_eq!(status("[2001:db8::1]:1", &["t"], &[("host", "[2001:db8::1]:1"), bearer]), 200);
    assert_eq!(status("0.0.0.0:1", &["t"], &[("host", "desk.lan:1"), bearer]), 200);
    assert_eq!(status("0.0.0.0:1", &["t"], &[("host", "desk.lan:1")]), 401);
    assert_eq!(status("0.0.0.0:1", &[], &[("host", "desk.lan:1")]), 403);
    assert_eq!(status("[::]:1", &["t"], &[("host", "desk.lan:1"), bearer]), 200);
    assert_eq!(status("[::]:1", &[], &[("host", "desk.lan:1")]), 403);
}

#[test]
fn a_gateway_that_listens_everywhere_refuses_pages_of_other_sites_too() {
    let with = |host: &str, origin: &str| {
        status("0.0.0.0:1", &["t"], &[("host", host), ("origin", origin), ("authorization", "Bearer t")])
    };
    assert_eq!(with("desk.lan:1", "http://desk.lan:1"), 200);
    assert_eq!(with("chat.example.com", "https://CHAT.example.com"), 200, "behind a proxy that keeps the name");
    assert_eq!(with("desk.lan:1", "http://localhost:3000"), 200);
    for origin in ["https://evil.com", "http://desk.lan:2", "http://desk.lan.evil.com:1", "null", "file://desk.lan:1"] {
        assert_eq!(with("desk.lan:1", origin), 403, "{origin}");
    }
    assert_eq!(with("desk.lan:x", "http://localhost"), 403, "no host");
}

#[test]
fn a_gateway_that_is_given_its_names_goes_by_no_other() {
    let tokens = [token("t", &["*"])];
    let status = |listen: &str, headers: &[(&'static str, &str)]| {
        let hosts = ["desk.lan".to_owned(), "chat.example.com".to_owned()];
        let guard = Guard::new(listen.parse().unwrap(), &hosts, &tokens, &[]);
        status_at(&guard, "/v1/models", &[headers, &[("authorization", "Bearer t")]].concat())
    };
    for listen in ["0.0.0.0:1", "192.0.2.1:1", LOOPBACK] {
        assert_eq!(status(listen, &[("host", "Desk.lan:1")]), 200, "{listen}");
        assert_eq!(status(listen, &[("host", "desk.lan.")]), 200, "{listen}");
        assert_eq!(status(listen, &[("host", "localhost:1")]), 200, "{listen}");
        assert_eq!(status(listen, &[("host", "evil.com")]), 403, "{listen}");
        assert_eq!(status(listen, &[("host", "192.0.2.9")]), 403, "{listen}");
        let page = |origin| status(listen, &[("host", "10.0.0.1.desk.lan"), ("origin", origin)]);
        assert_eq!(page("https://chat.example.com"), 403, "{listen}: the host counts, too");
        let page = |origin| status(listen, &[("host", "desk.lan:1"), ("origin", origin)]);
        assert_eq!(page("https://chat.example.com"), 200, "{listen}");
        assert_eq!(page("https://evil.com"), 403, "{listen}");
    }
}
