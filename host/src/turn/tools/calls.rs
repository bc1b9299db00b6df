//! Runs the calls of one message of the model.
//!
//! An engine is never called twice at once for one session, so its calls run one after the other; the gateway's own run beside
//! them. Whatever goes wrong with a call, the model reads about it; only a cancelled turn ends.

use super::offer::By;
use super::{GatewayTool, ToolRun, error_text};
use crate::slot::{EngineRef, FailureKind, HookFailure, ToolOutput};
use crate::transcript::{Content, Message, Role, ToolCall};
use crate::turn::TurnError;
use crate::turn::run::TurnRun;
use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::{CancellationToken, DropGuard};

/// An outcome with its place among the calls, and how long it took.
type Done = (usize, ToolOutput, Duration);

/// What the calls of one engine came to.
struct EngineDone {
    done: Vec<Done>,
    failure: Option<HookFailure>,
}

impl TurnRun {
    /// Runs calls that the gateway answers and gives their results in the same order.
    ///
    /// # Errors
    ///
    /// [`TurnError::Cancelled`]; or that no engine is left to serve after one of them failed.
    pub(in crate::turn) async fn run_calls(&mut self, calls: &[ToolCall]) -> Result<Vec<Message>, TurnError> {
        self.cancel.check()?;
        let most = self.house.config.tools.max_calls;
        let mut outputs: Vec<Option<(ToolOutput, Duration)>> = vec![None; calls.len()];
        let (mut engine_calls, mut gateway_calls) = (Vec::new(), Vec::new());
        let engine_done = CancellationToken::new();
        for (at, call) in calls.iter().enumerate() {
            // Every call counts, also one that cannot be run: a model may repeat it for ever.
            let within = self.tools.take(most);
            let refused = match self.tools.owner(&call.function.name) {
                _ if !within => Some(error_text(format!(
                    "not run: the limit of {most} tool calls in one turn is reached; answer with what you have"
                ))),
                None => Some(self.no_such_tool(&call.function.name)),
                Some(by) => match (arguments(call), by) {
                    (Err(wrong), _) => Some(error_text(wrong)),
                    (Ok(_), By::Engine(engine)) => {
                        engine_calls.push((at, engine));
                        None
                    }
                    (Ok(arguments), By::Gateway(tool)) => {
                        gateway_calls.push(self.gateway_call(at, call, arguments, tool, engine_done.clone()));
                        None
                    }
                },
            };
            outputs[at] = refused.map(|output| (output, Duration::ZERO));
        }
        let run = &*self;
        let (by_engine, by_gateway) = tokio::join!(
            run.engine_calls(calls, &engine_calls, engine_done.drop_guard()),
            run.cancel.unless_fired(join_all(gateway_calls))
        );
        for (at, output, took) in by_engine.done.into_iter().chain(by_gateway?) {
            outputs[at] = Some((output, took));
        }
        if let Some(failure) = by_engine.failure {
            self.cancel.check()?;
            if failure.kind == FailureKind::Cancelled {
                return Err(TurnError::Cancelled);
            }
            if failure.engine == self.lease.engine().id() {
                self.move_down(&failure)?;
            }
        }
        self.cancel.check()?;
        self.tools.looped(&self.params);
        self.tool_tokens = self.agent.tool_tokens(self.tools.params(&self.params));
        let done = calls.iter().zip(outputs);
        Ok(done
            .map(|(call, output)| self.result(call, output.unwrap_or_else(|| (not_run(), Duration::ZERO))))
            .collect())
    }

    /// Calls of engines, one after the other; after a failure the rest of them is not made.
    /// `_done` is dropped when the last has come back.
    async fn engine_calls(&self, calls: &[ToolCall], owners: &[(usize, EngineRef)], _done: DropGuard) -> EngineDone {
        let mut done = Vec::with_capacity(owners.len());
        let mut failure: Option<HookFailure> = None;
        for (at, engine) in owners {
            let since = Instant::now();
            let serves = engine.id() == self.lease.engine().id();
            let output = if failure.is_some() || !serves || self.cancel.check().is_err() {
                dropped(engine.id())
            } else {
                match self.engine_call(&calls[*at]).await {
                    Ok(Some(output)) => output,
                    Ok(None) => error_text(format!("{} has no tools any more", engine.id())),
                    Err(failed) => {
                        let output = error_text(format!("the tool of {} failed: {}", engine.id(), failed.reason));
                        failure = Some(failed);
                        output
                    }
                }
            };
            done.push((*at, output, since.elapsed()));
        }
        EngineDone { done, failure }
    }

