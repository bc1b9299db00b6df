//! The text of a configuration, changed at the places where its keys and values stand. What is not at such a place is never
//! written anew, so it stays as it is, byte by byte: order, comments, spaces, line ends, the form of tables.

use super::items::{self, Brackets};
use std::ops::Range;
use toml_edit::{Document, InlineTable, Item, Table, Value};

/// The text.
pub(super) struct Text {
    text: String,
    /// How its lines end.
    line_end: &'static str,
}

/// A table with a header of its own: its path, and the bytes from its header to the end of its last value.
struct Section {
    path: Vec<String>,
    header: Range<usize>,
    end: usize,
}

impl Text {
    pub(super) fn new(text: String) -> Text {
        let line_end = match text.find('\n') {
            Some(at) if text[..at].ends_with('\r') => "\r\n",
            _ => "\n",
        };
        Text { text, line_end }
    }

    pub(super) fn into_string(self) -> String {
        self.text
    }

    /// What stands at a path, looked at in the parsed document.
    pub(super) fn at<T>(&self, path: &[&str], look: impl FnOnce(&Item) -> T) -> Option<T> {
        let document = Document::parse(self.text.as_str()).ok()?;
        let mut item = document.as_item();
        for key in path {
            item = item.as_table_like()?.get(key)?;
        }
        Some(look(item))
    }

    pub(super) fn boolean(&self, path: &[&str]) -> Option<bool> {
        self.at(path, Item::as_bool)?
    }

    /// The keys of a table.
    pub(super) fn keys(&self, path: &[&str]) -> Vec<String> {
        let keys =
            |item: &Item| item.as_table_like().map(|table| table.iter().map(|(key, _)| key.to_owned()).collect());
        self.at(path, keys).flatten().unwrap_or_default()
    }

    /// The value at a path as it is written.
    pub(super) fn written(&self, path: &[&str]) -> Option<&str> {
        let span = self.at(path, |item| item.as_value().and_then(Value::span))??;
        self.text.get(span)
    }

    /// Puts a value, written in TOML, at a path: in the place of the one that is there, else where it belongs.
    ///
    /// # Errors
    /// The dotted key, when something that is no table is in its way.
    pub(super) fn set(&mut self, path: &[&str], value: &str) -> Result<(), String> {
        let text = std::mem::take(&mut self.text);
        let placed =
            Document::parse(text.as_str()).ok().and_then(|document| self.placed(&text, &document, path, value));
        self.text = text;
        let splices = placed.ok_or_else(|| path.join("."))?;
        self.splice(splices);
        Ok(())
    }

    fn placed(&self, text: &str, document: &Document<&str>, path: &[&str], value: &str) -> Option<Vec<Splice>> {
        let value = self.with_own_line_ends(value);
        let mut home: &Table = document.as_table();
        // Number of keys up to the table whose lines this one's keys stand in.
        let mut lines_from = 0;
        for (depth, key) in path.iter().enumerate() {
            let is_last = depth + 1 == path.len();
            match home.get(key) {
                None => return self.added(text, document, home, path, (lines_from, depth), &value),
                Some(Item::Value(old)) if is_last => return Some(vec![(old.span()?, value)]),
                Some(Item::Value(Value::InlineTable(table))) => {
                    return placed_inline(text, table, &path[depth + 1..], &value, self.line_end);
                }
                Some(Item::Table(table)) if !is_last => {
                    if !table.is_dotted() {
                        lines_from = depth + 1;
                    }
                    home = table;
                }
                Some(_) => return None,
            }
        }
        None
    }

    /// A new key in a table that has lines of its own, or a new section for it.
    fn added(
        &self,
        text: &str,
        document: &Document<&str>,
        home: &Table,
        path: &[&str],
        (lines_from, depth): (usize, usize),
        value: &str,
    ) -> Option<Vec<Splice>> {
        let has_header = !home.is_implicit() && depth > 0;
        if home.is_dotted() || has_header && depth + 1 == path.len() {
            let key = dotted(&path[lines_from..]);
            let (at, indent) = match last_value(home) {
                Some(last) => (last.end, indent_of(text, last.start)),
                None => (home.span()?.end, ""),
            };
            let lines = [format!("{indent}{key} = {value}")];
            return Some(vec![self.lines_at(text, line_end(text, at), &lines)]);
        }
        let (key, parent) = path.split_last()?;
        let lines = [format!("[{}]", dotted(parent)), format!("{} = {value}", dotted(&[key]))];
        Some(vec![self.section_among(text, document, parent, &lines)])
    }

