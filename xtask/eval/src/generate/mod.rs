//! Agent sessions from a seed: tool loops and standing instructions, as recordings, and what is measured with them.
//!
//! | file | concept |
//! |---|---|
//! | [`wording`] | what people write, in three languages |
//! | [`grammar`], [`slots`], [`dice`] | from a phrase with choices to a sentence |
//! | [`instructions`] | standing instructions and where they are given |
//! | [`results`] | what tools answer |
//! | [`session`] | the turns |
//! | [`measure`] | what is measured while an engine is played through one |
//! | [`cli`] | the command line |

pub mod cli;
mod dice;
mod grammar;
mod instructions;
pub mod measure;
mod results;
mod session;
mod slots;
#[cfg(test)]
mod tests;
mod wording;

use engineroom::turn::replay::Recording;
pub use instructions::{Instruction, Place, Wording};

/// What to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Seed: the same gives the same session, byte for byte.
    pub seed: u64,
    /// Messages at least.
    pub entries: usize,
    /// Turns at least.
    pub turns: usize,
    /// Standing instructions.
    pub instructions: usize,
    /// What they are made of.
    pub wording: Wording,
}

/// A chore that a person gives for later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chore {
    /// The sentence that gives it.
    pub text: String,
    /// Turn in which it is given.
    pub given: usize,
    /// Turn in which it is said to be done.
    pub done: Option<usize>,
    /// The sentence that says so.
    closed: String,
}

/// An instruction that is taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revoked {
    /// The instruction.
    pub text: String,
    /// Turn in which it is given.
    pub given: usize,
    /// Turn in which it is taken back.
    pub taken_back: usize,
    /// The sentence that does it.
    by: String,
}

/// An agent session.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// What was said.
    pub recording: Recording,
    /// What holds from the first turns on.
    pub instructions: Vec<Instruction>,
    /// What is to be done some time.
    pub chores: Vec<Chore>,
    /// What holds for a while only.
    pub revoked: Vec<Revoked>,
    /// Place of each turn's user message among the messages.
    pub turns: Vec<usize>,
    /// Tool calls of each turn.
    pub loops: Vec<usize>,
    /// Tokens of all messages, as the host counts them.
    pub tokens: u64,
    /// Tokens of tool results.
    pub tool_tokens: u64,
}

impl Session {
    /// Makes a session.
    pub fn make(options: &Options) -> Session {
        session::make(options)
    }

    /// Share of the tokens that is in tool results, between 0 and 1.
    pub fn tool_share(&self) -> f64 {
        self.tool_tokens as f64 / self.tokens.max(1) as f64
    }
}
