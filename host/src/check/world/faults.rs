//! What goes wrong on purpose.

use crate::slot::{ServiceError, ServiceStatus};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A way in which services fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::check) enum Fault {
    /// Batches of the store are not applied.
    Batch,
    /// Reading the store fails.
    StoreRead,
    /// The model cannot be asked.
    Llm,
    /// Every service says that it is too late.
    Expired,
    /// The cursor is reset once, at its second page.
    Reset,
    /// Tokens cannot be counted.
    Tokens,
    /// The compaction of the host fails.
    Compaction,
    /// The model takes its time until it is told to stop.
    Slow,
}

type Hit = Box<dyn FnMut() + Send>;

/// The faults of a world.
#[derive(Default)]
pub(in crate::check) struct Faults {
    now: Mutex<Option<Fault>>,
    /// Calls that met a fault.
    met: AtomicU64,
    /// Service calls that are left until something is done, once: before or after that call is served.
    moment: Mutex<Option<(u64, bool, Hit)>>,
    /// Pages of the cursor since the fault was set.
    pages: AtomicU64,
}

impl Faults {
    /// From now on.
    pub(in crate::check) fn set(&self, fault: Option<Fault>) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = fault;
        self.pages.store(0, Ordering::Relaxed);
        self.met.store(0, Ordering::Relaxed);
    }

    /// Calls that met the fault since it was set.
    pub(in crate::check) fn met(&self) -> u64 {
        self.met.load(Ordering::Relaxed)
    }

    /// Does something at the service call that comes after `calls` others.
    pub(in crate::check) fn at(&self, calls: u64, after: bool, hit: impl FnMut() + Send + 'static) {
        *self.moment.lock().unwrap_or_else(PoisonError::into_inner) = Some((calls, after, Box::new(hit)));
    }

    /// Nothing is done any more.
    pub(in crate::check) fn calm(&self) {
        *self.moment.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.set(None);
    }

    /// True when that is what goes wrong now.
    fn is(&self, fault: Fault) -> bool {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) == Some(fault)
    }

    /// A service call begins, of which `own` is the fault.
    pub(in crate::check) fn begin(&self, own: Option<Fault>) -> Result<(), ServiceError> {
        self.count(false);
        if self.is(Fault::Expired) {
            self.met.fetch_add(1, Ordering::Relaxed);
            return Err(ServiceError::new(ServiceStatus::Expired, "the call came after the deadline"));
        }
        match own.filter(|fault| self.is(*fault)) {
            None => Ok(()),
            Some(fault) => {
                self.met.fetch_add(1, Ordering::Relaxed);
                Err(match fault {
                    Fault::Llm => ServiceError::unavailable("llm.complete"),
                    _ => ServiceError::new(ServiceStatus::Failed, "the service failed, as the check wanted"),
                })
            }
        }
    }

    /// A service call has been served.
    pub(in crate::check) fn end(&self) {
        self.count(true);
    }

    fn count(&self, after: bool) {
        let mut moment = self.moment.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((left, when, hit)) = moment.as_mut() else { return };
        if *when != after {
            return;
        }
        if *left > 0 {
            *left -= 1;
            return;
        }
        hit();
        *moment = None;
    }

    /// True when the model takes its time.
    pub(in crate::check) fn slow(&self) -> bool {
        self.is(Fault::Slow)
    }

    /// True for the page of the cursor that is to be reset.
    pub(in crate::check) fn resets(&self) -> bool {
        let due = self.is(Fault::Reset) && self.pages.fetch_add(1, Ordering::Relaxed) == 1;
        self.met.fetch_add(u64::from(due), Ordering::Relaxed);
        due
    }
}
