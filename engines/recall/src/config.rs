//! `[plugins.entries.recall.config]`.

use engine_abi::serde::Deserialize;

/// What an operator may set. Every default is what the README gives figures for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {}
