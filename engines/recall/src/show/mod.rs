//! What the model sees.

use crate::config::Config;
use crate::session::Session;
use engine_abi::*;

/// What is remembered of the prompts before.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct State {}

/// `assemble`.
pub(crate) fn assemble(
    config: &Config,
    session: &mut Session,
    context: &Context,
    request: &AssembleRequest,
) -> Result<Assembly> {
    let _ = (config, session);
    let history = request.history();
    let start = history.newest_turns(context.session().token_budget().unwrap_or(u64::MAX));
    Ok(Assembly::new().keep(&history.heads()[start..]))
}
