//! A memory provider: Markdown notes in a folder. A person can read, write and version them with any tool; agents search them
//! and add to the note of the day.
//!
//! The index lives in memory and follows the folder: at each search only the notes whose time or size changed are read again.

mod append;
mod chunks;
mod folder;
mod index;
mod section;
mod words;

use engine_abi::*;
use folder::{FILE_MAX, Listed, Stamp};
use index::Index;
use serde::Deserialize;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, SystemTime};

/// Most bytes of all notes together in the index.
const TOTAL_MAX: u64 = 64 * 1024 * 1024;
/// Name of the default folder in a workspace.
const FOLDER: &str = "memory";

/// `[plugins.entries.notes.config]`; see `schema.json`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    folder: Option<String>,
    section_chars: Option<usize>,
    read_only: bool,
}

struct Notes {
    root: PathBuf,
    /// Where else the main note may be: a workspace has it beside its folder of notes.
    beside: Option<PathBuf>,
    section_chars: usize,
    read_only: bool,
    known: Mutex<Known>,
    writing: Mutex<()>,
}

/// The index and what it was made from.
#[derive(Default)]
struct Known {
    index: Index,
    files: HashMap<String, Seen>,
    bytes: u64,
}

struct Seen {
    stamp: Stamp,
    read: SystemTime,
    bytes: u64,
}

#[hooks]
impl MemoryProvider for Notes {
    type Config = Config;

    fn create(config: Config, factory: &Factory) -> Result<Self> {
        let workspace = factory.workspace_dir();
        let root = match (&config.folder, workspace) {
            (Some(folder), _) => workspace.unwrap_or(factory.state_dir()).join(folder),
            (None, Some(workspace)) => workspace.join(FOLDER),
            (None, None) => factory.state_dir().to_path_buf(),
        };
        if root.exists() && !root.is_dir() {
            return Err(Error::new(format_args!("{} is no folder", root.display())));
        }
        let beside = workspace.filter(|_| config.folder.is_none()).map(|workspace| workspace.join(section::MAIN));
        Ok(Notes {
            root,
            beside,
            section_chars: config.section_chars.unwrap_or(6_000),
            read_only: config.read_only,
            known: Mutex::default(),
            writing: Mutex::default(),
        })
    }

    fn info(&self) -> Info {
        Info::new("notes", "Notes").version(env!("CARGO_PKG_VERSION"))
    }

    fn prompt_section(&self, _: &Context, request: &PromptSectionRequest) -> Result<Option<String>> {
        let notes = self.notes()?;
        let parts = section::Parts {
            main: &self.main_note(&notes),
            notes: &notes,
            tools: &request.available_tools(),
            citations: request.citations_mode(),
            most: self.section_chars,
        };
        Ok(section::section(&parts))
    }

    fn search(&self, context: &Context, query: &str, limit: usize) -> Result<Vec<MemoryHit>> {
        let notes = self.notes()?;
        let mut known = self.known(context)?;
        known.follow(&notes, context)?;
        let found = known.index.search(query, limit).into_iter();
        Ok(found.map(|found| hit(&found)).collect())
    }

    fn append(&self, context: &Context, text: &str) -> Result<()> {
        if self.read_only {
            return Err(Error::unsupported());
        }
        // A writer that panicked has written all or nothing.
        let _one_at_a_time = self.writing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        context.check()?;
        let name = append::append(&self.root, text, SystemTime::now()).map_err(|error| self.at_folder(&error))?;
        tracing::debug!(note = name, "a note was kept");
        Ok(())
    }
}

impl Notes {
    fn notes(&self) -> Result<Vec<Listed>> {
        folder::list(&self.root).map_err(|error| self.at_folder(&error))
    }

    /// The system's words do not say which folder they are about.
    fn at_folder(&self, error: &std::io::Error) -> Error {
        Error::new(format_args!("the notes in {}: {error}", self.root.display()))
    }

    /// Text of the main note, in the folder or else beside it.
    fn main_note(&self, notes: &[Listed]) -> String {
        let inside = notes.iter().find(|note| note.name == section::MAIN).map(|note| note.real.as_path());
        let path: Option<&Path> = inside.or(self.beside.as_deref());
        path.and_then(|path| folder::read(path, FILE_MAX).ok()).unwrap_or_default()
    }

    /// The index, as soon as no other call works with it, and no later than this call may wait.
    fn known(&self, context: &Context) -> Result<MutexGuard<'_, Known>> {
        loop {
            match self.known.try_lock() {
                Ok(known) => return Ok(known),
                // Half an index is no worse than an old one: the next look at the folder mends it.
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => context.check()?,
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Known {
    /// Reads what changed since the last time. When there is much of it, as much as half of the call's time allows: the next
    /// search goes on.
    fn follow(&mut self, notes: &[Listed], context: &Context) -> Result<()> {
        let here: std::collections::HashSet<&str> = notes.iter().map(|note| note.name.as_str()).collect();
        let gone: Vec<String> = self.files.keys().filter(|name| !here.contains(name.as_str())).cloned().collect();
        for name in gone {
            self.forget(&name);
        }
        let enough = context.remaining() / 2;
        // The newest first: they are what is asked for most.
        for (at, note) in notes.iter().rev().enumerate() {
            if self
                .files
                .get(&note.name)
                .is_some_and(|seen| seen.stamp == note.stamp && !note.stamp.is_fresh(seen.read))
            {
                continue;
            }
            context.check()?;
            if context.remaining() < enough {
                tracing::info!(left = notes.len() - at, "many notes are new; the next search reads on");
                break;
            }
            self.take(note);
        }
        Ok(())
    }

    fn take(&mut self, note: &Listed) {
        let read = SystemTime::now();
        self.forget(&note.name);
        // A note that is gone meanwhile, or may not be read, is none.
        let Ok(text) = folder::read(&note.real, FILE_MAX) else { return };
        let bytes = text.len() as u64;
        let fits = self.bytes + bytes <= TOTAL_MAX;
        if fits {
            self.index.put(&note.name, chunks::chunks(&text), note.stamp.time_ms());
        } else {
            tracing::warn!(note = note.name, "the notes are larger than {TOTAL_MAX} bytes; this one is not searched");
        }
        let bytes = if fits { bytes } else { 0 };
        self.bytes += bytes;
        self.files.insert(note.name.clone(), Seen { stamp: note.stamp, read, bytes });
    }

    fn forget(&mut self, name: &str) {
        if let Some(seen) = self.files.remove(name) {
            self.bytes -= seen.bytes;
            self.index.remove(name);
        }
    }
}

fn hit(found: &index::Found<'_>) -> MemoryHit {
    let text = match found.chunk.headings.as_str() {
        "" => found.chunk.text.clone(),
        headings => format!("{headings}\n{}", found.chunk.text),
    };
    MemoryHit::new(format!("{}#L{}", found.file, found.chunk.line), text, found.score).at(found.time_ms)
}

export_engine! {
    plugin: "notes",
    memory: { "notes" => Notes },
    config_schema: include_str!("schema.json"),
}

#[cfg(test)]
mod tests;