    /// Where a new section goes: behind the last one that it has most in common with, else at the end.
    fn section_among(&self, text: &str, document: &Document<&str>, path: &[&str], lines: &[String]) -> Splice {
        let common = |section: &Section| section.path.iter().zip(path).take_while(|(a, b)| a.as_str() == **b).count();
        let sections = sections(document.as_table());
        let best = sections.iter().map(common).max().filter(|common| *common > 0);
        let relative = sections.iter().filter(|section| Some(common(section)) == best).max_by_key(|one| one.end);
        let at = match relative {
            Some(section) => behind_own_comments(text, section.end),
            None => text.len(),
        };
        let mut all = Vec::with_capacity(lines.len() + 1);
        let front = &text[..at];
        if !front.trim_start_matches('\u{feff}').trim().is_empty() && !ends_blank(front) {
            all.push(String::new());
        }
        all.extend_from_slice(lines);
        self.lines_at(text, at, &all)
    }

    /// Lines at the beginning of a line, or at the end of the text.
    fn lines_at(&self, text: &str, at: usize, lines: &[String]) -> Splice {
        let end = self.line_end;
        let begun = &text[..at];
        let whole = begun.is_empty() || begun.ends_with('\n') || begun == "\u{feff}";
        match whole {
            true => (at..at, lines.iter().fold(String::new(), |all, line| all + line + end)),
            // The last line has no end, and the new last one gets none either.
            false => (at..at, lines.iter().fold(String::new(), |all, line| all + end + line)),
        }
    }

    /// Takes away what stands at a path: a value with its line, a table with its sections. Nothing there is nothing to do.
    ///
    /// # Errors
    /// The dotted key, when it is written in a way that is not understood.
    pub(super) fn remove(&mut self, path: &[&str]) -> Result<(), String> {
        // What is spread over several keys goes one after the other.
        while self.at(path, |_| ()).is_some() {
            let text = std::mem::take(&mut self.text);
            let document = Document::parse(text.as_str()).ok();
            let removed = document.and_then(|document| removed(&text, document.as_table(), path));
            self.text = text;
            let splices = removed.filter(|splices| !splices.is_empty()).ok_or_else(|| path.join("."))?;
            self.splice(splices);
        }
        Ok(())
    }

    /// Adds an item to the array at a path, which is made when it is not there.
    ///
    /// # Errors
    /// As [`Text::set`].
    pub(super) fn push(&mut self, path: &[&str], item: &str) -> Result<(), String> {
        let array = self.at(path, array_places);
        let Some(found) = array else { return self.set(path, &format!("[{item}]")) };
        let (brackets, items) = found.ok_or_else(|| path.join("."))?;
        let splices = items::added(&self.text, brackets, &items, item, "", self.line_end);
        self.splice(splices);
        Ok(())
    }

    /// Takes the item of that number out of the array at a path.
    ///
    /// # Errors
    /// As [`Text::remove`].
    pub(super) fn take_out(&mut self, path: &[&str], number: usize) -> Result<(), String> {
        let found = self.at(path, array_places).flatten();
        let (brackets, items) = found.ok_or_else(|| path.join("."))?;
        let splices = items::removed(&self.text, brackets, &items, number).ok_or_else(|| path.join("."))?;
        self.splice(splices);
        Ok(())
    }

    fn with_own_line_ends(&self, value: &str) -> String {
        value.replace("\r\n", "\n").replace('\n', self.line_end)
    }

    fn splice(&mut self, mut splices: Vec<Splice>) {
        splices.sort_by_key(|(range, _)| std::cmp::Reverse((range.start, range.end)));
        for (range, with) in splices {
            self.text.replace_range(range, &with);
        }
    }
}

/// Bytes, and what comes in their place.
pub(super) type Splice = (Range<usize>, String);

