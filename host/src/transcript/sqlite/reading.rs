//! Reading the tables of a damaged database around what cannot be read.
//!
//! A table with row numbers is read in ascending ranges; where a read fails, the next number from which on it works is looked
//! for in growing steps, and then narrowed down. A table without them is read from both ends, whole and then session by session.

use crate::transcript::{SessionRow, StoreError};
use rusqlite::types::Value;
use rusqlite::{Connection, Params};

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Number,
    Text,
    Bytes,
    /// May also hold nothing.
    Any,
}

/// A column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
}

/// A table, and how to find one's way in it.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) columns: Vec<Column>,
    way: Way,
}

impl Table {
    /// Whether each column of a row holds what it is for.
    pub(super) fn readable(&self, row: &[Value]) -> Result<(), String> {
        let whole = |column: &Column, value: &Value| match (column.kind, value) {
            // Only what is written as JSON is read as such.
            (Kind::Text, Value::Text(text)) if matches!((self.name, column.name), ("turns", "detail")) => {
                serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
            }
            (Kind::Number, Value::Integer(_)) | (Kind::Text, Value::Text(_)) | (Kind::Bytes, Value::Blob(_)) => true,
            (kind, _) => kind == Kind::Any,
        };
        match self.columns.iter().zip(row).find(|(column, value)| !whole(column, value)) {
            None => Ok(()),
            Some((column, _)) => {
                let first = match row.first() {
                    Some(Value::Integer(number)) => number.to_string(),
                    Some(Value::Text(text)) => text.clone(),
                    _ => "?".into(),
                };
                Err(format!("a row of {} ({first}) has no readable {}", self.name, column.name))
            }
        }
    }

    /// All of its columns are there.
    pub(super) fn is_whole(&self, conn: &Connection) -> bool {
        columns_of(conn, self.name)
            .is_ok_and(|there| self.columns.iter().all(|column| there.iter().any(|name| name == column.name)))
    }
}

#[derive(Debug, Clone, Copy)]
enum Way {
    /// By the number in the first column.
    Numbers,
    /// By the columns of its key; and by one of them that holds a session.
    Key { order: &'static str, session: Option<&'static str> },
}

const SESSIONS: &str =
    "row:n key:t session_id:t agent:t head:n generation:n created_ms:n updated_ms:n entries:n lease:n sum:a";
const ENTRIES: &str = "id:n parent:n session:n time_ms:n flags:n tokens:n kind:n body:t sum:a";
const TURNS: &str = "session:n turn_id:t admitted:n terminal:n idempotency_key:a engine:t degraded:a detail:t started_ms:n \
                     ended_ms:n";
const OUTBOX: &str = "engine:t key:t session:n session_id:t first:n last:n position:n generation:n state:n reason:a attempts:n \
                      attempted_ms:n last_error:a facts:a created_ms:n";
const SUBAGENTS: &str = "child:t parent:t created_ms:n open:n due_ms:a waiting:n record:t";

/// All tables, in the order in which they are to be read.
pub(super) fn tables() -> Vec<Table> {
    let key = |order, session| Way::Key { order, session };
    [
        ("meta", "name:t value:n", key("name", None)),
        ("sessions", SESSIONS, Way::Numbers),
        ("entries", ENTRIES, Way::Numbers),
        ("frozen", "session:n entry:n text:t", key("session, entry", Some("session"))),
        ("turns", TURNS, key("session, turn_id", Some("session"))),
        ("outbox", OUTBOX, key("engine, key", Some("session"))),
        ("handed", "session:n engine:t entry:n", key("session, engine", Some("session"))),
        ("engine_kv", "scope:n engine:t key:b value:b", key("scope, engine, key", Some("scope"))),
        ("subagents", SUBAGENTS, key("child", None)),
    ]
    .into_iter()
    .map(|(name, columns, way)| Table { name, columns: columns.split_whitespace().filter_map(column).collect(), way })
    .collect()
}

fn column(text: &'static str) -> Option<Column> {
    let (name, kind) = text.split_once(':')?;
    let kind = match kind {
        "n" => Kind::Number,
        "t" => Kind::Text,
        "b" => Kind::Bytes,
        _ => Kind::Any,
    };
    Some(Column { name, kind })
}

/// What is done with a row.
pub(super) type Take<'a> = dyn FnMut(&mut Vec<Value>) -> Result<(), StoreError> + 'a;

/// Hands over every row that can be read; gives a line for each part that cannot. A row may be handed over twice.
pub(super) fn read(
    conn: &Connection,
    table: &Table,
    sessions: &[SessionRow],
    take: &mut Take<'_>,
) -> Result<Vec<String>, StoreError> {
    let there = match columns_of(conn, table.name) {
        Ok(there) => there,
        Err(error) => return Ok(vec![format!("the table {} cannot be read: {error}", table.name)]),
    };
    // A column that came later holds nothing yet.
    let wanted: Vec<String> = table
        .columns
        .iter()
        .map(|column| match there.iter().any(|name| name == column.name) {
            true => column.name.to_owned(),
            false => format!("NULL AS {}", column.name),
        })
        .collect();
    let lacks =
        table.columns.iter().any(|column| column.kind != Kind::Any && !there.iter().any(|name| name == column.name));
    if there.is_empty() || lacks {
        return Ok(vec![format!(
            "the table {} is not there, or of an older format: nothing of it is taken",
            table.name
        )]);
    }
    let select = format!("SELECT {} FROM {}", wanted.join(", "), table.name);
    match table.way {
        Way::Numbers => by_number(conn, table, &select, take),
        Way::Key { order, session } => by_key(conn, table, &select, order, session.map(|name| (name, sessions)), take),
    }
}

