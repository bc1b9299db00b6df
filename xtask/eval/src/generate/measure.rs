//! What is measured while an engine is played through an agent session: how stable its prompts are, and what of the standing
//! instructions the model still sees at the end.
//!
//! Pins are told from the rest of a prompt by their frame: a line that begins with `[ID pins`, where `ID` is the engine's, and
//! then one line for each pin that begins with `> ` or `| `; what stands there behind the first `: ` is its text.

use super::{Options, Place, Session, Wording};
use crate::engine::Engine;
use crate::evaluate::{EvalError, play};
use crate::prefix::{Prefix, PrefixReport};
use crate::prompt::Rendered;
use crate::report::{Degraded, HookTimes};
use engineroom::model::{Messages, OFFLINE_MODEL, TokenCounter};
use engineroom::turn::replay::{Call, Watch};
use serde::Serialize;
use std::collections::BTreeMap;

/// What the line of a pin begins with.
const QUOTED: [&str; 2] = ["> ", "| "];

/// What an agent session tells of an engine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AgentReport {
    /// Engine.
    pub engine: String,
    /// Its settings, where some were given.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub config: serde_json::Map<String, serde_json::Value>,
    /// Tokens that its answer may cost.
    pub budget: u64,
    /// Seed of the session.
    pub seed: u64,
    /// What its instructions are made of.
    pub wording: Wording,
    /// Messages over which prefixes are measured, and how many were played in all.
    pub entries: [usize; 2],
    /// Turns that were played.
    pub turns: usize,
    /// Share of the session's tokens that is in tool results, in percent.
    pub tool_share: f64,
    /// Longest loop of tool calls.
    pub longest_loop: usize,
    /// Prompts of the first messages against the ones before them.
    pub prefix: PrefixReport,
    /// Largest share of the budget that the engine's block in the current user message took, in percent.
    pub volatile_max: f64,
    /// Largest prompt in tokens.
    pub prompt_max: u64,
    /// The standing instructions in the prompt of the last turn.
    pub instructions: Shown,
    /// The same, by language, by place, and by whether their phrases are kept aside.
    pub by: BTreeMap<String, Shown>,
    /// The pins there.
    pub pins: PinReport,
    /// Instructions that do not stand there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// The engine's hooks.
    pub hooks: BTreeMap<String, HookTimes>,
    /// What went wrong.
    pub degraded: Degraded,
    /// Calls of engines that never came back.
    #[serde(skip)]
    pub abandoned: usize,
}

/// Instructions whose whole text stands in a prompt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Shown {
    /// How many.
    pub shown: usize,
    /// Of so many.
    pub of: usize,
    /// Share in percent.
    pub share: f64,
}

impl Shown {
    fn count(&mut self, shown: bool) {
        self.shown += usize::from(shown);
        self.of += 1;
        self.share = 100.0 * self.shown as f64 / self.of as f64;
    }
}

/// The pins of a prompt.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PinReport {
    /// How many.
    pub shown: usize,
    /// Tokens of the block, its frame included.
    pub tokens: u64,
    /// Their share of the budget, in percent.
    pub share: f64,
    /// Pins that are chores which are still to be done.
    pub chores: usize,
    /// Pins that are chores which were said to be done.
    pub done: usize,
    /// Pins that were taken back.
    pub taken_back: usize,
    /// Pins that were never instructions.
    pub never: usize,
    /// Their share of all pins, in percent.
    pub never_share: f64,
    /// Their texts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wrong: Vec<String>,
}

/// Plays a session and measures.
///
/// # Errors
///
/// [`EvalError`] when nothing could be measured.
pub async fn measure(engine: &Engine, options: &Options, budget: u64) -> Result<AgentReport, EvalError> {
    let session = Session::make(options);
    let counter = TokenCounter::for_model(OFFLINE_MODEL);
    let last_turn = session.turns.get(options.turns.saturating_sub(1)).or(session.turns.last()).copied().unwrap_or(0);
    let mut seen = Seen {
        entries: options.entries,
        last_turn,
        counter,
        prefix: Prefix::default(),
        volatile: 0,
        largest: 0,
        last: None,
    };
    let (turns, closed) = play(engine, &session.recording, budget, &mut seen).await?;
    let own = closed.engines.get(&engine.id);
    let mut degraded = Degraded::default();
    for turn in &turns {
        degraded.turns += usize::from(turn.degraded.is_some());
        turn.failures.iter().for_each(|failure| degraded.note(failure.to_string()));
    }
    if closed.abandoned > 0 {
        degraded.note(format!("{} calls never came back", closed.abandoned));
    }
    let turns_shown = options.turns.min(session.turns.len());
    let mut report = AgentReport {
        engine: engine.id.clone(),
        config: engine.config.clone(),
        budget,
        seed: options.seed,
        wording: options.wording,
        entries: [options.entries.min(session.recording.messages.len()), session.recording.messages.len()],
        turns: session.turns.len(),
        tool_share: 100.0 * session.tool_share(),
        longest_loop: session.loops.iter().copied().max().unwrap_or(0),
        prefix: PrefixReport::of(seen.prefix.shares()),
        volatile_max: 100.0 * seen.volatile as f64 / budget.max(1) as f64,
        prompt_max: seen.largest,
        instructions: Shown::default(),
        by: BTreeMap::new(),
        pins: PinReport::default(),
        missing: Vec::new(),
        hooks: own.map(|own| HookTimes::of(&own.hooks)).unwrap_or_default(),
        degraded,
        abandoned: closed.abandoned,
    };
    if let Some(messages) = &seen.last {
        look(&mut report, &session, messages, &seen.counter, turns_shown);
    }
    Ok(report)
}

