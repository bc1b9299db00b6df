//! What an evaluation tells of one engine at one budget. `docs/evaluation.md` says what each number means.

use crate::prefix::PrefixReport;
use crate::score::{Recall, Score};
use crate::stats::{mean, median};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// One engine at one budget.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Engine.
    pub engine: String,
    /// Its settings, where some were given.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub config: serde_json::Map<String, Value>,
    /// Tokens that its answer to a question may cost.
    pub budget: u64,
    /// Mean recall over the questions that count, in percent.
    pub recall: f64,
    /// Share of them whose evidence all stands in the prompt, in percent.
    pub strict: f64,
    /// How many they are.
    pub questions: usize,
    /// The same by kind of question.
    pub categories: BTreeMap<String, Recall>,
    /// Questions of the file that name no evidence that exists.
    pub left_out: usize,
    /// All conversations were played in one session.
    pub joined: bool,
    /// Tokens of the window in which they were played.
    pub window: u64,
    /// Sessions.
    pub sessions: usize,
    /// Token counts are estimates.
    pub estimated: bool,
    /// What the engine's answers to the questions cost.
    pub tokens: Spread,
    /// The raw tail of the questions' prompts.
    pub tail: TailReport,
    /// What the engine put into the current user message.
    pub volatile: Spread,
    /// Questions for which the engine gave more than the budget. The host cut the prompt down to it before it was looked at.
    pub over_budget: usize,
    /// Prompts of the played turns against the ones before them.
    pub prefix: PrefixReport,
    /// Prompts of the questions against the last one of the played turns.
    pub question_prefix: PrefixReport,
    /// The engine's hooks that were called, in playing and asking: calls, failures and times in microseconds.
    pub hooks: BTreeMap<String, HookTimes>,
    /// Turns that were played.
    pub turns: usize,
    /// Turns whose prompt the host had to trim.
    pub trimmed: usize,
    /// What went wrong.
    pub degraded: Degraded,
    /// Calls of engines that never came back: when not 0, the process must end without destructors.
    #[serde(skip)]
    pub abandoned: usize,
}

/// Tokens over all questions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// Largest.
    pub max: f64,
}

impl Spread {
    fn of(values: &[f64]) -> Spread {
        Spread { mean: mean(values), p50: median(values), max: values.iter().copied().fold(0.0, f64::max) }
    }
}

/// The newest messages that stand in the prompts as they were said, without a gap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct TailReport {
    /// Their tokens, on average.
    pub mean_tokens: f64,
    /// Their messages, on average.
    pub mean_messages: f64,
    /// Their share of the budget on average, in percent.
    pub mean_share: f64,
    /// The smallest share, in percent.
    pub min_share: f64,
}

/// Times of a hook, by the slot's own count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct HookTimes {
    /// Calls that returned.
    pub count: u64,
    /// Calls that failed.
    pub failures: u64,
    /// Median in microseconds, within a factor of the square root of two.
    pub p50_us: f64,
    /// 99th percentile, within the same factor.
    pub p99_us: f64,
    /// Mean.
    pub mean_us: f64,
    /// Longest.
    pub max_us: f64,
}

impl HookTimes {
    /// The hooks of an engine's report.
    pub fn of(hooks: &Value) -> BTreeMap<String, HookTimes> {
        let times = |stats: &Value| {
            let number = |name: &str| stats[name].as_f64().unwrap_or(0.0);
            let whole = |name: &str| stats[name].as_u64().unwrap_or(0);
            HookTimes {
                count: whole("count"),
                failures: whole("failures"),
                p50_us: number("p50_us"),
                p99_us: number("p99_us"),
                mean_us: number("mean_us"),
                max_us: number("max_us"),
            }
        };
        hooks.as_object().into_iter().flatten().map(|(hook, stats)| (hook.clone(), times(stats))).collect()
    }
}

/// What another engine did in the place of the one that is measured. All of it is 0 and empty when the figures are the engine's.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Degraded {
    /// Questions that another engine answered.
    pub questions: usize,
    /// Played turns that another engine served.
    pub turns: usize,
    /// The reasons, each once.
    pub reasons: Vec<String>,
    /// What questions left behind, which they must not: an answer that was another when the question was asked again, or a
    /// session that was not as before.
    pub traces: Vec<String>,
}

impl Degraded {
    /// True when the figures are the engine's.
    pub fn is_empty(&self) -> bool {
        self.questions == 0 && self.turns == 0 && self.reasons.is_empty() && self.traces.is_empty()
    }

