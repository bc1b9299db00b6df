//! The layout of every wire type against a snapshot that is checked in.
//!
//! Draft: until version 1 is frozen, a change of the contract rewrites the snapshot with `UPDATE_LAYOUT=1 cargo test -p
//! engine-abi --test layout`. From then on a difference is a broken contract, never a reason to rewrite.

#![allow(clippy::unwrap_used, reason = "helpers of tests may")]

use engine_abi::wire::*;
use std::fmt::Write as _;
use std::mem::{align_of, offset_of, size_of};

/// Types with their fields; a field that is missing here is found by the sizes.
macro_rules! layouts {
    ($($name:ident { $($field:ident),* $(,)? })*) => {
        fn layouts() -> String {
            let mut text = String::new();
            $(
                let _ = writeln!(text, "{} size {} align {}", stringify!($name), size_of::<$name>(), align_of::<$name>());
                $(let _ = writeln!(text, "  {} {}", stringify!($field), offset_of!($name, $field));)*
            )*
            text
        }
    };
}

layouts! {
    Str { ptr, len }
    Bytes { ptr, len }
    StrList { ptr, len }
    EntryHeadV1 { id, time_ms, tokens, role, flags, text_bytes }
    ToolCallV1 { id, name, arguments }
    MessageV1 { role, reserved, text, tool_call_id, name, tool_calls, tool_calls_len }
    EntryV1 { head, message }
    EntryList { ptr, len }
    SpanV1 { first, last }
    SessionTargetV1 { agent_id, session_id, session_key, store, thread_id }
    AnchorV1 { entry_id, raw_seq, effective_parent_id, active_message_position, generation, idempotency_key }
    SessionV1 {
        session_id, session_key, agent_id, cwd, target, settings, prompt_cache, ephemeral, heartbeat, token_budget,
        current_token_count,
    }
    RuntimeSettingsV1 {
        schema_version, runtime_mode, runtime_host, harness_id, runtime_id, model_requested, model_resolved,
        model_provider, model_family, selected_id, selection_source, fallback_reason, degraded_reason, reserved,
        execution_host_id, execution_host_label, prompt_token_budget, max_output_tokens,
    }
    PromptCacheV1 {
        retention, broke, input, output, cache_read, cache_write, total, context_prompt_tokens, previous_cache_read,
        changes_json, last_cache_touch_ms, expires_ms,
    }
    BootstrapArgsV1 { session }
    MaintainArgsV1 { session, reason, allow_deferred_compaction }
    IngestArgsV1 { session, entries }
    AfterTurnArgsV1 { session, entries, pre_prompt_message_count, auto_compaction_summary }
    CommitTurnArgsV1 { session, advancement_key, logical_turn_id, admission, terminal, entries }
    PromptV1 { entry_id, tokens, message }
    AssembleArgsV1 {
        session, entries, entries_len, prompt, system_tokens, available_tools, model, citations_mode, reserved,
    }
    CompactArgsV1 {
        session, entries, entries_len, force, target, trigger, attempt, max_attempts, force_reason, custom_instructions,
    }
    PrepareSubagentArgsV1 {
        parent_session_key, child_session_key, parent_session_id, child_session_id, context_mode, reserved, ttl_ms,
    }
    SubagentEndedArgsV1 { child_session_key, agent_dir, workspace_dir, reason, reserved }
    SessionEndedArgsV1 { session, reason, reserved }
    ToolsArgsV1 { session }
    CallToolArgsV1 { session, call_id, name, arguments }
    BootstrapResultV1 { bootstrapped, reserved, imported_messages, reason }
    MaintainResultV1 { changed, reserved, bytes_freed, rewritten_entries, reason }
    IngestResultV1 { ingested_count }
    CommitResultV1 { status, reserved }
    AssembleResultV1 {
        estimated_tokens, system_prompt_addition, volatile_prompt_addition, prompt_authority, projection_mode,
        projection_epoch, projection_fingerprint,
    }
    CompactResultV1 {
        ok, compacted, reason, summary, first_kept_entry_id, tokens_before, tokens_after, details_json,
        successor_session_id, successor_target,
    }
    PrepareSubagentResultV1 { rollback_handle }
    ToolV1 { name, description, parameters_json }
    ToolResultV1 { text, is_error, reserved }
    HostRequirementV1 { operation, required_capabilities, unsupported_message }
    InfoV1 {
        id, name, version, owns_compaction, turn_maintenance_mode, accepted_host_params, transcript_semantics,
        host_requirements, host_requirements_len,
    }
    SinkV1 {
        fail, info, bootstrap, maintain, ingest, commit, spans, message, assemble, compact, prepare_subagent, tool,
        tool_result, memory_prompt, memory_hits,
    }
    FrameV1 {}
    CallV1 { frame, sink, host, entry, cancelled, remaining_ms }
    ExtensionV1 { table, layout }
    HostV1 { log, service, last_error, private }
    TokensV1 { count }
    LlmRequestV1 {
        messages, messages_len, system_prompt, model, purpose, reasoning, response_format_json, max_tokens, temperature,
    }
    LlmResponseV1 {
        text, provider, model, response_model, stop_reason, agent_id, input_tokens, output_tokens, cache_read_tokens,
        cache_write_tokens, total_tokens, cost_usd,
    }
    LlmV1 { complete }
    CompactionV1 { delegate }
    CursorRequestV1 { session_key, cursor, max_messages, max_bytes }
    CursorPageV1 { outcome, reset_reason, has_more, reserved, cursor, entries, serialized_bytes, required_bytes }
    ReplacementV1 { entry_id, message }
    TranscriptV1 { read, rewrite }
    SessionsV1 { list }
    MemoryPromptArgsV1 { available_tools, citations_mode, sandboxed }
    MemoryHitV1 { id, text, score, time_ms }
    MemoryHitsV1 { ptr, len }
    MemoryV1 { prompt_addition, search, append }
    StoreOpV1 { op, engine_scope, key, value }
    StorePairV1 { key, value }
    StorePairsV1 { ptr, len }
    StoreV1 { get, scan, batch }
    EntryPointV1 { contract_major, contract_minor, register, get_extension }
    RegistrarV1 { context, host, register_engine, register_memory, fail }
    FactoryV1 { tag, create }
    FactoryContextV1 { host, frame, engine_id, config_json, agent_dir, workspace_dir, state_dir, fail }
    InstanceV1 { table, instance }
    EngineV1 {
        info, bootstrap, maintain, ingest, ingest_batch, after_turn, commit_turn, assemble, compact,
        prepare_subagent_spawn, rollback_subagent_spawn, on_subagent_ended, on_session_ended, tools, call_tool, dispose,
    }
    MemoryFactoryV1 { tag, create }
    MemoryInstanceV1 { table, instance }
    MemoryProviderV1 { info, prompt_section, search, append, dispose }
}

