//! The budget of a child: its model, which refuses a call that the budget does not allow any more.
//!
//! What the child's turn itself asks of the model counts. Summaries and completions that its engine wants do not: they are upkeep,
//! and a budget that is used up must not look like a broken service to the engine.

use crate::model::{Model, ModelError, ModelInfo, ModelReply, ModelRequest, TokenCounter, Usage};
use crate::transcript::{SubagentBudgets, SubagentUsage};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a child has used up so far.
#[derive(Debug, Default)]
pub(super) struct Meter {
    budgets: SubagentBudgets,
    turns: AtomicU64,
    tool_calls: AtomicU64,
    tokens: AtomicU64,
}

impl Meter {
    pub(super) fn new(budgets: SubagentBudgets, used: SubagentUsage) -> Arc<Meter> {
        Arc::new(Meter {
            budgets,
            turns: AtomicU64::new(used.turns),
            tool_calls: AtomicU64::new(used.tool_calls),
            tokens: AtomicU64::new(used.tokens),
        })
    }

    /// What was used up; `time_ms` is the caller's to say.
    pub(super) fn usage(&self, time_ms: u64) -> SubagentUsage {
        SubagentUsage {
            turns: self.turns.load(Ordering::Relaxed),
            tool_calls: self.tool_calls.load(Ordering::Relaxed),
            tokens: self.tokens.load(Ordering::Relaxed),
            time_ms,
        }
    }

    /// Counts a call that is about to be made, and cuts its answer down to what is left. Gives the tokens of its prompt.
    fn before(&self, request: &mut ModelRequest, most: u64, counter: &TokenCounter) -> Result<u64, ModelError> {
        let turns = self.turns.load(Ordering::Relaxed);
        if self.budgets.max_turns != 0 && turns >= self.budgets.max_turns {
            return Err(used_up(format!("turns: {turns} of {} model calls", self.budgets.max_turns)));
        }
        let prompt: u64 = request.messages.iter().map(|message| counter.json_message(message)).sum();
        if self.budgets.max_tokens != 0 {
            let used = self.tokens.load(Ordering::Relaxed);
            let left = self.budgets.max_tokens.saturating_sub(used.saturating_add(prompt));
            if left == 0 {
                let max = self.budgets.max_tokens;
                return Err(used_up(format!("tokens: {used} of {max} used, and the next prompt has {prompt}")));
            }
            let asked = ["max_completion_tokens", "max_tokens"]
                .into_iter()
                .find(|name| request.params.get(*name).and_then(Value::as_u64).is_some());
            match asked {
                Some(name) if request.params.get(name).and_then(Value::as_u64).is_some_and(|asked| asked > left) => {
                    request.params.insert(name.into(), left.into());
                }
                None if left < most => {
                    request.params.insert("max_tokens".into(), left.into());
                }
                _ => {}
            }
        }
        self.turns.fetch_add(1, Ordering::Relaxed);
        Ok(prompt)
    }

    /// Counts what a call gave.
    fn after(&self, usage: Option<Usage>, guessed: u64, tool_calls: u64) -> Result<(), ModelError> {
        let told = usage.and_then(|usage| {
            usage.total_tokens.or_else(|| Some(usage.prompt_tokens?.saturating_add(usage.completion_tokens?)))
        });
        self.tokens.fetch_add(told.unwrap_or(guessed), Ordering::Relaxed);
        let calls = self.tool_calls.fetch_add(tool_calls, Ordering::Relaxed).saturating_add(tool_calls);
        if self.budgets.max_tool_calls != 0 && calls > self.budgets.max_tool_calls {
            return Err(used_up(format!("tool calls: {calls} wanted, {} allowed", self.budgets.max_tool_calls)));
        }
        Ok(())
    }
}

fn used_up(what: String) -> ModelError {
    ModelError::Budget(what)
}

/// The same model within a budget.
pub(super) fn budgeted(model: Arc<dyn Model>, counter: TokenCounter, meter: Arc<Meter>) -> Arc<dyn Model> {
    Arc::new(Budgeted { model, counter, meter })
}

struct Budgeted {
    model: Arc<dyn Model>,
    counter: TokenCounter,
    meter: Arc<Meter>,
}

