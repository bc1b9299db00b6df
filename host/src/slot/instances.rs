//! The instances of one engine: one per agent and workspace, made at first use, no more of them kept than the operator allows.
//!
//! A turn holds a [`Keep`] of its instance. Beyond the cap the one that was used longest ago is disposed, never one that a turn
//! holds or that a call is inside of; an agent whose instance is gone gets a new one with its next turn.

use super::call::frame::{Frame, GRACE};
use super::core::EngineCore;
use super::failure::{FailureKind, HookFailure};
use super::handoff;
use super::hook::Hook;
use super::instance::{self, Instance, InstanceKey};
use crate::sync::{AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Held by whoever will call an instance again.
#[derive(Debug, Clone)]
pub(crate) struct Keep(#[expect(dead_code, reason = "what counts is that it is there")] Arc<()>);

/// See the module.
pub(crate) struct Instances {
    inner: Mutex<Inner>,
    made: Condvar,
    /// Most instances that stay.
    most: usize,
    /// Instances that were disposed to make room.
    pub(crate) disposed: AtomicU64,
    /// Disposals that run.
    disposing: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Inner {
    instances: HashMap<InstanceKey, Making>,
    keeps: HashMap<InstanceKey, Weak<()>>,
    clock: u64,
}

enum Making {
    Now,
    Done { instance: Arc<Instance>, used: u64 },
}

impl Instances {
    pub(crate) fn new(most: usize) -> Instances {
        Instances {
            inner: Mutex::default(),
            made: Condvar::new(),
            most: most.max(1),
            disposed: AtomicU64::new(0),
            disposing: Arc::default(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the instance of this key, there or not yet, as long as the answer lives.
    pub(crate) fn keep(&self, key: &InstanceKey) -> Keep {
        let mut inner = self.inner();
        if let Some(kept) = inner.keeps.get(key).and_then(Weak::upgrade) {
            return Keep(kept);
        }
        if inner.keeps.len() > self.most * 2 {
            inner.keeps.retain(|_, kept| kept.strong_count() > 0);
        }
        let kept = Arc::new(());
        inner.keeps.insert(key.clone(), Arc::downgrade(&kept));
        Keep(kept)
    }

    /// The instance of this agent and workspace, made on this thread at first use. The caller counts as inside of it.
    pub(crate) fn enter(&self, key: &InstanceKey, frame: &Frame) -> Result<Arc<Instance>, HookFailure> {
        let core = &frame.core;
        let until = Instant::now() + core.deadline(Hook::Factory) + core.deadline(Hook::Info) + GRACE * 2;
        let mut inner = self.inner();
        loop {
            inner.clock += 1;
            let now = inner.clock;
            match inner.instances.get_mut(key) {
                Some(Making::Done { instance, used }) => {
                    *used = now;
                    // Under the lock, as whoever looks for an idle one does.
                    instance.inside.fetch_add(1, Ordering::AcqRel);
                    let instance = Arc::clone(instance);
                    let idle = inner.beyond(self.most);
                    drop(inner);
                    self.dispose(core, idle);
                    return Ok(instance);
                }
                None => break,
                Some(Making::Now) => {
                    if let Some(failure) = core.out(Hook::Factory) {
                        return Err(failure);
                    }
                    if Instant::now() >= until {
                        let reason = "its instance is still being made";
                        return Err(core.not_made(Hook::Factory, FailureKind::Busy, reason));
                    }
                    let pause = Duration::from_millis(20);
                    inner = self.made.wait_timeout(inner, pause).unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
        inner.instances.insert(key.clone(), Making::Now);
        drop(inner);
        let made = instance::make(core, key, frame).map(Arc::new);
        let mut inner = self.inner();
        let mut idle = Vec::new();
        match &made {
            Ok(instance) => {
                core.met(instance);
                instance.inside.fetch_add(1, Ordering::AcqRel);
                inner.clock += 1;
                let used = inner.clock;
                inner.instances.insert(key.clone(), Making::Done { instance: Arc::clone(instance), used });
                idle = inner.beyond(self.most);
            }
            Err(_) => {
                inner.instances.remove(key);
            }
        }
        drop(inner);
        self.made.notify_all();
        self.dispose(core, idle);
        made
    }

    fn dispose(&self, core: &Arc<EngineCore>, idle: Vec<Arc<Instance>>) {
        for instance in idle {
            self.disposed.fetch_add(1, Ordering::Relaxed);
            self.disposing.fetch_add(1, Ordering::AcqRel);
            let (core, disposing) = (Arc::clone(core), Arc::clone(&self.disposing));
            let until = Instant::now() + core.deadline(Hook::Dispose);
            let disposal = handoff::dispose(&core, instance, until);
            let finish = move || {
                if let Some(Err(failure)) = disposal.map(handoff::Disposal::finish) {
                    tracing::warn!("{failure}");
                }
                disposing.fetch_sub(1, Ordering::AcqRel);
            };
            // Watched, so that one that hangs is noticed; without a runtime nobody makes a second instance.
            match &core.runtime {
                Some(runtime) => drop(runtime.spawn_blocking(finish)),
                None => finish(),
            }
        }
    }

    /// True when no disposal to make room is going on.
    pub(crate) fn quiet(&self) -> bool {
        self.disposing.load(Ordering::Acquire) == 0
    }

    /// All instances that are there.
    pub(crate) fn all(&self) -> Vec<Arc<Instance>> {
        let done = |making: &Making| match making {
            Making::Done { instance, .. } => Some(Arc::clone(instance)),
            Making::Now => None,
        };
        self.inner().instances.values().filter_map(done).collect()
    }
}

impl Inner {
    /// Takes out what is beyond `most`: the least recently used ones that nobody holds and no call is inside of.
    fn beyond(&mut self, most: usize) -> Vec<Arc<Instance>> {
        let mut out = Vec::new();
        while self.instances.len() > most {
            let kept = |key: &InstanceKey| self.keeps.get(key).is_some_and(|kept| kept.strong_count() > 0);
            let idle = self.instances.iter().filter_map(|(key, making)| match making {
                Making::Done { instance, used } if instance.inside.load(Ordering::Acquire) == 0 && !kept(key) => {
                    Some((*used, key.clone()))
                }
                _ => None,
            });
            let Some((_, key)) = idle.min_by_key(|(used, _)| *used) else { break };
            self.keeps.remove(&key);
            if let Some(Making::Done { instance, .. }) = self.instances.remove(&key) {
                out.push(instance);
            }
        }
        out
    }
}
