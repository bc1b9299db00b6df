//! An errand: a child of the same program that gets one request, says lines, and is ended, whatever happens.

use super::ending::{self, Tail};
use super::sandbox::{self, Policy, SandboxError, SandboxReport};
use super::spawner;
use crate::plugins::{LoadRequest, StageFailure};
use rustix::process::Signal;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Begins each line of the child. What has no mark is not for the parent: a library may print as well.
const MARK: &str = "@engineroom-probe ";
/// Most bytes of lines that one child may say.
const MAX_TALK: u64 = 4 * 1024 * 1024;
/// How often the parent looks whether the child still lives while it says nothing.
const LOOK: Duration = Duration::from_millis(10);
/// How long the parent waits for the last of a dead child's output.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// What the threads that listen to the child tell.
enum Heard {
    Line(Vec<u8>),
    Complaint(Vec<u8>),
    /// One of the two streams ended.
    End,
}

/// How the child ended, if not by saying that it is done.
#[derive(Debug)]
pub(crate) enum Ended {
    Done,
    Late,
    Signal(i32),
    Exit(i32),
    Unknown(std::io::Error),
}

/// The parent's side.
pub(crate) struct Errand {
    child: Child,
    heard: Receiver<Heard>,
    open: u32,
    tail: Tail,
    done: bool,
}

impl Errand {
    /// Sends the child off; its standard output and error are piped.
    pub(crate) fn start(command: Command) -> std::io::Result<Errand> {
        spawner::spawn(command).map(Errand::of)
    }

    pub(super) fn of(mut child: Child) -> Errand {
        let (sender, heard) = mpsc::channel();
        let mut open = 0;
        if let Some(stdout) = child.stdout.take() {
            let sender = sender.clone();
            open += u32::from(listen("probe-lines", move || lines(stdout, &sender)));
        }
        if let Some(stderr) = child.stderr.take() {
            open += u32::from(listen("probe-stderr", move || complaints(stderr, &sender)));
        }
        Errand { child, heard, open, tail: Tail::default(), done: false }
    }

    /// Listens until the child is done, dead, or late, and ends it. `take` hears each line and says whether it was the last.
    pub(crate) fn run(&mut self, end: Instant, take: &mut dyn FnMut(&[u8]) -> bool) -> Ended {
        let ended = self.wait(end, take);
        self.conclude(ended, take)
    }

    pub(super) fn conclude(&mut self, ended: Ended, take: &mut dyn FnMut(&[u8]) -> bool) -> Ended {
        self.end();
        // The pipes are closed now, unless a grandchild left the group and took them with it.
        let last = Instant::now() + LAST_WORDS;
        while self.open > 0 && !matches!(self.hear(last, take), Err(RecvTimeoutError::Timeout)) {}
        // A child that is done ends at once, and its end may be seen before its last line is heard.
        if self.done { Ended::Done } else { ended }
    }

    /// The last lines that it wrote to standard error.
    pub(crate) fn complaints(&self) -> Vec<String> {
        self.tail.lines()
    }

    fn wait(&mut self, end: Instant, take: &mut dyn FnMut(&[u8]) -> bool) -> Ended {
        loop {
            if self.done {
                return Ended::Done;
            }
            let now = Instant::now();
            let heard = self.hear(end.min(now + LOOK), take);
            if heard.is_ok() {
                continue;
            }
            match self.exited() {
                Ok(None) if now >= end => return Ended::Late,
                // Nothing to hear any more: only time will tell.
                Ok(None) if matches!(heard, Err(RecvTimeoutError::Disconnected)) => {
                    std::thread::sleep(LOOK.min(end - now));
                }
                Ok(None) => {}
                Ok(Some(ended)) => return ended,
                Err(error) => return Ended::Unknown(error),
            }
        }
    }

    /// Takes in one thing that was heard before `until`.
    fn hear(&mut self, until: Instant, take: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), RecvTimeoutError> {
        match self.heard.recv_timeout(until.saturating_duration_since(Instant::now()))? {
            Heard::Line(line) => self.done |= take(&line),
            Heard::Complaint(bytes) => self.tail.push(&bytes),
            Heard::End => self.open = self.open.saturating_sub(1),
        }
        Ok(())
    }

