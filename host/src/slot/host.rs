//! Who executes a run, what it can do for an engine, and the check of what an engine requires of it.
//!
//! | host | selected by | assembles before the prompt | keeps the conversation |
//! |---|---|---|---|
//! | embedded | any other provider | yes | no: every call tells everything |
//! | thread | `provider = "thread"` | yes | yes, at the provider: a projection may be injected once per epoch |
//! | command | `provider = "cli"` | no: the command gets the user's words | yes, itself |

use super::engine::{EngineInfo, Operation, bit_names, capability_names};
use super::failure::{SlotError, UnmetRequirement};
use crate::config::ModelConfig;
use crate::observe::broken;
use engine_abi::wire::capability;
use serde::Serialize;
use std::path::Path;

/// The host that executes a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ExecutionHost {
    /// Id.
    pub id: String,
    /// Name for people.
    pub label: String,
    /// Bits of [`engine_abi::wire::capability`].
    #[serde(serialize_with = "capability_names")]
    pub capabilities: u32,
}

impl ExecutionHost {
    /// The host that a `[model]` section selects.
    pub fn of(model: &ModelConfig) -> ExecutionHost {
        let always = capability::BOOTSTRAP | capability::AFTER_TURN | capability::MAINTAIN | capability::COMPACT;
        match model.provider.as_str() {
            "cli" => {
                let name = model.command.first().and_then(|program| Path::new(program).file_name());
                let name = name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                // No language model is here but the one behind the command, and that one is nobody's to ask.
                ExecutionHost {
                    id: format!("cli:{name}"),
                    label: format!("Command-line backend \"{name}\""),
                    capabilities: always,
                }
            }
            "thread" => ExecutionHost {
                id: "engineroom-thread".into(),
                label: "Engineroom thread runner".into(),
                capabilities: always
                    | capability::ASSEMBLE_BEFORE_PROMPT
                    | capability::RUNTIME_LLM_COMPLETE
                    | capability::THREAD_BOOTSTRAP_PROJECTION,
            },
            _ => {
                let llm = if model.completes() { capability::RUNTIME_LLM_COMPLETE } else { 0 };
                ExecutionHost {
                    id: "engineroom-embedded".into(),
                    label: "Engineroom embedded runner".into(),
                    capabilities: always | capability::ASSEMBLE_BEFORE_PROMPT | llm,
                }
            }
        }
    }

    /// Names of what it can do, as documents spell them.
    pub fn capability_names(&self) -> Vec<&'static str> {
        bit_names(self.capabilities, &capability::NAMES)
    }

    /// What this host lacks of an engine's requirements for an operation. `None` when it lacks nothing, or when the engine
    /// requires nothing for that operation.
    pub(crate) fn unmet(&self, id: &str, info: &EngineInfo, operation: Operation) -> Option<SlotError> {
        let requirement = info.host_requirements.iter().find(|requirement| {
            let asked = requirement.operation == operation || broken("8.38");
            asked && requirement.required_capabilities & !self.capabilities != 0
        })?;
        let missing = requirement.required_capabilities & !self.capabilities;
        let names = |bits: u32| bit_names(bits, &capability::NAMES);
        Some(SlotError::HostRequirement(Box::new(UnmetRequirement {
            engine: id.to_owned(),
            operation: operation.name(),
            host_id: self.id.clone(),
            host: self.label.clone(),
            missing: names(if broken("8.37") { requirement.required_capabilities } else { missing }),
            required: names(requirement.required_capabilities),
            provided: self.capability_names(),
            message: requirement.unsupported_message.clone(),
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_command_host_cannot_assemble_and_only_the_thread_host_keeps_a_projection() {
        let mut model = crate::config::Config::defaults("/x/plugins.toml".into()).model;
        model.command = vec!["/opt/agent".into()];
        let mut host = |provider: &str| {
            model.provider = provider.into();
            ExecutionHost::of(&model)
        };
        let common = ["bootstrap", "after-turn", "maintain", "compact"];
        for (provider, id, more) in [
            ("offline", "engineroom-embedded", &["assemble-before-prompt"][..]),
            ("openai", "engineroom-embedded", &["assemble-before-prompt", "runtime-llm-complete"]),
            ("cli", "cli:agent", &[]),
            (
                "thread",
                "engineroom-thread",
                &["assemble-before-prompt", "runtime-llm-complete", "thread-bootstrap-projection"],
            ),
        ] {
            let host = host(provider);
            assert_eq!(host.id, id);
            let mut names = host.capability_names();
            names.sort_unstable();
            let mut expected: Vec<_> = common.iter().chain(more).copied().collect();
            expected.sort_unstable();
            assert_eq!(names, expected, "{provider}");
        }
    }
}
