//! The backend from its face: what a [`Store`] promises.

use super::*;
use crate::transcript::{CompactionBody, EngineOp, EntryBody, Message, OutboxState, Role, Write, stored_flags};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn submit(store: &dyn Store, writes: Vec<Write>) -> Result<(), StoreError> {
    store.submit(Submission { lease: None, writes }).durable_blocking(deadline())
}

fn new_session(store: &dyn Store, key: &str) -> SessionRecord {
    SessionRecord::new(store.next_session(), key, 1_000)
}

fn message(store: &dyn Store, session: SessionRow, parent: EntryId, role: Role, text: &str) -> Entry {
    let id = store.next_entry();
    let message = Message::text_of(role, text);
    let digest = message.digest();
    let body = EntryBody::Message(Arc::new(message));
    Entry { id, parent, session, time_ms: 1_000 + id as i64, flags: 0, tokens: 7, digest, body }
}

/// A session with `n` entries in a row, user and assistant by turns, and its head.
fn conversation(store: &dyn Store, key: &str, n: usize) -> (SessionRecord, EntryId) {
    let record = new_session(store, key);
    let mut writes = vec![Write::CreateSession { record: record.clone() }];
    let mut head = 0;
    for i in 0..n {
        let role = if i % 2 == 0 { Role::User } else { Role::Assistant };
        let entry = message(store, record.row, head, role, &format!("{key} message {i}"));
        head = entry.id;
        writes.push(Write::Append(entry));
    }
    writes.push(Write::SetHead { session: record.row, head });
    submit(store, writes).unwrap();
    (record, head)
}

#[test]
fn entries_sessions_and_heads_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let record = new_session(&*store, "agent:support:main");
    let user = Entry { flags: stored_flags::HEARTBEAT, ..message(&*store, record.row, 0, Role::User, "hello") };
    let compaction = Entry {
        id: store.next_entry(),
        parent: user.id,
        digest: 0,
        body: EntryBody::Compaction(CompactionBody {
            summary: "s".into(),
            first_kept: user.id,
            tokens_before: 10,
            tokens_after: 4,
            trigger: "manual".into(),
            by: "builtin".into(),
        }),
        ..user
    };
    let tool: Message = serde_json::from_value(json!({
        "role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "x"}], "custom": 1
    }))
    .unwrap();
    let tool = Entry {
        id: store.next_entry(),
        parent: compaction.id,
        digest: tool.digest(),
        body: EntryBody::Message(Arc::new(tool)),
        ..user
    };
    let entries = [user, compaction, tool];
    let mut writes = vec![Write::CreateSession { record: record.clone() }];
    writes.extend(entries.iter().cloned().map(Write::Append));
    writes.push(Write::SetHead { session: record.row, head: entries[2].id });
    submit(&*store, writes).unwrap();
    store.close();
    drop(store);

    let store = open(dir.path()).unwrap();
    let found = store.session("agent:support:main").unwrap().unwrap();
    assert_eq!(found.agent, "support");
    assert_eq!((found.row, found.head, found.entries), (record.row, entries[2].id, 3));
    assert_eq!(found.updated_ms, entries[0].time_ms);
    assert_eq!((found.session_id, found.created_ms), (record.session_id, record.created_ms));
    let branch = store.branch(found.row, found.head).unwrap();
    assert_eq!(branch.iter().map(|e| Entry::clone(e)).collect::<Vec<_>>(), entries);
    assert_eq!(store.session("other").unwrap(), None);
}

#[test]
fn ids_rise_over_restarts_and_deletions_and_the_lease_is_newer_each_time() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let (record, head) = conversation(&*store, "a", 3);
    let handed_out = store.next_entry();
    let lease = store.lease();
    submit(&*store, vec![Write::DeleteSession { session: record.row }]).unwrap();
    assert!(handed_out > head);
    store.close();

    let store = open(dir.path()).unwrap();
    assert!(store.next_entry() > handed_out, "an id that was handed out came back");
    assert!(store.next_session() > record.row);
    assert!(store.lease() > lease);
}

#[test]
fn reservations_grow_with_use() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let mut last = 0;
    for round in 0..4 {
        for _ in 0..3_000 {
            last = store.next_entry();
        }
        let (_, head) = conversation(&*store, &format!("s{round}"), 1);
        assert_eq!(head, last + 1);
        last = head;
    }
    store.close();
    assert!(open(dir.path()).unwrap().next_entry() > last);
}

