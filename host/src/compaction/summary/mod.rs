//! Making a summary of a range of rows.
//!
//! A summary has up to three parts: the request that is being worked on, when its turn was split; a body, written by the model
//! or extracted; and the exact identifiers, which the host always adds itself. [`compose()`] fits them into the limits, so the
//! rules (smaller than its source, capped, identifiers newest first) hold whoever wrote the body.

mod compose;
mod extract;
mod identifiers;
mod parts;
mod prompt;
mod sentence;
mod summarizer;
mod text;

pub(super) use compose::{Limits, Parts, compose};
pub(super) use extract::Extract;
pub(super) use identifiers::Identifiers;
pub(super) use parts::{Subject, notes};
pub use summarizer::{ModelSummarizer, NoModel, Summarizer, SummaryPrompt};
pub(super) use text::{has_content, section, shortened, without_host_sections};

/// Heading of the request whose turn was split.
pub(super) const REQUEST: &str = "## Request being worked on";
/// Heading of the exact identifiers.
pub(super) const IDENTIFIERS: &str = "## Exact identifiers";
