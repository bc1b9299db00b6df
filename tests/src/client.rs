//! A small HTTP client that keeps everything of an answer.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Talks to one gateway.
#[derive(Debug, Clone)]
pub struct Client {
    base: String,
    agent: ureq::Agent,
}

/// An answer, whatever its status.
#[derive(Debug, Clone)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Headers, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// Body.
    pub body: String,
}

impl Answer {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("not JSON ({e}): {self:?}"))
    }

    /// A header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Text of the first choice of a chat completion.
    pub fn text(&self) -> String {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
    }

    /// The engine that served.
    pub fn engine(&self) -> Option<&str> {
        self.header("x-engineroom-engine")
    }

    /// Why it is not the selected one.
    pub fn degraded(&self) -> Option<&str> {
        self.header("x-engineroom-degraded")
    }
}

impl Client {
    /// A client of `address`, `HOST:PORT`.
    pub fn new(address: &str) -> Client {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(120)))
            .build();
        Client { base: format!("http://{address}"), agent: config.new_agent() }
    }

    /// `http://HOST:PORT`.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// `HOST:PORT`.
    pub fn address(&self) -> &str {
        self.base.trim_start_matches("http://")
    }

    /// GET; a transport error is a failed test.
    pub fn get(&self, path: &str) -> Answer {
        let result = self.agent.get(format!("{}{path}", self.base)).call();
        Self::answer(result).unwrap_or_else(|e| panic!("GET {path}: {e}"))
    }

    /// GET; a transport error is returned.
    pub fn try_get(&self, path: &str) -> Result<Answer, ureq::Error> {
        Self::answer(self.agent.get(format!("{}{path}", self.base)).call())
    }

    /// DELETE; a transport error is returned.
    pub fn try_delete(&self, path: &str) -> Result<Answer, ureq::Error> {
        Self::answer(self.agent.delete(format!("{}{path}", self.base)).call())
    }

    /// POST with headers; a transport error is returned, since a killed gateway gives one.
    pub fn try_post(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Result<Answer, ureq::Error> {
        let mut request = self.agent.post(format!("{}{path}", self.base)).header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Self::answer(request.send(body.to_string()))
    }

    /// POST; a transport error is a failed test.
    pub fn post(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        self.try_post(path, headers, body).unwrap_or_else(|e| panic!("POST {path}: {e}"))
    }

    /// One user message in a session.
    pub fn say(&self, session: &str, text: &str) -> Answer {
        self.try_say(session, text).unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    /// One user message in a session; a transport error is returned.
    pub fn try_say(&self, session: &str, text: &str) -> Result<Answer, ureq::Error> {
        let body = json!({"model": "test", "messages": [{"role": "user", "content": text}]});
        self.try_post("/v1/chat/completions", &[("x-engineroom-session", session)], &body)
    }

    /// A whole message list, in a session or ephemeral.
    pub fn chat(&self, session: Option<&str>, messages: Value) -> Answer {
        let headers: Vec<_> = session.map(|key| ("x-engineroom-session", key)).into_iter().collect();
        self.post("/v1/chat/completions", &headers, &json!({"model": "test", "messages": messages}))
    }

    /// `DELETE path`.
    pub fn delete(&self, path: &str) -> Answer {
        Self::answer(self.agent.delete(format!("{}{path}", self.base())).call()).expect("an answer")
    }

    /// `GET /api/engines`.
    pub fn engines(&self) -> Value {
        self.get("/api/engines").json()
    }

    fn answer(result: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<Answer, ureq::Error> {
        let mut response = result?;
        let headers = response
            .headers()
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect();
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(1 << 30).read_to_string()?;
        Ok(Answer { status, headers, body })
    }
}