#[test]
fn a_submission_is_applied_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let (record, head) = conversation(&*store, "a", 2);
    let good = message(&*store, record.row, head, Role::User, "kept out");
    let orphan = message(&*store, record.row, good.id + 1_000, Role::User, "no parent");
    let orphan = Entry { id: orphan.parent + 1, ..orphan };
    let refused = submit(&*store, vec![Write::Append(good), Write::Append(orphan)]);
    assert!(matches!(refused, Err(StoreError::Invalid(_))), "{refused:?}");
    assert_eq!(store.heads(record.row).unwrap(), [head]);
    assert_eq!(store.session("a").unwrap().unwrap().entries, 2);
}

#[test]
fn one_bad_submission_does_not_spoil_the_others_of_its_commit() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let (record, mut head) = conversation(&*store, "a", 1);
    // A large first write keeps the writer busy while the others are queued, so that they share commits.
    let big = message(&*store, record.row, head, Role::Assistant, &"x".repeat(4 << 20));
    head = big.id;
    let mut acks = vec![(true, store.submit(Submission { lease: None, writes: vec![Write::Append(big)] }))];
    for i in 0..200 {
        let good = i % 3 != 0;
        let parent = if good { head } else { u64::MAX / 4 };
        let mut entry = message(&*store, record.row, parent, Role::User, &format!("{i}"));
        if good {
            head = entry.id;
        } else {
            entry.id = parent + 1;
        }
        acks.push((good, store.submit(Submission { lease: None, writes: vec![Write::Append(entry)] })));
    }
    let total = acks.len() as u64;
    for (good, ack) in acks {
        assert_eq!(ack.durable_blocking(deadline()).is_ok(), good);
    }
    assert_eq!(store.branch(record.row, head).unwrap().len(), 1 + 1 + 133);
    let stats = store.stats();
    assert_eq!(stats.submissions + stats.refused, total + 1);
    assert!(stats.commits < stats.submissions, "no commit was shared: {stats:?}");
}

#[test]
fn an_older_lease_is_fenced_and_a_newer_one_takes_over() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let (record, head) = conversation(&*store, "a", 1);
    let append = |token: u64, parent| {
        let entry = message(&*store, record.row, parent, Role::User, "x");
        let id = entry.id;
        let lease = Some((record.row, LeaseToken(token)));
        let writes = vec![Write::Append(entry)];
        store.submit(Submission { lease, writes }).durable_blocking(deadline()).map(|()| id)
    };
    let second = append(5, head).unwrap();
    assert!(matches!(append(4, second), Err(StoreError::StaleLease { session }) if session == record.row));
    let third = append(6, second).unwrap();
    assert!(matches!(append(5, third), Err(StoreError::StaleLease { .. })));
    assert_eq!(store.heads(record.row).unwrap(), [third]);
}

#[test]
fn a_deleted_session_takes_everything_along_and_stays_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let (record, head) = conversation(&*store, "a", 2);
    let (other, other_head) = conversation(&*store, "b", 2);
    let scope = EngineScope::Session(record.row);
    let put = |scope| Write::EngineBatch {
        engine: "e".into(),
        scope,
        ops: vec![EngineOp::Put(b"k".to_vec(), b"v".to_vec())],
    };
    submit(
        &*store,
        vec![
            put(scope),
            put(EngineScope::Engine),
            Write::FreezePruned { session: record.row, entry: head, text: "t".into() },
            Write::HandedOver { engine: "e".into(), session: record.row, entry: head },
            Write::Outbox(outbox_row("k", record.row, head, 0, OutboxState::Admitted)),
            Write::Turn(turn("t", record.row, Some("idem"))),
        ],
    )
    .unwrap();
    submit(&*store, vec![Write::DeleteSession { session: record.row }]).unwrap();

    assert_eq!(store.session("a").unwrap(), None);
    assert!(store.branch(record.row, head).is_err());
    assert!(store.frozen(record.row).unwrap().is_empty());
    assert!(store.outbox(None).unwrap().is_empty());
    assert!(store.turns(record.row, 10).unwrap().is_empty());
    assert_eq!(store.handed_over("e", record.row).unwrap(), 0);
    assert_eq!(store.engine_get("e", scope, b"k").unwrap(), None);
    assert_eq!(store.engine_get("e", EngineScope::Engine, b"k").unwrap(), Some(b"v".to_vec()));
    assert_eq!(store.branch(other.row, other_head).unwrap().len(), 2);

    let late = message(&*store, record.row, 0, Role::User, "late");
    assert!(matches!(submit(&*store, vec![Write::Append(late.clone())]), Err(StoreError::NotFound("session"))));
    let lease = Some((record.row, store.lease()));
    let ack = store.submit(Submission { lease, writes: vec![Write::Append(late)] });
    assert!(matches!(ack.durable_blocking(deadline()), Err(StoreError::NotFound("session"))));
}

