//! Everything that is counted, in one struct that the rooms are handed.

use crate::transcript::StoreStats;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Content type of [`Metrics::render`].
pub const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Name and meaning of what the store counts, in the order of the fields of [`StoreStats`].
const STORE: [(&str, &str); 5] = [
    ("store_submissions", "Submissions that are durable"),
    ("store_refused", "Submissions that were refused or failed"),
    ("store_commits", "Commits, each with one sync of the log"),
    ("store_checkpoints", "Checkpoints, off the reply's path"),
    ("store_held", "Checkpoints that held the writer for a moment"),
];

type Labels<const N: usize> = [(&'static str, String); N];
type Counters<const N: usize> = Family<Labels<N>, Counter>;

/// Calls of one hook of one engine, from the start of the process. The slot counts them; here they are shown.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct HookNumbers {
    /// Calls that returned.
    pub calls: u64,
    /// Calls that failed.
    pub failures: u64,
    /// Time of all calls, in seconds.
    pub seconds: f64,
    /// Median, in seconds.
    pub p50: f64,
    /// 99th percentile, in seconds.
    pub p99: f64,
}

/// The counters of one gateway. Every method is cheap and never blocks on anything but a short lock.
///
/// Labels hold only closed sets and ids from the configuration: engines, hooks, codes, routes. Never a session or a text.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    turns: Counters<2>,
    turn_seconds: Histogram,
    hook_calls: Counters<2>,
    hook_failures: Counters<2>,
    hook_seconds: Family<Labels<2>, Counter<f64, AtomicU64>>,
    hook_quantiles: Family<Labels<3>, Gauge<f64, AtomicU64>>,
    engine_ready: Family<Labels<1>, Gauge>,
    engine_effective: Family<Labels<1>, Gauge>,
    engine_abandoned: Counters<1>,
    over_budget: Counters<1>,
    model_calls: Counters<2>,
    model_first_byte: Histogram,
    tokens: Counters<1>,
    compactions: Counters<3>,
    tool_calls: Counters<2>,
    shadow_turns: Counters<2>,
    shadow_entries: Counters<2>,
    shadow_tokens: Counters<2>,
    maintenance: Counters<2>,
    completions: Counters<2>,
    completion_tokens: Counters<2>,
    catch_ups: Gauge,
    maintenance_seconds: Histogram,
    maintenance_queued: Gauge,
    maintenance_running: Gauge,
    subagents: Counters<2>,
    subagents_running: Gauge,
    waiting: Gauge,
    running: Gauge,
    store: [Counter; 5],
    plugin_failures: Counters<2>,
    abandoned: Gauge,
    abandoned_live: Gauge,
    restart_asked: Gauge,
    disk_bytes: Gauge,
    requests: Counters<2>,
    start_seconds: Gauge<f64, AtomicU64>,
}

/// From 1 ms to about 2 minutes, each about twice the one before.
fn long() -> Histogram {
    Histogram::new([0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 120.0])
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics::new()
    }
}

