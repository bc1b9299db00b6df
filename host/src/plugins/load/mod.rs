//! From the private copy to registered engines: `load`, `layout`, `register`. The only part of the room that runs code of
//! a library. The probe's child and the gateway go through it alike, the child first.
//!
//! Each step runs on a thread that never ends (a library's thread-local destructors must not run) and under a deadline;
//! what does not return is abandoned. Libraries are never unloaded.
#![allow(unsafe_code, reason = "opens libraries, looks symbols up, and calls their entry")]

mod desk;
mod door;
mod quiet;
mod thread;

pub(crate) use quiet::QuietPort;

use super::cause::{Cause, Stage};
use super::manifest::Door;
use super::report::StageFailure;
use crate::config::LimitsConfig;
use crate::ledger::{self, Place, Sort, Watched};
use engine_abi::wire;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a library registers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A context engine.
    #[default]
    Engine,
    /// A memory provider.
    Memory,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kind::Engine => "engine",
            Kind::Memory => "memory provider",
        })
    }
}

/// What a slot lists: an engine or a memory provider. Their ids are namespaces of their own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Wanted {
    /// Which of the two.
    pub kind: Kind,
    /// Its id.
    pub id: String,
}

impl Wanted {
    /// An engine.
    pub fn engine(id: impl Into<String>) -> Wanted {
        Wanted { kind: Kind::Engine, id: id.into() }
    }

    /// A memory provider.
    pub fn memory(id: impl Into<String>) -> Wanted {
        Wanted { kind: Kind::Memory, id: id.into() }
    }

    /// What it is in the crash ledger.
    pub fn sort(&self) -> Sort {
        match self.kind {
            Kind::Engine => Sort::Engine,
            Kind::Memory => Sort::Memory,
        }
    }
}

impl std::fmt::Display for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind, self.id)
    }
}

/// The part of the host that a registering library talks to. Called on the loader's thread while `register` runs; after a
/// deadline such a call may come late, so the port lives as long as anybody holds it.
pub trait RegistrarPort: Send + Sync {
    /// Gives `id` to the plugin. May be called for an id that the plugin has already.
    ///
    /// # Errors
    /// Why not, for the report: the id is reserved, or belongs to another plugin (which is named).
    fn register(&self, kind: Kind, id: &str, plugin_id: &str) -> Result<(), String>;

    /// A line about the registration. `level` is one of [`wire::log_level`].
    fn log(&self, plugin_id: &str, level: u32, target: &str, message: &str);

    /// The host's table for that plugin; it must live for ever.
    fn host_table(&self, plugin_id: &str) -> *const wire::HostV1;
}

/// The factory of an engine. The contract lets it be called from any thread.
#[derive(Debug, Clone, Copy)]
pub struct RawFactory(pub wire::FactoryV1);

// SAFETY: `tag` is opaque to the host and only handed back; the contract allows `create` on any thread.
unsafe impl Send for RawFactory {}
// SAFETY: as above; several instances may be made at once.
unsafe impl Sync for RawFactory {}

/// The factory of a memory provider; same rules as [`RawFactory`].
#[derive(Debug, Clone, Copy)]
pub struct RawMemoryFactory(pub wire::MemoryFactoryV1);

// SAFETY: as for `RawFactory`.
unsafe impl Send for RawMemoryFactory {}
// SAFETY: as for `RawFactory`.
unsafe impl Sync for RawMemoryFactory {}

/// One registered engine.
#[derive(Debug, Clone)]
pub struct Registration {
    /// Id under which it is registered.
    pub engine_id: String,
    /// The plugin that owns the id.
    pub plugin_id: String,
    /// Makes instances.
    pub factory: RawFactory,
    /// The plugin's configuration, a JSON object that its schema accepts.
    pub config_json: Arc<str>,
    /// The private copy that it was loaded from.
    pub staged: PathBuf,
    /// Asks the library for a table by its id with version.
    pub extensions: Option<extern "C" fn(id: wire::Str) -> wire::ExtensionV1>,
}

/// One registered memory provider.
#[derive(Debug, Clone)]
pub struct MemoryRegistration {
    /// Id under which it is registered.
    pub provider_id: String,
    /// The plugin that owns the id.
    pub plugin_id: String,
    /// Makes instances.
    pub factory: RawMemoryFactory,
    /// The plugin's configuration.
    pub config_json: Arc<str>,
}

