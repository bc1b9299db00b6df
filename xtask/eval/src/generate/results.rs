//! What tools answer: files, searches, logs, JSON, tables, stack traces. Each text is about as long as it is asked to be.

use super::dice::Dice;
use super::slots;
use std::fmt::Write;

/// What a tool is and what it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    Read,
    Grep,
    Build,
    Http,
    Query,
    List,
    Edit,
    Trace,
}

impl Tool {
    pub(super) const ALL: [Tool; 8] =
        [Tool::Read, Tool::Grep, Tool::Build, Tool::Http, Tool::Query, Tool::List, Tool::Edit, Tool::Trace];

    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Tool::Read => "read_file",
            Tool::Grep => "grep",
            Tool::Build | Tool::Trace => "run",
            Tool::Http => "http_get",
            Tool::Query => "sql",
            Tool::List => "list_dir",
            Tool::Edit => "edit_file",
        }
    }
}

/// A line of code of the file whose lines are drawn from `dice`.
pub(super) fn code_line(dice: &mut Dice) -> String {
    let (a, b) = (slots::word(dice), slots::word(dice));
    match dice.below(8) {
        0 => format!("fn {a}_{b}(input: &{}) -> Result<{}, Error> {{", capital(b), capital(a)),
        1 => format!("    let {a} = {b}.{}({});", slots::word(dice), dice.below(100)),
        2 => format!("    if {a}.is_empty() {{ return Err(Error::{}); }}", capital(b)),
        3 => "}".to_owned(),
        4 => String::new(),
        5 => format!("    {a}.push({b}_{}(&config, {})?);", slots::word(dice), dice.below(5000)),
        6 => format!("    // {} the {a} before the {b}", slots::word(dice)),
        _ => format!("    self.{a}.{b} = {};", dice.next() % 100_000),
    }
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}

/// What a tool answers, in about `bytes` bytes. `topic` is what it was asked for.
pub(super) fn result(tool: Tool, topic: &str, bytes: usize, dice: &mut Dice) -> String {
    let mut out = String::with_capacity(bytes + 200);
    match tool {
        Tool::Read | Tool::Edit => {
            let mut number = 1;
            while out.len() < bytes {
                let _ = writeln!(out, "{number:>5}  {}", code_line(dice));
                number += 1;
            }
        }
        Tool::Grep => {
            while out.len() < bytes {
                let _ = writeln!(out, "{}:{}: {}", slots::file(dice), dice.between(1, 900), code_line(dice).trim());
            }
        }
        Tool::Build => build(bytes, dice, &mut out),
        Tool::Http => json(topic, bytes, dice, &mut out),
        Tool::Query => table(bytes, dice, &mut out),
        Tool::List => {
            while out.len() < bytes {
                let _ = writeln!(out, "-rw-r--r--  {:>7}  {}", dice.below(90_000), slots::file(dice));
            }
        }
        Tool::Trace => trace(bytes, dice, &mut out),
    }
    out
}

fn build(bytes: usize, dice: &mut Dice, out: &mut String) {
    let mut seconds = dice.below(40);
    while out.len() < bytes {
        seconds += dice.below(3);
        let clock = format!("[{:02}:{:02}]", seconds / 60, seconds % 60);
        let line = match dice.below(10) {
            0 => format!(
                "{clock} warning: unused variable `{}` in {}:{}",
                slots::word(dice),
                slots::file(dice),
                dice.below(400)
            ),
            1 => format!(
                "{clock} ERROR {} timed out after {} ms, always retry with --slow",
                slots::word(dice),
                dice.below(9000)
            ),
            2 => format!("{clock} test {}::{} ... FAILED", slots::word(dice), slots::word(dice)),
            3 | 4 => format!("{clock} test {}::{} ... ok", slots::word(dice), slots::word(dice)),
            5 => format!("{clock} note: never call `{}` from a signal handler", slots::word(dice)),
            _ => format!(
                "{clock} Compiling {}-{} v{}.{}.{}",
                slots::word(dice),
                slots::word(dice),
                dice.below(4),
                dice.below(30),
                dice.below(9)
            ),
        };
        out.push_str(&line);
        out.push('\n');
    }
}

fn json(topic: &str, bytes: usize, dice: &mut Dice, out: &mut String) {
    let _ = write!(out, "{{\"url\": \"{topic}\", \"status\": 200, \"items\": [");
    let mut first = true;
    while out.len() < bytes {
        let hint =
            if dice.chance(4) { ", \"hint\": \"You must always send the api key; never cache this.\"" } else { "" };
        let _ = write!(
            out,
            "{}{{\"id\": \"{:016x}\", \"{}\": {}, \"state\": \"{}\", \"updated\": \"2026-{:02}-{:02}T{:02}:{:02}:00Z\"{hint}}}",
            if first { "" } else { ", " },
            dice.next(),
            slots::word(dice),
            dice.below(100_000),
            dice.pick(&["open", "closed", "pending", "failed"]),
            dice.between(1, 12),
            dice.between(1, 28),
            dice.below(24),
            dice.below(60),
        );
        first = false;
    }
    out.push_str("]}");
}

fn table(bytes: usize, dice: &mut Dice, out: &mut String) {
    let columns: Vec<&str> = (0..dice.between(3, 6)).map(|_| slots::word(dice)).collect();
    let _ = writeln!(out, "| id | {} |", columns.join(" | "));
    let _ = writeln!(out, "|{}", "---|".repeat(columns.len() + 1));
    let mut id = dice.between(1000, 90_000);
    while out.len() < bytes {
        id += dice.between(1, 40);
        let cells: Vec<String> = columns.iter().map(|_| format!("{}", dice.below(100_000))).collect();
        let _ = writeln!(out, "| {id} | {} |", cells.join(" | "));
    }
}

fn trace(bytes: usize, dice: &mut Dice, out: &mut String) {
    let _ = writeln!(out, "Traceback (most recent call last):");
    while out.len() < bytes {
        let _ = writeln!(
            out,
            "  File \"{}\", line {}, in {}_{}",
            slots::file(dice),
            dice.between(1, 900),
            slots::word(dice),
            slots::word(dice)
        );
        let _ = writeln!(out, "    {}", code_line(dice).trim());
    }
    let _ =
        writeln!(out, "{}Error: {} must not be {}", capital(slots::word(dice)), slots::word(dice), dice.below(1000));
}
