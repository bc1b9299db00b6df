//! The gateway's side: one worker, and a call of one hook over one of its lanes.

use super::history::SentRows;
use super::lean::Lean;
use super::protocol::{
    Call, Input, RETURNED, Said, Setup, ToGateway, ToWorker, Wanted as WantedBodies, decode, encode, left,
};
use super::reply::cut;
use crate::plugins::{Kind, LoadRequest, StageFailure, Wanted};
use crate::slot::call::ask::{Refusal, fresh_token};
use crate::slot::call::frame::{Frame, GRACE};
use crate::slot::call::guarded::{Lost, Outcome};
use crate::slot::call::host_table::log_line;
use crate::slot::call::input::HookInput;
use crate::slot::core::EngineCore;
use crate::slot::facts::{SessionFacts, View};
use crate::slot::hook::{HOOKS, Hook};
use crate::slot::instance::Order;
use crate::slot::services::{ServiceError, ServiceStatus};
use crate::transcript::Message;
use crate::worker::{self, FRAME_MAX, LaneError, LaneGuard, SandboxReport, Worker, WorkerSpec};
use engine_abi::wire::{host_params, status};
use serde::Serialize;
use std::borrow::Cow;
use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How often a call that waits for its worker looks after itself.
const LOOK: Duration = Duration::from_millis(20);
/// How long the end of a worker whose lane broke is waited for, so that its cause can be told.
const DEATH_WAIT: Duration = Duration::from_secs(2);
/// Most bytes of bodies in one answer, beside the first of them.
const BODIES_BYTES: usize = 512 * 1024;
/// Most bodies in one answer.
const BODIES_COUNT: u32 = 1_024;
/// Most late pushes and service calls that one reply may tell of.
const LATE_MAX: u32 = 1_000_000;

thread_local! {
    /// What is sent and what has come, reused from call to call on the thread of the hook.
    static BUFFERS: RefCell<(Vec<u8>, Vec<u8>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// Largest buffer that stays.
const BUFFER_KEPT: usize = 1024 * 1024;

/// An engine or memory provider in a worker.
pub(crate) struct Remote {
    kind: Kind,
    worker: Arc<Worker>,
    calls: AtomicU64,
    instances: AtomicU32,
    in_flight: AtomicUsize,
    last: AtomicUsize,
    sent_rows: Mutex<SentRows>,
    sent: AtomicU64,
    received: AtomicU64,
}

/// An instance in a worker.
pub(crate) struct RemoteInstance {
    remote: Arc<Remote>,
    number: u32,
    has: u32,
}

/// A worker for `/api/engines` and `doctor`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerStatus {
    /// Process id.
    pub pid: u32,
    /// True until it is dead.
    pub alive: bool,
    /// Processor time that it used, in milliseconds, where the system tells.
    pub cpu_ms: Option<u64>,
    /// Bytes that were sent over its lanes.
    pub bytes_sent: u64,
    /// Bytes that came over its lanes.
    pub bytes_received: u64,
    /// What contains it.
    pub sandbox: Option<SandboxReport>,
    /// What came up while it opened.
    pub notes: Vec<String>,
}

/// What a worker is started with, beside its library.
pub(crate) struct Start {
    pub(crate) subject: Wanted,
    pub(crate) load: LoadRequest,
    pub(crate) state_root: PathBuf,
    pub(crate) grants: Vec<String>,
    pub(crate) llm: bool,
    pub(crate) deadline: Duration,
}

/// Starts a worker for one engine or memory provider.
pub(crate) fn start(start: Start) -> Result<Arc<Remote>, StageFailure> {
    let (kind, owner, id) = (start.subject.kind, start.load.plugin_id.clone(), start.subject.id.clone());
    let setup = Setup { grants: start.grants, llm: start.llm };
    let spec = WorkerSpec {
        load: start.load,
        subject: start.subject,
        state_root: start.state_root,
        setup: serde_json::to_string(&setup).unwrap_or_default(),
        deadline: start.deadline,
        steps: worker::Steps::default(),
        hear: Arc::new(move |text| hear(&owner, &id, text)),
    };
    let worker = worker::start(&spec)?;
    Ok(Arc::new(Remote {
        kind,
        worker,
        calls: AtomicU64::new(0),
        instances: AtomicU32::new(0),
        in_flight: AtomicUsize::new(0),
        last: AtomicUsize::new(Hook::Factory.index()),
        sent_rows: Mutex::default(),
        sent: AtomicU64::new(0),
        received: AtomicU64::new(0),
    }))
}

/// A line of the engine's log. Who it is from is this side's to say, and the hook is only a word.
fn hear(owner: &str, id: &str, text: &str) {
    let Ok(said) = serde_json::from_str::<Said>(text) else { return };
    let hook = Hook::ALL.into_iter().find(|hook| hook.name() == said.hook).map_or("", Hook::name);
    let engine = if said.engine.is_empty() { "" } else { id };
    log_line(owner, engine, hook, said.level, &cut(&said.target), &cut(&said.message));
}

/// What a call consists of, whenever it is made.
struct Asked<'a> {
    instance: u32,
    facts: &'a SessionFacts,
    params: u32,
    input: Input<'a>,
    /// The history that its rows were taken from.
    view: Option<&'a Arc<View>>,
}

