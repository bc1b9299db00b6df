//! The task of a child: one turn, and what is made of its end.

use super::super::drive;
use super::super::house::House;
use super::super::incoming::Incoming;
use super::super::{HistoryMode, TurnBody, TurnError, TurnReply, TurnRequest};
use super::SubagentReport;
use super::child::Child;
use super::end::{Ending, conclude};
use crate::model::{ModelError, reply_of};
use crate::transcript::SubagentEnd;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::oneshot;

/// Stands before the child's key in the idempotency key of its task.
pub(super) const TASK: &str = "subagent:";

/// What the child's turn gives.
pub(super) type Head = oneshot::Receiver<Result<TurnReply, TurnError>>;

/// Begins the task, or goes on with it where an earlier process left it: the same key makes it the same turn.
pub(super) fn begin(house: &Arc<House>, child: &Arc<Child>) -> Result<Head, TurnError> {
    let record = child.record();
    let mut messages = Vec::new();
    if let Some(system) = &record.system {
        messages.push(json!({"role": "system", "content": system}));
    }
    messages.push(json!({"role": "user", "content": record.task}));
    let mut params = Map::new();
    if let Some(model) = &record.model {
        params.insert("model".into(), model.as_str().into());
    }
    let request = TurnRequest {
        session_key: Some(record.child.clone()),
        history: HistoryMode::Delta,
        params,
        idempotency_key: Some(format!("{TASK}{}", record.child)),
        cancel: child.cancel.clone(),
        ..TurnRequest::default()
    };
    let incoming = Incoming::read(messages, HistoryMode::Delta)?;
    let (sender, head) = oneshot::channel();
    house.spawn_turn(drive::drive(house.clone(), request, None, incoming, sender))?;
    Ok(head)
}

/// Waits for the end of the task, off everybody's path.
pub(super) fn watch(
    house: &Arc<House>,
    child: &Arc<Child>,
    mut head: Head,
    tell: Option<oneshot::Sender<SubagentReport>>,
) {
    let (house, child) = (house.clone(), child.clone());
    let tasks = house.tasks.clone();
    let runtime = house.runtime.clone();
    let work = async move {
        let running = house.metrics.as_ref().map(|metrics| metrics.subagent_running());
        let since = Instant::now();
        let (left, reason, cause) = child.time_left(super::super::clock::now_ms());
        let reply = tokio::select! {
            reply = &mut head => reply,
            () = tokio::time::sleep(left) => {
                child.stop(reason, cause);
                // It sees the cancel, and each of its calls has a deadline of its own.
                head.await
            }
        };
        drop(running);
        let reply = reply.unwrap_or_else(|_| Err(TurnError::internal("the turn ended without an answer")));
        if let (Ok(reply), Some(metrics)) = (&reply, &house.metrics) {
            metrics.turn(&reply.engine, reply.degraded.as_deref(), since.elapsed());
        }
        let stopping = house.stop.is_cancelled() && child.stopped().is_none();
        match ending(reply, &child) {
            // The next process goes on with it.
            Ending { result: None, .. } if stopping => {
                // A stop in good order is no attempt that failed.
                let record = child.change(|record| record.attempts = record.attempts.saturating_sub(1));
                if let Err(error) = super::keep(&house, record).await {
                    tracing::warn!(%error, child = &*child.key, "a subagent that goes on later could not be kept");
                }
                house.subagents.remove(&child.key);
                child.done.cancel();
            }
            ending => conclude(&house, &child, ending, tell).await,
        }
    };
    // Tracked, so that a stop waits for it; also behind the moment when nothing new is admitted.
    tasks.spawn_on(work, &runtime);
}

/// What a reply means for the child.
fn ending(reply: Result<TurnReply, TurnError>, child: &Child) -> Ending {
    let released = |cause: String| Ending { reason: SubagentEnd::Released, cause: Some(cause), result: None };
    match reply {
        Ok(TurnReply { body: TurnBody::Full(body), .. }) => match text_of(&body) {
            Ok(text) => Ending { reason: SubagentEnd::Completed, cause: None, result: Some(text) },
            Err(cause) => released(cause),
        },
        Ok(_) => released("its answer came in pieces that nobody put together".into()),
        Err(error) => match (child.stopped(), &error) {
            (Some((reason, cause)), _) => Ending { reason, cause: Some(cause), result: None },
            (None, TurnError::Model(model @ ModelError::Budget(_))) => released(model.to_string()),
            (None, error) => released(with_causes(error)),
        },
    }
}

fn text_of(body: &Value) -> Result<String, String> {
    let reply = reply_of(body).map_err(|error| error.to_string())?;
    if !reply.message.tool_calls.is_empty() {
        return Err("it ended with tool calls that nobody runs".into());
    }
    Ok(reply.message.text().into_owned())
}

fn with_causes(error: &TurnError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
