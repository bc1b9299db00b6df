use super::*;
use crate::transcript::{EntryBody, Message, Role, open};

struct Note(usize);

impl Extra for Note {
    fn weight(&self) -> usize {
        self.0
    }
}

fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn say(store: &dyn Store, hot: &HotHandle<Note>, text: &str) -> EntryId {
    let mut session = hot.lock();
    let (row, parent) = (session.record().row, session.branch().head());
    let message = Message::text_of(Role::User, text);
    let entry = Entry {
        id: store.next_entry(),
        parent,
        session: row,
        time_ms: 5,
        flags: 0,
        tokens: 1,
        digest: message.digest(),
        body: EntryBody::Message(Arc::new(message)),
    };
    let mut writes = Vec::new();
    let id = session.append(entry, &mut writes).unwrap().id;
    // Not awaited: the cache must cope with writes that are still queued.
    drop(store.submit(Submission { lease: Some((row, store.lease())), writes }));
    id
}

fn ids(hot: &HotHandle<Note>) -> Vec<EntryId> {
    hot.lock().branch().entries().iter().map(|entry| entry.id).collect()
}

fn cache(max_bytes: u64) -> HotSessions<Note> {
    HotSessions::new(max_bytes, |_| Note(100))
}

#[test]
fn a_session_is_created_by_its_first_entry_and_read_back_after_it_was_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let cache = cache(1 << 20);
    assert!(cache.load(&*store, "a").unwrap().is_none());
    assert_eq!(cache.len(), 0);
    let hot = cache.load_or_new(&*store, "a", 9).unwrap();
    assert!(!hot.lock().is_stored());
    assert!(store.session("a").unwrap().is_none());
    let said = [say(&*store, &hot, "one"), say(&*store, &hot, "two")];
    assert_eq!(ids(&hot), said);
    drop(hot);
    cache.forget("a");
    assert!(cache.warm("a").is_none());
    let again = cache.load(&*store, "a").unwrap().unwrap();
    assert_eq!(ids(&again), said, "queued writes are seen");
    let session = again.lock();
    assert_eq!((session.record().head, session.record().entries, session.record().created_ms), (said[1], 2, 9));
    assert!(session.is_stored());
}

#[test]
fn writes_of_a_run_of_entries_move_the_head_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let hot = cache(1 << 20).load_or_new(&*store, "a", 0).unwrap();
    let mut session = hot.lock();
    let row = session.record().row;
    let mut writes = Vec::new();
    for id in 1..=3 {
        let body = EntryBody::Message(Arc::new(Message::text_of(Role::User, "x")));
        let entry = Entry { id, parent: id - 1, session: row, time_ms: 0, flags: 0, tokens: 1, digest: 0, body };
        session.append(entry, &mut writes).unwrap();
    }
    let heads = writes.iter().filter(|w| matches!(w, Write::SetHead { .. })).count();
    assert_eq!((writes.len(), heads), (5, 1));
    assert!(matches!(writes.first(), Some(Write::CreateSession { .. })));
    assert!(matches!(writes.last(), Some(Write::SetHead { head: 3, .. })));

    let before = writes.len();
    let stray = Entry { parent: 1, id: 9, ..Entry::clone(&session.branch().entries()[2]) };
    assert!(session.append(stray, &mut writes).is_err());
    assert_eq!((writes.len(), session.branch().len()), (before, 3));
    drop(session);
}

#[test]
fn branching_switching_freezing_and_rewriting_reach_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let cache = cache(1 << 20);
    let hot = cache.load_or_new(&*store, "a", 0).unwrap();
    let trunk = [say(&*store, &hot, "one"), say(&*store, &hot, "two"), say(&*store, &hot, "three")];
    let change = |work: &dyn Fn(&mut HotSession<Note>, &mut Vec<Write>)| {
        let mut session = hot.lock();
        let mut writes = Vec::new();
        work(&mut session, &mut writes);
        drop(session);
        store.submit(Submission { lease: None, writes }).durable_blocking(deadline()).unwrap();
    };
    change(&|session, writes| {
        assert!(session.branch_at(77, writes).is_err());
        session.branch_at(trunk[0], writes).unwrap();
    });
    let sibling = say(&*store, &hot, "two, edited");
    assert_eq!(ids(&hot), [trunk[0], sibling]);
    let old = Branch::from_entries(store.branch(hot.lock().record().row, trunk[2]).unwrap());
    change(&|session, writes| {
        session.freeze(trunk[1], "longer text".into(), writes);
        session.freeze(trunk[1], "text".into(), writes);
        session.rewritten(writes);
        session.switch(old.clone(), writes);
    });
    let bytes = hot.lock().bytes();
    drop(hot);
    assert_eq!(store.heads(store.session("a").unwrap().unwrap().row).unwrap(), [trunk[2], sibling]);
    cache.forget("a");
    let again = cache.load(&*store, "a").unwrap().unwrap();
    assert_eq!(ids(&again), trunk);
    let session = again.lock();
    assert_eq!(session.frozen().get(&trunk[1]).map(String::as_str), Some("text"));
    assert_eq!(session.record().generation, 2);
    assert_eq!(session.bytes(), bytes);
}

