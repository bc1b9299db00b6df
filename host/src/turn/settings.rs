//! `runtimeSettings`: what an engine is told about the run, in closed codes.

use super::run::Run;
use crate::model::{ModelInfo, family_of};
use crate::observe::broken;
use crate::slot::{Lease, RuntimeSettings};
use engine_abi::wire::{reason_code, runtime_mode, selection_source};
use serde_json::Value;

/// The settings of a run, as its lease stands now. What is not known is absent.
pub(super) fn settings(info: &ModelInfo, lease: &Lease, run: &Run<'_>, token_budget: Option<u64>) -> RuntimeSettings {
    let asked = run.params.get("model").and_then(Value::as_str).filter(|name| !name.is_empty());
    let model = Names::of(info, asked);
    let degraded_reason = match lease.degraded() {
        _ if run.overflowed => reason_code::CONTEXT_OVERFLOW,
        Some(degraded) => degraded.code.reason_code(),
        None => reason_code::NONE,
    };
    let (selected_id, selection_source) = selection(lease);
    RuntimeSettings {
        mode: mode(degraded_reason, reason_code::NONE, model.other()),
        harness_id: None,
        runtime_id: None,
        model_requested: model.requested,
        model_family: model.family,
        model_resolved: model.resolved,
        model_provider: known(&info.provider),
        selected_id,
        selection_source,
        fallback_reason: reason_code::NONE,
        degraded_reason,
        execution_host_id: Some(lease.host().id.clone()),
        execution_host_label: Some(lease.host().label.clone()),
        prompt_token_budget: token_budget,
        max_output_tokens: Some(info.max_output_tokens),
    }
}

/// `runtime.mode`: degraded with a reason for it; else fallback with a reason or with another model than was asked for.
fn mode(degraded_reason: u32, fallback_reason: u32, other_model: bool) -> u32 {
    if broken("8.39") {
        return runtime_mode::NORMAL;
    }
    match (degraded_reason, fallback_reason) {
        (reason_code::NONE, reason_code::NONE) if !other_model => runtime_mode::NORMAL,
        (reason_code::NONE, _) => runtime_mode::FALLBACK,
        _ => runtime_mode::DEGRADED,
    }
}

/// The names of the model.
struct Names {
    requested: Option<String>,
    resolved: Option<String>,
    family: Option<String>,
}

impl Names {
    fn of(info: &ModelInfo, asked: Option<&str>) -> Names {
        let requested = asked.map(str::to_owned).or_else(|| info.requested.clone());
        // A provider without a model of its own takes the one that the request names.
        let resolved = known(&info.resolved).or_else(|| requested.clone());
        let family = info.family.clone().or_else(|| resolved.as_deref().and_then(family_of));
        Names { requested, resolved, family }
    }

    fn other(&self) -> bool {
        self.requested.is_some() && self.requested != self.resolved
    }
}

/// `contextEngineSelection`: the engine's own id where the selected engine serves, else the id that the slot names.
fn selection(lease: &Lease) -> (Option<String>, u32) {
    let serving = lease.engine();
    let id = if serving.id() == lease.selected() { serving.info().id.as_str() } else { lease.selected() };
    (known(id), source_of(id))
}

fn source_of(id: &str) -> u32 {
    match id {
        "" => selection_source::UNKNOWN,
        "legacy" => selection_source::DEFAULT,
        _ => selection_source::CONFIGURED,
    }
}

fn known(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(requested: Option<&str>) -> ModelInfo {
        ModelInfo {
            provider: "openai".into(),
            requested: requested.map(str::to_owned),
            resolved: requested.unwrap_or_default().into(),
            family: requested.and_then(family_of),
            context_window: 1,
            max_output_tokens: 1,
            has_llm: true,
        }
    }

    #[test]
    fn the_mode_follows_from_the_reasons_and_the_model() {
        assert_eq!(mode(reason_code::NONE, reason_code::NONE, false), runtime_mode::NORMAL);
        assert_eq!(mode(reason_code::NONE, reason_code::NONE, true), runtime_mode::FALLBACK);
        assert_eq!(mode(reason_code::NONE, reason_code::RATE_LIMITED, false), runtime_mode::FALLBACK);
        assert_eq!(mode(reason_code::UNKNOWN, reason_code::RATE_LIMITED, true), runtime_mode::DEGRADED);
    }

    #[test]
    fn a_model_that_the_request_names_is_the_resolved_one_where_none_is_configured() {
        let names = Names::of(&info(None), Some("gpt-4o-mini"));
        assert_eq!(names.resolved.as_deref(), Some("gpt-4o-mini"));
        assert_eq!(names.family.as_deref(), Some("gpt"));
        assert!(!names.other());
    }

    #[test]
    fn a_configured_model_in_the_place_of_the_one_that_was_asked_for_is_a_fallback() {
        let names = Names::of(&info(Some("llama3")), Some("gpt-4o"));
        assert_eq!((names.requested.as_deref(), names.resolved.as_deref()), (Some("gpt-4o"), Some("llama3")));
        assert!(names.other());
        assert!(!Names::of(&info(Some("llama3")), None).other());
    }

    #[test]
    fn what_nobody_said_is_not_known() {
        let names = Names::of(&info(None), None);
        assert_eq!((names.requested, names.resolved, names.family), (None, None, None));
        assert_eq!(source_of(""), selection_source::UNKNOWN);
        assert_eq!(source_of("legacy"), selection_source::DEFAULT);
        assert_eq!(source_of("window"), selection_source::CONFIGURED);
    }
}