/// What is loaded, and how.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LoadRequest {
    /// Absolute path of the private copy.
    pub staged: PathBuf,
    pub plugin_id: String,
    pub door: Door,
    /// Ids that the manifest announces.
    pub engines: Vec<String>,
    pub memory: Vec<String>,
    /// What a slot lists, out of `engines` and `memory`.
    pub wanted: Vec<Wanted>,
    pub config_json: Arc<str>,
    /// What a process that is given the library may use; nothing in the gateway's own.
    pub limits: LimitsConfig,
    /// For each of the three steps.
    pub deadline_ms: u64,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub registrations: Vec<Registration>,
    pub memory: Vec<MemoryRegistration>,
    /// What was wanted and not registered.
    pub refused: Vec<(Wanted, StageFailure)>,
    pub notes: Vec<String>,
    pub timings: Vec<(Stage, Duration)>,
    /// True when a step was abandoned: a thread still runs code of the library.
    pub abandoned: bool,
}

/// Brings a library in. `progress` is told of each stage before it starts. A failure of the whole library stands in
/// `refused` for everything that is wanted of it.
pub(crate) fn bring_in(request: &LoadRequest, port: &Arc<dyn RegistrarPort>, progress: &dyn Fn(Stage)) -> Loaded {
    let mut loaded = Loaded::default();
    if let Err(failure) = steps(request, port, progress, &mut loaded) {
        loaded.refused = request.wanted.iter().map(|wanted| (wanted.clone(), failure.clone())).collect();
    }
    loaded
}

fn steps(
    request: &LoadRequest,
    port: &Arc<dyn RegistrarPort>,
    progress: &dyn Fn(Stage),
    loaded: &mut Loaded,
) -> Result<(), StageFailure> {
    let deadline = Duration::from_millis(request.deadline_ms);
    let watched = Watched::new(Sort::Library, &request.plugin_id, &request.plugin_id);
    let mut step = Step { deadline, progress, plugin: &request.plugin_id, watched, loaded };
    let (path, door) = (request.staged.clone(), request.door);
    let symbol = step.run(Stage::Load, Cause::LoadDeadline, move || {
        door::open(&path, door).inspect(|_| ledger::opened(watched, &path))
    })??;
    let entry = step.run(Stage::Layout, Cause::EntryDeadline, move || door::enter(symbol))??;
    let desk = desk::Desk::open(request, Arc::clone(port));
    let status = step.run(Stage::Register, Cause::RegisterDeadline, move || desk.serve(entry));
    // Closed before its books are read: what a late thread registers does not count.
    let mut books = desk.close();
    loaded.notes.append(&mut books.notes);
    books.judge(status?, request, entry, loaded)
}

struct Step<'a> {
    deadline: Duration,
    progress: &'a dyn Fn(Stage),
    plugin: &'a str,
    watched: Watched,
    loaded: &'a mut Loaded,
}

impl Step<'_> {
    fn run<T: Send + 'static>(
        &mut self,
        stage: Stage,
        late: Cause,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, StageFailure> {
        (self.progress)(stage);
        let start = Instant::now();
        let (watched, place) = (self.watched, place_of(stage));
        let result = thread::run(self.deadline, move || {
            let _running = ledger::enter(watched, place);
            work()
        });
        self.loaded.timings.push((stage, start.elapsed()));
        result.map_err(|lost| match lost {
            thread::Lost::Late => {
                self.loaded.abandoned = true;
                let limit = self.deadline.as_millis();
                let message = format!("plugin {} did not come back from {stage} within {limit} ms", self.plugin);
                StageFailure::new(late, message)
            }
            thread::Lost::NoThread(error) => {
                StageFailure::new(Cause::LoadFault, "no thread could be started for the loader").because(error)
            }
        })
    }
}

/// Where the crash ledger says that the library was.
fn place_of(stage: Stage) -> Place {
    match stage {
        Stage::Layout => Place::LAYOUT,
        Stage::Register => Place::REGISTER,
        _ => Place::LOAD,
    }
}
