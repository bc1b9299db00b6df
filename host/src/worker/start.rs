//! A worker as the gateway sees it: started, asked for lanes, ended.

use super::control::{Control, ToWorker, WorkerRequest};
use super::death::Death;
use super::ending::{self, Ending};
use super::lane::{LaneGuard, Lanes};
use super::monitor::{self, Watched};
use super::parent::ProbeCommand;
use super::sandbox::SandboxReport;
use super::serve::EVERY_CALL;
use super::wire::{LaneError, pair};
use super::{cpu, spawner};
use crate::plugins::{Cause, LoadRequest, StageFailure, Wanted};
use rustix::process::Signal;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Begins the name of a scratch folder.
const SCRATCH: &str = ".worker-";
/// How long the death of a worker may take to be seen after one of its sockets ended.
const LOST_WAIT: Duration = Duration::from_secs(1);
/// How long the end of a process that was killed is waited for.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// What a worker is started with.
pub(crate) struct WorkerSpec {
    /// What is loaded, and what it may use; `wanted` names the subject and nothing else.
    pub load: LoadRequest,
    /// Who lives in the worker.
    pub subject: Wanted,
    /// The folder of its state, for all agents; made if it is not there. The worker's scratch folder lies there as well, since
    /// it is the only place that a worker may write to; that one goes with the worker.
    pub state_root: PathBuf,
    /// For [`super::Serve::open`], in whatever form both sides agree on.
    pub setup: String,
    /// How long it may take until lanes are served.
    pub deadline: Duration,
    /// How it is ended.
    pub steps: Steps,
    /// Hears what [`super::Teller::say`] says, on the monitor's thread: must not block.
    pub hear: Hear,
}

/// See [`WorkerSpec::hear`].
pub(crate) type Hear = Arc<dyn Fn(&str) + Send + Sync>;
type OnDeath = Box<dyn FnOnce(&Death) + Send>;

/// The steps by which a worker is ended: it is asked, then told, then killed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Steps {
    /// From the message that cancels its calls to SIGTERM.
    pub cancel: Duration,
    /// From SIGTERM to SIGKILL.
    pub term: Duration,
}

impl Default for Steps {
    fn default() -> Steps {
        Steps { cancel: Duration::from_millis(100), term: Duration::from_millis(200) }
    }
}

/// A worker. Dropping the last handle ends the process.
pub(crate) struct Worker(Arc<Shared>);

/// What handles, lanes and monitor share.
pub(super) struct Shared {
    pub(super) subject: String,
    plugin: String,
    pub(super) pid: u32,
    started: Instant,
    /// Most processor time of one call.
    pub(super) cpu: Option<Duration>,
    steps: Steps,
    control: Mutex<Control>,
    pub(super) lanes: Lanes,
    life: Mutex<Life>,
    bell: Condvar,
    pub(super) hear: Hear,
}

struct Life {
    /// Until it was waited for.
    child: Option<Child>,
    /// Where it was last, while it opens.
    place: Option<String>,
    opened: Option<Result<(), StageFailure>>,
    notes: Vec<String>,
    sandbox: Option<SandboxReport>,
    ladder: Option<Ladder>,
    death: Option<Arc<Death>>,
    callbacks: Vec<OnDeath>,
}

/// How far the ending of a worker has come.
struct Ladder {
    why: String,
    term: Instant,
    kill: Instant,
    sent: Option<Signal>,
    /// It was asked to end itself.
    asked: bool,
}

/// Starts a worker, and waits until it serves lanes. The process is gone when this fails.
///
/// # Errors
/// A cause of the stage `worker` when the process did not start, died or hung, with the place where it was and what it wrote;
/// else the failure of the stage that it told.
pub(crate) fn start(spec: &WorkerSpec) -> Result<Arc<Worker>, StageFailure> {
    let until = Instant::now() + spec.deadline;
    let plugin = &spec.load.plugin_id;
    let failed = |error: std::io::Error| {
        let message = format!("the worker of plugin {plugin} could not be started");
        StageFailure::new(Cause::WorkerStart, message).because(error)
    };
    let worker = Worker(launch(spec, command).map_err(failed)?);
    let request = WorkerRequest {
        version: env!("CARGO_PKG_VERSION").into(),
        parent: std::process::id(),
        load: spec.load.clone(),
        subject: spec.subject.clone(),
        state_root: spec.state_root.clone(),
        setup: spec.setup.clone(),
    };
    match worker.0.control().open(request, until) {
        // Its death, or the deadline, tells more.
        Ok(()) | Err(LaneError::Gone | LaneError::Late) => {}
        Err(error) => {
            worker.0.end(&error.to_string());
            let message = format!("the worker of plugin {plugin} could not be told what to do");
            return Err(StageFailure::new(Cause::WorkerStart, message).because(error));
        }
    }
    worker.0.opened(until, spec.deadline)?;
    Ok(Arc::new(worker))
}

