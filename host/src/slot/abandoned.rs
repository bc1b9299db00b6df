//! Threads that were given up inside a call: counted for the process, and capped.
//!
//! Nothing can take a thread out of a call that never returns; it stays until the process ends, with what it holds. So the
//! number is bounded: at the cap no engine is called on a thread of this process any more, `legacy` serves, and the gateway
//! asks for a restart as long as it stays so.

use serde::Serialize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Most given-up threads of one engine or memory provider; as many as it may have for its work.
pub(crate) const ENGINE_MAX: usize = super::pool::THREADS_MAX;

/// The count of one process.
#[derive(Debug)]
pub(crate) struct Abandoned {
    live: AtomicUsize,
    most: usize,
    told: AtomicBool,
}

/// What reports show of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AbandonedStatus {
    /// Threads that are inside of a call that was given up.
    pub live: usize,
    /// From so many on no engine is called in-process.
    pub most: usize,
    /// The same for one engine alone.
    pub most_of_an_engine: usize,
    /// Why a restart is asked for; `None` as long as none is.
    pub restart: Option<String>,
}

impl Abandoned {
    /// None yet; `most` is the cap.
    pub(crate) fn new(most: usize) -> Abandoned {
        Abandoned { live: AtomicUsize::new(0), most, told: AtomicBool::new(false) }
    }

    /// So many threads were given up.
    pub(crate) fn more(&self, threads: usize) {
        let live = self.live.fetch_add(threads, Ordering::AcqRel) + threads;
        if live >= self.most && !self.told.swap(true, Ordering::AcqRel) {
            tracing::error!(
                threads = live,
                most = self.most,
                "{} threads are inside of calls that never came back, which is as many as there may be: no engine is called \
                 in-process any more. The gateway goes on serving without them. To do: restart the gateway; give engines \
                 that hang `isolation = \"process\"`, or mend them",
                live
            );
        }
    }

    /// A given-up call returned, and its thread is of use again.
    pub(crate) fn fewer(&self) {
        // More never came back than were given up; a wrap would close the gateway to engines for good.
        let _ = self.live.fetch_update(Ordering::AcqRel, Ordering::Acquire, |live| live.checked_sub(1));
    }

    /// Why no engine may be called in-process; `None` while it may.
    pub(crate) fn full(&self) -> Option<String> {
        let live = self.live.load(Ordering::Acquire);
        (live >= self.most).then(|| {
            format!(
                "{live} threads are inside of calls that never came back, and {} is the most: a restart is due",
                self.most
            )
        })
    }

    pub(crate) fn status(&self) -> AbandonedStatus {
        AbandonedStatus {
            live: self.live.load(Ordering::Acquire),
            most: self.most,
            most_of_an_engine: ENGINE_MAX,
            restart: self.full(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_the_cap_a_restart_is_asked_for_and_below_it_no_more() {
        let abandoned = Abandoned::new(3);
        abandoned.more(2);
        assert_eq!(abandoned.full(), None);
        abandoned.more(1);
        let status = abandoned.status();
        assert!(status.restart.as_deref().is_some_and(|reason| reason.contains("restart")), "{status:?}");
        assert_eq!((status.live, status.most), (3, 3));
        abandoned.fewer();
        assert_eq!(abandoned.full(), None);
        for _ in 0..5 {
            abandoned.fewer();
        }
        assert_eq!(abandoned.status().live, 0);
    }
}