/// Why a call has no reply.
enum Broken {
    /// The lane failed, or its worker died.
    Lane(LaneError),
    /// What came makes no sense.
    Nonsense(String),
    /// The call has so many bytes, and no lane carries them.
    TooLarge(usize),
    /// Everyone has given up on the call.
    GivenUp,
}

impl From<LaneError> for Broken {
    fn from(error: LaneError) -> Broken {
        Broken::Lane(error)
    }
}

impl Remote {
    pub(crate) const fn kind(&self) -> Kind {
        self.kind
    }

    /// Has the worker's end told to its engine.
    pub(crate) fn watch(self: &Arc<Remote>, core: &Arc<EngineCore>) {
        let (core, remote): (Weak<EngineCore>, Weak<Remote>) = (Arc::downgrade(core), Arc::downgrade(self));
        self.worker.on_death(move |death| {
            let (Some(core), Some(remote)) = (core.upgrade(), remote.upgrade()) else { return };
            // A call that runs tells of it itself, with its hook.
            if remote.in_flight.load(Ordering::Acquire) != 0 {
                return;
            }
            if death.is_from_outside() {
                core.killed_between_calls(remote.last(), death.outside());
            } else {
                let reason = format!("{} between calls, after {}", death.reason(None), remote.last().name());
                drop(core.crashed(remote.last(), reason));
            }
        });
    }

    fn last(&self) -> Hook {
        Hook::ALL[self.last.load(Ordering::Relaxed) % HOOKS]
    }

    /// Has the worker ended; returns at once.
    pub(crate) fn end(&self, why: &str) {
        self.worker.end(why);
    }

    /// Has the worker ended in good order, and waits for it.
    pub(crate) fn stop(&self, until: Instant) {
        self.worker.stop(until);
    }

    pub(crate) fn status(&self) -> WorkerStatus {
        let cpu = self.worker.cpu_time();
        WorkerStatus {
            pid: self.worker.pid(),
            alive: self.worker.death(Duration::ZERO).is_none(),
            cpu_ms: cpu.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            bytes_sent: self.sent.load(Ordering::Relaxed),
            bytes_received: self.received.load(Ordering::Relaxed),
            sandbox: self.worker.sandbox(),
            notes: self.worker.notes(),
        }
    }

