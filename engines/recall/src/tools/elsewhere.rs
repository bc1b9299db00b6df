//! The agent's other sessions, as the tools name and read them.

use super::args::Wrong;
use super::{Desk, quote};
use crate::session::others::{Closed, Looked, Other};
use std::sync::{Arc, Mutex};

/// The name of a session within the tool's own words. Keys are plain; what is not is shown as if it were.
pub(super) fn shown_key(key: &str) -> String {
    quote::label(key, 200)
}

/// The other sessions that `session` names: one by its key, or all.
pub(super) fn look(desk: &Desk<'_>, session: &str) -> engine_abi::Result<Result<Looked, Closed>> {
    if !desk.config.other_sessions {
        return Ok(Err("other sessions cannot be searched: the operator has not switched that on".to_owned()));
    }
    let all = ["all", "any", "other", "others", "*", "true"].contains(&session.to_lowercase().as_str());
    desk.others.look(desk.context, &|key| all || key == session || shown_key(key) == session)
}

/// Another session by its name.
pub(super) fn one(desk: &Desk<'_>, session: &str) -> engine_abi::Result<Result<Arc<Mutex<Other>>, Wrong>> {
    let looked = match look(desk, session)? {
        Ok(looked) => looked,
        Err(closed) => return Ok(Err(closed)),
    };
    match <[_; 1]>::try_from(looked.sessions) {
        Ok([(_, other)]) => Ok(Ok(other)),
        Err(_) => Ok(Err("name one session, as recall_search with session all shows it".to_owned())),
    }
}
