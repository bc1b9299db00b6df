//! A session that is played turn by turn, as the gateway would run it.

use super::frame::{Assembled, Compacted, Failure, Piece};
use super::{Engine, Line, Talk};
use crate::wire::{self, entry_flags, status};
use std::ops::Deref;

/// Ids of entries rise by this much, so that the summary of a compaction finds a place before what is kept.
const ID_STEP: u64 = 10;

/// A session under play: what was said, what the engine is shown of it, and its budget.
///
/// A turn is what the gateway makes of it: `bootstrap` on first sight of the session, `assemble` with the history before the turn
/// and the budget that is left, the model's answer, then `commitTurn` for an engine with durable turns. An engine that has no
/// such hook is told by `afterTurn` at best, like in the gateway, where no stored session is its.
pub struct Play<'a> {
    talk: Talk<'a>,
    key: String,
    budget: Option<u64>,
    bootstrapped: bool,
    /// What stands for everything before the first entry that is kept.
    summary: Option<Line>,
}

/// What the model would see in a turn.
#[derive(Clone, Debug)]
pub struct Shown {
    /// What `assemble` pushed.
    pub assembled: Assembled,
    texts: Vec<String>,
    tokens: u64,
}

impl Shown {
    /// The texts of the messages, in order, the current one last.
    #[must_use]
    pub fn texts(&self) -> Vec<&str> {
        self.texts.iter().map(String::as_str).collect()
    }

    /// Tokens of the entries and messages that the engine placed, as this host counts them; the current message is not among
    /// them.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// True when any text of the prompt contains `words`: a message, or an addition to the system or the current message.
    #[must_use]
    pub fn contains(&self, words: &str) -> bool {
        let additions = [&self.system_prompt_addition, &self.volatile_prompt_addition];
        additions.into_iter().flatten().chain(&self.texts).any(|text| text.contains(words))
    }
}

impl Deref for Shown {
    type Target = Assembled;
    fn deref(&self) -> &Assembled {
        &self.assembled
    }
}

impl Engine {
    /// Plays the session with this key; one that was played before goes on.
    #[must_use]
    pub fn play(&self, session_key: &str) -> Play<'_> {
        let talk = self.talk(session_key, session_key);
        let key = session_key.to_owned();
        self.world.begin(&key);
        Play { talk, key, budget: None, bootstrapped: false, summary: None }
    }
}