fn columns_of(conn: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = conn.prepare("SELECT name FROM pragma_table_info(?1)")?;
    statement.query_map([table], |row| row.get(0))?.collect()
}

/// How reading a part ended.
enum End {
    /// With its last row.
    Whole,
    /// With an error of the database, behind the row of this number.
    Broken(rusqlite::Error),
}

/// Reads rows until there are no more or one cannot be read.
fn rows(
    conn: &Connection,
    table: &Table,
    sql: &str,
    values: impl Params,
    mut take: impl FnMut(Vec<Value>) -> Result<(), StoreError>,
) -> Result<End, StoreError> {
    let mut statement = match conn.prepare_cached(sql) {
        Ok(statement) => statement,
        Err(error) => return Ok(End::Broken(error)),
    };
    let mut found = match statement.query(values) {
        Ok(found) => found,
        Err(error) => return Ok(End::Broken(error)),
    };
    loop {
        match found.next() {
            Ok(None) => return Ok(End::Whole),
            Err(error) => return Ok(End::Broken(error)),
            Ok(Some(row)) => {
                // A text that is none is told of by whoever judges the row.
                let value = |at: usize| row.get::<_, Value>(at).unwrap_or(Value::Null);
                take((0..table.columns.len()).map(value).collect())?;
            }
        }
    }
}

fn by_number(conn: &Connection, table: &Table, select: &str, take: &mut Take<'_>) -> Result<Vec<String>, StoreError> {
    let id = table.columns.first().map_or("rowid", |column| column.name);
    let sql = format!("{select} WHERE {id} > ?1 ORDER BY {id}");
    let mut lost = Vec::new();
    let mut last = 0i64;
    loop {
        let end = rows(conn, table, &sql, [last], |mut row| {
            if let Some(Value::Integer(number)) = row.first() {
                last = last.max(*number);
            }
            take(&mut row)
        })?;
        let error = match end {
            End::Whole => return Ok(lost),
            End::Broken(error) => error,
        };
        let next = readable_behind(conn, table, id, last);
        let until = next.map_or_else(|| "the end".to_owned(), |next| (next - 1).to_string());
        lost.push(format!("{} {} to {until} cannot be read: {error}", table.name, last + 1));
        match next {
            Some(next) => last = next - 1,
            None => return Ok(lost),
        }
    }
}

/// The first number behind `last` that can be read again.
fn readable_behind(conn: &Connection, table: &Table, id: &str, last: i64) -> Option<i64> {
    // All of the row is read: what is broken may lie behind its first page.
    let names: Vec<&str> = table.columns.iter().map(|column| column.name).filter(|name| *name != "sum").collect();
    let sql = format!("SELECT {} FROM {} WHERE {id} > ?1 ORDER BY {id} LIMIT 1", names.join(", "), table.name);
    let probe = |behind: i64| -> Result<Option<i64>, rusqlite::Error> {
        let mut statement = conn.prepare_cached(&sql)?;
        let mut rows = statement.query([behind])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        for at in 1..names.len() {
            row.get_ref(at)?;
        }
        row.get(0).map(Some)
    };
    let (mut bad, mut step) = (last, 1i64);
    let good = loop {
        let at = last.checked_add(step)?;
        match probe(at) {
            // Behind all rows, or in good order.
            Ok(_) => break at,
            Err(_) => bad = at,
        }
        step = step.checked_mul(2)?;
    };
    let mut good = good;
    while good - bad > 1 {
        let middle = bad + (good - bad) / 2;
        match probe(middle) {
            Ok(_) => good = middle,
            Err(_) => bad = middle,
        }
    }
    probe(good).ok().flatten()
}

fn by_key(
    conn: &Connection,
    table: &Table,
    select: &str,
    order: &str,
    session: Option<(&str, &[SessionRow])>,
    take: &mut Take<'_>,
) -> Result<Vec<String>, StoreError> {
    let backwards: Vec<String> = order.split(", ").map(|name| format!("{name} DESC")).collect();
    let both = |filter: &str| {
        [order.to_owned(), backwards.join(", ")].map(|order| format!("{select} {filter} ORDER BY {order}"))
    };
    let [up, down] = both("");
    let error = match rows(conn, table, &up, [], |mut row| take(&mut row))? {
        End::Whole => return Ok(Vec::new()),
        End::Broken(error) => error,
    };
    rows(conn, table, &down, [], |mut row| take(&mut row))?;
    let mut broken = 0;
    if let Some((name, sessions)) = session {
        let [up, down] = both(&format!("WHERE {name} = ?1"));
        // An engine's own keys are those of the scope 0.
        for session in sessions.iter().copied().chain([0]) {
            if let End::Broken(_) = rows(conn, table, &up, [session as i64], |mut row| take(&mut row))? {
                broken += 1;
                rows(conn, table, &down, [session as i64], |mut row| take(&mut row))?;
            }
        }
    }
    let of = if broken == 0 { String::new() } else { format!(", of {broken} session(s)") };
    Ok(vec![format!("a part of {}{of} cannot be read: {error}", table.name)])
}
