//! How a child ended, where it was, and what it wrote last.

use crate::plugins::{Stage, one_line};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus};
use std::collections::VecDeque;
use std::process::Child;

/// How much of what a child complains about is kept, in bytes.
const TAIL: usize = 4096;
/// Lines of it that are shown.
const TAIL_LINES: usize = 8;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// By a signal.
    Signal(i32),
    /// By itself, with this code.
    Exit(i32),
    /// The system does not know it any more.
    Lost,
}

impl std::fmt::Display for Ending {
    /// As in "it …".
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ending::Signal(signal) => write!(f, "was killed by {}", signal_name(*signal)),
            Ending::Exit(code) => write!(f, "ended with exit code {code}"),
            Ending::Lost => f.write_str("was lost"),
        }
    }
}

/// The end of what a child wrote to standard error.
#[derive(Debug, Default)]
pub(super) struct Tail(VecDeque<u8>);

impl Tail {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
        let surplus = self.0.len().saturating_sub(TAIL);
        self.0.drain(..surplus);
    }

    /// The last lines, each as one line of plain text.
    pub(super) fn lines(&self) -> Vec<String> {
        let bytes: Vec<u8> = self.0.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        // The runtime's advice is for whoever develops the program, and a worker's variables are not the operator's to set.
        let advice = |line: &String| line.starts_with("note: run with `RUST_BACKTRACE=");
        let lines = text.lines().map(one_line).filter(|line| !line.is_empty() && !advice(line));
        let lines: Vec<String> = lines.collect();
        let skip = lines.len().saturating_sub(TAIL_LINES);
        lines.into_iter().skip(skip).collect()
    }
}

/// How the child ended, if it did. It is left as it is: while it was not waited for, nobody else can get its id.
pub(super) fn ended(child: &Child) -> std::io::Result<Option<Ending>> {
    let Some(pid) = pid(child) else { return Ok(None) };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let status = rustix::process::waitid(WaitId::Pid(pid), options)?;
    Ok(status.map(|status: WaitIdStatus| match (status.terminating_signal(), status.exit_status()) {
        (Some(signal), _) => Ending::Signal(signal),
        (None, code) => Ending::Exit(code.unwrap_or(-1)),
    }))
}

pub(super) fn pid(child: &Child) -> Option<Pid> {
    Pid::from_raw(child.id().cast_signed())
}

/// Sends a signal to the child's whole group. Only for a child that was not waited for: else its id may be another's.
pub(super) fn signal_group(child: &Child, signal: Signal) {
    if let Some(pid) = pid(child) {
        let _ = rustix::process::kill_process_group(pid, signal);
    }
}

/// Where a child was, as in "it died …".
pub(super) fn place(stage: Stage, subject: Option<&str>, hook: Option<&str>) -> String {
    let subject = subject.map(|id| format!(" of engine {id}")).unwrap_or_default();
    match (stage, hook) {
        (Stage::Load, _) => "while it was opened (its constructors run there)".into(),
        (Stage::Layout, _) => "while its entry was read".into(),
        (Stage::Register, _) => "in register".into(),
        (_, Some(hook)) if !hook.is_empty() => format!("in {hook}{subject}"),
        _ => format!("in {stage}{subject}"),
    }
}

pub(crate) fn signal_name(number: i32) -> String {
    let known = [
        (Signal::ABORT, "SIGABRT (abort)"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::BUS, "SIGBUS (a page that is not there)"),
        (Signal::FPE, "SIGFPE (arithmetic)"),
        (Signal::HUP, "SIGHUP"),
        (Signal::ILL, "SIGILL (illegal instruction)"),
        (Signal::INT, "SIGINT"),
        (Signal::KILL, "SIGKILL (killed, or out of memory)"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::PROF, "SIGPROF"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::SEGV, "SIGSEGV (memory access)"),
        (Signal::SYS, "SIGSYS (forbidden system call)"),
        (Signal::TERM, "SIGTERM"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::USR1, "SIGUSR1"),
        (Signal::USR2, "SIGUSR2"),
        (Signal::VTALARM, "SIGVTALRM"),
        (Signal::XCPU, "SIGXCPU (CPU time)"),
        (Signal::XFSZ, "SIGXFSZ (file too large)"),
    ];
    let name = known.iter().find(|(signal, _)| signal.as_raw() == number);
    name.map_or_else(|| format!("signal {number}"), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_keeps_the_last_lines() {
        let mut tail = Tail::default();
        for number in 0..2_000 {
            tail.push(format!("line {number}\n\n").as_bytes());
        }
        let lines = tail.lines();
        assert_eq!((lines.len(), lines[0].as_str(), lines[7].as_str()), (TAIL_LINES, "line 1992", "line 1999"));
        assert!(tail.0.len() <= TAIL);
    }

    #[test]
    fn the_runtimes_advice_is_not_shown() {
        let mut tail = Tail::default();
        tail.push(b"memory allocation of 8 bytes failed\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n");
        assert_eq!(tail.lines(), ["memory allocation of 8 bytes failed"]);
    }

    #[test]
    fn endings_read_as_sentences() {
        assert_eq!(Ending::Signal(11).to_string(), "was killed by SIGSEGV (memory access)");
        assert_eq!(Ending::Signal(libc::SIGHUP).to_string(), "was killed by SIGHUP");
        assert_eq!(Ending::Signal(libc::SIGUSR1).to_string(), "was killed by SIGUSR1");
        assert_eq!(Ending::Signal(63).to_string(), "was killed by signal 63");
        assert_eq!(Ending::Exit(0).to_string(), "ended with exit code 0");
    }
}