/// Starts the process and puts it under watch.
pub(super) fn launch(
    spec: &WorkerSpec,
    command: impl FnOnce(&Path, Stdio) -> std::io::Result<Command>,
) -> std::io::Result<Arc<Shared>> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&spec.state_root)?;
    clear(&spec.state_root)?;
    let scratch = tempfile::Builder::new().prefix(SCRATCH).tempdir_in(&spec.state_root)?;
    let (here, there) = pair()?;
    let reading = here.try_clone()?;
    let mut child = spawner::spawn(command(scratch.path(), Stdio::from(there))?)?;
    let stderr = child.stderr.take();
    let shared = Arc::new(Shared {
        subject: spec.subject.id.clone(),
        plugin: spec.load.plugin_id.clone(),
        pid: child.id(),
        started: Instant::now(),
        cpu: spec.load.limits.cpu_seconds.map(Duration::from_secs),
        steps: spec.steps,
        control: Mutex::new(Control::new(here)),
        lanes: Lanes::within(&spec.load.limits),
        life: Mutex::new(Life {
            child: Some(child),
            place: None,
            opened: None,
            notes: Vec::new(),
            sandbox: None,
            ladder: None,
            death: None,
            callbacks: Vec::new(),
        }),
        bell: Condvar::new(),
        hear: Arc::clone(&spec.hear),
    });
    let watched = Watched::new(Arc::clone(&shared), reading, stderr, scratch);
    match watched.and_then(monitor::watch) {
        Ok(()) => Ok(shared),
        Err(error) => {
            shared.bury();
            Err(error)
        }
    }
}