    fn rows(&self) -> MutexGuard<'_, SentRows> {
        self.sent_rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the factory make an instance. Beside its status: what it made, which counts only when the status is `OK`.
    pub(crate) fn create(
        self: &Arc<Remote>,
        frame: &Frame,
        facts: &SessionFacts,
        params: u32,
        order: &Order<'_>,
    ) -> (Outcome, Result<RemoteInstance, String>) {
        let number = self.instances.fetch_add(1, Ordering::Relaxed);
        let input = Input::Create {
            agent_dir: order.agent_dir,
            workspace_dir: order.workspace_dir,
            state_dir: order.state_dir,
        };
        let mut made = Err("the factory made nothing".to_owned());
        let asked = Asked { instance: number, facts, params, input, view: None };
        let outcome = self.call(frame, asked, |reply| {
            if let Some(has) = reply {
                made = has.map(|has| RemoteInstance { remote: Arc::clone(self), number, has }).map_err(|bad| cut(&bad));
            }
        });
        (outcome, made)
    }

    /// One call.
    fn call(&self, frame: &Frame, asked: Asked<'_>, made: impl FnOnce(Option<Result<u32, String>>)) -> Outcome {
        let hook = asked.input.hook();
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        // Taken, not borrowed: a service may lead to another call on this thread.
        let (mut out, mut back) = BUFFERS.take();
        let outcome = self.exchange(frame, asked, (&mut out, &mut back)).and_then(|()| self.take(frame, &back, made));
        for buffer in [&mut out, &mut back] {
            if buffer.capacity() > BUFFER_KEPT {
                *buffer = Vec::new();
            }
        }
        BUFFERS.set((out, back));
        self.last.store(hook.index(), Ordering::Relaxed);
        let outcome = outcome.unwrap_or_else(|broken| self.broken(hook, broken));
        self.in_flight.fetch_sub(1, Ordering::AcqRel);
        outcome
    }

