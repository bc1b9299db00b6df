//! From the sources to the values: the file first, then the environment, then flags; every mistake is collected.

use super::error::{Place, Problem};
use super::given::{Given, Raw, Wrong, nearest};
use super::limits::{LIMIT_KEYS, LimitsConfig};
use super::settings::{
    AGENT_KEYS, AGENT_SECTIONS, AGENTS, DEADLINE_NAMES, DEADLINES, ENTRIES, ENTRY_KEYS, GRANTS, ISOLATION, SETTINGS,
    SLOT_KEYS, TOKEN_KEYS, TOKENS, children, is_section, variable,
};
use super::types::{AgentConfig, Config, EntryConfig, TokenConfig};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use toml_edit::{Item, TableLike, Value};

/// Reads sources one after the other into a configuration.
pub(super) struct Reader<'a> {
    pub(super) config: Config,
    /// Where each value was set last, by dotted key.
    pub(super) places: BTreeMap<String, Place>,
    pub(super) problems: Vec<Problem>,
    /// The same for the keys of limits, which `doctor` does not list one by one.
    pub(super) limit_places: BTreeMap<String, Place>,
    /// What agents set over the gateway's sections: taken when every source of those was read.
    overrides: Vec<Override>,
    /// The text of the file, for lines and columns.
    text: &'a str,
    /// The folder of the file.
    base: &'a Path,
}

/// A setting of one agent.
struct Override {
    agent: String,
    /// Dotted key of the setting that it is over.
    key: String,
    item: Item,
    place: Place,
}

