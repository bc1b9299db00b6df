//! How a worker ended, told once.

use super::ending::{self, Ending};
use std::time::Duration;

/// The setting that bounds a worker's memory, as reasons name it.
pub(crate) const MEMORY_LIMIT: &str = "limits.memory_mb";

/// The end of a worker.
#[derive(Debug, Clone)]
pub(crate) struct Death {
    /// Its process id, which may be another's by now.
    pub pid: u32,
    /// Signal or exit status.
    pub ending: Ending,
    /// Why the gateway wanted it to end, if it did.
    pub wanted: Option<String>,
    /// True when it ended because the gateway wanted it to, not of its own.
    pub by_us: bool,
    /// The last lines that it wrote to standard error.
    pub wrote: Vec<String>,
    /// How long it lived.
    pub lived: Duration,
}

impl Death {
    /// True when nobody in the worker ends it like this: somebody else did, or the system for want of memory.
    pub(crate) fn is_from_outside(&self) -> bool {
        let outside = [libc::SIGKILL, libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT];
        !self.by_us && matches!(self.ending, Ending::Signal(signal) if outside.contains(&signal))
    }

    /// One sentence about an end from outside while no call ran.
    pub(crate) fn outside(&self) -> String {
        let name = match self.ending {
            Ending::Signal(signal) => ending::signal_name(signal),
            Ending::Exit(_) | Ending::Lost => String::new(),
        };
        let name = name.split(" (").next().unwrap_or_default();
        let perhaps =
            if name == "SIGKILL" { "perhaps out of memory or by hand" } else { "by hand or by another program" };
        format!("its worker was killed by {name} between calls ({perhaps})")
    }

    /// True when it ended because it was given no more memory: what Rust's and C++'s allocators say then.
    fn had_no_memory(&self) -> bool {
        let said = |line: &String| line.contains("memory allocation of ") || line.contains("std::bad_alloc");
        matches!(self.ending, Ending::Signal(libc::SIGABRT)) && self.wrote.iter().any(said)
    }

    /// One sentence about it, as in "its worker was killed by SIGSEGV (memory access) in assemble; it wrote: …".
    pub(crate) fn reason(&self, hook: Option<&str>) -> String {
        let place = hook.map(|hook| format!(" in {hook}")).unwrap_or_default();
        let mut reason = match (&self.wanted, self.by_us) {
            (Some(why), true) => format!("its worker was stopped{place}: {why}"),
            _ => format!("its worker {}{place}", self.ending),
        };
        if self.had_no_memory() {
            reason.push_str(&format!("; it was given no more memory, see {MEMORY_LIMIT}"));
        }
        if !self.wrote.is_empty() {
            reason.push_str("; it wrote: ");
            reason.push_str(&self.wrote.join(" | "));
        }
        reason
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn killed(signal: i32, wrote: &[&str]) -> Death {
        let wrote = wrote.iter().map(|line| (*line).to_owned()).collect();
        Death { pid: 7, ending: Ending::Signal(signal), wanted: None, by_us: false, wrote, lived: Duration::ZERO }
    }

    #[test]
    fn an_end_for_want_of_memory_names_the_limit() {
        let want = killed(libc::SIGABRT, &["memory allocation of 8 bytes failed"]).reason(Some("assemble"));
        assert!(want.contains("in assemble; it was given no more memory, see limits.memory_mb; it wrote: "), "{want}");
        assert!(!killed(libc::SIGABRT, &["an assertion"]).reason(None).contains(MEMORY_LIMIT));
    }

    #[test]
    fn an_end_from_outside_is_told_from_a_fault() {
        let kill = killed(libc::SIGKILL, &[]);
        assert!(kill.is_from_outside());
        assert_eq!(kill.outside(), "its worker was killed by SIGKILL between calls (perhaps out of memory or by hand)");
        assert!(killed(libc::SIGTERM, &[]).is_from_outside());
        assert!(!killed(libc::SIGSEGV, &[]).is_from_outside());
        assert!(!Death { by_us: true, ..kill }.is_from_outside());
    }

    #[test]
    fn a_death_reads_as_a_sentence() {
        let mut death = Death {
            pid: 7,
            ending: Ending::Signal(11),
            wanted: None,
            by_us: false,
            wrote: vec!["oh".into(), "no".into()],
            lived: Duration::ZERO,
        };
        let expected = "its worker was killed by SIGSEGV (memory access) in assemble; it wrote: oh | no";
        assert_eq!(death.reason(Some("assemble")), expected);
        death.wrote.clear();
        death.wanted = Some("a call did not come back".into());
        assert_eq!(death.reason(None), "its worker was killed by SIGSEGV (memory access)");
        death.by_us = true;
        assert_eq!(death.reason(None), "its worker was stopped: a call did not come back");
    }
}
