//! `/api/sessions/{key}/subagents…`: children of a session.

use super::caller::Caller;
use super::{Api, ApiError, body};
use crate::turn::{SpawnBudgets, SpawnMode, SpawnRequest, SubagentError, SubagentReport, TurnError};
use axum::body::Body;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Children of a session, oldest first.
pub(super) async fn list(api: &Api, key: &str) -> Result<Value, ApiError> {
    let children = api.gateway.turns.subagents(key).await?;
    Ok(json!({"key": key, "subagents": children}))
}

/// One of them.
pub(super) async fn one(api: &Api, key: &str, child: &str) -> Result<Value, ApiError> {
    let children = api.gateway.turns.subagents(key).await?;
    match children.iter().find(|report| report.child == child) {
        Some(report) => document(report),
        None => Err(TurnError::Subagent(SubagentError::Unknown { child: child.to_owned() }).into()),
    }
}

/// Starts a child; answers when it runs, or with `wait` when it has ended.
pub(super) async fn spawn(api: &Api, caller: &Caller, key: &str, body: Body) -> Result<Value, ApiError> {
    let fields = body::object(body, api.gateway.config.api.max_body_bytes).await?;
    let asked = request(&fields)?;
    if let Some(agent) = &asked.agent {
        caller.agent(agent)?;
    }
    document(&api.gateway.turns.spawn_subagent(key, asked).await?)
}

/// Ends a child, if it runs, and deletes its session.
pub(super) async fn end(api: &Api, key: &str, child: &str) -> Result<Value, ApiError> {
    document(&api.gateway.turns.end_subagent(key, child).await?)
}

fn document(report: &SubagentReport) -> Result<Value, ApiError> {
    report.serialize(serde_json::value::Serializer).map_err(|error| ApiError::Internal(error.to_string()))
}

const FIELDS: [&str; 10] =
    ["task", "mode", "lightContext", "ttlMs", "agent", "label", "system", "model", "budgets", "wait"];
const BUDGETS: [&str; 4] = ["maxTurns", "maxToolCalls", "maxTokens", "timeMs"];

/// What is asked. A field that nobody knows is refused: it may be a bound that would not hold.
pub(super) fn request(fields: &Map<String, Value>) -> Result<SpawnRequest, ApiError> {
    known(fields, &FIELDS, "")?;
    let mode = match text(fields, "mode")?.as_deref() {
        None | Some("isolated") => SpawnMode::Isolated,
        Some("fork") => SpawnMode::Fork,
        Some(other) => return Err(ApiError::invalid(format!("\"{other}\" is neither isolated nor fork"), "mode")),
    };
    let budgets = match fields.get("budgets") {
        None | Some(Value::Null) => SpawnBudgets::default(),
        Some(Value::Object(budgets)) => {
            known(budgets, &BUDGETS, "budgets.")?;
            SpawnBudgets {
                max_turns: number(budgets, "maxTurns", "budgets.")?,
                max_tool_calls: number(budgets, "maxToolCalls", "budgets.")?,
                max_tokens: number(budgets, "maxTokens", "budgets.")?,
                time_ms: number(budgets, "timeMs", "budgets.")?,
            }
        }
        Some(_) => return Err(ApiError::invalid("budgets is not an object", "budgets")),
    };
    let light_context = flag(fields, "lightContext")?;
    if light_context && mode == SpawnMode::Fork {
        return Err(ApiError::invalid(
            "lightContext leaves a preparation out that only an isolated child can do without",
            "lightContext",
        ));
    }
    Ok(SpawnRequest {
        task: text(fields, "task")?.unwrap_or_default(),
        mode,
        light_context,
        ttl_ms: number(fields, "ttlMs", "")?,
        agent: text(fields, "agent")?,
        label: text(fields, "label")?,
        system: text(fields, "system")?,
        model: text(fields, "model")?,
        budgets,
        wait: flag(fields, "wait")?,
    })
}

fn known(fields: &Map<String, Value>, names: &[&str], before: &str) -> Result<(), ApiError> {
    match fields.keys().find(|name| !names.contains(&name.as_str())) {
        Some(name) => {
            let message = format!("{before}{name} is unknown; known are {}", names.join(", "));
            Err(ApiError::invalid(message, &format!("{before}{name}")))
        }
        None => Ok(()),
    }
}

fn text(fields: &Map<String, Value>, name: &str) -> Result<Option<String>, ApiError> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(ApiError::invalid(format!("{name} is not a text"), name)),
    }
}

fn flag(fields: &Map<String, Value>, name: &str) -> Result<bool, ApiError> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(ApiError::invalid(format!("{name} is neither true nor false"), name)),
    }
}

fn number(fields: &Map<String, Value>, name: &str, before: &str) -> Result<Option<u64>, ApiError> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64() {
            Some(number) => Ok(Some(number)),
            None => Err(ApiError::invalid(
                format!("{before}{name} is not a whole number of at least 0"),
                &format!("{before}{name}"),
            )),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: Value) -> Result<SpawnRequest, String> {
        request(body.as_object().unwrap())
            .map_err(|error| error.document()["error"]["param"].as_str().unwrap().to_owned())
    }

    #[test]
    fn everything_that_can_be_said_of_a_spawn_is_read() {
        let asked = read(json!({"task": "look", "mode": "isolated", "lightContext": true, "ttlMs": 5, "agent": "a",
            "label": "l", "system": "s", "model": "m", "wait": true,
            "budgets": {"maxTurns": 1, "maxToolCalls": 2, "maxTokens": 3, "timeMs": 4}}))
        .unwrap();
        assert_eq!((asked.task.as_str(), asked.mode, asked.ttl_ms), ("look", SpawnMode::Isolated, Some(5)));
        assert!(asked.wait && asked.light_context);
        let bounds =
            SpawnBudgets { max_turns: Some(1), max_tool_calls: Some(2), max_tokens: Some(3), time_ms: Some(4) };
        assert_eq!(asked.budgets, bounds);
        assert_eq!(read(json!({"task": "x"})).unwrap().mode, SpawnMode::Isolated);
    }

    #[test]
    fn what_is_wrong_or_unknown_is_named() {
        assert_eq!(read(json!({"task": 1})).unwrap_err(), "task");
        assert_eq!(read(json!({"mode": "both"})).unwrap_err(), "mode");
        assert_eq!(read(json!({"ttl": 1})).unwrap_err(), "ttl");
        assert_eq!(read(json!({"ttlMs": -1})).unwrap_err(), "ttlMs");
        assert_eq!(read(json!({"budgets": {"maxTurn": 1}})).unwrap_err(), "budgets.maxTurn");
        assert_eq!(read(json!({"budgets": {"maxTurns": "1"}})).unwrap_err(), "budgets.maxTurns");
        assert_eq!(read(json!({"wait": "yes"})).unwrap_err(), "wait");
        assert_eq!(read(json!({"task": "x", "mode": "fork", "lightContext": true})).unwrap_err(), "lightContext");
        assert_eq!(read(json!({"task": "x", "mode": "fork"})).unwrap().mode, SpawnMode::Fork);
    }
}
