//! The file of a ledger: words of eight bytes at fixed places, then texts. What is read of an old one is only believed as far
//! as it makes sense.
//!
//! ```text
//!  header   magic, format, process, start, how it ended, boot id, and one cause
//!  places   names of what a row may be in: load, layout, register, then the hooks
//!  subjects who can be accused: kind, id, plugin
//!  rows     one per thread that runs code of an engine; 64 bytes each, so that no two threads share a cache line
//!  ranges   where each library lies in memory, and whose it is
//! ```
//!
//! A bit that turned must not lose a verdict, so all that one comes from says itself whether it is whole: what is written once
//! has a sum, a row and an owner say each word twice, and a state is one of few words that are far from each other. What does
//! not is damage, and then the whole is not believed.

use std::ops::Range;

/// Another layout has another number.
pub(super) const FORMAT: u64 = 2;
pub(super) const MAGIC: u64 = u64::from_ne_bytes(*b"ERcrash1");
pub(super) const PLACES: usize = 64;
pub(super) const PLACE_BYTES: usize = 32;
pub(super) const SUBJECTS: usize = 128;
/// Longest id that is kept as it is.
pub(super) const ID_BYTES: usize = 120;
pub(super) const SUBJECT_BYTES: usize = 16 + 2 * (ID_BYTES + 8);
pub(super) const ROWS: usize = 1024;
pub(super) const ROW_BYTES: usize = 64;
pub(super) const RANGES: usize = 128;
pub(super) const RANGE_BYTES: usize = 32;
const BOOT_BYTES: usize = 64;

/// Words of the header, by number.
pub(super) mod word {
    pub(in super::super) const MAGIC: usize = 0;
    pub(in super::super) const FORMAT: usize = 1;
    pub(in super::super) const PID: usize = 2;
    pub(in super::super) const STARTED_MS: usize = 3;
    /// One of [`super::ended`].
    pub(in super::super) const ENDED: usize = 4;
    pub(in super::super) const SUBJECTS: usize = 5;
    pub(in super::super) const ROWS: usize = 6;
    pub(in super::super) const RANGES: usize = 7;
    pub(in super::super) const BOOT: usize = 8;
    /// One of [`super::cause`].
    pub(in super::super) const CAUSE: usize = 16;
    /// One of [`super::kind`].
    pub(in super::super) const KIND: usize = 17;
    /// Signal or exit code.
    pub(in super::super) const NUMBER: usize = 18;
    pub(in super::super) const CODE: usize = 19;
    pub(in super::super) const SENDER: usize = 20;
    pub(in super::super) const ADDRESS: usize = 21;
    pub(in super::super) const PC: usize = 22;
    /// The word of the row of the thread; 0 when it has none.
    pub(in super::super) const ROW: usize = 23;
    /// 1 when the thread ran a service of the host.
    pub(in super::super) const SERVING: usize = 24;
    /// Number of the range in which the program counter lay, from 1.
    pub(in super::super) const RANGE: usize = 25;
    /// The same for the nearest caller on the stack.
    pub(in super::super) const CALLER: usize = 26;
    pub(in super::super) const WHEN_MS: usize = 27;
    pub(in super::super) const STACK: usize = 28;
    /// [`super::STOPPING`] from the moment on at which the process was told to stop.
    pub(in super::super) const STOPPING: usize = 29;
    /// Sum of what a blank ledger says: the words up to the start, the boot id and the places.
    pub(in super::super) const BLANK_SUM: usize = 30;
    /// Sum of the words of the cause.
    pub(in super::super) const CAUSE_SUM: usize = 31;
    pub(in super::super) const WORDS: usize = 64;
}

/// How a process ended, as far as it could say.
pub(super) mod ended {
    pub(in super::super) const NOT: u64 = 0;
    /// It stopped in good order.
    pub(in super::super) const WELL: u64 = u64::from_ne_bytes(*b"endswell");
    /// The host itself called exit.
    pub(in super::super) const BY_HOST: u64 = u64::from_ne_bytes(*b"hostexit");
}

