//! The thread on which libraries are loaded and registered.
//!
//! It never ends: the end of a thread runs the thread-local destructors of the libraries that used it. A step that does
//! not return is left alone, and the next one gets a new thread.

use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

type Job = Box<dyn FnOnce() + Send>;

/// As large as the stacks that hooks are promised.
const STACK: usize = 8 * 1024 * 1024;

static CURRENT: Mutex<Option<Sender<Job>>> = Mutex::new(None);

/// Why there is no result.
#[derive(Debug)]
pub(super) enum Lost {
    /// The step did not return in time; its thread is abandoned.
    Late,
    /// No thread could be started.
    NoThread(std::io::Error),
}

/// Runs `work` on the loader's thread and waits for it, at most `deadline`.
pub(super) fn run<T: Send + 'static>(deadline: Duration, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Lost> {
    let (done, result) = mpsc::sync_channel(1);
    // Held until the end: the step of one caller must not wait for that of another within its own deadline.
    let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    let sender = match current.take() {
        Some(sender) => sender,
        None => start().map_err(Lost::NoThread)?,
    };
    let job: Job = Box::new(move || {
        let _ = done.send(work());
    });
    // A thread that is gone drops the job and with it `done`, which ends the wait at once.
    let _ = sender.send(job);
    let answer = result.recv_timeout(deadline).map_err(|_| Lost::Late)?;
    *current = Some(sender);
    Ok(answer)
}

fn start() -> std::io::Result<Sender<Job>> {
    let (sender, jobs) = mpsc::channel::<Job>();
    std::thread::Builder::new().name("engine-loader".into()).stack_size(STACK).spawn(move || {
        for job in jobs {
            job();
        }
        loop {
            std::thread::park();
        }
    })?;
    Ok(sender)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_hangs_is_left_and_the_next_one_runs() {
        let (release, hang) = mpsc::channel::<()>();
        let lost = run(Duration::from_millis(20), move || hang.recv()).unwrap_err();
        assert!(matches!(lost, Lost::Late));
        assert_eq!(run(Duration::from_secs(60), || 7).unwrap(), 7);
        drop(release);
    }

    #[test]
    fn steps_run_on_a_named_thread() {
        let name = || std::thread::current().name().map(str::to_owned);
        assert_eq!(run(Duration::from_secs(60), name).unwrap().as_deref(), Some("engine-loader"));
    }
}
