//! {{title}}: the model sees the newest whole turns that fit; compaction is left to the host.

use engine_abi::wire::entry_flags;
use engine_abi::*;
use serde::Deserialize;

/// `[plugins.entries.{{name}}.config]`, which `schema.json` describes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// How many turns go at once when the budget is exceeded.
    #[serde(default = "eight")]
    step: usize,
}

fn eight() -> usize {
    8
}

struct Window {
    config: Config,
}

#[hooks]
impl ContextEngine for Window {
    type Config = Config;
    // This engine keeps nothing, so it has taken a turn in as soon as it hears of it. One that keeps something leaves this
    // line out and writes `ingest`: the gateway then hands each accepted turn over once, in one batch of the store.
    const COMMIT: Commit = Commit::Stateless;

    fn create(config: Config, _: &Factory) -> Result<Self> {
        Ok(Window { config })
    }

    fn info(&self) -> Info {
        Info::new("{{name}}", "{{title}}").version(env!("CARGO_PKG_VERSION"))
    }

    fn ingest(&self, _: &Context, _: &Entry) -> Result<bool> {
        Ok(false)
    }

    fn assemble(&self, context: &Context, request: &AssembleRequest) -> Result<Assembly> {
        let history = request.history();
        let heads = history.heads();
        let budget = context.session().token_budget().unwrap_or(u64::MAX);
        // What a compaction by the host left of older turns stands first.
        let summary = heads
            .iter()
            .take_while(|head| head.has(entry_flags::SUMMARY))
            .count();
        let summary_tokens: u64 = heads[..summary]
            .iter()
            .map(|head| u64::from(head.tokens))
            .sum();
        if summary_tokens > budget {
            return Ok(Assembly::new());
        }
        let start = self.start(heads, history.newest_turns(budget - summary_tokens));
        Ok(Assembly::new()
            .keep(&heads[..summary.min(start)])
            .keep(&heads[start..]))
    }

    fn compact(&self, context: &Context, request: &CompactRequest) -> Result<Compaction> {
        Ok(context.delegate_compaction(request)?)
    }
}

impl Window {
    /// Where the window begins, when everything from `fits` on fits. A start that moved with every turn would spoil the prefix
    /// that the provider caches, so turns go in steps, unless that takes half of what fits.
    fn start(&self, heads: &[Head], fits: usize) -> usize {
        let starts: Vec<usize> = (0..heads.len())
            .filter(|&index| heads[index].starts_turn())
            .collect();
        let gone = starts.partition_point(|&start| start < fits);
        let rounded = gone.next_multiple_of(self.config.step.max(1));
        let is_too_much = (rounded - gone) * 2 > starts.len() - gone;
        if fits == 0 || is_too_much {
            fits
        } else {
            starts.get(rounded).copied().unwrap_or(fits)
        }
    }
}

export_engine! {
    plugin: "{{name}}",
    engines: { "{{name}}" => Window },
    config_schema: include_str!("../schema.json"),
}

#[cfg(test)]
mod tests;
