//! From a file to a usable engine.
//!
//! `discover` → `inspect` → `trust` → `stage` → `probe` → `load` → `layout` → `register`, and then, in the slot's room,
//! `factory` → `contract`. No line of a library runs before it passed the earlier stages, and only libraries that a slot
//! lists run at all. Nothing is ever loaded from the plugins folder itself: the bytes that were inspected are the bytes
//! that are staged, and the staged copy is what is loaded. A failure refuses that library and nothing else.
//!
//! Each way to fail is a [`Cause`] with a code of its own:
//!
//! | codes | stage | about |
//! |---|---|---|
//! | CE200 – CE204 | discover | folders, links, the lock, which library offers an engine |
//! | CE210 – CE227 | inspect | the file, its format, its manifest, the configuration |
//! | CE230 – CE239 | trust | place, owner, mode, links, hash, signature |
//! | CE240 – CE241 | stage | the private copy |
//! | CE250 – CE255 | probe | what happened to the child |
//! | CE256 – CE259 | worker | what happened to the worker of an isolated library while it was started |
//! | CE260 – CE263 | load | the system's loader |
//! | CE264 – CE267 | layout | the entry and the layout of types |
//! | CE270 – CE275 | register | the library's registration |
//! | CE280 – CE283 | factory | building an engine |
//! | CE290 – CE295 | contract | `info`, the table, the self-test |
//!
//! A failure that the probe's child reports in good order keeps the stage that it happened in; the codes of `probe` are
//! for a child that died or hung.

mod cause;
mod discover;
mod elf;
mod entries;
#[cfg(test)]
pub(crate) mod fixture;
#[doc(hidden)]
pub mod fuzzing;
mod inspect;
pub mod install;
mod isolation;
mod load;
mod lock;
mod manifest;
mod needs;
mod pipeline;
mod read;
mod report;
mod schema;
mod select;
mod signature;
mod stage;
mod survey;
#[cfg(test)]
mod tests;
mod trust;

pub use cause::{Cause, Stage};
pub use entries::{EntryRemark, entry_remarks};
pub use isolation::{Placement, bundled_are, bundled_known};
pub use load::{Kind, MemoryRegistration, RawFactory, RawMemoryFactory, RegistrarPort, Registration, Wanted};
pub(crate) use load::{LoadRequest, QuietPort, bring_in};
pub use lock::{LOCK_FILE, Pin, Pins, lock_path, pin_name};
pub use manifest::{Door, Manifest, PanicMode, RESERVED_ENGINE};
pub use pipeline::{Apart, LoadResult, check, load};
pub(crate) use pipeline::{takes_unknown_keys, tried};
pub(crate) use report::one_line;
pub use report::{PluginReport, PluginState, StageFailure};
pub use select::{EngineOutcome, OutcomeState};
pub use signature::{SignatureReport, signature_path};
// For those above, who do not know the processes of this room.
pub use crate::worker::{Lack, SandboxReport, sandbox_support};
pub use survey::{Change, ChangeKind, changes, discover};
pub use trust::Vouched;
