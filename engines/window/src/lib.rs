//! The smallest useful context engine: the model sees the newest whole turns that fit, and the first turn when
//! configured.
//!
//! The window moves in steps. While nothing has to go, its start stays where it is, and with it the prefix that the
//! provider has cached; when the budget is exceeded, a whole batch of turns goes at once. The engine remembers nothing:
//! possible starts are numbered places in the history, so a restart or another process finds the same one.

use engine_abi::*;
use serde::Deserialize;

/// `[plugins.entries.window.config]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// Always keep the first turn, which often says what the session is about.
    #[serde(default)]
    pin_first_turn: bool,
}

struct Window {
    config: Config,
}

#[hooks]
impl ContextEngine for Window {
    type Config = Config;
    const COMMIT: Commit = Commit::Stateless;

    fn create(config: Config, _: &Factory) -> Result<Self> {
        Ok(Window { config })
    }

    fn info(&self) -> Info {
        Info::new("window", "Window").version(env!("CARGO_PKG_VERSION"))
    }

    fn ingest(&self, _: &Context, _: &Entry) -> Result<bool> {
        Ok(false)
    }

    fn assemble(&self, context: &Context, request: &AssembleRequest) -> Result<Assembly> {
        let history = request.history();
        let budget = context.session().token_budget().unwrap_or(u64::MAX);
        if history.newest_turns(budget) == 0 {
            return Ok(Assembly::new().keep(history.heads()));
        }
        let pinned = self.pinned(history.heads(), budget);
        let start = window_start(history, budget - tokens(pinned)).max(pinned.len());
        Ok(Assembly::new().keep(pinned).keep(&history.heads()[start..]))
    }

    fn compact(&self, context: &Context, request: &CompactRequest) -> Result<Compaction> {
        Ok(context.delegate_compaction(request)?)
    }
}

impl Window {
    /// The first turn, when it is to be kept and leaves half of the budget free. The summary of a compaction is to be
    /// kept, too.
    fn pinned<'a>(&self, heads: &'a [Head], budget: u64) -> &'a [Head] {
        let is_wanted = self.config.pin_first_turn || heads[0].has(wire::entry_flags::SUMMARY);
        let first = &heads[..turn_start(heads, 1)];
        if is_wanted && tokens(first) <= budget / 2 { first } else { &[] }
    }
}

/// Where the window begins: the first turn at or after a place whose number is a multiple of the step. The step is
/// halved as long as the window would use less than half of the budget, down to the very first turn that fits.
fn window_start(history: History, budget: u64) -> usize {
    let heads = history.heads();
    let fits = history.newest_turns(budget);
    let mut step = usize::try_from(budget / TOKENS_PER_PLACE).unwrap_or(usize::MAX / 2).next_power_of_two();
    while step > 1 {
        let mut starts = (fits - fits % step..).step_by(step).map(|place| turn_start(heads, place));
        let start = starts.find(|&start| start >= fits).unwrap_or(fits);
        if tokens(&heads[start..]) >= budget / 2 {
            return start;
        }
        step /= 2;
    }
    fits
}

/// With entries of a quarter of this size a step is a sixteenth of the budget, with entries of this size a quarter.
const TOKENS_PER_PLACE: u64 = 2048;

/// The first turn that starts at or after `index`; the end when there is none.
fn turn_start(heads: &[Head], index: usize) -> usize {
    (index..heads.len()).find(|&index| heads[index].starts_turn()).unwrap_or(heads.len())
}

fn tokens(heads: &[Head]) -> u64 {
    heads.iter().map(|head| u64::from(head.tokens)).sum()
}

export_engine! {
    plugin: "window",
    engines: { "window" => Window },
    config_schema: r#"{
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "pin_first_turn": { "type": "boolean", "description": "Always keep the first turn." }
        }
    }"#,
}

#[cfg(test)]
mod tests;
