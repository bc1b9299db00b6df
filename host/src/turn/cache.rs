//! `promptCache`: what the provider's usage tells of its cache, and what changed in the prompt when the cache broke.

use super::run::TurnRun;
use super::written::Written;
use crate::model::Usage;
use crate::slot::PromptCacheFacts;
use engine_abi::wire::cache_retention;
use serde_json::{Map, Value, json};

/// How long a provider keeps a prefix that nobody asked it to keep longer, in ms.
const SHORT_MS: i64 = 5 * 60 * 1000;
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// What of a call, beside its messages, decides whether a provider finds its prefix again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CallShape {
    model: Option<String>,
    retention: u32,
    tools: u64,
    stream: bool,
}

impl CallShape {
    pub(super) fn of(params: &Map<String, Value>, stream: bool) -> CallShape {
        let mut hash = Hash(xxhash_rust::xxh3::Xxh3::new());
        if let Some(tools) = params.get("tools") {
            // A hash takes everything, and values always serialise.
            let _ = serde_json::to_writer(&mut hash, tools);
        }
        CallShape {
            model: params.get("model").and_then(Value::as_str).map(str::to_owned),
            retention: match params.get("prompt_cache_retention").and_then(Value::as_str) {
                Some("24h") => cache_retention::HOURS_24,
                Some("in_memory" | "in-memory") => cache_retention::IN_MEMORY,
                _ => cache_retention::UNKNOWN,
            },
            tools: hash.0.digest(),
            stream,
        }
    }
}

struct Hash(xxhash_rust::xxh3::Xxh3);

impl std::io::Write for Hash {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What is known of the provider's cache for one session.
#[derive(Debug, Default)]
pub(super) struct CacheWatch {
    shape: Option<CallShape>,
    /// Codes of what the last call had changed.
    changes: Vec<(&'static str, String)>,
    /// Tool results were shortened since the last call.
    pub(super) pruned: bool,
}

impl CacheWatch {
    /// A call goes out: what it changes.
    pub(super) fn call(&mut self, shape: CallShape, written: &Written) {
        self.changes.clear();
        let pruned = std::mem::take(&mut self.pruned);
        let Some(before) = self.shape.replace(shape) else { return };
        let Some(now) = &self.shape else { return };
        let mut changed = |code, detail: String| self.changes.push((code, detail));
        if before.model != now.model {
            let name = |model: &Option<String>| model.clone().unwrap_or_else(|| "none named".into());
            changed("model", format!("{} to {}", name(&before.model), name(&now.model)));
        }
        if before.tools != now.tools {
            changed("tools", "the tools offered are others".into());
        }
        if before.stream != now.stream {
            changed("streamStrategy", format!("stream {} to {}", before.stream, now.stream));
        }
        if before.retention != now.retention {
            changed("cacheRetention", "another retention was asked for".into());
        }
        if written.system_changed() {
            changed("systemPrompt", "the system prompt is another".into());
        }
        if pruned {
            changed("aggregateToolResultTruncation", "old tool results were shortened".into());
        }
    }

    /// The provider told what a call cost.
    pub(super) fn facts(&self, usage: &Usage, before: Option<&PromptCacheFacts>, touched_ms: i64) -> PromptCacheFacts {
        let previous = before.and_then(|facts| facts.cache_read);
        let broke = previous.is_some_and(|previous| usage.cached_tokens.unwrap_or(0) < previous / 2);
        let retention = self.shape.as_ref().map_or(cache_retention::UNKNOWN, |shape| shape.retention);
        let changes: Vec<Value> =
            self.changes.iter().map(|(code, detail)| json!({"code": code, "detail": detail})).collect();
        let keeps_ms = if retention == cache_retention::HOURS_24 { DAY_MS } else { SHORT_MS };
        PromptCacheFacts {
            retention,
            broke,
            input: usage.prompt_tokens,
            output: usage.completion_tokens,
            cache_read: usage.cached_tokens,
            cache_write: usage.cache_write_tokens,
            total: usage.total_tokens,
            context_prompt_tokens: usage.prompt_tokens,
            previous_cache_read: previous,
            changes_json: (broke && !changes.is_empty()).then(|| Value::Array(changes).to_string()),
            last_cache_touch_ms: Some(touched_ms),
            // Only where the provider has a cache at all.
            expires_ms: usage.cached_tokens.map(|_| touched_ms + keeps_ms),
        }
    }
}

impl TurnRun {
    /// Learns from what the provider counted at one call of the model.
    pub(super) fn note_usage(&mut self, usage: Option<&Usage>) {
        let touched = self.house.clock.now_ms();
        let mut state = self.session.state();
        let memory = &mut state.extra;
        memory.last_call_ms = Some(touched);
        let Some(usage) = usage else { return };
        if let Some(prompt) = usage.prompt_tokens
            && !self.host.continued
        {
            self.agent.counter.calibrate(self.notes.prompt_tokens, prompt);
        }
        memory.cache = Some(memory.watch.facts(usage, memory.cache.as_ref(), touched));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(params: Value, stream: bool) -> CallShape {
        CallShape::of(params.as_object().unwrap(), stream)
    }

    fn usage(cached: Option<u64>) -> Usage {
        Usage { prompt_tokens: Some(1_000), cached_tokens: cached, ..Usage::default() }
    }

    #[test]
    fn a_broken_cache_is_told_with_what_had_changed() {
        let mut watch = CacheWatch::default();
        let written = Written::default();
        watch.call(shape(json!({"model": "a", "tools": [1]}), false), &written);
        let first = watch.facts(&usage(Some(800)), None, 1_000);
        assert!(!first.broke && first.changes_json.is_none());
        assert_eq!((first.cache_read, first.expires_ms), (Some(800), Some(1_000 + SHORT_MS)));
        watch.call(shape(json!({"model": "a", "tools": [1]}), false), &written);
        assert!(!watch.facts(&usage(Some(900)), Some(&first), 2_000).broke);
        watch.pruned = true;
        watch.call(shape(json!({"model": "b", "tools": [2]}), true), &written);
        let broken = watch.facts(&usage(Some(0)), Some(&first), 3_000);
        assert!(broken.broke);
        assert_eq!(broken.previous_cache_read, Some(800));
        let changes: Vec<Value> = serde_json::from_str(&broken.changes_json.unwrap()).unwrap();
        let codes: Vec<_> = changes.iter().map(|change| change["code"].as_str().unwrap()).collect();
        assert_eq!(codes, ["model", "tools", "streamStrategy", "aggregateToolResultTruncation"]);
    }

    #[test]
    fn a_provider_without_a_cache_tells_no_expiry_and_a_retention_is_the_clients() {
        let mut watch = CacheWatch::default();
        watch.call(shape(json!({"prompt_cache_retention": "24h"}), false), &Written::default());
        assert_eq!(watch.facts(&usage(None), None, 1).expires_ms, None);
        let facts = watch.facts(&usage(Some(1)), None, 1);
        assert_eq!((facts.retention, facts.expires_ms), (cache_retention::HOURS_24, Some(1 + DAY_MS)));
    }
}
