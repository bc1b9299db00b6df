//! Tests of the room, by what it promises.

mod compacting;
mod projecting;
mod properties;
mod pruning;
mod running;
mod trimming;

use super::*;
use crate::config::PruningConfig;
use crate::model::TokenCounter;
use crate::transcript::{CompactionBody, Entry, EntryBody, EntryId, Message, Role, ToolCall, ToolFunction};
use std::collections::HashMap;
use std::sync::Arc;

fn counter() -> TokenCounter {
    TokenCounter::for_model("gpt-4o")
}

/// A branch that is told step by step.
#[derive(Clone, Default)]
struct Story {
    branch: Vec<Arc<Entry>>,
    next: EntryId,
}

impl Story {
    fn add(&mut self, body: EntryBody) -> EntryId {
        self.next += 1;
        let id = self.next;
        let tokens = match &body {
            EntryBody::Message(message) => counter().message(message),
            EntryBody::Compaction(_) => 0,
        };
        self.branch.push(Arc::new(Entry {
            id,
            parent: self.branch.last().map_or(0, |last| last.id),
            session: 1,
            time_ms: 1_700_000_000_000 + i64::try_from(id).unwrap() * 60_000,
            flags: 0,
            tokens,
            digest: 0,
            body,
        }));
        id
    }

    fn say(&mut self, role: Role, text: &str) -> EntryId {
        self.add(EntryBody::Message(Arc::new(Message::text_of(role, text))))
    }

    fn user(&mut self, text: &str) -> EntryId {
        self.say(Role::User, text)
    }

    fn assistant(&mut self, text: &str) -> EntryId {
        self.say(Role::Assistant, text)
    }

    fn calls(&mut self, ids: &[&str]) -> EntryId {
        let mut message = Message::text_of(Role::Assistant, "");
        message.tool_calls = ids.iter().map(|id| call(id)).collect();
        self.add(EntryBody::Message(Arc::new(message)))
    }

    fn result(&mut self, id: &str, text: &str) -> EntryId {
        let mut message = Message::text_of(Role::Tool, text);
        message.tool_call_id = Some(id.to_owned());
        self.add(EntryBody::Message(Arc::new(message)))
    }

    fn compaction(&mut self, summary: &str, first_kept: EntryId) -> EntryId {
        self.add(EntryBody::Compaction(CompactionBody {
            summary: summary.to_owned(),
            first_kept,
            tokens_before: 0,
            tokens_after: 0,
            trigger: "manual".into(),
            by: "builtin".into(),
        }))
    }

    fn projection(&self) -> Projection {
        let mut projection = Projection::new(ProjectionPolicy::default());
        projection.sync(&self.branch, &HashMap::new(), &counter());
        projection
    }

    fn view(&self) -> Arc<View> {
        self.projection().view()
    }
}

fn call(id: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        kind: "function".into(),
        function: ToolFunction { name: "look".into(), arguments: format!("{{\"at\":\"/srv/{id}\"}}") },
        extra: serde_json::Map::new(),
    }
}

/// The view in short: `id:role`, with `+n` results attached.
fn outline(view: &View) -> Vec<String> {
    view.heads
        .iter()
        .enumerate()
        .map(|(row, head)| {
            let attached = view.attached_at(row).len();
            let role = view.bodies[row].role.name();
            if attached > 0 { format!("{}:{role}+{attached}", head.id) } else { format!("{}:{role}", head.id) }
        })
        .collect()
}

fn sent_whole(view: &View) -> bool {
    pairs_whole(view.sent(0..view.len()).map(|sent| sent.message.as_ref()), true)
}

fn pruning() -> PruningConfig {
    PruningConfig::default()
}