/// Looks what stands in the last prompt.
fn look(report: &mut AgentReport, session: &Session, messages: &Messages, counter: &TokenCounter, turn: usize) {
    let prompt = Rendered::of_call(messages);
    let texts = prompt.texts();
    for one in &session.instructions {
        let shown = texts.iter().any(|text| text.contains(&one.text));
        report.instructions.count(shown);
        let aside = if one.held_out { "held-out" } else { "open" };
        for name in [one.language, place_name(one.place), aside] {
            report.by.entry(name.to_owned()).or_default().count(shown);
        }
        if !shown {
            report.missing.push(one.text.clone());
        }
    }
    let Some(block) = texts.iter().find_map(|text| block_of(text, &report.engine)) else { return };
    let pins = &mut report.pins;
    pins.tokens = counter.text(block);
    pins.share = 100.0 * pins.tokens as f64 / report.budget.max(1) as f64;
    for item in items(block) {
        pins.shown += 1;
        let is = |text: &str| item.contains(text) || text.contains(item);
        if session.instructions.iter().any(|one| is(&one.text)) {
            continue;
        }
        if let Some(chore) = session.chores.iter().find(|chore| is(&chore.text)) {
            let done = chore.done.is_some_and(|done| done < turn);
            pins.done += usize::from(done);
            pins.chores += usize::from(!done);
        } else if let Some(one) = session.revoked.iter().find(|one| is(&one.text)) {
            pins.taken_back += usize::from(one.taken_back < turn);
        } else {
            pins.never += 1;
            pins.wrong.push(item.to_owned());
        }
    }
    pins.never_share = 100.0 * pins.never as f64 / pins.shown.max(1) as f64;
}

fn place_name(place: Place) -> &'static str {
    match place {
        Place::Own => "own message",
        Place::First => "first sentence",
        Place::Middle => "middle sentence",
        Place::Last => "last sentence",
        Place::Item => "list item",
    }
}

/// The block of pins of an engine in a text.
fn block_of<'a>(text: &'a str, engine: &str) -> Option<&'a str> {
    let head = format!("[{engine} pins");
    let start = text.match_indices(&head).map(|(at, _)| at).find(|at| *at == 0 || text.as_bytes()[at - 1] == b'\n')?;
    let block = &text[start..];
    let mut end = block.find('\n').unwrap_or(block.len());
    while let Some(line) = block.get(end + 1..).filter(|rest| QUOTED.iter().any(|quoted| rest.starts_with(quoted))) {
        end += 1 + line.find('\n').unwrap_or(line.len());
    }
    block.get(..end)
}

/// The texts of its pins.
fn items(block: &str) -> impl Iterator<Item = &str> {
    block.lines().skip(1).map(|line| line.split_once(": ").map_or(line, |parts| parts.1))
}

/// What is seen of the prompts.
struct Seen {
    /// Prefixes are measured up to this message.
    entries: usize,
    /// Place of the user message of the turn whose prompt is looked at.
    last_turn: usize,
    counter: TokenCounter,
    prefix: Prefix,
    volatile: u64,
    largest: u64,
    last: Option<Messages>,
}

impl Watch for Seen {
    fn call(&mut self, call: Call<'_>) {
        if call.said <= self.entries {
            self.prefix.call(call.messages);
        }
        self.volatile = self.volatile.max(Rendered::of_call(call.messages).volatile_tokens(&self.counter));
        let tokens = call.messages.iter().map(|message| self.counter.json_message(message)).sum();
        self.largest = self.largest.max(tokens);
        if call.said == self.last_turn + 1 {
            self.last = Some(call.messages.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_are_told_by_their_frame() {
        let text = "x [recall pins no]\n[recall pins · 2]\n| p1 (instruction, entry 3): Always: a\n| p7 (open task): b\nno pin\n| c: d";
        let block = block_of(text, "recall").unwrap();
        assert_eq!(items(block).collect::<Vec<_>>(), ["Always: a", "b"]);
        assert_eq!(
            items(block_of("[recall pins]\n> id 1, entry 2: a: b\n", "recall").unwrap()).collect::<Vec<_>>(),
            ["a: b"]
        );
        assert!(block_of("[recall log]\n| a: b", "recall").is_none());
        assert_eq!(items(block_of("[recall pins]", "recall").unwrap()).count(), 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_engine_without_pins_shows_only_its_tail() {
        let options = Options { seed: 1, entries: 120, turns: 45, instructions: 20, wording: Wording::All };
        let report = measure(&Engine::legacy(), &options, 6_000).await.unwrap();
        assert_eq!((report.instructions.of, report.pins.shown), (20, 0));
        assert!(report.instructions.shown < 20, "{:?}", report.instructions);
        assert_eq!(report.missing.len(), 20 - report.instructions.shown);
        assert!(report.prefix.calls > 40 && report.turns >= 45);
    }
}
