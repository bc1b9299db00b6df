//! A model server on loopback that does as it is told, and notices when its client goes away.

use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What the server does with one request.
#[derive(Debug, Clone)]
pub(super) enum Deed {
    /// Answers.
    Say(&'static str),
    /// Gives a whole message.
    Message(Value),
    /// Begins a stream with this much, and goes no further.
    Begin(usize),
    /// Never answers.
    Hang,
    /// Streams pieces of this many bytes for ever.
    Pour(usize),
}

/// The running server.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) base: String,
    seen: Arc<Mutex<Vec<Value>>>,
    /// Requests in work.
    active: Arc<AtomicUsize>,
    /// Of these: whose client went away before the end.
    left: Arc<AtomicUsize>,
    poured: Arc<AtomicUsize>,
}

impl Server {
    /// Serves what `script` says of a request and its number.
    pub(super) async fn start(script: impl Fn(&Value, usize) -> Deed + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/v1", listener.local_addr().unwrap());
        let server =
            Server { base, seen: Arc::default(), active: Arc::default(), left: Arc::default(), poured: Arc::default() };
        let (own, script) = (server.clone(), Arc::new(script));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (own, script) = (own.clone(), Arc::clone(&script));
                tokio::spawn(async move {
                    own.serve(stream, &*script).await;
                });
            }
        });
        server
    }

    pub(super) fn seen(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    pub(super) fn poured(&self) -> usize {
        self.poured.load(Ordering::Relaxed)
    }

    pub(super) fn left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }

    pub(super) fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    async fn serve(&self, mut stream: TcpStream, script: &(dyn Fn(&Value, usize) -> Deed + Send + Sync)) -> Option<()> {
        let request = read(&mut stream).await?;
        let number = {
            let mut seen = self.seen.lock().unwrap();
            seen.push(request.clone());
            seen.len() - 1
        };
        self.active.fetch_add(1, Ordering::Relaxed);
        let whole = self.answer(&mut stream, &request, script(&request, number)).await;
        if whole.is_none() {
            self.left.fetch_add(1, Ordering::Relaxed);
        }
        self.active.fetch_sub(1, Ordering::Relaxed);
        Some(())
    }

    async fn answer(&self, stream: &mut TcpStream, request: &Value, deed: Deed) -> Option<()> {
        let streamed = request["stream"] == true;
        match deed {
            Deed::Say(text) if streamed => {
                head(stream).await?;
                chunk(stream, json!({"content": text}), Value::Null).await?;
                chunk(stream, json!({}), json!("stop")).await?;
                stream.write_all(b"data: [DONE]\n\n").await.ok()
            }
            Deed::Say(text) => full(stream, json!({"role": "assistant", "content": text}), "stop").await,
            Deed::Message(message) => full(stream, message, "tool_calls").await,
            Deed::Begin(pieces) => {
                head(stream).await?;
                for _ in 0..pieces {
                    chunk(stream, json!({"content": "word "}), Value::Null).await?;
                }
                gone(stream).await
            }
            Deed::Hang => gone(stream).await,
            Deed::Pour(bytes) => {
                head(stream).await?;
                let text = "x".repeat(bytes);
                loop {
                    chunk(stream, json!({"content": text}), Value::Null).await?;
                    self.poured.fetch_add(bytes, Ordering::Relaxed);
                }
            }
        }
    }
}

/// Waits until the client has closed its connection.
async fn gone(stream: &mut TcpStream) -> Option<()> {
    let mut bin = [0; 1024];
    while let Ok(1..) = stream.read(&mut bin).await {}
    None
}

async fn read(stream: &mut TcpStream) -> Option<Value> {
    let mut bytes = Vec::new();
    let mut piece = vec![0; 16 * 1024];
    loop {
        let read = stream.read(&mut piece).await.ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&piece[..read]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let length: usize = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok())?;
        if bytes.len() >= end + 4 + length {
            return serde_json::from_slice(&bytes[end + 4..]).ok();
        }
    }
}

async fn head(stream: &mut TcpStream) -> Option<()> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.ok()
}

async fn chunk(stream: &mut TcpStream, delta: Value, finish: Value) -> Option<()> {
    let body = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    stream.write_all(format!("data: {body}\n\n").as_bytes()).await.ok()
}

async fn full(stream: &mut TcpStream, message: Value, finish: &str) -> Option<()> {
    let body = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}})
    .to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.ok()
}

/// What the user said last.
pub(super) fn last(request: &Value) -> String {
    let messages = request["messages"].as_array().into_iter().flatten().rev();
    let said = messages.filter(|message| message["role"] == "user").map(|message| message["content"].to_string());
    said.take(1).collect()
}

/// Waits for a condition, generously.
pub(super) async fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
