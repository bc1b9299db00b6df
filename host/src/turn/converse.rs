//! The model's side of a turn: as many calls as the tool loop needs, one answer to the client.

use super::TurnError;
use super::outlet::Outlet;
use super::replay_answer::{chunks_of, completion};
use super::run::TurnRun;
use super::settle::Envelope;
use super::tools::Relay;
use crate::model::{Accumulator, ModelError, ModelReply, ModelStream, Reply, Usage, reply_of, usage_only, wants_usage};
use crate::observe::failpoint;
use crate::transcript::reconcile::BETWEEN;
use crate::transcript::{Content, EntryId, Message};
use futures_util::StreamExt;
use serde_json::Value;
use std::time::Instant;

/// Said when the model had nothing to say but calls that it may not make any more.
const NO_ANSWER: &str = "The limit of tool calls for this turn was reached before there was an answer.";

/// What the client has been told in earlier model calls of the turn.
#[derive(Default)]
struct Told {
    /// Texts, in order.
    texts: Vec<String>,
    usage: Option<Value>,
    calls: u32,
    relay: Relay,
}

/// What one model call said.
struct Said {
    reply: Reply,
    /// The `chat.completion` object, when the client does not want chunks.
    body: Option<Value>,
    /// The provider's `usage`.
    usage: Option<Value>,
    /// The client is gone; this much was said until then.
    gone: bool,
}

impl TurnRun {
    /// Calls the model until it has answered, and gives the answer to the client. It is stored when this returns well.
    pub(super) async fn converse(&mut self, outlet: &mut Outlet) -> Result<(), TurnError> {
        let mut told = Told::default();
        loop {
            let answer = self.call_model(outlet.stream).await?;
            told.calls += 1;
            self.notes.model_calls = told.calls;
            let mut said = self.listen(outlet, answer, &mut told.relay).await?;
            TurnError::at("turn.model.heard")?;
            self.note_usage(said.reply.usage.as_ref());
            self.host.answered(&said.reply, !said.gone);
            add_usage(&mut told.usage, said.usage.take());
            if said.gone {
                return self.interrupted(said.reply, &told).await;
            }
            let ours = self.tools.ours(&said.reply.message);
            if ours.is_empty() {
                return self.answered(outlet, said, told, None).await;
            }
            if self.tools.closed() {
                // The host has calls that are never answered.
                self.host.forget();
                self.without_calls(outlet, &mut said, &mut told).await;
                return self.answered(outlet, said, told, None).await;
            }
            let mixed = ours.len() < said.reply.message.tool_calls.len();
            let entry = self.store_calls(said.reply.message.clone(), mixed).await?;
            TurnError::at("turn.tool.before")?;
            let results = self.run_calls(&ours).await?;
            TurnError::at("turn.tool.after")?;
            let last = self.store_results(results).await?;
            if mixed {
                return self.answered(outlet, said, told, Some((entry, last))).await;
            }
            told.texts.push(said.reply.message.text().into_owned());
            told.relay.next_call();
        }
    }

    /// Takes in what one call of the model says; a client that wants chunks gets them as they come.
    async fn listen(&mut self, outlet: &mut Outlet, answer: ModelReply, relay: &mut Relay) -> Result<Said, TurnError> {
        let chunks: ModelStream = match answer {
            ModelReply::Full(body) if !outlet.stream => {
                let reply = reply_of(&body).map_err(TurnError::Model)?;
                let usage = body.get("usage").filter(|usage| usage.is_object()).cloned();
                return Ok(Said { reply, body: Some(body), usage, gone: false });
            }
            ModelReply::Full(body) => Box::pin(futures_util::stream::iter(chunks_of(&body).into_iter().map(Ok))),
            ModelReply::Stream(chunks) => chunks,
        };
        if outlet.stream {
            TurnError::at("turn.stream.before_open")?;
            outlet.open(self).await?;
            failpoint::pass("turn.stream.opened");
        }
        let since = Instant::now();
        let heard = self.hear(outlet, chunks, relay).await;
        self.timed("stream", since);
        let (reply, usage, ended) = heard;
        match ended {
            Ended::Failed(error) => Err(TurnError::Model(error)),
            Ended::Gone if !keepable(&reply) => Err(TurnError::Cancelled),
            Ended::Gone => Ok(Said { reply, body: None, usage, gone: true }),
            Ended::Whole => {
                // Asked for a whole answer, and got pieces.
                let body = (!outlet.stream).then(|| completion(&reply, &self.admitted.turn_id, self.started_ms / 1000));
                Ok(Said { reply, body, usage, gone: false })
            }
        }
    }

