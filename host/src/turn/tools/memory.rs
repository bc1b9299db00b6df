//! The memory as tools of the model: off unless `[memory] tools` names them, since not every model knows tools.

use super::{GatewayTool, ToolRun, error_text};
use crate::config::MemoryTool;
use crate::slot::{Tool, ToolOutput};
use crate::turn::run::TurnRun;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::Arc;

/// Hits of a search that asks for no number.
const HITS: u64 = 5;
/// Most hits of a search.
const HITS_MAX: u64 = 20;
/// Most characters of a hit that the model reads.
const TEXT_MAX: usize = 2_000;

/// The configured tools, where a provider serves the session's agent.
pub(super) fn memory_tools(run: &TurnRun) -> Vec<Arc<dyn GatewayTool>> {
    let house = &run.house;
    let wanted = &house.config.memory.tools;
    if wanted.is_empty() || !house.memory.serves(&run.session.state().record().agent) {
        return Vec::new();
    }
    wanted
        .iter()
        .map(|tool| match tool {
            MemoryTool::Search => Arc::new(Search) as Arc<dyn GatewayTool>,
            MemoryTool::Append => Arc::new(Append),
        })
        .collect()
}

/// `memory_search`.
struct Search;

impl GatewayTool for Search {
    fn definition(&self) -> Tool {
        Tool {
            name: "memory_search".into(),
            description: "Searches what was kept from earlier sessions: facts, decisions, dates, people, preferences. \
                          Gives the best matches, each with the name of its note."
                .into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "Words to look for"},
                    "limit": {"type": "integer", "minimum": 1, "maximum": HITS_MAX, "description": "Most matches"}
                },
                "required": ["query"]
            }),
        }
    }

    fn call(&self, run: ToolRun) -> BoxFuture<'static, ToolOutput> {
        Box::pin(async move {
            let Some(query) = run.arguments.get("query").and_then(Value::as_str) else {
                return error_text("name what to look for in \"query\"");
            };
            let limit = run.arguments.get("limit").and_then(Value::as_u64).unwrap_or(HITS).clamp(1, HITS_MAX);
            let agent = run.session.state().record().agent.clone();
            match run.house.memory.search(&agent, query, limit as usize).await {
                Ok(hits) if hits.is_empty() => ToolOutput { text: "nothing was found".into(), is_error: false },
                Ok(hits) => {
                    let hits = hits.into_iter().map(|hit| json!({"note": hit.id, "text": shortened(&hit.text)}));
                    ToolOutput { text: Value::Array(hits.collect()).to_string(), is_error: false }
                }
                Err(error) => error_text(error),
            }
        })
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(TEXT_MAX) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}

/// `memory_append`.
struct Append;

impl GatewayTool for Append {
    fn definition(&self) -> Tool {
        Tool {
            name: "memory_append".into(),
            description:
                "Keeps something for later sessions. Write it so that it is understood without this conversation."
                    .into(),
            parameters: json!({
                "type": "object",
                "properties": {"text": {"type": "string", "description": "What to keep"}},
                "required": ["text"]
            }),
        }
    }

    fn call(&self, run: ToolRun) -> BoxFuture<'static, ToolOutput> {
        Box::pin(async move {
            let Some(text) = run.arguments.get("text").and_then(Value::as_str) else {
                return error_text("say what to keep in \"text\"");
            };
            let agent = run.session.state().record().agent.clone();
            match run.house.memory.append(&agent, text).await {
                Ok(()) => ToolOutput { text: "kept".into(), is_error: false },
                Err(error) => error_text(error),
            }
        })
    }
}