#[test]
fn a_large_session_is_gone_at_once_and_its_space_is_freed_in_parts_over_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let (record, head) = conversation(&*store, "large", 2_600);
    let (other, other_head) = conversation(&*store, "small", 2);
    let scope = EngineScope::Session(record.row);
    let ops = (0..1_200).map(|n| EngineOp::Put(format!("k{n}").into_bytes(), b"v".to_vec())).collect();
    submit(&*store, vec![Write::EngineBatch { engine: "e".into(), scope, ops }]).unwrap();
    submit(&*store, vec![Write::DeleteSession { session: record.row }]).unwrap();
    assert_eq!(store.session("large").unwrap(), None);
    assert!(store.engines_of(record.row).unwrap().iter().all(|engine| engine == "e"));
    // Whatever was left when it closed goes after it is opened again.
    store.close();
    let store = open(dir.path()).unwrap();
    let until = deadline();
    loop {
        let left = !store.heads(record.row).unwrap().is_empty()
            || !store.engine_scan("e", scope, b"", None, 1).unwrap().is_empty();
        if !left {
            break;
        }
        assert!(std::time::Instant::now() < until, "something of a deleted session stays");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(store.branch(record.row, head).is_err());
    assert_eq!(store.branch(other.row, other_head).unwrap().len(), 2);
}

#[test]
fn a_reset_session_is_empty_for_engines_and_its_old_branch_stays() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let (record, head) = conversation(&*store, "a", 3);
    let scope = EngineScope::Session(record.row);
    let ops = (0..1_200).map(|n| EngineOp::Put(format!("k{n}").into_bytes(), b"v".to_vec())).collect();
    submit(
        &*store,
        vec![
            Write::EngineBatch { engine: "keeper".into(), scope, ops },
            Write::HandedOver { engine: "given".into(), session: record.row, entry: head },
            Write::Outbox(outbox_row("k", record.row, head, head, OutboxState::Ready)),
            Write::Turn(turn("t", record.row, None)),
        ],
    )
    .unwrap();
    let known = store.engines_of(record.row).unwrap();
    assert!(["keeper", "given"].iter().all(|engine| known.iter().any(|id| id == engine)), "{known:?}");

    submit(&*store, vec![Write::ResetSession { session: record.row, generation: record.generation + 1 }]).unwrap();
    let mut parts = 0;
    while store.scope_is_left(record.row).unwrap() {
        submit(&*store, vec![Write::DropScopePart { session: record.row }]).unwrap();
        parts += 1;
    }
    assert!(parts >= 1, "it went in one piece");
    assert!(store.engine_scan("keeper", scope, b"", None, 1).unwrap().is_empty());
    let found = store.session("a").unwrap().unwrap();
    assert_eq!((found.head, found.generation, found.entries), (0, record.generation + 1, 3));
    assert_eq!(store.handed_over("given", record.row).unwrap(), 0);
    assert!(store.outbox(Some(record.row)).unwrap().is_empty());
    assert_eq!(store.branch(record.row, head).unwrap().len(), 3);
}

#[test]
fn the_tree_cannot_be_broken() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let (a, a_head) = conversation(&*store, "a", 2);
    let (b, b_head) = conversation(&*store, "b", 2);
    let foreign = message(&*store, a.row, b_head, Role::User, "x");
    assert!(matches!(submit(&*store, vec![Write::Append(foreign)]), Err(StoreError::Invalid(_))));
    let own = message(&*store, a.row, 0, Role::User, "x");
    let own = Entry { parent: own.id, ..own };
    assert!(matches!(submit(&*store, vec![Write::Append(own)]), Err(StoreError::Invalid(_))));
    let twice = Entry { id: a_head, ..message(&*store, a.row, 0, Role::User, "x") };
    assert!(matches!(submit(&*store, vec![Write::Append(twice)]), Err(StoreError::Exists("entry"))));
    let head = Write::SetHead { session: a.row, head: b_head };
    assert!(matches!(submit(&*store, vec![head]), Err(StoreError::Invalid(_))));
    let record = SessionRecord::new(store.next_session(), "a", 5);
    assert!(matches!(submit(&*store, vec![Write::CreateSession { record }]), Err(StoreError::Exists("session"))));
    assert!(matches!(store.branch(b.row, a_head), Err(StoreError::NotFound("entry"))));
}

