//! The routes over a gateway in this process: SQLite in a temporary folder, the offline model, `legacy`.

mod callers;
mod flood;
mod leaving;
mod model;

use super::*;
use crate::config::Config;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::Response;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

struct House {
    router: Router,
    api: Arc<Api>,
    _folder: tempfile::TempDir,
}

async fn house() -> House {
    house_with(|_| {}).await
}

async fn house_with(change: impl FnOnce(&mut Config)) -> House {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::defaults(folder.path().join("plugins.toml"));
    config.gateway.drain_ms = 500;
    // There is one ledger per process, and its own tests want it.
    config.plugins.crash_ledger = false;
    change(&mut config);
    let api = Api::new(Arc::new(Gateway::start(config).await.unwrap())).unwrap();
    House { router: router(Arc::clone(&api)), api, _folder: folder }
}

impl House {
    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Response {
        let mut request = Request::builder().method(method).uri(path).header("host", "127.0.0.1:7421");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.router.clone().oneshot(request.body(body.into()).unwrap()).await.unwrap()
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        json_of(self.send("GET", path, &[], "").await).await
    }

    async fn post(&self, path: &str, headers: &[(&str, &str)], body: Value) -> (StatusCode, Value) {
        json_of(self.send("POST", path, headers, body.to_string()).await).await
    }

    async fn say(&self, session: &str, text: &str) -> Response {
        self.send("POST", CHAT, &[("x-engineroom-session", session)], user(text).to_string()).await
    }
}

const CHAT: &str = "/v1/chat/completions";

fn user(text: &str) -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": text}]})
}

async fn text_of(response: Response) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

async fn json_of(response: Response) -> (StatusCode, Value) {
    let status = response.status();
    let text = text_of(response).await;
    (status, serde_json::from_str(&text).unwrap_or_else(|cause| panic!("{cause}: {text}")))
}

#[tokio::test]
async fn a_turn_names_its_engine_and_its_session_and_is_stored() {
    let house = house().await;
    let answer = house.say("agent:main:a/b", "My pilot is called Marisol.").await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["x-engineroom-engine"], "legacy");
    assert_eq!(answer.headers()["x-engineroom-session"], "agent:main:a/b");
    assert!(!answer.headers().contains_key("x-engineroom-degraded"));
    let (_, body) = json_of(answer).await;
    assert_eq!(body["object"], "chat.completion");
    for path in ["/api/sessions/agent:main:a%2Fb", "/api/sessions/agent%3Amain%3Aa/b"] {
        let (status, session) = house.get(path).await;
        assert_eq!((status.as_u16(), &session["key"], &session["entries"]), (200, &json!("agent:main:a/b"), &json!(2)));
        assert_eq!(session["messages"][0]["text"], "My pilot is called Marisol.");
        assert_eq!(session["branches"].as_array().map(Vec::len), Some(1));
    }
    let (_, turns) = house.get("/api/sessions/agent:main:a%2Fb/turns").await;
    assert_eq!(turns["turns"][0]["engine"], "legacy", "{turns:#}");
}

#[tokio::test]
async fn a_stream_ends_with_its_marker_and_the_session_goes_on() {
    let house = house().await;
    let mut body = user("The vault code is 7731.");
    body["stream"] = true.into();
    let headers = [("x-engineroom-session", "s")];
    let answer = house.send("POST", CHAT, &headers, body.to_string()).await;
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    assert_eq!(answer.headers()["x-engineroom-engine"], "legacy");
    let text = text_of(answer).await;
    assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    assert!(!text.contains("\"usage\""), "nobody asked for it: {text}");
    let (_, second) = house.post(CHAT, &headers, user("What is the vault code?")).await;
    assert!(second["choices"][0]["message"]["content"].as_str().unwrap().contains("7731"), "{second:#}");

    body["stream_options"] = json!({"include_usage": true});
    let text = text_of(house.send("POST", CHAT, &headers, body.to_string()).await).await;
    assert!(text.contains("\"usage\":{\"prompt_tokens\""), "{text}");
}

#[tokio::test]
async fn without_a_session_nothing_is_stored() {
    let house = house().await;
    let answer = house.send("POST", CHAT, &[], user("Hello?").to_string()).await;
    assert_eq!(answer.status(), 200);
    assert!(!answer.headers().contains_key("x-engineroom-session"));
    assert_eq!(house.get("/api/sessions").await.1["sessions"], json!([]));
}