    fn exited(&self) -> std::io::Result<Option<Ended>> {
        Ok(ending::ended(&self.child)?.map(|ended| match ended {
            ending::Ending::Signal(signal) => Ended::Signal(signal),
            ending::Ending::Exit(code) => Ended::Exit(code),
            ending::Ending::Lost => Ended::Unknown(std::io::ErrorKind::NotFound.into()),
        }))
    }

    /// Kills the whole group, then takes the child from the system's table.
    fn end(&mut self) {
        ending::signal_group(&self.child, Signal::KILL);
        let _ = self.child.wait();
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
        if text.starts_with(MARK.as_bytes()) && sender.send(Heard::Line(text.to_vec())).is_err() {
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

/// The bytes of a line. They begin with a line feed, since a library may have left a line open.
pub(crate) fn encode(line: &impl Serialize) -> Vec<u8> {
    let mut bytes = format!("\n{MARK}").into_bytes();
    // Writing own types into memory does not fail; if it did, an empty line would be passed over.
    let _ = serde_json::to_writer(&mut bytes, line);
    bytes.push(b'\n');
    bytes
}

/// Reads one line; `None` when it has no mark, `Some(Err)` when it cannot be understood.
pub(crate) fn decode<T: DeserializeOwned>(line: &[u8]) -> Option<Result<T, serde_json::Error>> {
    line.strip_prefix(MARK.as_bytes()).map(serde_json::from_slice)
}

/// What every request says beside what it asks for.
pub(crate) trait Request: DeserializeOwned {
    /// Version of the program: a child of another version would only half understand.
    fn version(&self) -> &str;
    /// Process id of the parent: a child whose parent is gone ends.
    fn parent(&self) -> u32;
}

/// Leaves a request for a child, in a file that only this user can read: a configuration may hold secrets.
pub(crate) fn leave(request: &impl Serialize, path: &Path) -> std::io::Result<()> {
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    Ok(serde_json::to_writer(file, request)?)
}

/// Where the child's lines go.
pub(crate) struct Mouth(Mutex<File>);

impl Mouth {
    /// Says a line.
    pub(crate) fn say(&self, line: &impl Serialize) {
        let mut file = self.file();
        // A parent that does not listen any more is gone, and the child soon with it.
        let _ = file.write_all(&encode(line)).and_then(|()| file.flush());
    }

    fn file(&self) -> std::sync::MutexGuard<'_, File> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts this process under what an entry's limits say of a process that runs its library; `state` is the only folder that
    /// it can change, `keep` stays open. No line of the library has run by then. To be called on the first thread, while there
    /// is no other.
    pub(crate) fn confine(
        &self,
        load: &LoadRequest,
        state: &Path,
        keep: &[RawFd],
    ) -> Result<SandboxReport, StageFailure> {
        let mut keep = keep.to_vec();
        keep.push(self.file().as_raw_fd());
        sandbox::enter(&Policy::of(load, state, keep)).map_err(SandboxError::into_failure)
    }
}

/// The child's first steps: reads the request, sees to it that it ends with its parent, and keeps standard output for its lines.
pub(crate) fn begin<R: Request>(path: &Path) -> Result<(R, Mouth), String> {
    let bytes = std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let request: R = serde_json::from_slice(&bytes).map_err(|error| format!("the request: {error}"))?;
    if request.version() != env!("CARGO_PKG_VERSION") {
        return Err(format!("the gateway has version {}, this is {}", request.version(), env!("CARGO_PKG_VERSION")));
    }
    super::child::die_with_parent(request.parent())?;
    // The lines get a descriptor of their own; what the library prints goes where its complaints go.
    let out = rustix::io::fcntl_dupfd_cloexec(std::io::stdout(), 3).map_err(|error| format!("stdout: {error}"))?;
    rustix::stdio::dup2_stdout(std::io::stderr()).map_err(|error| format!("stderr: {error}"))?;
    Ok((request, Mouth(Mutex::new(File::from(out)))))
}
