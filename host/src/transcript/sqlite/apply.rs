//! One submission, applied inside the writer's transaction.

use super::purge::What;
use super::{backend, codec, engine, purge, schema, subagents};
use crate::transcript::{
    BlockedReason, Entry, LeaseToken, OutboxRow, OutboxState, SessionRecord, SessionRow, StoreError, Submission,
    TurnRecord, Write,
};
use rusqlite::{Connection, ErrorCode, OptionalExtension};

/// Applies every write of `submission`, in order. On an error the caller rolls back what was done.
pub(super) fn submission(conn: &Connection, submission: &Submission) -> Result<(), StoreError> {
    if let Some((session, token)) = submission.lease {
        check_lease(conn, session, token, &submission.writes)?;
    }
    StoreError::at("store.apply.before")?;
    for write in &submission.writes {
        apply(conn, write, submission.lease)?;
    }
    seal(conn, &submission.writes)?;
    StoreError::at("store.apply.after")
}

/// Brings the sums of the sessions up to date whose branch the writes moved.
fn seal(conn: &Connection, writes: &[Write]) -> Result<(), StoreError> {
    let mut moved: Vec<SessionRow> = writes.iter().filter_map(moves).collect();
    moved.sort_unstable();
    moved.dedup();
    moved.into_iter().try_for_each(|session| seal_session(conn, session))
}

fn moves(write: &Write) -> Option<SessionRow> {
    match write {
        Write::CreateSession { record } => Some(record.row),
        Write::SetHead { session, .. }
        | Write::Generation { session, .. }
        | Write::Rename { session, .. }
        | Write::ResetSession { session, .. } => Some(*session),
        _ => None,
    }
}

pub(super) fn seal_session(conn: &Connection, session: SessionRow) -> Result<(), StoreError> {
    let row = session as i64;
    let sum = conn
        .prepare_cached("SELECT key, session_id, agent, head, generation FROM sessions WHERE row = ?1")
        .and_then(|mut statement| {
            let sum = |found: &rusqlite::Row<'_>| {
                let text = |at: usize| found.get_ref(at)?.as_str().map_err(rusqlite::Error::from);
                Ok(codec::session_sum(row, text(0)?, text(1)?, text(2)?, found.get(3)?, found.get(4)?))
            };
            statement.query_row([row], sum).optional()
        })
        .map_err(backend)?;
    match sum {
        Some(sum) => run(conn, "UPDATE sessions SET sum = ?2 WHERE row = ?1", (row, sum)).map(|_| ()),
        // Deleted in the same list.
        None => Ok(()),
    }
}

/// An older token than the session has seen is refused; a newer one is remembered, in the same transaction.
fn check_lease(conn: &Connection, session: SessionRow, token: LeaseToken, writes: &[Write]) -> Result<(), StoreError> {
    let seen: Option<i64> = conn
        .prepare_cached("SELECT lease FROM sessions WHERE row = ?1")
        .and_then(|mut s| s.query_row([session as i64], |row| row.get(0)).optional())
        .map_err(backend)?;
    match seen {
        Some(seen) if token.0 < seen as u64 => Err(StoreError::StaleLease { session }),
        Some(seen) if token.0 == seen as u64 => Ok(()),
        Some(_) => {
            run(conn, "UPDATE sessions SET lease = ?2 WHERE row = ?1", (session as i64, token.0 as i64)).map(|_| ())
        }
        // A session that was deleted meanwhile must not come back by a late write.
        None if writes.iter().any(|w| matches!(w, Write::CreateSession { record } if record.row == session)) => Ok(()),
        None => Err(StoreError::NotFound("session")),
    }
}

