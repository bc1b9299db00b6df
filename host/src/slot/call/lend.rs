//! From the host's facts to the borrowed arguments of a hook, by the rule of accepted host parameters.

use crate::observe::broken;
use crate::slot::facts::{Anchor, SessionFacts};
use crate::slot::hook::Hook;
use engine_abi::wire::{
    AnchorV1, NONE_U64, PromptCacheV1, RuntimeSettingsV1, SessionTargetV1, SessionV1, Str, host_params as p,
};

/// The host parameters that a hook has at all.
pub(crate) const fn has_params(hook: Hook) -> u32 {
    match hook {
        // The services alone: an engine may read its own store while it is made.
        Hook::Factory => p::RUNTIME_CONTEXT,
        Hook::Info | Hook::Dispose => 0,
        Hook::Ingest | Hook::IngestBatch => p::SESSION_KEY | p::RUNTIME_CONTEXT | p::ABORT_SIGNAL,
        Hook::Assemble => p::SESSION_KEY | p::PROMPT | p::RUNTIME_SETTINGS | p::RUNTIME_CONTEXT | p::ABORT_SIGNAL,
        Hook::PrepareSubagentSpawn | Hook::RollbackSubagentSpawn | Hook::OnSubagentEnded => {
            p::RUNTIME_CONTEXT | p::ABORT_SIGNAL
        }
        _ => p::ALL & !p::PROMPT,
    }
}

/// What a call gets: the intersection of what the engine accepts and what the hook has. `compact` always gets its cancel signal.
pub(crate) fn params(hook: Hook, accepted: u32) -> u32 {
    let both = has_params(hook) & if broken("8.32") { p::ALL } else { accepted };
    if matches!(hook, Hook::Compact) && !broken("8.33") { both | p::ABORT_SIGNAL } else { both }
}

fn text(value: Option<&String>) -> Str {
    Str::opt(value.map(String::as_str))
}

fn number(value: Option<u64>) -> u64 {
    value.unwrap_or(NONE_U64)
}

/// Lends the session to `call`, cut down to `params`.
pub(crate) fn with_session<R>(facts: &SessionFacts, params: u32, call: impl FnOnce(&SessionV1) -> R) -> R {
    let gets = |bit: u32| params & bit != 0;
    let agent = if facts.agent.is_empty() { Str::NONE } else { Str::new(&facts.agent) };
    let target = SessionTargetV1 {
        agent_id: agent,
        session_id: Str::new(&facts.session_id),
        session_key: text(facts.session_key.as_ref()),
        store: text(facts.store.as_ref()),
        thread_id: text(facts.thread_id.as_ref()),
    };
    let settings = facts.settings.as_ref().filter(|_| gets(p::RUNTIME_SETTINGS)).map(|s| RuntimeSettingsV1 {
        schema_version: 1,
        runtime_mode: s.mode,
        runtime_host: Str::new("engineroom"),
        harness_id: text(s.harness_id.as_ref()),
        runtime_id: text(s.runtime_id.as_ref()),
        model_requested: text(s.model_requested.as_ref()),
        model_resolved: text(s.model_resolved.as_ref()),
        model_provider: text(s.model_provider.as_ref()),
        model_family: text(s.model_family.as_ref()),
        selected_id: text(s.selected_id.as_ref()),
        selection_source: s.selection_source,
        fallback_reason: s.fallback_reason,
        degraded_reason: s.degraded_reason,
        reserved: 0,
        execution_host_id: text(s.execution_host_id.as_ref()),
        execution_host_label: text(s.execution_host_label.as_ref()),
        prompt_token_budget: number(s.prompt_token_budget),
        max_output_tokens: number(s.max_output_tokens),
    });
    let cache = facts.prompt_cache.as_ref().filter(|_| gets(p::RUNTIME_CONTEXT)).map(|c| PromptCacheV1 {
        retention: c.retention,
        broke: u32::from(c.broke),
        input: number(c.input),
        output: number(c.output),
        cache_read: number(c.cache_read),
        cache_write: number(c.cache_write),
        total: number(c.total),
        context_prompt_tokens: number(c.context_prompt_tokens),
        previous_cache_read: number(c.previous_cache_read),
        changes_json: text(c.changes_json.as_ref()),
        last_cache_touch_ms: c.last_cache_touch_ms.unwrap_or(-1),
        expires_ms: c.expires_ms.unwrap_or(-1),
    });
    call(&SessionV1 {
        session_id: Str::new(&facts.session_id),
        session_key: text(facts.session_key.as_ref().filter(|_| gets(p::SESSION_KEY))),
        agent_id: agent,
        cwd: text(facts.cwd.as_ref().filter(|_| gets(p::RUNTIME_CONTEXT))),
        target: if gets(p::SESSION_TARGET) { &raw const target } else { std::ptr::null() },
        settings: settings.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
        prompt_cache: cache.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
        ephemeral: u32::from(facts.ephemeral),
        heartbeat: u32::from(facts.heartbeat),
        token_budget: number(facts.token_budget),
        current_token_count: number(facts.current_token_count),
    })
}

/// Lends an anchor.
pub(crate) fn anchor(anchor: &Anchor) -> AnchorV1 {
    AnchorV1 {
        entry_id: anchor.entry_id,
        raw_seq: anchor.raw_seq,
        effective_parent_id: anchor.effective_parent_id,
        active_message_position: anchor.active_message_position,
        generation: anchor.generation,
        idempotency_key: text(anchor.idempotency_key.as_ref()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::facts::{PromptCacheFacts, RuntimeSettings};

    fn facts() -> SessionFacts {
        SessionFacts {
            session_id: "s".into(),
            session_key: Some("k".into()),
            settings: Some(RuntimeSettings::default()),
            prompt_cache: Some(PromptCacheFacts::default()),
            ..SessionFacts::default()
        }
    }

    #[test]
    fn a_call_gets_what_the_engine_accepts_and_the_hook_has() {
        assert_eq!(params(Hook::Assemble, p::ALL), has_params(Hook::Assemble));
        assert_eq!(params(Hook::Assemble, 0), 0);
        assert_eq!(params(Hook::Ingest, p::PROMPT | p::SESSION_KEY), p::SESSION_KEY);
        assert_eq!(params(Hook::Compact, 0), p::ABORT_SIGNAL, "compact always gets its cancel signal");
    }

    #[test]
    fn a_declared_engine_sees_nothing_that_it_did_not_ask_for() {
        with_session(&facts(), 0, |session| {
            assert!(session.session_key.is_none() && session.target.is_null());
            assert!(session.settings.is_null() && session.prompt_cache.is_null());
            assert!(!session.session_id.is_none(), "the session's id is no host parameter");
        });
        with_session(&facts(), p::ALL, |session| {
            assert!(!session.session_key.is_none() && !session.target.is_null());
            assert!(!session.settings.is_null() && !session.prompt_cache.is_null());
        });
    }
}
