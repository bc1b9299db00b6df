//! The crash ledger: who was being called when the gateway died, and what follows for the next start.
//!
//! ```text
//!  start:  lock held ─► ledger of the last process ─► verdict ─► crash-verdicts.json ─► new crash-ledger, mapped
//!  call:   enter ─► the engine ─► leave            (two stores; a service of the host sets a flag meanwhile)
//!  death:  a handler writes one cause into the map, which survives the process
//!  stop:   the ledger says that the end was a good one
//! ```
//!
//! Only in-process engines are watched: a worker's death is told by its parent. The map and the handlers are in `live`, which
//! alone is `unsafe` here; `format` is the file, `verdict` what a ledger comes to, `table` what lasts.
//!
//! # What cannot be told from a kill
//!
//! These leave no cause, like `kill -9`, the OOM killer or a container that is stopped hard. If calls were running, their
//! engines are *unexplained*, else nobody is suspected:
//!
//! - the system call `exit_group` made directly, and `execve`;
//! - `SIGKILL` that an engine sends to the process, and limits of the system that end it (CPU time, memory);
//! - a fault while the engine has blocked its signal, or after it has reset the handler;
//! - a stack overflow on a thread that the engine started itself, without an alternate stack;
//! - a fault in a thread of the engine's own that is deep in a library that only the engine uses, when no caller on its stack
//!   is in the engine's library; an engine that has overwritten the map;
//! - on other systems than Linux with glibc: `_exit` and `quick_exit`, and threads of the engine's own.

mod format;
#[doc(hidden)]
pub mod fuzzing;
mod live;
mod maps;
mod table;
mod verdict;

pub use format::Sort;
pub use live::{Running, Serving, is_ignored, serving};
pub use table::{Crash, Held};
pub use verdict::Verdict;

use crate::observe::broken;
use format::Old;
use serde::Serialize;
use std::fs::{File, TryLockError};
use std::io::Write;
use std::path::Path;
use table::Table;

/// Name of the file in the state folder.
const LEDGER: &str = "crash-ledger";
/// Name of the lock of the state folder, which the store holds.
const LOCK: &str = "gateway.lock";

/// Where code of an engine runs: a load stage or a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place(u8);

impl Place {
    /// `dlopen`: constructors.
    pub const LOAD: Place = Place(0);
    /// The entry.
    pub const LAYOUT: Place = Place(1);
    /// `register`.
    pub const REGISTER: Place = Place(2);

    /// A hook by its number.
    #[inline]
    pub const fn hook(index: usize) -> Place {
        Place(3 + index as u8)
    }
}

/// Names of the places before the hooks.
const STAGES: [&str; 3] = ["load", "layout", "register"];

/// Who is called, as the ledger knows him.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Watched(Option<u16>);

impl Watched {
    /// Nobody: what is called needs no watching.
    pub const NOBODY: Watched = Watched(None);

    /// Somebody who is called in this process. Nobody while no ledger is kept.
    pub fn new(sort: Sort, id: &str, plugin: &str) -> Watched {
        Watched(live::subject(sort, id, plugin))
    }
}

/// A call begins on this thread; it is over when the value is dropped.
#[inline]
pub fn enter(watched: Watched, place: Place) -> Running {
    match watched.0 {
        Some(subject) => live::enter(subject, place.0),
        None => live::unwatched(),
    }
}

/// A library was opened: a fault inside of it accuses it from here on, whoever runs it.
pub(crate) fn opened(library: Watched, path: &Path) {
    let Some(subject) = library.0.filter(|_| live::kept()) else { return };
    for (from, to) in maps::of(path) {
        live::range(from, to, subject);
    }
}

/// The ledger of this process. Dropped without [`Ledger::close`], the process counts as ended badly once it is gone.
#[derive(Debug)]
pub struct Ledger(());

impl Ledger {
    /// The process was told to stop. Without a recorded cause, an end from here on accuses nobody.
    pub fn stopping(&self) {
        live::stopping();
    }

    /// The process ends in good order; nothing that follows is written.
    pub fn close(&self) {
        live::stop();
    }
}

