//! The worker's side: instances, the histories that it holds, and a frame of its own for each call.

use super::history::{HeldRows, Rows};
use super::protocol::{Call, Input, Said, Setup, ToGateway, ToWorker, Wanted, decode, encode};
use super::reply::Reply;
use crate::plugins::{Cause, Kind, RegistrarPort, StageFailure};
use crate::slot::abandoned::Abandoned;
use crate::slot::call::ask::{Answer, Relay, Request};
use crate::slot::call::frame::Frame;
use crate::slot::call::guarded::{Limits, Outcome, Setup as CallSetup, unjudged};
use crate::slot::call::host_table::{HostTable, log_elsewhere, log_line};
use crate::slot::call::invoke::Local;
use crate::slot::call::sink::Sink;
use crate::slot::core::{Deadlines, EngineCore, Factory, Registered};
use crate::slot::facts::View;
use crate::slot::hook::Hook;
use crate::slot::instance::{Order, call_factory};
use crate::slot::services::{ServiceError, ServiceStatus};
use crate::transcript::Message;
use crate::worker::{ChildLane, EVERY_CALL, LaneError, Opening, Serve, Subject, Teller};
use engine_abi::wire::{HostV1, status};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// Bodies that the first look into a history fetches; each look that goes on where the last one ended fetches twice as many.
const FIRST_BODIES: u32 = 16;
/// Most bodies that are fetched at once.
const MOST_BODIES: u32 = 1_024;

/// What serves the calls of this process when it is a worker.
pub fn worker_side() -> &'static dyn Serve {
    static SIDE: WorkerSide = WorkerSide { side: OnceLock::new() };
    &SIDE
}

/// The process's own: one engine or memory provider lives in it.
struct WorkerSide {
    side: OnceLock<Arc<Side>>,
}

/// See the module.
struct Side {
    core: Arc<EngineCore>,
    instances: Mutex<HashMap<u32, Arc<Local>>>,
    calls: Mutex<HashMap<u64, Arc<Frame>>>,
    rows: Mutex<HeldRows>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The registering library meets the table that its calls will get.
struct Port {
    setup: Setup,
}

impl RegistrarPort for Port {
    // Whether an id is free is the gateway's to say, and was said.
    fn register(&self, _: Kind, _: &str, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn log(&self, plugin_id: &str, level: u32, target: &str, message: &str) {
        log_line(plugin_id, "", "register", level, target, message);
    }

    fn host_table(&self, plugin_id: &str) -> *const HostV1 {
        table(plugin_id, &self.setup).pointer()
    }
}

/// The one table of this process: it has one owner.
fn table(owner: &str, setup: &Setup) -> HostTable {
    static TABLE: OnceLock<HostTable> = OnceLock::new();
    *TABLE.get_or_init(|| HostTable::leak(owner, &setup.grants, setup.llm))
}

fn setup(text: &str) -> Setup {
    serde_json::from_str(text).unwrap_or_default()
}

impl Serve for WorkerSide {
    fn port(&self, text: &str, teller: &Teller) -> Arc<dyn RegistrarPort> {
        let teller = teller.clone();
        log_elsewhere(Box::new(move |engine, hook, level, target, message| {
            let said = Said {
                engine: engine.to_owned(),
                hook: hook.to_owned(),
                level,
                target: target.to_owned(),
                message: message.to_owned(),
            };
            if let Ok(text) = serde_json::to_string(&said) {
                teller.say(&text);
            }
        }));
        Arc::new(Port { setup: setup(text) })
    }

    fn open(&self, opening: &Opening<'_>) -> Result<(), StageFailure> {
        let setup = setup(opening.setup);
        let (id, owner, factory, config) = match opening.subject {
            Subject::Engine(one) => (&one.engine_id, &one.plugin_id, Factory::Engine(one.factory), &one.config_json),
            Subject::Memory(one) => (&one.provider_id, &one.plugin_id, Factory::Memory(one.factory), &one.config_json),
        };
        let registered = Registered {
            id: id.clone(),
            owner: owner.clone(),
            factory,
            config_json: config.to_string(),
            grants: Vec::new(),
            host: table(owner, &setup),
            core: false,
            instances: usize::MAX,
            abandoned: Arc::new(Abandoned::new(usize::MAX)),
        };
        // The gateway keeps the time, makes the folders and judges; this one only knows what a call needs.
        let deadlines = Deadlines::new(&BTreeMap::new(), Hook::Compact.default_deadline());
        let core = EngineCore::new(registered, &deadlines, opening.state_root, None, Box::new(|_| "none".into()));
        let side = Side { core, instances: Mutex::default(), calls: Mutex::default(), rows: Mutex::default() };
        self.side.set(Arc::new(side)).map_err(|_| StageFailure::new(Cause::WorkerStart, "the worker was opened twice"))
    }

    fn serve(&self, lane: &'static ChildLane, frame: &[u8]) {
        if let Some(side) = self.side.get() {
            // A lane that fails has lost its gateway, and this process its purpose.
            let _ = side.serve(lane, frame);
        }
    }