/// A key in an inline table.
fn placed_inline(text: &str, table: &InlineTable, path: &[&str], value: &str, line_end: &str) -> Option<Vec<Splice>> {
    // The braces that hold the lines: a table of dotted keys has none of its own.
    let (mut braces, mut from, mut home) = (table, 0, table);
    for (depth, key) in path.iter().enumerate() {
        let is_last = depth + 1 == path.len();
        match home.get(key) {
            Some(old) if is_last && !matches!(old, Value::InlineTable(_)) => {
                return Some(vec![(old.span()?, value.to_owned())]);
            }
            Some(Value::InlineTable(inner)) if !is_last => {
                if !inner.is_dotted() {
                    (braces, from) = (inner, depth + 1);
                }
                home = inner;
            }
            Some(_) => return None,
            None => {
                let item = format!("{} = {value}", dotted(&path[from..]));
                let (brackets, items) = (Brackets::of(braces.span()?)?, inline_items(text, braces)?);
                return Some(items::added(text, brackets, &items, &item, " ", line_end));
            }
        }
    }
    None
}

/// The items of an inline table, each from its key to its value.
fn inline_items(text: &str, table: &InlineTable) -> Option<Vec<Range<usize>>> {
    let mut items = Vec::new();
    inline_values(table, &mut items)?;
    items.sort_by_key(|item: &Range<usize>| item.start);
    let mut from = table.span()?.start + 1;
    for item in &mut items {
        // A dotted key begins before its last part.
        let front = &text[from..item.start];
        let start = front.find(',').map_or(0, |comma| comma + 1);
        let start = start + front[start..].len() - front[start..].trim_start().len();
        if !front.contains('#') {
            item.start = from + start;
        }
        from = item.end;
    }
    Some(items)
}

/// The values of an inline table, each from the last part of its key on.
fn inline_values(table: &InlineTable, found: &mut Vec<Range<usize>>) -> Option<()> {
    for (key, value) in table.iter() {
        match value {
            Value::InlineTable(inner) if inner.is_dotted() => inline_values(inner, found)?,
            value => found.push(table.key(key)?.span()?.start..value.span()?.end),
        }
    }
    Some(())
}

fn array_places(item: &Item) -> Option<(Brackets, Vec<Range<usize>>)> {
    let array = item.as_array()?;
    let items: Option<Vec<Range<usize>>> = array.iter().map(Value::span).collect();
    Some((Brackets::of(array.span()?)?, items?))
}

fn removed(text: &str, root: &Table, path: &[&str]) -> Option<Vec<Splice>> {
    let mut home: &Table = root;
    let (last, parents) = path.split_last()?;
    for (depth, key) in parents.iter().enumerate() {
        match home.get(key) {
            None => return Some(Vec::new()),
            Some(Item::Table(table)) => home = table,
            Some(Item::Value(Value::InlineTable(table))) => return removed_inline(text, table, &path[depth + 1..]),
            Some(_) => return None,
        }
    }
    match home.get(last) {
        None => Some(Vec::new()),
        Some(Item::Value(value)) => {
            let range = home.key(last)?.span()?.start..value.span()?.end;
            Some(vec![(whole_lines(text, range)?, String::new())])
        }
        Some(Item::Table(table)) => {
            let mut splices = Vec::new();
            remove_table(text, table, &mut splices)?;
            Some(splices)
        }
        Some(_) => None,
    }
}

fn removed_inline(text: &str, table: &InlineTable, path: &[&str]) -> Option<Vec<Splice>> {
    // The braces that hold what goes: a table of dotted keys has none of its own.
    let (mut braces, mut home) = (table, table);
    let (last, parents) = path.split_last()?;
    for key in parents {
        match home.get(key) {
            None => return Some(Vec::new()),
            Some(Value::InlineTable(inner)) => {
                if !inner.is_dotted() {
                    braces = inner;
                }
                home = inner;
            }
            Some(_) => return None,
        }
    }
    let end = match home.get(last) {
        None => return Some(Vec::new()),
        Some(Value::InlineTable(inner)) if inner.is_dotted() => {
            let mut values = Vec::new();
            inline_values(inner, &mut values)?;
            values.iter().map(|value| value.end).max()?
        }
        Some(value) => value.span()?.end,
    };
    let items = inline_items(text, braces)?;
    let number = items.iter().position(|item| item.end == end)?;
    items::removed(text, Brackets::of(braces.span()?)?, &items, number)
}

