//! From what the engine gave to what the model is sent.

use super::written::Written;
use crate::compaction::{LONG_RESULT_CHARS, PromptItem, View, close_open_calls, trim_to_fit};
use crate::model::{Messages, TokenCounter};
use crate::observe::broken;
use crate::slot::{AssembleOutput, ContextProjection, Item};
use crate::transcript::{EntryId, Message, Role};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// Tag of the block that carries a volatile addition.
const BLOCK: &str = "engine-context";
/// Framing of a system prompt that exists only because of an addition, in tokens; a bound.
const SYSTEM_FRAMING: u64 = 8;

/// What an addition to the system prompt costs, in tokens.
pub(super) fn addition_tokens(addition: &str, counter: &TokenCounter) -> u64 {
    counter.text(addition) + SYSTEM_FRAMING
}

/// A prompt before it is rendered: what is fixed, and the items that the ladder may still shorten.
pub(super) struct Prompt {
    system: Vec<Value>,
    /// What the engine added, as it gave it.
    system_addition: Option<String>,
    volatile_addition: Option<String>,
    /// The volatile addition as it is sent.
    volatile: Option<String>,
    items: Vec<PromptItem>,
    projection: ContextProjection,
    /// Tokens of everything but the items: system prompt, additions, tool schemas.
    fixed: u64,
}

impl Prompt {
    /// Puts together what the client said (`system`, and the tokens of it and of the tools in `fixed`), what the engine gave,
    /// and the current `turn`. The current turn is there once: where the engine placed it, else last.
    pub(super) fn build(
        system: &[Value],
        fixed: u64,
        view: &View,
        turn: Vec<PromptItem>,
        output: &AssembleOutput,
        counter: &TokenCounter,
    ) -> Prompt {
        let mut fixed = fixed;
        let (stable, volatile) = additions(output);
        let system = match stable {
            Some(addition) => {
                fixed += addition_tokens(&addition, counter);
                prepend_system(system, &addition)
            }
            None => system.to_vec(),
        };
        let volatile = volatile.map(block);
        if let Some(block) = &volatile {
            fixed += counter.text(block) + SYSTEM_FRAMING;
        }
        let mut items = Vec::with_capacity(view.len().min(1024));
        let again = broken("9.19").then(|| turn.clone());
        let mut turn = Some(turn);
        for item in &output.items {
            match item {
                Item::Span { start, end } => items.extend(view.items(*start..*end, view.len())),
                Item::Message(message) => items.push(PromptItem {
                    id: None,
                    tokens: u64::from(counter.message(message)),
                    message: message.clone(),
                    current_turn: false,
                }),
                Item::CurrentTurn => items.extend(turn.take().unwrap_or_default()),
            }
        }
        items.extend(turn.or(again).unwrap_or_default());
        // A client may come back with some of the results only; a provider wants all of them.
        close_open_calls(&mut items, counter);
        Prompt {
            system,
            system_addition: output.system_prompt_addition.clone(),
            volatile_addition: output.volatile_prompt_addition.clone(),
            volatile,
            items,
            projection: output.projection.clone(),
            fixed,
        }
    }

    /// How a host with a persistent thread shall use it.
    pub(super) fn projection(&self) -> &ContextProjection {
        &self.projection
    }

    /// What a host that has everything up to the entry `until`, an answer, has not heard.
    fn after(&self, until: EntryId) -> impl Iterator<Item = &PromptItem> {
        self.items.iter().filter(move |item| item.id.is_some_and(|id| id > until))
    }

    /// Tokens of [`Self::values_after`], system prompt and tools not counted.
    pub(super) fn tokens_after(&self, until: EntryId) -> u64 {
        self.after(until).map(|item| item.tokens).sum()
    }

    /// The messages for a host that has everything up to the entry `until`, an answer: system first, which no host keeps.
    pub(super) fn values_after(&self, until: EntryId) -> Vec<Value> {
        let mut values = self.system.clone();
        let turn = self.items.iter().find(|item| item.current_turn).and_then(|item| item.id);
        // It stands at the head of the current turn, and goes where that goes.
        let mut volatile = self.volatile.as_deref().filter(|_| turn.is_none_or(|first| first > until));
        for item in self.after(until) {
            let mut value = to_value(&item.message);
            if let Some(block) = volatile.take_if(|_| item.current_turn) {
                if item.message.role == Role::User {
                    prepend_content(&mut value, block);
                } else {
                    values.push(json!({"role": "user", "content": block}));
                }
            }
            values.push(value);
        }
        values
    }

    /// Tokens of the whole prompt as it will be sent.
    pub(super) fn tokens(&self) -> u64 {
        self.fixed + self.items.iter().map(|item| item.tokens).sum::<u64>()
    }