    fn cancel(&self, call: u64) {
        let Some(side) = self.side.get() else { return };
        for (number, frame) in &*locked(&side.calls) {
            if call == EVERY_CALL || call == *number {
                frame.tell_to_stop();
            }
        }
    }
}

impl Side {
    fn serve(self: &Arc<Side>, lane: &'static ChildLane, bytes: &[u8]) -> Result<(), LaneError> {
        let began = Instant::now();
        let mut talk = Talk { lane, open: true, out: Vec::new(), back: Vec::new() };
        let Ok(ToWorker::Call(mut call)) = decode::<ToWorker<'_>>(bytes) else {
            return talk.say(&ToGateway::Returned(Reply::not_understood()));
        };
        let history = match call.input.rows() {
            None => None,
            Some(rows) => Some(self.history(&rows, &mut talk)?),
        };
        let relay = Arc::new(LaneRelay {
            side: Arc::clone(self),
            talk: Mutex::new(talk),
            history,
            next: AtomicUsize::new(usize::MAX),
            count: AtomicU32::new(FIRST_BODIES),
            back: AtomicBool::new(false),
        });
        let frame = Frame::relayed(Arc::clone(&self.core), Arc::clone(&relay) as Arc<dyn Relay>);
        let number = call.number;
        locked(&self.calls).insert(number, Arc::clone(&frame));
        let made = self.call(call, &relay, &frame, began);
        locked(&self.calls).remove(&number);
        let mut talk = locked(&relay.talk);
        talk.open = false;
        let mut sink = made.sink;
        let output = std::mem::take(&mut sink.output);
        let mut reply = Reply::of(made.status, output, &sink, &made.tokens);
        reply.made = made.made;
        reply.late_pushes = take_count(&self.core.stats.late_pushes);
        reply.late_service_calls = take_count(&self.core.stats.late_service_calls);
        talk.say(&ToGateway::Returned(reply))
    }

    /// The history of a call, with its version.
    fn history(&self, rows: &Rows<'_>, talk: &mut Talk) -> Result<History, LaneError> {
        let of = |rows: &Rows<'_>, view| History { session: rows.session.to_owned(), version: rows.version, view };
        if let Some(view) = locked(&self.rows).apply(rows) {
            return Ok(of(rows, view));
        }
        talk.say(&ToGateway::Stale)?;
        talk.hear()?;
        if let Ok(ToWorker::Whole(rows)) = decode::<ToWorker<'_>>(&talk.back)
            && let Some(view) = locked(&self.rows).apply(&rows)
        {
            return Ok(of(&rows, view));
        }
        Err(LaneError::Gone)
    }

    fn call(&self, call: Call<'_>, relay: &LaneRelay, frame: &Frame, began: Instant) -> Returned {
        let hook = call.input.hook();
        let session = Arc::new(call.session.into_owned());
        let view = relay.history.as_ref().map(|history| Arc::clone(&history.view));
        let setup = CallSetup {
            hook,
            params: call.params,
            session: Arc::clone(&session),
            view: view.as_ref().map(|view| (Arc::clone(view), view.heads.len())),
            limits: Limits::default(),
        };
        let view = view.unwrap_or_default();
        let instance = locked(&self.instances).get(&call.instance).cloned();
        let mut made = None;
        let returned = unjudged(frame, setup, (began, began + call.left), |wire| {
            let status = match call.input {
                Input::Create { agent_dir, workspace_dir, state_dir } => {
                    let (status, local) =
                        call_factory(&self.core, wire, &Order { agent_dir, workspace_dir, state_dir });
                    if status == status::OK {
                        made = Some(local.map(|local| self.keep(call.instance, local)));
                    }
                    Ok(status)
                }
                input => match &instance {
                    Some(local) => input.lend(&view, |input| local.invoke(wire, &session, call.params, input)),
                    None => Err(format!("there is no instance {}", call.instance)),
                },
            };
            status.map_or_else(
                |bad| {
                    frame.state().sink.fail = Some((bad, 0));
                    Outcome::Returned(status::ERROR)
                },
                Outcome::Returned,
            )
        });
        match hook {
            Hook::Dispose => drop(locked(&self.instances).remove(&call.instance)),
            Hook::OnSessionEnded => locked(&self.rows).drop_session(&session.session_id),
            _ => {}
        }
        match returned {
            Some(returned) => {
                let status = match returned.outcome {
                    Outcome::Returned(status) => status,
                    Outcome::Lost(_) | Outcome::NotMade(_) => status::ERROR,
                };
                Returned { status, made, sink: returned.sink, tokens: returned.tokens }
            }
            None => Returned { status: status::EXPIRED, made, sink: Sink::default(), tokens: Vec::new() },
        }
    }