    /// Says everything until the reply is there, which is left in the second buffer.
    fn exchange(
        &self,
        frame: &Frame,
        asked: Asked<'_>,
        (out, back): (&mut Vec<u8>, &mut Vec<u8>),
    ) -> Result<(), Broken> {
        let Asked { instance, facts, params, input, view } = asked;
        let deadline = frame.deadline().ok_or(Broken::GivenUp)?;
        let mut lane = self.worker.lane(deadline)?;
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let session = Cow::Borrowed(facts);
        let call = ToWorker::Call(Call { number, left: left(deadline), params, instance, session, input });
        if self.written(&call, out)? > FRAME_MAX {
            return Err(Broken::TooLarge(out.len()));
        }
        self.send(&mut lane, out, frame)?;
        let mut looked = Instant::now();
        loop {
            let came = lane.receive(back, wait(frame))?;
            // Also beside a worker that never stops asking.
            if !came || looked.elapsed() >= LOOK {
                looked = Instant::now();
                if frame.abandoned() {
                    return Err(Broken::GivenUp);
                }
                if frame.stop() || frame.expired() {
                    self.worker.cancel(number);
                }
            }
            if !came {
                continue;
            }
            self.received.fetch_add(back.len() as u64 + 4, Ordering::Relaxed);
            if back.first() == Some(&RETURNED) {
                lane.finish();
                return Ok(());
            }
            match decode::<ToGateway<'_>>(back).map_err(|error| Broken::Nonsense(error.to_string()))? {
                ToGateway::Returned(_) => return Err(Broken::Nonsense("a reply with another mark".into())),
                ToGateway::Ask(request) => {
                    let answer = match frame.ask(request.deed(), || Ok(request)) {
                        Ok(answer) => Ok(answer),
                        Err(Refusal::Error(error)) => Err(error),
                        Err(Refusal::Expired) => {
                            Err(ServiceError::new(ServiceStatus::Expired, "the call's deadline has passed"))
                        }
                    };
                    let left = frame.deadline().map(left).unwrap_or_default();
                    if self.written(&ToWorker::Answer { left, answer }, out)? > FRAME_MAX {
                        let why = "the answer is larger than what can be handed to a worker; ask for less";
                        let answer = Err(ServiceError::new(ServiceStatus::Refused, why));
                        self.written(&ToWorker::Answer { left, answer }, out)?;
                    }
                    self.send(&mut lane, out, frame)?;
                }
                ToGateway::Bodies(wanted) => {
                    let view = frame.state().view.clone();
                    let bodies = view.as_ref().map(|(view, len)| bodies(view, *len, wanted)).unwrap_or_default();
                    self.written(&ToWorker::Bodies(bodies), out)?;
                    self.send(&mut lane, out, frame)?;
                }
                ToGateway::Stale => {
                    let Some((view, len)) = view.map(|view| (view, frame.state().view.as_ref().map_or(0, |of| of.1)))
                    else {
                        return Err(Broken::Nonsense("a call without a history is called stale".into()));
                    };
                    let rows = self.rows().whole(&facts.session_id, view, len);
                    self.written(&ToWorker::Whole(rows), out)?;
                    self.send(&mut lane, out, frame)?;
                }
            }
        }
    }

    /// Writes a message down; gives its length.
    fn written(&self, message: &ToWorker<'_>, out: &mut Vec<u8>) -> Result<usize, Broken> {
        encode(message, out).map_err(|error| Broken::Nonsense(error.to_string()))?;
        Ok(out.len())
    }

    fn send(&self, lane: &mut LaneGuard, out: &[u8], frame: &Frame) -> Result<(), Broken> {
        self.sent.fetch_add(out.len() as u64 + 4, Ordering::Relaxed);
        // A worker that does not read is told by the deadline of its call; the grace is for what is under way.
        let until = frame.deadline().unwrap_or_else(Instant::now) + GRACE;
        Ok(lane.send(out, until)?)
    }

    /// Takes the reply in.
    fn take(
        &self,
        frame: &Frame,
        back: &[u8],
        made: impl FnOnce(Option<Result<u32, String>>),
    ) -> Result<Outcome, Broken> {
        let Ok(ToGateway::Returned(mut reply)) = decode::<ToGateway<'_>>(back) else {
            return Err(Broken::Nonsense("the reply cannot be read".into()));
        };
        let stats = &frame.core.stats;
        stats.late_pushes.fetch_add(reply.late_pushes.min(LATE_MAX).into(), Ordering::Relaxed);
        stats.late_service_calls.fetch_add(reply.late_service_calls.min(LATE_MAX).into(), Ordering::Relaxed);
        made(reply.made.take());
        let status = reply.status;
        let mut state = frame.state();
        let entries = state.view.as_ref().map_or(0, |(_, len)| *len);
        let mut token = 0;
        reply.push_into(&mut state.sink, entries, || {
            token = fresh_token();
            token
        });
        if token != 0 {
            state.tokens.push(token);
        }
        Ok(Outcome::Returned(status))
    }

    fn broken(&self, hook: Hook, broken: Broken) -> Outcome {
        match broken {
            Broken::GivenUp => {
                self.worker.end("a call did not come back");
                Outcome::Returned(status::EXPIRED)
            }
            Broken::Lane(LaneError::Busy) => Outcome::NotMade("no lane to the engine's worker became free".into()),
            Broken::TooLarge(bytes) => {
                Outcome::NotMade(format!("the call has {bytes} bytes, more than can be handed to a worker"))
            }
            Broken::Nonsense(why) => {
                self.worker.end(&format!("what it said on a lane cannot be understood: {why}"));
                self.lost(hook, format!("its worker said something in {hook} that cannot be understood: {why}"))
            }
            Broken::Lane(error) => {
                if !matches!(error, LaneError::Gone) {
                    self.worker.end(&error.to_string());
                }
                self.lost(hook, format!("its worker does not answer any more in {hook}: {error}"))
            }
        }
    }

    /// The worker is dead or will be soon; how it ended tells more than the lane.
    fn lost(&self, hook: Hook, otherwise: String) -> Outcome {
        let death = self.worker.death(DEATH_WAIT / 2).or_else(|| {
            self.worker.end("its lane broke, and it did not end");
            self.worker.death(DEATH_WAIT)
        });
        let reason = match death {
            Some(death) if death.by_us && death.wanted.is_none() => otherwise,
            Some(death) => death.reason(Some(hook.name())),
            None => otherwise,
        };
        Outcome::Lost(Lost { reason })
    }
}

