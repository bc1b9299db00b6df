//! The scope of a session in the host's store: its keys, the state that it is in, and how a session is read from it.
//!
//! | key | value |
//! |---|---|
//! | `m` | [`Mark`]: who wrote last, and how many entries there are |
//! | `t/` and the ordinal, 4 bytes, big-endian | the entry, [`Stored`]; one byte for an entry that lies in parts |
//! | `u/`, the ordinal, and the number of the part, 4 bytes each | a part of an entry that is too large for one value |
//! | `p` | the pins |
//! | `s` | what the prompts before showed |
//! | `r` | there while the transcript is read from its first entry in several batches |
//!
//! Every batch requires the mark that memory believes in and sets a new one that was never used before. So a batch that was
//! given up at a deadline and lands later cannot be overwritten by one that does not know of it, and a session that does not
//! know what became of its batch finds out with one look.

use super::kept::Kept;
use super::stored::FORMAT;
use super::{Session, Stored};
use engine_abi::{Context, Error, Result, tracing};
use serde::{Deserialize, Serialize};
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

const MARK: &[u8] = b"m";
/// What the keys of entries begin with.
pub(super) const ENTRIES: &[u8] = b"t/";
const PINS: &[u8] = b"p";
const SHOWN: &[u8] = b"s";
const PARTIAL: &[u8] = b"r";
/// What the keys of parts begin with.
const PARTS: &[u8] = b"u/";
/// The value of an entry that lies in parts. No format has this number.
const IN_PARTS: &[u8] = &[u8::MAX];
/// Most bytes of a value; the host takes twice as many. Tests have texts of more than one part, too.
const PART_BYTES: usize = if cfg!(test) { 4 << 10 } else { 8 << 20 };
/// Entries that are read at once.
const PAGE: usize = 512;

/// The state of a scope. No two batches set the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Mark {
    /// Random number of the process that wrote.
    writer: u64,
    /// Which of its batches it was.
    batch: u64,
    /// Entries in the scope.
    rows: u32,
    /// There are pins in it.
    pins: bool,
}

impl Mark {
    fn encode(self) -> Result<Vec<u8>> {
        Ok(postcard::to_extend(&self, vec![FORMAT])?)
    }

    fn decode(value: &[u8]) -> Option<Mark> {
        match value.split_first()? {
            (&FORMAT, fields) => postcard::from_bytes(fields).ok(),
            _ => None,
        }
    }
}

/// How the memory of a session stands to the store.
#[derive(Default)]
pub(super) struct Disk {
    /// Memory was read from the store.
    loaded: bool,
    /// The mark that memory goes with; `None` for an empty scope.
    now: Option<Vec<u8>>,
    /// The mark of a batch whose outcome is not known.
    pending: Option<Vec<u8>>,
    /// What the scope holds is of no use: the next batch begins by emptying it.
    wipe: bool,
    /// Entries that the scope does not hold may be in the transcript, before what the host knows to be handed over.
    pub(super) from_start: bool,
    /// The scope says that the transcript is being read from its first entry.
    is_partial: bool,
    /// Entries were put into the batch of the call since the last [`Session::save`].
    put: bool,
    /// Entries were put into a batch that is not known to be written.
    in_doubt: bool,
    /// Bytes of the entries in the batch.
    pub(super) batch_bytes: usize,
}

/// Random number of this process.
static WRITER: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0));
/// Batches that it tried to write.
static BATCHES: AtomicU64 = AtomicU64::new(1);

impl Disk {
    /// Puts an entry into the call's batch.
    pub(super) fn put_entry(&mut self, context: &Context, at: usize, value: &[u8]) {
        if std::mem::take(&mut self.wipe) {
            let store = context.store();
            store.delete_prefix(ENTRIES);
            store.delete_prefix(PARTS);
            store.delete(PINS);
            store.delete(SHOWN);
        }
        // An ordinal has 32 bits; the row would have been refused.
        let ordinal = u32::try_from(at).unwrap_or(u32::MAX);
        if value.len() <= PART_BYTES {
            context.store().put(entry_key(ordinal), value);
        } else {
            for (part, bytes) in (0..).zip(value.chunks(PART_BYTES)) {
                context.store().put(part_key(ordinal, part), bytes);
            }
            context.store().put(entry_key(ordinal), IN_PARTS);
        }
        self.put = true;
        self.in_doubt = true;
        self.batch_bytes += value.len();
    }

