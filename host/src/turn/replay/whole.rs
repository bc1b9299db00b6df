//! A whole replay: every recording in a session of its own, and what the store tells of them afterwards.

use super::{
    CompactionReport, ConversationReport, Player, Recording, ReplayError, ReplayOptions, ReplayReport, Shown,
    TurnReport, Watch,
};
use crate::config::Config;
use crate::transcript::{EntryBody, Role};

/// How far a replay is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress<'a> {
    /// Conversation.
    pub name: &'a str,
    /// Turns played of all conversations.
    pub done: usize,
    /// Turns of all conversations.
    pub total: usize,
}

/// Replays conversations, one session each, through the engines that `options` or else `config` name. `progress` is called
/// before each turn. Nothing of the configured state folder is touched.
///
/// # Errors
///
/// [`ReplayError::Scratch`] when there is no place for the scratch store, [`ReplayError::Turn`] when a turn failed for good:
/// a failed hook does not, since the next engine of the chain goes on.
pub async fn replay(
    config: &Config,
    recordings: &[Recording],
    options: &ReplayOptions,
    progress: &mut (dyn FnMut(Progress<'_>) + Send),
) -> Result<ReplayReport, ReplayError> {
    let player = Player::open(config, options).await?;
    let total = recordings.iter().map(|recording| recording.steps().len()).sum();
    let mut done = 0;
    let mut played = Vec::with_capacity(recordings.len());
    for (number, recording) in recordings.iter().enumerate() {
        let key = format!("agent:main:replay:{}", number + 1);
        let mut watch = Told { name: &recording.name, done: &mut done, total, progress };
        played.push((key.clone(), player.play(&key, recording, &mut watch).await?));
    }
    player.finish(recordings, played).await
}

/// Tells how far it is.
struct Told<'a> {
    name: &'a str,
    done: &'a mut usize,
    total: usize,
    progress: &'a mut (dyn FnMut(Progress<'_>) + Send),
}

impl Watch for Told<'_> {
    fn turn(&mut self) {
        (self.progress)(Progress { name: self.name, done: *self.done, total: self.total });
        *self.done += 1;
    }
}

impl Player {
    /// Waits for what follows the last turns, and reads what is left in the store.
    async fn finish(
        self,
        recordings: &[Recording],
        played: Vec<(String, Vec<TurnReport>)>,
    ) -> Result<ReplayReport, ReplayError> {
        self.settled().await?;
        let mut conversations = Vec::with_capacity(played.len());
        for (recording, (key, turns)) in recordings.iter().zip(played) {
            conversations.push(self.conversation(recording, key, turns).await?);
        }
        let (window, estimated) = (self.window(), self.counter().estimated());
        let closed = self.close().await;
        Ok(ReplayReport {
            engine: closed.engine,
            window,
            estimated,
            conversations,
            engines: closed.engines,
            abandoned: closed.abandoned,
        })
    }

    async fn conversation(
        &self,
        recording: &Recording,
        key: String,
        turns: Vec<TurnReport>,
    ) -> Result<ConversationReport, ReplayError> {
        let branch = self.branch(key).await?;
        let mut answers = 0;
        let mut compactions = Vec::new();
        for entry in &branch {
            match &entry.body {
                EntryBody::Message(message) => answers += usize::from(message.role == Role::Assistant),
                EntryBody::Compaction(body) => compactions.push(CompactionReport {
                    after_turn: turn_of(recording, answers),
                    trigger: body.trigger.clone(),
                    by: body.by.clone(),
                    tokens_before: body.tokens_before,
                    tokens_after: body.tokens_after,
                    first_kept: body.first_kept,
                    summary_chars: body.summary.chars().count(),
                }),
            }
        }
        Ok(ConversationReport {
            name: recording.name.clone(),
            messages: recording.messages.len(),
            entries: branch.len(),
            tokens: recording
                .messages
                .iter()
                .map(|recorded| u64::from(self.counter().message(&recorded.message)))
                .sum(),
            shown: Shown::of(&turns),
            turns,
            compactions,
        })
    }
}

/// Number of the turn that gave the `answers`th assistant message of the conversation.
fn turn_of(recording: &Recording, answers: usize) -> usize {
    let mut seen = 0;
    for (turn, step) in recording.steps().iter().enumerate() {
        let unasked = step.sent.iter().filter(|recorded| recorded.message.role == Role::Assistant).count();
        seen += unasked + usize::from(step.answer.is_some());
        if seen > answers {
            return turn;
        }
    }
    recording.steps().iter().filter(|step| step.answer.is_some()).count()
}
