//! The one module that prints. Results go to standard output, everything else to standard error.
//!
//! Colour, tables drawn with lines and progress bars are for people: they appear only where the stream is a terminal, and
//! never when `NO_COLOR` is set.

use super::error::{CliError, Verdict};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use serde_json::json;
use std::io::{IsTerminal, Write};

/// Colours by meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As it should be.
    Good,
    /// Worth a look.
    Warn,
    /// Failed.
    Bad,
    /// A heading or a name.
    Strong,
    /// Beside the point.
    Dim,
}

impl Tone {
    fn code(self) -> &'static str {
        match self {
            Tone::Good => "32",
            Tone::Warn => "33",
            Tone::Bad => "31",
            Tone::Strong => "1",
            Tone::Dim => "2",
        }
    }
}

/// Where a command's words go.
#[derive(Debug, Clone, Copy)]
pub struct Out {
    json: bool,
    terminal: bool,
    colour: bool,
    error_colour: bool,
}

impl Out {
    /// For this process's streams.
    pub fn new(json: bool) -> Out {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let terminal = std::io::stdout().is_terminal();
        let error_terminal = std::io::stderr().is_terminal();
        Out { json, terminal, colour: wanted && terminal && !json, error_colour: wanted && error_terminal }
    }

    /// True when a program reads the result.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// True when a person sees the result.
    pub fn is_terminal(&self) -> bool {
        self.terminal && !self.json
    }

    /// Text in a colour, where colours are shown.
    pub fn paint(&self, tone: Tone, text: &str) -> String {
        painted(self.colour, tone, text)
    }

    /// A piece of a result, as it is. A reader that went away is no error.
    pub fn piece(&self, text: &str) {
        let mut stdout = std::io::stdout().lock();
        let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    }

    /// A line of a result.
    pub fn line(&self, text: &str) {
        self.piece(&format!("{text}\n"));
    }

    /// A result as a JSON document.
    pub fn document(&self, document: &impl Serialize) {
        match serde_json::to_string_pretty(document) {
            Ok(text) => self.line(&text),
            Err(error) => self.note(&format!("the document cannot be written: {error}")),
        }
    }

    /// A remark, to standard error.
    pub fn note(&self, text: &str) {
        let mut stderr = std::io::stderr().lock();
        let _ = writeln!(stderr, "{text}");
    }

    /// A remark beside the point, to standard error.
    pub fn aside(&self, text: &str) {
        self.note(&painted(self.error_colour, Tone::Dim, text));
    }

    /// A warning, to standard error.
    pub fn warn(&self, text: &str) {
        self.note(&format!("{} {text}", painted(self.error_colour, Tone::Warn, "warning:")));
    }

    /// An error: code, message, causes, hint. For programs a JSON document on standard output, too.
    pub fn error(&self, error: &CliError) -> Verdict {
        let (code, report) = error.shown();
        let mut text = painted(self.error_colour, Tone::Bad, &format!("error[{code}]:"));
        text.push_str(&format!(" {}", report.message));
        for cause in &report.causes {
            text.push_str(&format!("\n  cause: {cause}"));
        }
        if let Some(hint) = &report.hint {
            text.push_str(&format!("\n  hint: {hint}"));
        }
        self.note(&text);
        if self.json {
            self.document(&json!({"error": {
                "code": code, "message": report.message, "causes": report.causes, "hint": report.hint,
            }}));
        }
        error.verdict()
    }

    /// A table: with lines for people, columns separated by tabs for programs that do not ask for JSON.
    pub fn table(&self, head: &[&str], rows: &[Vec<Cell>]) {
        if !self.is_terminal() {
            let mut text = head.join("\t");
            text.push('\n');
            for row in rows {
                let cells: Vec<String> = row.iter().map(|cell| cell.text.replace(['\t', '\n'], " ")).collect();
                text.push_str(&cells.join("\t"));
                text.push('\n');
            }
            self.piece(&text);
            return;
        }
        let styled = |text: &str, tone: Option<Tone>| {
            let cell = comfy_table::Cell::new(text);
            match tone.filter(|_| self.colour) {
                None => cell,
                Some(Tone::Good) => cell.fg(comfy_table::Color::Green),
                Some(Tone::Warn) => cell.fg(comfy_table::Color::Yellow),
                Some(Tone::Bad) => cell.fg(comfy_table::Color::Red),
                Some(Tone::Strong) => cell.add_attribute(comfy_table::Attribute::Bold),
                Some(Tone::Dim) => cell.add_attribute(comfy_table::Attribute::Dim),
            }
        };
        let mut table = comfy_table::Table::new();
        table
            .load_style(comfy_table::presets::UTF8_HORIZONTAL_ONLY)
            .set_content_arrangement(comfy_table::ContentArrangement::Dynamic)
            .set_header(head.iter().map(|name| styled(name, Some(Tone::Strong))).collect::<Vec<_>>());
        for row in rows {
            table.add_row(row.iter().map(|cell| styled(&cell.text, cell.tone)).collect::<Vec<_>>());
        }
        self.line(&table.to_string());
    }

    /// Asks a question that is answered by yes or no, where a person can answer; else the answer is no.
    pub fn asked(&self, question: &str) -> bool {
        let stdin = std::io::stdin();
        if self.json || !stdin.is_terminal() || !std::io::stderr().is_terminal() {
            return false;
        }
        let mut stderr = std::io::stderr().lock();
        let _ = write!(stderr, "{question}").and_then(|()| stderr.flush());
        let mut answer = String::new();
        let read = stdin.read_line(&mut answer);
        read.is_ok() && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
    }

    /// A bar for work of `steps` steps; on a terminal only, and on standard error.
    pub fn progress(&self, steps: u64) -> ProgressBar {
        let target = if self.error_colour { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(steps), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {wide_msg}") {
            bar.set_style(style);
        }
        bar
    }
}

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    text: String,
    tone: Option<Tone>,
}

impl Cell {
    /// In a colour.
    pub fn toned(text: impl Into<String>, tone: Tone) -> Cell {
        Cell { text: text.into(), tone: Some(tone) }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell { text: text.into(), tone: None }
    }
}

fn painted(colour: bool, tone: Tone, text: &str) -> String {
    if colour { format!("\x1b[{}m{text}\x1b[0m", tone.code()) } else { text.to_owned() }
}

/// A number of bytes for people.
pub fn bytes(count: u64) -> String {
    indicatif::HumanBytes(count).to_string()
}

/// A number with groups of digits, for people.
pub fn count(number: u64) -> String {
    indicatif::HumanCount(number).to_string()
}

/// A moment, given in ms since the epoch, in the local time zone.
pub fn moment(ms: i64) -> String {
    match jiff::Timestamp::from_millisecond(ms) {
        Ok(time) => time.to_zoned_datetime(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => ms.to_string(),
    }
}

/// A line of foreign text as it may be shown on a terminal, whole: what would steer the terminal is replaced.
pub fn printable(line: &str) -> String {
    line.chars().map(|c| if c.is_control() && c != '\t' { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// A text as one line of at most `most` characters, without anything that could steer a terminal.
pub fn short(text: &str, most: usize) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let words = words.collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(most) {
        Some((cut, _)) => format!("{}…", words.get(..cut).unwrap_or_default()),
        None => words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_becomes_one_short_line() {
        assert_eq!(short("a\n b\tc", 10), "a b c");
        assert_eq!(short("ääääää", 3), "äää…");
        assert_eq!(short("a\u{1b}[31mred", 10), "a [31mred");
    }

    #[test]
    fn numbers_are_grouped_and_sized() {
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(bytes(2_048), "2.00 KiB");
    }
}
