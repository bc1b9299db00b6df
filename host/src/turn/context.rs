//! What the model would see now: an assembly without a model call, entry by entry.

use super::house::House;
use super::run::TurnRun;
use super::session::is_role;
use super::{ContextEntry, ContextReport, TurnError};
use crate::compaction::View;
use crate::slot::LeaseRequest;
use crate::transcript::{Message, Role};
use engine_abi::wire::entry_flags;
use std::collections::HashSet;
use std::sync::Arc;

/// Longest text of a line of the report, in characters.
const LINE: usize = 200;

/// Assembles the session as its next turn would find it.
pub(super) async fn report(house: &Arc<House>, key: &str) -> Result<ContextReport, TurnError> {
    let lane = house.lanes.enter(key).await?;
    let session = house.open(key, false).await?;
    let (agent, open) = {
        let state = session.state();
        // A user message without an answer is the current turn; else there is none.
        let first = state.last_user();
        let answered = state
            .entries()
            .iter()
            .rev()
            .take_while(|entry| Some(entry.id) > first)
            .any(|entry| is_role(entry, Role::Assistant));
        (state.record().agent.clone(), first.filter(|_| !answered))
    };
    let lease = house.slot.lease(&LeaseRequest::upkeep(agent)).map_err(TurnError::Slot)?;
    let mut run = TurnRun::operation(house.clone(), session.clone(), lease, Some(lane));
    run.admitted.first = open.unwrap_or(0);
    let info = run.agent.model.info();
    let limit = info.context_window.saturating_sub(run.agent.reserve(&run.params));
    let assembled = run.assemble(limit).await?;
    let engine = run.lease.engine().id().to_owned();
    let view = session.state().view();
    let mut entries = Vec::new();
    let mut shown = HashSet::new();
    for item in assembled.prompt.items() {
        let index = item.id.and_then(|id| view.index_of(id));
        shown.extend(item.id);
        let why = match index {
            _ if item.current_turn => "the current turn".to_owned(),
            Some(index) => why_shown(&view, index, &engine),
            None if item.message.role == Role::Tool => "the result of the call before it".to_owned(),
            None => format!("made by {engine}"),
        };
        entries.push(line(item.id, &item.message, item.tokens, true, why));
    }
    for (index, head) in view.heads.iter().enumerate() {
        if !shown.contains(&head.id) {
            let why = format!("left out by {engine}");
            entries.push(line(Some(head.id), &view.bodies[index], u64::from(head.tokens), false, why));
        }
    }
    let kept = view.heads.first().map_or(0, |head| head.id);
    for entry in session.state().entries() {
        if let Some(message) = super::session::message_of(entry).filter(|_| entry.id < kept) {
            let why = "stands in the summary of older entries".to_owned();
            entries.push(line(Some(entry.id), message, u64::from(entry.tokens), false, why));
        }
    }
    Ok(ContextReport {
        session: key.to_owned(),
        degraded: run.degraded_code(),
        engine,
        model: info.resolved,
        context_window: info.context_window,
        budget: limit,
        tokens: assembled.prompt.tokens(),
        engine_estimate: run.notes.engine_estimate,
        estimated: run.agent.counter.estimated(),
        system_prompt_addition: assembled.prompt.system_addition().map(str::to_owned),
        volatile_prompt_addition: assembled.prompt.volatile_addition().map(str::to_owned),
        entries,
    })
}

fn why_shown(view: &View, index: usize, engine: &str) -> String {
    let flags = view.heads[index].flags;
    let mut why = if flags & entry_flags::SUMMARY != 0 {
        "the summary of older entries".to_owned()
    } else {
        format!("chosen by {engine}")
    };
    if flags & entry_flags::PRUNED != 0 {
        why.push_str("; an old tool result, shortened");
    }
    if flags & entry_flags::UNANSWERED != 0 {
        why.push_str("; never answered");
    }
    why
}

fn line(id: Option<u64>, message: &Message, tokens: u64, shown: bool, why: String) -> ContextEntry {
    let text = message.text();
    let mut short: String = text.chars().take(LINE).map(|letter| if letter == '\n' { ' ' } else { letter }).collect();
    if text.chars().nth(LINE).is_some() {
        short.push('…');
    }
    if short.is_empty() && !message.tool_calls.is_empty() {
        let names: Vec<_> = message.tool_calls.iter().map(|call| call.function.name.as_str()).collect();
        short = format!("calls {}", names.join(", "));
    }
    ContextEntry { id, role: message.role.name(), tokens, shown, why, text: short }
}