#[tokio::test]
async fn errors_are_the_dialect_s_own() {
    let house = house_with(|config| config.api.max_body_bytes = 2_000).await;
    let check = async |method: &str, path: &str, headers: &[(&str, &str)], body: String, status: u16, kind: &str| {
        let (found, body) = json_of(house.send(method, path, headers, body).await).await;
        assert_eq!((found.as_u16(), &body["error"]["type"]), (status, &json!(kind)), "{method} {path}: {body:#}");
        for field in ["message", "param", "code"] {
            assert!(body["error"].get(field).is_some(), "{field}: {body:#}");
        }
    };
    let invalid = "invalid_request_error";
    check("POST", CHAT, &[], "{\"model\":\"m\"}".into(), 400, invalid).await;
    check("POST", CHAT, &[], "{oops".into(), 400, invalid).await;
    check("POST", CHAT, &[], "[]".into(), 400, invalid).await;
    check("POST", CHAT, &[], String::new(), 400, invalid).await;
    check("POST", CHAT, &[], user(&"x".repeat(3_000)).to_string(), 413, invalid).await;
    check("POST", CHAT, &[("content-length", "9999999")], "{}".into(), 413, invalid).await;
    check("POST", CHAT, &[("content-encoding", "gzip")], "{}".into(), 400, invalid).await;
    check("GET", CHAT, &[], String::new(), 405, invalid).await;
    check("GET", "/nowhere", &[], String::new(), 404, invalid).await;
    check("GET", "/v1/models/nope", &[], String::new(), 404, invalid).await;
    check("GET", "/api/engines/nope", &[], String::new(), 404, invalid).await;
    check("GET", "/api/sessions/nope", &[], String::new(), 404, invalid).await;
    check("GET", "/api/sessions/nope/context", &[], String::new(), 404, invalid).await;
    check("POST", "/api/sessions/nope/compact", &[], String::new(), 404, invalid).await;
    check("DELETE", "/api/sessions/nope", &[], String::new(), 404, invalid).await;
    check("POST", "/api/sessions/nope", &[], String::new(), 405, invalid).await;
    check("GET", "/healthz", &[("origin", "https://example.com")], String::new(), 403, "permission_error").await;
}

#[tokio::test]
async fn a_prompt_that_cannot_fit_is_refused_as_openai_refuses_it() {
    let house = house_with(|config| {
        config.model.context_window = 300;
        config.model.max_output_tokens = 50;
        config.compaction.reserve_tokens = 50;
    })
    .await;
    let system = "word ".repeat(2_000);
    let body =
        json!({"model": "m", "messages": [{"role": "system", "content": system}, {"role": "user", "content": "Hi"}]});
    let (status, answer) = house.post(CHAT, &[], body).await;
    assert_eq!((status.as_u16(), &answer["error"]["code"]), (400, &json!("context_length_exceeded")), "{answer:#}");
}

#[tokio::test]
async fn sessions_are_listed_in_pages_compacted_and_deleted() {
    let house = house_with(|config| config.compaction.keep_recent_tokens = 100).await;
    for n in 0..12 {
        assert_eq!(house.say("long", &format!("Note {n}: ship Aurora-{n} berths at /quay/{n}.")).await.status(), 200);
    }
    house.say("other", "Hello?").await;
    let (_, first) = house.get("/api/sessions?limit=1").await;
    assert_eq!((&first["sessions"][0]["key"], &first["more"]), (&json!("other"), &json!(true)), "{first:#}");
    let (_, second) = house.get("/api/sessions?limit=1&offset=1").await;
    assert_eq!((&second["sessions"][0]["key"], &second["more"]), (&json!("long"), &json!(false)), "{second:#}");

    let (_, page) = house.get("/api/sessions/long?limit=3").await;
    assert_eq!((page["messages"].as_array().map(Vec::len), &page["more"]), (Some(3), &json!(true)));
    let before = page["messages"][0]["id"].as_u64().unwrap();
    let (_, older) = house.get(&format!("/api/sessions/long?limit=3&before={before}")).await;
    assert!(older["messages"][2]["id"].as_u64().unwrap() < before, "{older:#}");

    let (status, context) = house.get("/api/sessions/long/context").await;
    assert!(status == 200 && context["entries"].as_array().is_some_and(|rows| rows.len() >= 24), "{context:#}");
    let (status, report) = house.post("/api/sessions/long/compact", &[], json!({"focus": "ships"})).await;
    assert_eq!((status.as_u16(), &report["compacted"]), (200, &json!(true)), "{report:#}");
    assert!(report["tokensAfter"].as_u64().unwrap() < report["tokensBefore"].as_u64().unwrap(), "{report:#}");
    let (_, after) = house.get("/api/sessions/long").await;
    assert_eq!(after["messages"].as_array().unwrap().last().unwrap()["role"], "compaction", "{after:#}");

    let (status, _) = json_of(house.send("DELETE", "/api/sessions/long", &[], "").await).await;
    assert_eq!(status, 200);
    assert_eq!(house.get("/api/sessions/long").await.0, 404);
}

