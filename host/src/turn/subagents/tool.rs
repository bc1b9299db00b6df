//! `spawn_subagent`: the model gives a task to a child of its session.

use super::super::house::House;
use super::super::run::TurnRun;
use super::super::tools::{GatewayTool, ToolRun};
use super::spawn::{Spawned, spawn};
use super::{SpawnMode, SpawnRequest, SubagentReport};
use crate::config::SubagentsConfig;
use crate::diagnostic::Diagnostic;
use crate::slot::{Tool, ToolOutput};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Its name.
const NAME: &str = "spawn_subagent";
/// Time beside the child's own: for its start, and for what its engine does with its turn.
const BESIDE: Duration = Duration::from_secs(30);

/// The tool, for a turn whose session may have children.
pub(in super::super) fn tool(run: &TurnRun) -> Option<Arc<dyn GatewayTool>> {
    let config = &run.house.config.subagents;
    let key = run.session.key.as_deref()?;
    let depth = run.house.subagents.live(key).map_or(0, |child| child.record().depth);
    (config.enabled && config.tool && depth < config.max_depth).then(|| Arc::new(SpawnTool::new(&run.house)) as _)
}

struct SpawnTool {
    deadline: Duration,
}

impl SpawnTool {
    fn new(house: &House) -> SpawnTool {
        let SubagentsConfig { time_ms, ttl_ms, .. } = house.config.subagents;
        let longest = if time_ms == 0 { ttl_ms } else { time_ms.min(ttl_ms) };
        SpawnTool { deadline: Duration::from_millis(longest) + BESIDE }
    }
}

impl GatewayTool for SpawnTool {
    fn definition(&self) -> Tool {
        Tool {
            name: NAME.into(),
            description: "Gives a task to a subagent, which works on it in a session of its own and answers with a result. \
                          An isolated subagent knows only its task; a fork knows this conversation up to the message that \
                          is being answered. Without waiting, its result comes with the next message."
                .into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "task": {"type": "string", "description": "What to do, with everything that must be known for it."},
                    "mode": {"type": "string", "enum": ["isolated", "fork"], "description": "isolated by default"},
                    "label": {"type": "string", "description": "A short name."},
                    "wait": {"type": "boolean", "description": "Wait for the result; true by default."}
                },
                "required": ["task"],
                "additionalProperties": false
            }),
        }
    }

    fn call(&self, run: ToolRun) -> BoxFuture<'static, ToolOutput> {
        called(run).boxed()
    }

    fn deadline(&self) -> Option<Duration> {
        Some(self.deadline)
    }

    fn calls_engine(&self) -> bool {
        true
    }
}

async fn called(run: ToolRun) -> ToolOutput {
    let ask = match asked(&run.arguments, run.model.clone()) {
        Ok(ask) => ask,
        Err(wrong) => return error(wrong),
    };
    // Its start is never left half done, whatever becomes of this turn.
    let (house, session) = (run.house.clone(), run.session.clone());
    let started = run.house.finish(async move { spawn(&house, session, None, ask).await }).await;
    let Spawned { report, outcome } = match started {
        Ok(spawned) => spawned,
        Err(refused) => return error(refused.report()),
    };
    match outcome {
        // The child's own time bounds the wait; when this turn ends before, the result comes as a note.
        Some(outcome) => match outcome.await {
            Ok(report) => told(&report),
            Err(_) => error("the gateway is stopping; the subagent goes on when it is up again"),
        },
        None => ToolOutput {
            text: json!({"subagent": report.child, "state": report.state, "note": report.note}).to_string(),
            is_error: false,
        },
    }
}

fn asked(arguments: &Map<String, Value>, model: Option<String>) -> Result<SpawnRequest, String> {
    let text = |name: &str| match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("{name} is not a text")),
    };
    let mode = match text("mode")?.as_deref() {
        None | Some("isolated") => SpawnMode::Isolated,
        Some("fork") => SpawnMode::Fork,
        Some(other) => return Err(format!("mode is isolated or fork, not {other}")),
    };
    Ok(SpawnRequest {
        task: text("task")?.unwrap_or_default(),
        mode,
        label: text("label")?,
        model,
        wait: arguments.get("wait").and_then(Value::as_bool).unwrap_or(true),
        ..SpawnRequest::default()
    })
}

fn told(report: &SubagentReport) -> ToolOutput {
    match &report.result {
        Some(result) => ToolOutput { text: result.clone(), is_error: false },
        None => {
            let cause = report.cause.as_deref().unwrap_or("no cause is known");
            error(format!("the subagent ended without a result ({}: {cause})", report.state))
        }
    }
}

fn error(reason: impl std::fmt::Display) -> ToolOutput {
    ToolOutput { text: format!("error: {reason}"), is_error: true }
}
