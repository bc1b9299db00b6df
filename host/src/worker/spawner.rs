//! The thread that starts children.
//!
//! A child asks the system to be killed when its parent goes, and the system means the *thread* that started it. So all
//! children are started by one thread that never ends.

use std::process::{Child, Command};
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, PoisonError};

type Job = (Command, Sender<std::io::Result<Child>>);

static CURRENT: Mutex<Option<Sender<Job>>> = Mutex::new(None);

/// Starts `command`.
pub(super) fn spawn(command: Command) -> std::io::Result<Child> {
    let gone = || std::io::Error::other("the thread that starts children is gone");
    let sender = {
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        match &*current {
            Some(sender) => sender.clone(),
            None => current.insert(start()?).clone(),
        }
    };
    let (done, result) = mpsc::channel();
    sender.send((command, done)).map_err(|_| gone())?;
    result.recv().map_err(|_| gone())?
}

fn start() -> std::io::Result<Sender<Job>> {
    let (sender, jobs) = mpsc::channel::<Job>();
    std::thread::Builder::new().name("child-spawner".into()).spawn(move || {
        for (mut command, done) in jobs {
            let _ = done.send(command.spawn());
        }
    })?;
    Ok(sender)
}