    async fn hear(&self, outlet: &Outlet, mut chunks: ModelStream, relay: &mut Relay) -> (Reply, Option<Value>, Ended) {
        let mut accumulator = Accumulator::new();
        let mut usage = None;
        let usage_wanted = wants_usage(&self.params);
        let ended = 'all: loop {
            let next = tokio::select! {
                biased;
                next = chunks.next() => next,
                () = self.cancel.fired() => break Ended::Gone,
                () = outlet.gone() => break Ended::Gone,
            };
            let chunk = match next {
                None => break Ended::Whole,
                Some(Err(error)) => break Ended::Failed(error),
                Some(Ok(chunk)) => chunk,
            };
            accumulator.push(&chunk);
            if let Some(told) = chunk.get("usage").filter(|usage| usage.is_object()) {
                usage = Some(told.clone());
            }
            if self.tools.any() {
                for chunk in relay.push(chunk, &self.tools) {
                    if !outlet.chunk(chunk).await {
                        break 'all Ended::Gone;
                    }
                }
            } else if (usage_wanted || !usage_only(&chunk)) && !outlet.chunk(chunk).await {
                break Ended::Gone;
            }
        };
        (accumulator.finish(), usage, ended)
    }

    /// Keeps what the client, who is gone, has been told.
    async fn interrupted(&mut self, mut reply: Reply, told: &Told) -> Result<(), TurnError> {
        reply.usage = told.usage.as_ref().and_then(Usage::read);
        self.store_answer(reply, Envelope { body: None, outcome: "interrupted", stored: None }).await
    }

    /// The last call of the model, which was offered no tool of the gateway's, called one all the same.
    async fn without_calls(&mut self, outlet: &Outlet, said: &mut Said, told: &mut Told) {
        let tools = &self.tools;
        let message = &mut said.reply.message;
        message.tool_calls.retain(|call| tools.is_clients(call));
        if !message.tool_calls.is_empty() {
            return;
        }
        said.reply.finish_reason = Some("stop".into());
        let text = message.text();
        if text.trim().is_empty() {
            message.content = Content::Text(format!("{text}{NO_ANSWER}"));
            outlet.chunk(told.relay.say(NO_ANSWER)).await;
        }
    }

    /// Stores the answer and gives the client what is left of it. `stored`: the entry of a message that is stored already,
    /// since the gateway ran calls of it, and the last of its results.
    async fn answered(
        &mut self,
        outlet: &mut Outlet,
        said: Said,
        mut told: Told,
        stored: Option<(EntryId, EntryId)>,
    ) -> Result<(), TurnError> {
        let Said { mut reply, body, .. } = said;
        reply.usage = told.usage.as_ref().and_then(Usage::read);
        let looped = told.calls > 1 || stored.is_some() || self.tools.closed();
        let tells = outlet.stream && self.tools.any();
        let shown = (looped || tells).then(|| self.shown(&reply.message, &told.texts));
        if let Some(shown) = shown.as_ref().filter(|_| tells) {
            let usage = told.usage.as_ref().filter(|_| wants_usage(&self.params));
            for chunk in told.relay.finish(shown, reply.finish_reason.as_deref(), usage) {
                outlet.chunk(chunk).await;
            }
        }
        let keyed = self.idempotency_key.is_some();
        let body = match (body, shown.filter(|_| looped)) {
            (Some(body), Some(shown)) => {
                Some(rewritten(body, &shown, reply.finish_reason.as_deref(), told.usage.as_ref()))
            }
            // A stream is told again from its message; one of several messages could not be.
            (None, Some(message)) if keyed => {
                let whole = Reply { message, ..reply.clone() };
                Some(completion(&whole, &self.admitted.turn_id, self.started_ms / 1000))
            }
            (body, _) => body,
        };
        let kept = if keyed { body.clone() } else { None };
        let note = outlet.named_other_than(self.lease.engine().id()).map(|named| {
            (named.to_owned(), format!("engineroom-engine: {}", self.lease.engine().id()), self.degraded_code())
        });
        if let Some((named, text, degraded)) = note {
            self.notes.headers_named = Some(named);
            let text = degraded.map_or(text.clone(), |code| format!("{text}; engineroom-degraded: {code}"));
            outlet.chunk(Value::String(text)).await;
        }
        self.store_answer(reply, Envelope { body: kept, outcome: "answered", stored }).await?;
        if !outlet.stream
            && let Some(body) = body
        {
            outlet.full(self, body);
        }
        Ok(())
    }

    /// The message as the client gets it: the texts of all calls of the model, and its own calls only.
    fn shown(&self, message: &Message, earlier: &[String]) -> Message {
        let mut shown = message.clone();
        shown.tool_calls.retain(|call| self.tools.is_clients(call));
        let own = message.text();
        let texts: Vec<&str> =
            earlier.iter().map(String::as_str).chain([&*own]).filter(|text| !text.is_empty()).collect();
        if earlier.iter().any(|text| !text.is_empty()) {
            shown.content = Content::Text(texts.join(BETWEEN));
        }
        shown
    }
}