/// How far the cause is.
pub(super) mod cause {
    pub(in super::super) const NONE: u64 = 0;
    /// Somebody writes it.
    pub(in super::super) const BEGUN: u64 = u64::from_ne_bytes(*b"begun...");
    pub(in super::super) const WHOLE: u64 = u64::from_ne_bytes(*b"recorded");
}

/// The process was told to stop.
pub(super) const STOPPING: u64 = u64::from_ne_bytes(*b"stopping");

/// Words of the cause, in the order of their sum.
pub(super) const CAUSE_WORDS: std::ops::RangeInclusive<usize> = word::KIND..=word::STACK;

/// A sum over words, so simple that a handler of signals may make it.
pub(super) fn sum(words: impl Iterator<Item = u64>) -> u64 {
    words.fold(0x9e37_79b9_7f4a_7c15, |sum, word| (sum ^ word).rotate_left(29).wrapping_mul(0x2545_f491_4f6c_dd1d))
}

/// Sum of bytes, the last word filled up with zeroes.
pub(super) fn sum_of(bytes: &[u8]) -> u64 {
    sum(bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_ne_bytes(word)
    }))
}

/// A word that says its lower half twice.
pub(super) const fn twice(half: u32) -> u64 {
    half as u64 | (half as u64) << 32
}

/// True when both halves say the same.
pub(super) const fn is_twice(word: u64) -> bool {
    word >> 32 == word & 0xffff_ffff
}

/// What a blank ledger's sum is made of.
fn blank_sum(bytes: &[u8]) -> u64 {
    let part = |range: Range<usize>| sum_of(bytes.get(range).unwrap_or_default());
    let boot = word::BOOT * 8;
    let places = PLACES_AT..PLACES_AT + PLACES * PLACE_BYTES;
    sum([part(0..word::ENDED * 8), part(boot..boot + BOOT_BYTES), part(places)].into_iter())
}

/// What the cause is.
pub(super) mod kind {
    pub(in super::super) const SIGNAL: u64 = 1;
    pub(in super::super) const EXIT: u64 = 2;
    pub(in super::super) const QUICK_EXIT: u64 = 3;
    pub(in super::super) const RAW_EXIT: u64 = 4;
}

/// The first word of a row. All of it stands there twice, in the lower and in the upper half.
pub(super) mod row {
    use super::twice;

    /// A call runs.
    pub(in super::super) const ACTIVE: u64 = twice(1);
    /// A service of the host runs on behalf of it.
    pub(in super::super) const SERVING: u64 = twice(2);

    pub(in super::super) const fn pack(subject: u16, place: u8) -> u64 {
        ACTIVE | twice((place as u32) << 8 | (subject as u32) << 16)
    }

    pub(in super::super) const fn place(word: u64) -> usize {
        (word >> 8 & 0xff) as usize
    }

    pub(in super::super) const fn subject(word: u64) -> usize {
        (word >> 16 & 0xffff) as usize
    }
}

pub(super) const PLACES_AT: usize = word::WORDS * 8;
pub(super) const SUBJECTS_AT: usize = PLACES_AT + PLACES * PLACE_BYTES;
pub(super) const ROWS_AT: usize = (SUBJECTS_AT + SUBJECTS * SUBJECT_BYTES).next_multiple_of(ROW_BYTES);
pub(super) const RANGES_AT: usize = ROWS_AT + ROWS * ROW_BYTES;
/// Size of the file.
pub(super) const SIZE: usize = (RANGES_AT + RANGES * RANGE_BYTES).next_multiple_of(4096);

/// What can be accused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sort {
    /// A context engine.
    Engine,
    /// A memory provider.
    Memory,
    /// A library as a whole: it was being loaded, or a thread of its own failed.
    Library,
}

impl Sort {
    pub(super) const fn number(self) -> u64 {
        match self {
            Sort::Engine => 1,
            Sort::Memory => 2,
            Sort::Library => 3,
        }
    }

    fn of(number: u64) -> Option<Sort> {
        [Sort::Engine, Sort::Memory, Sort::Library].into_iter().find(|sort| sort.number() == number)
    }
}

/// Sum of a subject: of its sort, and of what follows the sum.
pub(super) fn subject_sum(sort: u64, texts: &[u8]) -> u64 {
    sum([sort, sum_of(texts)].into_iter())
}