impl Play<'_> {
    /// Every later turn may cost at most so many tokens: the whole prompt without system prompt and current message.
    #[must_use]
    pub fn with_budget(mut self, tokens: u64) -> Self {
        self.budget = Some(tokens);
        self
    }

    /// Every later turn's calls are cancelled when their hook has asked so many times whether they are.
    #[must_use]
    pub fn cancelled_after(mut self, checks: u64) -> Self {
        self.talk = self.talk.cancelled_after(checks);
        self
    }

    /// What the model would see if the person said this. Changes nothing but what the engine itself changes.
    ///
    /// # Errors
    ///
    /// What a hook said.
    pub fn ask(&mut self, user: &str) -> Result<Shown, Failure> {
        let prompt = Line::user(self.next_id(), user).at(self.world().now_ms());
        self.take_up(prompt.id)?;
        self.shown(&prompt)
    }

    /// One whole turn: the person says `user`, the model answers `assistant`.
    ///
    /// # Errors
    ///
    /// What a hook said.
    pub fn turn(&mut self, user: &str, assistant: &str) -> Result<Shown, Failure> {
        self.turn_of(&[Line::user(0, user), Line::assistant(0, assistant)])
    }

    /// One whole turn of these lines, of which the first is the person's: tool calls and their results, too. Their ids and times
    /// are given here.
    ///
    /// # Errors
    ///
    /// What a hook said.
    ///
    /// # Panics
    ///
    /// When there is no line.
    pub fn turn_of(&mut self, lines: &[Line]) -> Result<Shown, Failure> {
        let (first, now) = (self.next_id(), self.world().now_ms());
        let ids = (0..).map(|at| first + at * ID_STEP);
        let lines: Vec<Line> = lines.iter().zip(ids).map(|(line, id)| Line { id, ..line.clone() }.at(now)).collect();
        self.take_up(first)?;
        let shown = self.shown(&lines[0])?;
        self.world().append(&self.key, &lines);
        let table = self.talk.table();
        if table.commit_turn.is_some() {
            self.talk.commit(&format!("{}/{first}", self.key), &lines)?;
        } else if table.after_turn.is_some() {
            self.talk.after_turn(&self.history(), lines.len())?;
        }
        if table.maintain.is_some() {
            self.talk.maintain(true)?;
        }
        Ok(shown)
    }

    /// Many turns that say nothing worth keeping, to fill the history.
    ///
    /// # Errors
    ///
    /// What a hook said.
    pub fn small_talk(&mut self, turns: usize) -> Result<(), Failure> {
        for turn in 1..=turns {
            self.turn(&format!("How is the weather on day {turn}?"), &format!("On day {turn} it is fair."))?;
        }
        Ok(())
    }

    /// `compact` of what the engine is shown, forced, within the budget. Where the host did it, what it left is shown from now on.
    ///
    /// # Errors
    ///
    /// What the hook said.
    pub fn compact(&mut self) -> Result<Compacted, Failure> {
        let history = self.history();
        let compacted = self.talk.compact(&history, self.budget)?;
        if compacted.compacted && !self.talk.info()?.owns_compaction {
            let kept = compacted.first_kept_entry_id;
            let mut summary = Line::user(kept.saturating_sub(1), compacted.summary.as_deref().unwrap_or_default());
            summary.flags |= entry_flags::SUMMARY;
            self.summary = Some(summary);
        }
        Ok(compacted)
    }

    /// What the engine is shown of the session: the transcript, of which a compaction by the host left a summary and the rest.
    #[must_use]
    pub fn history(&self) -> Vec<Line> {
        let transcript = self.world().transcript(&self.key);
        let kept = self.summary.as_ref().map_or(0, |summary| summary.id);
        self.summary.iter().cloned().chain(transcript.into_iter().filter(|line| line.id > kept)).collect()
    }

    /// The hooks about this session, one by one.
    #[must_use]
    pub fn talk(&self) -> &Talk<'_> {
        &self.talk
    }

    /// `onSessionEnded`, where the engine has it, and the end of the session: its transcript and its scope of the store.
    ///
    /// # Errors
    ///
    /// What the hook said.
    pub fn delete(self) -> Result<(), Failure> {
        let told = match self.talk.table().on_session_ended {
            Some(_) => self.talk.ended(),
            None => Ok(()),
        };
        self.world().delete(&self.key, &self.key);
        told
    }

    fn world(&self) -> &super::World {
        self.talk.world()
    }

    fn next_id(&self) -> u64 {
        self.world().transcript(&self.key).last().map_or(0, |line| line.id) + ID_STEP
    }

    /// `bootstrap`, on first sight of the session.
    fn take_up(&mut self, fence: u64) -> Result<(), Failure> {
        if !std::mem::replace(&mut self.bootstrapped, true) && self.talk.table().bootstrap.is_some() {
            match self.talk.bootstrap(fence) {
                Err(failure) if failure.status == status::UNSUPPORTED => {}
                other => drop(other?),
            }
        }
        Ok(())
    }

    fn shown(&self, prompt: &Line) -> Result<Shown, Failure> {
        let history = self.history();
        let assembled = self.talk.assemble(&history, Some(prompt), self.budget)?;
        let (mut texts, mut tokens, mut is_placed) = (Vec::new(), 0, false);
        for piece in &assembled.pieces {
            match piece {
                Piece::Message(_, text) => {
                    tokens += u64::from(Line::user(0, text).tokens);
                    texts.push(text.clone());
                }
                Piece::Span(first, last) if [*first, *last] == [prompt.id; 2] => {
                    is_placed = true;
                    texts.push(prompt.text.clone());
                }
                Piece::Span(first, last) => {
                    let lines: Vec<&Line> = history.iter().filter(|line| (*first..=*last).contains(&line.id)).collect();
                    if lines.first().map(|line| line.id) != Some(*first)
                        || lines.last().map(|line| line.id) != Some(*last)
                    {
                        let reason =
                            format!("the span {first} to {last} does not begin and end with entries of the history");
                        return Err(Failure { status: wire::status::INVALID, reason, service_token: 0 });
                    }
                    tokens += lines.iter().map(|line| u64::from(line.tokens)).sum::<u64>();
                    texts.extend(lines.iter().map(|line| line.text.clone()));
                }
            }
        }
        if !is_placed {
            texts.push(prompt.text.clone());
        }
        Ok(Shown { assembled, texts, tokens })
    }
}
