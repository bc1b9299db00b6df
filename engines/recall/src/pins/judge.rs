//! From the hints of a sentence to a verdict.
//!
//! The rules ask three things: is it addressed to the listener as an order, a wish or a condition (its head tells that in all of
//! these languages: an imperative, "I want you to", "could you"); is it for good ("from now on", "always", "never"); and does
//! anything speak against it (a question, somebody else's words, a fault that is being described, "this time"). Words that only
//! narrate, as in "it always fails", have a subject before them and no order.

mod conditions;
mod dense;
mod grounds;
mod letter;
mod names;
mod orders;
mod paste;
mod reading;
mod romance;
mod wishes;

use super::sentences::{self, Next, Sentence};
use super::{Candidate, Kind, MAX_BYTES};
use reading::Reading;

/// What a sentence says about pins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remark {
    /// It reads like a pin.
    Pin(Candidate),
    /// It takes something back; where there is nothing, it is the pin `instead`: "stop using emojis".
    TakenBack { start: usize, end: usize, instead: Option<Candidate> },
    /// It says that something is done.
    Done { start: usize, end: usize },
    /// It refers to what was said before.
    Recalled { start: usize, end: usize },
}

/// What the rules make of one sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Nothing,
    Pin(Kind, u8),
    /// It takes something back; or, if true and there is nothing to take back, it is a rule itself.
    TakenBack(bool),
    Done,
    Recalled,
    /// It announces rules.
    Rules,
    /// Somebody else's text begins in it.
    Pasted,
    /// Somebody else's text follows.
    Follows,
}

/// Reads a message of the person and gives what it says about pins, in order.
pub(super) fn remarks(text: &str, mut each: impl FnMut(Remark)) {
    if paste::is_about_what_went_before(text) || letter::is_letter(text) {
        return;
    }
    sentences::each(text, |sentence| {
        let (start, end) = (sentence.start, sentence.end);
        match judge(sentence, text) {
            Verdict::Nothing => {}
            Verdict::Pin(kind, strength) => each(Remark::Pin(Candidate { kind, start, end, strength })),
            Verdict::TakenBack(quits) => {
                let instead = quits.then_some(Candidate { kind: Kind::Instruction, start, end, strength: 2 });
                each(Remark::TakenBack { start, end, instead });
            }
            Verdict::Done => each(Remark::Done { start, end }),
            Verdict::Recalled => each(Remark::Recalled { start, end }),
            Verdict::Rules => return Next::Rules,
            Verdict::Pasted => return Next::Pasted,
            Verdict::Follows => return Next::Follows,
        }
        Next::Go
    });
}

/// A sentence of the person's own.
pub(super) struct Own {
    /// First byte in the message.
    pub start: usize,
    /// Its text, what is quoted blanked out byte for byte.
    pub masked: String,
}

impl Own {
    /// First byte after it.
    pub(super) fn end(&self) -> usize {
        self.start + self.masked.len()
    }
}

/// The sentences of a message that are the person's own, in order.
pub(super) fn own(text: &str) -> Vec<Own> {
    let mut own = Vec::new();
    if paste::is_about_what_went_before(text) || letter::is_letter(text) {
        return own;
    }
    sentences::each(text, |sentence| {
        let handed = paste::handed_over(sentence, text).filter(|_| !sentence.ruled);
        let verdict = judge(sentence, text);
        if handed.is_none() && !matches!(verdict, Verdict::Pasted | Verdict::Follows) {
            own.push(Own { start: sentence.start, masked: sentence.masked.clone() });
        }
        match verdict {
            Verdict::Rules => Next::Rules,
            Verdict::Pasted => Next::Pasted,
            Verdict::Follows => Next::Follows,
            _ => Next::Go,
        }
    });
    own
}

fn judge(sentence: &Sentence, message: &str) -> Verdict {
    let text = &message[sentence.start..sentence.end];
    if let Some(at) = paste::handed_over(sentence, message).filter(|_| !sentence.ruled) {
        return handed_over(sentence, message, at);
    }
    if text.len() > MAX_BYTES {
        return Verdict::Nothing;
    }
    if dense::is_dense(text) {
        return dense::judge(sentence);
    }
    let reading = Reading::of(&sentence.masked);
    if reading.is_empty() {
        return Verdict::Nothing;
    }
    if sentence.announces {
        return grounds::announcement(&reading);
    }
    if sentence.ruled {
        return if reading.question { Verdict::Nothing } else { Verdict::Pin(grounds::kind(&reading), 2) };
    }
    if grounds::takes_back(&reading) {
        return Verdict::TakenBack(orders::quits(&reading));
    }
    if let Some((kind, strength)) = grounds::pin(&reading) {
        return Verdict::Pin(kind, strength);
    }
    if let Some(told) = paste::told_by_oneself(&sentence.masked).map(Reading::of)
        && let Some((kind, strength)) = grounds::cue(&told)
    {
        return Verdict::Pin(kind, strength);
    }
    if grounds::done(&reading) {
        return Verdict::Done;
    }
    if grounds::recalls(&reading) { Verdict::Recalled } else { Verdict::Nothing }
}

/// What becomes of a sentence that hands over a text from `at` on.
fn handed_over(sentence: &Sentence, message: &str, at: usize) -> Verdict {
    let told = sentence.masked[at..].trim_start();
    let Some(open) = told.chars().next() else { return Verdict::Follows };
    // What stands in quotation marks is blank.
    let inner = &told[open.len_utf8()..];
    let close = inner.char_indices().find(|(_, c)| !c.is_whitespace());
    let closes = sentences::closing(open);
    let Some((length, close)) = close.filter(|(_, c)| closes.contains(c)) else { return Verdict::Pasted };
    // Only where no more such marks follow are these the person's own: those before may be the text's.
    let behind = &message[sentence.end - inner.len() + length + close.len_utf8()..];
    if behind.contains(|c| c == open || closes.contains(&c)) { Verdict::Pasted } else { Verdict::Nothing }
}