/// How long a call may wait before it looks after itself: so that the deadline is told when it passes.
fn wait(frame: &Frame) -> Duration {
    let left = frame.deadline().map(left).unwrap_or_default();
    if left.is_zero() { LOOK } else { left.min(LOOK) }
}

/// Bodies from one on, as many as fit.
fn bodies(view: &View, len: usize, wanted: WantedBodies) -> Vec<Lean<'_>> {
    let first = usize::try_from(wanted.index).unwrap_or(usize::MAX);
    let count = wanted.count.clamp(1, BODIES_COUNT) as usize;
    let shown = &view.bodies[..len.min(view.bodies.len())];
    let mut bytes = 0;
    let mut fits = |message: &Message| {
        let before = bytes;
        bytes += message.weight();
        before == 0 || bytes <= BODIES_BYTES
    };
    if first >= shown.len() {
        Vec::new()
    } else if wanted.back {
        let from = (first + 1).saturating_sub(count);
        shown[from..=first].iter().rev().take_while(|body| fits(body)).map(|body| Lean::of(body)).collect()
    } else {
        let to = (first + count).min(shown.len());
        shown[first..to].iter().take_while(|body| fits(body)).map(|body| Lean::of(body)).collect()
    }
}

impl RemoteInstance {
    /// True when the engine has the hook.
    pub(crate) const fn has(&self, hook: Hook) -> bool {
        self.has & (1 << hook.index()) != 0
    }

    /// Makes one call.
    pub(crate) fn invoke(&self, frame: &Frame, facts: &SessionFacts, params: u32, input: &HookInput<'_>) -> Outcome {
        let history = match input {
            HookInput::Assemble { input, len, .. } => Some((&input.view, *len)),
            HookInput::Compact { args, len } => Some((&args.view, *len)),
            _ => None,
        };
        let session = shown(facts, params);
        let rows = history.map(|(view, len)| self.remote.rows().rows(&session.session_id, view, len));
        let view = history.map(|(view, _)| view);
        let asked = Asked { instance: self.number, facts: &session, params, input: Input::of(input, rows), view };
        let outcome = self.remote.call(frame, asked, drop);
        if matches!(input, HookInput::OnSessionEnded { .. }) {
            self.remote.rows().forget(&session.session_id);
        }
        outcome
    }
}

/// What an engine gets of a session; the same rules by which it is lent to one in this process.
fn shown(facts: &SessionFacts, params: u32) -> Cow<'_, SessionFacts> {
    use host_params as p;
    let gets = |bits: u32| params & bits != 0;
    let hidden = !gets(p::SESSION_KEY | p::SESSION_TARGET) && facts.session_key.is_some()
        || !gets(p::SESSION_TARGET) && (facts.store.is_some() || facts.thread_id.is_some())
        || !gets(p::RUNTIME_CONTEXT) && (facts.cwd.is_some() || facts.prompt_cache.is_some())
        || !gets(p::RUNTIME_SETTINGS) && facts.settings.is_some();
    if !hidden {
        return Cow::Borrowed(facts);
    }
    Cow::Owned(SessionFacts {
        session_id: facts.session_id.clone(),
        session_key: facts.session_key.clone().filter(|_| gets(p::SESSION_KEY | p::SESSION_TARGET)),
        agent: facts.agent.clone(),
        cwd: facts.cwd.clone().filter(|_| gets(p::RUNTIME_CONTEXT)),
        store: facts.store.clone().filter(|_| gets(p::SESSION_TARGET)),
        thread_id: facts.thread_id.clone().filter(|_| gets(p::SESSION_TARGET)),
        ephemeral: facts.ephemeral,
        heartbeat: facts.heartbeat,
        settings: facts.settings.clone().filter(|_| gets(p::RUNTIME_SETTINGS)),
        prompt_cache: facts.prompt_cache.clone().filter(|_| gets(p::RUNTIME_CONTEXT)),
        token_budget: facts.token_budget,
        current_token_count: facts.current_token_count,
    })
}
