//! The rows of a history, which cross whole once per session and then only where they changed.
//!
//! The gateway keeps what it sent, by session and version; the worker keeps what it got. Each call names the version that it
//! builds upon. A worker that does not hold it (it holds only so much) says so, and gets the whole once.

use super::lean::Head;
use crate::slot::facts::View;
use crate::transcript::Message;
use engine_abi::wire::EntryHeadV1;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// Most sessions that either side keeps.
const SESSIONS: usize = 64;
/// Most rows that either side keeps, of all sessions together.
const ROWS: usize = 2_000_000;
/// Most bytes of bodies that the worker keeps, of all sessions together.
const BODIES: usize = 64 * 1024 * 1024;

/// A change of a history: rows `from..from + removed` of version `base` are replaced by `heads`, which gives `version`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Rows<'a> {
    pub session: &'a str,
    /// 0 builds upon nothing.
    pub base: u64,
    pub version: u64,
    pub from: u64,
    pub removed: u64,
    pub heads: Vec<Head>,
}

/// What the gateway has sent.
#[derive(Default)]
pub(super) struct SentRows {
    sessions: HashMap<String, Sent>,
    clock: u64,
    version: u64,
    rows: usize,
}

struct Sent {
    used: u64,
    version: u64,
    /// Not kept alive, so that whoever changes it need not copy it; alive it has not changed.
    view: Weak<View>,
    heads: Vec<EntryHeadV1>,
    bodies: Vec<Weak<Message>>,
}

impl SentRows {
    /// What the worker needs to know the first `len` rows of `view`.
    pub(super) fn rows<'a>(&mut self, session: &'a str, view: &Arc<View>, len: usize) -> Rows<'a> {
        self.clock += 1;
        if !self.sessions.contains_key(session) {
            return self.whole(session, view, len);
        }
        let Some(sent) = self.sessions.get_mut(session) else { return Rows::default() };
        sent.used = self.clock;
        let base = sent.version;
        let known = sent.heads.len();
        let same = std::ptr::eq(sent.view.as_ptr(), Arc::as_ptr(view)) && sent.view.strong_count() > 0;
        if same && known == len {
            return Rows { session, base, version: base, from: len as u64, removed: 0, heads: Vec::new() };
        }
        let (heads, bodies) = (&view.heads[..len], &view.bodies[..len]);
        let equal = |old: usize, new: usize| {
            sent.heads[old] == heads[new] && std::ptr::eq(sent.bodies[old].as_ptr(), Arc::as_ptr(&bodies[new]))
        };
        let most = known.min(len);
        let start = if same { most } else { (0..most).take_while(|at| equal(*at, *at)).count() };
        let rest = most - start;
        let tail = (1..=rest).take_while(|back| equal(known - back, len - back)).count();
        let (old_end, new_end) = (known - tail, len - tail);
        let changed = &heads[start..new_end];
        sent.view = Arc::downgrade(view);
        self.version += 1;
        sent.version = self.version;
        self.rows = self.rows + changed.len() - (old_end - start);
        sent.heads.splice(start..old_end, changed.iter().copied());
        sent.bodies.splice(start..old_end, bodies[start..new_end].iter().map(Arc::downgrade));
        Rows {
            session,
            base,
            version: sent.version,
            from: start as u64,
            removed: (old_end - start) as u64,
            heads: changed.iter().map(Head::from).collect(),
        }
    }

    /// The same, whatever the worker was told before.
    pub(super) fn whole<'a>(&mut self, session: &'a str, view: &Arc<View>, len: usize) -> Rows<'a> {
        self.clock += 1;
        self.version += 1;
        let sent = Sent {
            used: self.clock,
            version: self.version,
            view: Arc::downgrade(view),
            heads: view.heads[..len].to_vec(),
            bodies: view.bodies[..len].iter().map(Arc::downgrade).collect(),
        };
        let rows = Rows {
            session,
            base: 0,
            version: self.version,
            from: 0,
            removed: 0,
            heads: sent.heads.iter().map(Head::from).collect(),
        };
        self.rows += len;
        if let Some(old) = self.sessions.insert(session.to_owned(), sent) {
            self.rows -= old.heads.len();
        }
        while self.sessions.len() > SESSIONS || self.rows > ROWS && self.sessions.len() > 1 {
            let Some(oldest) = self.sessions.iter().min_by_key(|(_, sent)| sent.used).map(|(key, _)| key.clone())
            else {
                break;
            };
            if let Some(old) = self.sessions.remove(&oldest) {
                self.rows -= old.heads.len();
            }
        }
        rows
    }

    /// The session is gone.
    pub(super) fn forget(&mut self, session: &str) {
        if let Some(old) = self.sessions.remove(session) {
            self.rows -= old.heads.len();
        }
    }
}

