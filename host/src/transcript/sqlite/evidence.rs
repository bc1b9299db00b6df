//! What lies in the state folder before SQLite is let near it.
//!
//! SQLite makes a database where there is none, throws the log of an empty one away, and reads a log only as far as its
//! checksums go: whatever is missing then was never there. So it is looked at first. Two things tell what should be there:
//!
//! | evidence | says |
//! |---|---|
//! | `transcript.mark` | a store was made here, and whether it was closed in good order |
//! | `transcript.db-shm` | SQLite's index of the log: up to which frame the log was committed, and how far it was copied. It outlives a killed process, is checked by a sum, and is never ahead of the synced log |
//!
//! Without the index (it does not outlive a power cut for certain) damage inside the log shows by what stands behind it: a
//! commit is synced before the next one begins, so behind a bad frame there is at most one commit that belongs together.

use super::lock::open_error;
use crate::transcript::StoreError;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 16] = b"SQLite format 3\0";
const WAL_HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// Version of the log and of its index, for as long as SQLite 3 has had them.
const VERSION: u32 = 3_007_000;

/// How the store was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// It was in use.
    Open,
    /// It was about to be closed: the log may be gone already.
    Closing,
    /// It was closed in good order.
    Closed,
}

impl Mark {
    fn word(self) -> &'static str {
        match self {
            Mark::Open => "open",
            Mark::Closing => "closing",
            Mark::Closed => "closed",
        }
    }

    /// Path of the mark beside a database.
    pub(super) fn path(database: &Path) -> PathBuf {
        database.with_extension("mark")
    }

    /// Reads it; `None` when there is none. One that says nothing known is an open one.
    fn read(database: &Path) -> Option<Mark> {
        let text = std::fs::read_to_string(Mark::path(database)).ok()?;
        let known = [Mark::Closing, Mark::Closed];
        Some(known.into_iter().find(|mark| mark.word() == text.trim()).unwrap_or(Mark::Open))
    }

    /// Writes it beside the database, whole or not at all.
    pub(super) fn write(self, database: &Path) -> std::io::Result<()> {
        let path = Mark::path(database);
        let half = database.with_extension("mark.new");
        let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&half)?;
        writeln!(file, "{}", self.word())?;
        file.sync_all()?;
        std::fs::rename(&half, &path)?;
        match path.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    }
}

/// The log, or the index of the log, of a database.
pub(super) fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// What there is of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing, and nothing tells that there was something.
    Nothing,
    /// A file that may be opened.
    File,
}

/// Looks at what there is, and changes nothing.
///
/// # Errors
///
/// [`StoreError::Gone`], [`StoreError::Damaged`], or that it is no file or cannot be read.
pub(super) fn look(database: &Path) -> Result<Found, StoreError> {
    let failed = |error: std::io::Error| open_error(database, &error);
    let mark = Mark::read(database);
    let log = size(&beside(database, "-wal")).map_err(failed)?;
    let meta = match std::fs::metadata(database) {
        Ok(meta) => Some(meta),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(failed(error)),
    };
    if meta.as_ref().is_some_and(|meta| !meta.is_file()) {
        return Err(open_error(database, &"it is not a file"));
    }
    let len = meta.map_or(0, |meta| meta.len());
    if len == 0 {
        let gone = |reason: &str, remove: &Path| {
            Err(StoreError::Gone {
                path: database.display().to_string(),
                reason: reason.into(),
                remove: remove.display().to_string(),
            })
        };
        return match (mark, log.unwrap_or(0)) {
            (Some(_), _) => gone("a store was made here, and there is nothing in its place", &Mark::path(database)),
            (None, 1..) => gone("its log is there without it", &beside(database, "-wal")),
            (None, 0) => Ok(Found::Nothing),
        };
    }
    let mut head = [0; 16];
    let read = File::open(database).and_then(|mut file| file.read_exact(&mut head));
    match read {
        Ok(()) if head == *MAGIC => {}
        Err(error) if error.kind() != ErrorKind::UnexpectedEof => return Err(failed(error)),
        _ => return Err(damaged("its first bytes are not those of a database")),
    }
    let index = std::fs::read(beside(database, "-shm")).ok().as_deref().and_then(Index::parse);
    let checked = match log {
        // It may be long: a frame at a time.
        Some(1..) => {
            let file = File::open(beside(database, "-wal")).map_err(failed)?;
            check_log(&mut BufReader::with_capacity(1 << 18, file), index.as_ref(), mark).map_err(failed)?
        }
        _ => check_log(&mut std::io::empty(), index.as_ref(), mark).map_err(failed)?,
    };
    checked.map_err(|reason| damaged(&reason))?;
    if log.unwrap_or(0) == 0 && mark == Some(Mark::Open) {
        tracing::warn!(
            database = %database.display(),
            "the log of the last run is not there: another program copied it into the database and removed it, or it was removed \
             and what it held is lost"
        );
    }
    Ok(Found::File)
}

