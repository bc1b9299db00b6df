//! From a ledger that an earlier process left to a verdict. Nothing is read or written here.
//!
//! | what the ledger says | verdict |
//! |---|---|
//! | it ended in good order, or the host called exit | `well` |
//! | another boot id | `reboot`: nobody |
//! | a signal that another process sent | `outside`: nobody |
//! | a signal or an exit while a service of the host ran, or on a thread that ran nothing of an engine | `host`: nobody |
//! | a signal or an exit in a call of an engine, or in the memory of its library | `crashed`: that engine |
//! | no cause, after the process was told to stop | `outside`: nobody |
//! | no cause, and calls were running | `unexplained`: each of their engines |
//! | no cause, and no call was running | `unknown`: nobody |

use super::format::{Old, Recorded, Subject, ended, kind};
use serde::Serialize;
use std::collections::BTreeMap;

/// How the process before this one ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// In good order.
    Well,
    /// Inside an engine.
    Crashed,
    /// While engines were called, and nothing tells why.
    Unexplained,
    /// By a signal that another process sent.
    Outside,
    /// By a defect of the gateway itself.
    Host,
    /// With the machine.
    Reboot,
    /// While no engine was called, and nothing tells why.
    Unknown,
}

/// What an ending comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Judgement {
    pub(super) verdict: Verdict,
    /// Who is accused, and of what in which call.
    pub(super) accused: Vec<(Subject, String)>,
    /// What ended the process, in words.
    pub(super) cause: Option<String>,
    pub(super) signal: Option<String>,
    pub(super) exit_code: Option<i64>,
    pub(super) when_ms: Option<u64>,
    /// Calls that returned, by whom; of everybody who ran.
    pub(super) returned: BTreeMap<Subject, u64>,
}

/// Judges a ledger. `boot` is the boot id of now.
pub(super) fn judge(old: &Old, boot: &str) -> Judgement {
    let mut returned: BTreeMap<Subject, u64> = BTreeMap::new();
    for row in &old.rows {
        let sum = returned.entry(row.subject.clone()).or_default();
        *sum = sum.saturating_add(row.returned);
    }
    let mut judgement = Judgement {
        verdict: Verdict::Unknown,
        accused: Vec::new(),
        cause: old.cause.as_ref().map(words),
        signal: old.cause.as_ref().filter(|cause| cause.kind == kind::SIGNAL).map(|cause| signal_name(cause.number)),
        exit_code: old.cause.as_ref().filter(|cause| cause.kind != kind::SIGNAL).map(|cause| cause.number),
        when_ms: old.cause.as_ref().map(|cause| cause.when_ms),
        returned,
    };
    let accuse = |verdict: Verdict, accused: Vec<(Subject, String)>| (verdict, accused);
    (judgement.verdict, judgement.accused) = if old.ended != ended::NOT {
        accuse(Verdict::Well, Vec::new())
    } else if old.boot != boot || boot.is_empty() {
        accuse(Verdict::Reboot, Vec::new())
    } else {
        match old.cause.as_ref().map(|cause| blame(cause, old.pid)) {
            Some(Blame::Outside) => accuse(Verdict::Outside, Vec::new()),
            Some(Blame::Host) => accuse(Verdict::Host, Vec::new()),
            Some(Blame::Engine(subject, place)) => accuse(Verdict::Crashed, vec![(subject, place)]),
            None if old.stopping => accuse(Verdict::Outside, Vec::new()),
            Some(Blame::Unclear) | None => {
                let running = in_flight(old);
                let verdict = if running.is_empty() { Verdict::Unknown } else { Verdict::Unexplained };
                accuse(verdict, running)
            }
        }
    };
    judgement
}

enum Blame {
    Engine(Subject, String),
    Host,
    Outside,
    /// The process sent the signal to itself, and it came on a thread that says nothing.
    Unclear,
}

fn blame(cause: &Recorded, pid: u64) -> Blame {
    let sent = cause.kind == kind::SIGNAL && cause.code <= 0;
    let own = u64::try_from(cause.sender).is_ok_and(|sender| sender == pid);
    // The kernel sends these on behalf of somebody: a terminal, a session that ends.
    let polite = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM].map(i64::from).contains(&cause.number);
    if cause.kind == kind::SIGNAL && (sent && !own || polite && !sent) {
        return Blame::Outside;
    }
    let library = |subject: &Subject| (subject.clone(), LIBRARY.to_owned());
    // Where the processor stood tells most; then what ran on the thread; then who called.
    match (&cause.range, &cause.row) {
        (Some(range), Some((subject, place))) if subject.plugin == range.plugin => {
            Blame::Engine(subject.clone(), place.clone())
        }
        (Some(range), _) => {
            let (subject, place) = library(range);
            Blame::Engine(subject, place)
        }
        (None, _) if cause.serving => Blame::Host,
        (None, Some((subject, place))) => Blame::Engine(subject.clone(), place.clone()),
        (None, None) => match &cause.caller {
            Some(caller) => {
                let (subject, place) = library(caller);
                Blame::Engine(subject, place)
            }
            None if sent && own => Blame::Unclear,
            None => Blame::Host,
        },
    }
}