/// Removes what workers left behind whose gateway was killed.
fn clear(state_root: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(state_root)?.flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(SCRATCH.as_bytes()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

fn command(folder: &Path, control: Stdio) -> std::io::Result<Command> {
    let mut command = ProbeCommand::of_worker()?.in_folder(folder);
    // The worker moves its standard input away before a library runs, which finds an empty one.
    command.stdin(control).stdout(Stdio::null());
    Ok(command)
}

impl Worker {
    /// A lane for one call; waits for one at most until then.
    ///
    /// # Errors
    /// [`LaneError::Busy`] when none became free, [`LaneError::Gone`] when the worker is dead.
    pub(crate) fn lane(&self, until: Instant) -> Result<LaneGuard, LaneError> {
        LaneGuard::take(&self.0, until)
    }

    /// Tells the worker that a call is to come to its end. Never blocks.
    pub(crate) fn cancel(&self, call: u64) {
        let _ = self.0.control().tell(&ToWorker::Cancel(call));
    }

    /// Has the worker ended by the ladder; returns at once. What is first said as the reason stays.
    pub(crate) fn end(&self, why: &str) {
        self.0.end(why);
    }

    /// Asks the worker to end itself until then, has it ended by the ladder if it does not, and waits for its end.
    pub(crate) fn stop(&self, until: Instant) {
        let _ = self.0.control().tell(&ToWorker::Stop);
        let term = self.0.steps.term;
        self.0.climb_from("the gateway has no more work for it", until, until + term, true);
        let rest = until.saturating_duration_since(Instant::now());
        if self.0.death(rest + term + LAST_WAIT).is_none() {
            tracing::error!(engine = %self.0.subject, pid = self.0.pid, "a worker that was killed is still there");
        }
    }

    /// How it ended; waits for that at most so long.
    pub(crate) fn death(&self, wait: Duration) -> Option<Arc<Death>> {
        self.0.death(wait)
    }

    /// To be told once of its end, also when that was already. Runs on the monitor's thread: must not block.
    pub(crate) fn on_death(&self, tell: impl FnOnce(&Death) + Send + 'static) {
        self.0.on_death(Box::new(tell));
    }

    /// Processor time that the process used so far, where the system tells.
    pub(crate) fn cpu_time(&self) -> Option<Duration> {
        // Held, so that the id is not given to another process meanwhile.
        let life = self.0.life();
        life.child.as_ref().and_then(|child| cpu::used(child.id()))
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.0.pid
    }

    #[cfg(test)]
    pub(super) fn holds_control(&self) -> bool {
        self.0.control().is_open()
    }

    /// What confines the library.
    pub(crate) fn sandbox(&self) -> Option<SandboxReport> {
        self.0.life().sandbox.clone()
    }

    /// Things worth knowing that came up while it opened.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.0.life().notes.clone()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.0.end("nobody has work for it any more");
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("subject", &self.0.subject).field("pid", &self.0.pid).finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the ladder.
    pub(super) fn end(&self, why: &str) {
        let term = Instant::now() + self.steps.cancel;
        if self.climb_from(why, term, term + self.steps.term, false)
            // Whoever holds it may wait for a worker that does not read, and the ladder must not.
            && let Ok(mut control) = self.control.try_lock()
        {
            let _ = control.tell(&ToWorker::Cancel(EVERY_CALL));
        }
    }

    /// A socket of the worker ended. Mostly that is its death, which is about to be seen; else it closed what is not its own,
    /// and is ended.
    pub(super) fn lost(&self, why: &str) {
        let term = Instant::now() + LOST_WAIT;
        self.climb_from(why, term, term + self.steps.term, false);
    }

    /// Sets the times of the ladder, or brings them forward. False when the worker is dead.
    fn climb_from(&self, why: &str, term: Instant, kill: Instant, asked: bool) -> bool {
        let mut life = self.life();
        if life.death.is_some() {
            return false;
        }
        match &mut life.ladder {
            Some(ladder) => {
                ladder.term = ladder.term.min(term);
                ladder.kill = ladder.kill.min(kill);
                ladder.asked |= asked;
            }
            None => life.ladder = Some(Ladder { why: why.to_owned(), term, kill, sent: None, asked }),
        }
        drop(life);
        monitor::wake();
        true
    }

    /// Takes the step of the ladder that is due. Gives when the next one is.
    pub(super) fn climb(&self) -> Option<Instant> {
        let mut life = self.life();
        let Life { child, ladder, .. } = &mut *life;
        let (Some(child), Some(ladder)) = (child, ladder) else { return None };
        let now = Instant::now();
        if ladder.sent != Some(Signal::KILL) && now >= ladder.kill {
            ladder.sent = Some(Signal::KILL);
            ending::signal_group(child, Signal::KILL);
        } else if ladder.sent.is_none() && now >= ladder.term {
            ladder.sent = Some(Signal::TERM);
            ending::signal_group(child, Signal::TERM);
        }
        match ladder.sent {
            None => Some(ladder.term.min(ladder.kill)),
            Some(Signal::KILL) => None,
            Some(_) => Some(ladder.kill),
        }
    }

    /// How the process ended, if it did; it stays in the system's table.
    pub(super) fn ended(&self) -> Option<Ending> {
        let life = self.life();
        match ending::ended(life.child.as_ref()?) {
            Ok(ended) => ended,
            // Somebody else waited for it.
            Err(_) => Some(Ending::Lost),
        }
    }

    /// Kills what is left of the group, takes the process from the system's table and tells of its end.
    pub(super) fn buried(&self, ending: Ending, wrote: Vec<String>) {
        self.bury();
        self.lanes.close();
        // Whoever holds it is about to be told by the socket itself.
        if let Ok(mut control) = self.control.try_lock() {
            control.close();
        }
        let mut life = self.life();
        let (wanted, sent, asked) = match life.ladder.take() {
            Some(ladder) => (Some(ladder.why), ladder.sent, ladder.asked),
            None => (None, None, false),
        };
        let by_us = match ending {
            Ending::Signal(signal) => sent
                .is_some_and(|sent| signal == sent.as_raw() || sent == Signal::KILL && signal == Signal::TERM.as_raw()),
            Ending::Exit(_) | Ending::Lost => asked || sent.is_some(),
        };
        let death = Arc::new(Death { pid: self.pid, ending, wanted, by_us, wrote, lived: self.started.elapsed() });
        life.death = Some(Arc::clone(&death));
        let callbacks = std::mem::take(&mut life.callbacks);
        drop(life);
        self.bell.notify_all();
        tracing::debug!(engine = %self.subject, pid = death.pid, lived = ?death.lived, reason = %death.reason(None), "a worker ended");
        for tell in callbacks {
            tell(&death);
        }
    }

    /// Also on the way out of a start that failed.
    fn bury(&self) {
        if let Some(mut child) = self.life().child.take() {
            ending::signal_group(&child, Signal::KILL);
            // The leader may live when it is not its death that led here.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(super) fn death(&self, wait: Duration) -> Option<Arc<Death>> {
        let life = self.life();
        let waited = self.bell.wait_timeout_while(life, wait, |life| life.death.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.death.clone()
    }

    fn on_death(&self, tell: OnDeath) {
        let mut life = self.life();
        match life.death.clone() {
            Some(death) => {
                drop(life);
                tell(&death);
            }
            None => life.callbacks.push(tell),
        }
    }

    pub(super) fn at(&self, place: String) {
        self.life().place = Some(place);
    }

    pub(super) fn note(&self, text: String) {
        self.life().notes.push(text);
    }

    pub(super) fn confined(&self, report: SandboxReport) {
        self.life().sandbox = Some(report);
    }

    /// False when it had opened already.
    pub(super) fn set_opened(&self, result: Result<(), StageFailure>) -> bool {
        let mut life = self.life();
        if life.opened.is_some() {
            return false;
        }
        life.opened = Some(result);
        drop(life);
        self.bell.notify_all();
        true
    }

    pub(super) fn is_open(&self) -> bool {
        self.life().opened.is_some()
    }

    /// Waits until the worker serves, failed, died, or is late.
    fn opened(&self, until: Instant, limit: Duration) -> Result<(), StageFailure> {
        let rest = until.saturating_duration_since(Instant::now());
        let undecided = |life: &mut Life| life.opened.is_none() && life.death.is_none();
        let life = self.bell.wait_timeout_while(self.life(), rest, undecided);
        let life = life.unwrap_or_else(PoisonError::into_inner).0;
        let place = life.place.clone().unwrap_or_else(|| "before it did anything".into());
        let plugin = &self.plugin;
        let failure = match (&life.opened, life.death.clone()) {
            (Some(Ok(())), _) => return Ok(()),
            (Some(Err(failure)), _) => {
                let failure = failure.clone();
                drop(life);
                self.end("it did not open");
                self.death(self.steps.cancel + self.steps.term + LAST_WAIT);
                return Err(failure);
            }
            (None, Some(death)) => return Err(died(plugin, &death, &place)),
            (None, None) => {
                let limit = limit.as_millis();
                let message = format!("the worker of plugin {plugin} was not ready within {limit} ms; it was {place}");
                StageFailure::new(Cause::WorkerDeadline, message)
            }
        };
        drop(life);
        self.end("it was not ready in time");
        let death = self.death(self.steps.cancel + self.steps.term + LAST_WAIT);
        Err(wrote(failure, death.as_deref()))
    }
}

fn died(plugin: &str, death: &Death, place: &str) -> StageFailure {
    let failure = match (death.ending, &death.wanted) {
        (_, Some(why)) if death.by_us => {
            let message = format!("the worker of plugin {plugin} was stopped {place}");
            StageFailure::new(Cause::WorkerTalk, message).because(why)
        }
        (Ending::Signal(signal), _) => {
            let name = ending::signal_name(signal);
            StageFailure::new(Cause::WorkerDied, format!("plugin {plugin} killed its worker with {name} {place}"))
        }
        (Ending::Exit(code), _) => {
            let message = format!("plugin {plugin} ended its worker with exit code {code} {place}");
            StageFailure::new(Cause::WorkerDied, message)
        }
        (Ending::Lost, _) => {
            StageFailure::new(Cause::WorkerStart, format!("the worker of plugin {plugin} was lost {place}"))
        }
    };
    wrote(failure, Some(death))
}

fn wrote(failure: StageFailure, death: Option<&Death>) -> StageFailure {
    let lines = death.map(|death| death.wrote.as_slice()).unwrap_or_default();
    lines.iter().map(|line| format!("the worker wrote: {line}")).fold(failure, StageFailure::because)
}