/// How a stream ended.
enum Ended {
    Whole,
    /// The client went away, or the gateway stops.
    Gone,
    Failed(ModelError),
}

/// Worth keeping when nobody heard the end: text, and no half tool call.
fn keepable(reply: &Reply) -> bool {
    reply.message.tool_calls.is_empty() && !reply.message.text().trim().is_empty()
}

/// The last body with the message and the usage of all of them.
fn rewritten(mut body: Value, message: &Message, reason: Option<&str>, usage: Option<&Value>) -> Value {
    if let Some(choice) = body.pointer_mut("/choices/0").and_then(Value::as_object_mut) {
        let given = choice.get_mut("message").and_then(Value::as_object_mut);
        // What else the provider put into the message stays.
        if let (Some(given), Ok(Value::Object(message))) = (given, serde_json::to_value(message)) {
            given.shift_remove("tool_calls");
            given.extend(message);
        }
        let reason = reason.unwrap_or(if message.tool_calls.is_empty() { "stop" } else { "tool_calls" });
        choice.insert("finish_reason".into(), reason.into());
    }
    if let (Some(fields), Some(usage)) = (body.as_object_mut(), usage) {
        fields.insert("usage".into(), usage.clone());
    }
    body
}

/// Adds a provider's `usage` to the one so far, number by number.
fn add_usage(sum: &mut Option<Value>, more: Option<Value>) {
    let Some(more) = more else { return };
    match sum {
        None => *sum = Some(more),
        Some(sum) => add(sum, more),
    }
}

fn add(sum: &mut Value, more: Value) {
    match (sum, more) {
        (Value::Object(sum), Value::Object(more)) => {
            for (name, value) in more {
                match sum.get_mut(&name) {
                    Some(old) => add(old, value),
                    None => drop(sum.insert(name, value)),
                }
            }
        }
        (Value::Number(sum), Value::Number(more)) => {
            if let (Some(a), Some(b)) = (sum.as_u64(), more.as_u64()) {
                *sum = a.saturating_add(b).into();
            } else if let Some(both) = sum.as_f64().zip(more.as_f64()).map(|(a, b)| a + b)
                && let Some(both) = serde_json::Number::from_f64(both)
            {
                *sum = both;
            }
        }
        (sum @ Value::Null, more) => *sum = more,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn usage_is_summed_number_by_number() {
        let mut sum = None;
        add_usage(&mut sum, None);
        add_usage(&mut sum, Some(json!({"total_tokens": 3, "cost": 0.5, "details": {"cached": 1}, "tier": "a"})));
        add_usage(&mut sum, Some(json!({"total_tokens": 4, "cost": 0.25, "details": {"cached": 2, "audio": null}})));
        let expected = json!({"total_tokens": 7, "cost": 0.75, "details": {"cached": 3, "audio": null}, "tier": "a"});
        assert_eq!(sum, Some(expected));
    }

    #[test]
    fn the_last_body_tells_the_whole_answer() {
        let body = json!({"id": "2", "system_fingerprint": "f", "usage": {"total_tokens": 1}, "choices": [{"index": 0,
            "message": {"role": "assistant", "content": "b", "refusal": null, "tool_calls": [{"id": "x"}]},
            "finish_reason": "tool_calls"}]});
        let message = Message::text_of(crate::transcript::Role::Assistant, "a\n\nb");
        let body = rewritten(body, &message, Some("stop"), Some(&json!({"total_tokens": 5})));
        assert_eq!(body["choices"][0]["message"], json!({"role": "assistant", "content": "a\n\nb", "refusal": null}));
        assert_eq!(body["choices"][0]["finish_reason"], "stop");
        assert_eq!((&body["usage"]["total_tokens"], &body["system_fingerprint"]), (&json!(5), &json!("f")));
    }
}
