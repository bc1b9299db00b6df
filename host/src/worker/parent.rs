//! The parent's side: starts the child, listens, and ends it, whatever happens.

use super::ending::{self, Tail, place, signal_name};
use super::protocol::{Line, ProbeRequest};
use super::sandbox::SandboxReport;
use super::spawner;
use crate::plugins::{Cause, Stage, StageFailure, Wanted};
use rustix::process::Signal;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Most bytes of lines that one child may say.
const MAX_TALK: u64 = 4 * 1024 * 1024;
/// How often the parent looks whether the child still lives while it says nothing.
const LOOK: Duration = Duration::from_millis(10);
/// How long the parent waits for the last of a dead child's output.
const LAST_WORDS: Duration = Duration::from_secs(2);
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
        let mut command = ProbeCommand::current()?;
        for arg in command.args.iter_mut().filter(|arg| *arg == super::PROBE_ARGUMENT) {
            *arg = super::WORKER_ARGUMENT.into();
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
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
    serde_json::to_writer(file, &request).map_err(|error| failed(error.into()))?;

    let child = start(&path, &request.state_dir).map_err(failed)?;
    Probe::new(child, &plugin, deadline).run()
}

/// `folder`: the only one that the child can write to.
fn start(request: &Path, folder: &Path) -> std::io::Result<Child> {
    let mut command = ProbeCommand::current()?.in_folder(folder);
    command.arg(request).stdin(Stdio::null()).stdout(Stdio::piped());
    spawner::spawn(command)
}

/// What the threads that listen to the child tell.
enum Heard {
    Line(Result<Line, serde_json::Error>),
    Complaint(Vec<u8>),
    /// One of the two streams ended.
    End,
}

struct Probe<'a> {
    child: Child,
    plugin: &'a str,
    limit: Duration,
    heard: Receiver<Heard>,
    open: u32,
    /// Where the child was last.
    place: Option<(Stage, String)>,
    tail: Tail,
    outcome: ProbeOutcome,
    done: bool,
    confused: Option<String>,
}

/// How the child ended, if not by saying that it is done.
enum Ending {
    Done,
    Late,
    Signal(i32),
    Exit(i32),
    Unknown(std::io::Error),
}

impl<'a> Probe<'a> {
    fn new(mut child: Child, plugin: &'a str, limit: Duration) -> Probe<'a> {
        let (sender, heard) = mpsc::channel();
        let mut open = 0;
        if let Some(stdout) = child.stdout.take() {
            let sender = sender.clone();
            open += u32::from(listen("probe-lines", move || lines(stdout, &sender)));
        }
        if let Some(stderr) = child.stderr.take() {
            open += u32::from(listen("probe-stderr", move || complaints(stderr, &sender)));
        }
        Probe {
            child,
            plugin,
            limit,
            heard,
            open,
            place: None,
            tail: Tail::default(),
            outcome: ProbeOutcome::default(),
            done: false,
            confused: None,
        }
    }

    fn run(mut self) -> Result<ProbeOutcome, StageFailure> {
        let end = Instant::now() + self.limit;
        let ending = self.wait(end);
        self.conclude(ending)
    }

    fn conclude(mut self, ending: Ending) -> Result<ProbeOutcome, StageFailure> {
        self.end();
        // The pipes are closed now, unless a grandchild left the group and took them with it.
        let last = Instant::now() + LAST_WORDS;
        while self.open > 0 && !matches!(self.hear(last), Err(RecvTimeoutError::Timeout)) {}
        // A child that is done ends at once, and its end may be seen before its last line is heard.
        let ending = if self.done { Ending::Done } else { ending };
        self.judge(ending)
    }

    /// Listens until the child is done, dead, or late.
    fn wait(&mut self, end: Instant) -> Ending {
        loop {
            if self.done {
                return Ending::Done;
            }
            let now = Instant::now();
            let heard = self.hear(end.min(now + LOOK));
            if heard.is_ok() {
                continue;
            }
            match self.exited() {
                Ok(None) if now >= end => return Ending::Late,
                // Nothing to hear any more: only time will tell.
                Ok(None) if matches!(heard, Err(RecvTimeoutError::Disconnected)) => {
                    std::thread::sleep(LOOK.min(end - now));
                }
                Ok(None) => {}
                Ok(Some(status)) => return status,
                Err(error) => return Ending::Unknown(error),
            }
        }
    }

    /// Takes in one thing that was heard before `until`.
    fn hear(&mut self, until: Instant) -> Result<(), RecvTimeoutError> {
        match self.heard.recv_timeout(until.saturating_duration_since(Instant::now()))? {
            Heard::Line(Ok(line)) => self.take(line),
            Heard::Line(Err(error)) => {
                self.confused.get_or_insert(error.to_string());
            }
            Heard::Complaint(bytes) => self.tail.push(&bytes),
            Heard::End => self.open = self.open.saturating_sub(1),
        }
        Ok(())
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
            Line::Done => self.done = true,
        }
    }