/// Every `repr(C)` type of the wire's source, so that a new one cannot be forgotten above.
fn declared() -> Vec<String> {
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("wire/src");
    let mut names = Vec::new();
    for file in std::fs::read_dir(source).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        for declaration in text.split("#[repr(C)]").skip(1) {
            let name = declaration.split("pub struct ").nth(1).unwrap();
            names.push(name.split([' ', '{']).next().unwrap().to_owned());
        }
    }
    names
}

#[test]
fn the_layout_is_the_one_that_is_checked_in() {
    // Both 64-bit targets lay out `repr(C)` alike; another pointer width has a snapshot of its own.
    let file = format!("tests/layout-{}.txt", usize::BITS);
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let now = format!("contract {CONTRACT_VERSION}\n{}", layouts());
    if std::env::var_os("UPDATE_LAYOUT").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let then = std::fs::read_to_string(&path).unwrap();
    for (then, now) in then.lines().zip(now.lines()) {
        assert_eq!(then, now, "the layout differs from {}", path.display());
    }
    assert_eq!(then.lines().count(), now.lines().count());
}

#[test]
fn every_type_of_the_wire_is_in_the_snapshot() {
    let text = layouts();
    let missing: Vec<String> = declared()
        .into_iter()
        // The root module is a prefix type: abi_stable alone checks it.
        .filter(|name| name != "EngineModule" && !text.contains(&format!("{name} size")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