#[test]
fn branches_have_heads_and_are_read_apart() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let (record, head) = conversation(&*store, "a", 4);
    let trunk = store.branch(record.row, head).unwrap();
    let sibling = message(&*store, record.row, trunk[1].id, Role::User, "edited");
    let root = message(&*store, record.row, 0, Role::User, "another root");
    let ids = [head, sibling.id, root.id];
    submit(&*store, vec![Write::Append(sibling), Write::Append(root)]).unwrap();
    assert_eq!(store.heads(record.row).unwrap(), ids);
    assert_eq!(store.session("a").unwrap().unwrap().head, head, "an append does not move the head");
    let branch = store.branch(record.row, ids[1]).unwrap();
    assert_eq!(branch.iter().map(|e| e.id).collect::<Vec<_>>(), [trunk[0].id, trunk[1].id, ids[1]]);
    assert_eq!(store.branch(record.row, 0).unwrap(), []);
    assert_eq!(store.session("a").unwrap().unwrap().entries, 6);
}

fn outbox_row(key: &str, session: SessionRow, first: EntryId, last: EntryId, state: OutboxState) -> OutboxRow {
    OutboxRow {
        key: key.into(),
        engine: "e".into(),
        session,
        session_id: "id".into(),
        first,
        last,
        position: Some(0),
        generation: 1,
        state,
        reason: None,
        attempts: 0,
        attempted_ms: 0,
        last_error: None,
        facts: None,
        created_ms: 1,
    }
}

#[test]
fn the_outbox_is_replaced_by_key_covered_by_range_and_ordered_by_age() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let rows = [
        outbox_row("z", 1, 10, 11, OutboxState::Ready),
        outbox_row("y", 1, 12, 0, OutboxState::Admitted),
        outbox_row("x", 1, 14, 15, OutboxState::Blocked),
        outbox_row("w", 1, 16, 17, OutboxState::Ready),
        outbox_row("v", 2, 9, 10, OutboxState::Ready),
        OutboxRow { engine: "f".into(), ..outbox_row("u", 1, 10, 11, OutboxState::Ready) },
    ];
    submit(&*store, rows.iter().rev().cloned().map(Write::Outbox).collect()).unwrap();
    let keys = |rows: Vec<OutboxRow>| rows.into_iter().map(|r| r.key).collect::<String>();
    assert_eq!(keys(store.outbox(Some(1)).unwrap()), "uzyxw");
    assert_eq!(keys(store.outbox(None).unwrap()), "vuzyxw");

    let failed = OutboxRow { attempts: 2, last_error: Some("no".into()), ..rows[3].clone() };
    submit(&*store, vec![Write::Outbox(failed.clone())]).unwrap();
    assert_eq!(store.outbox(Some(1)).unwrap().pop(), Some(failed));

    let covered = Write::OutboxCovered { engine: "e".into(), session: 1, up_to: 16 };
    submit(&*store, vec![covered]).unwrap();
    assert_eq!(
        keys(store.outbox(None).unwrap()),
        "vuyxw",
        "only whole, ready ranges of the engine and session are covered"
    );
    let delete = |engine: &str, key: &str| Write::OutboxDelete { engine: engine.into(), key: key.into() };
    submit(&*store, vec![delete("e", "y"), delete("e", "u"), delete("e", "never")]).unwrap();
    assert_eq!(keys(store.outbox(Some(1)).unwrap()), "uxw", "u is a row of another engine");
}

#[test]
fn a_turn_may_wait_for_several_engines_and_a_key_belongs_to_one_session() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let facts = crate::transcript::AcceptedFacts { heartbeat: true, budget: Some(5), ..Default::default() };
    let one = OutboxRow {
        facts: Some(facts),
        reason: Some(BlockedReason::TooLarge),
        position: None,
        attempted_ms: 8,
        ..outbox_row("k", 1, 10, 11, OutboxState::Blocked)
    };
    let other = OutboxRow { engine: "shadow".into(), ..outbox_row("k", 1, 10, 11, OutboxState::Accepted) };
    submit(&*store, vec![Write::Outbox(one.clone()), Write::Outbox(other.clone())]).unwrap();
    assert_eq!(store.outbox(Some(1)).unwrap(), [one, other]);
    let stolen = Write::Outbox(outbox_row("k", 2, 10, 11, OutboxState::Ready));
    assert!(matches!(submit(&*store, vec![stolen]), Err(StoreError::Invalid(why)) if why.contains("collision")));
    let covered = Write::OutboxCovered { engine: "shadow".into(), session: 1, up_to: 11 };
    submit(&*store, vec![covered]).unwrap();
    assert_eq!(store.outbox(Some(1)).unwrap().len(), 1, "an accepted range is covered like a ready one");
}

