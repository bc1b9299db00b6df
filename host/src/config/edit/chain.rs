//! The value of a slot: an engine id, or a chain of them, with the comments that stand in it.

use toml_edit::{Array, Value};

/// Ids as they are written when nothing is there yet.
pub(super) fn fresh(chain: &[String]) -> String {
    chain_value(chain).to_string()
}

/// Ids in the place of `old`, a value as it is written: comments in there stay. `None` when it says so already.
pub(super) fn instead_of(old: &str, chain: &[String]) -> Option<String> {
    let new = chain_value(chain);
    match old.trim().parse::<Value>() {
        Ok(old) if same(&old, &new) => None,
        Ok(Value::Array(ids)) if array_has_comments(&ids) => Some(Value::Array(rechained(&ids, new)).to_string()),
        _ => Some(new.to_string()),
    }
}

/// The ids in a value as it is written.
pub(super) fn ids(written: &str) -> Vec<String> {
    match written.trim().parse::<Value>() {
        Ok(Value::String(id)) => vec![id.into_value()],
        Ok(Value::Array(ids)) => ids.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

fn chain_value(chain: &[String]) -> Value {
    match chain {
        [one] => Value::from(one.as_str()),
        many => Value::Array(many.iter().map(String::as_str).collect()),
    }
}

fn same(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::String(old), Value::String(new)) => old.value() == new.value(),
        (Value::Array(old), Value::Array(new)) => old.iter().map(Value::as_str).eq(new.iter().map(Value::as_str)),
        _ => false,
    }
}

fn array_has_comments(ids: &Array) -> bool {
    let noted = |text: Option<&str>| text.is_some_and(|text| text.contains('#'));
    noted(ids.trailing().as_str()) || ids.iter().any(|id| before(id).contains('#') || behind(id).contains('#'))
}

/// What stands before a value of an array, up to the comma or bracket.
fn before(value: &Value) -> &str {
    value.decor().prefix().and_then(toml_edit::RawString::as_str).unwrap_or_default()
}

/// What stands between a value of an array and its comma.
fn behind(value: &Value) -> &str {
    value.decor().suffix().and_then(toml_edit::RawString::as_str).unwrap_or_default()
}

/// The ids of `new` in the form of `old`, with all of its comments: those around an id that is gone go to the next one.
fn rechained(old: &Array, new: Value) -> Array {
    let new: Vec<String> = match new {
        Value::String(id) => vec![id.into_value()],
        Value::Array(ids) => ids.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let indent = old.iter().map(before).find_map(|text| text.rfind('\n').map(|at| text[at..].to_owned()));
    let mut left: &[&Value] = &old.iter().collect::<Vec<_>>();
    let mut around: Vec<(String, String)> = Vec::new();
    let mut loose = String::new();
    for id in &new {
        let (front, back) = match left.iter().position(|value| value.as_str() == Some(id)) {
            Some(at) => {
                loose.extend(left[..at].iter().flat_map(|value| comments_of(value)));
                let own = (before(left[at]).to_owned(), behind(left[at]).to_owned());
                left = &left[at + 1..];
                own
            }
            None => match &indent {
                Some(indent) => (indent.clone(), String::new()),
                None => (if around.is_empty() { "" } else { " " }.to_owned(), String::new()),
            },
        };
        let mut front = std::mem::take(&mut loose) + &front;
        // What stood behind the last one on lines of its own stands before the one that follows it now: a comma must not.
        if let Some((_, back)) = around.last_mut().filter(|(_, back)| back.contains('\n')) {
            front = format!("{}{front}", std::mem::take(back).trim_end());
        }
        around.push((front, back));
    }
    loose.extend(left.iter().flat_map(|value| comments_of(value)));
    let mut trailing = loose + old.trailing().as_str().unwrap_or_default();
    let ends_line = |text: &str| text.rfind('\n').map(|at| text[at..].to_owned());
    let own_line = ends_line(old.iter().last().map_or("", behind).trim_start_matches([' ', '\t']));
    let last_ends = around.last().is_some_and(|(_, back)| back.contains('\n'));
    if let Some(line) = own_line.filter(|_| !last_ends && !trailing.contains('\n')) {
        trailing.push_str(&line);
    }
    let mut chain = Array::new();
    for (id, (front, back)) in new.iter().zip(around) {
        chain.push_formatted(Value::from(id.as_str()).decorated(front, back));
    }
    chain.set_trailing(trailing);
    chain.set_trailing_comma(old.trailing_comma());
    chain
}

/// The text around a value of an array, where it holds comments.
fn comments_of(value: &Value) -> impl Iterator<Item = &str> {
    [before(value), behind(value)].into_iter().filter(|text| text.contains('#'))
}
