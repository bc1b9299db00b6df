//! Arguments as models write them: numbers as texts, one number where a list is meant, other names for the same thing.

use serde_json::{Map, Value};
use std::ops::RangeInclusive;

/// What a model is told when it asked in a way that cannot be answered.
pub(crate) type Wrong = String;

/// Numbers in one call.
const RANGES_MAX: usize = 64;

/// The arguments of a call.
pub(crate) struct Args(Map<String, Value>);

impl Args {
    /// Reads the JSON text of a call.
    pub(crate) fn read(json: &str) -> Result<Args, Wrong> {
        match serde_json::from_str(if json.trim().is_empty() { "{}" } else { json }) {
            Ok(Value::Object(fields)) => Ok(Args(fields)),
            Ok(_) => Err("give the arguments as one JSON object".to_owned()),
            Err(error) => Err(format!("the arguments are not JSON: {error}")),
        }
    }

    /// Says which argument is none of `known`, and what is meant by it, as far as `meant` tells.
    pub(crate) fn only(&self, known: &[&str], meant: &[(&str, &str)]) -> Result<(), Wrong> {
        let Some((name, _)) = self.0.iter().find(|(name, value)| !known.contains(&name.as_str()) && !value.is_null())
        else {
            return Ok(());
        };
        let hint = meant.iter().find(|(other, _)| *other == name.to_lowercase()).map(|(_, meant)| *meant);
        let name = super::quote::name(name);
        Err(match hint {
            Some(meant) => format!("there is no argument `{name}`; use {meant}"),
            None => format!("there is no argument `{name}`; use `{}`", known[0]),
        })
    }

    /// The first of these that is there.
    fn any(&self, names: &[&str]) -> Option<&Value> {
        names.iter().filter_map(|name| self.0.get(*name)).find(|value| !value.is_null())
    }

    /// A text that is not empty; numbers and booleans are written out.
    pub(crate) fn text(&self, names: &[&str]) -> Option<String> {
        let text = match self.any(names)? {
            Value::String(text) => text.trim().to_owned(),
            Value::Array(parts) => parts.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
            Value::Object(_) => return None,
            other => other.to_string(),
        };
        (!text.is_empty()).then_some(text)
    }

    /// A whole number.
    pub(crate) fn number(&self, names: &[&str]) -> Result<Option<u64>, Wrong> {
        let Some(value) = self.any(names) else { return Ok(None) };
        let number = match value {
            Value::Number(number) => whole(number),
            Value::String(text) if text.trim().is_empty() => return Ok(None),
            Value::String(text) => text.trim().trim_start_matches('#').parse().ok(),
            Value::Array(list) if list.is_empty() => return Ok(None),
            Value::Array(list) if list.len() == 1 => list[0].as_u64(),
            _ => None,
        };
        number.map(Some).ok_or_else(|| format!("`{}` must be a whole number", names[0]))
    }

    /// Numbers and ranges: 12, "12", "#12", "12-15", "3, 12-15", or a list of these. None when nothing is given.
    pub(crate) fn numbers(&self, names: &[&str]) -> Result<Vec<RangeInclusive<u64>>, Wrong> {
        let mut ranges = Vec::new();
        if let Some(value) = self.any(names) {
            collect(value, &mut ranges).map_err(|part| {
                format!("`{}` must be numbers of messages, such as [12] or \"12-15\"; \"{part}\" is none", names[0])
            })?;
        }
        if ranges.len() > RANGES_MAX {
            return Err(format!("that are too many at once: give at most {RANGES_MAX} numbers or ranges"));
        }
        Ok(ranges)
    }
}

fn whole(number: &serde_json::Number) -> Option<u64> {
    number.as_u64().or_else(|| {
        let float = number.as_f64()?;
        // Exactly representable, and far beyond any number of messages.
        (float.fract() == 0.0 && (0.0..=9e15).contains(&float)).then_some(float as u64)
    })
}

fn collect(value: &Value, ranges: &mut Vec<RangeInclusive<u64>>) -> Result<(), String> {
    match value {
        Value::Number(number) => {
            let number = whole(number).ok_or_else(|| number.to_string())?;
            ranges.push(number..=number);
        }
        Value::String(text) => {
            let text = text.trim().trim_start_matches('[').trim_end_matches(']');
            for part in text.split([',', ';', ' ']).map(str::trim).filter(|part| !part.is_empty()) {
                ranges.push(range(part).ok_or_else(|| super::quote::name(part))?);
            }
        }
        Value::Array(list) => list.iter().try_for_each(|value| collect(value, ranges))?,
        other => return Err(super::quote::name(&other.to_string())),
    }
    Ok(())
}

fn range(part: &str) -> Option<RangeInclusive<u64>> {
    let number = |text: &str| text.trim_start_matches('#').parse::<u64>().ok();
    match part.split_once(['-', '–']) {
        None => number(part).map(|one| one..=one),
        Some((first, last)) => {
            let (first, last) = (number(first)?, number(last)?);
            Some(first.min(last)..=first.max(last))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(json: &str) -> Result<Vec<(u64, u64)>, Wrong> {
        let ranges = Args::read(json)?.numbers(&["numbers", "number"])?;
        Ok(ranges.into_iter().map(|range| (*range.start(), *range.end())).collect())
    }

    #[test]
    fn numbers_come_in_many_forms() {
        for (json, expected) in [
            (r#"{"numbers": 12}"#, vec![(12, 12)]),
            (r#"{"number": "12"}"#, vec![(12, 12)]),
            (r##"{"numbers": "#12 - nothing"}"##, vec![]),
            (r#"{"numbers": [3, "12-15", 4.0]}"#, vec![(3, 3), (12, 15), (4, 4)]),
            (r##"{"numbers": "#3, #9–#7"}"##, vec![(3, 3), (7, 9)]),
            (r#"{"numbers": "[3, 4]"}"#, vec![(3, 3), (4, 4)]),
            ("", vec![]),
        ] {
            match numbers(json) {
                Ok(found) => assert_eq!(found, expected, "{json}"),
                Err(wrong) => assert!(expected.is_empty() && wrong.contains("`numbers` must be"), "{json}: {wrong}"),
            }
        }
        assert!(numbers(r#"{"numbers": {"a": 1}}"#).is_err());
        assert!(numbers(r#"{"numbers": -1}"#).is_err());
        assert!(numbers("[1]").is_err() && numbers("{").is_err());
    }

    #[test]
    fn a_number_may_be_a_text_and_a_text_a_number() {
        let args = Args::read(r#"{"limit": "5", "page": 2, "query": 1984, "role": "", "x": "many"}"#).unwrap();
        assert_eq!(args.number(&["limit"]), Ok(Some(5)));
        assert_eq!(args.number(&["page"]), Ok(Some(2)));
        assert_eq!(args.number(&["none"]), Ok(None));
        assert_eq!(args.number(&["x"]), Err("`x` must be a whole number".to_owned()));
        assert_eq!(args.text(&["query"]), Some("1984".to_owned()));
        assert_eq!(args.text(&["role"]), None);
    }
}
