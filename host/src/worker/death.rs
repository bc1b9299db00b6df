//! How a worker ended, told once.

use super::ending::Ending;
use std::time::Duration;

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
    /// One sentence about it, as in "its worker was killed by SIGSEGV (memory access) in assemble; it wrote: …".
    pub(crate) fn reason(&self, hook: Option<&str>) -> String {
        let place = hook.map(|hook| format!(" in {hook}")).unwrap_or_default();
        let mut reason = match (&self.wanted, self.by_us) {
            (Some(why), true) => format!("its worker was stopped{place}: {why}"),
            _ => format!("its worker {}{place}", self.ending),
        };
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
