//! The agent's other sessions, read for the tools where the operator grants it.
//!
//! They are read through the cursor when a tool asks for them, as far as time and memory allow, and kept in memory alone;
//! each further look reads only what is new. What the host does not list any more is dropped at the next look, and when this
//! instance is told that a session ended.

use super::{Session, stored};
use engine_abi::*;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most sessions that are read, the ones used last first.
const SESSIONS_MAX: u64 = 100;
/// Most memory of all of them, in bytes.
const BYTES_MAX: usize = 64 << 20;

/// Another session, as its transcript tells.
#[derive(Default)]
pub(crate) struct Other {
    /// Its entries; none of them is in a scope of this engine's store.
    pub session: Session,
    cursor: Option<String>,
}

/// Why other sessions cannot be read, for the model.
pub(crate) type Closed = String;

/// The other sessions that were read.
#[derive(Default)]
pub(crate) struct Others(Mutex<HashMap<String, Arc<Mutex<Other>>>>);

/// What was read.
#[derive(Default)]
pub(crate) struct Looked {
    /// By key, the one used last first.
    pub sessions: Vec<(String, Arc<Mutex<Other>>)>,
    /// How many were not read, since time or memory was over.
    pub left: usize,
}

impl Others {
    /// The agent's other sessions whose keys are `meant`, brought up to date.
    pub(crate) fn look(
        &self,
        context: &Context,
        meant: &dyn Fn(&str) -> bool,
    ) -> Result<std::result::Result<Looked, Closed>> {
        let keys = match context.sessions(None, SESSIONS_MAX) {
            Ok(keys) => keys,
            Err(error) if error.is_refused() || error.is_unavailable() => {
                return Ok(Err(
                    "other sessions cannot be read: the operator must grant \"sessions\" to this plugin".to_owned()
                ));
            }
            Err(error) => return Err(error.into()),
        };
        self.known().retain(|key, _| keys.contains(key));
        let own = context.session().key();
        let wanted = keys.into_iter().filter(|key| Some(key.as_str()) != own);
        let wanted: Vec<String> = wanted.filter(|key| meant(key)).collect();
        if wanted.is_empty() {
            return Ok(Err("there is no such other session".to_owned()));
        }
        let rest = context.remaining() / 2;
        let mut looked = Looked::default();
        let mut bytes = 0;
        for key in wanted {
            context.check()?;
            if bytes >= BYTES_MAX || context.remaining() < rest {
                looked.left += 1;
                self.known().remove(&key);
                continue;
            }
            let other = self.known().entry(key.clone()).or_default().clone();
            {
                let mut other = lock(&other);
                if !read(context, &key, &mut other)? {
                    drop(other);
                    self.known().remove(&key);
                    continue;
                }
                bytes += other.session.bytes();
            }
            looked.sessions.push((key, other));
        }
        Ok(Ok(looked))
    }

    /// A session ended.
    pub(crate) fn forget(&self, key: &str) {
        self.known().remove(key);
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Arc<Mutex<Other>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Holds another session.
pub(crate) fn lock(other: &Mutex<Other>) -> MutexGuard<'_, Other> {
    other.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads what is new; false when there is no such session any more.
fn read(context: &Context, key: &str, other: &mut Other) -> Result<bool> {
    let mut request =
        CursorRequest { session_key: Some(key.to_owned()), cursor: other.cursor.take(), ..CursorRequest::default() };
    loop {
        context.check()?;
        match context.read_transcript(&request)? {
            Page::Entries { entries, cursor, has_more, required_bytes } => {
                for entry in entries {
                    other.session.add_loose(entry)?;
                }
                other.cursor.clone_from(&cursor);
                let is_stuck = entries.is_empty() && request.max_bytes != 0;
                if !has_more || is_stuck || other.session.bytes() > BYTES_MAX {
                    return Ok(true);
                }
                request.cursor = cursor;
                request.max_bytes = required_bytes.unwrap_or(0);
            }
            // Its branch was rewritten: what is not on it any more is not shown elsewhere.
            Page::Reset { cursor, .. } => {
                *other = Other::default();
                request.cursor = cursor;
            }
            Page::Missing => return Ok(false),
            _ => return Ok(true),
        }
    }
}

impl Session {
    /// Adds an entry of a session that is only read.
    fn add_loose(&mut self, entry: &Entry) -> Result<()> {
        if self.ordinal(entry.id()).is_none() {
            let value = stored::of_entry(entry, &self.open).encode()?;
            self.add(&value)?;
            self.loose.push_back(value);
        }
        Ok(())
    }
}
