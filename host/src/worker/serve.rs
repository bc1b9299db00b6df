//! The worker's side: cuts itself off from all that is the gateway's, opens the library, and serves lanes.
#![allow(unsafe_code, reason = "ends the process without exit handlers")]

use super::child::{Subject, complain, die_with_parent};
use super::control::{ToGateway, ToWorker, WorkerRequest, encode};
use super::frame::{CONTROL_MAX, FRAME_MAX};
use super::sandbox::{self, Policy, SandboxError};
use super::wire::{LaneError, Wire};
use crate::plugins::{Cause, QuietPort, RegistrarPort, Stage, StageFailure, bring_in};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use std::ffi::OsString;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Cancels all calls.
pub const EVERY_CALL: u64 = 0;
/// Stack of a lane's thread, as hooks are promised.
const STACK: usize = 8 * 1024 * 1024;
/// How long the gateway may take to say what is to be done.
const FIRST_WAIT: Duration = Duration::from_secs(60);
/// How often the worker looks whether its gateway still lives, beside what the system tells.
const LOOK: Duration = Duration::from_millis(500);
/// How long a message to the gateway may wait.
const TELL_WAIT: Duration = Duration::from_secs(1);

/// What serves the calls in a worker; the slot's, which alone knows how an engine is called.
pub trait Serve: Sync {
    /// What the library registers with; `setup` is what the gateway's side sent along. The teller may be kept.
    fn port(&self, setup: &str, teller: &Teller) -> Arc<dyn RegistrarPort> {
        let _ = (setup, teller);
        Arc::new(QuietPort)
    }

    /// The library is loaded, and the subject registered.
    ///
    /// # Errors
    /// The failure that the gateway is told.
    fn open(&self, opening: &Opening<'_>) -> Result<(), StageFailure>;

    /// Answers one request: whatever is said back and forth on the lane until the reply is sent. Runs on the lane's own
    /// thread, which never ends.
    fn serve(&self, lane: &'static ChildLane, frame: &[u8]);

    /// A call, or [`EVERY_CALL`], is to come to its end. Runs on the control thread: must not block.
    fn cancel(&self, call: u64);
}

/// What [`Serve::open`] gets.
pub struct Opening<'a> {
    /// Who lives in this worker.
    pub subject: Subject<'a>,
    /// The folder of its state, for all agents.
    pub state_root: &'a Path,
    /// What the gateway's side of the slot sent along.
    pub setup: &'a str,
    /// To be told of each step before it is taken: the stage, and the hook as documents spell it.
    pub progress: &'a dyn Fn(Stage, &str),
    /// Speaks to the gateway beside calls.
    pub teller: &'a Teller,
}

/// Speaks to the gateway beside calls.
#[derive(Clone)]
pub struct Teller(Arc<Mutex<Option<Wire>>>);

impl Teller {
    /// Says something to whoever listens in the gateway. Lost when the gateway does not listen.
    pub fn say(&self, text: &str) {
        self.tell(&ToGateway::Said(text.to_owned()));
    }

    fn tell(&self, message: &ToGateway) {
        let Ok(frame) = encode(message) else { return };
        let mut wire = self.wire();
        let Some(open) = &mut *wire else { return };
        // A gateway that does not listen any more is gone, and the worker soon with it. Else it does not listen because too
        // much was said. In either case a part of a frame may be on its way, after which nothing can be understood.
        if open.send(&frame, Some(Instant::now() + TELL_WAIT)).is_err() {
            *wire = None;
        }
    }

    fn wire(&self) -> MutexGuard<'_, Option<Wire>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The worker's end of a lane.
pub struct ChildLane {
    number: u32,
    wire: Mutex<Wire>,
}

impl ChildLane {
    /// A lane over this end of a pair of sockets.
    pub fn new(number: u32, end: OwnedFd) -> ChildLane {
        ChildLane { number, wire: Mutex::new(Wire::new(end, FRAME_MAX)) }
    }

    /// Which lane it is.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// The lane is of no use any more.
    pub fn send(&self, frame: &[u8]) -> Result<(), LaneError> {
        self.wire().send(frame, None)
    }

