//! A memory provider under test.

use super::frame::{Failure, Frame, InfoSeen, SINK, register};
use super::services;
use super::world::Shared;
use crate::wire::{self, EntryPointV1, MemoryFactoryV1, MemoryInstanceV1, Str, StrList, status};
use crate::{CitationsMode, MemoryHit};
use std::path::Path;
use std::sync::Arc;

/// One instance of a memory provider, with its host. Disposed when it is dropped.
pub struct Memory {
    instance: MemoryInstanceV1,
    shared: Arc<Shared>,
}

/// Where a provider may keep things.
#[derive(Clone, Copy, Debug, Default)]
pub struct Folders<'a> {
    /// Its private state folder.
    pub state: Option<&'a Path>,
    /// The agent's workspace.
    pub workspace: Option<&'a Path>,
}

impl Memory {
    /// An instance of `M`, from its configuration as JSON, without folders.
    ///
    /// # Errors
    ///
    /// What the factory said.
    pub fn new<M: crate::MemoryProvider>(config_json: &str) -> Result<Memory, Failure> {
        Memory::within::<M>(config_json, Folders::default())
    }

    /// The same with folders, which exist.
    ///
    /// # Errors
    ///
    /// What the factory said.
    pub fn within<M: crate::MemoryProvider>(config_json: &str, folders: Folders<'_>) -> Result<Memory, Failure> {
        Memory::make(&crate::memory_factory::<M>(), config_json, folders)
    }

    /// An instance of the first provider that a library registers.
    ///
    /// # Errors
    ///
    /// What `register` or the factory said.
    ///
    /// # Panics
    ///
    /// When the library registers no provider.
    pub fn from_entry(entry: &EntryPointV1, config_json: &str, folders: Folders<'_>) -> Result<Memory, Failure> {
        let registered = register(entry)?;
        Memory::make(&registered.memory[0].1, config_json, folders)
    }

    fn make(factory: &MemoryFactoryV1, config_json: &str, folders: Folders<'_>) -> Result<Memory, Failure> {
        let shared = Arc::new(Shared::default());
        let frame = Frame::new(&shared, &[], None);
        let text = |path: Option<&Path>| path.map(|path| path.to_string_lossy().into_owned());
        let (state, workspace) = (text(folders.state).unwrap_or_default(), text(folders.workspace));
        let context = wire::FactoryContextV1 {
            host: services::host(false),
            frame: frame.as_wire(),
            engine_id: Str::new("test"),
            config_json: Str::new(config_json),
            agent_dir: Str::NONE,
            workspace_dir: Str::opt(workspace.as_deref()),
            state_dir: Str::new(&state),
            fail: SINK.fail,
        };
        let mut instance = MemoryInstanceV1::NONE;
        frame.result((factory.create)(factory.tag, &raw const context, &raw mut instance))?;
        Ok(Memory { instance, shared })
    }

    /// The provider's function table.
    #[must_use]
    pub fn table(&self) -> &wire::MemoryProviderV1 {
        // SAFETY: a table lives for ever.
        unsafe { &*self.instance.table }
    }

    /// True when the provider has a section for the system prompt.
    #[must_use]
    pub fn has_prompt_section(&self) -> bool {
        self.table().prompt_section.is_some()
    }

    /// `info`.
    ///
    /// # Errors
    ///
    /// What the hook said.
    pub fn info(&self) -> Result<InfoSeen, Failure> {
        let frame = self.frame();
        let answer = self.table().info.map_or(status::UNSUPPORTED, |hook| hook(self.instance.instance, &frame.call()));
        frame.result(answer)?;
        frame.out().info.ok_or_else(|| Failure::missing("info"))
    }

    /// The section for a run with these tools.
    ///
    /// # Errors
    ///
    /// What the hook said.
    pub fn prompt_section(&self, tools: &[&str], citations: CitationsMode) -> Result<Option<String>, Failure> {
        let frame = self.frame();
        let tools: Vec<Str> = tools.iter().map(|name| Str::new(name)).collect();
        let args = wire::MemoryPromptArgsV1 {
            available_tools: StrList::new(&tools),
            citations_mode: citations.code(),
            sandboxed: 0,
        };
        let hook = self.table().prompt_section;
        frame.result(hook.map_or(status::UNSUPPORTED, |hook| hook(self.instance.instance, &frame.call(), &args)))?;
        Ok(frame.out().section)
    }

    /// Searches.
    ///
    /// # Errors
    ///
    /// What the hook said.
    pub fn search(&self, query: &str, limit: u64) -> Result<Vec<MemoryHit>, Failure> {
        let frame = self.frame();
        let hook = self.table().search;
        let answer = hook
            .map_or(status::UNSUPPORTED, |hook| hook(self.instance.instance, &frame.call(), Str::new(query), limit));
        frame.result(answer)?;
        Ok(frame.out().hits)
    }

    /// Appends.
    ///
    /// # Errors
    ///
    /// What the hook said.
    pub fn append(&self, text: &str) -> Result<(), Failure> {
        let frame = self.frame();
        let hook = self.table().append;
        frame.result(
            hook.map_or(status::UNSUPPORTED, |hook| hook(self.instance.instance, &frame.call(), Str::new(text))),
        )
    }

    /// `dispose`; what it said. Done by the drop otherwise.
    ///
    /// # Errors
    ///
    /// What the hook said.
    pub fn dispose(mut self) -> Result<(), Failure> {
        self.end()
    }

    fn frame(&self) -> Frame {
        Frame::new(&self.shared, &[], None)
    }

    fn end(&mut self) -> Result<(), Failure> {
        let instance = std::mem::replace(&mut self.instance, MemoryInstanceV1::NONE);
        if instance.table.is_null() {
            return Ok(());
        }
        let frame = self.frame();
        // SAFETY: a table lives for ever.
        let dispose = unsafe { &*instance.table }.dispose;
        frame.result(dispose.map_or(status::OK, |dispose| dispose(instance.instance, &frame.call())))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // A test that cares about it calls `dispose`.
        let _ = self.end();
    }
}

// SAFETY: an instance may be entered from any thread; everything else in here is shared behind locks.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}
