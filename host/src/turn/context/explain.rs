//! From an assembled prompt to the report: what became of each entry, and why.

use super::report::{ContextEntry, ContextReport, EntryState, Totals};
use super::standing;
use crate::compaction::{PromptItem, View, pruned_because};
use crate::slot::Item;
use crate::transcript::{Entry, EntryId, Message, Role};
use crate::turn::prepare::Assembled;
use crate::turn::run::TurnRun;
use crate::turn::session::message_of;
use engine_abi::wire::entry_flags;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

/// Who decides when no engine does.
const HOST: &str = "host";

/// `fixed`: tokens of the system prompt and of the tools of the last request. `question`: the entry that is there for this
/// report alone.
pub(super) fn explain(
    key: &str,
    run: &TurnRun,
    mut assembled: Assembled,
    limit: u64,
    fixed: (u64, u64),
    question: Option<EntryId>,
) -> ContextReport {
    let engine = run.lease.engine().id().to_owned();
    let would_compact = assembled.prompt.tokens().max(assembled.unwindowed.unwrap_or(0)) > limit;
    let before: HashMap<EntryId, u64> =
        assembled.prompt.items().iter().filter_map(|item| Some((item.id?, item.tokens))).collect();
    if assembled.prompt.tokens() > limit {
        assembled.prompt.trim(limit, &run.agent.counter);
    }
    // A copy of the pointers: the lock is not held while texts are read.
    let branch: Vec<Arc<Entry>> = run.session.state().entries().to_vec();
    let writer =
        Writer { engine: &engine, view: &assembled.view, spans: spans(&assembled.given), before, branch: &branch };
    let mut entries: Vec<ContextEntry> = assembled.prompt.items().iter().map(|item| writer.shown(item)).collect();
    let shown: HashSet<EntryId> = entries.iter().filter_map(|entry| entry.id).collect();
    entries.extend(writer.hidden(&shown));
    number(&mut entries, &branch, question);
    let mut totals = Totals { spans: writer.spans.len() as u64, ..Totals::default() };
    entries.iter().for_each(|entry| totals.count(entry));
    (totals.system_prompt, totals.tools) = fixed;
    let tokens = assembled.prompt.tokens();
    totals.additions = tokens.saturating_sub(totals.shown.tokens + fixed.0 + fixed.1);
    let standing = standing(&run.session, run.lease.engine(), run.admitted.first);
    let mut notes = Vec::new();
    if !standing.taken_up {
        notes.push(format!(
            "{engine} has not taken this session up since the gateway started; the next turn calls its bootstrap first"
        ));
    }
    if standing.waiting > 0 {
        notes.push(format!(
            "{} turn(s) wait to be handed over to {engine}; the next turn does that first",
            standing.waiting
        ));
    }
    if fixed == (0, 0) {
        notes
            .push("the client's system prompt and tools are not stored; they are counted with the next request".into());
    }
    let info = &run.agent.info;
    ContextReport {
        session: key.to_owned(),
        selected: run.lease.selected().to_owned(),
        degraded: run.degraded_code(),
        passed: run.lease.passed().iter().filter_map(|passed| serde_json::to_value(passed).ok()).collect(),
        engine,
        model: info.resolved.clone(),
        context_window: info.context_window,
        budget: limit,
        tokens,
        engine_estimate: run.notes.engine_estimate,
        estimated: run.agent.counter.estimated(),
        taken_up: standing.taken_up,
        waiting_turns: standing.waiting,
        would_compact,
        totals,
        system_prompt_addition: assembled.prompt.system_addition().map(str::to_owned),
        volatile_prompt_addition: assembled.prompt.volatile_addition().map(str::to_owned),
        memory_section: run.services.memory_section(),
        asked: None,
        notes,
        entries,
    }
}

/// Gives stored entries their numbers, and takes from a question the id that it has for a moment only.
fn number(entries: &mut [ContextEntry], branch: &[Arc<Entry>], question: Option<EntryId>) {
    let messages = branch.iter().filter(|entry| message_of(entry).is_some());
    let numbers: HashMap<EntryId, u64> = messages.zip(1..).map(|(entry, number)| (entry.id, number)).collect();
    for entry in entries {
        if entry.id.is_some() && entry.id == question {
            entry.id = None;
            entry.why = "the question, which is not stored".to_owned();
        }
        entry.number = entry.id.and_then(|id| numbers.get(&id).copied());
    }
}

/// The spans of an engine's answer, as ranges of rows.
fn spans(given: &[Item]) -> Vec<Range<usize>> {
    let span = |item: &Item| match item {
        Item::Span { start, end } => Some(*start..*end),
        _ => None,
    };
    given.iter().filter_map(span).collect()
}

