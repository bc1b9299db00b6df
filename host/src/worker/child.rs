//! The child's side: takes one library through all that the gateway would do with it, telling each step before it is taken.

use super::errand::{self, Mouth};
use super::protocol::{Line, ProbeRequest};
use crate::plugins::{
    Cause, MemoryRegistration, QuietPort, RegistrarPort, Registration, Stage, StageFailure, Wanted, bring_in,
};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// What is tried out.
#[derive(Debug, Clone, Copy)]
pub enum Subject<'a> {
    /// An engine.
    Engine(&'a Registration),
    /// A memory provider.
    Memory(&'a MemoryRegistration),
}

impl Subject<'_> {
    /// What a slot would call it.
    pub(super) fn wanted(&self) -> Wanted {
        match self {
            Subject::Engine(one) => Wanted::engine(&one.engine_id),
            Subject::Memory(one) => Wanted::memory(&one.provider_id),
        }
    }
}

/// One engine or memory provider to be tried: built with its configuration, checked, each hook called once, disposed.
pub struct SelfTest<'a> {
    /// Which one.
    pub subject: Subject<'a>,
    /// An empty folder for its state.
    pub state_dir: &'a Path,
    /// Deadlines of hooks as configured, keyed by hook in snake case; ms.
    pub deadlines: &'a BTreeMap<String, u64>,
    /// To be told of each step before it is taken: the stage, and the hook as documents spell it.
    pub progress: &'a dyn Fn(Stage, &str),
}

/// Runs the child and gives its exit code. `args` are what follows [`super::PROBE_ARGUMENT`]; `selftest` is the slot's,
/// which alone knows how an engine is called.
///
/// To be called before anything else is started: no runtime, no logging, no threads.
pub fn run_child(args: &[OsString], selftest: &dyn Fn(&SelfTest<'_>) -> Result<(), StageFailure>) -> i32 {
    match args {
        [request] => match errand::begin(Path::new(request)) {
            Ok((request, out)) => {
                try_out(&request, &out, selftest);
                0
            }
            Err(why) => complain("probe", &why),
        },
        _ => complain("probe", "the probe is started by the gateway, with the path of its request"),
    }
}

pub(super) fn complain(who: &str, why: &str) -> i32 {
    let _ = writeln!(std::io::stderr(), "{who}: {why}");
    2
}

#[cfg(target_os = "linux")]
pub(super) fn die_with_parent(parent: u32) -> Result<(), String> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|error| format!("prctl: {error}"))?;
    // It may have gone before it was asked for.
    match rustix::process::getppid() {
        Some(now) if now.as_raw_pid().cast_unsigned() == parent => Ok(()),
        _ => Err("the gateway that started it is gone".into()),
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn die_with_parent(_: u32) -> Result<(), String> {
    Ok(())
}

fn lock_in(request: &ProbeRequest, out: &Mouth) -> Result<(), StageFailure> {
    let report = out.confine(&request.load, &request.state_dir, &[])?;
    out.say(&Line::Sandbox { report });
    Ok(())
}

fn try_out(request: &ProbeRequest, out: &Mouth, selftest: &dyn Fn(&SelfTest<'_>) -> Result<(), StageFailure>) {
    if let Err(failure) = lock_in(request, out) {
        for wanted in &request.load.wanted {
            out.say(&Line::Failed { wanted: wanted.clone(), failure: failure.clone().into() });
        }
        return out.say(&Line::Done);
    }
    let port: Arc<dyn RegistrarPort> = Arc::new(QuietPort);
    let loaded = bring_in(&request.load, &port, &|stage| out.say(&Line::at(stage, None, None)));
    for text in loaded.notes {
        out.say(&Line::Note { text });
    }
    for (wanted, failure) in loaded.refused {
        out.say(&Line::Failed { wanted, failure: failure.into() });
    }
    let engines = loaded.registrations.iter().map(Subject::Engine);
    let subjects = engines.chain(loaded.memory.iter().map(Subject::Memory));
    for (number, subject) in subjects.enumerate() {
        let wanted = subject.wanted();
        if !request.load.wanted.contains(&wanted) {
            continue;
        }
        let progress = |stage: Stage, hook: &str| out.say(&Line::at(stage, Some(&wanted.id), Some(hook)));
        let state_dir = request.state_dir.join(number.to_string());
        let result = match std::fs::create_dir(&state_dir) {
            Ok(()) => selftest(&SelfTest {
                subject,
                state_dir: &state_dir,
                deadlines: &request.deadlines,
                progress: &progress,
            }),
            Err(error) => {
                Err(StageFailure::new(Cause::ProbeStart, "the probe's scratch folder cannot be used").because(error))
            }
        };
        if let Err(failure) = result {
            out.say(&Line::Failed { wanted, failure: failure.into() });
        }
    }
    out.say(&Line::Done);
}