    /// Notes a reason.
    pub fn note(&mut self, reason: String) {
        if !self.reasons.contains(&reason) {
            self.reasons.push(reason);
        }
    }
}

/// What was found in the prompt of one question.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// What of its evidence stands there.
    pub score: Score,
    /// What the engine's answer costs.
    pub tokens: u64,
    /// It costs more than the budget.
    pub over_budget: bool,
    /// Messages and tokens of the tail.
    pub tail: crate::prompt::Tail,
    /// Tokens of the engine's block in the current user message.
    pub volatile: u64,
    /// Share of the prompt that is a prefix of the last one of the session.
    pub prefix: Option<f64>,
}

impl Report {
    /// An empty report of an engine at a budget.
    pub fn new(engine: &crate::engine::Engine, budget: u64) -> Report {
        Report {
            engine: engine.id.clone(),
            config: engine.config.clone(),
            budget,
            recall: 0.0,
            strict: 0.0,
            questions: 0,
            categories: BTreeMap::new(),
            left_out: 0,
            joined: false,
            window: 0,
            sessions: 0,
            estimated: false,
            tokens: Spread::default(),
            tail: TailReport::default(),
            volatile: Spread::default(),
            over_budget: 0,
            prefix: PrefixReport::default(),
            question_prefix: PrefixReport::default(),
            hooks: BTreeMap::new(),
            turns: 0,
            trimmed: 0,
            degraded: Degraded::default(),
            abandoned: 0,
        }
    }

    /// Sums up what was found.
    pub fn sum_up(&mut self, findings: &[Finding]) {
        let scores: Vec<Score> = findings.iter().map(|finding| finding.score.clone()).collect();
        let all = Recall::over_all(&scores);
        (self.recall, self.strict, self.questions) = (all.recall, all.strict, all.questions);
        self.categories = Recall::by_category(&scores);
        let each = |of: &dyn Fn(&Finding) -> f64| findings.iter().map(of).collect::<Vec<f64>>();
        self.tokens = Spread::of(&each(&|finding| finding.tokens as f64));
        self.volatile = Spread::of(&each(&|finding| finding.volatile as f64));
        let shares = each(&|finding| 100.0 * finding.tail.tokens as f64 / self.budget.max(1) as f64);
        self.tail = TailReport {
            mean_tokens: mean(&each(&|finding| finding.tail.tokens as f64)),
            mean_messages: mean(&each(&|finding| finding.tail.messages as f64)),
            mean_share: mean(&shares),
            min_share: shares.iter().copied().reduce(f64::min).unwrap_or(0.0),
        };
        self.over_budget = findings.iter().filter(|finding| finding.over_budget).count();
        let prefixes: Vec<f64> = findings.iter().filter_map(|finding| finding.prefix).collect();
        self.question_prefix = PrefixReport::of(&prefixes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use crate::prompt::Tail;

    fn finding(found: usize, tokens: u64, tail: u64) -> Finding {
        Finding {
            score: Score { category: "1".into(), counted: true, evidence: 2, found },
            tokens,
            over_budget: tokens > 1000,
            tail: Tail { messages: 3, tokens: tail },
            volatile: 10,
            prefix: Some(0.5),
        }
    }

    #[test]
    fn findings_are_summed_up() {
        let mut report = Report::new(&Engine::legacy(), 1000);
        report.sum_up(&[finding(2, 900, 300), finding(1, 1001, 200), finding(0, 500, 250), finding(1, 999, 250)]);
        assert_eq!((report.recall, report.strict, report.questions, report.over_budget), (50.0, 25.0, 4, 1));
        assert_eq!(report.tokens, Spread { mean: 850.0, p50: 949.5, max: 1001.0 });
        let tail = TailReport { mean_tokens: 250.0, mean_messages: 3.0, mean_share: 25.0, min_share: 20.0 };
        assert_eq!(report.tail, tail);
        assert_eq!((report.volatile.max, report.question_prefix.median), (10.0, 50.0));
        assert!(report.degraded.is_empty());
    }

    #[test]
    fn a_report_in_json_has_what_readers_look_for() {
        let value = serde_json::to_value(Report::new(&Engine::legacy(), 5)).unwrap();
        for name in [
            "engine",
            "budget",
            "recall",
            "strict",
            "questions",
            "categories",
            "tokens",
            "tail",
            "over_budget",
            "prefix",
            "hooks",
            "degraded",
        ] {
            assert!(value.get(name).is_some(), "{name}");
        }
        assert!(value["tail"]["min_share"].is_number() && value["tokens"]["p50"].is_number());
    }
}
