//! A scripted endpoint of the OpenAI Responses dialect on loopback, which keeps conversations as a real one does.

use crate::model::{self, MockModel};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

/// What the model says: the items of its output.
type Script = dyn Fn(&Heard) -> Vec<Value> + Send + Sync;

/// A request with what the model has before it: the thread that the request continues, and its own input.
#[derive(Debug, Clone)]
pub struct Heard {
    /// The body as it came.
    pub request: Value,
    /// Every item of the thread, the new ones last.
    pub thread: Vec<Value>,
}

impl Heard {
    /// Texts of the thread's items, in order; calls and their results as `name(arguments)` and `=output`.
    pub fn said(&self) -> Vec<String> {
        self.thread.iter().map(text_of).collect()
    }

    /// Texts of the items that this request brought.
    pub fn brought(&self) -> Vec<String> {
        self.request["input"].as_array().into_iter().flatten().map(text_of).collect()
    }

    /// The response that it continues.
    pub fn previous(&self) -> Option<&str> {
        self.request["previous_response_id"].as_str()
    }
}

fn text_of(item: &Value) -> String {
    match item["type"].as_str() {
        Some("function_call") => {
            format!("{}({})", item["name"].as_str().unwrap_or_default(), item["arguments"].as_str().unwrap_or_default())
        }
        Some("function_call_output") => format!("={}", item["output"].as_str().unwrap_or_default()),
        _ => match &item["content"] {
            Value::String(text) => text.clone(),
            parts => parts[0]["text"].as_str().unwrap_or_default().to_owned(),
        },
    }
}

/// The running endpoint. Its threads end with the test process.
#[derive(Debug, Clone)]
pub struct ThreadServer {
    model: MockModel,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Items up to and with each response that is kept.
    kept: BTreeMap<String, Vec<Value>>,
    responses: usize,
    heard: Vec<Heard>,
}

impl ThreadServer {
    /// Answers with what `script` makes of each request. One that continues an unknown response is refused.
    pub fn start(script: impl Fn(&Heard) -> Vec<Value> + Send + Sync + 'static) -> ThreadServer {
        let state = Arc::new(Mutex::new(State::default()));
        let (own, script): (_, Arc<Script>) = (Arc::clone(&state), Arc::new(script));
        let model = MockModel::start(move |request, stream| {
            if request.is_null() {
                // Somebody asks for the list of models.
                model::respond(stream, "200 OK", &json!({"object": "list", "data": [{"id": "mock"}]}));
            } else {
                serve(request, stream, &own, &*script);
            }
        });
        ThreadServer { model, state }
    }

    /// One that says "answer N", and the N-th answer is the N-th of the process.
    pub fn counting() -> ThreadServer {
        let count = Mutex::new(0);
        ThreadServer::start(move |_| {
            let mut count = count.lock().expect("count");
            *count += 1;
            vec![message(&format!("answer {count}"))]
        })
    }

    /// The lines of `plugins.toml` that select it.
    pub fn toml(&self, context_window: u32) -> String {
        self.model.toml(context_window).replace("provider = \"openai\"", "provider = \"thread\"")
    }

    /// Every request so far that was not refused, with what the model had before it.
    pub fn heard(&self) -> Vec<Heard> {
        self.state.lock().expect("state").heard.clone()
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<Value> {
        self.model.requests()
    }

    /// Forgets every conversation, as a provider does after some weeks.
    pub fn forget(&self) {
        self.state.lock().expect("state").kept.clear();
    }
}

/// A message of the model.
pub fn message(text: &str) -> Value {
    json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]})
}

/// A call of a tool by the model.
pub fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments})
}

fn serve(request: &Value, stream: &mut TcpStream, state: &Mutex<State>, script: &Script) {
    let mut thread = Vec::new();
    if let Some(previous) = request["previous_response_id"].as_str() {
        match state.lock().expect("state").kept.get(previous) {
            Some(kept) => thread.clone_from(kept),
            None => {
                let error = json!({"error": {"message": format!("Previous response with id '{previous}' not found."),
                    "type": "invalid_request_error", "param": "previous_response_id", "code": "previous_response_not_found"}});
                return model::respond(stream, "400 Bad Request", &error);
            }
        }
    }
    let cached = tokens(&thread);
    thread.extend(request["input"].as_array().into_iter().flatten().cloned());
    let heard = Heard { request: request.clone(), thread };
    // A script may wait; others are served meanwhile.
    state.lock().expect("state").heard.push(heard.clone());
    let output = script(&heard);
    let response = {
        let mut state = state.lock().expect("state");
        state.responses += 1;
        let id = format!("resp_{}", state.responses);
        if request["store"] != false {
            let mut kept = heard.thread.clone();
            kept.extend(output.iter().cloned());
            state.kept.insert(id.clone(), kept);
        }
        let (input, said) = (tokens(&heard.thread), tokens(&output));
        json!({"id": id, "object": "response", "created_at": 1, "model": "mock", "status": "completed", "error": null,
            "output": output, "usage": {"input_tokens": input, "output_tokens": said, "total_tokens": input + said,
                "input_tokens_details": {"cached_tokens": cached}}})
    };
    if request["stream"] == true { events(stream, &response) } else { model::respond(stream, "200 OK", &response) }
}

/// About what a tokenizer would count.
fn tokens(items: &[Value]) -> usize {
    items.iter().map(|item| 3 + text_of(item).len() / 4).sum()
}

fn events(stream: &mut TcpStream, response: &Value) {
    model::stream_head(stream);
    let mut begun = response.clone();
    begun["status"] = "in_progress".into();
    begun["output"] = json!([]);
    begun["usage"] = Value::Null;
    send(stream, &json!({"type": "response.created", "response": begun}));
    for (index, item) in response["output"].as_array().into_iter().flatten().enumerate() {
        let mut bare = item.clone();
        match item["type"].as_str() {
            Some("function_call") => {
                bare["arguments"] = "".into();
                send(stream, &json!({"type": "response.output_item.added", "output_index": index, "item": bare}));
                for piece in pieces(item["arguments"].as_str().unwrap_or_default()) {
                    let event = json!({"type": "response.function_call_arguments.delta", "output_index": index, "delta": piece});
                    send(stream, &event);
                }
            }
            _ => {
                bare["content"] = json!([]);
                send(stream, &json!({"type": "response.output_item.added", "output_index": index, "item": bare}));
                for piece in pieces(&text_of(item)) {
                    let event = json!({"type": "response.output_text.delta", "output_index": index, "delta": piece});
                    send(stream, &event);
                }
            }
        }
        send(stream, &json!({"type": "response.output_item.done", "output_index": index, "item": item}));
    }
    send(stream, &json!({"type": "response.completed", "response": response}));
}

fn pieces(text: &str) -> Vec<String> {
    text.split_inclusive(' ').map(str::to_owned).collect()
}

fn send(stream: &mut TcpStream, event: &Value) {
    // The gateway may be gone; that is the test's business.
    let _ = write!(stream, "event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default());
    let _ = stream.flush();
}
