//! Snapshots of what the fixture engine wrote down: ids and times made equal, settings shown where they change.

use serde_json::{Map, Value};
use std::collections::HashMap;
use std::path::Path;

/// Compares `lines` with `tests/snapshots/NAME.txt`. With `UPDATE_SNAPSHOTS` set the file is written instead.
pub fn snapshot(name: &str, lines: &[Value]) {
    let shown = render(lines);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots").join(format!("{name}.txt"));
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder of snapshots");
        std::fs::write(&path, &shown).expect("a snapshot");
        return;
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    if kept == shown {
        return;
    }
    let differs = kept.lines().zip(shown.lines()).position(|(kept, shown)| kept != shown);
    let place = differs.unwrap_or_else(|| kept.lines().count().min(shown.lines().count()));
    panic!(
        "{name}: line {} differs (UPDATE_SNAPSHOTS=1 keeps what is there now)\n kept: {}\n  now: {}\n\nall of it now:\n{shown}",
        place + 1,
        kept.lines().nth(place).unwrap_or("nothing"),
        shown.lines().nth(place).unwrap_or("nothing"),
    );
}

/// One call: the hook, then its parameters, a line each, in the order of their names.
pub fn render(lines: &[Value]) -> String {
    let mut names = Names::default();
    let mut last: HashMap<String, Value> = HashMap::new();
    let mut out = String::new();
    for line in lines {
        let Value::Object(line) = names.equal(line, "") else { panic!("not a call: {line}") };
        let text = |name: &str| line.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(deed) = line.get("did") {
            out.push_str(&format!("{} {} did {deed}: {}\n", text("engine"), text("hook"), line["result"]));
            continue;
        }
        out.push_str(&format!("{} {}\n", text("engine"), text("hook")));
        let session = line.get("session").and_then(Value::as_object).cloned().unwrap_or_default();
        parameters(&mut out, "session ", &session, &mut last);
        let rest =
            line.into_iter().filter(|(name, _)| !["engine", "hook", "session"].contains(&name.as_str())).collect();
        parameters(&mut out, "", &rest, &mut HashMap::new());
    }
    out
}

/// Settings and cache facts are long and mostly the same: shown when they differ from what the call before had.
fn parameters(out: &mut String, prefix: &str, of: &Map<String, Value>, last: &mut HashMap<String, Value>) {
    for (name, value) in of {
        if ["settings", "promptCache"].contains(&name.as_str()) {
            if last.get(name) == Some(value) {
                out.push_str(&format!("    {prefix}{name}: as before\n"));
                continue;
            }
            last.insert(name.clone(), value.clone());
        }
        match value {
            Value::Array(items) if !items.is_empty() => {
                out.push_str(&format!("    {prefix}{name}:\n"));
                for item in items {
                    out.push_str(&format!("        {item}\n"));
                }
            }
            _ => out.push_str(&format!("    {prefix}{name}: {value}\n")),
        }
    }
}

/// Ids in the order in which they appear.
#[derive(Default)]
struct Names(HashMap<String, String>);

impl Names {
    fn equal(&mut self, value: &Value, name: &str) -> Value {
        match value {
            Value::Object(members) => members
                .iter()
                .map(|(name, value)| (name.clone(), self.equal(value, name)))
                .collect::<Map<_, _>>()
                .into(),
            Value::Array(items) => items.iter().map(|item| self.equal(item, name)).collect(),
            Value::Number(_) if name.ends_with("Ms") && name != "ttlMs" => "TIME".into(),
            Value::String(text) => self.named(text).into(),
            other => other.clone(),
        }
    }

    /// A text in which every UUID stands as the number of its first appearance.
    fn named(&mut self, text: &str) -> String {
        const LENGTH: usize = 36;
        let mut out = String::new();
        let mut rest = text;
        'text: while rest.len() >= LENGTH {
            for (place, _) in rest.char_indices() {
                if let Some(id) = rest.get(place..place + LENGTH).filter(|id| is_uuid(id)) {
                    let next = format!("ID-{}", self.0.len() + 1);
                    out.push_str(&rest[..place]);
                    out.push_str(self.0.entry(id.to_owned()).or_insert(next));
                    rest = &rest[place + LENGTH..];
                    continue 'text;
                }
            }
            break;
        }
        out + rest
    }
}

fn is_uuid(text: &str) -> bool {
    text.bytes().enumerate().all(|(place, byte)| match place {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ids_are_numbered_in_order_and_times_are_all_the_same() {
        let (a, b) = ("01a22be6-45df-741e-9463-6561c897429c", "01a22be6-45df-741e-9463-65624b59baa1");
        let lines = [
            json!({"engine": "e", "hook": "h", "session": {"id": a}, "key": format!("{b}-next"), "atMs": 7}),
            json!({"engine": "e", "hook": "h", "session": {"id": b}, "key": a}),
        ];
        let shown = render(&lines);
        assert_eq!(
            shown,
            "e h\n    session id: \"ID-1\"\n    key: \"ID-2-next\"\n    atMs: \"TIME\"\n\
             e h\n    session id: \"ID-2\"\n    key: \"ID-1\"\n"
        );
    }
}