    /// The batch is not the last of a reading from the first entry: one that ends early is taken up from there.
    pub(super) fn begin_partial(&mut self, context: &Context) {
        if self.from_start && !std::mem::replace(&mut self.is_partial, true) {
            context.store().put(PARTIAL, [FORMAT]);
        }
    }

    /// The transcript is read.
    pub(super) fn end_partial(&mut self, context: &Context) {
        if std::mem::take(&mut self.is_partial) {
            context.store().delete(PARTIAL);
            self.put = true;
        }
    }
}

/// The key of an entry.
pub(super) fn entry_key(ordinal: u32) -> [u8; 6] {
    let [a, b, c, d] = ordinal.to_be_bytes();
    [ENTRIES[0], ENTRIES[1], a, b, c, d]
}

fn part_key(ordinal: u32, part: u32) -> [u8; 10] {
    let [a, b, c, d] = ordinal.to_be_bytes();
    let [e, f, g, h] = part.to_be_bytes();
    [PARTS[0], PARTS[1], a, b, c, d, e, f, g, h]
}

/// An entry as it was put, from its value; parts are read and put together.
pub(super) fn whole(context: &Context, ordinal: u32, value: Vec<u8>) -> Result<Vec<u8>> {
    if value != IN_PARTS {
        return Ok(value);
    }
    let mut whole = Vec::new();
    let mut part = 0;
    while let Some(bytes) = context.store().get(part_key(ordinal, part))? {
        whole.extend(bytes);
        part += 1;
    }
    Ok(whole)
}

/// The pins in the scope of the call.
pub(super) fn stored_pins(context: &Context) -> Result<Option<Vec<u8>>> {
    context.store().get(PINS)
}

/// Why a scope cannot be used.
type Damage = &'static str;

impl Session {
    /// Makes memory true: reads the store at first use, and after a batch whose outcome is not known. Called once in a hook,
    /// before anything is written.
    pub(super) fn settle(&mut self, context: &Context) -> Result<()> {
        if context.session().ephemeral() {
            return Ok(());
        }
        if !self.disk.loaded {
            return self.load(context);
        }
        let in_doubt = std::mem::take(&mut self.disk.in_doubt);
        let pending = self.disk.pending.take();
        if !in_doubt && pending.is_none() {
            return Ok(());
        }
        let stored = context.store().get(MARK)?;
        if pending.is_some() && stored == pending {
            self.disk.now = pending;
            return Ok(());
        }
        if stored == self.disk.now && !in_doubt {
            // No entry is concerned: what a look wanted to keep, mostly.
            return self.read_kept(context).map(drop);
        }
        tracing::info!("a batch of the session was not written; the session is read anew");
        self.load(context)
    }

    /// Puts what changed into the call's batch. What the batch leads to is not known until [`Session::saved`].
    pub(super) fn save(&mut self, context: &Context) -> Result<()> {
        if context.session().ephemeral() {
            return Ok(());
        }
        let store = context.store();
        let mut changed = std::mem::take(&mut self.disk.put);
        self.disk.batch_bytes = 0;
        // What was learned from loose entries waits until they are stored.
        if self.kept == self.rows.len() {
            if let Some(pins) = self.pins.changed()? {
                store.put(PINS, pins);
                changed = true;
            }
            if let Some(shown) = self.shown.changed()? {
                store.put(SHOWN, shown);
                changed = true;
            }
        }
        if !changed {
            return Ok(());
        }
        let rows = u32::try_from(self.kept).map_err(|_| Error::new("the session is too long"))?;
        let mark =
            Mark { writer: *WRITER, batch: BATCHES.fetch_add(1, Ordering::Relaxed), rows, pins: self.pins.is_stored() }
                .encode()?;
        match &self.disk.now {
            Some(now) => store.require_equal(MARK, now),
            None => store.require_absent(MARK),
        }
        store.put(MARK, &mark);
        self.disk.pending = Some(mark);
        Ok(())
    }

    /// The batch is written.
    pub(super) fn saved(&mut self) {
        if let Some(mark) = self.disk.pending.take() {
            self.disk.now = Some(mark);
        }
        self.disk.in_doubt = false;
    }

