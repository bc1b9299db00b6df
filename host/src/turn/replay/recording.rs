//! A recorded conversation, whatever file it came from.

use crate::diagnostic::Diagnostic;
use crate::transcript::{Message, Role};
use serde_json::Value;

/// Format of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Whatever the file looks like: OpenAI JSON or JSONL, else LoCoMo.
    #[default]
    Auto,
    /// `{"messages": […]}` as JSON, or JSONL with one conversation or one message a line.
    OpenAi,
    /// LoCoMo: an array of samples with dated sessions between two speakers; the first is the user.
    Locomo,
}

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Format, String> {
        match name {
            "auto" => Ok(Format::Auto),
            "openai" => Ok(Format::OpenAi),
            "locomo" => Ok(Format::Locomo),
            other => Err(format!("no such format: \"{other}\" (known: auto, openai, locomo)")),
        }
    }
}

/// One conversation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Recording {
    /// What the file calls it, else "conversation 1" and so on.
    pub name: String,
    /// System and developer messages, as they came: parameters of every turn.
    pub system: Vec<Value>,
    /// The messages, oldest first.
    pub messages: Vec<Recorded>,
}

/// One message of a recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// The message.
    pub message: Message,
    /// When it was said, in ms since the epoch; `None` when the file does not tell.
    pub time_ms: Option<i64>,
    /// What the file calls it: questions name their evidence by it. LoCoMo's is the `dia_id`; `None` in the other formats.
    pub id: Option<String>,
}

/// One step of a replay: what the client sends, and what the model answered then.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step<'a> {
    /// New messages of the client, oldest first. An assistant message among them was said without being asked for.
    pub(super) sent: &'a [Recorded],
    /// The recorded answer; `None` when the recording ends before it.
    pub(super) answer: Option<&'a Recorded>,
}

impl Step<'_> {
    /// True when it asks for an answer: somebody else than the assistant says something in it.
    pub(super) fn asks(&self) -> bool {
        self.sent.iter().any(|recorded| recorded.message.role != Role::Assistant)
    }
}

impl Recording {
    /// The steps: each ends with the first assistant message after a user message or a tool result.
    pub(super) fn steps(&self) -> Vec<Step<'_>> {
        let mut steps = Vec::new();
        let mut start = 0;
        let mut asked = false;
        for (at, recorded) in self.messages.iter().enumerate() {
            if recorded.message.role != Role::Assistant {
                asked = true;
            } else if asked {
                steps.push(Step { sent: &self.messages[start..at], answer: Some(recorded) });
                start = at + 1;
                asked = false;
            }
        }
        if start < self.messages.len() {
            steps.push(Step { sent: &self.messages[start..], answer: None });
        }
        steps
    }
}

/// Reads the conversations of a file.
///
/// # Errors
///
/// [`ReplayError::Format`] tells the place and what is wrong with it.
pub fn read(text: &str, format: Format) -> Result<Vec<Recording>, ReplayError> {
    let text = text.trim_start_matches('\u{feff}');
    let recordings = match format {
        Format::OpenAi => super::openai::read(text)?,
        Format::Locomo => super::locomo::read(text)?,
        Format::Auto if super::locomo::looks_like(text) => super::locomo::read(text)?,
        Format::Auto => super::openai::read(text)?,
    };
    if recordings.iter().all(|recording| recording.messages.is_empty()) {
        return Err(ReplayError::Format { place: "file".into(), reason: "there is no message in it".into() });
    }
    Ok(recordings)
}

/// Why a replay failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The file is not what it should be.
    #[error("cannot read the recording: {place}: {reason}")]
    Format {
        /// Line, sample or message.
        place: String,
        /// What is wrong there.
        reason: String,
    },
    /// The scratch store could not be made.
    #[error("cannot make a scratch store for the replay: {0}")]
    Scratch(String),
    /// A turn failed.
    #[error("turn {turn} of {name} failed")]
    Turn {
        /// Conversation.
        name: String,
        /// Number of the turn, from 1.
        turn: usize,
        /// Why.
        #[source]
        source: crate::turn::TurnError,
    },
    /// A question was not asked.
    #[error("a question to {session} failed")]
    Ask {
        /// Key of the session.
        session: String,
        /// Why.
        #[source]
        source: crate::turn::TurnError,
    },
}

impl ReplayError {
    pub(super) fn format(place: impl Into<String>, reason: impl Into<String>) -> ReplayError {
        ReplayError::Format { place: place.into(), reason: reason.into() }
    }
}

impl Diagnostic for ReplayError {
    fn code(&self) -> &'static str {
        match self {
            ReplayError::Format { .. } => "CE660",
            ReplayError::Scratch(_) => "CE661",
            ReplayError::Turn { .. } => "CE662",
            ReplayError::Ask { .. } => "CE663",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            ReplayError::Format { .. } => Some(
                "a recording is {\"messages\": [...]} as JSON or JSONL, or a LoCoMo file with --format locomo".into(),
            ),
            ReplayError::Scratch(_) => {
                Some("check that the folder for temporary files has space and is writable".into())
            }
            ReplayError::Turn { source, .. } | ReplayError::Ask { source, .. } => source.hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(roles: &str) -> Recording {
        let messages = roles
            .chars()
            .enumerate()
            .map(|(at, role)| {
                let role = match role {
                    'u' => Role::User,
                    'a' => Role::Assistant,
                    _ => Role::Tool,
                };
                Recorded { message: Message::text_of(role, at.to_string()), time_ms: None, id: None }
            })
            .collect();
        Recording { messages, ..Recording::default() }
    }

    /// Each step as `sent>answer`, messages by their place.
    fn check(roles: &str, expected: &[&str]) {
        let recording = recording(roles);
        let steps: Vec<String> = recording
            .steps()
            .iter()
            .map(|step| {
                let sent: Vec<_> = step.sent.iter().map(|m| m.message.text().into_owned()).collect();
                format!(
                    "{}>{}",
                    sent.join(","),
                    step.answer.map_or_else(String::new, |m| m.message.text().into_owned())
                )
            })
            .collect();
        assert_eq!(steps, expected, "{roles}");
    }

    #[test]
    fn a_step_ends_with_the_first_answer() {
        check("ua", &["0>1"]);
        check("uuaua", &["0,1>2", "3>4"]);
        check("uatta", &["0>1", "2,3>4"]);
        check("auaaua", &["0,1>2", "3,4>5"]);
        check("uau", &["0>1", "2>"]);
        check("uaa", &["0>1", "2>"]);
        check("", &[]);
    }
}
