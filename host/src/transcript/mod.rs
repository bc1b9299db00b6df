//! Entries, branches, cursor, outbox; the store trait with its backends. What was acknowledged is on disk.

mod message;
mod store;

pub use message::*;
pub use store::*;