/// A table's lines: those of its own section, of its dotted keys, and of every section below it.
fn remove_table(text: &str, table: &Table, splices: &mut Vec<Splice>) -> Option<()> {
    if !table.is_implicit() && !table.is_dotted() {
        let header = table.span()?;
        let end = last_value(table).map_or(header.end, |last| last.end);
        let mut range = whole_lines(text, header.start..end)?;
        // With the blank line that set it apart.
        let front = &text[..range.start];
        let is_last_line = !text[..range.end].ends_with('\n');
        if ends_blank(front) || is_last_line && front.ends_with('\n') {
            let shorter = front.strip_suffix('\n').map(|front| front.strip_suffix('\r').unwrap_or(front));
            range.start = shorter.map_or(range.start, str::len);
        }
        splices.push((range, String::new()));
    }
    for (key, item) in table.iter() {
        match item {
            Item::Table(inner) => remove_table(text, inner, splices)?,
            Item::Value(value) if table.is_dotted() => {
                let range = table.key(key)?.span()?.start..value.span()?.end;
                splices.push((whole_lines(text, range)?, String::new()));
            }
            Item::Value(_) | Item::None => {}
            // Sections of arrays of tables are no part of what is written here.
            Item::ArrayOfTables(_) => return None,
        }
    }
    Some(())
}

/// All tables with a header of their own.
fn sections(root: &Table) -> Vec<Section> {
    fn collect(table: &Table, path: &[String], found: &mut Vec<Section>) {
        for (key, item) in table.iter() {
            let path: Vec<String> = path.iter().cloned().chain([key.to_owned()]).collect();
            match item {
                Item::Table(table) => one(table, path, found),
                Item::ArrayOfTables(tables) => tables.iter().for_each(|table| one(table, path.clone(), found)),
                _ => {}
            }
        }
    }
    fn one(table: &Table, path: Vec<String>, found: &mut Vec<Section>) {
        if let Some(header) = table.span().filter(|_| !table.is_implicit() && !table.is_dotted()) {
            let end = last_value(table).map_or(header.end, |last| last.end);
            found.push(Section { path: path.clone(), header, end });
        }
        collect(table, &path, found);
    }
    let mut found = Vec::new();
    collect(root, &[], &mut found);
    found.sort_by_key(|section| section.header.start);
    found
}

/// The last value of a table's own lines, from its key on; dotted keys are lines of the table, sections below it are not.
fn last_value(table: &Table) -> Option<Range<usize>> {
    let each = table.iter().filter_map(|(key, item)| match item {
        Item::Value(value) => Some(table.key(key)?.span()?.start..value.span()?.end),
        Item::Table(inner) if inner.is_dotted() => last_value(inner),
        _ => None,
    });
    each.max_by_key(|range| range.end)
}

/// The lines of a range, when nothing but a comment stands beside it; with the line end in front where the last line has none.
fn whole_lines(text: &str, range: Range<usize>) -> Option<Range<usize>> {
    let start = text[..range.start].rfind('\n').map_or(0, |at| at + 1);
    let end = line_end(text, range.end);
    let beside = text[range.end..end].trim();
    if !beside.is_empty() && !beside.starts_with('#') {
        return None;
    }
    let start = match text[..end].ends_with('\n') {
        true => start,
        false => {
            text[..start].strip_suffix('\n').map_or(start, |front| front.strip_suffix('\r').unwrap_or(front).len())
        }
    };
    let start = if start == 0 && text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { start };
    Some(start..end)
}

/// Where the line ends in which `at` lies, its line end included.
fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |length| at + length + 1)
}

/// Where a section ends: comments right below its last value belong to it when a blank line or the end follows them.
fn behind_own_comments(text: &str, at: usize) -> usize {
    let start = line_end(text, at);
    let mut end = start;
    loop {
        let line = &text[end..line_end(text, end)];
        match line.trim() {
            "" => return end,
            comment if comment.starts_with('#') => end += line.len(),
            _ => return start,
        }
    }
}

fn ends_blank(text: &str) -> bool {
    let body = text.strip_suffix('\n').map(|text| text.strip_suffix('\r').unwrap_or(text));
    body.is_some_and(|body| body.is_empty() || body.ends_with('\n'))
}

/// The spaces in front of the line's first word.
fn indent_of(text: &str, at: usize) -> &str {
    let start = text[..at].rfind('\n').map_or(0, |at| at + 1);
    let line = &text[start..];
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// Keys with dots between them, quoted where they must be.
fn dotted(path: &[&str]) -> String {
    let quoted = path.iter().map(|key| toml_edit::Key::new(*key).display_repr().into_owned());
    quoted.collect::<Vec<_>>().join(".")
}