    fn exited(&self) -> std::io::Result<Option<Ending>> {
        Ok(ending::ended(&self.child)?.map(|ended| match ended {
            ending::Ending::Signal(signal) => Ending::Signal(signal),
            ending::Ending::Exit(code) => Ending::Exit(code),
            ending::Ending::Lost => Ending::Unknown(std::io::ErrorKind::NotFound.into()),
        }))
    }

    /// Kills the whole group, then takes the child from the system's table.
    fn end(&mut self) {
        ending::signal_group(&self.child, Signal::KILL);
        let _ = self.child.wait();
    }

    fn judge(self, ending: Ending) -> Result<ProbeOutcome, StageFailure> {
        let plugin = self.plugin;
        let place = self.place.as_ref().map_or("before it did anything", |(_, place)| place.as_str());
        let failure = match ending {
            Ending::Done => match self.confused {
                None => return Ok(self.outcome),
                Some(why) => {
                    let message = format!("the probe of plugin {plugin} said something strange");
                    return Err(StageFailure::new(Cause::ProbeTalk, message).because(why));
                }
            },
            Ending::Late => {
                let limit = self.limit.as_millis();
                let message =
                    format!("the probe of plugin {plugin} did not end within {limit} ms; it was stopped {place}");
                StageFailure::new(Cause::ProbeDeadline, message)
            }
            Ending::Signal(signal) => {
                let message = format!("plugin {plugin} killed its probe with {} {place}", signal_name(signal));
                StageFailure::new(Cause::ProbeSignal, message)
            }
            Ending::Exit(code) => {
                let message = format!("plugin {plugin} ended its probe with exit code {code} {place}");
                StageFailure::new(Cause::ProbeExit, message)
            }
            Ending::Unknown(error) => {
                let message = format!("the probe of plugin {plugin} was lost {place}");
                StageFailure::new(Cause::ProbeStart, message).because(error)
            }
        };
        // What it found before it died still explains more than its death.
        let found = self.outcome.failed.iter().map(|(wanted, failure)| format!("{}: {failure}", wanted.id));
        let failure = found.fold(failure, StageFailure::because);
        let wrote = self.tail.lines().into_iter().map(|line| format!("the probe wrote: {line}"));
        Err(wrote.fold(failure, StageFailure::because))
    }
}

fn listen(name: &str, work: impl FnOnce() + Send + 'static) -> bool {
    std::thread::Builder::new().name(name.into()).stack_size(128 * 1024).spawn(work).is_ok()
}

fn lines(stdout: impl Read, sender: &Sender<Heard>) {
    let mut reader = BufReader::new(stdout.take(MAX_TALK));
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        if let Some(line) = Line::decode(text)
            && sender.send(Heard::Line(line)).is_err()
        {
            return;
        }
        line.clear();
    }
    let _ = sender.send(Heard::End);
}

fn complaints(mut stderr: impl Read, sender: &Sender<Heard>) {
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = stderr.read(&mut buffer) {
        if sender.send(Heard::Complaint(buffer[..read].to_vec())).is_err() {
            return;
        }
    }
    let _ = sender.send(Heard::End);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{WaitId, WaitIdOptions};

    fn conclude(script: &str, ending: Ending) -> Result<ProbeOutcome, StageFailure> {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = spawner::spawn(command).unwrap();
        // The child is over before its parent begins to listen.
        let pid = ending::pid(&child).unwrap();
        rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        Probe::new(child, "w", Duration::from_secs(60)).conclude(ending)
    }

    #[test]
    fn a_child_whose_end_is_seen_before_its_last_line_has_passed() {
        let done = "printf '\\n@engineroom-probe {\"line\":\"done\"}\\n'";
        assert!(conclude(done, Ending::Exit(0)).is_ok());
        assert!(conclude(done, Ending::Late).is_ok());
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
        let probe = Probe::new(spawner::spawn(command).unwrap(), "w", Duration::from_secs(60));
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
        let failure = conclude("echo alas >&2", Ending::Exit(0)).unwrap_err();
        assert_eq!(failure.code, Cause::ProbeExit.code());
        assert_eq!(failure.causes, ["the probe wrote: alas"]);
    }
}
