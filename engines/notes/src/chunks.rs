//! A note in pieces: what stands under one heading, and not too long.

/// Longest piece in bytes, beyond which it is cut at the end of a paragraph or line.
const PIECE_MAX: usize = 1_600;

/// A piece of a note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// The headings above it, outermost first, joined by ` › `; empty before the first heading.
    pub(crate) headings: String,
    /// The text without the headings, not blank.
    pub(crate) text: String,
    /// Number of its first line, from 1.
    pub(crate) line: usize,
}

/// The pieces of a Markdown text.
pub(crate) fn chunks(text: &str) -> Vec<Chunk> {
    let mut cutter = Cutter::default();
    let mut fence: Option<&str> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let start = line.trim_start();
        match fence {
            // A heading in a code block is none.
            Some(mark) => {
                if start.starts_with(mark) {
                    fence = None;
                }
            }
            None => {
                fence = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
                if let (None, Some((level, title))) = (fence, heading(line)) {
                    cutter.heading(level, title, number);
                    continue;
                }
            }
        }
        cutter.line(line, number);
    }
    cutter.end();
    cutter.done
}

/// Level and title of a heading.
fn heading(line: &str) -> Option<(usize, &str)> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let rest = line.get(level..)?;
    let is_heading = (1..=6).contains(&level) && (rest.is_empty() || rest.starts_with([' ', '\t']));
    is_heading.then(|| (level, rest.trim().trim_end_matches('#').trim_end()))
}

#[derive(Default)]
struct Cutter {
    /// Headings that are open, with their levels.
    open: Vec<(usize, String)>,
    text: String,
    /// First line of `text`.
    from: usize,
    /// Nothing stood under the last heading yet.
    is_bare: bool,
    done: Vec<Chunk>,
}

impl Cutter {
    fn heading(&mut self, level: usize, title: &str, number: usize) {
        // A heading above a deeper one is told by the path of that one; else it stands for itself.
        if self.is_bare && self.open.last().is_some_and(|(last, _)| *last >= level) {
            self.bare();
        }
        self.cut();
        self.open.retain(|(known, _)| *known < level);
        self.open.push((level, title.to_owned()));
        (self.is_bare, self.from) = (true, number);
    }

    fn line(&mut self, line: &str, number: usize) {
        if self.text.trim().is_empty() {
            if line.trim().is_empty() {
                return;
            }
            self.text.clear();
            self.from = number;
        }
        self.is_bare = false;
        let is_long = self.text.len() + line.len() > PIECE_MAX;
        let is_break = line.trim().is_empty() || self.text.len() > PIECE_MAX / 2 && is_long;
        if is_long && is_break {
            self.cut();
            self.from = number;
        }
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn path(&self) -> String {
        self.open
            .iter()
            .map(|(_, title)| title.as_str())
            .filter(|title| !title.is_empty())
            .collect::<Vec<_>>()
            .join(" › ")
    }

    fn cut(&mut self) {
        let text = std::mem::take(&mut self.text);
        if !text.trim().is_empty() {
            self.done.push(Chunk { headings: self.path(), text: text.trim_end().to_owned(), line: self.from });
        }
    }

    /// A heading with nothing under it.
    fn bare(&mut self) {
        if let Some((_, title)) = self.open.last()
            && !title.is_empty()
        {
            self.done.push(Chunk { headings: self.path(), text: title.clone(), line: self.from });
        }
    }

    fn end(&mut self) {
        if self.is_bare {
            self.bare();
        }
        self.cut();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, &str, usize)]) {
        let found = chunks(text);
        let found: Vec<_> = found.iter().map(|c| (c.headings.as_str(), c.text.as_str(), c.line)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_piece_is_what_stands_under_a_heading_with_its_path() {
        check(
            "intro\n\n# Trips\n## Rome\nin May\n## Oslo\nin June\n# Food\nrice\n",
            &[("", "intro", 1), ("Trips › Rome", "in May", 5), ("Trips › Oslo", "in June", 7), ("Food", "rice", 9)],
        );
    }

    #[test]
    fn a_heading_with_nothing_under_it_stands_for_itself() {
        check("# Call Ada\n# Buy milk", &[("Call Ada", "Call Ada", 1), ("Buy milk", "Buy milk", 2)]);
    }

    #[test]
    fn what_looks_like_a_heading_in_code_is_none() {
        check("# Run\n```sh\n# comment\nmake\n```\n#hash\n", &[("Run", "```sh\n# comment\nmake\n```\n#hash", 2)]);
    }

    #[test]
    fn a_long_piece_is_cut_at_paragraphs_and_keeps_its_heading() {
        let paragraph = "word ".repeat(200);
        let text = format!("# Long\n{paragraph}\n\n{paragraph}\n\n{paragraph}\n");
        let found = chunks(&text);
        assert_eq!(found.len(), 3, "{:?}", found.iter().map(|c| c.text.len()).collect::<Vec<_>>());
        assert!(found.iter().all(|chunk| chunk.headings == "Long" && chunk.text.len() <= PIECE_MAX));
        assert_eq!(found.iter().map(|chunk| chunk.line).collect::<Vec<_>>(), [2, 4, 6]);
    }
}
