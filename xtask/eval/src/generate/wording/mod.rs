//! What people write, in three languages: tables of phrases with choices in them.
//!
//! A frame such as "From now on(,|) {0}" takes the form `{0}` of an act; a whole is a sentence of its own. Frames, wholes and
//! headers are split: those held out are left alone while rules are tuned, and what is found of them is told apart.

mod english;
mod german;
mod spanish;

/// Phrases that may be looked at, and those that are kept aside.
pub(super) struct Split {
    pub open: &'static [&'static str],
    pub held_out: &'static [&'static str],
}

/// A language.
pub(super) struct Tongue {
    pub code: &'static str,
    pub foods: &'static [&'static str],
    pub places: &'static [&'static str],
    /// What may be asked for, each in the forms that frames of this language need.
    pub do_acts: &'static [&'static [&'static str]],
    /// What may be forbidden.
    pub not_acts: &'static [&'static [&'static str]],
    pub do_frames: Split,
    pub not_frames: Split,
    /// Preferences and constraints.
    pub wholes: Split,
    /// Lines above a list of instructions.
    pub headers: Split,
    /// An act that is forbidden, as an item of such a list.
    pub item_not: &'static [&'static str],
    /// What may stand before an instruction.
    pub leads: &'static [&'static str],
    /// What may follow it after a comma.
    pub reasons: &'static [&'static str],
    /// What is asked for once.
    pub requests: &'static [&'static str],
    /// What else is said: narration, questions, faults, hearsay.
    pub talk: &'static [&'static str],
    /// Questions that refer to much earlier turns.
    pub follow_ups: &'static [&'static str],
    /// What is quoted within a sentence.
    pub quoted: &'static [&'static str],
    /// Sentences of somebody else's text.
    pub pasted: &'static [&'static str],
    pub paste_leads: &'static [&'static str],
    /// What the assistant advises.
    pub suggestions: &'static [&'static str],
    /// What the assistant answers.
    pub replies: &'static [&'static str],
    /// Chores, how they are given, and how they are said to be done.
    pub tasks: &'static [&'static str],
    pub task_frames: &'static [&'static str],
    pub task_done: &'static [&'static str],
    /// Instructions that are taken back, each with the sentence that does it.
    pub revoked: &'static [[&'static str; 2]],
}

/// The languages.
pub(super) static TONGUES: [&Tongue; 3] = [&english::ENGLISH, &german::GERMAN, &spanish::SPANISH];