/// Whom a row or a range belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Subject {
    pub(super) sort: Sort,
    pub(super) id: String,
    pub(super) plugin: String,
}

/// An id as the ledger keeps it: one that is too long by its beginning and its hash.
pub(super) fn kept(id: &str) -> String {
    if id.len() <= ID_BYTES {
        return id.to_owned();
    }
    let hash = xxhash_rust::xxh3::xxh3_64(id.as_bytes());
    let cut = (0..=ID_BYTES - 17).rev().find(|at| id.is_char_boundary(*at)).unwrap_or(0);
    format!("{}~{hash:016x}", &id[..cut])
}

/// A blank ledger.
pub(super) fn blank(pid: u32, started_ms: u64, boot: &str, places: &[&str]) -> Vec<u8> {
    let mut bytes = vec![0; SIZE];
    let mut put = |word: usize, value: u64| bytes[word * 8..word * 8 + 8].copy_from_slice(&value.to_ne_bytes());
    put(word::MAGIC, MAGIC);
    put(word::FORMAT, FORMAT);
    put(word::PID, u64::from(pid));
    put(word::STARTED_MS, started_ms);
    text_into(&mut bytes[word::BOOT * 8..word::BOOT * 8 + BOOT_BYTES], boot);
    for (at, place) in places.iter().take(PLACES).enumerate() {
        let from = PLACES_AT + at * PLACE_BYTES;
        text_into(&mut bytes[from..from + PLACE_BYTES], place);
    }
    let sum = blank_sum(&bytes);
    bytes[word::BLANK_SUM * 8..word::BLANK_SUM * 8 + 8].copy_from_slice(&sum.to_ne_bytes());
    bytes
}

fn text_into(room: &mut [u8], text: &str) {
    let len = text.len().min(room.len());
    room[..len].copy_from_slice(&text.as_bytes()[..len]);
}

/// One call that ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) subject: Subject,
    pub(super) place: String,
    pub(super) active: bool,
    pub(super) serving: bool,
    /// Calls of this thread that returned.
    pub(super) returned: u64,
}

/// What ended the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Recorded {
    pub(super) kind: u64,
    pub(super) number: i64,
    pub(super) code: i64,
    pub(super) sender: i64,
    pub(super) address: u64,
    pub(super) pc: u64,
    /// Stack pointer of the thread.
    pub(super) stack: u64,
    /// What ran on the thread.
    pub(super) row: Option<(Subject, String)>,
    pub(super) serving: bool,
    /// The library in which the program counter lay.
    pub(super) range: Option<Subject>,
    /// The library of the nearest caller, where the thread ran no hook.
    pub(super) caller: Option<Subject>,
    pub(super) when_ms: u64,
}

/// A ledger that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Old {
    pub(super) pid: u64,
    pub(super) started_ms: u64,
    pub(super) boot: String,
    pub(super) ended: u64,
    pub(super) stopping: bool,
    pub(super) rows: Vec<Row>,
    pub(super) cause: Option<Recorded>,
}

