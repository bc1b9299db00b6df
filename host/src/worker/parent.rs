//! The parent's side: starts the child, listens, and ends it, whatever happens.

use super::ending::{place, signal_name};
use super::errand::{self, Ended, Errand};
use super::protocol::{Line, ProbeRequest};
use super::sandbox::SandboxReport;
use crate::plugins::{Cause, Stage, StageFailure, Wanted};
use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The child's own variables that it needs: where the system's loader looks for libraries.
const KEPT: [&str; 2] = ["LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"];

/// How the child is started.
#[derive(Debug, Clone)]
pub struct ProbeCommand {
    /// The program.
    pub program: PathBuf,
    /// What stands before the path of the request.
    pub args: Vec<OsString>,
    /// Variables that the child gets beside those that it needs.
    pub env: Vec<(OsString, OsString)>,
}

static COMMAND: Mutex<Option<ProbeCommand>> = Mutex::new(None);
static WORKER_COMMAND: Mutex<Option<ProbeCommand>> = Mutex::new(None);

/// Sets how children are started from now on. Needed by programs that are not `engineroom` itself, such as tests.
pub fn use_command(command: ProbeCommand) {
    *COMMAND.lock().unwrap_or_else(PoisonError::into_inner) = Some(command);
}

/// Sets how workers are started from now on, where that is not the way of the probe's children.
pub fn use_worker_command(command: ProbeCommand) {
    *WORKER_COMMAND.lock().unwrap_or_else(PoisonError::into_inner) = Some(command);
}

impl ProbeCommand {
    /// `program`, which is `engineroom` or passes its arguments on to [`super::run_child`].
    pub fn new(program: impl Into<PathBuf>) -> ProbeCommand {
        ProbeCommand { program: program.into(), args: vec![super::PROBE_ARGUMENT.into()], env: Vec::new() }
    }

    /// How a probe's child is started: as was set, else with the running program.
    fn current() -> std::io::Result<ProbeCommand> {
        match &*COMMAND.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(command) => Ok(command.clone()),
            None => own_program().map(ProbeCommand::new),
        }
    }

    /// How a worker is started: as was set, else by the same program as a probe's child.
    pub(super) fn of_worker() -> std::io::Result<ProbeCommand> {
        if let Some(command) = &*WORKER_COMMAND.lock().unwrap_or_else(PoisonError::into_inner) {
            return Ok(command.clone());
        }
        ProbeCommand::for_role(super::WORKER_ARGUMENT)
    }

    /// How a child with another first argument is started: by the same program as a probe's child.
    fn for_role(argument: &str) -> std::io::Result<ProbeCommand> {
        let mut command = ProbeCommand::current()?;
        for arg in command.args.iter_mut().filter(|arg| *arg == super::PROBE_ARGUMENT) {
            *arg = argument.into();
        }
        Ok(command)
    }

    /// The child before its first words: in this folder, the only one that it can write to, with nothing of the gateway's
    /// environment beside what it needs, in a process group of its own. What it complains about is heard.
    pub(super) fn in_folder(self, folder: &Path) -> Command {
        let mut command = Command::new(self.program);
        command
            .args(self.args)
            .env_clear()
            .envs(KEPT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
            .env("HOME", folder)
            .env("TMPDIR", folder)
            .envs(self.env)
            .current_dir(folder)
            .stderr(Stdio::piped())
            .process_group(0);
        command
    }
}

fn own_program() -> std::io::Result<PathBuf> {
    // Not its name: the file may have been replaced since the program started.
    let own = Path::new("/proc/self/exe");
    if own.exists() { Ok(own.into()) } else { std::env::current_exe() }
}

/// What a child that came to its end told.
#[derive(Debug, Default)]
pub(crate) struct ProbeOutcome {
    /// What was wanted and failed.
    pub failed: Vec<(Wanted, StageFailure)>,
    /// Things worth knowing.
    pub notes: Vec<String>,
    /// What confined the library; `None` when it ended before that was told.
    pub sandbox: Option<SandboxReport>,
}

/// Tries a library out in a child. `scratch` is an existing folder; what is made in it is removed again.
///
/// # Errors
/// A cause of the stage `probe`: the child did not start, died, or did not end in time. What it complained about stands
/// among the causes.
pub(crate) fn probe(
    mut request: ProbeRequest,
    scratch: &Path,
    deadline: Duration,
) -> Result<ProbeOutcome, StageFailure> {
    let plugin = request.load.plugin_id.clone();
    let failed = |error: std::io::Error| {
        StageFailure::new(Cause::ProbeStart, format!("the probe of plugin {plugin} could not be started"))
            .because(error)
    };
    let folder = tempfile::Builder::new().prefix("probe-").tempdir_in(scratch).map_err(failed)?;
    request.state_dir = folder.path().join("state");
    let path = folder.path().join("request.json");
    std::fs::DirBuilder::new().mode(0o700).create(&request.state_dir).map_err(failed)?;
    errand::leave(&request, &path).map_err(failed)?;
    let errand = send(super::PROBE_ARGUMENT, &path, &request.state_dir).map_err(failed)?;
    Probe::new(errand, &plugin, deadline).run()
}

/// Sends a child off that begins with `argument` and the path of its request; it starts in `folder`.
pub(crate) fn send(argument: &str, request: &Path, folder: &Path) -> std::io::Result<Errand> {
    let mut command = ProbeCommand::for_role(argument)?.in_folder(folder);
    command.arg(request).stdin(Stdio::null()).stdout(Stdio::piped());
    Errand::start(command)
}

