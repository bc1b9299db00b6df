//! Plays conversations through an engine and asks their questions.

use crate::data::{Conversation, DataSet};
use crate::engine::Engine;
use crate::evidence::Needle;
use crate::prefix::{Prefix, PrefixReport};
use crate::prompt::Rendered;
use crate::report::{Degraded, Finding, HookTimes, Report};
use crate::score::Score;
use engineroom::model::{OFFLINE_MODEL, TokenCounter};
use engineroom::transcript::{Message, Role};
use engineroom::turn::replay::{
    Asked, Call, Closed, EngineReport, Player, Question, Recording, ReplayError, ReplayOptions, TurnReport, Watch,
};
use std::borrow::Cow;
use std::time::{Duration, Instant};

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// There is no place for what is only needed meanwhile.
    #[error("cannot make a folder for the evaluation")]
    Folder(#[source] std::io::Error),
    /// A turn or a question failed for good.
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

/// How far an evaluation is.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Session, by the name of its first conversation.
    pub session: &'a str,
    /// Turns of it, and how long they took to play.
    pub turns: (usize, Duration),
    /// Questions, and how long they took to ask.
    pub questions: (usize, Duration),
}

/// How to measure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Tokens that the engine's answer to a question may cost.
    pub budget: u64,
    /// All conversations are played one after the other in one session, and all questions are asked at its end; else each
    /// conversation has a session of its own.
    pub joined: bool,
    /// Tokens of the window in which the conversations are played; `None` for the budget and what the base prompt costs.
    pub window: Option<u64>,
}

