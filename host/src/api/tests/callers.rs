//! Tokens, and the agents that they are for: every route obeys, and a new one cannot forget it.

use super::super::paths::SessionOp;
use super::*;
use crate::config::{AgentConfig, TokenConfig};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const OWN: &str = "own-0123456789abcdef";
const DESK: &str = "desk-0123456789abcdef";

fn secret(folder: &Path, text: &str) -> std::path::PathBuf {
    let path = folder.join(&text[..4]);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// Two tokens: the operator's, and one of a client that may use `support` only.
async fn guarded() -> House {
    house_with(|config| {
        let folder = config.path.parent().unwrap().to_owned();
        config.gateway.auth_token_file = Some(secret(&folder, OWN));
        let desk = TokenConfig { env: None, file: Some(secret(&folder, DESK)), agents: vec!["support".into()] };
        config.gateway.tokens.insert("desk".into(), desk);
        config.agents.insert("support".into(), AgentConfig::default());
        config.api.session_from = vec!["header".into(), "user".into()];
    })
    .await
}

async fn as_(house: &House, token: &str, method: &str, path: &str, body: Value) -> (u16, Value) {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str())];
    let response =
        house.send(method, path, &headers, if body.is_null() { String::new() } else { body.to_string() }).await;
    let status = response.status().as_u16();
    let text = text_of(response).await;
    (status, serde_json::from_str(&text).unwrap_or(Value::Null))
}

async fn say_as(house: &House, token: &str, session: &str) -> (u16, Value) {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str()), ("x-engineroom-session", session)];
    let (status, body) = json_of(house.send("POST", CHAT, &headers, user("Hello?").to_string()).await).await;
    (status.as_u16(), body)
}

/// Every operation below a session, as a path spells it. A new one does not compile here before it has its line.
fn operations() -> Vec<String> {
    let child = SessionOp::Subagent("agent:support:subagent:x".into());
    let all = [
        SessionOp::Whole,
        SessionOp::Context,
        SessionOp::Compact,
        SessionOp::Reset,
        SessionOp::Turns,
        SessionOp::Repair,
        SessionOp::Subagents,
        child,
    ];
    all.iter()
        .map(|op| match op {
            SessionOp::Whole => String::new(),
            SessionOp::Context => "/context".into(),
            SessionOp::Compact => "/compact".into(),
            SessionOp::Reset => "/reset".into(),
            SessionOp::Turns => "/turns".into(),
            SessionOp::Repair => "/repair".into(),
            SessionOp::Subagents => "/subagents".into(),
            SessionOp::Subagent(child) => format!("/subagents/{}", child.replace(':', "%3A")),
        })
        .collect()
}

const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "DELETE", "PUT", "PATCH"];

