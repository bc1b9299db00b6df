//! `plugins inspect`: all that is known of one file, without running a line of it.

use super::context::Context;
use super::error::{CliError, Verdict};
use super::live;
use super::out::{Cell, Out, Tone, short};
use super::plugins::{blocking, document, find, placement, reports, strings};
use crate::plugins::discover;
use serde_json::Value;
use std::path::Path;

pub(super) async fn run(context: &Context, what: &str) -> Result<Verdict, CliError> {
    let path = Path::new(what);
    let plugin = if path.is_file() || what.contains(std::path::MAIN_SEPARATOR) {
        inspect_file(context, path).await?
    } else {
        let (plugins, _) = reports(context).await?;
        find(&plugins, what)?
    };
    let failed = plugin.get("failure").is_some_and(Value::is_object);
    let ids: Vec<String> = strings(&plugin, "/manifest/engines").map(str::to_owned).collect();
    let live = live::engines(context, &ids).await?;
    let keys = plugin.pointer("/manifest/config_schema").map(keys).unwrap_or_default();
    if context.out.is_json() {
        let mut plugin = plugin;
        if let Some(fields) = plugin.as_object_mut() {
            fields.insert("configuration".into(), serde_json::to_value(&keys).unwrap_or_default());
            if !live.is_empty() {
                fields.insert("live".into(), live.into());
            }
        }
        context.out.document(&plugin);
    } else {
        show(&context.out, &plugin);
        show_keys(context, &plugin, &keys);
        live.iter().for_each(|engine| live::show(&context.out, engine));
    }
    Ok(if failed { Verdict::Degraded } else { Verdict::Well })
}

/// Inspects one file, wherever it lies: as if it were linked, in an otherwise empty house.
async fn inspect_file(context: &Context, path: &Path) -> Result<Value, CliError> {
    let read = |source| CliError::Read { path: path.display().to_string(), source };
    let path = path.canonicalize().map_err(read)?;
    let empty = tempfile::tempdir().map_err(read)?;
    let mut config = context.config().plugins.clone();
    config.dir = empty.path().to_path_buf();
    config.links = vec![path];
    let found = blocking(move || discover(&config)).await?;
    match found.as_slice() {
        [one, ..] => Ok(document(one)),
        [] => Err(CliError::Usage("this is no file that could be a plugin".into())),
    }
}

fn show(out: &Out, plugin: &Value) {
    let text = |pointer: &str| plugin.pointer(pointer).and_then(Value::as_str).map(|text| short(text, 400));
    let line = |label: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            out.line(&format!("{label:<12} {value}"));
        }
    };
    line("file", text("/file"));
    line("sha256", text("/sha256"));
    line("plugin", text("/plugin_id"));
    line("name", text("/manifest/name"));
    line("version", text("/manifest/version"));
    line("description", text("/manifest/description"));
    let list = |pointer: &str| Some(short(&strings(plugin, pointer).collect::<Vec<_>>().join(", "), 400));
    line("engines", list("/manifest/engines"));
    line("memory", list("/manifest/memory"));
    line("contract", text("/manifest/contract"));
    line("door", text("/manifest/door"));
    line("panic", text("/manifest/panic"));
    line("built with", text("/manifest/sdk"));
    line("state", text("/state"));
    line("because", text("/reason"));
    line("isolation", Some(placement(plugin, "")));
    line("staged", text("/staged"));
    line("pinned", pinned(plugin));
    line("signature", signature(plugin));
    for note in strings(plugin, "/notes") {
        line("note", Some(short(note, 400)));
    }
    if plugin.get("failure").is_some_and(Value::is_object) {
        let head = format!(
            "[{}] {}: {}",
            text("/failure/code").unwrap_or_default(),
            text("/failure/stage").unwrap_or_default(),
            text("/failure/message").unwrap_or_default()
        );
        out.line(&out.paint(Tone::Bad, &head));
        for cause in strings(plugin, "/failure/causes") {
            out.line(&format!("  cause: {}", short(cause, 400)));
        }
        out.line(&format!("  hint: {}", text("/failure/hint").unwrap_or_default()));
    }
}

/// When it was installed, and from where.
fn pinned(plugin: &Value) -> Option<String> {
    let text = |field: &str| plugin.pointer(&format!("/vouched/pin/{field}")).and_then(Value::as_str);
    let by_entry = plugin.pointer("/vouched/by_entry").and_then(Value::as_bool) == Some(true);
    let noted = text("installed").map(|when| match text("source") {
        Some(source) => format!("{when}, from {}", short(source, 300)),
        None => format!("{when}, where it lay"),
    });
    match (noted, by_entry) {
        (noted, false) => noted,
        (None, true) => Some("by its entry".into()),
        (Some(noted), true) => Some(format!("{noted}; and by its entry")),
    }
}

fn signature(plugin: &Value) -> Option<String> {
    let text = |field: &str| plugin.pointer(&format!("/vouched/signature/{field}")).and_then(Value::as_str);
    Some(match text("state")? {
        "good" => {
            format!(
                "good, by {} ({})",
                text("key").unwrap_or_default(),
                short(text("comment").unwrap_or_default(), 200)
            )
        }
        "other-key" => "by a key that plugins.trust.keys does not list".into(),
        _ => "not checked: plugins.trust.keys lists no key".into(),
    })
}

