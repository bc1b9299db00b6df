//! What is played and asked: conversations with the questions to them, whatever file they came from.

mod locomo;
mod qa_jsonl;

use engineroom::turn::replay::{Recording, ReplayError};
use std::collections::BTreeSet;

/// Format of a file with questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// LoCoMo: an array of samples, each a conversation of two people with questions.
    Locomo,
    /// One JSON object a line: messages and questions (`docs/evaluation.md`).
    QaJsonl,
}

/// A question to a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// What the user asks.
    pub text: String,
    /// Kind of question, as the file calls it.
    pub category: String,
    /// Messages of the recording that hold the answer, by their place, each once.
    pub evidence: Vec<usize>,
    /// False: it is measured in its category, and left out of the mean over all.
    pub counted: bool,
}

/// A conversation with its questions.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Conversation {
    /// What was said.
    pub recording: Recording,
    /// What is asked afterwards; each question has evidence.
    pub questions: Vec<Question>,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DataSet {
    /// The conversations, in the order of the file.
    pub conversations: Vec<Conversation>,
    /// Questions that name no evidence that exists: nothing can be measured by them.
    pub left_out: usize,
}

impl DataSet {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`DataError`] tells the place and what is wrong with it.
    pub fn read(text: &str, format: Format) -> Result<DataSet, DataError> {
        let set = match format {
            Format::Locomo => locomo::read(text)?,
            Format::QaJsonl => qa_jsonl::read(text)?,
        };
        if set.conversations.iter().all(|conversation| conversation.recording.messages.is_empty()) {
            return Err(DataError::at("file", "there is no message in it"));
        }
        if set.conversations.iter().all(|conversation| conversation.questions.is_empty()) {
            return Err(DataError::at("file", "there is no question with evidence in it"));
        }
        Ok(set)
    }

    /// Number of questions.
    pub fn questions(&self) -> usize {
        self.conversations.iter().map(|conversation| conversation.questions.len()).sum()
    }

    /// The kinds of questions in it.
    pub fn categories(&self) -> BTreeSet<&str> {
        let questions = self.conversations.iter().flat_map(|conversation| &conversation.questions);
        questions.map(|question| question.category.as_str()).collect()
    }
}

/// What is wrong with a file, and where.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct DataError {
    /// Line, sample or question.
    pub place: String,
    /// What is wrong there.
    pub reason: String,
}

impl DataError {
    fn at(place: impl Into<String>, reason: impl Into<String>) -> DataError {
        DataError { place: place.into(), reason: reason.into() }
    }
}

impl From<ReplayError> for DataError {
    fn from(error: ReplayError) -> DataError {
        match error {
            ReplayError::Format { place, reason } => DataError { place, reason },
            other => DataError::at("file", other.to_string()),
        }
    }
}