    /// Saves, and writes the batch now.
    ///
    /// # Errors
    ///
    /// When it is refused or cannot be written. The next use of the session asks the store what is true.
    pub(crate) fn store(&mut self, context: &Context) -> Result<()> {
        self.save(context)?;
        context.store().commit()?;
        self.saved();
        Ok(())
    }

    /// Saves where that may be refused, since the engine is only looked at: then memory is made true at the next use.
    pub(crate) fn store_if_allowed(&mut self, context: &Context) -> Result<()> {
        match self.store(context) {
            Err(error) if error.service_token() != 0 => {
                tracing::debug!(error = error.message(), "what was shown is not kept");
                Ok(())
            }
            done => done,
        }
    }

    /// Reads the session from the store. What cannot be used is left: the session is made again from the transcript then.
    fn load(&mut self, context: &Context) -> Result<()> {
        *self = Session::default();
        self.disk.loaded = true;
        let Some(mark) = context.store().get(MARK)? else {
            self.begin_anew(None);
            return Ok(());
        };
        if let Err(damage) = self.read(context, &mark)? {
            tracing::warn!(damage, "what was stored of the session is of no use; it is made again from the transcript");
            self.begin_anew(Some(mark));
        } else {
            self.disk.now = Some(mark);
            self.disk.is_partial = context.store().get(PARTIAL)?.is_some();
            self.disk.from_start = self.disk.is_partial;
        }
        Ok(())
    }

    /// Nothing is known; the scope, whose mark is `now`, is emptied with the next batch.
    fn begin_anew(&mut self, now: Option<Vec<u8>>) {
        *self = Session::default();
        self.disk = Disk { loaded: true, now, wipe: true, from_start: true, ..Disk::default() };
    }

    /// Forgets what is loose. Pins and what was shown do not come from that.
    pub(super) fn drop_loose(&mut self, context: &Context) -> Result<()> {
        let known = std::mem::take(self);
        let Session { pins, shown, disk, replay, .. } = known;
        (self.pins, self.shown, self.disk, self.replay) = (pins, shown, disk, replay);
        if let Err(damage) = self.read_entries(context)? {
            tracing::warn!(damage, "what was stored of the session is of no use; it is made again from the transcript");
            let now = self.disk.now.take();
            self.begin_anew(now);
        }
        Ok(())
    }

    fn read(&mut self, context: &Context, mark: &[u8]) -> Result<Result<(), Damage>> {
        let Some(mark) = Mark::decode(mark) else { return Ok(Err("another format")) };
        if let Err(damage) = self.read_entries(context)? {
            return Ok(Err(damage));
        }
        if mark.rows as usize != self.rows.len() {
            return Ok(Err("entries are missing"));
        }
        let read = self.read_kept(context)?;
        if read.is_ok() && mark.pins != self.pins.is_stored() { Ok(Err("the pins are missing")) } else { Ok(read) }
    }

    /// Reads the pins and what was shown.
    fn read_kept(&mut self, context: &Context) -> Result<Result<(), Damage>> {
        let store = context.store();
        let Some(pins) = Kept::read(store.get(PINS)?) else { return Ok(Err("the pins cannot be read")) };
        self.pins = pins;
        self.shown = Kept::read(store.get(SHOWN)?).unwrap_or_else(|| {
            tracing::info!("what was shown before cannot be read; the next prompt is built anew");
            Kept::default()
        });
        Ok(Ok(()))
    }

    fn read_entries(&mut self, context: &Context) -> Result<Result<(), Damage>> {
        let store = context.store();
        let mut after: Option<Vec<u8>> = None;
        loop {
            context.check()?;
            let page = store.scan(ENTRIES, after.as_deref(), PAGE)?;
            let is_last = page.len() < PAGE;
            for (key, value) in page {
                let Ok(ordinal) = u32::try_from(self.rows.len()) else { return Ok(Err("too many entries")) };
                if key != entry_key(ordinal) {
                    return Ok(Err("an entry is missing"));
                }
                let value = whole(context, ordinal, value)?;
                if Stored::decode(&value).is_none_or(|entry| self.ordinal(entry.head().id).is_some()) {
                    return Ok(Err("an entry cannot be read"));
                }
                self.add(&value)?;
                after = Some(key);
            }
            self.kept = self.rows.len();
            if is_last {
                return Ok(Ok(()));
            }
        }
    }
}
