//! The child's side: plays one session after another with one engine, and tells what it found.

use super::blame::Finding;
use super::catalogue::Check;
use super::plays::{Lab, Play, Source};
use crate::plugins::{LoadRequest, QuietPort, RegistrarPort, Wanted, bring_in};
use crate::worker::errand::{self, Mouth, Request};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the child gets, in a file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ChildRequest {
    pub version: String,
    pub parent: u32,
    pub state_dir: PathBuf,
    pub load: LoadRequest,
    pub wanted: Wanted,
    pub play: Play,
    /// In a worker, else in the child.
    pub apart: bool,
    pub seed: u64,
    pub rounds: u32,
    pub deadlines: BTreeMap<String, u64>,
}

impl Request for ChildRequest {
    fn version(&self) -> &str {
        &self.version
    }

    fn parent(&self) -> u32 {
        self.parent
    }
}

/// A line of the child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "lowercase")]
pub(super) enum Line {
    /// What is done now: where it was, should the child die.
    At { doing: String },
    /// Found on the way.
    Found { finding: Finding },
    /// A check that does not apply.
    Skipped { check: Check, why: String },
    /// The play is over; `cut` when a finding ended it before its end.
    Done { cut: Option<Check> },
}

/// Runs the child and gives its exit code. `args` are what follows [`super::CHECK_ARGUMENT`].
///
/// To be called before anything else is started: no runtime, no logging, no threads.
pub fn run_child(args: &[OsString]) -> i32 {
    let [request] = args else {
        return complain("the child of a check is started by `engineroom plugins check`");
    };
    match errand::begin::<ChildRequest>(Path::new(request)) {
        Ok((request, mouth)) => {
            play(request, mouth);
            // Threads of a library may still run, and its destructors must not.
            crate::slot::exit_now(0)
        }
        Err(why) => complain(&why),
    }
}

fn complain(why: &str) -> i32 {
    let _ = writeln!(std::io::stderr(), "check: {why}");
    2
}

fn play(request: ChildRequest, mouth: Mouth) {
    let done = |cut: Option<Check>| Line::Done { cut };
    let fatal = |check: Check, found: String| {
        mouth.say(&Line::Found { finding: Finding::new(check, found) });
        mouth.say(&done(Some(check)));
    };
    // Opened while files can still be opened.
    let status = File::open("/proc/self/status").ok();
    let source = if request.apart {
        Source::Apart
    } else {
        let keep: Vec<_> = status.iter().map(AsRawFd::as_raw_fd).collect();
        if let Err(failure) = mouth.confine(&request.load, &request.state_dir, &keep) {
            return fatal(Check::Probe, failure.message);
        }
        let port: Arc<dyn RegistrarPort> = Arc::new(QuietPort);
        mouth.say(&Line::At { doing: "while the library was loaded".into() });
        let loaded = bring_in(&request.load, &port, &|_| ());
        if let Some((_, failure)) = loaded.refused.first() {
            return fatal(Check::Load, failure.message.clone());
        }
        match loaded.registrations.into_iter().find(|one| one.engine_id == request.wanted.id) {
            Some(registration) => Source::Here(Box::new(registration)),
            None => return fatal(Check::Register, format!("{} was not registered", request.wanted)),
        }
    };
    let play = request.play;
    let lab = Lab::new(request, source, status, mouth);
    let cut = lab.play(play);
    lab.say(&done(cut));
}
