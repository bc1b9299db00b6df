//! Counters of an engine: how often, how long, how it failed. Relaxed atomics; a reader sees each number on its own.

use super::failure::FailureKind;
use super::hook::{HOOKS, Hook};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Powers of two of nanoseconds: the last bucket holds everything from half a minute.
const BUCKETS: usize = 36;

#[derive(Debug)]
struct HookStats {
    count: AtomicU64,
    failures: AtomicU64,
    total_ns: AtomicU64,
    min_ns: AtomicU64,
    max_ns: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
    service_errors_in_a_row: AtomicU64,
}

impl Default for HookStats {
    fn default() -> Self {
        HookStats {
            count: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            total_ns: AtomicU64::new(0),
            min_ns: AtomicU64::new(u64::MAX),
            max_ns: AtomicU64::new(0),
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
            service_errors_in_a_row: AtomicU64::new(0),
        }
    }
}

/// Counters of one engine.
#[derive(Debug, Default)]
pub(crate) struct EngineStats {
    hooks: [HookStats; HOOKS],
    pub(crate) abandoned: AtomicU64,
    pub(crate) abandoned_live: AtomicU64,
    pub(crate) late_pushes: AtomicU64,
    pub(crate) late_service_calls: AtomicU64,
    pub(crate) over_budget: AtomicU64,
    service_errors: AtomicU64,
    estimates: AtomicU64,
    estimates_off: AtomicU64,
    last_estimate: AtomicU64,
    last_counted: AtomicU64,
}

/// Calls of one hook. Times are microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HookStatus {
    /// Calls that returned.
    pub count: u64,
    /// Calls that failed, abandoned ones included.
    pub failures: u64,
    /// Shortest.
    pub min_us: f64,
    /// Mean.
    pub mean_us: f64,
    /// Median, within a factor of the square root of two.
    pub p50_us: f64,
    /// 99th percentile, within the same factor.
    pub p99_us: f64,
    /// Longest.
    pub max_us: f64,
}

/// `estimatedTokens` beside the host's count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EstimateStatus {
    /// Assembled prompts.
    pub count: u64,
    /// How many estimates were off by more than a quarter of the host's count.
    pub off: u64,
    /// Last estimate of the engine.
    pub last_estimated: u64,
    /// The host's count of the same prompt.
    pub last_counted: u64,
}

impl EngineStats {
    /// A call returned, well or not.
    pub(crate) fn returned(&self, hook: Hook, took: Duration) {
        let stats = &self.hooks[hook.index()];
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1);
        stats.count.fetch_add(1, Relaxed);
        stats.total_ns.fetch_add(ns, Relaxed);
        // Plain loads first: in the long run neither bound moves, and a load is cheaper than a locked instruction.
        if ns < stats.min_ns.load(Relaxed) {
            stats.min_ns.fetch_min(ns, Relaxed);
        }
        if ns > stats.max_ns.load(Relaxed) {
            stats.max_ns.fetch_max(ns, Relaxed);
        }
        stats.buckets[(ns.ilog2() as usize).min(BUCKETS - 1)].fetch_add(1, Relaxed);
    }

    /// A call succeeded: a row of service errors of this hook is broken.
    pub(crate) fn succeeded(&self, hook: Hook) {
        let row = &self.hooks[hook.index()].service_errors_in_a_row;
        if row.load(Relaxed) != 0 {
            row.store(0, Relaxed);
        }
    }

    /// A call failed. Gives how many service errors of this hook came in a row, this one included.
    pub(crate) fn failed(&self, hook: Hook, kind: FailureKind) -> u64 {
        let stats = &self.hooks[hook.index()];
        stats.failures.fetch_add(1, Relaxed);
        if kind != FailureKind::Service {
            return 0;
        }
        self.service_errors.fetch_add(1, Relaxed);
        stats.service_errors_in_a_row.fetch_add(1, Relaxed) + 1
    }

    /// Keeps an estimate beside the host's count.
    pub(crate) fn estimate(&self, estimated: u64, counted: u64) {
        self.estimates.fetch_add(1, Relaxed);
        self.last_estimate.store(estimated, Relaxed);
        self.last_counted.store(counted, Relaxed);
        if estimated.abs_diff(counted).saturating_mul(4) > counted {
            self.estimates_off.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn service_errors(&self) -> u64 {
        self.service_errors.load(Relaxed)
    }

    pub(crate) fn estimates(&self) -> Option<EstimateStatus> {
        let count = self.estimates.load(Relaxed);
        (count > 0).then(|| EstimateStatus {
            count,
            off: self.estimates_off.load(Relaxed),
            last_estimated: self.last_estimate.load(Relaxed),
            last_counted: self.last_counted.load(Relaxed),
        })
    }

    /// The hooks that were called, by name.
    pub(crate) fn hooks(&self) -> BTreeMap<&'static str, HookStatus> {
        Hook::ALL
            .iter()
            .filter_map(|hook| self.hooks[hook.index()].status().map(|status| (hook.name(), status)))
            .collect()
    }
}

