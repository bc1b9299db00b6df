//! What the gateway holds over time, and whether that is flat.

use super::Report;
use std::sync::Mutex;
use std::time::Duration;

/// How much more the last part may be than the first one: a part of it, and so much.
struct Bound {
    times: f64,
    plus: f64,
}

/// One look at a process and its descendants.
#[derive(Debug, Clone, Copy)]
struct Look {
    at: Duration,
    /// Resident memory of the gateway, in MiB.
    memory: f64,
    /// Threads of the gateway.
    threads: f64,
    /// Descriptors of the gateway.
    descriptors: f64,
    /// Descendants.
    processes: f64,
}

/// Looks again and again.
#[derive(Debug, Default)]
pub(super) struct Meter(Mutex<Vec<Look>>);

impl Meter {
    pub(super) fn look(&self, pid: u32, at: Duration) {
        let entries = |what: &str| std::fs::read_dir(format!("/proc/{pid}/{what}")).map_or(0, Iterator::count) as f64;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse().ok());
        let look = Look {
            at,
            memory: kib.unwrap_or(0.0) / 1024.0,
            threads: entries("task"),
            descriptors: entries("fd"),
            processes: crate::matrix::family(pid).len() as f64 - 1.0,
        };
        self.0.lock().expect("looks").push(look);
    }

    /// Compares the second quarter with the last one; the first is the warm-up.
    pub(super) fn judge(&self, time: Duration, turns: &[(Duration, f64)], report: &mut Report) {
        let looks = self.0.lock().expect("looks").clone();
        let quarter = time / 4;
        let parts = [(quarter, quarter * 2), (quarter * 3, time)];
        let within = |at: Duration, (from, to): (Duration, Duration)| at >= from && at < to;
        type Of = fn(&Look) -> f64;
        let held: [(&str, Of, Bound); 4] = [
            ("memory, MiB", |look| look.memory, Bound { times: 1.15, plus: 24.0 }),
            ("threads", |look| look.threads, Bound { times: 1.0, plus: 16.0 }),
            ("descriptors", |look| look.descriptors, Bound { times: 1.0, plus: 24.0 }),
            ("processes", |look| look.processes, Bound { times: 1.0, plus: 4.0 }),
        ];
        for (name, of, bound) in held {
            let [first, last] =
                parts.map(|part| quantile(looks.iter().filter(|look| within(look.at, part)).map(of).collect(), 0.5));
            row(report, name, first, last, &bound);
        }
        for (name, at) in [("turn p50, ms", 0.5), ("turn p99, ms", 0.99)] {
            let [first, last] = parts.map(|part| {
                quantile(turns.iter().filter(|(when, _)| within(*when, part)).map(|(_, took)| *took).collect(), at)
            });
            row(report, name, first, last, &Bound { times: 2.0, plus: 400.0 });
        }
    }
}

fn row(report: &mut Report, name: &str, first: Option<f64>, last: Option<f64>, bound: &Bound) {
    let (Some(first), Some(last)) = (first, last) else {
        report.problems.push(format!("{name}: nothing was measured"));
        return;
    };
    let most = first * bound.times + bound.plus;
    report.rows.push([name.to_owned(), format!("{first:.1}"), format!("{last:.1}"), format!("{most:.1}")]);
    if last > most {
        report.problems.push(format!("{name} is not flat: {first:.1}, at the end {last:.1}, at most {most:.1}"));
    }
}

fn quantile(mut values: Vec<f64>, at: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let place = (values.len().checked_sub(1)? as f64 * at).round();
    values.get(place as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_is_told_and_what_is_flat_is_not() {
        let turns: Vec<(Duration, f64)> = (0..400).map(|n| (Duration::from_millis(n * 100), 5.0)).collect();
        let judge = |memory: fn(u64) -> f64| {
            let meter = Meter::default();
            for n in 0..400 {
                let look = Look {
                    at: Duration::from_millis(n * 100),
                    memory: memory(n),
                    threads: 9.0,
                    descriptors: 20.0,
                    processes: 0.0,
                };
                meter.0.lock().unwrap().push(look);
            }
            let mut report = Report::default();
            meter.judge(Duration::from_secs(40), &turns, &mut report);
            assert_eq!(report.rows.len(), 6);
            report.problems
        };
        assert_eq!(judge(|n| if n < 50 { 10.0 } else { 100.0 }), [""; 0], "a warm-up may grow");
        let told = judge(|n| 100.0 + n as f64);
        assert!(told.len() == 1 && told[0].starts_with("memory"), "{told:?}");
        assert_eq!(quantile(vec![3.0, 1.0, 2.0], 0.5), Some(2.0));
        assert_eq!(quantile(Vec::new(), 0.5), None);
    }
}
