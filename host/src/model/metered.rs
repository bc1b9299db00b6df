//! Counts what a model does, whichever it is.

use super::{Model, ModelError, ModelInfo, ModelReply, ModelRequest, Usage};
use crate::observe::Metrics;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use serde_json::Value;
use std::sync::Arc;
use std::time::Instant;

/// The same model, counted: calls by outcome, time to the first byte, tokens. A try that was made again inside a call is not a
/// call of its own.
pub fn metered(model: Arc<dyn Model>, metrics: Arc<Metrics>) -> Arc<dyn Model> {
    Arc::new(Metered { model, metrics })
}

struct Metered {
    model: Arc<dyn Model>,
    metrics: Arc<Metrics>,
}

/// Counts a call once, whichever way it ends. Dropped without a word, it was cancelled.
struct Open {
    metrics: Arc<Metrics>,
    provider: String,
    counted: bool,
}

impl Open {
    fn end(&mut self, outcome: &str) {
        if !std::mem::replace(&mut self.counted, true) {
            self.metrics.model_call(&self.provider, outcome);
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.end(ModelError::Cancelled.kind());
    }
}

impl Metered {
    async fn counted(&self, request: ModelRequest) -> Result<ModelReply, ModelError> {
        let mut open =
            Open { metrics: Arc::clone(&self.metrics), provider: self.model.info().provider, counted: false };
        let since = Instant::now();
        let reply = self.model.call(request).await.inspect_err(|error| open.end(error.kind()))?;
        self.metrics.model_first_byte(since.elapsed());
        match reply {
            ModelReply::Full(full) => {
                tokens(&self.metrics, &full);
                open.end("ok");
                Ok(ModelReply::Full(full))
            }
            ModelReply::Stream(chunks) => {
                let counted = futures_util::stream::unfold((chunks, open), |(mut chunks, mut open)| async move {
                    let next = chunks.next().await;
                    match &next {
                        Some(Ok(chunk)) => tokens(&open.metrics, chunk),
                        Some(Err(error)) => open.end(error.kind()),
                        None => open.end("ok"),
                    }
                    next.map(|item| (item, (chunks, open)))
                });
                Ok(ModelReply::Stream(Box::pin(counted)))
            }
        }
    }
}

fn tokens(metrics: &Metrics, answer: &Value) {
    let Some(usage) = answer.get("usage").and_then(Usage::read) else { return };
    let kinds =
        [("prompt", usage.prompt_tokens), ("completion", usage.completion_tokens), ("cached", usage.cached_tokens)];
    for (kind, number) in kinds {
        if let Some(number) = number {
            metrics.tokens(kind, number);
        }
    }
}

impl Model for Metered {
    fn info(&self) -> ModelInfo {
        self.model.info()
    }

    fn call(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelReply, ModelError>> {
        self.counted(request).boxed()
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Value>, ModelError>> {
        self.model.models()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::OfflineModel;
    use serde_json::json;

    fn count(metrics: &Metrics, outcome: &str) -> usize {
        let line = format!("engineroom_model_calls_total{{provider=\"offline\",outcome=\"{outcome}\"}} ");
        metrics.render().lines().find_map(|row| row.strip_prefix(&line)?.parse().ok()).unwrap_or(0)
    }

    #[tokio::test]
    async fn every_call_is_counted_once_by_the_way_it_ended() {
        let metrics = Arc::new(Metrics::new());
        let mut config = crate::config::Config::defaults("/x/plugins.toml".into()).model;
        config.context_window = 100;
        let model = metered(Arc::new(OfflineModel::new(&config)), Arc::clone(&metrics));
        let ask = |text: String, stream| ModelRequest {
            messages: vec![json!({"role": "user", "content": text})].into(),
            stream,
            ..ModelRequest::default()
        };
        model.call(ask("Hello?".into(), false)).await.unwrap();
        let ModelReply::Stream(chunks) = model.call(ask("Hello?".into(), true)).await.unwrap() else { panic!() };
        assert!(chunks.count().await > 2);
        assert_eq!(count(&metrics, "ok"), 2);
        let ModelReply::Stream(chunks) = model.call(ask("Hello?".into(), true)).await.unwrap() else { panic!() };
        drop(chunks);
        assert_eq!(count(&metrics, "cancelled"), 1);
        assert!(model.call(ask("word ".repeat(500), false)).await.is_err());
        assert_eq!(count(&metrics, "context_length_exceeded"), 1);
        assert!(metrics.render().contains("engineroom_tokens_total{kind=\"prompt\"}"));
    }
}
