//! {{title}}: compacts by itself. Old turns become a digest, which the engine keeps in its store and shows in place of them.

use engine_abi::*;
use serde::{Deserialize, Serialize};

/// `[plugins.entries.{{name}}.config]`, which `schema.json` describes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    /// Most characters of what the person said that the digest keeps of one turn.
    line_chars: usize,
    /// Most lines of the digest; the oldest go first.
    lines: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            line_chars: 160,
            lines: 40,
        }
    }
}

/// What the store holds of a session: everything before `first_kept` is told by `lines`.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Digest {
    first_kept: u64,
    lines: Vec<String>,
}

impl Digest {
    fn text(&self) -> Option<String> {
        (!self.lines.is_empty()).then(|| {
            format!(
                "Earlier in this conversation the user said:\n{}",
                self.lines.join("\n")
            )
        })
    }
}

/// Key of the digest in the session's scope of the store. Deleting a session drops its scope.
const DIGEST: &str = "digest";

struct Keeper {
    config: Config,
}

#[hooks]
impl ContextEngine for Keeper {
    type Config = Config;
    // Turns themselves are not kept here: the host has them, and shows them in every `history`. What this engine keeps is
    // written by `compact` alone, so there is nothing to take in.
    const COMMIT: Commit = Commit::Stateless;

    fn create(config: Config, _: &Factory) -> Result<Self> {
        Ok(Keeper { config })
    }

    fn info(&self) -> Info {
        Info::new("{{name}}", "{{title}}")
            .version(env!("CARGO_PKG_VERSION"))
            .owns_compaction()
    }

    fn ingest(&self, _: &Context, _: &Entry) -> Result<bool> {
        Ok(false)
    }

    /// The digest stands at the head of the system prompt, where it stays the same until the next compaction.
    fn assemble(&self, context: &Context, request: &AssembleRequest) -> Result<Assembly> {
        let digest = digest(context)?;
        let kept = kept(request.history().heads(), &digest);
        let Some(text) = digest.text() else {
            return Ok(Assembly::new().keep(kept));
        };
        let tokens = context.count_tokens(&text)?.count + cost(kept);
        // Over the budget the host asks `compact` for more, and then assembles again.
        Ok(Assembly::new()
            .keep(kept)
            .system_prompt(text)
            .estimated_tokens(tokens))
    }

    fn compact(&self, context: &Context, request: &CompactRequest) -> Result<Compaction> {
        let (history, before) = (request.history(), digest(context)?);
        let heads = history.heads();
        let old = heads.len() - kept(heads, &before).len();
        let tokens_before = told(context, &before)? + cost(&heads[old..]);
        let budget = context.session().token_budget().unwrap_or(tokens_before);
        if !request.force() && tokens_before <= budget {
            return Ok(Compaction::nothing("it fits"));
        }
        // Half of the budget is for what comes; and at least one turn stays as it was said.
        let newest = heads
            .iter()
            .rposition(Head::starts_turn)
            .unwrap_or(heads.len());
        let start = history
            .newest_turns(budget.min(tokens_before) / 2)
            .min(newest)
            .max(old);
        if start == old || start == heads.len() {
            return Ok(Compaction::nothing("nothing is left to digest"));
        }
        let mut after = Digest {
            first_kept: heads[start].id,
            lines: before.lines,
        };
        for (index, head) in heads.iter().enumerate().take(start).skip(old) {
            context.check()?;
            if head.starts_turn() {
                after.lines.push(self.line(history.entry(index)?.text()));
            }
        }
        let too_many = after.lines.len().saturating_sub(self.config.lines.max(1));
        after.lines.drain(..too_many);
        let tokens_after = told(context, &after)? + cost(&heads[start..]);
        if tokens_after >= tokens_before {
            return Ok(Compaction::nothing("a digest would be no shorter"));
        }
        // In the store when this hook has returned, and not at all if it fails.
        context.store().put_json(DIGEST, &after)?;
        Ok(Compaction::done(
            after.text().unwrap_or_default(),
            after.first_kept,
            tokens_before,
            tokens_after,
        ))
    }
}

impl Keeper {
    /// What the person said, on one line and cut.
    fn line(&self, text: &str) -> String {
        let words: Vec<&str> = text.split_whitespace().collect();
        let line: String = words
            .join(" ")
            .chars()
            .take(self.config.line_chars.max(1))
            .collect();
        format!("- {line}")
    }
}

fn digest(context: &Context) -> Result<Digest> {
    Ok(context.store().get_json(DIGEST)?.unwrap_or_default())
}

/// The rows that the digest does not tell. Ids rise along the history, and they are the same after a restart.
fn kept<'h>(heads: &'h [Head], digest: &Digest) -> &'h [Head] {
    &heads[heads.partition_point(|head| head.id < digest.first_kept)..]
}

fn told(context: &Context, digest: &Digest) -> Result<u64> {
    Ok(digest
        .text()
        .map(|text| context.count_tokens(&text))
        .transpose()?
        .map_or(0, |tokens| tokens.count))
}

fn cost(heads: &[Head]) -> u64 {
    heads.iter().map(|head| u64::from(head.tokens)).sum()
}

export_engine! {
    plugin: "{{name}}",
    engines: { "{{name}}" => Keeper },
    config_schema: include_str!("../schema.json"),
}

#[cfg(test)]
mod tests;
