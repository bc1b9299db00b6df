//! The threads of one engine: few, named, with 8 MiB of stack, and never ending, since the thread-local destructors of a
//! library must not run.

use super::abandoned::ENGINE_MAX;
use crate::sync::{self, Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};

/// Stack of a hook thread.
pub(crate) const STACK: usize = 8 * 1024 * 1024;
/// Most threads of one engine, given-up ones aside.
pub(crate) const THREADS_MAX: usize = 32;

type Job = Box<dyn FnOnce() + Send>;

/// See the module.
#[derive(Clone)]
pub(crate) struct Pool(Arc<Inner>);

struct Inner {
    name: String,
    state: Mutex<State>,
    bell: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    idle: usize,
    /// Threads that may take work: all but the given-up ones.
    threads: usize,
    spawned: usize,
    /// Threads inside of calls that were given up and have not returned.
    given_up: usize,
}

impl Pool {
    /// A pool without threads; they come with the work.
    pub(crate) fn new(engine: &str) -> Pool {
        Pool(Arc::new(Inner { name: format!("er-{engine}"), state: Mutex::default(), bell: Condvar::new() }))
    }

    /// Hands work to a thread. An error when the system gives no thread and none is there.
    pub(crate) fn submit(&self, job: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let mut state = self.state();
        state.queue.push_back(Box::new(job));
        if state.idle >= state.queue.len() {
            drop(state);
            self.0.bell.notify_one();
            return Ok(());
        }
        match self.grow(&mut state) {
            // Those that are there will come to it.
            Err(_) if state.threads > 0 => Ok(()),
            Err(error) => {
                state.queue.pop_back();
                Err(error)
            }
            Ok(()) => Ok(()),
        }
    }

    /// A thread was given up inside a call: it is replaced while the cap allows it.
    pub(crate) fn give_up(&self) {
        let mut state = self.state();
        state.given_up += 1;
        state.threads = state.threads.saturating_sub(1);
        if !state.queue.is_empty() {
            // Without a thread the waiting work is withdrawn when its time is over.
            let _ = self.grow(&mut state);
        }
    }

    /// A given-up thread came back from its call and takes work again.
    pub(crate) fn came_back(&self) {
        let mut state = self.state();
        state.given_up = state.given_up.saturating_sub(1);
        state.threads += 1;
    }

    /// True when as many threads are given up as may be.
    pub(crate) fn is_spent(&self) -> bool {
        self.state().given_up >= ENGINE_MAX
    }

    /// Threads that may take work.
    pub(crate) fn threads(&self) -> usize {
        self.state().threads
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn grow(&self, state: &mut State) -> std::io::Result<()> {
        if state.threads >= THREADS_MAX || state.threads + state.given_up >= THREADS_MAX + ENGINE_MAX {
            return Ok(());
        }
        let inner = Arc::clone(&self.0);
        sync::spawn(format!("{}-{}", inner.name, state.spawned), STACK, move || inner.serve())?;
        state.threads += 1;
        state.spawned += 1;
        Ok(())
    }
}

impl Inner {
    fn serve(&self) -> ! {
        loop {
            let job = {
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                loop {
                    if let Some(job) = state.queue.pop_front() {
                        break job;
                    }
                    state.idle += 1;
                    state = self.bell.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.idle -= 1;
                }
            };
            // Only the host's own part of the work can unwind; whoever waits for it sees its channel closed.
            if catch_unwind(AssertUnwindSafe(job)).is_err() {
                tracing::error!(thread = %self.name, "work on an engine's thread panicked");
            }
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("name", &self.0.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn work_runs_on_a_thread_named_after_the_engine_and_survives_a_panic() {
        let pool = Pool::new("window");
        let (tx, rx) = mpsc::channel();
        pool.submit(|| panic!("the host's own part")).unwrap();
        let sender = tx.clone();
        pool.submit(move || sender.send(std::thread::current().name().unwrap().to_owned()).unwrap()).unwrap();
        assert!(rx.recv().unwrap().starts_with("er-window-"));
        drop(tx);
    }

    #[test]
    fn there_are_never_more_threads_than_the_cap_and_a_given_up_one_makes_room() {
        let pool = Pool::new("busy");
        let (release, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        for _ in 0..THREADS_MAX + 5 {
            let gate = Arc::clone(&gate);
            pool.submit(move || {
                let _ = gate.lock().unwrap().recv();
            })
            .unwrap();
        }
        assert_eq!(pool.threads(), THREADS_MAX);
        pool.give_up();
        assert_eq!(pool.threads(), THREADS_MAX, "work was waiting, so the thread was replaced");
        drop(release);
    }

    #[test]
    fn given_up_threads_are_replaced_only_so_often_until_they_come_back() {
        let pool = Pool::new("stuck");
        let (release, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        for _ in 0..THREADS_MAX + ENGINE_MAX + 5 {
            let gate = Arc::clone(&gate);
            pool.submit(move || {
                let _ = gate.lock().unwrap().recv();
            })
            .unwrap();
        }
        for _ in 0..ENGINE_MAX {
            assert!(!pool.is_spent());
            pool.give_up();
        }
        assert!(pool.is_spent());
        assert_eq!(pool.threads(), THREADS_MAX, "each was replaced");
        pool.give_up();
        assert_eq!(pool.threads(), THREADS_MAX - 1, "and this one was not");
        pool.came_back();
        pool.came_back();
        assert!(!pool.is_spent());
        drop(release);
    }
}
