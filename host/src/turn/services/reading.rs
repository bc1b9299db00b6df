//! Reading transcripts: the session's own up to the current turn, others of the agent where that is granted.

use super::{TurnServices, refused, store_error};
use crate::slot::{CallScope, CursorPage, CursorRequest, EntryRef, ServiceError};
use crate::transcript::{Branch, EntryId, SessionRecord, cursor};
use engine_abi::wire::{cursor_outcome, cursor_place, cursor_reset};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// Sessions that are read at once for a list.
const LIST_PAGE: usize = 256;

impl TurnServices {
    fn page(
        &self,
        record: &SessionRecord,
        branch: &Branch,
        request: &CursorRequest,
        fence: Option<EntryId>,
    ) -> Result<CursorPage, ServiceError> {
        let ask = cursor::Request {
            cursor: request.cursor.as_deref(),
            max_messages: request.max_messages,
            max_bytes: usize::try_from(request.max_bytes).unwrap_or(usize::MAX),
            fence,
        };
        match cursor::read(record, branch, &ask) {
            Ok(cursor::Outcome::Page(page)) => Ok(CursorPage {
                outcome: cursor_outcome::PAGE,
                reset_reason: cursor_reset::NONE,
                has_more: page.has_more,
                cursor: Some(page.cursor),
                entries: page.entries.iter().filter_map(|entry| EntryRef::of(entry)).collect(),
                serialized_bytes: page.serialized_bytes as u64,
                required_bytes: page.required_bytes.unwrap_or(0) as u64,
            }),
            Ok(cursor::Outcome::Reset { cursor, reason }) => Ok(CursorPage {
                outcome: cursor_outcome::RESET,
                reset_reason: reason.code(),
                cursor: Some(cursor),
                ..CursorPage::default()
            }),
            Err(error) => {
                self.fence_crossed.store(true, Ordering::Release);
                Err(refused(error.to_string()))
            }
        }
    }

    /// The session of the call.
    pub(super) fn read_own(&self, scope: &CallScope<'_>, request: &CursorRequest) -> Result<CursorPage, ServiceError> {
        let fence = self.fence_for(scope.hook);
        let state = self.session.state();
        let place = request.cursor.as_deref().filter(|place| *place == cursor_place::HANDED_OVER);
        let page = match place {
            None => self.page(state.record(), state.branch(), request, fence)?,
            Some(_) => {
                let handed = state.extra.handed.get(scope.engine_id).copied().unwrap_or(0);
                // What is asked anew was handed over with its old answer, and is fenced all the same.
                let last = state.message_before(fence.unwrap_or(EntryId::MAX).min(handed.saturating_add(1)));
                let cursor = Some(cursor::behind(state.record(), state.branch(), last));
                self.page(state.record(), state.branch(), &CursorRequest { cursor, ..request.clone() }, fence)?
            }
        };
        if let Some(last) = page.entries.last() {
            let before = self.read_up_to.fetch_max(last.head.id, Ordering::AcqRel);
            let catch_up = self.catch_up.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(catch_up) = &*catch_up {
                catch_up.read(page.entries.iter().filter(|entry| entry.head.id > before).count());
            }
        }
        Ok(page)
    }

    /// Another session of the same agent, only when the plugin's entry grants it.
    pub(super) fn read_other(
        &self,
        scope: &CallScope<'_>,
        key: &str,
        request: &CursorRequest,
    ) -> Result<CursorPage, ServiceError> {
        if !scope.grants.iter().any(|grant| grant == "sessions") {
            return Err(refused("another session needs the grant sessions in the plugin's entry"));
        }
        let missing = CursorPage { outcome: cursor_outcome::MISSING, ..CursorPage::default() };
        // Kept in memory like a session in use, so that the next page costs what it holds.
        let Some(other) = self.house.hot.load(&*self.house.store, key).map_err(store_error)? else {
            return Ok(missing);
        };
        let other = other.lock();
        if !other.is_stored() || other.record().agent != scope.session.agent {
            return Ok(missing);
        }
        self.page(other.record(), other.branch(), request, None)
    }

    /// Keys of the agent's sessions, newest use first, behind `after`.
    pub(super) fn list(
        &self,
        scope: &CallScope<'_>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, ServiceError> {
        if !scope.grants.iter().any(|grant| grant == "sessions") {
            return Err(refused("the list of sessions needs the grant sessions in the plugin's entry"));
        }
        let mut keys = Vec::new();
        let mut found = after.is_none();
        let mut offset = 0;
        while keys.len() < limit {
            let page = self.house.store.sessions(LIST_PAGE, offset).map_err(store_error)?;
            let last = page.len() < LIST_PAGE;
            offset += page.len();
            for record in page {
                if record.agent != scope.session.agent {
                    continue;
                }
                if found && keys.len() < limit {
                    keys.push(record.key);
                } else if after == Some(record.key.as_str()) {
                    found = true;
                }
            }
            if last {
                break;
            }
        }
        Ok(keys)
    }
}