impl Old {
    /// What these bytes say.
    ///
    /// # Errors
    ///
    /// Why they are no ledger of this format, or a damaged one.
    pub(super) fn read(bytes: &[u8]) -> Result<Old, &'static str> {
        let file = File(bytes);
        if bytes.len() != SIZE {
            return Err("it has another size");
        }
        if file.word(word::MAGIC) != MAGIC || file.word(word::FORMAT) != FORMAT {
            return Err("it is none of this format");
        }
        if file.word(word::BLANK_SUM) != blank_sum(bytes) {
            return Err("its head is damaged");
        }
        let ended = file.word(word::ENDED);
        if ![ended::NOT, ended::WELL, ended::BY_HOST].contains(&ended) {
            return Err("its end is damaged");
        }
        let stopping = file.word(word::STOPPING);
        if ![0, STOPPING].contains(&stopping) {
            return Err("its end is damaged");
        }
        let cause = match file.word(word::CAUSE) {
            cause::WHOLE => Some(file.cause().ok_or("its cause is damaged")?),
            cause::BEGUN => None,
            // A thread has set that word before it wrote the first of these.
            cause::NONE if CAUSE_WORDS.chain([word::CAUSE_SUM]).all(|number| file.word(number) == 0) => None,
            _ => return Err("its cause is damaged"),
        };
        let used =
            file.used(word::SUBJECTS, SUBJECTS, 1, (SUBJECTS_AT, SUBJECT_BYTES)).ok_or("its names are damaged")?;
        if !(0..used).all(|at| file.subject(at).is_some()) {
            return Err("its names are damaged");
        }
        let used = file.used(word::ROWS, ROWS, 0, (ROWS_AT, ROW_BYTES)).ok_or("its rows are damaged")?;
        let rows = (0..used).map(|at| file.row(at)).collect::<Option<_>>().ok_or("its rows are damaged")?;
        Ok(Old {
            pid: file.word(word::PID),
            started_ms: file.word(word::STARTED_MS),
            boot: file.text(word::BOOT * 8..word::BOOT * 8 + BOOT_BYTES).ok_or("its head is damaged")?,
            ended,
            stopping: stopping != 0,
            rows,
            cause,
        })
    }
}

struct File<'b>(&'b [u8]);

