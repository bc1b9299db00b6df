//! A scripted OpenAI-compatible model on loopback, on plain threads.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// What the model does with one request: it writes its answer to the connection. An answer ends the connection.
pub type Script = dyn Fn(&Value, &mut TcpStream) + Send + Sync;

/// The running model. Its thread ends with the test process.
#[derive(Debug, Clone)]
pub struct MockModel {
    address: String,
    requests: Arc<Mutex<Vec<Value>>>,
    bodies: Arc<Mutex<Vec<String>>>,
    forgets: Arc<AtomicBool>,
}

impl MockModel {
    /// Serves `script`.
    pub fn start(script: impl Fn(&Value, &mut TcpStream) + Send + Sync + 'static) -> MockModel {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
        let address = listener.local_addr().expect("its address").to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let (kept, texts, script) = (Arc::clone(&requests), Arc::clone(&bodies), Arc::new(script));
        let forgets = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&forgets);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (kept, texts, script): (_, _, Arc<Script>) =
                    (Arc::clone(&kept), Arc::clone(&texts), script.clone());
                let told = Arc::clone(&told);
                std::thread::spawn(move || {
                    serve(stream, &*script, |body, request| {
                        if !told.load(Ordering::Relaxed) {
                            texts.lock().expect("bodies").push(body);
                            kept.lock().expect("requests").push(request);
                        }
                    });
                });
            }
        });
        MockModel { address, requests, bodies, forgets }
    }

    /// As [`MockModel::start`], but it keeps nothing of what it is asked: for a run without end.
    pub fn forgetful(script: impl Fn(&Value, &mut TcpStream) + Send + Sync + 'static) -> MockModel {
        let model = MockModel::start(script);
        model.forgets.store(true, Ordering::Relaxed);
        model
    }

    /// A model that answers every request with `text`.
    pub fn saying(text: &str) -> MockModel {
        let text = text.to_owned();
        MockModel::start(move |request, stream| answer(request, stream, &text))
    }

    /// The lines of `plugins.toml` that select it.
    pub fn toml(&self, context_window: u32) -> String {
        format!(
            "[model]\nprovider = \"openai\"\nbase_url = \"http://{}/v1\"\nmodel = \"mock\"\ncontext_window = {context_window}\n\
             max_output_tokens = 256\n",
            self.address
        )
    }

    /// The bodies of every request so far, byte for byte.
    pub fn bodies(&self) -> Vec<String> {
        self.bodies.lock().expect("bodies").clone()
    }

    /// Forgets the requests so far: a run of many rounds does not look at them.
    pub fn forget(&self) {
        self.requests.lock().expect("requests").clear();
        self.bodies.lock().expect("bodies").clear();
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<Value> {
        self.requests.lock().expect("requests").clone()
    }
}

fn serve(mut stream: TcpStream, script: &Script, keep: impl FnOnce(String, Value)) {
    let mut reader = BufReader::new(stream.try_clone().expect("a connection"));
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let request: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    keep(String::from_utf8_lossy(&body).into_owned(), request.clone());
    script(&request, &mut stream);
}

/// Writes a whole answer with `text`, in the form that the request asks for.
pub fn answer(request: &Value, stream: &mut TcpStream, text: &str) {
    if request["stream"] == true {
        stream_head(stream);
        chunk(stream, json!({"role": "assistant", "content": text}), Value::Null);
        chunk(stream, json!({}), json!("stop"));
        stream_end(stream);
    } else {
        message(stream, json!({"role": "assistant", "content": text}), "stop");
    }
}

/// Writes a whole completion with one message.
pub fn message(stream: &mut TcpStream, message: Value, finish: &str) {
    let body = json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "mock",
        "system_fingerprint": "kept-as-it-came",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}});
    respond(stream, "200 OK", &body);
}

/// Writes any JSON answer.
pub fn respond(stream: &mut TcpStream, status: &str, body: &Value) {
    let body = body.to_string();
    // The gateway may be gone; that is the test's business, not the model's.
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
}

/// Begins a stream.
pub fn stream_head(stream: &mut TcpStream) {
    let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n");
}

/// Writes one chunk of a stream and flushes it.
pub fn chunk(stream: &mut TcpStream, delta: Value, finish: Value) {
    let body = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "mock",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    let _ = write!(stream, "data: {body}\n\n");
    let _ = stream.flush();
}

/// Ends a stream.
pub fn stream_end(stream: &mut TcpStream) {
    let _ = write!(stream, "data: [DONE]\n\n");
}