/// What the worker holds.
#[derive(Default)]
pub(super) struct HeldRows {
    sessions: HashMap<String, Held>,
    clock: u64,
    rows: usize,
    bytes: usize,
}

struct Held {
    used: u64,
    version: u64,
    /// Rows only: bodies are beside, since they come when they are read.
    view: Arc<View>,
    bodies: HashMap<u64, Arc<Message>>,
    bytes: usize,
}

impl HeldRows {
    /// Applies a change. `None` when what it builds upon is not held.
    pub(super) fn apply(&mut self, rows: &Rows<'_>) -> Option<Arc<View>> {
        self.clock += 1;
        let clock = self.clock;
        if rows.base == 0 {
            let view = View { heads: rows.heads.iter().map(|head| (*head).into()).collect(), ..View::default() };
            let view = Arc::new(view);
            self.drop_session(rows.session);
            self.rows += view.heads.len();
            let bodies = HashMap::new();
            let held = Held { used: clock, version: rows.version, view: Arc::clone(&view), bodies, bytes: 0 };
            self.sessions.insert(rows.session.to_owned(), held);
            self.make_room();
            return Some(view);
        }
        let held = self.sessions.get_mut(rows.session).filter(|held| held.version == rows.base)?;
        held.used = clock;
        if rows.version != rows.base {
            let len = held.view.heads.len();
            let from = usize::try_from(rows.from).ok()?;
            let end = from.checked_add(usize::try_from(rows.removed).ok()?).filter(|end| *end <= len)?;
            for head in &held.view.heads[from..end] {
                if let Some(body) = held.bodies.remove(&head.id) {
                    let weight = body.weight();
                    held.bytes -= weight;
                    self.bytes -= weight;
                }
            }
            let heads = &mut Arc::make_mut(&mut held.view).heads;
            heads.splice(from..end, rows.heads.iter().map(|head| (*head).into()));
            self.rows = self.rows + rows.heads.len() - (end - from);
            held.version = rows.version;
        }
        Some(Arc::clone(&held.view))
    }

    /// A body of this version of a session, if it was read before.
    pub(super) fn body(&mut self, session: &str, version: u64, id: u64) -> Option<Arc<Message>> {
        let held = self.sessions.get(session).filter(|held| held.version == version)?;
        held.bodies.get(&id).cloned()
    }

    /// Keeps bodies of this version, unless the session is at another one by now.
    pub(super) fn keep(&mut self, session: &str, version: u64, bodies: impl Iterator<Item = (u64, Arc<Message>)>) {
        let Some(held) = self.sessions.get_mut(session).filter(|held| held.version == version) else { return };
        for (id, body) in bodies {
            let weight = body.weight();
            if let Some(old) = held.bodies.insert(id, body) {
                let old = old.weight();
                held.bytes -= old;
                self.bytes -= old;
            }
            held.bytes += weight;
            self.bytes += weight;
        }
        while self.bytes > BODIES {
            let fat = self.sessions.values_mut().filter(|held| held.bytes > 0);
            let Some(oldest) = fat.min_by_key(|held| held.used) else { break };
            oldest.bodies.clear();
            self.bytes -= std::mem::take(&mut oldest.bytes);
        }
    }

    fn make_room(&mut self) {
        while self.sessions.len() > SESSIONS || self.rows > ROWS && self.sessions.len() > 1 {
            let Some(oldest) = self.sessions.iter().min_by_key(|(_, held)| held.used).map(|(key, _)| key.clone())
            else {
                break;
            };
            self.drop_session(&oldest);
        }
    }