fn apply(conn: &Connection, write: &Write, lease: Option<(SessionRow, LeaseToken)>) -> Result<(), StoreError> {
    match write {
        Write::CreateSession { record } => {
            StoreError::at("store.write.session")?;
            create_session(conn, record, lease)
        }
        Write::Append(entry) => {
            StoreError::at("store.write.entry")?;
            append(conn, entry)
        }
        Write::SetHead { session, head } => {
            StoreError::at("store.write.head")?;
            if *head != 0 && session_of(conn, *head)? != Some(*session) {
                return Err(StoreError::Invalid("the head is no entry of the session"));
            }
            let sql = "UPDATE sessions SET head = ?2 WHERE row = ?1";
            one(run(conn, sql, (*session as i64, *head as i64))?, "session")
        }
        Write::Generation { session, generation } => {
            let sql = "UPDATE sessions SET generation = max(generation, ?2) WHERE row = ?1";
            one(run(conn, sql, (*session as i64, *generation as i64))?, "session")
        }
        Write::Rename { session, session_id } => {
            let sql = "UPDATE sessions SET session_id = ?2 WHERE row = ?1";
            one(run(conn, sql, (*session as i64, session_id))?, "session")
        }
        Write::Outbox(row) => {
            StoreError::at("store.write.outbox")?;
            outbox(conn, row)
        }
        Write::OutboxDelete { engine, key } => {
            StoreError::at("store.write.outbox_delete")?;
            run(conn, "DELETE FROM outbox WHERE engine = ?1 AND key = ?2", (engine, key)).map(|_| ())
        }
        Write::OutboxCovered { engine, session, up_to } => {
            let sql = "DELETE FROM outbox WHERE session = ?1 AND first <= ?3 AND last <= ?3 AND last > 0
                       AND engine = ?2 AND state IN (?4, ?5)";
            let states = (state_code(OutboxState::Accepted), state_code(OutboxState::Ready));
            run(conn, sql, (*session as i64, engine, *up_to as i64, states.0, states.1)).map(|_| ())
        }
        Write::HandedOver { engine, session, entry } => {
            let sql = "INSERT INTO handed(session, engine, entry) VALUES(?1, ?2, ?3)
                       ON CONFLICT(session, engine) DO UPDATE SET entry = max(entry, ?3)";
            run(conn, sql, (*session as i64, engine, *entry as i64)).map(|_| ())
        }
        Write::Turn(record) => {
            StoreError::at("store.write.turn")?;
            turn(conn, record)
        }
        Write::TurnDetail { session, turn_id, name, value } => {
            let sql =
                "UPDATE turns SET detail = json_set(detail, '$.' || ?3, json(?4)) WHERE session = ?1 AND turn_id = ?2";
            run(conn, sql, (*session as i64, turn_id, name, value.to_string())).map(|_| ())
        }
        Write::FreezePruned { session, entry, text } => {
            let sql = "INSERT INTO frozen(session, entry, text) VALUES(?1, ?2, ?3)
                       ON CONFLICT(session, entry) DO UPDATE SET text = ?3";
            run(conn, sql, (*session as i64, *entry as i64, text)).map(|_| ())
        }
        Write::EngineBatch { engine, scope, ops } => {
            StoreError::at("store.write.engine")?;
            engine::batch(conn, engine, *scope, ops)
        }
        Write::EngineDropScope { engine, scope } => engine::drop_scope(conn, engine.as_deref(), *scope),
        Write::Subagent(record) => {
            StoreError::at("store.write.subagent")?;
            subagents::put(conn, record)
        }
        Write::SubagentForget(child) => subagents::forget(conn, child),
        Write::DeleteSession { session } => delete_session(conn, *session),
        Write::ResetSession { session, generation } => reset_session(conn, *session, *generation),
        Write::Probe => schema::set_meta(conn, "probed", 1).map_err(backend),
        Write::DropScopePart { session } => purge::part(conn, *session, What::Scope).map(|_| ()),
    }
}

fn create_session(
    conn: &Connection,
    record: &SessionRecord,
    lease: Option<(SessionRow, LeaseToken)>,
) -> Result<(), StoreError> {
    let token = lease.filter(|(row, _)| *row == record.row).map_or(0, |(_, token)| token.0);
    let sql =
        "INSERT INTO sessions(row, key, session_id, agent, head, generation, created_ms, updated_ms, entries, lease)
               VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, ?9)";
    let inserted = conn.prepare_cached(sql).and_then(|mut s| {
        s.execute((
            record.row as i64,
            &record.key,
            &record.session_id,
            &record.agent,
            record.head as i64,
            record.generation as i64,
            record.created_ms,
            record.updated_ms,
            token as i64,
        ))
    });
    match inserted {
        Ok(_) => Ok(()),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
            Err(StoreError::Exists("session"))
        }
        Err(error) => Err(backend(error)),
    }
}

fn append(conn: &Connection, entry: &Entry) -> Result<(), StoreError> {
    if entry.parent >= entry.id {
        return Err(StoreError::Invalid("an entry must be younger than its parent"));
    }
    if entry.parent != 0 && session_of(conn, entry.parent)? != Some(entry.session) {
        return Err(StoreError::Invalid("the parent is no entry of the session"));
    }
    let sql = "UPDATE sessions SET entries = entries + 1, updated_ms = max(updated_ms, ?2) WHERE row = ?1";
    one(run(conn, sql, (entry.session as i64, entry.time_ms))?, "session")?;
    let (kind, body) = codec::encode(&entry.body)?;
    let numbers = [
        entry.id as i64,
        entry.parent as i64,
        entry.session as i64,
        entry.time_ms,
        i64::from(entry.flags),
        i64::from(entry.tokens),
        kind,
    ];
    let sum = codec::entry_sum(numbers, &body);
    let sql = "INSERT INTO entries(id, parent, session, time_ms, flags, tokens, kind, body, sum)
               VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    let inserted = conn.prepare_cached(sql).and_then(|mut s| {
        s.execute((
            entry.id as i64,
            entry.parent as i64,
            entry.session as i64,
            entry.time_ms,
            entry.flags,
            entry.tokens,
            kind,
            body.as_ref(),
            sum,
        ))
    });
    match inserted {
        Ok(_) => Ok(()),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
            Err(StoreError::Exists("entry"))
        }
        Err(error) => Err(backend(error)),
    }
}

