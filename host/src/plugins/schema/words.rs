//! What is wrong with a configuration, in a sentence: the key as the file spells it, its value, and what the schema accepts.
//!
//! A value may be a secret that stands in the wrong place. So a text is told only where no text could stand, and nothing below
//! a name that tells of a secret.

use crate::config::telling;
use crate::plugins::select::nearest;
use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;

/// Longest text of a configuration that is repeated, in characters.
const LONGEST: usize = 40;

/// One violation of `schema` by the configuration of plugin `id`.
pub(super) fn told(id: &str, schema: &Value, error: &ValidationError<'_>) -> String {
    let pointer = error.instance_path().as_str();
    let path = config_path(id, pointer);
    // The schema that the value was held against stands around the keyword that refused it.
    let around = error.schema_path().as_str().rsplit_once('/').and_then(|(around, _)| schema.pointer(around));
    match (error.kind(), around) {
        (
            ValidationErrorKind::AdditionalProperties { unexpected }
            | ValidationErrorKind::UnevaluatedProperties { unexpected },
            _,
        ) => unknown_keys(&path, unexpected, around),
        (ValidationErrorKind::Required { property: Value::String(name) }, Some(around)) => {
            let takes = around.pointer(&format!("/properties/{}", escaped(name))).and_then(accepts);
            format!("{path} needs the key \"{name}\"{}", takes.map(|takes| format!(": {takes}")).unwrap_or_default())
        }
        _ => match around.and_then(|around| Some((around, accepts(around)?))) {
            Some((around, takes)) => match shown(pointer, error.instance(), around) {
                Some(value) => format!("{path} is {value}; it takes {takes}"),
                None => format!("{path} has a value that does not fit; it takes {takes}"),
            },
            None => format!("{path}: {}", error.masked_with("the value")),
        },
    }
}

fn unknown_keys(path: &str, unexpected: &[String], around: Option<&Value>) -> String {
    let known: Vec<&str> = around
        .and_then(|schema| schema.get("properties")?.as_object())
        .map(|properties| properties.keys().map(String::as_str).collect())
        .unwrap_or_default();
    let quoted: Vec<String> = unexpected.iter().map(|key| format!("\"{key}\"")).collect();
    let what = match unexpected.len() {
        1 => format!("{path} has no key {}", quoted.join("")),
        _ => format!("{path} has no keys {}", quoted.join(", ")),
    };
    match unexpected.iter().find_map(|key| nearest(key, &known)) {
        Some(near) => format!("{what}; did you mean \"{near}\"?"),
        None if known.is_empty() => format!("{what}; it takes none"),
        None => format!("{what}; it takes {}", known.join(", ")),
    }
}

/// A name as a part of a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// `/limits/0` under plugin `window` is `plugins.entries.window.config.limits.0`: as the file spells it.
fn config_path(id: &str, pointer: &str) -> String {
    parts(pointer).fold(format!("plugins.entries.{id}.config"), |mut path, part| {
        path.push('.');
        path.push_str(&part);
        path
    })
}

fn parts(pointer: &str) -> impl Iterator<Item = String> {
    pointer.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~"))
}

/// The value, where it may be told.
fn shown(pointer: &str, value: &Value, schema: &Value) -> Option<String> {
    if parts(pointer).any(|part| telling(&part)) {
        return None;
    }
    match value {
        Value::String(text) if takes_text(schema) || text.chars().count() > LONGEST => None,
        Value::Array(_) => Some("a list".into()),
        Value::Object(_) => Some("a table".into()),
        other => Some(other.to_string()),
    }
}

/// True when any text may stand there, or nobody knows.
fn takes_text(schema: &Value) -> bool {
    let Some(schema) = schema.as_object() else { return true };
    if schema.contains_key("const") || schema.contains_key("enum") {
        return false;
    }
    if let Some(any) = any_of(schema) {
        return any.iter().any(takes_text);
    }
    if the_word(schema).is_some() {
        return false;
    }
    match schema.get("type") {
        Some(Value::String(kind)) => kind == "string",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "string"),
        _ => true,
    }
}

