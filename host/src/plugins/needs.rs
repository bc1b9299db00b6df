//! What a setting of an engine needs from the operator or the model, as the engine's own schema says it.
//!
//! ```json
//! "other_sessions": { "type": "boolean", "x-needs": { "true": "grant:sessions" } }
//! ```
//!
//! `x-needs` of a property goes by the value that is set: a text as it is, anything else as JSON. What it names is data to the
//! host, and kinds and names that it does not know say nothing.

use serde_json::{Map, Value};

/// What is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need<'a> {
    /// One of `plugins.entries.ID.grants`.
    Grant(&'a str),
    /// A service of the host that not every configuration has.
    Service(&'a str),
}

/// A setting that needs something.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Needs<'a> {
    /// Its key, dotted where it stands in a table.
    pub key: String,
    /// Its value, as the file spells it.
    pub value: String,
    /// What it needs.
    pub need: Need<'a>,
}

/// What the settings in `config` need.
pub(super) fn needs<'a>(schema: &'a Value, config: &Map<String, Value>) -> Vec<Needs<'a>> {
    let mut found = Vec::new();
    look(schema, config, "", &mut found);
    found
}

fn look<'a>(schema: &'a Value, config: &Map<String, Value>, under: &str, found: &mut Vec<Needs<'a>>) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    for (name, value) in config {
        let Some(property) = properties.get(name) else { continue };
        let key = if under.is_empty() { name.clone() } else { format!("{under}.{name}") };
        if let Value::Object(table) = value {
            look(property, table, &key, found);
            continue;
        }
        let said = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let needed = match property.get("x-needs").and_then(|needs| needs.get(&said)) {
            Some(Value::Array(several)) => several.as_slice(),
            Some(one) => std::slice::from_ref(one),
            None => continue,
        };
        found.extend(needed.iter().filter_map(|needed| {
            let need = match needed.as_str()?.split_once(':')? {
                ("grant", name) => Need::Grant(name),
                ("service", name) => Need::Service(name),
                _ => return None,
            };
            Some(Needs { key: key.clone(), value: value.to_string(), need })
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_setting_needs_what_its_schema_says_of_its_value() {
        let schema = json!({"properties": {
            "other": {"type": "boolean", "x-needs": {"true": "grant:sessions"}},
            "by": {"enum": ["rules", "model"], "x-needs": {"model": ["service:llm.complete", "grant:llm-model-override"]}},
            "deep": {"type": "object", "properties": {"level": {"type": "integer", "x-needs": {"2": "grant:a"}}}},
            "odd": {"x-needs": {"1": "wish:x", "2": 5, "3": "nothing"}},
        }});
        let told = |config: Value| {
            let config = config.as_object().unwrap().clone();
            let all = needs(&schema, &config);
            all.into_iter().map(|it| format!("{} = {}: {:?}", it.key, it.value, it.need)).collect::<Vec<_>>()
        };
        assert_eq!(told(json!({"other": true})), ["other = true: Grant(\"sessions\")"]);
        assert_eq!(told(json!({"other": false, "by": "rules", "deep": {"level": 1}})), Vec::<String>::new());
        assert_eq!(
            told(json!({"by": "model", "deep": {"level": 2}})),
            [
                "by = \"model\": Service(\"llm.complete\")",
                "by = \"model\": Grant(\"llm-model-override\")",
                "deep.level = 2: Grant(\"a\")"
            ]
        );
        assert_eq!(told(json!({"odd": 1})).len() + told(json!({"odd": 2})).len() + told(json!({"odd": 3})).len(), 0);
        assert!(needs(&json!(true), &Map::new()).is_empty());
    }
}
