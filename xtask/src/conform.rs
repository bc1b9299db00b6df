//! `conform`: breaks the behaviour behind a line of `docs/conformance.md` and sees that its tests notice, and only they.

use crate::{Outcome, cargo, root};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// The variable that the host's switches read.
const BREAK: &str = "ENGINEROOM_BREAK";
/// Lines that a continuous run breaks each time; which ones rotates with the day of the commit, so that the same commit is
/// always checked in the same way.
const PART: usize = 2;
/// Longest run of the tests of one binary; a behaviour that is broken may hang.
const PATIENCE: Duration = Duration::from_secs(240);

/// One line of the table.
pub(crate) struct Row {
    /// `8.24`.
    pub(crate) line: String,
    /// `file::test` or `engineroom::module::test`; none when the line does not apply.
    pub(crate) tests: Vec<String>,
    /// Lines whose tests may fail together with this one.
    kind: Vec<String>,
}

/// The rows of the table. A cell names tests in backquotes.
pub(crate) fn rows(table: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for text in table.lines() {
        let cells: Vec<&str> = text.trim().trim_matches('|').split('|').map(str::trim).collect();
        let [line, _, tests, kind] = cells[..] else { continue };
        if !line.starts_with(|first: char| first.is_ascii_digit()) {
            continue;
        }
        let tests = tests.split('`').skip(1).step_by(2).filter(|name| name.contains("::")).map(str::to_owned).collect();
        let kind = kind.split([' ', ',']).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        rows.push(Row { line: line.to_owned(), tests, kind });
    }
    rows
}

/// `conform`: the part of the commit's day. `conform LINE…`: these lines. `conform --all`: every line. `--alone` runs only the tests of the
/// broken line, which shows that they notice, but not that no other does.
pub(crate) fn conform(args: &[String]) -> Outcome {
    let table = std::fs::read_to_string(root().join("docs/conformance.md")).map_err(|error| error.to_string())?;
    let rows = rows(&table);
    let alone = args.iter().any(|arg| arg == "--alone");
    let all = args.iter().any(|arg| arg == "--all");
    let named: Vec<&String> = args.iter().filter(|arg| !arg.starts_with("--")).collect();
    if let Some(unknown) = named.iter().find(|name| !rows.iter().any(|row| row.line == ***name)) {
        return Err(format!("docs/conformance.md has no line {unknown}"));
    }
    let switched = switched_lines()?;
    let breakable: Vec<&Row> =
        rows.iter().filter(|row| !row.tests.is_empty() && switched.contains(&row.line)).collect();
    let chosen: Vec<&Row> = match named.is_empty() {
        false => breakable.iter().filter(|row| named.iter().any(|name| **name == row.line)).copied().collect(),
        true if all => breakable.clone(),
        true => part_of_the_day(&breakable),
    };
    if chosen.len() < named.len() {
        return Err("a line that does not apply, or has no switch in host/src, cannot be broken".into());
    }
    let binaries = binaries()?;
    let mut faults = Vec::new();
    for row in chosen {
        let started = Instant::now();
        let run: BTreeSet<&String> =
            if alone { row.tests.iter().collect() } else { rows.iter().flat_map(|row| &row.tests).collect() };
        let failed = failing(&binaries, &run, &row.line)?;
        let faults_before = faults.len();
        for test in &row.tests {
            if !failed.contains(test) {
                faults.push(format!("{}: {test} passes although the behaviour is broken", row.line));
            }
        }
        let same_kind = |test: &&String| {
            rows.iter()
                .filter(|other| other.tests.contains(test))
                .any(|other| other.line == row.line || row.kind.contains(&other.line) || other.kind.contains(&row.line))
        };
        for test in failed.iter().filter(|test| !same_kind(test)) {
            faults.push(format!("{}: {test} fails, too, and is not named as of its kind", row.line));
        }
        let word = if faults.len() == faults_before { "noticed" } else { "NOT AS IT SHOULD BE" };
        println!("{:6} {word} ({} failed, {:.0} s)", row.line, failed.len(), started.elapsed().as_secs_f64());
    }
    if faults.is_empty() { Ok(()) } else { Err(format!("\n  {}", faults.join("\n  "))) }
}

