//! One thread that watches all workers: it reads what they write, takes the steps of the ladder, and sees them end, also
//! between calls.

use super::budget::Budget;
use super::control::ToGateway;
use super::ending::place;
use super::frame::CONTROL_MAX;
use super::start::Shared;
use super::stderr::Listener;
use super::wire::{LaneError, Wire, pair, timespec};
use crate::plugins::{Cause, Stage, StageFailure};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{RecvFlags, recv};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ChildStderr;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How often the thread looks at workers that are silent, where the system tells of their end, and where it does not.
const LOOK: Duration = Duration::from_secs(1);
const LOOK_OFTEN: Duration = Duration::from_millis(20);
/// Most messages of one worker that are taken before others have their turn.
const TURN: usize = 64;
/// Most bytes of messages of one worker that are taken in a second; a message costs something by itself.
const SAID_MAX: usize = 4 * 1024 * 1024;
const SAID_COST: usize = 1024;
/// Most notes of one worker.
const NOTES_MAX: usize = 32;

/// What the thread holds of one worker.
pub(super) struct Watched {
    shared: Arc<Shared>,
    /// Readable once the process ended; where there is no such thing, looking does.
    process: Option<OwnedFd>,
    control: Option<Wire>,
    said: Budget,
    stderr: Listener,
    notes: usize,
    /// Removed when the worker is gone.
    _scratch: TempDir,
}

struct Monitor {
    newcomers: Sender<Watched>,
    bell: OwnedFd,
}

static MONITOR: Mutex<Option<Monitor>> = Mutex::new(None);

/// Watches a worker until it is dead.
pub(super) fn watch(watched: Watched) -> std::io::Result<()> {
    let mut current = MONITOR.lock().unwrap_or_else(PoisonError::into_inner);
    let monitor = match current.take() {
        Some(monitor) => monitor,
        None => begin()?,
    };
    // The thread never ends, so it takes what it is sent.
    let _ = monitor.newcomers.send(watched);
    ring(&monitor.bell);
    *current = Some(monitor);
    Ok(())
}

/// Has the thread look at its workers now.
pub(super) fn wake() {
    if let Some(monitor) = &*MONITOR.lock().unwrap_or_else(PoisonError::into_inner) {
        ring(&monitor.bell);
    }
}

fn ring(bell: &OwnedFd) {
    // A full bell rings already.
    let _ = rustix::net::send(bell, b"!", super::wire::send_flags());
}

fn begin() -> std::io::Result<Monitor> {
    let (bell, ear) = pair()?;
    let (newcomers, door) = mpsc::channel();
    std::thread::Builder::new().name("worker-monitor".into()).spawn(move || run(&ear, &door))?;
    Ok(Monitor { newcomers, bell })
}

fn run(ear: &OwnedFd, door: &Receiver<Watched>) {
    let mut all: Vec<Watched> = Vec::new();
    loop {
        let mut next = Instant::now() + LOOK;
        for watched in &all {
            if watched.process.is_none() {
                next = next.min(Instant::now() + LOOK_OFTEN);
            }
            if let Some(due) = watched.shared.climb() {
                next = next.min(due);
            }
        }
        wait(ear, &mut all, next);
        while recv(ear, &mut [0; 64], RecvFlags::DONTWAIT).is_ok_and(|(count, _)| count > 0) {}
        all.extend(door.try_iter());
        all.retain_mut(|watched| {
            // Whatever goes wrong with one must not end the watch over the others.
            catch_unwind(AssertUnwindSafe(|| watched.look())).unwrap_or_else(|_| {
                tracing::error!(engine = %watched.shared.subject, "watching a worker panicked");
                true
            })
        });
    }
}