/// What is held against engines, and how the last process ended.
#[derive(Debug, Clone, Default)]
pub struct Verdicts {
    crashes: Vec<Crash>,
    previous: Option<Previous>,
    damaged: Option<String>,
}

/// How the last process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Previous {
    /// The verdict.
    pub verdict: Verdict,
    /// What ended it, where that was recorded.
    pub cause: Option<String>,
    /// What of its ledger, or of the verdicts before it, cannot be read or understood.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damaged: Option<String>,
}

impl Verdicts {
    /// Why this must not be loaded in-process.
    pub fn crashed(&self, sort: Sort, id: &str, plugin: &str) -> Option<&Crash> {
        self.held(sort, id, plugin).filter(|crash| crash.verdict == Held::Crashed)
    }

    /// What is held against an engine or memory provider.
    pub fn held(&self, sort: Sort, id: &str, plugin: &str) -> Option<&Crash> {
        let (id, plugin) = (format::kept(id), format::kept(plugin));
        let own = |crash: &&Crash| crash.kind == sort && crash.id == id;
        let library = |crash: &&Crash| crash.kind == Sort::Library && crash.id == plugin;
        let all = || self.crashes.iter().filter(|crash| own(crash) || library(crash));
        all().find(|crash| crash.verdict == Held::Crashed).or_else(|| all().next())
    }

    /// Why a plugin is served from a worker this time, whatever its entry says; `None` where it says so alone.
    pub fn to_worker(&self, plugin: &str) -> Option<&'static str> {
        let own = || self.crashes.iter().any(|crash| crash.worker && crash.plugin == format::kept(plugin));
        if self.damaged.is_some() {
            // Who ended that process can no longer be told, so nobody is let in without a look.
            Some("what the last gateway process left of its engines is damaged")
        } else {
            own().then_some("the last gateway process ended while it was called")
        }
    }

    /// What of the ledger or of the verdicts cannot be read or understood.
    pub fn damaged(&self) -> Option<&str> {
        self.damaged.as_deref()
    }

    /// How the last process ended, where its ledger was there.
    pub fn previous(&self) -> Option<&Previous> {
        self.previous.as_ref()
    }
}

/// Judges what the last process left and begins a ledger of this one, which holds the lock of the state folder. Never fails:
/// what cannot be read or written is told, and the gateway starts all the same. `hooks`: names of the hooks by number.
/// `loads`: whether this process may load engines at all.
pub fn begin(folder: &Path, hooks: &[&str], loads: bool) -> (Verdicts, Option<Ledger>) {
    let boot = boot_id();
    let (mut table, trouble) = Table::read(folder);
    if let Some(trouble) = trouble {
        let path = folder.join(table::DOCUMENT);
        let kept = path.with_extension("json.damaged");
        let _ = std::fs::rename(&path, &kept);
        tracing::warn!("{trouble}: what was held against engines is forgotten; kept as {}", kept.display());
        table.damaged = Some(trouble);
    }
    let judged = judge(folder, &boot, &mut table);
    let verdicts = verdicts(&table, judged.previous);
    if let Some(damage) = verdicts.damaged() {
        tracing::warn!(
            "{damage}: whether an engine ended the last gateway process cannot be told; this time all engines that are \
             loaded from libraries are served from workers"
        );
    }
    let taken = loads && table.workers_taken();
    if (judged.changed || taken)
        && let Err(error) = table.write(folder)
    {
        tracing::error!("a verdict about a crash cannot be kept in {}: {error}", folder.display());
        // The old ledger stays, so that the next start comes to the same verdict.
        return (verdicts, None);
    }
    match open(folder, &boot, hooks) {
        Ok(ledger) => (verdicts, ledger),
        Err(error) => {
            tracing::warn!("no crash ledger in {}: {error}; a crash of an engine goes unseen", folder.display());
            (verdicts, None)
        }
    }
}

/// The same without changing anything: for whoever only wants to know. While another process holds the state folder, its
/// ledger is not the last one's.
pub fn look(folder: &Path) -> Verdicts {
    let (mut table, trouble) = Table::read(folder);
    table.damaged = trouble.or(table.damaged);
    let previous = if is_held(folder) { None } else { judge(folder, &boot_id(), &mut table).previous };
    verdicts(&table, previous)
}