    /// Keeps an instance; gives the hooks that it has, by bit.
    fn keep(&self, number: u32, local: Local) -> u32 {
        let has = Hook::ALL.iter().filter(|hook| local.has(**hook)).fold(0, |has, hook| has | 1 << hook.index());
        locked(&self.instances).insert(number, Arc::new(local));
        has
    }
}

fn take_count(count: &std::sync::atomic::AtomicU64) -> u32 {
    u32::try_from(count.swap(0, Ordering::Relaxed)).unwrap_or(u32::MAX)
}

/// What a call came to.
struct Returned {
    status: u32,
    made: Option<Result<u32, String>>,
    sink: Sink,
    tokens: Vec<u64>,
}

/// The history of a running call.
struct History {
    session: String,
    version: u64,
    view: Arc<View>,
}

/// The lane of a running call. One speaks at a time: an engine may ask from threads of its own.
struct Talk {
    lane: &'static ChildLane,
    /// False when the reply is on its way: whoever comes later is too late.
    open: bool,
    out: Vec<u8>,
    back: Vec<u8>,
}

impl Talk {
    fn say(&mut self, message: &ToGateway<'_>) -> Result<(), LaneError> {
        if encode(message, &mut self.out).is_err() {
            return Err(LaneError::Gone);
        }
        self.lane.send(&self.out)
    }

    fn hear(&mut self) -> Result<(), LaneError> {
        self.lane.receive(&mut self.back)
    }
}

/// Asks the gateway in the place of the services.
struct LaneRelay {
    side: Arc<Side>,
    talk: Mutex<Talk>,
    history: Option<History>,
    /// Where the engine would go on reading, how much is fetched then, and in which direction.
    next: AtomicUsize,
    count: AtomicU32,
    back: AtomicBool,
}

impl Relay for LaneRelay {
    fn ask(&self, frame: &Frame, request: &Request<'_>) -> Result<Answer, ServiceError> {
        let gone = |why: &str| ServiceError::new(ServiceStatus::Unavailable, why);
        let mut talk = locked(&self.talk);
        if !talk.open {
            return Err(ServiceError::new(ServiceStatus::Expired, "the call is over"));
        }
        let Talk { lane, out, .. } = &mut *talk;
        encode(&Asking::Ask(request), out).map_err(|_| gone("the request cannot be sent"))?;
        lane.send(out).map_err(|_| gone("the gateway is gone"))?;
        talk.hear().map_err(|_| gone("the gateway is gone"))?;
        match decode::<ToWorker<'_>>(&talk.back) {
            Ok(ToWorker::Answer { left, answer }) => {
                let until = Instant::now() + left;
                frame.extend(until);
                frame.shorten(until);
                answer
            }
            _ => Err(gone("the gateway's answer cannot be read")),
        }
    }

    fn body(&self, _: &Frame, index: usize) -> Result<Arc<Message>, u32> {
        let history = self.history.as_ref().ok_or(status::NOT_FOUND)?;
        let id = history.view.heads.get(index).ok_or(status::NOT_FOUND)?.id;
        let kept = || locked(&self.side.rows).body(&history.session, history.version, id);
        if let Some(body) = kept() {
            return Ok(body);
        }
        let mut talk = locked(&self.talk);
        if !talk.open {
            return Err(status::EXPIRED);
        }
        // Another thread may have fetched it meanwhile.
        if let Some(body) = kept() {
            return Ok(body);
        }
        let wanted = self.wanted(index);
        talk.say(&ToGateway::Bodies(wanted)).and_then(|()| talk.hear()).map_err(|_| status::UNAVAILABLE)?;
        let Ok(ToWorker::Bodies(lean)) = decode::<ToWorker<'_>>(&talk.back) else { return Err(status::ERROR) };
        let bodies: Result<Vec<Arc<Message>>, _> = lean.into_iter().map(|body| body.message().map(Arc::new)).collect();
        let bodies = bodies.map_err(|_| status::ERROR)?;
        let first = bodies.first().cloned().ok_or(status::NOT_FOUND)?;
        let at = |offset: usize| if wanted.back { index.checked_sub(offset) } else { index.checked_add(offset) };
        self.next.store(at(bodies.len()).unwrap_or(usize::MAX), Ordering::Relaxed);
        let ids = (0..bodies.len()).map_while(|offset| Some(history.view.heads.get(at(offset)?)?.id));
        locked(&self.side.rows).keep(&history.session, history.version, ids.zip(bodies.iter().cloned()));
        Ok(first)
    }
}

impl LaneRelay {
    /// What is fetched for a look at `index`: more and more while an engine reads on in one direction.
    fn wanted(&self, index: usize) -> Wanted {
        let next = self.next.load(Ordering::Relaxed);
        let count = if next == index {
            let more = self.count.load(Ordering::Relaxed).saturating_mul(2).min(MOST_BODIES);
            self.count.store(more, Ordering::Relaxed);
            more
        } else {
            // From the newest backwards is how a window is filled.
            let newest = self.history.as_ref().map_or(0, |history| history.view.heads.len());
            let back = if next == usize::MAX { index + 1 >= newest } else { index < next };
            self.back.store(back, Ordering::Relaxed);
            self.count.store(FIRST_BODIES, Ordering::Relaxed);
            FIRST_BODIES
        };
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        Wanted { index, count, back: self.back.load(Ordering::Relaxed) }
    }
}

/// A request on its way, borrowed: written like [`ToGateway::Ask`], whose variant is the first.
#[derive(serde::Serialize)]
enum Asking<'a> {
    Ask(&'a Request<'a>),
}