#[test]
fn the_least_recently_used_idle_sessions_give_way() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let cache = cache(200_000);
    let text = "x".repeat(50_000);
    let held = cache.load_or_new(&*store, "held", 0).unwrap();
    say(&*store, &held, &text);
    for key in ["a", "b"] {
        say(&*store, &cache.load_or_new(&*store, key, 0).unwrap(), &text);
    }
    assert_eq!(cache.len(), 3);
    drop(cache.warm("a"));
    say(&*store, &cache.load_or_new(&*store, "c", 0).unwrap(), &text);
    assert!(cache.warm("b").is_none(), "the one that was not used for longest is out");
    assert!(cache.warm("a").is_some() && cache.warm("c").is_some());
    assert!(cache.warm("held").is_some(), "a session in use stays");
    assert!(cache.bytes() <= 200_000);

    // What is in use may exceed the bound, and so may what was used last; it goes when another one is used.
    for _ in 0..8 {
        say(&*store, &held, &text);
    }
    assert!(cache.bytes() > 200_000);
    drop(held);
    assert_eq!(cache.len(), 1);
    assert!(cache.warm("held").is_some());
    drop(cache.load(&*store, "a").unwrap());
    assert!(cache.warm("held").is_none() && cache.warm("a").is_some());
    assert!(cache.bytes() <= 200_000);
    assert_eq!(cache.load(&*store, "held").unwrap().unwrap().lock().branch().len(), 9);
}

#[test]
fn a_forgotten_copy_does_not_count_and_does_not_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let cache = cache(1 << 20);
    let old = cache.load_or_new(&*store, "a", 0).unwrap();
    say(&*store, &old, "one");
    cache.forget("a");
    assert_eq!(cache.bytes(), 0);
    let new = cache.load(&*store, "a").unwrap().unwrap();
    let bytes = cache.bytes();
    old.lock().extra.0 = 5_000_000;
    drop(old);
    assert_eq!(cache.bytes(), bytes);
    new.lock().extra.0 += 7;
    assert_eq!(cache.bytes(), bytes + 7);
}

#[test]
fn threads_that_ask_at_once_share_one_copy() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let cache = cache(1 << 20);
    say(&*store, &cache.load_or_new(&*store, "a", 0).unwrap(), "one");
    for round in 0..20 {
        cache.forget("a");
        let barrier = std::sync::Barrier::new(4);
        let handles: Vec<_> = std::thread::scope(|scope| {
            let ask = || {
                barrier.wait();
                cache.load(&*store, "a").unwrap().unwrap()
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(handles.iter().all(|h| Arc::ptr_eq(&h.cell, &handles[0].cell)), "round {round}");
        assert_eq!(cache.len(), 1);
    }
}

#[test]
fn what_was_appended_to_be_looked_at_is_taken_back_without_a_trace() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let hot = cache(1 << 20).load_or_new(&*store, "a", 9).unwrap();
    let said = [say(&*store, &hot, "one"), say(&*store, &hot, "two")];
    let before = hot.lock().record().clone();
    {
        let mut session = hot.lock();
        let message = Message::text_of(Role::User, "and?");
        let entry = Entry {
            id: store.next_entry(),
            parent: session.branch().head(),
            session: before.row,
            time_ms: 50,
            flags: 0,
            tokens: 1,
            digest: message.digest(),
            body: EntryBody::Message(Arc::new(message)),
        };
        session.append(entry, &mut Vec::new()).unwrap();
    }
    assert_eq!(ids(&hot).len(), 3);
    assert_ne!(*hot.lock().record(), before);
    hot.lock().take_back(before.clone()).unwrap();
    assert_eq!(ids(&hot), said);
    assert_eq!(*hot.lock().record(), before);
    let elsewhere = SessionRecord { head: 999, ..before.clone() };
    assert!(matches!(hot.lock().take_back(elsewhere), Err(StoreError::NotFound(_))));
    assert_eq!((ids(&hot), hot.lock().record().clone()), (said.to_vec(), before));
}