    /// Puts the next frame in the place of what `into` holds; waits for it.
    ///
    /// # Errors
    /// The lane is of no use any more.
    pub fn receive(&self, into: &mut Vec<u8>) -> Result<(), LaneError> {
        self.wire().receive(into, None).map(drop)
    }

    /// Bytes that need not be a frame.
    #[cfg(test)]
    pub(super) fn send_raw(&self, bytes: &[u8]) {
        rustix::net::send(&*self.wire(), bytes, super::wire::send_flags()).unwrap();
    }

    fn wire(&self) -> MutexGuard<'_, Wire> {
        self.wire.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the worker. `args` are what follows [`super::WORKER_ARGUMENT`]: nothing. Returns only when the program was not
/// started as a worker; else the process ends here.
///
/// To be called before anything else is started: no runtime, no logging, no threads.
pub fn run_worker(args: &[OsString], serve: &'static dyn Serve) -> i32 {
    if !args.is_empty() {
        return complain("worker", "a worker is started by the gateway");
    }
    match begin() {
        Ok((control, request, teller)) => live(control, &request, &teller, serve),
        Err(why) => complain("worker", &why),
    }
}

/// Takes hold of the control socket, lets go of everything else, and hears what is to be done.
fn begin() -> Result<(Wire, WorkerRequest, Teller), String> {
    let own = |error: std::io::Error| format!("its descriptors: {error}");
    let control = own_descriptors().map_err(own)?;
    let speaking = control.try_clone().map_err(own)?;
    let mut control = Wire::new(control, CONTROL_MAX).with_descriptors();
    let mut frame = Vec::new();
    let heard = control.receive(&mut frame, Some(Instant::now() + FIRST_WAIT));
    if !heard.map_err(|error| format!("it is started by the gateway: {error}"))? {
        return Err("the gateway did not say what is to be done".into());
    }
    let request = match serde_json::from_slice(&frame).map_err(|error| format!("the request: {error}"))? {
        ToWorker::Open(request) => *request,
        _ => return Err("the gateway did not say what is to be done".into()),
    };
    die_with_parent(request.parent)?;
    let teller = Teller(Arc::new(Mutex::new(Some(Wire::new(speaking, CONTROL_MAX)))));
    teller.tell(&ToGateway::Hello { version: env!("CARGO_PKG_VERSION").into() });
    if request.version != env!("CARGO_PKG_VERSION") {
        return Err(format!("the gateway has version {}, this is {}", request.version, env!("CARGO_PKG_VERSION")));
    }
    Ok((control, request, teller))
}

/// The control socket, which came as standard input, becomes a descriptor of its own, and what the library prints goes
/// where its complaints go. The sandbox closes what the gateway may have handed down by mistake.
fn own_descriptors() -> std::io::Result<OwnedFd> {
    let control = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 3)?;
    let nothing = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(std::io::stderr())?;
    Ok(control)
}

fn live(control: Wire, request: &WorkerRequest, teller: &Teller, serve: &'static dyn Serve) -> ! {
    if let Err(failure) = lock_in(&control, request, teller) {
        teller.tell(&ToGateway::Failed(failure.into()));
        leave(0);
    }
    let parent = request.parent;
    let started = std::thread::Builder::new().name("worker-control".into()).spawn(move || obey(control, parent, serve));
    let result = match started {
        Ok(_) => open(request, teller, serve),
        Err(error) => Err(StageFailure::new(Cause::WorkerStart, "no thread could be started").because(error)),
    };
    match result {
        Ok(()) => teller.tell(&ToGateway::Ready),
        Err(failure) => {
            teller.tell(&ToGateway::Failed(failure.into()));
            leave(0);
        }
    }
    loop {
        std::thread::park();
    }
}

/// No line of the library has run by then, and there is no other thread.
fn lock_in(control: &Wire, request: &WorkerRequest, teller: &Teller) -> Result<(), StageFailure> {
    let mut keep = vec![control.as_fd().as_raw_fd()];
    keep.extend(teller.wire().as_ref().map(|wire| wire.as_fd().as_raw_fd()));
    let policy = Policy::of(&request.load, &request.state_root, keep);
    let report = sandbox::enter(&policy).map_err(SandboxError::into_failure)?;
    teller.tell(&ToGateway::Confined(report));
    Ok(())
}

fn open(request: &WorkerRequest, teller: &Teller, serve: &'static dyn Serve) -> Result<(), StageFailure> {
    let progress = |stage: Stage, hook: &str| {
        teller.tell(&ToGateway::At { stage: stage.as_str().into(), hook: hook.into() });
    };
    let port = serve.port(&request.setup, teller);
    let loaded = bring_in(&request.load, &port, &|stage| progress(stage, ""));
    for text in loaded.notes {
        teller.tell(&ToGateway::Note(text));
    }
    let subjects = loaded.registrations.iter().map(Subject::Engine).chain(loaded.memory.iter().map(Subject::Memory));
    let mut subjects = subjects.filter(|subject| subject.wanted() == request.subject);
    let Some(subject) = subjects.next() else {
        let mut refused = loaded.refused.into_iter().filter(|(wanted, _)| *wanted == request.subject);
        return Err(refused.next().map_or_else(
            || StageFailure::new(Cause::NotRegistered, format!("the worker was not asked for {}", request.subject)),
            |(_, failure)| failure,
        ));
    };
    let opening =
        Opening { subject, state_root: &request.state_root, setup: &request.setup, progress: &progress, teller };
    serve.open(&opening)
}

/// Does what the gateway says, until the gateway is gone.
fn obey(mut control: Wire, parent: u32, serve: &'static dyn Serve) {
    let mut frame = Vec::new();
    loop {
        match control.receive(&mut frame, Some(Instant::now() + LOOK)) {
            Ok(true) => {}
            Ok(false) if is_parent(parent) => continue,
            // The gateway is gone; so is whoever the library started.
            Ok(false) | Err(_) => leave_with_all(),
        }
        match serde_json::from_slice(&frame) {
            Ok(ToWorker::Lane(number)) => {
                if let Some(end) = control.descriptor() {
                    serve_lane(number, end, serve);
                }
                // Without one: the library used up all descriptors. The gateway's end of the lane tells that.
            }
            Ok(ToWorker::Cancel(call)) => serve.cancel(call),
            Ok(ToWorker::Stop) => leave(0),
            Ok(ToWorker::Open(_)) | Err(_) => leave_with_all(),
        }
    }
}

fn serve_lane(number: u32, end: OwnedFd, serve: &'static dyn Serve) {
    let lane = ChildLane::new(number, end);
    // Where there is no thread, the end is closed, and the gateway's call fails.
    let started = std::thread::Builder::new().name(format!("lane-{number}")).stack_size(STACK).spawn(move || {
        // Never freed, like its thread: a thread of the library's own may hold on to it.
        let lane: &'static ChildLane = Box::leak(Box::new(lane));
        let mut frame = Vec::new();
        while lane.receive(&mut frame).is_ok() {
            // The slot's own part; what the engine does never unwinds into it.
            if catch_unwind(AssertUnwindSafe(|| serve.serve(lane, &frame))).is_err() {
                lane.wire().shut();
                break;
            }
        }
        // It never ends: the library's thread-local destructors must not run.
        loop {
            std::thread::park();
        }
    });
    if let Err(error) = started {
        let _ = writeln!(std::io::stderr(), "worker: no thread for lane {number}: {error}");
    }
}

fn is_parent(parent: u32) -> bool {
    rustix::process::getppid().is_some_and(|now| now.as_raw_pid().cast_unsigned() == parent)
}

/// Ends the process without running exit handlers: a library's must not keep it.
fn leave(code: i32) -> ! {
    // SAFETY: ends the process; nothing of it is used afterwards.
    unsafe { libc::_exit(code) }
}

/// The same for all that the library may have started.
fn leave_with_all() -> ! {
    // Only where the group is its own: a worker that somebody started by hand shares that of a shell.
    if rustix::process::getpgrp() == rustix::process::getpid() {
        let _ = rustix::process::kill_current_process_group(rustix::process::Signal::KILL);
    }
    leave(0)
}