/// The place of what no call of the host runs.
pub(super) const LIBRARY: &str = "a thread of its own";

/// Engines in whose code the process may have been. Where a service of the host ran for one, the host was running.
fn in_flight(old: &Old) -> Vec<(Subject, String)> {
    let mut running: BTreeMap<Subject, String> = BTreeMap::new();
    for row in old.rows.iter().filter(|row| row.active && !row.serving) {
        running.entry(row.subject.clone()).or_insert_with(|| row.place.clone());
    }
    running.into_iter().collect()
}

/// A fault so near to the stack pointer is one of the stack.
const NEAR: u64 = 64 * 1024;

fn words(cause: &Recorded) -> String {
    match cause.kind {
        kind::SIGNAL => {
            let name = signal_name(cause.number);
            let (sent, number) = (cause.code <= 0, i32::try_from(cause.number).unwrap_or(0));
            match number {
                _ if sent && number != libc::SIGABRT => format!("{name}, sent by process {}", cause.sender),
                libc::SIGSEGV if cause.address.abs_diff(cause.stack) < NEAR => format!("{name} (stack overflow)"),
                libc::SIGSEGV => format!("{name} (memory access at {:#x})", cause.address),
                libc::SIGBUS => format!("{name} (memory at {:#x} that is not there)", cause.address),
                libc::SIGILL => format!("{name} (no instruction at {:#x})", cause.pc),
                libc::SIGFPE => format!("{name} (arithmetic fault)"),
                libc::SIGABRT => format!("{name} (abort)"),
                libc::SIGSYS => format!("{name} (forbidden system call)"),
                libc::SIGTRAP => format!("{name} (trap)"),
                _ => name,
            }
        }
        kind::EXIT => format!("exit({})", cause.number),
        kind::QUICK_EXIT => "quick_exit".to_owned(),
        _ => format!("_exit({})", cause.number),
    }
}