impl<'a> Reader<'a> {
    pub(super) fn new(config: Config, text: &'a str, base: &'a Path) -> Reader<'a> {
        Reader {
            config,
            places: BTreeMap::new(),
            problems: Vec::new(),
            limit_places: BTreeMap::new(),
            overrides: Vec::new(),
            text,
            base,
        }
    }

    /// Reads the whole file.
    pub(super) fn file(&mut self, root: &dyn TableLike) {
        self.section("", root);
    }

    /// Reads the variables of all fixed keys. An empty variable counts as not set.
    pub(super) fn environment(&mut self, env: &dyn Fn(&str) -> Option<String>, base: &Path) {
        let deadlines = DEADLINE_NAMES.iter().map(|name| format!("{DEADLINES}.{name}_ms"));
        for key in SETTINGS.iter().map(|setting| setting.key.to_owned()).chain(deadlines) {
            let name = variable(&key);
            if let Some(text) = env(&name).filter(|text| !text.trim().is_empty()) {
                self.set(&key, Given { raw: Raw::Text(&text), base }, Place::Env(name));
            }
        }
    }

    /// Reads one flag.
    pub(super) fn flag(&mut self, key: &str, text: &str, flag: &str, base: &Path) {
        let place = Place::Flag(flag.to_owned());
        let deadlines = DEADLINE_NAMES.iter().map(|name| format!("{DEADLINES}.{name}_ms"));
        let known: Vec<String> = SETTINGS.iter().map(|setting| setting.key.to_owned()).chain(deadlines).collect();
        if known.iter().any(|name| name == key) {
            self.set(key, Given { raw: Raw::Text(text), base }, place);
        } else {
            let near = nearest(key, known.iter().map(String::as_str)).map(|near| format!("did you mean {near}?"));
            let hint = near
                .unwrap_or_else(|| "`engineroom doctor` shows the keys; entries and agents stand in the file".into());
            self.problem(Problem::UNKNOWN_KEY, place, format!("unknown key {key}"), Some(hint));
        }
    }

    /// Line and column of a byte offset.
    pub(super) fn place(&self, span: Option<Range<usize>>) -> Place {
        position(self.text, span.map_or(0, |span| span.start))
    }

    fn section(&mut self, path: &str, table: &dyn TableLike) {
        for (name, item) in table.iter() {
            let dotted = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            let key_span = table.key(name).and_then(toml_edit::Key::span);
            match dotted.as_str() {
                ENTRIES => self.each(&dotted, item, key_span, Reader::entry),
                AGENTS => self.each(&dotted, item, key_span, Reader::agent),
                TOKENS => self.each(&dotted, item, key_span, Reader::token),
                section if is_section(section) => {
                    if let Some(inner) = self.table(&dotted, item, key_span) {
                        self.section(&dotted, inner);
                    }
                }
                _ if children(path).iter().any(|known| known == name) => {
                    let place = self.place(item.span().or(key_span));
                    self.set(&dotted, Given { raw: Raw::Toml(item), base: self.base }, place);
                }
                _ => self.unknown(path, name, key_span),
            }
        }
    }

    /// A table of tables that are keyed by id.
    fn each(
        &mut self,
        path: &str,
        item: &Item,
        key_span: Option<Range<usize>>,
        read: fn(&mut Self, &str, &str, &dyn TableLike),
    ) {
        let Some(table) = self.table(path, item, key_span) else { return };
        for (id, item) in table.iter() {
            let dotted = format!("{path}.{id}");
            let span = table.key(id).and_then(toml_edit::Key::span);
            if let Some(inner) = self.table(&dotted, item, span) {
                read(self, &dotted, id, inner);
            }
        }
    }

    fn table<'i>(&mut self, path: &str, item: &'i Item, span: Option<Range<usize>>) -> Option<&'i dyn TableLike> {
        let table = item.as_table_like();
        if table.is_none() {
            let place = self.place(span.or(item.span()));
            self.problem(
                Problem::WRONG_TYPE,
                place,
                format!("{path} must be a table"),
                Some(format!("write [{path}]")),
            );
        }
        table
    }

    /// Puts one value in its place, or notes why not.
    fn set(&mut self, key: &str, given: Given<'_>, place: Place) {
        let deadline =
            key.strip_prefix(DEADLINES).and_then(|rest| rest.strip_prefix('.')).and_then(|k| k.strip_suffix("_ms"));
        let outcome = if let Some(name) = deadline {
            given.millis().map(|ms| {
                self.config.plugins.deadlines.insert(name.to_owned(), ms);
            })
        } else if let Some(setting) = SETTINGS.iter().find(|setting| setting.key == key) {
            (setting.apply)(&mut self.config, given)
        } else {
            return;
        };
        self.took(key, place, outcome);
    }

    fn took(&mut self, key: &str, place: Place, outcome: Result<(), Wrong>) {
        match outcome {
            Ok(()) => {
                self.places.insert(key.to_owned(), place);
            }
            Err(Wrong::Type(expected, found)) => {
                self.problem(Problem::WRONG_TYPE, place, format!("{key} must be {expected}, is {found}"), None);
            }
            Err(Wrong::Value(message)) => self.problem(Problem::WRONG_VALUE, place, format!("{key} {message}"), None),
            Err(Wrong::Hinted(message, hint)) => {
                self.problem(Problem::WRONG_VALUE, place, format!("{key} {message}"), Some(hint));
            }
        }
    }

    fn entry(&mut self, path: &str, id: &str, table: &dyn TableLike) {
        let mut entry = EntryConfig::default();
        for (name, item) in table.iter() {
            let dotted = format!("{path}.{name}");
            let key_span = table.key(name).and_then(toml_edit::Key::span);
            let given = Given { raw: Raw::Toml(item), base: self.base };
            let place = self.place(item.span().or(key_span.clone()));
            let outcome = match name {
                "enabled" => given.boolean().map(|value| entry.enabled = value),
                "isolation" => given.one_of(&ISOLATION).map(|value| entry.isolation = value),
                "sha256" => given.sha256().map(|value| entry.sha256 = value),
                "grants" => given.list_of(&GRANTS).map(|value| entry.grants = value),
                "config" => match self.table(&dotted, item, key_span) {
                    Some(inner) => object(inner).map(|value| entry.config = value),
                    None => continue,
                },
                "limits" => match self.table(&dotted, item, key_span) {
                    Some(inner) => {
                        entry.limits = self.limits(&dotted, inner);
                        Ok(())
                    }
                    None => continue,
                },
                _ => {
                    self.unknown_of(path, name, key_span, &ENTRY_KEYS);
                    continue;
                }
            };
            self.took(&dotted, place, outcome);
        }
        self.config.plugins.entries.insert(id.to_owned(), entry);
    }

    fn token(&mut self, path: &str, id: &str, table: &dyn TableLike) {
        let mut token = TokenConfig::default();
        for (name, item) in table.iter() {
            let key_span = table.key(name).and_then(toml_edit::Key::span);
            let given = Given { raw: Raw::Toml(item), base: self.base };
            let outcome = match name {
                "env" => given.variable().map(|value| token.env = value),
                "file" => given.maybe_path().map(|value| token.file = value),
                "agents" => given.list().map(|value| token.agents = value),
                _ => {
                    self.unknown_of(path, name, key_span, &TOKEN_KEYS);
                    continue;
                }
            };
            let place = self.place(item.span().or(key_span));
            self.took(&format!("{path}.{name}"), place, outcome);
        }
        self.config.gateway.tokens.insert(id.to_owned(), token);
    }

    fn limits(&mut self, path: &str, table: &dyn TableLike) -> LimitsConfig {
        let mut limits = LimitsConfig::default();
        for (name, item) in table.iter() {
            let key_span = table.key(name).and_then(toml_edit::Key::span);
            match limits.take(name, Given { raw: Raw::Toml(item), base: self.base }) {
                None => self.unknown_of(path, name, key_span, &LIMIT_KEYS),
                Some(Ok(())) => {
                    let place = self.place(item.span().or(key_span));
                    self.limit_places.insert(format!("{path}.{name}"), place);
                }
                Some(wrong) => {
                    let place = self.place(item.span().or(key_span));
                    self.took(&format!("{path}.{name}"), place, wrong);
                }
            }
        }
        limits
    }

    fn agent(&mut self, path: &str, id: &str, table: &dyn TableLike) {
        let mut agent = AgentConfig::default();
        for (name, item) in table.iter() {
            let dotted = format!("{path}.{name}");
            let key_span = table.key(name).and_then(toml_edit::Key::span);
            match name {
                "workspace_dir" => {
                    let place = self.place(item.span().or(key_span));
                    let given = Given { raw: Raw::Toml(item), base: self.base };
                    let outcome = given.maybe_path().map(|value| agent.workspace_dir = value);
                    self.took(&dotted, place, outcome);
                }
                "slots" => {
                    if let Some(slots) = self.table(&dotted, item, key_span) {
                        self.agent_slots(&dotted, slots, &mut agent);
                    }
                }
                section if AGENT_SECTIONS.contains(&section) => {
                    if let Some(inner) = self.table(&dotted, item, key_span) {
                        self.agent_section(&dotted, id, section, inner);
                    }
                }
                _ => self.unknown_of(path, name, key_span, &AGENT_KEYS),
            }
        }
        self.config.agents.insert(id.to_owned(), agent);
    }

    /// A section of one agent: any key of the gateway's section of that name.
    fn agent_section(&mut self, path: &str, agent: &str, section: &str, table: &dyn TableLike) {
        for (name, item) in table.iter() {
            let (dotted, key) = (format!("{path}.{name}"), format!("{section}.{name}"));
            let key_span = table.key(name).and_then(toml_edit::Key::span);
            if is_section(&key) {
                if let Some(inner) = self.table(&dotted, item, key_span) {
                    self.agent_section(&dotted, agent, &key, inner);
                }
            } else if SETTINGS.iter().any(|setting| setting.key == key) {
                let place = self.place(item.span().or(key_span));
                self.overrides.push(Override { agent: agent.to_owned(), key, item: item.clone(), place });
            } else {
                let known = children(section);
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                self.unknown_of(path, name, key_span, &known);
            }
        }
    }

    /// Gives every agent its sections: what it sets, and the gateway's values, as they are by now, for the rest.
    pub(super) fn agents(&mut self) {
        for given in std::mem::take(&mut self.overrides) {
            let Some(setting) = SETTINGS.iter().find(|setting| setting.key == given.key) else { continue };
            let mut scratch = as_agent(&self.config, &given.agent);
            let outcome = (setting.apply)(&mut scratch, Given { raw: Raw::Toml(&given.item), base: self.base });
            if let Some(agent) = self.config.agents.get_mut(&given.agent) {
                match given.key.split('.').next() {
                    Some("model") => agent.model = Some(scratch.model),
                    Some("compaction") => agent.compaction = Some(scratch.compaction),
                    _ => agent.pruning = Some(scratch.pruning),
                }
            }
            self.took(&format!("{AGENTS}.{}.{}", given.agent, given.key), given.place, outcome);
        }
    }

    fn agent_slots(&mut self, path: &str, table: &dyn TableLike, agent: &mut AgentConfig) {
        for (name, item) in table.iter() {
            let key_span = table.key(name).and_then(toml_edit::Key::span);
            let given = Given { raw: Raw::Toml(item), base: self.base };
            let outcome = match name {
                "contextEngine" => given.chain().map(|value| agent.slots.context_engine = value),
                // "none" is a choice here, too: an agent without the gateway's memory.
                "memory" => given.maybe_text().map(|value| agent.slots.memory = value),
                _ => {
                    self.unknown_of(path, name, key_span, &SLOT_KEYS);
                    continue;
                }
            };
            let place = self.place(item.span().or(key_span));
            self.took(&format!("{path}.{name}"), place, outcome);
        }
    }

    fn unknown(&mut self, path: &str, name: &str, span: Option<Range<usize>>) {
        let known = children(path);
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        self.unknown_of(path, name, span, &known);
    }

    fn unknown_of(&mut self, path: &str, name: &str, span: Option<Range<usize>>, known: &[&str]) {
        let whole = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        let place = self.place(span);
        let elsewhere = || {
            let mut homes = SETTINGS.iter().filter_map(|setting| setting.key.rsplit_once('.'));
            homes.find(|(_, key)| *key == name).map(|(section, _)| format!("{name} belongs to [{section}]"))
        };
        let hint = nearest(name, known.iter().copied())
            .map(|near| format!("did you mean {near}?"))
            .or_else(elsewhere)
            .unwrap_or_else(|| format!("known here: {}", known.join(", ")));
        self.problem(Problem::UNKNOWN_KEY, place, format!("unknown key {whole}"), Some(hint));
    }

    pub(super) fn problem(&mut self, code: &'static str, place: Place, message: String, hint: Option<String>) {
        self.problems.push(Problem { code, place, message, hint });
    }
}

