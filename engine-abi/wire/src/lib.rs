//! The wire of the engine contract, version `1.0-draft`.
//!
//! Everything that crosses the border between the gateway and an engine is declared here and nowhere else:
//! `repr(C)` pairs of pointer and length, nullable function pointers, `u32` codes, flat structs, opaque pointers.
//! No owned container and no allocator crosses; the allocator of a byte is always the side that made it.
//!
//! Rules that hold for every function of every table:
//!
//! - **Direction.** Arguments are *borrowed* from the caller for the duration of the call. Results are *pushed* into a
//!   sink of the caller while the call runs; the callee of a push copies what it wants to keep before it returns.
//! - **Return value.** A `u32` status from [`status`]. Anything but [`status::OK`] is a failure (or a refusal) of that
//!   call.
//! - **Threads.** Hooks run on threads of the host with 8 MiB of stack. An instance is entered from several threads
//!   at once for different sessions, never twice at once for one session. A push or a service call is made from the
//!   thread that runs the hook, unless its own page says otherwise.
//! - **Time.** Each call has a deadline. A push or a service call made after it returns [`status::EXPIRED`] and changes
//!   nothing.
//! - **Unwinding.** No function of either side ever unwinds. The SDK guards the engine's side, the host its own.
//!
//! Layouts are frozen with version 1: a struct never grows, a table never changes. Growth is a new table that is asked
//! for by a string id with a version ([`EntryPointV1::get_extension`], [`HostV1::service`]).

mod args;
mod codes;
mod host;
mod memory;
mod module;
mod services;
mod sinks;
mod types;

pub use args::*;
pub use codes::*;
pub use host::*;
pub use memory::*;
pub use module::*;
pub use services::*;
pub use sinks::*;
pub use types::*;

/// The contract's version as it stands in manifests. A draft loads only on hosts of the same draft.
pub const CONTRACT_VERSION: &str = "1.0-draft";
/// Major number of the contract.
pub const CONTRACT_MAJOR: u32 = 1;
/// Minor number of the contract.
pub const CONTRACT_MINOR: u32 = 0;
