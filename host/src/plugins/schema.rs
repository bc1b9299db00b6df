//! Checks the engine's configuration against the JSON Schema in its manifest.

mod words;

use super::cause::Cause;
use super::manifest::Manifest;
use super::report::StageFailure;
use serde_json::{Map, Value};

/// Most violations that one failure tells.
const MAX_SHOWN: usize = 8;

/// Checks `config` (what stands under `plugins.entries.ID.config`).
///
/// # Errors
/// [`Cause::BadSchema`], or [`Cause::BadConfig`] with path and reason of each violation.
pub(super) fn check_config(manifest: &Manifest, config: &Map<String, Value>) -> Result<(), StageFailure> {
    let id = &manifest.plugin_id;
    let validator = jsonschema::validator_for(&manifest.config_schema).map_err(|error| {
        StageFailure::new(Cause::BadSchema, format!("the schema in the manifest of plugin {id} is not valid"))
            .because(format!("{}: {error}", place(&error)))
    })?;
    let instance = Value::Object(config.clone());
    // A value that breaks several rules of its key is told once: each sentence says all that the key takes.
    let mut told: Vec<String> = Vec::new();
    for violation in validator.iter_errors(&instance) {
        let sentence = words::told(id, &manifest.config_schema, &violation);
        if told.len() < MAX_SHOWN && !told.contains(&sentence) {
            told.push(sentence);
        }
    }
    let mut told = told.into_iter();
    let Some(first) = told.next() else { return Ok(()) };
    let message = format!("the configuration of plugin {id} does not fit its schema: {first}");
    let failure = told.fold(StageFailure::new(Cause::BadConfig, message), StageFailure::because);
    Err(failure.hint(format!(
        "correct [plugins.entries.{id}.config]; `engineroom plugins inspect {id}` shows what it accepts"
    )))
}

fn place(error: &jsonschema::ValidationError<'_>) -> String {
    match error.instance_path().as_str() {
        "" => "at the top".to_owned(),
        path => format!("at {path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(schema: Value, config: Value) -> Result<(), StageFailure> {
        let manifest = Manifest { config_schema: schema, ..Manifest::sample("window") };
        check_config(&manifest, config.as_object().unwrap())
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "pin_first_turn": { "type": "boolean" },
                "limits": { "type": "array", "items": { "type": "integer" } },
                "api_key": { "type": "string", "maxLength": 3 },
            },
            "additionalProperties": false,
        })
    }

    #[test]
    fn accepts_what_fits() {
        check(schema(), json!({ "pin_first_turn": true, "limits": [1, 2] })).unwrap();
        check(json!({}), json!({ "anything": 1 })).unwrap();
    }

    #[test]
    fn shows_path_and_reason_of_each_violation() {
        let failure = check(schema(), json!({ "limits": [1, "two"], "pin_first_turn": "yes" })).unwrap_err();
        assert_eq!(failure.code, Cause::BadConfig.code());
        let all = format!("{} {}", failure.message, failure.causes.join(" "));
        assert!(all.contains("plugins.entries.window.config.limits.1"), "{all}");
        assert!(all.contains("plugins.entries.window.config.pin_first_turn"), "{all}");
        assert!(all.contains("true or false") && all.contains("a whole number"), "{all}");
    }

    #[test]
    fn a_value_that_breaks_several_rules_is_told_once() {
        let schema = json!({"properties": {"n": {"type": "integer", "minimum": 1}}});
        let failure = check(schema, json!({ "n": 0.5 })).unwrap_err();
        assert!(failure.message.ends_with("config.n is 0.5; it takes a whole number of at least 1"), "{failure:?}");
        assert!(failure.causes.is_empty(), "{failure:?}");
    }

    #[test]
    fn names_an_unknown_key_but_never_a_value() {
        let failure = check(schema(), json!({ "pin": 1 })).unwrap_err();
        assert!(failure.message.contains("pin"), "{}", failure.message);
        let failure = check(schema(), json!({ "api_key": "sk-secret" })).unwrap_err();
        assert!(!failure.message.contains("sk-secret"), "{}", failure.message);
    }

    #[test]
    fn a_broken_schema_is_the_librarys_fault() {
        let failure = check(json!({ "type": "no-such-type" }), json!({})).unwrap_err();
        assert_eq!(failure.code, Cause::BadSchema.code());
    }

    #[test]
    fn a_schema_that_points_elsewhere_is_not_followed() {
        let failure = check(json!({ "$ref": "https://example.com/schema.json" }), json!({})).unwrap_err();
        assert_eq!(failure.code, Cause::BadSchema.code());
    }
}