#[tokio::test]
async fn the_state_of_the_gateway_is_shown() {
    let house = house_with(|config| config.plugins.slots.context_engine = vec!["windw".into()]).await;
    let answer = house.say("s", "Hello?").await;
    assert_eq!(answer.headers()["x-engineroom-engine"], "legacy");
    assert_eq!(answer.headers()["x-engineroom-degraded"], "engine-missing");
    drop(answer);
    assert_eq!(house.get("/healthz").await.0, 200);
    assert_eq!(house.get("/readyz").await.0, 200);
    let (_, engines) = house.get("/api/engines").await;
    assert_eq!((&engines["effective"], &engines["chain"]), (&json!("legacy"), &json!(["windw"])), "{engines:#}");
    assert!(engines["restartDue"].is_array());
    let (_, one) = house.get("/api/engines/windw").await;
    assert_eq!((&one["state"], &one["code"]), (&json!("quarantined"), &json!("engine-missing")), "{one:#}");
    assert_eq!(house.get("/v1/models").await.1["data"][0]["id"], "offline");
    assert_eq!(house.get("/v1/models/offline").await.1["id"], "offline");
    let metrics = text_of(house.send("GET", "/metrics", &[], "").await).await;
    for line in [
        "engineroom_turns_total{engine=\"legacy\",degraded=\"engine-missing\"} 1",
        "engineroom_model_calls_total{provider=\"offline\",outcome=\"ok\"} 1",
        "engineroom_engine_effective{engine=\"legacy\"} 1",
        "engineroom_engine_ready{engine=\"windw\"} 0",
        "engineroom_http_requests_total{route=\"/v1/chat/completions\",status=\"200\"} 1",
        "engineroom_turns_running 0",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
}

#[tokio::test]
async fn an_open_address_without_a_token_is_refused_and_a_stop_drains() {
    let house = house().await;
    let open = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
    let refused = serve(Arc::clone(&house.api), open, std::future::pending()).await;
    assert!(matches!(refused, Err(ApiError::Open { .. })), "{refused:?}");

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let api = Arc::clone(&house.api);
    let served = tokio::spawn(serve(api, listener, async move { drop(stopped.await) }));
    // An idle connection must not hold the stop up; a client that talks is answered.
    let client = reqwest_client();
    let answer = client.get(format!("http://{address}/readyz")).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 200);
    stop.send(()).unwrap();
    assert!(served.await.unwrap().unwrap(), "it drained");
    assert_eq!(house.get("/readyz").await.0, 503);
    assert!(client.get(format!("http://{address}/healthz")).send().await.is_err(), "nothing listens any more");
}

fn reqwest_client() -> reqwest::Client {
    // The provider of the crypto is installed by the model; none is needed for plain HTTP, but the builder wants one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_cannot_be_read_is_told_in_the_dialect() {
    let house = house().await;
    house.say("s", "hello").await;
    for (path, param) in [
        ("/api/sessions?limit=many", "limit"),
        ("/api/sessions/s/turns?limit=-1", "limit"),
        ("/api/sessions/s/context?take_up=maybe", "take_up"),
    ] {
        let (status, body) = house.get(path).await;
        assert_eq!((status, &body["error"]["code"]), (StatusCode::BAD_REQUEST, &json!("CE701")), "{path}: {body}");
        assert_eq!(body["error"]["param"], param, "{path}");
        assert!(body["error"]["message"].as_str().unwrap().starts_with("the query cannot be read: "), "{body}");
    }
    let (status, body) = house.get("/api/sessions/s/turns?before=yesterday").await;
    assert_eq!((status, &body["error"]["param"]), (StatusCode::BAD_REQUEST, &json!("before")), "{body}");
    let turns = house.get("/api/sessions/s/turns").await.1;
    let turn = turns["turns"][0]["turn_id"].as_str().unwrap();
    assert_eq!(house.get(&format!("/api/sessions/s/turns?before={turn}")).await.0, StatusCode::OK);
}