fn verdicts(table: &Table, previous: Option<Previous>) -> Verdicts {
    let damaged = table.damaged.clone();
    let unknown = || Previous { verdict: Verdict::Unknown, cause: None, damaged: None };
    let previous = match &damaged {
        None => previous,
        Some(_) => Some(Previous { damaged: damaged.clone(), ..previous.unwrap_or_else(unknown) }),
    };
    Verdicts { crashes: table.crashes.clone(), previous, damaged }
}

/// The check is off: an old ledger means nothing later. Verdicts stay for when it is on again.
pub fn forget(folder: &Path) {
    let _ = std::fs::remove_file(folder.join(LEDGER));
}

/// Takes out what is held against an engine, a memory provider or a plugin; gives what it was. Holds from the next start on.
/// `plugin`: the one that offers the engine; what is held against its library as a whole goes, too.
///
/// # Errors
///
/// When the document cannot be written.
pub fn release(folder: &Path, id: &str, plugin: Option<&str>) -> std::io::Result<Vec<Crash>> {
    let (mut table, _) = Table::read(folder);
    // What no gateway has judged yet is judged now, so that the next one does not find it.
    let lock = lock(folder);
    if lock.is_some() {
        judge(folder, &boot_id(), &mut table);
    }
    let released = table.release(id, plugin);
    if !released.is_empty() {
        table.write(folder)?;
    }
    Ok(released)
}

/// What came of an old ledger.
struct Judged {
    previous: Option<Previous>,
    changed: bool,
}

fn judge(folder: &Path, boot: &str, table: &mut Table) -> Judged {
    let nothing = Judged { previous: None, changed: false };
    let path = folder.join(LEDGER);
    let read = match std::fs::read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return nothing,
        Err(error) => Err(error.to_string()),
        Ok(bytes) => Old::read(&bytes).map_err(str::to_owned),
    };
    let old = match read {
        Ok(old) => old,
        // Not known to be a good end, and perhaps a crash: treated as one that nothing explains.
        Err(why) => {
            table.damaged = Some(format!("the crash ledger {} cannot be understood: {why}", path.display()));
            return Judged { previous: None, changed: true };
        }
    };
    if table.has_judged(&old) {
        return nothing;
    }
    let judgement = verdict::judge(&old, boot);
    let changed = table.take(&judgement, now_ms());
    if changed {
        table.judged(&old);
    }
    Judged { previous: Some(Previous { verdict: judgement.verdict, cause: judgement.cause, damaged: None }), changed }
}

/// Makes a blank ledger, whole from its first moment, and maps it. `None` when another part of this process keeps one.
fn open(folder: &Path, boot: &str, hooks: &[&str]) -> std::io::Result<Option<Ledger>> {
    let places: Vec<&str> = STAGES.iter().chain(hooks).copied().collect();
    // A temporary file has mode 0600 from its first moment. Its bytes are written, not only its length: a full disk must be an
    // error here, and not a signal at the first call.
    let mut file = tempfile::Builder::new().prefix(".crash-ledger.").tempfile_in(folder)?;
    file.write_all(&format::blank(std::process::id(), now_ms(), boot, &places))?;
    if !live::start(file.as_file())? {
        return Ok(None);
    }
    let ledger = Ledger(());
    if let Err(failed) = file.persist(folder.join(LEDGER)) {
        ledger.close();
        return Err(failed.error);
    }
    if !broken("ledger.handlers") {
        live::install();
        live::watch_exits();
    }
    Ok(Some(ledger))
}

/// The lock of the folder, when it is there and nobody has it.
fn lock(folder: &Path) -> Option<File> {
    let lock = File::open(folder.join(LOCK)).ok()?;
    lock.try_lock().is_ok().then_some(lock)
}

fn is_held(folder: &Path) -> bool {
    let Ok(lock) = File::open(folder.join(LOCK)) else { return false };
    matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// What distinguishes this run of the machine from others; empty when nothing does.
fn boot_id() -> String {
    #[cfg(target_os = "linux")]
    {
        std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
    }
    #[cfg(not(target_os = "linux"))]
    {
        live::boot_session()
    }
}

fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
