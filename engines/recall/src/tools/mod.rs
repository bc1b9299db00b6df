//! The tools of the model: search, expand, pin.

use crate::config::Config;
use crate::session::Session;
use engine_abi::*;

/// The tools that the model is offered.
pub(crate) fn offered(config: &Config) -> Vec<Tool> {
    let _ = config;
    Vec::new()
}

/// The model calls one of them.
pub(crate) fn call(
    config: &Config,
    session: &mut Session,
    context: &Context,
    request: &ToolRequest,
) -> Result<ToolReply> {
    let _ = (config, session, context);
    Ok(ToolReply { text: format!("there is no tool \"{}\"", request.name()), is_error: true })
}