/// 8.63
#[test]
fn what_is_written_to_the_outbox_queues_behind_what_was_written_before() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let record = new_session(&*store, "a");
    let mut head = 0;
    let mut writes = vec![Write::CreateSession { record: record.clone() }];
    for _ in 0..200 {
        let entry = message(&*store, record.row, head, Role::User, &"x".repeat(64 << 10));
        head = entry.id;
        writes.push(Write::Append(entry));
    }
    writes.push(Write::SetHead { session: record.row, head });
    drop(store.submit(Submission { lease: None, writes }));
    let row = outbox_row("k", record.row, head, head, OutboxState::Accepted);
    submit(&*store, vec![Write::Outbox(row.clone())]).unwrap();
    let stored = store.session("a").unwrap().expect("what was queued before is on disk first");
    assert_eq!((stored.head, stored.entries), (head, 200));
    assert_eq!(store.outbox(Some(record.row)).unwrap(), [row]);
}

#[test]
fn a_range_is_read_along_the_tree_whole_or_with_the_reason_why_not() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let (record, head) = conversation(&*store, "a", 6);
    let ids: Vec<EntryId> = store.branch(record.row, head).unwrap().iter().map(|entry| entry.id).collect();
    let range = |first, last, most| {
        let found = store.range(record.row, first, last, most).unwrap();
        found.map(|entries| entries.iter().map(|entry| entry.id).collect::<Vec<_>>())
    };
    assert_eq!(range(ids[2], ids[4], 3).unwrap(), ids[2..=4]);
    assert_eq!(range(ids[3], ids[3], 3).unwrap(), [ids[3]]);
    assert_eq!(range(ids[2], ids[5], 3), Err(BlockedReason::TooLarge));
    assert_eq!(range(ids[2], 9_999_999, 9), Err(BlockedReason::RangeMissing));
    let sibling = message(&*store, record.row, ids[1], Role::User, "edited");
    let at = sibling.id;
    submit(&*store, vec![Write::Append(sibling)]).unwrap();
    assert_eq!(range(ids[2], at, 9), Err(BlockedReason::NotDescendant));
    assert_eq!(range(ids[1], at, 9).unwrap(), [ids[1], at], "another branch is as good");
}

#[test]
fn what_waits_is_counted_by_engine_and_found_by_age() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let (a, a_head) = conversation(&*store, "a", 2);
    let (b, b_head) = conversation(&*store, "b", 2);
    let rows = [
        outbox_row("1", b.row, b_head, b_head, OutboxState::Blocked),
        outbox_row("2", a.row, a_head, a_head, OutboxState::Ready),
        OutboxRow { created_ms: 2, ..outbox_row("3", b.row, b_head + 1, b_head + 1, OutboxState::Ready) },
        OutboxRow { engine: "f".into(), ..outbox_row("4", b.row, b_head, b_head, OutboxState::Accepted) },
    ];
    submit(&*store, rows.into_iter().map(Write::Outbox).collect()).unwrap();
    assert_eq!(store.outbox_sessions().unwrap(), ["a", "b"]);
    let counts: Vec<_> = store
        .outbox_counts()
        .unwrap()
        .into_iter()
        .map(|count| (count.engine, count.state, count.rows, count.session_key))
        .collect();
    let expected = [
        ("e".to_owned(), OutboxState::Ready, 2, "a".to_owned()),
        ("e".to_owned(), OutboxState::Blocked, 1, "b".to_owned()),
        ("f".to_owned(), OutboxState::Accepted, 1, "b".to_owned()),
    ];
    assert_eq!(counts, expected);
    let handed = Write::HandedOver { engine: "e".into(), session: a.row, entry: a_head };
    submit(&*store, vec![handed]).unwrap();
    assert_eq!(store.handed(a.row).unwrap(), [("e".to_owned(), a_head)]);
}

fn turn(id: &str, session: SessionRow, key: Option<&str>) -> TurnRecord {
    TurnRecord {
        turn_id: id.into(),
        session,
        admitted: 1,
        terminal: 0,
        idempotency_key: key.map(str::to_owned),
        engine: "e".into(),
        degraded: None,
        detail: json!({"why": ["a", 1]}),
        started_ms: 1,
        ended_ms: 2,
    }
}

#[test]
fn turns_are_replaced_by_id_and_found_by_their_newest_key() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    submit(&*store, vec![Write::Turn(turn("1", 1, Some("k"))), Write::Turn(turn("2", 1, None))]).unwrap();
    let retried = TurnRecord { terminal: 9, degraded: Some("deadline".into()), ..turn("3", 1, Some("k")) };
    submit(&*store, vec![Write::Turn(turn("3", 1, Some("k"))), Write::Turn(retried.clone())]).unwrap();
    let ids: Vec<_> = store.turns(1, 2).unwrap().into_iter().map(|t| t.turn_id).collect();
    assert_eq!(ids, ["3", "2"]);
    let ids: Vec<_> = store.turns_before(1, Some("3"), 9).unwrap().into_iter().map(|t| t.turn_id).collect();
    assert_eq!(ids, ["2", "1"]);
    let value = serde_json::json!({"timings": [1]});
    let detail =
        |turn_id: &str| Write::TurnDetail { session: 1, turn_id: turn_id.into(), name: "notes", value: value.clone() };
    submit(&*store, vec![detail("2"), detail("none")]).unwrap();
    assert_eq!(store.turns_before(1, Some("3"), 1).unwrap()[0].detail["notes"], value);
    assert_eq!(store.turn_by_key(1, "k").unwrap(), Some(retried));
    assert_eq!(store.turn_by_key(2, "k").unwrap(), None);
}

