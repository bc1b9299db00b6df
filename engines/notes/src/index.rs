//! The pieces of all notes by their words, ranked with BM25.
//!
//! Our own, and why: `docs/adr/0004-notes-search.md`.

use crate::chunks::Chunk;
use crate::words;
use std::collections::{BTreeMap, HashMap};

/// How soon a word that is repeated in a piece stops to count more.
const K1: f64 = 1.2;
/// How much a long piece is held against it, from 0 to 1.
const B: f64 = 0.75;
/// A heading says what its text is about: its words count this often.
const HEADING_WEIGHT: u32 = 2;

/// A piece in the index.
#[derive(Clone, Debug)]
struct Piece {
    file: String,
    chunk: Chunk,
    time_ms: i64,
    /// Words, headings weighed.
    len: u32,
}

/// A piece that was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found<'a> {
    /// Path of the note below the folder.
    pub(crate) file: &'a str,
    /// The piece.
    pub(crate) chunk: &'a Chunk,
    /// Time of the note, in milliseconds since the epoch.
    pub(crate) time_ms: i64,
    /// Higher is better.
    pub(crate) score: f64,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Index {
    pieces: HashMap<u32, Piece>,
    files: HashMap<String, Vec<u32>>,
    /// For each word how often it stands in each piece.
    postings: HashMap<Box<str>, BTreeMap<u32, u32>>,
    words: u64,
    next: u32,
}

impl Index {
    /// Puts the pieces of a note in place of those that it had.
    pub(crate) fn put(&mut self, file: &str, chunks: Vec<Chunk>, time_ms: i64) {
        self.remove(file);
        let mut ids = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            let id = self.next;
            self.next = self.next.wrapping_add(1);
            let mut len = 0;
            each_word(&chunk, |word, weight| {
                len += weight;
                match self.postings.get_mut(word) {
                    Some(posting) => *posting.entry(id).or_default() += weight,
                    None => drop(self.postings.insert(word.into(), BTreeMap::from([(id, weight)]))),
                }
            });
            self.words += u64::from(len);
            self.pieces.insert(id, Piece { file: file.to_owned(), chunk, time_ms, len });
            ids.push(id);
        }
        self.files.insert(file.to_owned(), ids);
    }

    /// Forgets a note.
    pub(crate) fn remove(&mut self, file: &str) {
        for id in self.files.remove(file).unwrap_or_default() {
            let Some(piece) = self.pieces.remove(&id) else { continue };
            self.words -= u64::from(piece.len);
            each_word(&piece.chunk, |word, _| {
                if let Some(posting) = self.postings.get_mut(word) {
                    posting.remove(&id);
                    if posting.is_empty() {
                        self.postings.remove(word);
                    }
                }
            });
        }
    }

    /// At most `limit` pieces that hold a word of the query, best first.
    pub(crate) fn search(&self, query: &str, limit: usize) -> Vec<Found<'_>> {
        let count = self.pieces.len() as f64;
        let mean = self.words as f64 / count.max(1.0);
        let mut scores: HashMap<u32, f64> = HashMap::new();
        for word in words::asked(query) {
            let Some(posting) = self.postings.get(word.as_str()) else { continue };
            let holders = posting.len() as f64;
            let rarity = (1.0 + (count - holders + 0.5) / (holders + 0.5)).ln();
            for (id, times) in posting {
                let Some(piece) = self.pieces.get(id) else { continue };
                let times = f64::from(*times);
                let length = 1.0 - B + B * f64::from(piece.len) / mean.max(1.0);
                *scores.entry(*id).or_default() += rarity * times * (K1 + 1.0) / (times + K1 * length);
            }
        }
        let mut found: Vec<Found<'_>> = scores
            .into_iter()
            .filter_map(|(id, score)| {
                let Piece { file, chunk, time_ms, .. } = self.pieces.get(&id)?;
                Some(Found { file, chunk, time_ms: *time_ms, score })
            })
            .collect();
        // What is equally good comes newest first, and always in the same order.
        let order = |a: &Found<'_>, b: &Found<'_>| {
            let best = b.score.total_cmp(&a.score).then(b.time_ms.cmp(&a.time_ms));
            best.then_with(|| a.file.cmp(b.file)).then(a.chunk.line.cmp(&b.chunk.line))
        };
        if limit < found.len() && limit > 0 {
            found.select_nth_unstable_by(limit - 1, order);
        }
        found.truncate(limit);
        found.sort_unstable_by(order);
        found
    }
}

fn each_word(chunk: &Chunk, mut each: impl FnMut(&str, u32)) {
    words::indexed(&chunk.headings, |word| each(word, HEADING_WEIGHT));
    words::indexed(&chunk.text, |word| each(word, 1));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunks::chunks;

    fn index(notes: &[(&str, &str)]) -> Index {
        let mut index = Index::default();
        for (time, (file, text)) in (0..).zip(notes) {
            index.put(file, chunks(text), time);
        }
        index
    }

    fn files<'a>(index: &'a Index, query: &str) -> Vec<&'a str> {
        index.search(query, 10).into_iter().map(|found| found.file).collect()
    }

    #[test]
    fn a_rare_word_counts_more_than_a_common_one() {
        let index = index(&[
            ("a.md", "the cat and the hat and the bat"),
            ("b.md", "the door code is 4711"),
            ("c.md", "the weather in the mountains"),
        ]);
        assert_eq!(files(&index, "what is the code of the door")[0], "b.md");
        assert!(files(&index, "zebra").is_empty());
    }

    #[test]
    fn a_heading_makes_its_text_findable() {
        let index =
            index(&[("a.md", "# Passwords\nask Ada"), ("b.md", "# Food\nrice, and no passwords at all in here")]);
        assert_eq!(files(&index, "passwords"), ["a.md", "b.md"]);
    }

    #[test]
    fn equal_pieces_come_newest_first() {
        let index = index(&[("a.md", "milk"), ("b.md", "milk"), ("c.md", "milk")]);
        assert_eq!(files(&index, "milk"), ["c.md", "b.md", "a.md"]);
        assert_eq!(index.search("milk", 2).len(), 2);
        assert!(index.search("milk", 0).is_empty());
    }

    #[test]
    fn a_note_that_is_put_again_or_removed_leaves_nothing_behind() {
        let mut index = index(&[("a.md", "old words"), ("b.md", "other words")]);
        index.put("a.md", chunks("new text"), 9);
        assert!(files(&index, "old").is_empty());
        assert_eq!(files(&index, "new"), ["a.md"]);
        index.remove("a.md");
        index.remove("b.md");
        assert!(index.postings.is_empty() && index.pieces.is_empty() && index.words == 0);
    }

    #[test]
    fn text_without_spaces_is_found_by_its_parts() {
        let index = index(&[("a.md", "私は東京都に住んでいます"), ("b.md", "昨日は京都へ行った。天気が良かった")]);
        assert_eq!(files(&index, "東京")[0], "a.md");
        assert_eq!(files(&index, "天気"), ["b.md"]);
    }
}
