//! The engine's own compaction.

use crate::config::Config;
use crate::session::Session;
use engine_abi::*;

/// `compact`.
pub(crate) fn compact(
    config: &Config,
    session: &mut Session,
    context: &Context,
    request: &CompactRequest,
) -> Result<Compaction> {
    let _ = (config, session, context, request);
    Ok(Compaction::nothing("no_candidate"))
}