#[test]
fn small_facts_keep_their_rules() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let (record, head) = conversation(&*store, "a", 1);
    let handed = |entry| Write::HandedOver { engine: "e".into(), session: record.row, entry };
    submit(&*store, vec![handed(9), handed(4)]).unwrap();
    assert_eq!(store.handed_over("e", record.row).unwrap(), 9);
    assert_eq!(store.handed_over("f", record.row).unwrap(), 0);
    let freeze = |text: &str| Write::FreezePruned { session: record.row, entry: head, text: text.into() };
    submit(&*store, vec![freeze("long"), freeze("short")]).unwrap();
    assert_eq!(store.frozen(record.row).unwrap(), [(head, "short".to_owned())]);
    let generation = |generation| Write::Generation { session: record.row, generation };
    submit(&*store, vec![generation(3), generation(2)]).unwrap();
    assert_eq!(store.session("a").unwrap().unwrap().generation, 3);
}

#[test]
fn sessions_are_listed_by_last_use_in_pages() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    for key in ["a", "b", "c"] {
        conversation(&*store, key, 1);
    }
    let a = store.session("a").unwrap().unwrap();
    let newer = message(&*store, a.row, a.head, Role::Assistant, "x");
    submit(&*store, vec![Write::Append(newer)]).unwrap();
    let keys =
        |limit, offset| -> String { store.sessions(limit, offset).unwrap().into_iter().map(|s| s.key).collect() };
    assert_eq!(keys(10, 0), "acb");
    assert_eq!(keys(2, 1), "cb");
    assert_eq!(keys(usize::MAX, 3), "");
}

#[test]
fn engine_batches_are_atomic_and_check_their_requirements_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let batch = |ops: Vec<EngineOp>| {
        submit(&*store, vec![Write::EngineBatch { engine: "e".into(), scope: EngineScope::Engine, ops }])
    };
    let get = |key: &[u8]| store.engine_get("e", EngineScope::Engine, key).unwrap();
    let bytes = |text: &str| text.as_bytes().to_vec();
    batch(vec![EngineOp::RequireAbsent(bytes("a")), EngineOp::Put(bytes("a"), bytes("1"))]).unwrap();
    let again = batch(vec![EngineOp::Put(bytes("b"), bytes("2")), EngineOp::RequireAbsent(bytes("a"))]);
    assert!(matches!(again, Err(StoreError::Requirement)));
    assert_eq!(get(b"b"), None);
    batch(vec![
        EngineOp::RequireEqual(bytes("a"), bytes("1")),
        EngineOp::Put(bytes("a"), bytes("2")),
        EngineOp::RequireEqual(bytes("a"), bytes("2")),
        EngineOp::Delete(bytes("a")),
        EngineOp::RequireAbsent(bytes("a")),
        EngineOp::Put(bytes("p/1"), bytes("")),
        EngineOp::Put(vec![b'p', b'/', 0xff], bytes("x")),
        EngineOp::Put(bytes("p0"), bytes("y")),
        EngineOp::Put(vec![0xff, 0xff, 1], bytes("z")),
    ])
    .unwrap();
    assert!(matches!(batch(vec![EngineOp::RequireEqual(bytes("a"), bytes("2"))]), Err(StoreError::Requirement)));
    assert_eq!(get(b"p/1"), Some(Vec::new()));
    batch(vec![EngineOp::DeletePrefix(bytes("p/")), EngineOp::DeletePrefix(vec![0xff])]).unwrap();
    assert_eq!((get(b"p/1"), get(b"p0"), get(&[0xff, 0xff, 1])), (None, Some(bytes("y")), None));
}