/// The one word that a pattern matches, where it does.
fn the_word(schema: &serde_json::Map<String, Value>) -> Option<&str> {
    let word = schema.get("pattern")?.as_str()?.strip_prefix('^')?.strip_suffix('$')?;
    word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_ ".contains(&byte)).then_some(word)
}

fn any_of(schema: &serde_json::Map<String, Value>) -> Option<&Vec<Value>> {
    ["anyOf", "oneOf"].iter().find_map(|name| schema.get(*name)?.as_array())
}

/// What a schema accepts, in words; `None` where they would not say it all.
fn accepts(schema: &Value) -> Option<String> {
    let schema = schema.as_object()?;
    if let Some(only) = schema.get("const") {
        return Some(only.to_string());
    }
    if let Some(options) = schema.get("enum").and_then(Value::as_array) {
        return Some(either(options.iter().map(Value::to_string).collect()));
    }
    if let Some(any) = any_of(schema) {
        return any.iter().map(accepts).collect::<Option<Vec<_>>>().map(either);
    }
    match schema.get("type")? {
        Value::String(kind) => of_type(kind, schema),
        Value::Array(kinds) => {
            let kinds = kinds.iter().map(|kind| of_type(kind.as_str()?, schema));
            kinds.collect::<Option<Vec<_>>>().map(either)
        }
        _ => None,
    }
}

/// `a`, `a or b`, `a, b or c`.
fn either(mut options: Vec<String>) -> String {
    options.dedup();
    match options.pop() {
        Some(last) if !options.is_empty() => format!("{} or {last}", options.join(", ")),
        last => last.unwrap_or_default(),
    }
}