struct Probe<'a> {
    errand: Errand,
    plugin: &'a str,
    limit: Duration,
    talk: Talk,
}

/// What the child has told so far.
#[derive(Default)]
struct Talk {
    /// Where the child was last.
    place: Option<(Stage, String)>,
    outcome: ProbeOutcome,
    confused: Option<String>,
}

impl<'a> Probe<'a> {
    fn new(errand: Errand, plugin: &'a str, limit: Duration) -> Probe<'a> {
        Probe { errand, plugin, limit, talk: Talk::default() }
    }

    fn run(mut self) -> Result<ProbeOutcome, StageFailure> {
        let end = Instant::now() + self.limit;
        let talk = &mut self.talk;
        let ended = self.errand.run(end, &mut |line| talk.hear(line));
        self.judge(ended)
    }

    fn judge(self, ended: Ended) -> Result<ProbeOutcome, StageFailure> {
        let plugin = self.plugin;
        let place = self.talk.place.as_ref().map_or("before it did anything", |(_, place)| place.as_str());
        let failure = match ended {
            Ended::Done => match self.talk.confused {
                None => return Ok(self.talk.outcome),
                Some(why) => {
                    let message = format!("the probe of plugin {plugin} said something strange");
                    return Err(StageFailure::new(Cause::ProbeTalk, message).because(why));
                }
            },
            Ended::Late => {
                let limit = self.limit.as_millis();
                let message =
                    format!("the probe of plugin {plugin} did not end within {limit} ms; it was stopped {place}");
                StageFailure::new(Cause::ProbeDeadline, message)
            }
            Ended::Signal(signal) => {
                let message = format!("plugin {plugin} killed its probe with {} {place}", signal_name(signal));
                StageFailure::new(Cause::ProbeSignal, message)
            }
            Ended::Exit(code) => {
                let message = format!("plugin {plugin} ended its probe with exit code {code} {place}");
                StageFailure::new(Cause::ProbeExit, message)
            }
            Ended::Unknown(error) => {
                let message = format!("the probe of plugin {plugin} was lost {place}");
                StageFailure::new(Cause::ProbeStart, message).because(error)
            }
        };
        // What it found before it died still explains more than its death.
        let found = self.talk.outcome.failed.iter().map(|(wanted, failure)| format!("{}: {failure}", wanted.id));
        let failure = found.fold(failure, StageFailure::because);
        let wrote = self.errand.complaints().into_iter().map(|line| format!("the probe wrote: {line}"));
        Err(wrote.fold(failure, StageFailure::because))
    }
}

impl Talk {
    /// Takes in a line; true for the last.
    fn hear(&mut self, line: &[u8]) -> bool {
        match errand::decode(line) {
            Some(Ok(Line::Done)) => return true,
            Some(Ok(line)) => self.take(line),
            Some(Err(error)) => {
                self.confused.get_or_insert(error.to_string());
            }
            None => {}
        }
        false
    }

    fn take(&mut self, line: Line) {
        match line {
            Line::At { stage, engine, hook } => match Stage::from_name(&stage) {
                Some(stage) => self.place = Some((stage, place(stage, engine.as_deref(), hook.as_deref()))),
                None => self.confused = Some(format!("an unknown stage {stage}")),
            },
            Line::Failed { wanted, failure } => match failure.into_failure() {
                Some(failure) => self.outcome.failed.push((wanted, failure)),
                None => self.confused = Some("a failure with an unknown code".into()),
            },
            Line::Sandbox { report } => self.outcome.sandbox = Some(report),
            Line::Note { text } => self.outcome.notes.push(text),
            Line::Done => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::{ending, spawner};
    use rustix::process::{WaitId, WaitIdOptions};

    fn conclude(script: &str, ended: Ended) -> Result<ProbeOutcome, StageFailure> {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = spawner::spawn(command).unwrap();
        // The child is over before its parent begins to listen.
        let pid = ending::pid(&child).unwrap();
        rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        let mut probe = Probe::new(Errand::of(child), "w", Duration::from_secs(60));
        let talk = &mut probe.talk;
        let ended = probe.errand.conclude(ended, &mut |line| talk.hear(line));
        probe.judge(ended)
    }

    #[test]
    fn a_child_whose_end_is_seen_before_its_last_line_has_passed() {
        let done = "printf '\\n@engineroom-probe {\"line\":\"done\"}\\n'";
        assert!(conclude(done, Ended::Exit(0)).is_ok());
        assert!(conclude(done, Ended::Late).is_ok());
    }

    #[test]
    fn what_a_child_started_ends_with_it() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("pid");
        // The second process stays in the group, and holds the streams open.
        let script =
            format!("sleep 600 & echo $! > {}; printf '\\n@engineroom-probe {{\"line\":\"done\"}}\\n'", file.display());
        let mut command = Command::new("sh");
        command
            .args(["-c", &script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let probe = Probe::new(Errand::of(spawner::spawn(command).unwrap()), "w", Duration::from_secs(60));
        assert!(probe.run().is_ok());
        let second: i32 = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
        // It is in the table until its new parent looks after it.
        let lives = || std::fs::read_to_string(format!("/proc/{second}/stat")).is_ok_and(|stat| !stat.contains(") Z"));
        let until = Instant::now() + Duration::from_secs(30);
        while lives() {
            assert!(Instant::now() < until, "{second} still lives");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_child_that_ends_without_a_last_line_has_not() {
        let failure = conclude("echo alas >&2", Ended::Exit(0)).unwrap_err();
        assert_eq!(failure.code, Cause::ProbeExit.code());
        assert_eq!(failure.causes, ["the probe wrote: alas"]);
    }
}