fn signal_name(number: i64) -> String {
    let known = [
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGSYS, "SIGSYS"),
        (libc::SIGTRAP, "SIGTRAP"),
        (libc::SIGHUP, "SIGHUP"),
        (libc::SIGINT, "SIGINT"),
        (libc::SIGQUIT, "SIGQUIT"),
        (libc::SIGTERM, "SIGTERM"),
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGUSR1, "SIGUSR1"),
        (libc::SIGUSR2, "SIGUSR2"),
        (libc::SIGALRM, "SIGALRM"),
        (libc::SIGPIPE, "SIGPIPE"),
        (libc::SIGXCPU, "SIGXCPU"),
        (libc::SIGXFSZ, "SIGXFSZ"),
    ];
    let found = known.iter().find(|(signal, _)| i64::from(*signal) == number);
    found.map_or_else(|| format!("signal {number}"), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::format::{Row, Sort};
    use super::*;

    fn subject(id: &str) -> Subject {
        Subject { sort: Sort::Engine, id: id.into(), plugin: id.into() }
    }

    fn row(id: &str, active: bool, serving: bool) -> Row {
        Row { subject: subject(id), place: "assemble".into(), active, serving, returned: 3 }
    }

    fn old(rows: Vec<Row>, cause: Option<Recorded>) -> Old {
        Old { pid: 10, started_ms: 1, boot: "boot".into(), ended: ended::NOT, stopping: false, rows, cause }
    }

    fn fault() -> Recorded {
        Recorded {
            kind: kind::SIGNAL,
            number: i64::from(libc::SIGSEGV),
            code: 1,
            sender: 0,
            address: 8,
            pc: 0,
            stack: 0x7f00_0000_0000,
            row: Some((subject("a"), "assemble".into())),
            serving: false,
            range: None,
            caller: None,
            when_ms: 5,
        }
    }

    fn verdict(old: &Old) -> (Verdict, Vec<String>) {
        let judged = judge(old, "boot");
        (judged.verdict, judged.accused.into_iter().map(|(subject, _)| subject.id).collect())
    }

    #[test]
    fn a_fault_in_a_call_accuses_its_engine_and_nobody_else() {
        let rows = vec![row("a", true, false), row("b", true, false)];
        assert_eq!(verdict(&old(rows.clone(), Some(fault()))), (Verdict::Crashed, vec!["a".into()]));
        let judged = judge(&old(rows, Some(fault())), "boot");
        assert_eq!(judged.cause.as_deref(), Some("SIGSEGV (memory access at 0x8)"));
        assert_eq!((judged.signal.as_deref(), judged.exit_code), (Some("SIGSEGV"), None));
        let overflow = Recorded { address: 0x7eff_ffff_f000, ..fault() };
        assert_eq!(judge(&old(vec![], Some(overflow)), "boot").cause.as_deref(), Some("SIGSEGV (stack overflow)"));
    }

    #[test]
    fn the_code_that_ran_tells_more_than_the_flag_of_the_host() {
        let host = Recorded { serving: true, ..fault() };
        assert_eq!(verdict(&old(vec![], Some(host.clone()))), (Verdict::Host, vec![]));
        let engine = Recorded { range: Some(subject("a")), ..host };
        assert_eq!(verdict(&old(vec![], Some(engine))), (Verdict::Crashed, vec!["a".into()]));
    }

    #[test]
    fn a_thread_without_a_call_accuses_the_library_in_which_it_was_or_that_called() {
        let nobody = Recorded { row: None, ..fault() };
        assert_eq!(verdict(&old(vec![row("a", true, false)], Some(nobody.clone()))), (Verdict::Host, vec![]));
        let inside = Recorded { range: Some(subject("b")), ..nobody.clone() };
        assert_eq!(verdict(&old(vec![], Some(inside))), (Verdict::Crashed, vec!["b".into()]));
        let called = Recorded { caller: Some(subject("c")), ..nobody };
        assert_eq!(verdict(&old(vec![], Some(called))), (Verdict::Crashed, vec!["c".into()]));
    }

    #[test]
    fn what_others_send_accuses_nobody_and_what_the_process_sends_itself_does() {
        let outside = Recorded { code: 0, sender: 99, ..fault() };
        assert_eq!(verdict(&old(vec![row("a", true, false)], Some(outside.clone()))), (Verdict::Outside, vec![]));
        // A sender that cannot be seen from here has the number 0.
        assert_eq!(verdict(&old(vec![], Some(Recorded { sender: 0, ..outside.clone() }))), (Verdict::Outside, vec![]));
        let abort = Recorded { code: -6, sender: 10, number: i64::from(libc::SIGABRT), ..outside };
        assert_eq!(verdict(&old(vec![], Some(abort.clone()))), (Verdict::Crashed, vec!["a".into()]));
        let unclear = Recorded { row: None, ..abort };
        assert_eq!(
            verdict(&old(vec![row("b", true, false)], Some(unclear.clone()))),
            (Verdict::Unexplained, vec!["b".into()])
        );
        assert_eq!(verdict(&old(vec![], Some(unclear))), (Verdict::Unknown, vec![]));
    }

    #[test]
    fn without_a_cause_all_that_ran_is_suspected_unless_the_host_ran_for_it() {
        let rows = vec![row("a", true, false), row("a", true, false), row("b", true, true), row("c", false, false)];
        assert_eq!(verdict(&old(rows.clone(), None)), (Verdict::Unexplained, vec!["a".into()]));
        assert_eq!(judge(&old(rows, None), "boot").returned[&subject("a")], 6);
        assert_eq!(verdict(&old(vec![row("c", false, false)], None)), (Verdict::Unknown, vec![]));
        let stopping = |cause| Old { stopping: true, ..old(vec![row("a", true, false)], cause) };
        assert_eq!(verdict(&stopping(None)), (Verdict::Outside, vec![]));
        assert_eq!(verdict(&stopping(Some(fault()))), (Verdict::Crashed, vec!["a".into()]));
    }

    #[test]
    fn a_good_end_and_another_boot_accuse_nobody() {
        let crashed = old(vec![row("a", true, false)], Some(fault()));
        assert_eq!(judge(&crashed, "another").verdict, Verdict::Reboot);
        assert_eq!(judge(&Old { boot: String::new(), ..crashed.clone() }, "").verdict, Verdict::Reboot);
        assert_eq!(judge(&Old { ended: ended::WELL, ..crashed }, "boot").verdict, Verdict::Well);
    }

    #[test]
    fn exits_are_told_with_their_code() {
        let exit = Recorded { kind: kind::EXIT, number: 7, code: 0, ..fault() };
        let judged = judge(&old(vec![], Some(exit)), "boot");
        assert_eq!((judged.verdict, judged.exit_code), (Verdict::Crashed, Some(7)));
        assert_eq!(judged.cause.as_deref(), Some("exit(7)"));
    }
}
