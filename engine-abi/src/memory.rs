//! The trait that the author of a memory provider writes.
#![allow(unsafe_code, reason = "reads what the host lent for the duration of the call")]

use crate::codes::CitationsMode;
use crate::context::{Context, Factory};
use crate::raw::{self, view};
use crate::results::Info;
use crate::{Error, Hooks, MemoryHit, Result};

/// What an agent knows beyond its sessions. Put [`crate::hooks`] on the `impl`.
///
/// A provider is selected by the memory slot (`plugins.slots.memory`), lives beside the context engine and serves it: the host
/// prepares its section of the system prompt before each turn, and engines search it and, where the operator grants it, add to
/// it.
///
/// One instance serves all sessions of one agent and workspace, from several threads at once. Each hook has a deadline; long
/// work asks [`Context::check`] now and then. A hook that returns an error, panics or misses its deadline quarantines the
/// provider for the rest of the process; turns go on without memory. There is no session in a provider's calls: its store is
/// [`Context::engine_store`].
///
/// ```
/// use engine_abi::*;
/// use std::sync::Mutex;
///
/// /// Remembers lines, and finds those that contain the query.
/// struct Lines(Mutex<Vec<String>>);
///
/// #[hooks]
/// impl MemoryProvider for Lines {
///     type Config = engine_abi::serde::de::IgnoredAny;
///
///     fn create(_: Self::Config, _: &Factory) -> Result<Self> {
///         Ok(Lines(Mutex::default()))
///     }
///     fn info(&self) -> Info {
///         Info::new("lines", "Lines")
///     }
///     fn search(&self, _: &Context, query: &str, limit: usize) -> Result<Vec<MemoryHit>> {
///         let lines = self.0.lock().map_err(|_| Error::new("a search panicked before"))?;
///         let found = lines.iter().enumerate().filter(|(_, line)| line.contains(query)).take(limit);
///         Ok(found.map(|(at, line)| MemoryHit::new(at.to_string(), line, 1.0)).collect())
///     }
///     fn append(&self, _: &Context, text: &str) -> Result<()> {
///         self.0.lock().map_err(|_| Error::new("a search panicked before"))?.push(text.to_owned());
///         Ok(())
///     }
/// }
///
/// export_engine! {
///     plugin: "lines",
///     memory: { "lines" => Lines },
/// }
/// # fn main() {
/// let memory = testing::Memory::new::<Lines>("{}").unwrap();
/// memory.append("the door code is 4711").unwrap();
/// assert_eq!(memory.search("door", 5).unwrap()[0].text, "the door code is 4711");
/// assert!(!memory.has_prompt_section());
/// # }
/// ```
pub trait MemoryProvider: Sized + Send + Sync + 'static {
    /// The provider's configuration: `[plugins.entries.ID.config]` of `plugins.toml`.
    type Config: serde::de::DeserializeOwned;

    /// Written by the attribute [`crate::hooks`].
    const HOOKS: Hooks;

    /// Makes an instance.
    fn create(config: Self::Config, factory: &Factory) -> Result<Self>;

    /// Who this provider is; of it only id, name and version count. Called once, after [`MemoryProvider::create`].
    fn info(&self) -> Info;

    /// At most `limit` hits for the query, best first.
    fn search(&self, context: &Context, query: &str, limit: usize) -> Result<Vec<MemoryHit>>;

    /// The memory section of the system prompt, `None` when there is nothing to say. The turn waits for it, so it must be quick;
    /// it should change as seldom as what it tells, since it stands at the head of the prompt that the model's provider caches.
    fn prompt_section(&self, context: &Context, request: &PromptSectionRequest) -> Result<Option<String>> {
        let _ = (context, request);
        Err(Error::unsupported())
    }

    /// Keeps `text`; durable when it returns `Ok`.
    fn append(&self, context: &Context, text: &str) -> Result<()> {
        let _ = (context, text);
        Err(Error::unsupported())
    }

    /// The last call: write what is still to be written. The instance is dropped after it.
    fn dispose(&self, context: &Context) -> Result<()> {
        let _ = context;
        Ok(())
    }
}

view! {
    /// For which run a memory section is prepared.
    PromptSectionRequest(MemoryPromptArgsV1) {
        /// Whether the model shall say where it knows something from.
        code citations_mode as CitationsMode;
        /// The run is in a sandbox.
        flag sandboxed;
    }
}

impl PromptSectionRequest {
    /// Names of the tools that the model will be offered.
    #[must_use]
    pub fn available_tools(&self) -> Vec<&str> {
        let list = self.0.available_tools;
        // SAFETY: the host lent the list and its texts until the hook returns.
        let names = unsafe { raw::slice(list.ptr, list.len) };
        // SAFETY: as above.
        names.iter().filter_map(|name| unsafe { raw::text(*name) }).collect()
    }
}

impl MemoryHit {
    /// A hit without a time.
    pub fn new(id: impl Into<String>, text: impl Into<String>, score: f64) -> MemoryHit {
        MemoryHit { id: id.into(), text: text.into(), score, time_ms: None }
    }

    /// The same with the time of the memory, in milliseconds since the epoch.
    #[must_use]
    pub fn at(self, time_ms: i64) -> MemoryHit {
        MemoryHit { time_ms: Some(time_ms), ..self }
    }
}
