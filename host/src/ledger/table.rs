//! The verdicts that last: a small document in the state folder, written whole or not at all.

use super::format::{Old, Sort, kept};
use super::verdict::{Judgement, Verdict};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::Path;

/// Name of the document in the state folder.
pub(super) const DOCUMENT: &str = "crash-verdicts.json";
const FORMAT: u32 = 1;
/// After so many good calls of an engine, an unexplained end begins a new count: what happened before is long ago.
pub(super) const SETTLED: u64 = 1_000;
/// So many unexplained ends in a row are a crash.
const IN_A_ROW: u32 = 2;

/// What an engine is held for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Held {
    /// It ended the gateway: not loaded in-process again until it is released.
    Crashed,
    /// The gateway ended while it was called, and nothing tells why.
    Unexplained,
}

impl std::fmt::Display for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Held::Crashed => "crashed",
            Held::Unexplained => "unexplained",
        })
    }
}

/// What is held against an engine, a memory provider, or a library as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crash {
    /// For what.
    pub verdict: Held,
    /// What it is.
    pub kind: Sort,
    /// Its id; a plugin's for a library.
    pub id: String,
    /// The plugin that it belongs to.
    pub plugin: String,
    /// The hook or load stage.
    pub at: String,
    /// What ended the process, in words, where it was recorded.
    pub cause: Option<String>,
    /// Name of the signal.
    pub signal: Option<String>,
    /// Exit code.
    pub exit_code: Option<i64>,
    /// Unexplained ends in a row.
    pub count: u32,
    /// When, ms since the Unix epoch; of an unexplained end, when it was found.
    pub when_ms: u64,
    /// True when the next start serves it from a worker.
    #[serde(default)]
    pub worker: bool,
}

impl Crash {
    /// What happened, in one line.
    pub fn said(&self) -> String {
        let when = jiff::Timestamp::from_millisecond(i64::try_from(self.when_ms).unwrap_or(i64::MAX))
            .map_or_else(|_| "an unknown time".to_owned(), |when| when.strftime("%Y-%m-%d %H:%M:%S UTC").to_string());
        match (&self.cause, self.verdict) {
            (Some(cause), _) => format!("it ended the gateway in {} with {cause}, at {when}", self.at),
            (None, Held::Crashed) => format!(
                "the gateway ended {} times in a row while it was called, last in {}, without a recorded cause; found at {when}",
                self.count, self.at
            ),
            (None, Held::Unexplained) => format!(
                "the gateway ended while {} ran, without a recorded cause; found at {when} ({} so far)",
                self.at, self.count
            ),
        }
    }

    /// The same for one that workers serve already.
    pub fn hint_apart(&self) -> String {
        format!(
            "a worker serves it, where it can do the gateway no harm; once its library is mended, \
             `engineroom plugins release {}` takes this away",
            self.id
        )
    }

    /// What an operator can do.
    pub fn hint(&self) -> String {
        match self.verdict {
            Held::Crashed => format!(
                "mend or replace the library, then `engineroom plugins release {}` and restart; or set \
                 plugins.entries.{}.isolation = \"process\", which serves it from a worker",
                self.id, self.plugin
            ),
            Held::Unexplained => format!(
                "once more and it counts as crashed; set plugins.entries.{}.isolation = \"process\" to find out, or \
                 `engineroom plugins release {}` if the gateway was killed on purpose",
                self.plugin, self.id
            ),
        }
    }
}

/// A process whose ledger was judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Judged {
    boot: String,
    pid: u64,
    started_ms: u64,
}

/// The document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Table {
    format: u32,
    /// The ledger that was judged last, so that it is never judged twice.
    judged: Option<Judged>,
    pub(super) crashes: Vec<Crash>,
    /// What could not be understood of the last ledger; the next start that may load engines serves all of them from workers.
    #[serde(default)]
    pub(super) damaged: Option<String>,
}

