//! {{title}}: a memory provider. It keeps what it is told in its own store, and finds what shares words with a query.

use engine_abi::*;
use serde::Deserialize;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// `[plugins.entries.{{name}}.config]`, which `schema.json` describes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    /// How many of the newest memories stand in the system prompt.
    newest: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config { newest: 5 }
    }
}

/// Keys of the memories begin with this; the time follows, so that they are in the order in which they came.
const MEMORY: &str = "memory/";
static NEXT: AtomicU64 = AtomicU64::new(0);
/// How many memories are read from the store at once.
const PAGE: usize = 256;

struct Memories {
    config: Config,
}

/// One memory, and when it was kept.
struct Kept {
    key: String,
    text: String,
    time_ms: i64,
}

#[hooks]
impl MemoryProvider for Memories {
    type Config = Config;

    fn create(config: Config, _: &Factory) -> Result<Self> {
        Ok(Memories { config })
    }

    fn info(&self) -> Info {
        Info::new("{{name}}", "{{title}}").version(env!("CARGO_PKG_VERSION"))
    }

    /// Best first: the more different words of the query a memory has, the better; the newer of two that are alike first.
    fn search(&self, context: &Context, query: &str, limit: usize) -> Result<Vec<MemoryHit>> {
        let wanted = words(query);
        let mut hits: Vec<MemoryHit> = Vec::new();
        for kept in all(context)?.into_iter().rev() {
            let shared = words(&kept.text).intersection(&wanted).count();
            if shared > 0 {
                let score = shared as f64 / wanted.len() as f64;
                hits.push(MemoryHit::new(kept.key, kept.text, score).at(kept.time_ms));
            }
        }
        hits.sort_by(|a, b| b.score.total_cmp(&a.score));
        hits.truncate(limit);
        Ok(hits)
    }

    /// A turn waits for this, and it stands before the prefix that the provider caches: it is short and changes seldom.
    fn prompt_section(
        &self,
        context: &Context,
        _: &PromptSectionRequest,
    ) -> Result<Option<String>> {
        let all = all(context)?;
        let newest: Vec<&str> = all
            .iter()
            .rev()
            .take(self.config.newest)
            .map(|kept| kept.text.as_str())
            .collect();
        if newest.is_empty() {
            return Ok(None);
        }
        Ok(Some(format!(
            "What you were asked to remember, newest first:\n- {}",
            newest.join("\n- ")
        )))
    }

    /// In the store when it returns `Ok`.
    fn append(&self, context: &Context, text: &str) -> Result<()> {
        let text = text.trim();
        if text.is_empty() {
            return Err(Error::new("there is nothing to remember"));
        }
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_millis() as i64);
        // Other sessions, and other agents, may remember something in the same moment.
        let own = NEXT.fetch_add(1, Ordering::Relaxed);
        let key = format!("{MEMORY}{now:020}-{:010}-{own:010}", std::process::id());
        context.engine_store().put_json(key, &(now, text))?;
        Ok(())
    }
}

/// Every memory, oldest first.
fn all(context: &Context) -> Result<Vec<Kept>> {
    let store = context.engine_store();
    let mut all: Vec<Kept> = Vec::new();
    loop {
        context.check()?;
        let after = all.last().map(|kept| kept.key.clone());
        let page = store.scan(MEMORY, after.as_ref().map(String::as_bytes), PAGE)?;
        let is_last = page.len() < PAGE;
        for (key, value) in page {
            let (time_ms, text) = serde_json::from_slice(&value)?;
            all.push(Kept {
                key: String::from_utf8_lossy(&key).into_owned(),
                text,
                time_ms,
            });
        }
        if is_last {
            return Ok(all);
        }
    }
}

/// The words of a text, in lower case, without the shortest.
fn words(text: &str) -> HashSet<String> {
    let words = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.chars().count() > 2);
    words.map(str::to_lowercase).collect()
}

export_engine! {
    plugin: "{{name}}",
    memory: { "{{name}}" => Memories },
    config_schema: include_str!("../schema.json"),
}

#[cfg(test)]
mod tests;