/// Measures an engine at a budget.
///
/// # Errors
///
/// [`EvalError`] when nothing could be measured. An engine that fails is no error: the report tells (`degraded`).
pub async fn evaluate(
    engine: &Engine,
    data: &DataSet,
    options: Options,
    progress: &mut (dyn FnMut(Progress<'_>) + Send),
) -> Result<Report, EvalError> {
    let folder = tempfile::tempdir().map_err(EvalError::Folder)?;
    let sessions: Vec<&[Conversation]> = match options.joined {
        true => vec![&data.conversations[..]],
        false => data.conversations.chunks(1).collect(),
    };
    let Options { budget, joined, window } = options;
    let system = data.conversations.iter().map(|each| system_tokens(&each.recording)).max().unwrap_or(0);
    let window = window.unwrap_or(budget + system);
    let player = open(engine, folder.path(), window).await?;
    let mut report = Report::new(engine, budget);
    (report.left_out, report.joined, report.sessions) = (data.left_out, joined, sessions.len());
    report.window = window;
    report.estimated = player.counter().estimated();
    let (mut findings, mut shares) = (Vec::with_capacity(data.questions()), Vec::new());
    for (number, conversations) in sessions.into_iter().enumerate() {
        let mut session =
            Session { player: &player, key: format!("agent:main:eval:{}", number + 1), prefix: Prefix::default() };
        let since = Instant::now();
        let turns = session.play(conversations, &mut report).await?;
        let played = since.elapsed();
        let asked = session.ask(conversations, engine, &mut report, &mut findings).await?;
        shares.extend_from_slice(session.prefix.shares());
        progress(Progress {
            session: conversations.first().map_or("", |first| &first.recording.name),
            turns: (turns, played),
            questions: (asked, since.elapsed() - played),
        });
    }
    let closed = player.close().await;
    if let Some(own) = closed.engines.get(&engine.id) {
        report.hooks = HookTimes::of(&own.hooks);
    }
    report.abandoned = closed.abandoned;
    if closed.abandoned > 0 {
        report.degraded.note(format!("{} calls never came back", closed.abandoned));
    }
    note_state(&engine.id, closed.engines.get(&engine.id), &mut report.degraded);
    report.sum_up(&findings);
    report.prefix = PrefixReport::of(&shares);
    Ok(report)
}

/// Plays one recording through an engine, in a window of so many tokens: `watch` is shown each prompt, and what each turn came to is
/// told in the end.
///
/// # Errors
///
/// As [`evaluate`].
pub async fn play(
    engine: &Engine,
    recording: &Recording,
    window: u64,
    watch: &mut dyn Watch,
) -> Result<(Vec<TurnReport>, Closed), EvalError> {
    let folder = tempfile::tempdir().map_err(EvalError::Folder)?;
    let player = open(engine, folder.path(), window).await?;
    let turns = player.play("agent:main:eval:1", recording, watch).await?;
    Ok((turns, player.close().await))
}

async fn open(engine: &Engine, folder: &std::path::Path, window: u64) -> Result<Player, EvalError> {
    let options = ReplayOptions { chain: vec![engine.id.clone()], budget: Some(window) };
    Ok(Player::open(&engine.gateway(folder), &options).await?)
}

/// What the base prompt costs, which is no part of the budget.
fn system_tokens(recording: &Recording) -> u64 {
    let counter = TokenCounter::for_model(OFFLINE_MODEL);
    recording.system.iter().map(|message| counter.json_message(message)).sum()
}

/// Says what keeps an engine from serving.
fn note_state(id: &str, engine: Option<&EngineReport>, degraded: &mut Degraded) {
    match engine {
        Some(engine) if engine.state != "ready" => {
            let reason = engine.reason.as_deref().or(engine.code.as_deref()).unwrap_or("nobody says why");
            degraded.note(format!("engine {id} is {}: {reason}", engine.state));
        }
        Some(_) => {}
        None => degraded.note(format!("there is no engine {id}")),
    }
}

/// A session of a player.
struct Session<'a> {
    player: &'a Player,
    key: String,
    prefix: Prefix,
}

impl Watch for Prefix {
    fn call(&mut self, call: Call<'_>) {
        Prefix::call(self, call.messages);
    }
}

impl Session<'_> {
    /// Plays the conversations; gives the number of turns.
    async fn play(&mut self, conversations: &[Conversation], report: &mut Report) -> Result<usize, EvalError> {
        let mut count = 0;
        for conversation in conversations {
            let turns = self.player.play(&self.key, &conversation.recording, &mut self.prefix).await?;
            count += turns.len();
            for turn in &turns {
                let degraded = &mut report.degraded;
                degraded.turns += usize::from(turn.degraded.is_some());
                turn.failures.iter().for_each(|failure| degraded.note(said(failure)));
                report.trimmed += usize::from(turn.steps.iter().any(|step| step["step"] == "trim"));
            }
        }
        report.turns += count;
        Ok(count)
    }

    /// Asks the questions of the conversations; gives their number.
    async fn ask(
        &self,
        conversations: &[Conversation],
        engine: &Engine,
        report: &mut Report,
        findings: &mut Vec<Finding>,
    ) -> Result<usize, EvalError> {
        let history: Vec<&Message> = conversations.iter().flat_map(said_in).collect();
        let texts: Vec<Cow<'_, str>> = history.iter().map(|message| message.text()).collect();
        let last =
            conversations.iter().flat_map(|each| &each.recording.messages).filter_map(|said| said.time_ms).next_back();
        self.player.take_up(&self.key).await?;
        let before = self.player.standing(&self.key).await?;
        let (mut first, mut count) = (None, 0);
        for conversation in conversations {
            for question in &conversation.questions {
                let ask = Question {
                    message: Message::text_of(Role::User, question.text.as_str()),
                    time_ms: last,
                    system: conversation.recording.system.clone(),
                    budget: report.budget,
                };
                let asked = self.player.ask(&self.key, ask.clone()).await?;
                count += 1;
                note(&asked, engine, &mut report.degraded);
                let prompt = Rendered::of(&asked.messages, asked.question_at);
                let stands = prompt.texts();
                let found = question.evidence.iter().filter(|place| {
                    let text = conversation.recording.messages[**place].message.text();
                    Needle::new(&text, &texts).stands_in(&stands)
                });
                findings.push(Finding {
                    score: Score {
                        category: question.category.clone(),
                        counted: question.counted,
                        evidence: question.evidence.len(),
                        found: found.count(),
                    },
                    tokens: asked.tokens,
                    over_budget: asked.over_budget,
                    tail: prompt.tail(&history, self.player.counter()),
                    volatile: prompt.volatile_tokens(self.player.counter()),
                    prefix: self.prefix.next(&asked.messages),
                });
                first.get_or_insert((ask, asked));
            }
        }
        if let Some((ask, asked)) = first {
            let again = self.player.ask(&self.key, ask).await?;
            if again.messages.json() != asked.messages.json() {
                let trace = format!("{}: the first question, asked again, had another prompt", self.key);
                report.degraded.traces.push(trace);
            }
        }
        let after = self.player.standing(&self.key).await?;
        if after != before {
            report
                .degraded
                .traces
                .push(format!("{}: the session was {before:?} before the questions and {after:?} after", self.key));
        }
        Ok(count)
    }
}

fn said_in(conversation: &Conversation) -> impl Iterator<Item = &Message> {
    conversation.recording.messages.iter().map(|recorded| &recorded.message)
}

fn note(asked: &Asked, engine: &Engine, degraded: &mut Degraded) {
    if asked.engine != engine.id || asked.degraded.is_some() {
        degraded.questions += 1;
    }
    asked.failures.iter().for_each(|failure| degraded.note(said(failure)));
}

/// A hook that failed, in a sentence.
fn said(failure: &serde_json::Value) -> String {
    let text = |name: &str| failure[name].as_str().unwrap_or_default();
    format!("engine {} failed in {}: {}", text("engine"), text("hook"), text("reason"))
}