struct Writer<'a> {
    engine: &'a str,
    view: &'a View,
    spans: Vec<Range<usize>>,
    /// Tokens of the items before the host trimmed the prompt.
    before: HashMap<EntryId, u64>,
    branch: &'a [Arc<Entry>],
}

impl Writer<'_> {
    fn shown(&self, item: &PromptItem) -> ContextEntry {
        let index = item.id.and_then(|id| self.view.index_of(id));
        let Some((id, index)) = item.id.zip(index) else { return self.made(item) };
        let flags = self.view.heads[index].flags;
        let span = self.spans.iter().position(|span| span.contains(&index)).map(|at| at + 1);
        let trimmed = self.before.get(&id).is_some_and(|before| item.tokens < *before);
        let (state, by, mut why) = if flags & entry_flags::SUMMARY != 0 {
            (EntryState::Summary, HOST, "the summary of older entries".to_owned())
        } else if trimmed {
            (EntryState::Pruned, HOST, "shortened by the host, so that the prompt fits".to_owned())
        } else if flags & entry_flags::PRUNED != 0 {
            (EntryState::Pruned, HOST, pruned_because(&item.message).to_owned())
        } else if item.current_turn {
            (EntryState::Kept, HOST, "the current turn".to_owned())
        } else {
            (EntryState::Kept, self.engine, format!("chosen by {}", self.engine))
        };
        if flags & entry_flags::UNANSWERED != 0 {
            why.push_str("; never answered");
        }
        let stored = (state == EntryState::Pruned).then(|| self.stored(id)).flatten();
        ContextEntry { stored_tokens: stored, span, by: by.to_owned(), ..line(item, state, why) }
    }

    fn made(&self, item: &PromptItem) -> ContextEntry {
        let host = item.message.role == Role::Tool;
        let (by, why) = match host {
            true => (HOST, "the result of the call before it".to_owned()),
            false => (self.engine, format!("made by {}", self.engine)),
        };
        ContextEntry { by: by.to_owned(), ..line(item, EntryState::Made, why) }
    }

    /// Tokens of an entry as it is stored.
    fn stored(&self, id: EntryId) -> Option<u64> {
        let at = self.branch.binary_search_by_key(&id, |entry| entry.id).ok()?;
        Some(u64::from(self.branch[at].tokens))
    }

    /// The entries of the branch that the model would not see.
    fn hidden(&self, shown: &HashSet<EntryId>) -> Vec<ContextEntry> {
        // Results that stand right behind their call are sent without a row of their own.
        let moved: HashSet<EntryId> = self.view.attached.values().flatten().map(|result| result.source).collect();
        let kept_from = self.view.heads.iter().find(|head| head.flags & entry_flags::SUMMARY == 0).map(|head| head.id);
        let summarised = self.view.is_summary(0);
        let mut hidden = Vec::new();
        for entry in self.branch {
            let Some(message) = message_of(entry).filter(|_| !shown.contains(&entry.id)) else { continue };
            if moved.contains(&entry.id) {
                continue;
            }
            let (state, by, why) = if self.view.index_of(entry.id).is_some() {
                match self.before.contains_key(&entry.id) {
                    true => (EntryState::Dropped, HOST, "left out by the host, so that the prompt fits".to_owned()),
                    false => (EntryState::Dropped, self.engine, format!("left out by {}", self.engine)),
                }
            } else if summarised && kept_from.is_none_or(|first| entry.id < first) {
                (EntryState::Summarised, HOST, "stands in the summary of older entries".to_owned())
            } else if message.role == Role::Tool {
                (EntryState::Dropped, HOST, "a result without its call, or given twice".to_owned())
            } else {
                (EntryState::Dropped, HOST, "nothing in it that a model could read".to_owned())
            };
            hidden.push(ContextEntry {
                id: Some(entry.id),
                number: None,
                role: message.role.name(),
                state,
                tokens: u64::from(entry.tokens),
                stored_tokens: None,
                span: None,
                shown: false,
                by: by.to_owned(),
                why,
                text: text(message),
            });
        }
        hidden
    }
}

fn line(item: &PromptItem, state: EntryState, why: String) -> ContextEntry {
    ContextEntry {
        id: item.id,
        number: None,
        role: item.message.role.name(),
        state,
        tokens: item.tokens,
        stored_tokens: None,
        span: None,
        shown: true,
        by: String::new(),
        why,
        text: text(&item.message),
    }
}

fn text(message: &Message) -> String {
    let text = message.text();
    if text.is_empty() && !message.tool_calls.is_empty() {
        let names: Vec<_> = message.tool_calls.iter().map(|call| call.function.name.as_str()).collect();
        return format!("calls {}", names.join(", "));
    }
    text.into_owned()
}