#[tokio::test(flavor = "multi_thread")]
async fn every_route_obeys_the_agents_of_a_token() {
    let house = guarded().await;
    for session in ["x", "agent:main:x", "agent:support:mine"] {
        assert_eq!(say_as(&house, OWN, session).await.0, 200, "{session}");
    }
    let foreign =
        ["x", "agent:main:x", "agent%3Amain%3Ax", "agent:main:a/b", "%61gent:main:x", "agent:support", "agent:none:x"];
    let refused = async |method: &str, path: &str, code: &str| {
        let (status, body) = as_(&house, DESK, method, path, Value::Null).await;
        let found = if method == "HEAD" { code.into() } else { body["error"]["code"].clone() };
        assert_eq!((status, found), (403, json!(code)), "{method} {path}: {body}");
    };
    for (path, tells, _) in routes() {
        match tells {
            Tells::Nothing => {
                let known = ["/v1/models", "/v1/models/{*id}", "/healthz", "/readyz"];
                assert!(known.contains(&path), "{path} tells of no session: is that so?");
                let status = as_(&house, DESK, "GET", &path.replace("{*id}", "offline"), Value::Null).await.0;
                assert_eq!(status, 200, "{path}");
            }
            Tells::Operator => refused("GET", &path.replace("{*id}", "legacy"), "CE712").await,
            Tells::Named => {
                for key in ["x", "agent:main:x", "agent:support", "agent:none:x", "agent: support:x"] {
                    let (status, body) = say_as(&house, DESK, key).await;
                    assert_eq!((status, &body["error"]["code"]), (403, &json!("CE711")), "{key}");
                    let mut asked = user("Hello?");
                    asked["user"] = key.into();
                    let (status, body) = as_(&house, DESK, "POST", path, asked).await;
                    assert_eq!((status, &body["error"]["code"]), (403, &json!("CE711")), "{key}");
                }
                let (status, _) = as_(&house, DESK, "POST", path, user("Hello?")).await;
                assert_eq!(status, 403, "without a session it is the main agent's model that answers");
                assert_eq!(say_as(&house, DESK, "agent:support:new").await.0, 200);
            }
            Tells::InPath => {
                for (key, op) in foreign.iter().flat_map(|key| operations().into_iter().map(move |op| (key, op))) {
                    for method in METHODS {
                        refused(method, &format!("/api/sessions/{key}{op}"), "CE711").await;
                    }
                }
                for method in METHODS {
                    // The child of a session that is theirs is another's.
                    let path = "/api/sessions/agent:support:mine/subagents/agent%3Amain%3Asubagent%3Ax";
                    refused(method, path, "CE711").await;
                }
                for op in operations() {
                    let (status, _) =
                        as_(&house, DESK, "GET", &format!("/api/sessions/agent:support:mine{op}"), Value::Null).await;
                    assert!([200, 404, 405].contains(&status), "{op}: {status}");
                }
                let ask = json!({"task": "look", "agent": "main"});
                let (status, _) = as_(&house, DESK, "POST", "/api/sessions/agent:support:mine/subagents", ask).await;
                assert_eq!(status, 403, "a child of another agent");
            }
            Tells::List => {
                let (_, all) = as_(&house, OWN, "GET", path, Value::Null).await;
                assert_eq!(all["sessions"].as_array().unwrap().len(), 4, "{all}");
                let (_, mine) = as_(&house, DESK, "GET", &format!("{path}?limit=1"), Value::Null).await;
                assert_eq!(
                    (&mine["sessions"][0]["key"], &mine["more"]),
                    (&json!("agent:support:new"), &json!(true)),
                    "{mine}"
                );
                let (_, rest) = as_(&house, DESK, "GET", &format!("{path}?limit=1&offset=1"), Value::Null).await;
                assert_eq!((&rest["sessions"][0]["key"], &rest["more"]), (&json!("agent:support:mine"), &json!(false)));
                assert!(!rest.to_string().contains("agent:main"), "{rest}");
            }
        }
    }
    for path in
        ["/metrics", "/api/engines", "/api/engines/legacy", "/api/sessions/x", "/api/sessions/agent:main:x/context"]
    {
        assert_eq!(as_(&house, OWN, "GET", path, Value::Null).await.0, 200, "{path}");
    }
}

#[tokio::test]
async fn without_its_token_no_route_says_anything() {
    let house = guarded().await;
    let mut paths: Vec<String> = routes()
        .into_iter()
        .map(|(path, _, _)| path.replace("{*id}", "legacy").replace("{*rest}", "agent:support:x"))
        .collect();
    paths.extend(["/nowhere".to_owned(), "/".to_owned()]);
    for path in paths {
        for (method, token) in
            METHODS.into_iter().flat_map(|method| [(method, None), (method, Some("Bearer wrong-token"))])
        {
            let headers: Vec<_> = token.map(|token| ("authorization", token)).into_iter().collect();
            let answer = house.send(method, &path, &headers, "{}").await;
            if ["/healthz", "/readyz"].contains(&path.as_str()) {
                assert_ne!(answer.status(), 401, "{path}");
                continue;
            }
            assert_eq!(answer.status(), 401, "{method} {path}");
            let challenge = answer.headers()["www-authenticate"].to_str().unwrap().to_owned();
            assert_eq!(challenge.contains("invalid_token"), token.is_some(), "{challenge}");
            if method != "HEAD" {
                let (_, body) = json_of(answer).await;
                assert_eq!(body["error"]["type"], "authentication_error", "{body}");
                assert!(!body.to_string().contains("support"), "{body}");
            }
        }
    }
}

#[tokio::test]
async fn readiness_tells_why_not_to_the_operator_only() {
    let house = guarded().await;
    house.api.stopping.store(true, std::sync::atomic::Ordering::Relaxed);
    let (status, bare) = house.get("/readyz").await;
    assert_eq!((status.as_u16(), bare), (503, json!({"status": "not ready"})));
    assert_eq!(as_(&house, DESK, "GET", "/readyz", Value::Null).await.1, json!({"status": "not ready"}));
    assert_eq!(as_(&house, OWN, "GET", "/readyz", Value::Null).await.1["reason"], "the gateway is stopping");
    assert_eq!(house.get("/healthz").await.1, json!({"status": "ok"}));
}