impl HookStats {
    fn status(&self) -> Option<HookStatus> {
        let (count, failures) = (self.count.load(Relaxed), self.failures.load(Relaxed));
        if count == 0 && failures == 0 {
            return None;
        }
        let us = |ns: u64| ns as f64 / 1_000.0;
        let zero_if_none = |ns: u64| if count == 0 { 0.0 } else { us(ns) };
        Some(HookStatus {
            count,
            failures,
            min_us: zero_if_none(self.min_ns.load(Relaxed)),
            mean_us: if count == 0 { 0.0 } else { us(self.total_ns.load(Relaxed)) / count as f64 },
            p50_us: self.percentile(count, 50),
            p99_us: self.percentile(count, 99),
            max_us: us(self.max_ns.load(Relaxed)),
        })
    }

    /// The middle (by ratio) of the bucket in which the percentile lies, as far as anything was measured there.
    fn percentile(&self, count: u64, percent: u64) -> f64 {
        let mut left = (count * percent).div_ceil(100).max(1);
        for (exponent, bucket) in self.buckets.iter().enumerate() {
            let here = bucket.load(Relaxed);
            if here >= left {
                let middle = 2f64.powi(i32::try_from(exponent).unwrap_or(i32::MAX)) * std::f64::consts::SQRT_2;
                // A bucket reaches beyond what fell into it; no report says what was not measured. The two bounds are counted
                // apart, so one of them may still be missing.
                let (least, most) = (self.min_ns.load(Relaxed), self.max_ns.load(Relaxed));
                return middle.min(most as f64).max(least.min(most) as f64) / 1_000.0;
            }
            left -= here;
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_within_its_factor_and_hooks_without_calls_are_left_out() {
        let stats = EngineStats::default();
        for _ in 0..99 {
            stats.returned(Hook::Assemble, Duration::from_micros(10));
        }
        stats.returned(Hook::Assemble, Duration::from_millis(5));
        let hooks = stats.hooks();
        assert_eq!(hooks.keys().copied().collect::<Vec<_>>(), ["assemble"]);
        let assemble = &hooks["assemble"];
        assert!((7.0..15.0).contains(&assemble.p50_us), "{assemble:?}");
        assert!((assemble.min_us, assemble.max_us) == (10.0, 5_000.0), "{assemble:?}");
        assert_eq!(assemble.count, 100);
    }

    #[test]
    fn no_percentile_lies_outside_of_what_was_measured() {
        for micros in [1, 9, 17, 33, 130, 900] {
            let stats = EngineStats::default();
            stats.returned(Hook::Assemble, Duration::from_micros(micros));
            let assemble = &stats.hooks()["assemble"];
            let measured = (micros as f64, micros as f64);
            assert_eq!((assemble.p50_us, assemble.p99_us), measured, "{assemble:?}");
        }
    }

    #[test]
    fn a_success_of_the_same_hook_breaks_the_row_of_service_errors_and_that_of_another_does_not() {
        let stats = EngineStats::default();
        assert_eq!(stats.failed(Hook::Assemble, FailureKind::Service), 1);
        stats.succeeded(Hook::Bootstrap);
        assert_eq!(stats.failed(Hook::Assemble, FailureKind::Service), 2);
        stats.succeeded(Hook::Assemble);
        assert_eq!(stats.failed(Hook::Assemble, FailureKind::Service), 1);
    }

    #[test]
    fn an_estimate_is_off_when_it_differs_by_more_than_a_quarter() {
        let stats = EngineStats::default();
        stats.estimate(125, 100);
        assert_eq!(stats.estimates().map(|e| e.off), Some(0));
        stats.estimate(126, 100);
        stats.estimate(74, 100);
        assert_eq!(stats.estimates().map(|e| e.off), Some(2));
    }
}