impl Metrics {
    /// All at zero.
    pub fn new() -> Metrics {
        let mut metrics = Metrics {
            registry: Registry::with_prefix("engineroom"),
            turns: Family::default(),
            turn_seconds: long(),
            hook_calls: Family::default(),
            hook_failures: Family::default(),
            hook_seconds: Family::default(),
            hook_quantiles: Family::default(),
            engine_ready: Family::default(),
            engine_effective: Family::default(),
            engine_abandoned: Family::default(),
            over_budget: Family::default(),
            model_calls: Family::default(),
            model_first_byte: long(),
            tokens: Family::default(),
            compactions: Family::default(),
            tool_calls: Family::default(),
            shadow_turns: Family::default(),
            shadow_entries: Family::default(),
            shadow_tokens: Family::default(),
            maintenance: Family::default(),
            completions: Family::default(),
            completion_tokens: Family::default(),
            catch_ups: Gauge::default(),
            maintenance_seconds: long(),
            maintenance_queued: Gauge::default(),
            maintenance_running: Gauge::default(),
            subagents: Family::default(),
            subagents_running: Gauge::default(),
            waiting: Gauge::default(),
            running: Gauge::default(),
            store: Default::default(),
            plugin_failures: Family::default(),
            abandoned: Gauge::default(),
            abandoned_live: Gauge::default(),
            restart_asked: Gauge::default(),
            disk_bytes: Gauge::default(),
            requests: Family::default(),
            start_seconds: Gauge::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let r = &mut self.registry;
        r.register("turns", "Turns answered, by the engine that served and the degraded code", self.turns.clone());
        r.register_with_unit("turn", "Time of a whole turn", Unit::Seconds, self.turn_seconds.clone());
        r.register("hook_calls", "Calls of an engine that returned", self.hook_calls.clone());
        r.register("hook_failures", "Calls of an engine that failed", self.hook_failures.clone());
        r.register("hook_time_seconds", "Time spent in an engine's hook", self.hook_seconds.clone());
        r.register("hook_quantile_seconds", "Time of one call of a hook", self.hook_quantiles.clone());
        r.register("engine_ready", "1 when the engine can serve", self.engine_ready.clone());
        r.register("engine_effective", "1 for the engine that serves stored turns now", self.engine_effective.clone());
        r.register("engine_abandoned_calls", "Calls that did not come back in time", self.engine_abandoned.clone());
        r.register("over_budget", "Assemblies that were longer than the budget", self.over_budget.clone());
        r.register("model_calls", "Calls of the model, by outcome", self.model_calls.clone());
        r.register_with_unit(
            "model_first_byte",
            "Time to the model's first byte",
            Unit::Seconds,
            self.model_first_byte.clone(),
        );
        r.register("tokens", "Tokens as the provider counted them, by kind", self.tokens.clone());
        r.register("shadow_turns", "Turns that an engine watched, by what came of it", self.shadow_turns.clone());
        r.register(
            "shadow_entries",
            "Entries of watched turns, by who showed them: both, only the first, only the shadow",
            self.shadow_entries.clone(),
        );
        r.register("shadow_tokens", "Their tokens", self.shadow_tokens.clone());
        r.register("compactions", "Compactions, by maker, trigger and outcome", self.compactions.clone());
        r.register("tool_calls", "Tool calls that the gateway answered, by owner and outcome", self.tool_calls.clone());
        r.register("llm_completions", "Completions that engines asked for, by outcome", self.completions.clone());
        r.register("llm_completion_tokens", "Tokens of these, by kind", self.completion_tokens.clone());
        r.register("catch_ups_running", "Engines that read what they missed", self.catch_ups.clone());
        r.register("maintenance", "Background runs of engines, by outcome", self.maintenance.clone());
        r.register_with_unit(
            "maintenance",
            "Time of a background run",
            Unit::Seconds,
            self.maintenance_seconds.clone(),
        );
        r.register("maintenance_queued", "Sessions that wait for a background run", self.maintenance_queued.clone());
        r.register("maintenance_running", "Background runs", self.maintenance_running.clone());
        r.register("subagents", "Subagents, by how they began and what became of them", self.subagents.clone());
        r.register("subagents_running", "Subagents that run", self.subagents_running.clone());
        r.register("turns_waiting", "Turns that wait for their session", self.waiting.clone());
        r.register("turns_running", "Turns that run", self.running.clone());
        for ((name, help), counter) in STORE.iter().zip(&self.store) {
            r.register(*name, *help, counter.clone());
        }
        r.register("plugin_stage_failures", "Libraries that a load stage refused", self.plugin_failures.clone());
        r.register(
            "abandoned_threads",
            "Calls of engines that never came back, each with its thread",
            self.abandoned.clone(),
        );
        r.register("abandoned_threads_live", "Threads that are inside of such a call now", self.abandoned_live.clone());
        r.register("restart_asked", "1 when these are so many that a restart is due", self.restart_asked.clone());
        r.register_with_unit("store_disk", "Size of the store", Unit::Bytes, self.disk_bytes.clone());
        r.register("http_requests", "Requests, by route and status", self.requests.clone());
        r.register_with_unit("start", "Time from start to ready", Unit::Seconds, self.start_seconds.clone());
    }

    /// A turn was answered. `degraded` is the closed code, where it is not the selected engine.
    pub fn turn(&self, engine: &str, degraded: Option<&str>, time: Duration) {
        self.turns.get_or_create(&[("engine", engine.into()), ("degraded", degraded.unwrap_or("none").into())]).inc();
        self.turn_seconds.observe(time.as_secs_f64());
    }

    /// Shows what the slot counted of a hook.
    pub fn set_hook(&self, engine: &str, hook: &str, numbers: HookNumbers) {
        let labels = [("engine", engine.to_owned()), ("hook", hook.to_owned())];
        self.hook_calls.get_or_create(&labels).inner().store(numbers.calls, Relaxed);
        self.hook_failures.get_or_create(&labels).inner().store(numbers.failures, Relaxed);
        self.hook_seconds.get_or_create(&labels).inner().store(numbers.seconds.to_bits(), Relaxed);
        let [engine, hook] = labels;
        for (quantile, value) in [("0.5", numbers.p50), ("0.99", numbers.p99)] {
            let labels = [engine.clone(), hook.clone(), ("quantile", quantile.to_owned())];
            self.hook_quantiles.get_or_create(&labels).set(value);
        }
    }

    /// Shows the state of an engine: whether it can serve, whether it does, and what it did in all.
    pub fn set_engine(&self, engine: &str, ready: bool, effective: bool, abandoned: u64, over_budget: u64) {
        let labels = [("engine", engine.to_owned())];
        self.engine_ready.get_or_create(&labels).set(i64::from(ready));
        self.engine_effective.get_or_create(&labels).set(i64::from(effective));
        self.engine_abandoned.get_or_create(&labels).inner().store(abandoned, Relaxed);
        self.over_budget.get_or_create(&labels).inner().store(over_budget, Relaxed);
    }

    /// A model call ended: "ok", or [`ModelError::kind`](crate::model::ModelError::kind).
    pub fn model_call(&self, provider: &str, outcome: &str) {
        self.model_calls.get_or_create(&[("provider", provider.into()), ("outcome", outcome.into())]).inc();
    }

    /// The model's first byte came.
    pub fn model_first_byte(&self, time: Duration) {
        self.model_first_byte.observe(time.as_secs_f64());
    }

    /// Tokens of a call; `kind` is "prompt", "completion" or "cached".
    pub fn tokens(&self, kind: &'static str, number: u64) {
        self.tokens.get_or_create(&[("kind", kind.into())]).inc_by(number);
    }

    /// A compaction ended; `by` is the engine or "builtin", `outcome` is "compacted", "nothing" or "failed".
    pub fn compaction(&self, by: &str, trigger: &str, outcome: &str) {
        self.compactions
            .get_or_create(&[("by", by.into()), ("trigger", trigger.into()), ("outcome", outcome.into())])
            .inc();
    }

    /// A tool call was answered; `by` is the engine, "gateway" or "nobody", `outcome` is "ok" or "error".
    pub fn tool_call(&self, by: &str, outcome: &str) {
        self.tool_calls.get_or_create(&[("by", by.into()), ("outcome", outcome.into())]).inc();
    }

    /// An engine watched a turn: "compared", "gave_way", "moved", "failed" or "out".
    pub fn shadow_turn(&self, engine: &str, outcome: &str) {
        self.shadow_turns.get_or_create(&[("engine", engine.into()), ("outcome", outcome.into())]).inc();
    }

    /// What of a watched turn was shown by both, only by the engine that served ("first"), or only by the shadow.
    pub fn shadow_shown(&self, engine: &str, by: &str, entries: u64, tokens: u64) {
        let labels = [("engine", engine.into()), ("shown_by", by.into())];
        self.shadow_entries.get_or_create(&labels).inc_by(entries);
        self.shadow_tokens.get_or_create(&labels).inc_by(tokens);
    }

    /// A completion that an engine asked for ended.
    pub fn completion(&self, engine: &str, outcome: &str) {
        self.completions.get_or_create(&[("engine", engine.into()), ("outcome", outcome.into())]).inc();
    }

    /// Tokens of it; `kind` is "input" or "output".
    pub fn completion_tokens(&self, engine: &str, kind: &str, number: u64) {
        self.completion_tokens.get_or_create(&[("engine", engine.into()), ("kind", kind.into())]).inc_by(number);
    }

    /// Counts a catch-up as running until the guard is dropped.
    pub fn catching_up(&self) -> InFlight {
        InFlight::new(&self.catch_ups)
    }

    /// A background run of an engine ended: "succeeded", "failed", "gave-way", "cancelled" or "skipped".
    pub fn maintenance(&self, engine: &str, outcome: &str) {
        self.maintenance.get_or_create(&[("engine", engine.into()), ("outcome", outcome.into())]).inc();
    }

    /// How long a background run took.
    pub fn maintenance_time(&self, time: Duration) {
        self.maintenance_seconds.observe(time.as_secs_f64());
    }

    /// Background runs that wait, and that run.
    pub fn set_maintenance(&self, queued: usize, running: usize) {
        self.maintenance_queued.set(i64::try_from(queued).unwrap_or(i64::MAX));
        self.maintenance_running.set(i64::try_from(running).unwrap_or(i64::MAX));
    }

    /// A child of a session ended, or was not started; `mode` is "isolated" or "fork", `outcome` is "refused" or the reason of
    /// its end.
    pub fn subagent(&self, mode: &'static str, outcome: &'static str) {
        self.subagents.get_or_create(&[("mode", mode.into()), ("outcome", outcome.into())]).inc();
    }

    /// Counts a child as running until the guard is dropped.
    pub fn subagent_running(&self) -> InFlight {
        InFlight::new(&self.subagents_running)
    }

    /// Counts a turn as waiting for its session until the guard is dropped.
    pub fn waiting(&self) -> InFlight {
        InFlight::new(&self.waiting)
    }

    /// Counts a turn as running until the guard is dropped.
    pub fn running(&self) -> InFlight {
        InFlight::new(&self.running)
    }

    /// Shows what the store counted, in the order of its fields.
    pub fn set_store(&self, stats: &StoreStats) {
        let StoreStats { submissions, refused, commits, checkpoints, held } = *stats;
        for (counter, value) in self.store.iter().zip([submissions, refused, commits, checkpoints, held]) {
            counter.inner().store(value, Relaxed);
        }
    }

    /// Shows how many libraries a load stage refused with a code.
    pub fn set_plugin_failures(&self, stage: &str, code: &str, number: u64) {
        let labels = [("stage", stage.to_lowercase()), ("code", code.to_owned())];
        self.plugin_failures.get_or_create(&labels).inner().store(number, Relaxed);
    }

    /// Calls of engines that never came back, in all.
    pub fn set_abandoned(&self, number: usize) {
        self.abandoned.set(i64::try_from(number).unwrap_or(i64::MAX));
    }

    /// Threads that are inside of such calls now, and whether they are too many.
    pub fn set_abandoned_live(&self, threads: usize, too_many: bool) {
        self.abandoned_live.set(i64::try_from(threads).unwrap_or(i64::MAX));
        self.restart_asked.set(i64::from(too_many));
    }

    /// Size of the store.
    pub fn set_disk_bytes(&self, bytes: u64) {
        self.disk_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// A request was answered. `route` is the pattern, never the path.
    pub fn request(&self, route: &str, status: u16) {
        self.requests.get_or_create(&[("route", route.into()), ("status", status.to_string())]).inc();
    }

    /// The gateway is ready.
    pub fn started(&self, time: Duration) {
        self.start_seconds.set(time.as_secs_f64());
    }

    /// All of them, in the text format that Prometheus reads ([`METRICS_TYPE`]).
    pub fn render(&self) -> String {
        let mut text = String::new();
        // Writing into a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// Something that is going on; over when it is dropped.
#[derive(Debug)]
pub struct InFlight(Gauge);

impl InFlight {
    fn new(gauge: &Gauge) -> InFlight {
        gauge.inc();
        InFlight(gauge.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(metrics: &Metrics, line: &str) -> Option<f64> {
        let text = metrics.render();
        text.lines().find_map(|row| row.strip_prefix(line)?.trim().parse().ok())
    }

    #[test]
    fn what_is_counted_is_rendered_with_its_labels() {
        let metrics = Metrics::new();
        metrics.turn("window", None, Duration::from_millis(3));
        metrics.turn("window", None, Duration::from_millis(3));
        metrics.turn("legacy", Some("deadline"), Duration::from_millis(3));
        let numbers = HookNumbers { calls: 3, failures: 1, seconds: 0.5, p50: 0.1, p99: 0.2 };
        metrics.set_hook("window", "assemble", numbers);
        metrics.set_hook("window", "assemble", HookNumbers { calls: 4, ..numbers });
        metrics.set_engine("window", true, false, 2, 0);
        metrics.tokens("prompt", 120);
        metrics.request("/v1/models", 200);
        metrics.set_plugin_failures("Probe", "CE250", 1);
        assert_eq!(value(&metrics, "engineroom_turns_total{engine=\"window\",degraded=\"none\"}"), Some(2.0));
        assert_eq!(value(&metrics, "engineroom_turns_total{engine=\"legacy\",degraded=\"deadline\"}"), Some(1.0));
        assert_eq!(value(&metrics, "engineroom_turn_seconds_count"), Some(3.0));
        let hook = "{engine=\"window\",hook=\"assemble\"}";
        assert_eq!(value(&metrics, &format!("engineroom_hook_calls_total{hook}")), Some(4.0));
        assert_eq!(value(&metrics, &format!("engineroom_hook_time_seconds_total{hook}")), Some(0.5));
        assert_eq!(value(&metrics, "engineroom_engine_ready{engine=\"window\"}"), Some(1.0));
        assert_eq!(value(&metrics, "engineroom_engine_abandoned_calls_total{engine=\"window\"}"), Some(2.0));
        assert_eq!(value(&metrics, "engineroom_tokens_total{kind=\"prompt\"}"), Some(120.0));
        assert_eq!(
            value(&metrics, "engineroom_plugin_stage_failures_total{stage=\"probe\",code=\"CE250\"}"),
            Some(1.0)
        );
        assert!(metrics.render().ends_with("# EOF\n"));
    }

    #[test]
    fn a_guard_counts_while_it_lives() {
        let metrics = Metrics::new();
        let first = metrics.waiting();
        let second = metrics.waiting();
        assert_eq!(value(&metrics, "engineroom_turns_waiting"), Some(2.0));
        drop(first);
        assert_eq!(value(&metrics, "engineroom_turns_waiting"), Some(1.0));
        drop(second);
        assert_eq!(value(&metrics, "engineroom_turns_waiting"), Some(0.0));
    }
}
