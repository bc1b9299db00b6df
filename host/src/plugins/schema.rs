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
    let mut violations = validator.iter_errors(&instance);
    let Some(first) = violations.next() else { return Ok(()) };
    let told = |error: &jsonschema::ValidationError<'_>| words::told(id, &manifest.config_schema, error);
    let message = format!("the configuration of plugin {id} does not fit its schema: {}", told(&first));
    let failure = violations
        .take(MAX_SHOWN - 1)
        .fold(StageFailure::new(Cause::BadConfig, message), |failure, error| failure.because(told(&error)));
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