    /// The session is gone.
    pub(super) fn drop_session(&mut self, session: &str) {
        if let Some(old) = self.sessions.remove(session) {
            self.rows -= old.view.heads.len();
            self.bytes -= old.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::Role;
    use proptest::prelude::*;

    fn view(rows: &[(u64, u32)], known: &mut HashMap<(u64, u32), Arc<Message>>) -> Arc<View> {
        let mut view = View::default();
        for &(id, tokens) in rows {
            view.heads.push(EntryHeadV1 { id, time_ms: 0, tokens, role: 0, flags: 0, text_bytes: 0 });
            let body = known
                .entry((id, tokens))
                .or_insert_with(|| Arc::new(Message::text_of(Role::User, format!("{id}/{tokens}"))));
            view.bodies.push(Arc::clone(body));
        }
        Arc::new(view)
    }

    /// A list of rows with rising ids.
    fn rising() -> impl Strategy<Value = Vec<(u64, u32)>> {
        prop::collection::btree_map(1..60_u64, 0..3_u32, 0..25).prop_map(|rows| rows.into_iter().collect())
    }

    proptest! {
        #[test]
        fn whatever_becomes_of_a_history_the_worker_holds_the_same(
            steps in prop::collection::vec((rising(), 0..3_usize, any::<bool>()), 1..12),
        ) {
            let (mut sent, mut held, mut known) = (SentRows::default(), HeldRows::default(), HashMap::new());
            for (rows, cut, lose) in steps {
                let view = view(&rows, &mut known);
                let len = view.heads.len().saturating_sub(cut);
                if lose {
                    held.drop_session("s");
                }
                let change = sent.rows("s", &view, len);
                let seen = match held.apply(&change) {
                    Some(seen) => seen,
                    None => {
                        prop_assert!(lose && change.base != 0);
                        held.apply(&sent.whole("s", &view, len)).unwrap()
                    }
                };
                prop_assert_eq!(&seen.heads[..], &view.heads[..len]);
                // The same view again costs nothing.
                let again = sent.rows("s", &view, len);
                prop_assert!(again.heads.is_empty() && again.base == again.version);
                let version = again.version;
                held.apply(&again).unwrap();
                for (head, body) in view.heads[..len].iter().zip(&view.bodies) {
                    if let Some(kept) = held.body("s", version, head.id) {
                        prop_assert_eq!(&*kept, &**body, "a body that changed was kept");
                    }
                }
                let bodies = view.heads[..len].iter().zip(&view.bodies);
                held.keep("s", version, bodies.map(|(head, body)| (head.id, Arc::clone(body))));
            }
        }
    }

    #[test]
    fn an_appended_turn_crosses_alone_and_one_changed_row_in_the_middle_too() {
        let (mut sent, mut known) = (SentRows::default(), HashMap::new());
        let mut rows: Vec<(u64, u32)> = (1..=10_000).map(|id| (id, 1)).collect();
        let first = view(&rows, &mut known);
        assert_eq!(sent.rows("s", &first, 10_000).heads.len(), 10_000);
        rows.extend([(10_001, 1), (10_002, 1)]);
        let second = view(&rows, &mut known);
        let change = sent.rows("s", &second, 10_002);
        assert_eq!((change.from, change.removed, change.heads.len()), (10_000, 0, 2));
        rows[5_000].1 = 7;
        let third = view(&rows, &mut known);
        let change = sent.rows("s", &third, 10_002);
        assert_eq!((change.from, change.removed, change.heads.len()), (5_000, 1, 1));
    }

    #[test]
    fn no_more_sessions_are_kept_than_the_cap_on_either_side() {
        let (mut sent, mut held, mut known) = (SentRows::default(), HeldRows::default(), HashMap::new());
        let one = view(&[(1, 1)], &mut known);
        for number in 0..SESSIONS * 2 {
            let key = number.to_string();
            held.apply(&sent.rows(&key, &one, 1)).unwrap();
        }
        assert_eq!((sent.sessions.len(), held.sessions.len()), (SESSIONS, SESSIONS));
        assert_eq!((sent.rows, held.rows), (SESSIONS, SESSIONS));
    }
}