/// A key that the plugin's configuration may have.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
struct Key {
    /// Dotted.
    key: String,
    /// Types or values, as JSON Schema names them.
    #[serde(rename = "type")]
    kind: String,
    required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
}

/// Deepest tables of which the keys are told one by one.
const DEEPEST: usize = 4;

fn keys(schema: &Value) -> Vec<Key> {
    let mut found = Vec::new();
    collect(schema, "", 0, &mut found);
    found
}

fn collect(schema: &Value, prefix: &str, depth: usize, found: &mut Vec<Key>) {
    let required: Vec<&str> = strings(schema, "/required").collect();
    for (name, of) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        if of.get("properties").is_some() && depth < DEEPEST {
            collect(of, &key, depth + 1, found);
            continue;
        }
        found.push(Key {
            key,
            kind: kind(of),
            required: required.contains(&name.as_str()),
            default: of.get("default").cloned(),
            description: of.get("description").and_then(Value::as_str).map(|text| short(text, 300)),
        });
    }
}

/// The type of a value in a few words.
fn kind(of: &Value) -> String {
    let list =
        |items: &[Value], word: &dyn Fn(&Value) -> String| items.iter().map(word).collect::<Vec<_>>().join(" | ");
    if let Some(values) = of.get("enum").and_then(Value::as_array) {
        return short(&list(values, &Value::to_string), 120);
    }
    if let Some(value) = of.get("const") {
        return short(&value.to_string(), 120);
    }
    for choice in ["anyOf", "oneOf"] {
        if let Some(choices) = of.get(choice).and_then(Value::as_array) {
            return short(&list(choices, &kind), 160);
        }
    }
    let name = match of.get("type") {
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => list(names, &|name| name.as_str().unwrap_or_default().to_owned()),
        _ => return "any".into(),
    };
    let name = match of.get("items") {
        Some(items) if name == "array" => format!("array of {}", kind(items)),
        _ => name,
    };
    let bound = |field: &str| of.get(field).filter(|value| value.is_number()).map(Value::to_string);
    let (least, most) = (
        bound("minimum").or_else(|| bound("exclusiveMinimum")),
        bound("maximum").or_else(|| bound("exclusiveMaximum")),
    );
    match (least, most) {
        (Some(least), Some(most)) => format!("{name} {least} to {most}"),
        (Some(least), None) => format!("{name} from {least}"),
        (None, Some(most)) => format!("{name} to {most}"),
        (None, None) => name,
    }
}

/// What can be written under the plugin's entry.
fn show_keys(context: &Context, plugin: &Value, keys: &[Key]) {
    let Some(id) = plugin.get("plugin_id").and_then(Value::as_str) else { return };
    if keys.is_empty() {
        return;
    }
    let out = context.out;
    let set = context.config().plugins.entries.get(id);
    out.line(&format!("configuration, in [plugins.entries.{id}.config]"));
    let row = |key: &Key| -> Vec<Cell> {
        let default = key.default.as_ref().map_or(String::new(), Value::to_string);
        let default = if key.required { "required".to_owned() } else { default };
        let first = key.key.split('.').next().unwrap_or_default();
        // A value may be a secret: that it is set is enough.
        let is_set = set.is_some_and(|entry| entry.config.contains_key(first));
        vec![
            key.key.as_str().into(),
            key.kind.as_str().into(),
            short(&default, 60).into(),
            if is_set { "yes" } else { "" }.into(),
            key.description.clone().unwrap_or_default().into(),
        ]
    };
    out.table(&["key", "type", "default", "set", "what"], &keys.iter().map(row).collect::<Vec<_>>());
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_keys_of_a_schema_are_told_with_type_default_and_words() {
        let schema = json!({"type": "object", "required": ["url"], "properties": {
            "url": {"type": "string", "description": "Where  it\n is."},
            "share": {"anyOf": [{"const": "auto"}, {"type": "number", "minimum": 0, "maximum": 0.75}], "default": "auto"},
            "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
            "deep": {"type": "object", "properties": {"n": {"type": ["integer", "null"], "minimum": 1}}},
            "free": {}
        }});
        let told: Vec<String> = keys(&schema)
            .into_iter()
            .map(|key| {
                let default = key.default.map(|value| value.to_string()).unwrap_or_default();
                format!("{} {} {} [{default}] {}", key.key, key.kind, key.required, key.description.unwrap_or_default())
            })
            .collect();
        assert_eq!(
            told,
            [
                "url string true [] Where it is.",
                "share \"auto\" | number 0 to 0.75 false [\"auto\"] ",
                "tags array of \"a\" | \"b\" false [] ",
                "deep.n integer | null from 1 false [] ",
                "free any false [] ",
            ]
        );
    }

    #[test]
    fn what_vouches_for_a_file_is_told() {
        let pin = json!({"installed": "2026-01-02T03:04:05Z", "source": "npm:w"});
        let plugin = json!({"vouched": {"pin": pin, "by_entry": false, "signature": {"state": "good", "key": "RWx", "comment": "v1"}}});
        assert_eq!(pinned(&plugin).unwrap(), "2026-01-02T03:04:05Z, from npm:w");
        assert_eq!(signature(&plugin).unwrap(), "good, by RWx (v1)");
        assert_eq!(pinned(&json!({"vouched": {"pin": null, "by_entry": true}})).unwrap(), "by its entry");
        assert_eq!((pinned(&json!({})), signature(&json!({}))), (None, None));
    }
}