#[test]
fn engine_scans_go_in_byte_order_between_prefix_and_limit() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let keys: [&[u8]; 6] = [b"a", b"b", b"b\x00", b"b\x01z", b"b\xff", b"c"];
    let ops = keys.iter().rev().map(|k| EngineOp::Put(k.to_vec(), k.to_vec())).collect();
    let scope = EngineScope::Session(7);
    submit(&*store, vec![Write::EngineBatch { engine: "e".into(), scope, ops }]).unwrap();
    let scan = |prefix: &[u8], after: Option<&[u8]>, limit| -> Vec<Vec<u8>> {
        store.engine_scan("e", scope, prefix, after, limit).unwrap().into_iter().map(|(key, _)| key).collect()
    };
    assert_eq!(scan(b"", None, 100), keys);
    assert_eq!(scan(b"b", None, 100), keys[1..5]);
    assert_eq!(scan(b"b", Some(b"b"), 2), keys[2..4]);
    assert_eq!(scan(b"b", Some(b"a"), 100), keys[1..5], "a start before the prefix is the prefix");
    assert_eq!(scan(b"b", Some(b"b\xff"), 100), Vec::<Vec<u8>>::new());
    assert_eq!(scan(b"", Some(b"b\xff"), 100), keys[5..]);
    assert!(store.engine_scan("f", scope, b"", None, 9).unwrap().is_empty());
    assert!(store.engine_scan("e", EngineScope::Engine, b"", None, 9).unwrap().is_empty());
}

#[test]
fn scopes_are_dropped_by_engine_or_whole() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let scope = EngineScope::Session(7);
    let put = |engine: &str| Write::EngineBatch {
        engine: engine.into(),
        scope,
        ops: vec![EngineOp::Put(b"k".to_vec(), b"v".to_vec())],
    };
    let there = |engine: &str| store.engine_get(engine, scope, b"k").unwrap().is_some();
    submit(&*store, vec![put("e"), put("f"), put("g")]).unwrap();
    submit(&*store, vec![Write::EngineDropScope { engine: Some("e".into()), scope }]).unwrap();
    assert_eq!((there("e"), there("f"), there("g")), (false, true, true));
    submit(&*store, vec![Write::EngineDropScope { engine: None, scope }]).unwrap();
    assert_eq!((there("f"), there("g")), (false, false));
}

#[test]
fn what_an_ephemeral_session_left_is_dropped_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let (kept, _) = conversation(&*store, "a", 1);
    let ephemeral = store.next_session();
    let put = |row| Write::EngineBatch {
        engine: "e".into(),
        scope: EngineScope::Session(row),
        ops: vec![EngineOp::Put(b"k".to_vec(), b"v".to_vec())],
    };
    submit(&*store, vec![put(kept.row), put(ephemeral)]).unwrap();
    store.close();
    let store = open(dir.path()).unwrap();
    // The first acknowledgement comes after the clean-up.
    submit(&*store, Vec::new()).unwrap();
    let there = |row| store.engine_get("e", EngineScope::Session(row), b"k").unwrap().is_some();
    assert_eq!((there(kept.row), there(ephemeral)), (true, false));
}

#[test]
fn a_barrier_costs_no_commit_and_comes_after_what_was_queued() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let record = new_session(&*store, "a");
    let before = store.stats().commits;
    let create = store.submit(Submission { lease: None, writes: vec![Write::CreateSession { record }] });
    submit(&*store, Vec::new()).unwrap();
    assert!(store.session("a").unwrap().is_some());
    create.durable_blocking(deadline()).unwrap();
    submit(&*store, Vec::new()).unwrap();
    assert_eq!(store.stats().commits, before + 1);
}

#[test]
fn what_may_wait_shares_the_sync_of_what_comes_next_and_never_waits_once_somebody_does() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let (record, mut head) = conversation(&*store, "s", 1);
    let mut next = |store: &dyn Store| {
        let entry = message(store, record.row, head, Role::User, "more");
        head = entry.id;
        Submission { lease: None, writes: vec![Write::Append(entry)] }
    };
    let before = store.stats().commits;
    let soon = store.submit_soon(next(&*store), Duration::from_secs(30));
    store.submit(next(&*store)).durable_blocking(deadline()).unwrap();
    soon.durable_blocking(deadline()).unwrap();
    assert_eq!(store.stats().commits, before + 1, "one sync for both");

    let since = Instant::now();
    store.submit_soon(next(&*store), Duration::from_secs(30)).durable_blocking(deadline()).unwrap();
    assert!(since.elapsed() < Duration::from_secs(15), "waiting for it ends the patience");

    drop(store.submit_soon(next(&*store), Duration::from_millis(5)));
    while store.stats().commits < before + 3 {
        assert!(since.elapsed() < Duration::from_secs(60), "nobody waits, and it is written all the same");
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(store.submit_soon(next(&*store), Duration::from_secs(30)));
    drop(store);
    let store = open(dir.path()).unwrap();
    assert_eq!(store.branch(record.row, head).unwrap().len(), 6, "closing writes what still waited");
}