fn session_of(conn: &Connection, entry: u64) -> Result<Option<SessionRow>, StoreError> {
    let found: Option<i64> = conn
        .prepare_cached("SELECT session FROM entries WHERE id = ?1")
        .and_then(|mut s| s.query_row([entry as i64], |row| row.get(0)).optional())
        .map_err(backend)?;
    Ok(found.map(|row| row as u64))
}

fn outbox(conn: &Connection, row: &OutboxRow) -> Result<(), StoreError> {
    let sql = "INSERT INTO outbox(engine, key, session, session_id, first, last, position, generation, state, reason, attempts,
               attempted_ms, last_error, facts, created_ms)
               VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
               ON CONFLICT(engine, key) DO UPDATE SET session_id = ?4, first = ?5, last = ?6, position = ?7, generation = ?8,
               state = ?9, reason = ?10, attempts = ?11, attempted_ms = ?12, last_error = ?13, facts = ?14, created_ms = ?15
               WHERE session = ?3";
    let facts = row.facts.as_ref().and_then(|facts| serde_json::to_string(facts).ok());
    let values = rusqlite::params![
        row.engine,
        row.key,
        row.session as i64,
        row.session_id,
        row.first as i64,
        row.last as i64,
        row.position.map_or(-1, |position| position as i64),
        row.generation as i64,
        state_code(row.state),
        row.reason.map(BlockedReason::as_str),
        row.attempts,
        row.attempted_ms,
        row.last_error,
        facts,
        row.created_ms,
    ];
    match run(conn, sql, values)? {
        0 => Err(StoreError::Invalid("advancement key collision: the key belongs to a turn of another session")),
        _ => Ok(()),
    }
}

fn turn(conn: &Connection, record: &TurnRecord) -> Result<(), StoreError> {
    let sql = "INSERT INTO turns(session, turn_id, admitted, terminal, idempotency_key, engine, degraded, detail,
               started_ms, ended_ms) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
               ON CONFLICT(session, turn_id) DO UPDATE SET admitted = ?3, terminal = ?4, idempotency_key = ?5, engine = ?6,
               degraded = ?7, detail = ?8, started_ms = ?9, ended_ms = ?10";
    let values = (
        record.session as i64,
        &record.turn_id,
        record.admitted as i64,
        record.terminal as i64,
        &record.idempotency_key,
        &record.engine,
        &record.degraded,
        record.detail.to_string(),
        record.started_ms,
        record.ended_ms,
    );
    run(conn, sql, values).map(|_| ())
}

fn delete_session(conn: &Connection, session: SessionRow) -> Result<(), StoreError> {
    let row = session as i64;
    StoreError::at("store.write.delete")?;
    forget_handing_over(conn, row)?;
    subagents::forget_children(conn, row)?;
    one(run(conn, "DELETE FROM sessions WHERE row = ?1", [row])?, "session")?;
    // Of a small session that is all; of a large one the writer takes the rest away later.
    purge::part(conn, session, What::Session).map(|_| ())
}

/// A new beginning: an empty branch, a new generation, and engines that were given nothing.
fn reset_session(conn: &Connection, session: SessionRow, generation: u64) -> Result<(), StoreError> {
    let row = session as i64;
    StoreError::at("store.write.reset")?;
    forget_handing_over(conn, row)?;
    let sql = "UPDATE sessions SET head = 0, generation = max(generation, ?2) WHERE row = ?1";
    one(run(conn, sql, (row, generation as i64))?, "session")?;
    purge::part(conn, session, What::Scope).map(|_| ())
}

fn forget_handing_over(conn: &Connection, row: i64) -> Result<(), StoreError> {
    run(conn, "DELETE FROM outbox WHERE session = ?1", [row])?;
    run(conn, "DELETE FROM handed WHERE session = ?1", [row]).map(|_| ())
}

pub(super) fn state_code(state: OutboxState) -> i64 {
    match state {
        OutboxState::Admitted => 0,
        OutboxState::Ready => 1,
        OutboxState::Blocked => 2,
        OutboxState::Accepted => 3,
    }
}

pub(super) fn run(conn: &Connection, sql: &str, values: impl rusqlite::Params) -> Result<usize, StoreError> {
    conn.prepare_cached(sql).and_then(|mut statement| statement.execute(values)).map_err(backend)
}

fn one(changed: usize, what: &'static str) -> Result<(), StoreError> {
    if changed == 0 { Err(StoreError::NotFound(what)) } else { Ok(()) }
}