    /// Tokens of everything that cannot be shortened.
    pub(super) fn fixed(&self) -> u64 {
        self.fixed
    }

    /// Tokens that shortening long tool results alone would win, roughly.
    pub(super) fn reducible(&self) -> u64 {
        let results = self.items.iter().filter(|item| item.message.role == Role::Tool);
        let gained = |item: &PromptItem| {
            let chars = item.message.text().chars().count();
            let excess = chars.saturating_sub(LONG_RESULT_CHARS);
            item.tokens * u64::try_from(excess).unwrap_or(0) / u64::try_from(chars).unwrap_or(1).max(1)
        };
        results.map(gained).sum()
    }

    /// What the engine put before the system prompt.
    pub(super) fn system_addition(&self) -> Option<&str> {
        self.system_addition.as_deref()
    }

    /// What the engine put at the head of the current user message.
    pub(super) fn volatile_addition(&self) -> Option<&str> {
        self.volatile_addition.as_deref()
    }

    /// The items, in the order of the prompt.
    pub(super) fn items(&self) -> &[PromptItem] {
        &self.items
    }

    /// Place of the current turn's first message among the messages as the model gets them.
    pub(super) fn turn_at(&self) -> Option<usize> {
        Some(self.system.len() + self.items.iter().position(|item| item.current_turn)?)
    }

    /// The last rungs of the ladder: shortens until the prompt costs at most `limit`, where the fixed part allows it.
    pub(super) fn trim(&mut self, limit: u64, counter: &TokenCounter) {
        let items = std::mem::take(&mut self.items);
        self.items = trim_to_fit(items, limit.saturating_sub(self.fixed), counter);
    }

    /// The messages as the model gets them: system first. What is as it was in the session's last prompt is not written again.
    pub(super) fn write(&self, last: &mut Written) -> Messages {
        let mut writer = last.again();
        for message in &self.system {
            writer.value(message);
        }
        writer.system_ends();
        let mut volatile = self.volatile.as_deref();
        for item in &self.items {
            match volatile.take_if(|_| item.current_turn) {
                None => writer.message(&item.message),
                Some(block) if item.message.role == Role::User => {
                    let mut value = to_value(&item.message);
                    prepend_content(&mut value, block);
                    writer.once(&value);
                }
                Some(block) => {
                    // A turn without a user message: the block stands before it by itself.
                    writer.once(&json!({"role": "user", "content": block}));
                    writer.message(&item.message);
                }
            }
        }
        writer.end()
    }
}

fn to_value(message: &Message) -> Value {
    // A message always serialises: its keys are text and its numbers came from JSON.
    serde_json::to_value(message)
        .unwrap_or_else(|_| json!({"role": message.role.name(), "content": message.text().into_owned()}))
}

/// The stable and the volatile addition, where they say something.
fn additions(output: &AssembleOutput) -> (Option<Cow<'_, str>>, Option<&str>) {
    let says = |text: &'_ &str| !text.is_empty();
    let stable = output.system_prompt_addition.as_deref().filter(says).filter(|_| !broken("9.20"));
    let volatile = output.volatile_prompt_addition.as_deref().filter(says);
    match volatile {
        Some(volatile) if broken("9.34") => (Some(format!("{volatile}\n\n{}", stable.unwrap_or("")).into()), None),
        _ => (stable.map(Cow::Borrowed), volatile),
    }
}

/// `addition` before the first system prompt, or as the only one.
pub(super) fn prepend_system(system: &[Value], addition: &str) -> Vec<Value> {
    let mut out = system.to_vec();
    match out.first_mut() {
        Some(first) => prepend_content(first, addition),
        None => out.push(json!({"role": "system", "content": addition})),
    }
    out
}

/// Puts `text` at the head of a message's content, whatever its shape.
fn prepend_content(message: &mut Value, text: &str) {
    let Some(fields) = message.as_object_mut() else { return };
    let content = fields.get_mut("content").map(Value::take).unwrap_or_default();
    let content = match content {
        Value::String(old) if old.is_empty() => Value::String(text.to_owned()),
        Value::String(old) => Value::String(format!("{text}\n\n{old}")),
        Value::Array(mut parts) => {
            parts.insert(0, json!({"type": "text", "text": text}));
            Value::Array(parts)
        }
        _ => Value::String(text.to_owned()),
    };
    set_content(fields, content);
}

fn set_content(fields: &mut Map<String, Value>, content: Value) {
    fields.insert("content".into(), content);
}

/// The volatile addition as a block that its own text cannot close.
fn block(text: &str) -> String {
    format!("<{BLOCK}>\n{}\n</{BLOCK}>", escape(text))
}

fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['<', '>', '&']) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match letter {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            other => out.push(other),
        }
    }
    Cow::Owned(out)
}