/// The lines that have a switch in the host.
fn switched_lines() -> Result<BTreeSet<String>, String> {
    let mut lines = BTreeSet::new();
    let mut open = vec![root().join("host/src")];
    while let Some(folder) = open.pop() {
        let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                open.push(path);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                for rest in text.split("broken(\"").skip(1) {
                    lines.extend(rest.split('"').next().map(str::to_owned));
                }
            }
        }
    }
    Ok(lines)
}

fn part_of_the_day<'a>(rows: &[&'a Row]) -> Vec<&'a Row> {
    let first = usize::try_from(day()).unwrap_or(0).wrapping_mul(PART);
    (first..first + PART.min(rows.len())).map(|place| rows[place % rows.len()]).collect()
}

/// The day of the checked commit, since the epoch.
pub(crate) fn day() -> u64 {
    seconds() / 86_400
}

/// When the checked commit was made, in seconds since the epoch; without git, now.
fn seconds() -> u64 {
    let log = Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root()).output();
    let committed = log.ok().and_then(|output| String::from_utf8_lossy(&output.stdout).trim().parse().ok());
    committed
        .unwrap_or_else(|| SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs()))
}

/// Built test programs by name of their target.
fn binaries() -> Result<BTreeMap<String, PathBuf>, String> {
    let output = cargo()
        .args(["test", "--workspace", "--no-run", "--message-format=json"])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err("the tests do not build".into());
    }
    let mut found = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
        let is_lib = message["target"]["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "lib"));
        let is_test = message["target"]["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "test"));
        if let (true, Some(name), Some(path)) =
            (is_lib || is_test, message["target"]["name"].as_str(), message["executable"].as_str())
        {
            found.insert(name.to_owned(), PathBuf::from(path));
        }
    }
    Ok(found)
}

/// Those of `tests` that fail while `line` is broken. A program that hangs or dies counts as failed for what it did not finish.
fn failing(
    binaries: &BTreeMap<String, PathBuf>,
    tests: &BTreeSet<&String>,
    line: &str,
) -> Result<BTreeSet<String>, String> {
    let mut by_binary: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for test in tests {
        let Some((binary, name)) = test.split_once("::") else { continue };
        by_binary.entry(binary).or_default().push(name);
    }
    let mut failed = BTreeSet::new();
    for (binary, names) in by_binary {
        let path = binaries.get(binary).ok_or_else(|| format!("no test program is called {binary}"))?;
        let mut command = Command::new(path);
        command.args(&names).arg("--exact").env(BREAK, line).current_dir(root().join("tests"));
        let passed = passed(command).map_err(|error| format!("{}: {error}", path.display()))?;
        failed.extend(names.iter().filter(|name| !passed.contains(**name)).map(|name| format!("{binary}::{name}")));
    }
    Ok(failed)
}

/// Names of the tests that a program says it passed.
fn passed(mut command: Command) -> std::io::Result<BTreeSet<String>> {
    let output = tempfile::tempfile()?;
    let mut child = command.stdout(output.try_clone()?).stderr(Stdio::null()).spawn()?;
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait()?.is_none() {
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut text = String::new();
    let mut output = output;
    std::io::Seek::rewind(&mut output)?;
    std::io::Read::read_to_string(&mut output, &mut text)?;
    let passed = |line: &str| line.strip_prefix("test ")?.strip_suffix(" ... ok").map(str::to_owned);
    Ok(text.lines().filter_map(passed).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_names_its_tests_in_backquotes_and_its_kind_by_line() {
        let table = "| line | rule | tests | kind |\n|---|---|---|---|\n\
            | 8.1 | a rule with `code` | `file::one`, `engineroom::room::two` | 8.2, 9.1 |\n\
            | 8.2 | another | does not apply: a reason | |\n";
        let rows = rows(table);
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].line.as_str(), rows[0].tests.len()), ("8.1", 2));
        assert_eq!(rows[0].kind, ["8.2", "9.1"]);
        assert!(rows[1].tests.is_empty());
    }

    #[test]
    fn the_parts_of_following_days_reach_every_line() {
        let rows =
            rows("| 8.1 | r | `a::b` | |\n| 8.2 | r | `a::b` | |\n| 8.3 | r | `a::b` | |\n| 8.4 | r | `a::b` | |\n");
        let rows: Vec<&Row> = rows.iter().collect();
        assert_eq!(part_of_the_day(&rows).len(), PART);
    }
}