/// The configuration as one agent's sessions see it.
pub(super) fn as_agent(config: &Config, agent: &str) -> Config {
    Config {
        model: config.model_of(agent).clone(),
        compaction: config.compaction_of(agent).clone(),
        pruning: config.pruning_of(agent).clone(),
        ..config.clone()
    }
}

/// Line and column, both from 1, of a byte offset.
pub(super) fn position(text: &str, offset: usize) -> Place {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    let (before, _) = text.split_at(offset);
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    Place::File {
        line: before.matches('\n').count() + 1,
        column: before.get(start..).unwrap_or("").chars().count() + 1,
    }
}

/// An engine's own configuration as JSON. Dates become strings; JSON has no infinite numbers, so those are refused.
fn object(table: &dyn TableLike) -> Result<serde_json::Map<String, serde_json::Value>, Wrong> {
    table.iter().map(|(key, item)| Ok((key.to_owned(), json_of_item(key, item)?))).collect()
}

fn json_of_item(key: &str, item: &Item) -> Result<serde_json::Value, Wrong> {
    match item {
        Item::None => Ok(serde_json::Value::Null),
        Item::Value(value) => json_of(key, value),
        Item::Table(table) => Ok(object(table)?.into()),
        Item::ArrayOfTables(tables) => {
            let items: Result<Vec<serde_json::Value>, Wrong> = tables.iter().map(|t| Ok(object(t)?.into())).collect();
            Ok(items?.into())
        }
    }
}

fn json_of(key: &str, value: &Value) -> Result<serde_json::Value, Wrong> {
    Ok(match value {
        Value::String(text) => text.value().as_str().into(),
        Value::Integer(number) => (*number.value()).into(),
        Value::Float(number) => match serde_json::Number::from_f64(*number.value()) {
            Some(number) => number.into(),
            None => return Err(Wrong::Value(format!("holds a number that is not finite: {key}"))),
        },
        Value::Boolean(value) => (*value.value()).into(),
        Value::Datetime(date) => date.value().to_string().into(),
        Value::Array(items) => {
            let items: Result<Vec<serde_json::Value>, Wrong> = items.iter().map(|item| json_of(key, item)).collect();
            items?.into()
        }
        Value::InlineTable(table) => object(table)?.into(),
    })
}