impl File<'_> {
    fn at(&self, offset: usize) -> u64 {
        let bytes = self.0.get(offset..offset + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u64::from_ne_bytes)
    }

    fn word(&self, number: usize) -> u64 {
        self.at(number * 8)
    }

    /// How many places of a table are in use; `None` when that cannot be: there are too many, or others are written, too,
    /// beside so many that are begun before they are counted.
    fn used(&self, count: usize, most: usize, begun: usize, (from, bytes): (usize, usize)) -> Option<usize> {
        let used = usize::try_from(self.word(count)).ok().filter(|used| *used <= most)?;
        let rest = (from + (used + begun).min(most) * bytes)..(from + most * bytes);
        self.0.get(rest)?.iter().all(|byte| *byte == 0).then_some(used)
    }

    /// A text up to its first NUL; `None` when it is no text.
    fn text(&self, range: Range<usize>) -> Option<String> {
        let bytes = self.0.get(range)?;
        let bytes = bytes.split(|byte| *byte == 0).next()?;
        let text = std::str::from_utf8(bytes).ok()?;
        (!text.contains(char::is_control)).then(|| text.to_owned())
    }

    fn subject(&self, at: usize) -> Option<Subject> {
        if at >= SUBJECTS || at as u64 >= self.word(word::SUBJECTS) {
            return None;
        }
        let from = SUBJECTS_AT + at * SUBJECT_BYTES;
        let text = |from: usize| self.text(from..from + ID_BYTES).filter(|text| !text.is_empty());
        if self.at(from + 8) != subject_sum(self.at(from), self.0.get(from + 16..from + SUBJECT_BYTES)?) {
            return None;
        }
        Some(Subject { sort: Sort::of(self.at(from))?, id: text(from + 16)?, plugin: text(from + 16 + ID_BYTES + 8)? })
    }

    fn place(&self, at: usize) -> Option<String> {
        let from = PLACES_AT + at * PLACE_BYTES;
        if at >= PLACES {
            return None;
        }
        self.text(from..from + PLACE_BYTES).filter(|text| !text.is_empty())
    }

    fn row(&self, at: usize) -> Option<Row> {
        let from = ROWS_AT + at * ROW_BYTES;
        let word = self.at(from);
        if !is_twice(word) {
            return None;
        }
        Some(Row {
            subject: self.subject(row::subject(word))?,
            place: self.place(row::place(word))?,
            active: word & row::ACTIVE != 0,
            serving: word & row::SERVING != 0,
            returned: self.at(from + 8),
        })
    }

    /// Owner of a range by its number, from 1; of none for 0. The outer `None` is damage.
    fn owner(&self, number: u64) -> Option<Option<Subject>> {
        let Some(at) = usize::try_from(number).ok()?.checked_sub(1) else { return Some(None) };
        let owner = self.at(RANGES_AT + at * RANGE_BYTES + 16);
        let owner = (at < RANGES && is_twice(owner)).then_some(owner & 0xffff_ffff)?;
        self.subject(usize::try_from(owner).ok()?).map(Some)
    }

    fn cause(&self) -> Option<Recorded> {
        let signed = |number: usize| self.word(number) as i64;
        let kind = self.word(word::KIND);
        let whole = self.word(word::CAUSE_SUM) == sum(CAUSE_WORDS.map(|number| self.word(number)));
        if !whole || !(kind::SIGNAL..=kind::RAW_EXIT).contains(&kind) {
            return None;
        }
        let ran = self.word(word::ROW);
        let row = || Some((self.subject(row::subject(ran))?, self.place(row::place(ran))?));
        Some(Recorded {
            kind,
            number: signed(word::NUMBER),
            code: signed(word::CODE),
            sender: signed(word::SENDER),
            address: self.word(word::ADDRESS),
            pc: self.word(word::PC),
            stack: self.word(word::STACK),
            row: if ran & row::ACTIVE != 0 { Some(row()?) } else { None },
            serving: self.word(word::SERVING) != 0,
            range: self.owner(self.word(word::RANGE))?,
            caller: self.owner(self.word(word::CALLER))?,
            when_ms: self.word(word::WHEN_MS),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_blank_ledger_reads_back_and_nothing_else_is_one() {
        let bytes = blank(7, 9, "boot", &["load", "assemble"]);
        let old = Old::read(&bytes).unwrap();
        assert_eq!((old.pid, old.started_ms, old.boot.as_str(), old.ended), (7, 9, "boot", ended::NOT));
        assert!(old.rows.is_empty() && old.cause.is_none());
        assert!(Old::read(&bytes[..SIZE - 1]).is_err(), "truncated");
        assert!(Old::read(&[]).is_err());
        assert!(Old::read(&vec![0; SIZE]).is_err(), "foreign");
        let mut other = bytes.clone();
        other[8] ^= 1;
        assert!(Old::read(&other).is_err(), "another format");
        let mut other = bytes;
        other[word::BOOT * 8] = 0xff;
        assert!(Old::read(&other).is_err(), "a boot id that is no text");
    }

    #[test]
    fn an_id_that_is_too_long_keeps_its_beginning_and_stays_itself() {
        assert_eq!(kept("window"), "window");
        let (one, two) = ("e".repeat(500), "e".repeat(501));
        assert!(kept(&one).len() <= ID_BYTES && kept(&one).starts_with("eee"));
        assert_ne!(kept(&one), kept(&two));
        assert!(kept(&"é".repeat(200)).len() <= ID_BYTES);
    }

    proptest! {
        /// Whatever stands in the file behind a right header, reading it neither fails nor runs away.
        #[test]
        fn garbage_is_read_without_harm(seed in any::<u64>(), changes in prop::collection::vec((8..SIZE, any::<u8>()), 0..400)) {
            let mut bytes = blank(7, seed, "boot", &["load", "layout", "register", "factory"]);
            for (at, value) in changes {
                bytes[at] = value;
            }
            if let Ok(old) = Old::read(&bytes) {
                prop_assert!(old.rows.len() <= ROWS);
            }
        }

        #[test]
        fn garbage_everywhere_is_no_ledger(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
            prop_assert!(Old::read(&bytes).is_err());
        }

        /// Words of any value in the header and the first rows.
        #[test]
        fn wild_words_are_read_without_harm(words in prop::collection::vec((4..word::WORDS, any::<u64>()), 0..40), rows in prop::collection::vec(any::<u64>(), 64)) {
            let mut bytes = blank(7, 1, "boot", &["load"]);
            for (at, value) in words {
                if !(word::BOOT..word::BOOT + 8).contains(&at) {
                    bytes[at * 8..at * 8 + 8].copy_from_slice(&value.to_ne_bytes());
                }
            }
            for (at, value) in rows.into_iter().enumerate() {
                bytes[ROWS_AT + at * 8..ROWS_AT + at * 8 + 8].copy_from_slice(&value.to_ne_bytes());
            }
            let Ok(old) = Old::read(&bytes) else { return Ok(()) };
            prop_assert!(old.rows.iter().all(|row| !row.place.is_empty()));
        }
    }
}