impl Budgeted {
    async fn within(&self, mut request: ModelRequest) -> Result<ModelReply, ModelError> {
        let prompt = self.meter.before(&mut request, self.model.info().max_output_tokens, &self.counter)?;
        match self.model.call(request).await? {
            ModelReply::Full(body) => {
                let answer = body.pointer("/choices/0/message");
                // Counts only where the provider counts nothing.
                let guessed = prompt + answer.map_or(0, |message| self.counter.json_message(message));
                let calls = answer.and_then(|message| message.get("tool_calls")).and_then(Value::as_array);
                let calls = calls.map_or(0, |calls| calls.len() as u64);
                self.meter.after(body.get("usage").and_then(Usage::read), guessed, calls)?;
                Ok(ModelReply::Full(body))
            }
            // A child is never asked for a stream; where one comes all the same, its tokens count.
            ModelReply::Stream(chunks) => {
                let meter = Arc::clone(&self.meter);
                let counted = chunks.map(move |chunk| {
                    if let Some(usage) = chunk.as_ref().ok().and_then(|chunk| chunk.get("usage")).and_then(Usage::read)
                    {
                        meter.after(Some(usage), 0, 0)?;
                    }
                    chunk
                });
                Ok(ModelReply::Stream(Box::pin(counted)))
            }
        }
    }
}

impl Model for Budgeted {
    fn info(&self) -> ModelInfo {
        self.model.info()
    }

    fn call(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelReply, ModelError>> {
        self.within(request).boxed()
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

    fn model(budgets: SubagentBudgets) -> (Arc<dyn Model>, Arc<Meter>) {
        let config = crate::config::Config::defaults("/x/plugins.toml".into()).model;
        let meter = Meter::new(budgets, SubagentUsage::default());
        let model: Arc<dyn Model> = Arc::new(OfflineModel::new(&config));
        let counter = TokenCounter::for_model(&model.info().resolved);
        (budgeted(model, counter, Arc::clone(&meter)), meter)
    }

    fn ask() -> ModelRequest {
        ModelRequest { messages: vec![json!({"role": "user", "content": "Hello?"})].into(), ..ModelRequest::default() }
    }

    #[tokio::test]
    async fn calls_are_counted_and_the_one_too_many_is_refused() {
        let (model, meter) = model(SubagentBudgets { max_turns: 2, ..SubagentBudgets::default() });
        model.call(ask()).await.unwrap();
        model.call(ask()).await.unwrap();
        match model.call(ask()).await {
            Err(ModelError::Budget(what)) => assert!(what.contains("2 of 2"), "{what}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(meter.usage(0).turns, 2);
        assert!(meter.usage(0).tokens > 4);
    }

    #[tokio::test]
    async fn a_prompt_beyond_the_tokens_left_is_refused_and_an_answer_is_cut_to_them() {
        let (model, _) = model(SubagentBudgets { max_tokens: 3, ..SubagentBudgets::default() });
        assert!(matches!(model.call(ask()).await, Err(ModelError::Budget(_))));
        let meter = Meter::new(
            SubagentBudgets { max_tokens: 1000, ..SubagentBudgets::default() },
            SubagentUsage { tokens: 900, ..SubagentUsage::default() },
        );
        let counter = TokenCounter::for_model("gpt-4o");
        let mut request = ask();
        meter.before(&mut request, 4096, &counter).unwrap();
        let left = request.params["max_tokens"].as_u64().unwrap();
        assert!((50..100).contains(&left), "{left}");
        let mut request = ask();
        request.params.insert("max_completion_tokens".into(), 5000.into());
        meter.before(&mut request, 4096, &counter).unwrap();
        assert_eq!(request.params["max_completion_tokens"], left);
        assert!(!request.params.contains_key("max_tokens"));
    }

    #[test]
    fn tool_calls_beyond_the_budget_fail_the_call_that_wants_them() {
        let meter =
            Meter::new(SubagentBudgets { max_tool_calls: 3, ..SubagentBudgets::default() }, SubagentUsage::default());
        assert!(meter.after(None, 1, 3).is_ok());
        assert!(matches!(meter.after(None, 1, 1), Err(ModelError::Budget(_))));
    }
}