    async fn engine_call(&self, call: &ToolCall) -> Result<Option<ToolOutput>, HookFailure> {
        let facts = self.session_facts(None, None);
        let (id, name) = (call.id.clone(), call.function.name.clone());
        let arguments = match call.function.arguments.trim() {
            "" => "{}".to_owned(),
            _ => call.function.arguments.clone(),
        };
        self.segment(facts, false, move |segment| segment.call_tool(&id, &name, &arguments)).await
    }

    fn gateway_call(
        &self,
        at: usize,
        call: &ToolCall,
        arguments: Map<String, Value>,
        tool: Arc<dyn GatewayTool>,
        engine_done: CancellationToken,
    ) -> impl Future<Output = Done> + Send + use<> {
        let since = Instant::now();
        let patience = tool.deadline().unwrap_or(Duration::from_millis(self.house.config.tools.timeout_ms));
        let run = ToolRun {
            house: self.house.clone(),
            session: self.session.clone(),
            lease: self.lease.clone(),
            turn_id: self.admitted.turn_id.clone(),
            call_id: call.id.clone(),
            arguments,
            model: self.params.get("model").and_then(Value::as_str).map(str::to_owned),
            deadline: since + patience,
            cancel: self.cancel.flag(),
        };
        let work = tokio::time::timeout(patience, async move {
            if tool.calls_engine() {
                engine_done.cancelled().await;
            }
            tool.call(run).await
        });
        async move {
            let late = |_| error_text(format!("the tool took longer than {} ms", patience.as_millis()));
            (at, work.await.unwrap_or_else(late), since.elapsed())
        }
    }

    fn no_such_tool(&self, name: &str) -> ToolOutput {
        let known: Vec<&str> = self.tools.names().collect();
        error_text(format!("there is no tool \"{name}\"; the gateway has: {}", known.join(", ")))
    }

    /// The result as an entry, noted for the turn record.
    fn result(&mut self, call: &ToolCall, (output, took): (ToolOutput, Duration)) -> Message {
        let by = match self.tools.owner(&call.function.name) {
            Some(By::Engine(engine)) => Some(engine.id().to_owned()),
            Some(By::Gateway(_)) => Some("gateway".to_owned()),
            None => None,
        };
        if let Some(metrics) = &self.house.metrics {
            metrics.tool_call(by.as_deref().unwrap_or("nobody"), if output.is_error { "error" } else { "ok" });
        }
        self.notes.tools.push(json!({
            "name": call.function.name,
            "by": by,
            "call": call.id,
            "micros": u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            "error": output.is_error,
        }));
        Message {
            role: Role::Tool,
            content: Content::Text(output.text),
            tool_calls: Vec::new(),
            tool_call_id: Some(call.id.clone()),
            name: None,
            extra: Map::new(),
        }
    }
}

/// The arguments of a call; a model that gives none means an empty object.
fn arguments(call: &ToolCall) -> Result<Map<String, Value>, String> {
    let text = call.function.arguments.trim();
    if text.is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        Ok(_) => Err("the arguments are no JSON object".into()),
        Err(error) => Err(format!("the arguments are not JSON: {error}")),
    }
}

fn dropped(engine: &str) -> ToolOutput {
    error_text(format!("the tool is gone: its engine {engine} does not serve this turn any more"))
}

fn not_run() -> ToolOutput {
    error_text("the call was not run")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(arguments: &str) -> ToolCall {
        serde_json::from_value(json!({"id": "c", "function": {"name": "f", "arguments": arguments}})).unwrap()
    }

    #[test]
    fn arguments_are_an_object_or_nothing() {
        assert_eq!(arguments(&call(" ")).unwrap(), Map::new());
        assert_eq!(arguments(&call(r#"{"a":1}"#)).unwrap()["a"], 1);
        assert!(arguments(&call("[1]")).unwrap_err().contains("object"));
        assert!(arguments(&call("{")).unwrap_err().contains("not JSON"));
    }
}
