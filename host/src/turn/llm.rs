//! `llm.complete`: one completion for an engine, by the model in use.

use crate::model::{Model, ModelError, ModelReply, ModelRequest, reply_of};
use crate::slot::{LlmRequest, LlmResponse, ServiceError, ServiceStatus};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Asks the model. Never streams. `in_use`: what the session's client asked for last, where no model is configured.
pub(super) async fn complete(
    model: Arc<dyn Model>,
    request: LlmRequest,
    agent: String,
    in_use: Option<String>,
) -> Result<LlmResponse, ServiceError> {
    let info = model.info();
    let mut params = Map::new();
    if let Some(name) = info.requested.clone().or(in_use).filter(|_| request.model.is_none()) {
        params.insert("model".into(), Value::String(name));
    }
    if let Some(tokens) = request.max_tokens {
        params.insert("max_tokens".into(), tokens.into());
    }
    if let Some(temperature) = request.temperature {
        params.insert("temperature".into(), temperature.into());
    }
    if let Some(effort) = &request.reasoning {
        params.insert("reasoning_effort".into(), effort.clone().into());
    }
    if let Some(format) = &request.response_format_json {
        let format: Value = serde_json::from_str(format).map_err(|error| {
            ServiceError::new(ServiceStatus::Invalid, format!("responseFormat is not JSON: {error}"))
        })?;
        params.insert("response_format".into(), format);
    }
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    if let Some(system) = &request.system_prompt {
        messages.push(json!({"role": "system", "content": system}));
    }
    for message in &request.messages {
        messages.push(
            serde_json::to_value(message).map_err(|error| {
                ServiceError::new(ServiceStatus::Invalid, format!("a message is not JSON: {error}"))
            })?,
        );
    }
    let other = request.model;
    let call = ModelRequest { params, messages: messages.into(), model: other.clone(), ..ModelRequest::default() };
    let body = match model.call(call).await.map_err(failed)? {
        ModelReply::Full(body) => body,
        ModelReply::Stream(_) => {
            return Err(ServiceError::new(ServiceStatus::Failed, "the model streamed although nobody asked it to"));
        }
    };
    let reply = reply_of(&body).map_err(failed)?;
    let usage = reply.usage.unwrap_or_default();
    Ok(LlmResponse {
        text: reply.message.text().into_owned(),
        provider: info.provider,
        model: other.unwrap_or(info.resolved),
        response_model: reply.model,
        stop_reason: reply.finish_reason,
        agent_id: Some(agent),
        input_tokens: usage.prompt_tokens,
        output_tokens: usage.completion_tokens,
        cache_read_tokens: usage.cached_tokens,
        cache_write_tokens: None,
        total_tokens: usage.total_tokens,
        cost_usd: None,
    })
}

fn failed(error: ModelError) -> ServiceError {
    let status = match error {
        ModelError::Timeout { .. } => ServiceStatus::Expired,
        ModelError::RateLimit { .. } | ModelError::Unavailable { .. } => ServiceStatus::Unavailable,
        _ => ServiceStatus::Failed,
    };
    ServiceError::new(status, error.to_string())
}
