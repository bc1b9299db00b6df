//! Requests at a fixed rate.

use crate::model::connector;
use crate::stats::Sample;
use axum::body::Body;
use http_body_util::BodyExt;
use hyper::Request;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A target of requests.
#[derive(Debug, Clone)]
pub struct Target {
    client: Client<HttpConnector, Body>,
    url: String,
    /// Sessions that requests take in turn; empty for none.
    sessions: Vec<String>,
}

impl Target {
    /// Requests to `HOST:PORT`, each in the next of `sessions`.
    pub fn new(address: &str, sessions: &[String]) -> Target {
        Target {
            client: Client::builder(TokioExecutor::new()).build(connector()),
            url: format!("http://{address}/v1/chat/completions"),
            sessions: sessions.to_vec(),
        }
    }

    /// One request; time to the first byte of the body and to its end.
    pub async fn once(&self, number: usize, body: &Value) -> (Duration, Duration) {
        let mut request = Request::post(&self.url).header("content-type", "application/json");
        if !self.sessions.is_empty() {
            request = request.header("x-engineroom-session", &self.sessions[number % self.sessions.len()]);
        }
        let request = request.body(Body::from(body.to_string())).expect("a request");
        let start = Instant::now();
        let response = self.client.request(request).await.expect("an answer");
        let status = response.status();
        let mut body = response.into_body();
        let mut first = None;
        let mut seen = Vec::new();
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame.expect("a whole answer").into_data() {
                first.get_or_insert_with(|| start.elapsed());
                seen.extend_from_slice(&data);
            }
        }
        assert!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&seen));
        (first.expect("a body"), start.elapsed())
    }

    /// Requests at `rate` per second for `span`; times to the first byte and to the end.
    pub async fn at_rate(&self, rate: u32, span: Duration, body: &Value) -> (Sample, Sample) {
        let total = (f64::from(rate) * span.as_secs_f64()) as usize;
        let start = Instant::now();
        let mut running = Vec::with_capacity(total);
        for number in 0..total {
            let due = start + Duration::from_secs_f64(number as f64 / f64::from(rate));
            tokio::time::sleep_until(due.into()).await;
            let (target, body) = (self.clone(), body.clone());
            running.push(tokio::spawn(async move { target.once(number, &body).await }));
        }
        let (mut first, mut whole) = (Sample::default(), Sample::default());
        for task in running {
            let (a, b) = task.await.expect("a request");
            first.push(a);
            whole.push(b);
        }
        (first, whole)
    }
}

/// The body of a turn with one short user message.
pub fn turn(stream: bool) -> Value {
    json!({"model": "bench", "stream": stream,
        "messages": [{"role": "user", "content": "Note that the barge Halcyon leaves at seven from quay four."}]})
}

/// A full history of `messages` stored messages and one more user message.
pub fn history(messages: usize) -> Value {
    let list: Vec<Value> = (0..=messages)
        .map(|n| {
            let role = if n % 2 == 0 { "user" } else { "assistant" };
            json!({"role": role, "content": format!("Line {n}: the barge Halcyon reports its cargo, its draught and the weather at quay {}.", n % 97)})
        })
        .collect();
    json!({"model": "bench", "messages": list})
}