fn of_type(kind: &str, schema: &serde_json::Map<String, Value>) -> Option<String> {
    let bound = |name: &str| schema.get(name).map(Value::to_string);
    let word = the_word(schema);
    Some(match kind {
        "boolean" => "true or false".into(),
        "number" | "integer" => {
            let noun = if kind == "integer" { "a whole number" } else { "a number" };
            let bounds = match (bound("minimum"), bound("maximum")) {
                (Some(least), Some(most)) => format!(" from {least} to {most}"),
                (Some(least), None) => format!(" of at least {least}"),
                (None, Some(most)) => format!(" of at most {most}"),
                (None, None) => String::new(),
            };
            let above = bound("exclusiveMinimum").map(|least| format!(" above {least}"));
            let below = bound("exclusiveMaximum").map(|most| format!(" below {most}"));
            let step = bound("multipleOf").map(|step| format!(" in steps of {step}"));
            [Some(format!("{noun}{bounds}")), above, below, step].into_iter().flatten().collect()
        }
        "string" if word.is_some() => format!("\"{}\"", word.unwrap_or_default()),
        "string" => {
            let length = match (bound("minLength"), bound("maxLength")) {
                (Some(least), Some(most)) => format!(" of {least} to {most} characters"),
                (Some(least), None) => format!(" of at least {least} characters"),
                (None, Some(most)) => format!(" of at most {most} characters"),
                (None, None) => String::new(),
            };
            let pattern = schema.get("pattern").and_then(Value::as_str).map(|it| format!(" that matches {it}"));
            let format = schema.get("format").and_then(Value::as_str).map(|it| format!(" in the format {it}"));
            [Some(format!("a text{length}")), pattern, format].into_iter().flatten().collect()
        }
        "array" => {
            let length = match (bound("minItems"), bound("maxItems")) {
                (Some(least), Some(most)) => format!(" of {least} to {most}"),
                (Some(least), None) => format!(" of at least {least}"),
                (None, Some(most)) => format!(" of at most {most}"),
                (None, None) => String::new(),
            };
            let each = schema.get("items").and_then(accepts).map(|each| format!(", each {each}"));
            format!("a list{length}{}", each.unwrap_or_default())
        }
        "object" => "a table".into(),
        "null" => "null".into(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn all(schema: &Value, config: &Value) -> Vec<String> {
        let validator = jsonschema::validator_for(schema).unwrap();
        validator.iter_errors(config).map(|error| told("e", schema, &error)).collect()
    }

    fn of(property: &Value, value: &Value) -> String {
        let schema = json!({"type": "object", "properties": {"it": property}});
        let mut all = all(&schema, &json!({"it": value}));
        all.dedup();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    #[test]
    fn a_value_is_told_with_all_that_could_stand_in_its_place() {
        let share = json!({"anyOf": [{"type": "number", "minimum": 0, "maximum": 0.75}, {"const": "auto"}]});
        let takes = "it takes a number from 0 to 0.75 or \"auto\"";
        assert_eq!(of(&share, &json!(0.9)), format!("plugins.entries.e.config.it is 0.9; {takes}"));
        assert_eq!(of(&share, &json!("lots")), format!("plugins.entries.e.config.it is \"lots\"; {takes}"));
        let share = json!({"type": ["number", "string"], "minimum": 0, "maximum": 0.75, "pattern": "^auto$"});
        assert_eq!(of(&share, &json!(0.9)), format!("plugins.entries.e.config.it is 0.9; {takes}"));
        assert_eq!(of(&share, &json!("lots")), format!("plugins.entries.e.config.it is \"lots\"; {takes}"));
        for (schema, value, takes) in [
            (json!({"type": "number", "exclusiveMinimum": 0}), json!(0), "a number above 0"),
            (json!({"type": "integer", "minimum": 1}), json!(0.5), "a whole number of at least 1"),
            (json!({"type": "boolean"}), json!("yes"), "true or false"),
            (json!({"enum": ["a", "b", "c"]}), json!(true), "\"a\", \"b\" or \"c\""),
            (json!({"type": ["string", "null"]}), json!(1), "a text or null"),
            (
                json!({"type": "array", "minItems": 1, "items": {"type": "boolean"}}),
                json!([]),
                "a list of at least 1, each true or false",
            ),
            (json!({"type": "object"}), json!([1]), "a table"),
        ] {
            let told = of(&schema, &value);
            assert!(told.ends_with(&format!("; it takes {takes}")), "{told}");
            assert!(!told.contains("anyOf") && told.matches("config.it").count() == 1, "{told}");
        }
    }

    #[test]
    fn what_may_be_a_secret_is_never_told() {
        let told = of(&json!({"type": "string", "maxLength": 3}), &json!("hunter2"));
        assert_eq!(
            told,
            "plugins.entries.e.config.it has a value that does not fit; it takes a text of at most 3 characters"
        );
        let schema = json!({"type": "object", "properties": {"api_key": {"type": "object", "properties": {"x": {"type": "integer"}}}}});
        let told = all(&schema, &json!({"api_key": {"x": "hunter2"}})).remove(0);
        assert!(!told.contains("hunter2") && told.contains("api_key.x"), "{told}");
        assert!(!of(&json!({"type": "integer"}), &json!("x".repeat(41))).contains("xx"));
        assert!(!of(&json!({"not": {"type": "string"}}), &json!("hunter2")).contains("hunter2"));
    }

    #[test]
    fn an_unknown_key_is_told_with_the_nearest_one_and_a_missing_one_with_its_kind() {
        let schema = json!({"type": "object", "additionalProperties": false, "required": ["path"],
            "properties": {"retrieved_share": {"type": "number"}, "path": {"type": "string"}}});
        let told = all(&schema, &json!({"retrived_share": 1}));
        assert!(
            told.contains(
                &"plugins.entries.e.config has no key \"retrived_share\"; did you mean \"retrieved_share\"?".to_owned()
            ),
            "{told:?}"
        );
        assert!(told.contains(&"plugins.entries.e.config needs the key \"path\": a text".to_owned()), "{told:?}");
        let told = all(&schema, &json!({"path": "p", "zzz": 1, "qqq": 2}));
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].contains("has no keys \"") && told[0].ends_with("; it takes path, retrieved_share")
                || told[0].ends_with("; it takes retrieved_share, path"),
            "{told:?}"
        );
    }
}