fn damaged(reason: &str) -> StoreError {
    StoreError::Damaged { reason: reason.to_owned() }
}

fn size(path: &Path) -> std::io::Result<Option<u64>> {
    match std::fs::metadata(path) {
        Ok(meta) => Ok(Some(meta.len())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// What the index says of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Index {
    /// Last committed frame.
    last: u32,
    /// Frames that are copied into the database.
    copied: u32,
    salt: [u8; 8],
}

impl Index {
    /// Reads its header; `None` when it is not whole.
    fn parse(bytes: &[u8]) -> Option<Index> {
        let (one, two) = (bytes.get(..48)?, bytes.get(48..96)?);
        let number = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let sums = checksum(one.get(..40)?, (0, 0), cfg!(target_endian = "big"));
        let whole = one == two && number(0)? == VERSION && bytes.get(12)? == &1 && (number(40)?, number(44)?) == sums;
        whole.then_some(())?;
        Some(Index { last: number(16)?, copied: number(96)?, salt: bytes.get(32..40)?.try_into().ok()? })
    }
}

/// SQLite's checksum of a log: over pairs of 32-bit words.
fn checksum(bytes: &[u8], seed: (u32, u32), big: bool) -> (u32, u32) {
    let word = |bytes: &[u8]| {
        let bytes: [u8; 4] = bytes.try_into().unwrap_or_default();
        if big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    };
    bytes.chunks_exact(8).fold(seed, |(one, two), pair| {
        let one = one.wrapping_add(word(&pair[..4])).wrapping_add(two);
        (one, two.wrapping_add(word(&pair[4..])).wrapping_add(one))
    })
}

fn be(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes)
}

/// What the header of a log says.
struct Log {
    salt: [u8; 8],
    page: usize,
    big: bool,
    seed: (u32, u32),
}

impl Log {
    /// `None` when it is not whole.
    fn parse(header: &[u8; WAL_HEADER]) -> Option<Log> {
        let big = match be(header, 0) {
            0x377f_0682 => false,
            0x377f_0683 => true,
            _ => return None,
        };
        let page = be(header, 8) as usize;
        let seed = checksum(&header[..24], (0, 0), big);
        let whole = be(header, 4) == VERSION
            && page.is_power_of_two()
            && (512..=65_536).contains(&page)
            && seed == (be(header, 24), be(header, 28));
        whole.then_some(Log { salt: header[16..24].try_into().ok()?, page, big, seed })
    }

    /// True for a frame of this log that follows one with these sums.
    fn follows(&self, frame: &[u8], seed: (u32, u32)) -> bool {
        let head = checksum(&frame[..8], seed, self.big);
        frame[8..16] == self.salt
            && be(frame, 0) != 0
            && checksum(&frame[FRAME_HEADER..], head, self.big) == (be(frame, 16), be(frame, 20))
    }
}

/// Fills `out`; false at the end of the log.
fn fill(log: &mut dyn Read, out: &mut [u8]) -> std::io::Result<bool> {
    match log.read_exact(out) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Compares the log with what else tells of it; the inner error is what is wrong with it.
fn check_log(bytes: &mut dyn Read, index: Option<&Index>, mark: Option<Mark>) -> std::io::Result<Result<(), String>> {
    let mut header = [0; WAL_HEADER];
    let whole = fill(bytes, &mut header)?;
    let Some(log) = Log::parse(&header).filter(|_| whole) else {
        if let Some(index) = index.filter(|index| index.last > index.copied) {
            let lost = index.last - index.copied;
            let reason =
                format!("its log is missing or cannot be read, and {lost} pages of it are not in the database");
            return Ok(Err(reason));
        }
        if whole && mark == Some(Mark::Open) && index.is_none() {
            return Ok(Err("its log begins with something else".into()));
        }
        return Ok(Ok(()));
    };
    let mut frame = vec![0; FRAME_HEADER + log.page];
    let (mut seed, mut valid, mut committed, mut broken) = (log.seed, 0u32, 0u32, false);
    // Behind the first bad frame: commits in a row that belong together.
    let (mut commits, mut most) = (0, 0);
    while fill(bytes, &mut frame)? {
        let follows = log.follows(&frame, seed);
        let commit = be(&frame, 4) != 0;
        // What follows a bad frame is looked at from that frame's own sums on.
        seed = (be(&frame, 16), be(&frame, 20));
        if !broken && follows {
            valid += 1;
            if commit {
                committed = valid;
            }
            continue;
        }
        commits = if broken && follows { commits + u32::from(commit) } else { 0 };
        most = most.max(commits);
        broken = true;
    }
    Ok(match index {
        Some(index) if index.salt == log.salt => match index.last > committed && index.copied < index.last {
            true => {
                let last = index.last;
                Err(format!("its log can be read up to page {committed} of the {last} that were committed"))
            }
            false => Ok(()),
        },
        _ if most >= 2 => Err(format!("its log cannot be read from page {} on, and commits follow", valid + 1)),
        _ => Ok(()),
    })
}
