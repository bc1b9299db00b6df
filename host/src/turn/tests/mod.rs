//! Whole turns, in-process: the SQLite store in a folder of its own, a scripted model, the slot with `legacy` or an engine of the
//! tests.

mod bench;
mod conversation;
mod engines;
mod failures;
mod maintenance;
mod outbox;
mod overflow;
mod toolless;