/// Waits until something happens, at most until `next`.
fn wait(ear: &OwnedFd, all: &mut [Watched], mut next: Instant) {
    // Who said too much is not listened to for a while, and who speaks then waits.
    let mut listen = |paused: Option<Instant>| {
        next = paused.map_or(next, |until| next.min(until));
        paused.is_none()
    };
    let listened: Vec<_> =
        all.iter_mut().map(|one| (listen(one.said.over_until()), listen(one.stderr.paused()))).collect();
    let pipes: Vec<_> = all.iter().map(|watched| watched.stderr.pipe()).collect();
    let mut fds = vec![PollFd::new(ear, PollFlags::IN)];
    for ((watched, pipe), (to_control, to_stderr)) in all.iter().zip(&pipes).zip(listened) {
        let process = watched.process.as_ref().map(AsFd::as_fd);
        let control = watched.control.as_ref().map(AsFd::as_fd).filter(|_| to_control);
        let stderr = pipe.as_ref().map(AsFd::as_fd).filter(|_| to_stderr);
        let ends = [process, control, stderr];
        fds.extend(ends.into_iter().flatten().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
    }
    let timeout = timespec(next.saturating_duration_since(Instant::now()));
    // An error is no more than an early look.
    if poll(&mut fds, Some(&timeout)).is_err() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Watched {
    pub(super) fn new(
        shared: Arc<Shared>,
        control: OwnedFd,
        stderr: Option<ChildStderr>,
        scratch: TempDir,
    ) -> std::io::Result<Watched> {
        let stderr = Listener::new(stderr, &shared.subject)?;
        let process = process(shared.pid);
        let control = Some(Wire::new(control, CONTROL_MAX));
        let said = Budget::new(SAID_MAX);
        Ok(Watched { shared, process, control, said, stderr, notes: 0, _scratch: scratch })
    }

    /// Takes in what is there. False when the worker is dead and told of.
    fn look(&mut self) -> bool {
        // Asked first: what was written before the end is read after it is seen.
        let ended = self.shared.ended();
        if ended.is_some() || self.said.over_until().is_none() {
            self.hear();
        }
        if let Some(ending) = ended {
            let wrote = self.stderr.finish();
            self.shared.buried(ending, wrote);
            return false;
        }
        if self.stderr.paused().is_none() {
            self.stderr.read();
        }
        true
    }

    fn hear(&mut self) {
        let mut frame = Vec::new();
        for _ in 0..TURN {
            let Some(control) = &mut self.control else { return };
            match control.receive(&mut frame, Some(Instant::now())) {
                Ok(false) => return,
                Ok(true) => {
                    self.said.spend(SAID_COST + frame.len());
                    match serde_json::from_slice(&frame) {
                        Ok(message) => self.take(message),
                        Err(error) => self.confused(&error.to_string()),
                    }
                }
                Err(LaneError::Gone) => {
                    self.control = None;
                    self.shared.lost("it closed its control socket");
                }
                Err(error) => self.confused(&error.to_string()),
            }
        }
    }

    fn take(&mut self, message: ToGateway) {
        let shared = &self.shared;
        match message {
            ToGateway::Said(text) => (shared.hear)(&text),
            _ if shared.is_open() => self.confused("it spoke out of turn"),
            ToGateway::Hello { version } if version == env!("CARGO_PKG_VERSION") => {}
            ToGateway::Hello { version } => {
                let message = format!("the worker has version {version}, the gateway {}", env!("CARGO_PKG_VERSION"));
                shared.set_opened(Err(StageFailure::new(Cause::WorkerTalk, message)));
            }
            ToGateway::Confined(report) => shared.confined(report),
            ToGateway::At { stage, hook } => match Stage::from_name(&stage) {
                Some(stage) => shared.at(place(stage, None, Some(&hook))),
                None => self.confused(&format!("an unknown stage {stage}")),
            },
            ToGateway::Note(text) => {
                self.notes += 1;
                if self.notes <= NOTES_MAX {
                    shared.note(text);
                }
            }
            ToGateway::Failed(failure) => match failure.into_failure() {
                Some(failure) => drop(shared.set_opened(Err(failure))),
                None => self.confused("a failure with an unknown code"),
            },
            ToGateway::Ready => drop(shared.set_opened(Ok(()))),
        }
    }

    /// The worker said what it never would: whoever speaks there, it is not our program.
    fn confused(&mut self, why: &str) {
        self.control = None;
        let message = format!("the worker of engine {} said something strange", self.shared.subject);
        self.shared.set_opened(Err(StageFailure::new(Cause::WorkerTalk, message).because(why)));
        self.shared.end(&format!("it said something strange: {why}"));
    }
}

#[cfg(target_os = "linux")]
fn process(pid: u32) -> Option<OwnedFd> {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed())?;
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn process(_: u32) -> Option<OwnedFd> {
    None
}
