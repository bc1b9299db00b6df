//! One run of the command: started, fed, heard, and ended whole.

use super::super::ModelError;
use super::output::{Tail, Text};
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

/// How long a process that was asked to end may take.
const GRACE: Duration = Duration::from_secs(2);
/// How long the last of an ended command's output is waited for.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Bytes that are read at once.
const PIECE: usize = 16 * 1024;

/// How a command is started.
pub(super) struct Start<'a> {
    pub(super) program: &'a str,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<(String, OsString)>,
    pub(super) folder: Option<&'a Path>,
    pub(super) input: Vec<u8>,
    /// For the whole run.
    pub(super) timeout: Duration,
}

/// A running command. Dropped before its end, it is terminated with everything that it started.
pub(super) struct Run {
    program: String,
    group: Group,
    out: ChildStdout,
    text: Text,
    complaints: Arc<Mutex<Tail>>,
    listener: JoinHandle<()>,
    deadline: Instant,
    timeout: Duration,
    /// Nothing more is to come.
    over: bool,
}

impl Run {
    pub(super) fn start(start: Start<'_>) -> Result<Run, ModelError> {
        let failed = |what: String| ModelError::command(start.program, what);
        let mut command = Command::new(start.program);
        command
            .args(&start.args)
            .env_clear()
            .envs(start.env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        if let Some(folder) = start.folder {
            command.current_dir(folder);
        }
        let mut child = command.spawn().map_err(|error| match start.folder {
            Some(folder) if !folder.is_dir() => failed(format!("has no folder to work in: {}", folder.display())),
            _ => failed(format!("could not be started: {error}")),
        })?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let group = Group::new(child);
        let (Some(mut stdin), Some(out), Some(mut stderr)) = pipes else {
            return Err(failed("has no pipes".into()));
        };
        let input = start.input;
        // A command that does not read its input, or not all of it, may still answer.
        tokio::spawn(async move {
            let _ = stdin.write_all(&input).await;
            let _ = stdin.shutdown().await;
        });
        let complaints = Arc::new(Mutex::new(Tail::default()));
        let kept = Arc::clone(&complaints);
        let listener = tokio::spawn(async move {
            let mut piece = vec![0; PIECE];
            while let Ok(n @ 1..) = stderr.read(&mut piece).await {
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(&piece[..n]);
            }
        });
        Ok(Run {
            program: start.program.to_owned(),
            group,
            out,
            text: Text::default(),
            complaints,
            listener,
            deadline: Instant::now() + start.timeout,
            timeout: start.timeout,
            over: false,
        })
    }

    /// The next piece of the reply, never empty; `None` when it is whole: the command ended well.
    pub(super) async fn next(&mut self) -> Option<Result<String, ModelError>> {
        if self.over {
            return None;
        }
        let outcome = self.piece().await;
        self.over = !matches!(outcome, Some(Ok(_)));
        outcome
    }

    async fn piece(&mut self) -> Option<Result<String, ModelError>> {
        let mut piece = vec![0; PIECE];
        loop {
            let read = tokio::select! {
                biased;
                read = self.out.read(&mut piece) => read,
                // The command is gone: what it left running must not hold its output open.
                () = self.group.leader_gone(), if !self.group.is_gone() => {
                    self.group.kill();
                    self.deadline = self.deadline.min(Instant::now() + LAST_WORDS);
                    continue;
                }
                () = sleep_until(self.deadline) => {
                    if self.group.is_gone() {
                        return self.end().await.err().map(Err);
                    }
                    return Some(Err(self.late()));
                }
            };
            match read {
                Ok(0) => return self.end().await.err().map(Err),
                Ok(n) => match self.text.push(&piece[..n]) {
                    Ok(text) if text.is_empty() => {}
                    Ok(text) => return Some(Ok(text)),
                    Err(what) => return Some(Err(self.failed(what))),
                },
                Err(error) => return Some(Err(self.failed(format!("cannot be heard: {error}")))),
            }
        }
    }

    /// Its output is closed: waits for its exit, and judges.
    async fn end(&mut self) -> Result<(), ModelError> {
        let Ok(status) =
            tokio::time::timeout_at(self.deadline.max(Instant::now() + LAST_WORDS), self.group.wait()).await
        else {
            return Err(self.late());
        };
        self.group.kill();
        // What it complained of last may still be on its way.
        let _ = timeout(LAST_WORDS, &mut self.listener).await;
        match status {
            Ok(status) if status.success() => {
                match self.text.finish() {
                    Err(what) => Err(self.failed(what)),
                    Ok(()) if !self.text.any => Err(self
                        .failed(format!("ended well, but wrote nothing on its standard output{}", self.complaint()))),
                    Ok(()) => Ok(()),
                }
            }
            Ok(status) => Err(self.failed(format!("ended with {}{}", how(status), self.complaint()))),
            Err(error) => Err(self.failed(format!("ended, nobody knows how: {error}"))),
        }
    }

    fn late(&self) -> ModelError {
        let what = format!("did not end within {} ms and was terminated{}", self.timeout.as_millis(), self.complaint());
        ModelError::Command { program: self.program.clone(), what, late: true }
    }

    fn failed(&self, what: impl Into<String>) -> ModelError {
        ModelError::command(&self.program, what)
    }

    fn complaint(&self) -> String {
        let line = self.complaints.lock().unwrap_or_else(PoisonError::into_inner).line();
        if line.is_empty() { String::new() } else { format!("; its standard error says: {line}") }
    }
}

fn how(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

/// Groups that may have a process, so that none outlives the gateway.
static LIVE: LazyLock<Mutex<HashSet<i32>>> = LazyLock::new(Mutex::default);

fn live() -> std::sync::MutexGuard<'static, HashSet<i32>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills whatever commands are still running. For the end of the process, when every turn has been cancelled.
pub fn end_commands() {
    for pid in live().drain() {
        signal(pid, Signal::KILL);
    }
}

fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // An error means that nobody is left.
        let _ = kill_process_group(pid, signal);
    }
}

/// A process with everything that it started. Dropped while its leader runs, it is asked to end, and made to after a while.
struct Group {
    child: Option<Child>,
    /// Id of the leader and of the group; 0 when the leader was gone at once.
    pid: i32,
    status: Option<std::io::Result<ExitStatus>>,
}

impl Group {
    fn new(child: Child) -> Group {
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).unwrap_or(0);
        live().insert(pid);
        Group { child: Some(child), pid, status: None }
    }

    fn is_gone(&self) -> bool {
        self.status.is_some()
    }

    /// Completes when the leader has ended.
    async fn leader_gone(&mut self) {
        if let (None, Some(child)) = (&self.status, &mut self.child) {
            self.status = Some(child.wait().await);
        }
    }

    async fn wait(&mut self) -> std::io::Result<ExitStatus> {
        self.leader_gone().await;
        self.status.take().unwrap_or_else(|| Err(std::io::Error::other("it is not a child")))
    }

    /// Ends what is left of the group after its leader.
    fn kill(&mut self) {
        self.child = None;
        signal(self.pid, Signal::KILL);
        live().remove(&self.pid);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        signal(self.pid, Signal::TERM);
        // Also when the runtime goes away under the task.
        let kill = KillOnDrop(self.pid);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = timeout(GRACE, child.wait()).await;
                drop(kill);
                let _ = timeout(GRACE, child.wait()).await;
            });
        }
    }
}

struct KillOnDrop(i32);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        signal(self.0, Signal::KILL);
        live().remove(&self.0);
    }
}