#[test]
fn a_second_gateway_is_refused_until_the_first_has_closed() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    match open(dir.path()).err() {
        Some(StoreError::Locked { pid, folder }) => {
            assert_eq!(pid, std::process::id().to_string());
            assert_eq!(folder, dir.path().display().to_string());
        }
        other => panic!("{other:?}"),
    }
    store.close();
    open(dir.path()).unwrap();
}

#[test]
fn closing_finishes_the_queue_and_refuses_what_comes_later() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let records: Vec<_> = (0..50).map(|i| new_session(&*store, &format!("s{i}"))).collect();
    let acks: Vec<_> = records
        .into_iter()
        .map(|record| store.submit(Submission { lease: None, writes: vec![Write::CreateSession { record }] }))
        .collect();
    store.close();
    store.close();
    for ack in acks {
        ack.durable_blocking(deadline()).unwrap();
    }
    assert!(matches!(submit(&*store, Vec::new()), Err(StoreError::Closed)));
    assert!(matches!(store.session("s1"), Err(StoreError::Closed)));
    assert!(!dir.path().join("transcript.db-wal").exists(), "the log is copied and removed at the end");
    assert_eq!(open(dir.path()).unwrap().sessions(100, 0).unwrap().len(), 50);
}

#[test]
fn nothing_in_the_folder_is_readable_by_others() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("state");
    let store = open(&folder).unwrap();
    conversation(&*store, "a", 2);
    store.session("a").unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let mut seen = 0;
    for file in std::fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        seen += 1;
    }
    assert!(seen >= 4, "database, log, index and lock");
    assert!(store.disk_bytes() > 0);
}

#[test]
fn looking_creates_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("state");
    assert!(open_existing(&folder).unwrap().is_none());
    assert!(!folder.exists());
    open(&folder).unwrap().close();
    assert!(open_existing(&folder).unwrap().is_some());
}

#[test]
fn a_small_turn_takes_well_under_two_kilobytes() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let (record, mut head) = conversation(&*store, "agent:main:main", 2);
    let text = "What is the weather like in the mountains, and should I take a coat with me tomorrow?";
    let lease = Some((record.row, store.lease()));
    for i in 0..1_500 {
        let user = message(&*store, record.row, head, Role::User, text);
        let answer = message(&*store, record.row, user.id, Role::Assistant, text);
        head = answer.id;
        let key = format!("0190b0c0-0000-7000-8000-{i:012}");
        let engine = String::from("window");
        let pending =
            OutboxRow { engine: engine.clone(), ..outbox_row(&key, record.row, user.id, 0, OutboxState::Admitted) };
        let facts = crate::transcript::AcceptedFacts { model: Some("gpt-4o".into()), ..Default::default() };
        let state = OutboxState::Accepted;
        let ready = OutboxRow { last: answer.id, state, facts: Some(facts), ..pending.clone() };
        let turn = TurnRecord {
            detail: json!({"candidates": ["window", "legacy"], "ms": 12}),
            ..turn(&key, record.row, None)
        };
        let first = Submission { lease, writes: vec![Write::Append(user), Write::Outbox(pending)] };
        let second = Submission {
            lease,
            writes: vec![
                Write::Append(answer),
                Write::SetHead { session: record.row, head },
                Write::Outbox(ready),
                Write::Turn(turn),
                Write::HandedOver { engine, session: record.row, entry: head },
                Write::OutboxDelete { engine: "window".into(), key },
            ],
        };
        drop(store.submit(first));
        if i % 25 == 24 {
            store.submit(second).durable_blocking(deadline()).unwrap();
        } else {
            drop(store.submit(second));
        }
    }
    submit(&*store, Vec::new()).unwrap();
    store.close();
    let per_turn = store.disk_bytes() / 1_500;
    assert!(per_turn < 1_000, "{per_turn} bytes a turn");
}

#[test]
fn the_log_is_copied_in_the_background_and_started_over() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let (record, mut head) = conversation(&*store, "a", 1);
    let text = "x".repeat(64 << 10);
    let log = || std::fs::metadata(dir.path().join("transcript.db-wal")).unwrap().len();
    let (mut entries, mut calm) = (1, 0);
    let give_up = deadline();
    // Writing without a pause, the log must stop growing at some size, whatever else the machine does.
    while calm < 3 {
        assert!(Instant::now() < give_up, "the log is never started over: {} bytes, {:?}", log(), store.stats());
        let before = log();
        for _ in 0..32 {
            let entry = message(&*store, record.row, head, Role::User, &text);
            head = entry.id;
            submit(&*store, vec![Write::Append(entry)]).unwrap();
            entries += 1;
        }
        calm = if log() == before { calm + 1 } else { 0 };
    }
    assert!(store.stats().checkpoints > 0);
    assert_eq!(store.branch(record.row, head).unwrap().len(), entries);
}