impl Table {
    /// Reads the document. One that cannot be read counts as none; the second value says so.
    pub(super) fn read(folder: &Path) -> (Table, Option<String>) {
        let path = folder.join(DOCUMENT);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return (Table::default(), None),
            Err(error) => return (Table::default(), Some(format!("{} cannot be read: {error}", path.display()))),
        };
        match serde_json::from_slice::<Table>(&bytes) {
            Ok(table) if table.format == FORMAT => (table, None),
            Ok(table) => (Table::default(), Some(format!("{} has the format {}", path.display(), table.format))),
            Err(error) => (Table::default(), Some(format!("{} is damaged: {error}", path.display()))),
        }
    }

    /// Writes the document, whole or not at all, so that it survives a power cut.
    pub(super) fn write(&self, folder: &Path) -> std::io::Result<()> {
        let mut file = tempfile::Builder::new().prefix(".crash-verdicts.").tempfile_in(folder)?;
        serde_json::to_writer_pretty(file.as_file_mut(), &Table { format: FORMAT, ..self.clone() })?;
        file.write_all(b"\n")?;
        file.as_file().sync_all()?;
        file.persist(folder.join(DOCUMENT)).map_err(|failed| failed.error)?;
        std::fs::File::open(folder)?.sync_all()
    }

    pub(super) fn has_judged(&self, old: &Old) -> bool {
        self.judged.as_ref().is_some_and(|judged| {
            judged.pid == old.pid && judged.started_ms == old.started_ms && judged.boot == old.boot
        })
    }

    /// Notes that a ledger was judged.
    pub(super) fn judged(&mut self, old: &Old) {
        self.judged = Some(Judged { boot: old.boot.clone(), pid: old.pid, started_ms: old.started_ms });
    }

    /// Takes a verdict in. True when something changed.
    pub(super) fn take(&mut self, judgement: &Judgement, now_ms: u64) -> bool {
        let before = self.crashes.clone();
        for (subject, returned) in &judgement.returned {
            // A good end, or a long good run before a bad one, is the end of a row.
            if judgement.verdict == Verdict::Well || *returned >= SETTLED {
                self.crashes.retain(|crash| {
                    crash.verdict != Held::Unexplained || crash.kind != subject.sort || crash.id != subject.id
                });
            }
        }
        for (subject, at) in &judgement.accused {
            let earlier = self.crashes.iter().position(|crash| crash.kind == subject.sort && crash.id == subject.id);
            let earlier = earlier.map(|at| self.crashes.remove(at));
            let unexplained = judgement.verdict == Verdict::Unexplained;
            let count = match (unexplained, &earlier) {
                (false, _) => 0,
                (true, Some(earlier)) => earlier.count.saturating_add(1),
                (true, None) => 1,
            };
            let held = !unexplained
                || count >= IN_A_ROW
                || earlier.as_ref().is_some_and(|earlier| earlier.verdict == Held::Crashed);
            self.crashes.push(Crash {
                verdict: if held { Held::Crashed } else { Held::Unexplained },
                kind: subject.sort,
                id: subject.id.clone(),
                plugin: subject.plugin.clone(),
                at: at.clone(),
                cause: judgement.cause.clone().filter(|_| !unexplained),
                signal: judgement.signal.clone().filter(|_| !unexplained),
                exit_code: judgement.exit_code.filter(|_| !unexplained),
                count,
                when_ms: judgement.when_ms.unwrap_or(now_ms),
                worker: !held,
            });
        }
        before != self.crashes
    }

    /// Takes out what is held against this id: of an engine, a memory provider, or a plugin with all that is its own.
    /// What is held against the library of `plugin` as a whole goes as well.
    pub(super) fn release(&mut self, id: &str, plugin: Option<&str>) -> Vec<Crash> {
        let (id, plugin) = (kept(id), plugin.map(kept));
        let library = |crash: &Crash| crash.kind == Sort::Library && plugin.as_ref() == Some(&crash.id);
        let (out, stay) = std::mem::take(&mut self.crashes)
            .into_iter()
            .partition(|crash| crash.id == id || crash.plugin == id || library(crash));
        self.crashes = stay;
        out
    }

    /// A start that may load engines serves the unexplained from workers, this once.
    pub(super) fn workers_taken(&mut self) -> bool {
        let due = self.damaged.take().is_some() | self.crashes.iter().any(|crash| crash.worker);
        self.crashes.iter_mut().for_each(|crash| crash.worker = false);
        due
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::Subject;
    use super::*;
    use std::collections::BTreeMap;

    fn subject(id: &str) -> Subject {
        Subject { sort: Sort::Engine, id: id.into(), plugin: format!("{id}-plugin") }
    }

    fn judgement(verdict: Verdict, accused: &[&str], returned: &[(&str, u64)]) -> Judgement {
        Judgement {
            verdict,
            accused: accused.iter().map(|id| (subject(id), "assemble".to_owned())).collect(),
            cause: (verdict == Verdict::Crashed).then(|| "SIGSEGV (memory access at 0x8)".to_owned()),
            signal: None,
            exit_code: None,
            when_ms: Some(1_700_000_000_000),
            returned: returned.iter().map(|(id, count)| (subject(id), *count)).collect::<BTreeMap<_, _>>(),
        }
    }

    fn held(table: &Table, id: &str) -> Option<(Held, u32)> {
        table.crashes.iter().find(|crash| crash.id == id).map(|crash| (crash.verdict, crash.count))
    }

    #[test]
    fn twice_unexplained_in_a_row_is_crashed() {
        let mut table = Table::default();
        assert!(table.take(&judgement(Verdict::Unexplained, &["a", "b"], &[]), 1));
        assert_eq!(held(&table, "a"), Some((Held::Unexplained, 1)));
        assert!(table.crashes.iter().all(|crash| crash.worker));
        assert!(table.workers_taken() && !table.workers_taken());
        // A run in a worker, or one that ended from outside, is no run of the row.
        assert!(!table.take(&judgement(Verdict::Well, &[], &[]), 1));
        assert!(!table.take(&judgement(Verdict::Outside, &[], &[("a", 5)]), 1));
        assert!(table.take(&judgement(Verdict::Unexplained, &["a"], &[("a", 5)]), 1));
        assert_eq!((held(&table, "a"), held(&table, "b")), (Some((Held::Crashed, 2)), Some((Held::Unexplained, 1))));
        // Nothing but a release takes that away.
        table.take(&judgement(Verdict::Well, &[], &[("a", 5_000)]), 1);
        assert_eq!(held(&table, "a"), Some((Held::Crashed, 2)));
    }

    #[test]
    fn a_good_end_or_many_good_calls_end_the_row() {
        let unexplained = judgement(Verdict::Unexplained, &["a"], &[]);
        let mut table = Table::default();
        table.take(&unexplained, 1);
        assert!(table.take(&judgement(Verdict::Well, &[], &[("a", 1)]), 1));
        assert_eq!(held(&table, "a"), None);
        table.take(&unexplained, 1);
        table.take(&judgement(Verdict::Unexplained, &["a"], &[("a", SETTLED)]), 1);
        assert_eq!(held(&table, "a"), Some((Held::Unexplained, 1)));
    }

    #[test]
    fn a_release_names_an_engine_or_a_plugin_and_takes_nothing_else() {
        let mut table = Table::default();
        table.take(&judgement(Verdict::Crashed, &["a"], &[]), 1);
        table.take(&judgement(Verdict::Crashed, &["b"], &[]), 1);
        assert!(table.release("c", None).is_empty());
        assert_eq!(table.release("a", None).len(), 1);
        assert_eq!(table.release("b-plugin", None).len(), 1);
        assert!(table.crashes.is_empty());
        // What a library did as a whole is held against each of its engines.
        let mut library = judgement(Verdict::Crashed, &["p"], &[]);
        library.accused[0].0.sort = Sort::Library;
        table.take(&library, 1);
        assert!(table.release("engine", Some("q")).is_empty());
        assert_eq!(table.release("engine", Some("p")).len(), 1);
    }

    #[test]
    fn the_document_reads_back_and_a_damaged_one_counts_as_none() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Table::read(folder.path()), (Table::default(), None));
        let mut table = Table::default();
        table.take(&judgement(Verdict::Crashed, &["a"], &[]), 1);
        table.write(folder.path()).unwrap();
        let (read, trouble) = Table::read(folder.path());
        assert_eq!((read.crashes, trouble), (table.crashes.clone(), None));
        let said = table.crashes[0].said();
        assert!(said.contains("assemble") && said.contains("SIGSEGV") && said.contains("2023-11-14"), "{said}");
        let path = folder.path().join(DOCUMENT);
        for garbage in [&b""[..], b"{", b"[]", br#"{"format": 9, "judged": null, "crashes": []}"#] {
            std::fs::write(&path, garbage).unwrap();
            let (read, trouble) = Table::read(folder.path());
            assert_eq!(read, Table::default());
            assert!(trouble.is_some(), "{garbage:?}");
        }
    }
}