#[tokio::test]
async fn a_gateway_without_a_token_may_keep_its_agents_apart_all_the_same() {
    let house = house_with(|config| config.gateway.open_agents = vec!["main".into()]).await;
    assert_eq!(house.say("x", "Hello?").await.status(), 200);
    assert_eq!(house.say("agent:support:x", "Hello?").await.status(), 403);
    assert_eq!(house.get("/api/sessions/x").await.0, 200);
    assert_eq!(house.get("/api/sessions/agent:support:x").await.0, 403);
    assert_eq!(house.get("/api/engines").await.0, 403, "the gateway as a whole is shown to who may use all of it");
}

#[tokio::test]
async fn a_client_cannot_bring_agents_without_bound() {
    let house = house_with(|config| {
        config.gateway.unknown_agents = 2;
        config.agents.insert("support".into(), AgentConfig::default());
    })
    .await;
    for session in ["agent:one:x", "agent:two:x", "agent:one:y", "agent:support:x", "agent:main:x", "x", "agent:two"] {
        assert_eq!(house.say(session, "Hello?").await.status(), 200, "{session}");
    }
    let (status, body) = json_of(house.say("agent:three:x", "Hello?").await).await;
    assert_eq!((status.as_u16(), &body["error"]["code"]), (403, &json!("CE713")), "{body}");
    assert!(body["error"]["hint"].as_str().unwrap().contains("[agents.three]"), "{body}");
    // Those of an earlier process count, too, and are still served.
    let again = Api::new(Arc::clone(&house.api.gateway)).unwrap();
    let later = House { router: router(Arc::clone(&again)), api: again, _folder: tempfile::tempdir().unwrap() };
    assert_eq!(later.say("agent:three:x", "Hello?").await.status(), 403);
    assert_eq!(later.say("agent:one:x", "Hello?").await.status(), 200);
    assert_eq!(later.get("/api/sessions/agent:three:x").await.0, 404, "nothing was made");
}

#[tokio::test]
async fn an_idempotency_key_is_for_one_request() {
    let house = house().await;
    let headers = [("x-engineroom-session", "s"), ("idempotency-key", "k")];
    let (_, first) = house.post(CHAT, &headers, user("One?")).await;
    let retry = house.send("POST", CHAT, &headers, user("One?").to_string()).await;
    assert_eq!(retry.headers()["x-engineroom-replayed"], "true");
    assert_eq!(json_of(retry).await.1, first);
    let mut streamed = user("One?");
    streamed["stream"] = true.into();
    streamed["stream_options"] = json!({"include_usage": true});
    let retry = house.send("POST", CHAT, &headers, streamed.to_string()).await;
    assert_eq!((retry.status().as_u16(), &retry.headers()["x-engineroom-replayed"]), (200, &"true".parse().unwrap()));
    drop(retry);
    let mut other = user("One?");
    other["temperature"] = json!(0.5);
    for body in [user("Two?"), other] {
        let (status, body) = house.post(CHAT, &headers, body).await;
        assert_eq!((status.as_u16(), &body["error"]["code"]), (422, &json!("CE628")), "{body}");
        assert!(body["error"]["hint"].is_string());
    }
    assert_eq!(house.get("/api/sessions/s").await.1["entries"], 2, "nothing was stored");
    let elsewhere = [("x-engineroom-session", "t"), ("idempotency-key", "k")];
    assert_eq!(house.post(CHAT, &elsewhere, user("Two?")).await.0, 200);
}

#[tokio::test]
async fn what_is_refused_says_what_to_do() {
    let house = house().await;
    for (path, body) in [
        (CHAT, json!({})),
        (CHAT, json!({"messages": [{"role": "narrator", "content": "x"}]})),
        (CHAT, json!({"messages": [{"role": "user"}]})),
        ("/api/sessions/s/compact", json!({"focus": 1})),
    ] {
        let (status, answer) = house.post(path, &[], body).await;
        assert_eq!(status, 400, "{answer}");
        assert!(answer["error"]["hint"].is_string(), "{answer}");
    }
}
