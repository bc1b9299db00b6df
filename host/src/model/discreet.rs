//! A provider's error may repeat the key that it was sent, and a command's complaint the variable that it was given. Both are
//! shown to clients, logged and kept in turn records, so what is secret is taken out of every error before anybody sees it.

use super::{Model, ModelError, ModelInfo, ModelReply, ModelRequest, ProviderSaid};
use crate::config::{ModelConfig, Secret};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use serde_json::Value;
use std::sync::Arc;

/// A shorter value is no secret, and would be found in innocent words.
const SHORTEST: usize = 8;
/// What stands in its place.
const HIDDEN: &str = "***";

/// The same model, whose errors hold none of the secrets that its configuration names.
pub(super) fn discreet(model: Arc<dyn Model>, config: &ModelConfig) -> Arc<dyn Model> {
    let values = config.api_key_env.iter().chain(&config.env).filter_map(|name| std::env::var(name).ok());
    let secrets: Vec<Secret> =
        values.map(|value| value.trim().to_owned()).filter(|value| value.len() >= SHORTEST).map(Secret::new).collect();
    if secrets.is_empty() { model } else { Arc::new(Discreet { model, secrets: secrets.into() }) }
}

struct Discreet {
    model: Arc<dyn Model>,
    secrets: Arc<[Secret]>,
}

impl Model for Discreet {
    fn info(&self) -> ModelInfo {
        self.model.info()
    }

    fn call(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelReply, ModelError>> {
        async move {
            match self.model.call(request).await.map_err(|error| cleaned(error, &self.secrets))? {
                ModelReply::Stream(chunks) => {
                    let secrets = Arc::clone(&self.secrets);
                    let chunks = chunks.map(move |chunk| chunk.map_err(|error| cleaned(error, &secrets)));
                    Ok(ModelReply::Stream(Box::pin(chunks)))
                }
                full => Ok(full),
            }
        }
        .boxed()
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Value>, ModelError>> {
        async move { self.model.models().await.map_err(|error| cleaned(error, &self.secrets)) }.boxed()
    }
}

fn cleaned(mut error: ModelError, secrets: &[Secret]) -> ModelError {
    match &mut error {
        ModelError::Overflow { said, .. }
        | ModelError::RateLimit { said, .. }
        | ModelError::Auth { said }
        | ModelError::NoTools { said, .. }
        | ModelError::BadRequest { said } => clean_said(said, secrets),
        ModelError::ThreadLost { response, said } => {
            clean(response, secrets);
            clean_said(said, secrets);
        }
        ModelError::Unavailable { message, said } => {
            clean(message, secrets);
            if let Some(said) = said {
                clean_said(said, secrets);
            }
        }
        ModelError::Command { what, .. } => clean(what, secrets),
        ModelError::Protocol(text) | ModelError::Budget(text) | ModelError::Config(text) => clean(text, secrets),
        ModelError::Timeout { .. } | ModelError::Cancelled => {}
    }
    error
}

fn clean_said(said: &mut ProviderSaid, secrets: &[Secret]) {
    clean(&mut said.message, secrets);
    clean_value(&mut said.body, secrets);
}

fn clean_value(value: &mut Value, secrets: &[Secret]) {
    match value {
        Value::String(text) => clean(text, secrets),
        Value::Array(items) => items.iter_mut().for_each(|item| clean_value(item, secrets)),
        Value::Object(fields) => {
            let named = |name: &String| secrets.iter().any(|secret| name.contains(secret.reveal()));
            if fields.keys().any(named) {
                *fields = std::mem::take(fields)
                    .into_iter()
                    .map(|(mut name, value)| {
                        clean(&mut name, secrets);
                        (name, value)
                    })
                    .collect();
            }
            fields.values_mut().for_each(|value| clean_value(value, secrets));
        }
        _ => {}
    }
}

fn clean(text: &mut String, secrets: &[Secret]) {
    for secret in secrets {
        if text.contains(secret.reveal()) {
            *text = text.replace(secret.reveal(), HIDDEN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::classify;
    use serde_json::json;

    #[test]
    fn no_error_repeats_the_key() {
        let secrets = [Secret::new("sk-planted-0123")];
        let bodies = [
            json!({"error": {"message": "Incorrect API key provided: sk-planted-0123.", "sk-planted-0123": [{"a": "x sk-planted-0123"}]}}),
            json!("<html>Authorization: Bearer sk-planted-0123</html>"),
            json!({"error": {"code": "context_length_exceeded", "message": "sk-planted-0123"}}),
        ];
        for body in bodies {
            for status in [400, 401, 403, 404, 413, 429, 500, 503] {
                let error = cleaned(classify(status, body.to_string().as_bytes(), None), &secrets);
                let shown = format!("{error} {error:?} {:?}", error.body());
                assert!(!shown.contains("sk-planted") && shown.contains(HIDDEN), "{shown}");
            }
        }
        let what = "ended; its standard error says: sk-planted-0123".to_owned();
        let command = cleaned(ModelError::Command { program: "agent".into(), what, late: false }, &secrets);
        assert!(!command.to_string().contains("sk-planted"), "{command}");
    }
}
