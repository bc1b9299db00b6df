//! The function table of an engine, made from its trait: one guarded function per hook.
#![allow(unsafe_code, reason = "the border: turns the host's borrowed pointers into views for the duration of a hook")]

use crate::context::{Context, Factory};
use crate::engine::{Commit, ContextEngine};
use crate::guard::{guarded, quietly};
use crate::request::{AssembleRequest, CompactRequest, SubagentSpawn};
use crate::view::Entry;
use crate::wire::{self, CallV1, EngineV1, FactoryContextV1, FactoryV1, InstanceV1, SessionV1, Str, semantics};
use crate::{Error, Result};

/// The factory of `E`, to be registered.
#[must_use]
pub const fn factory<E: ContextEngine>() -> FactoryV1 {
    FactoryV1 { tag: std::ptr::null(), create: create::<E> }
}

/// The table of `E`: the hooks that it has not are null.
#[must_use]
pub const fn table<E: ContextEngine>() -> &'static EngineV1 {
    Table::<E>::TABLE
}

struct Table<E>(std::marker::PhantomData<E>);

impl<E: ContextEngine> Table<E> {
    const TABLE: &'static EngineV1 = &EngineV1 {
        info: Some(info::<E>),
        bootstrap: if E::HOOKS.has("bootstrap") || matches!(E::COMMIT, Commit::Ingest) {
            Some(bootstrap::<E>)
        } else {
            None
        },
        maintain: if E::HOOKS.has("maintain") { Some(maintain::<E>) } else { None },
        ingest: Some(ingest::<E>),
        ingest_batch: if E::HOOKS.has("ingest_batch") { Some(ingest_batch::<E>) } else { None },
        after_turn: if E::HOOKS.has("after_turn") { Some(after_turn::<E>) } else { None },
        commit_turn: match E::COMMIT {
            Commit::Never => None,
            Commit::Ingest | Commit::Stateless => Some(commit_turn::<E>),
        },
        assemble: Some(assemble::<E>),
        compact: Some(compact::<E>),
        prepare_subagent_spawn: if E::HOOKS.has("prepare_subagent_spawn") { Some(prepare::<E>) } else { None },
        rollback_subagent_spawn: if E::HOOKS.has("rollback_subagent_spawn") { Some(rollback::<E>) } else { None },
        on_subagent_ended: if E::HOOKS.has("on_subagent_ended") { Some(subagent_ended::<E>) } else { None },
        on_session_ended: if E::HOOKS.has("on_session_ended") { Some(session_ended::<E>) } else { None },
        tools: if E::HOOKS.has("tools") { Some(tools::<E>) } else { None },
        call_tool: if E::HOOKS.has("call_tool") { Some(call_tool::<E>) } else { None },
        dispose: Some(dispose::<E>),
    };
}

extern "C" fn create<E: ContextEngine>(_: *const u8, context: *const FactoryContextV1, out: *mut InstanceV1) -> u32 {
    create_with(context, E::create, |instance| {
        // SAFETY: `out` is valid for a write; `dispose` takes the box back.
        unsafe { *out = InstanceV1 { table: table::<E>(), instance } };
    })
}

/// Runs a factory, guarded; `give` hands the boxed instance over.
pub(crate) fn create_with<T, C: serde::de::DeserializeOwned>(
    context: *const FactoryContextV1,
    make: impl FnOnce(C, &Factory) -> Result<T>,
    give: impl FnOnce(*const u8),
) -> u32 {
    // SAFETY: the host lends a valid context until this function returns.
    let frame = unsafe { (*context).frame };
    let work = || {
        // SAFETY: as above.
        let factory = unsafe { Factory::new(context) };
        let config = serde_json::from_str(factory.config_json())
            .map_err(|error| Error::new(format_args!("the configuration does not fit: {error}")))?;
        let instance = Box::new(make(config, &factory)?);
        give(Box::into_raw(instance).cast_const().cast());
        Ok(())
    };
    // SAFETY: as above.
    guarded(frame, work, |message, token| unsafe {
        ((*context).fail)(frame, Str::new(message), token);
    })
}

/// Runs one hook, guarded.
fn call_hook(
    call: *const CallV1,
    session: *const SessionV1,
    work: impl FnOnce(&Context, &wire::SinkV1) -> Result<()>,
) -> u32 {
    // SAFETY: the host lends a valid call, with a valid sink, until the hook returns.
    let (frame, sink) = unsafe { ((*call).frame, &*(*call).sink) };
    let work = || {
        // SAFETY: the call and the session are valid until the hook returns.
        let context = unsafe { Context::new(call, session) };
        work(&context, sink)
    };
    guarded(frame, work, |message, token| {
        (sink.fail)(frame, Str::new(message), token);
    })
}

/// Runs one hook of an instance, guarded.
pub(crate) fn hook<E>(
    instance: *const u8,
    call: *const CallV1,
    session: *const SessionV1,
    work: impl FnOnce(&E, &Context, &wire::SinkV1) -> Result<()>,
) -> u32 {
    call_hook(call, session, |context, sink| {
        // SAFETY: `instance` is the box of `create`, alive until `dispose`, after which no hook is called.
        work(unsafe { &*instance.cast::<E>() }, context, sink)
    })
}

/// The arguments of a hook as their view, and the session in them.
macro_rules! hooks {
    ($($(#[$meta:meta])* $name:ident($args:ident) |$engine:ident, $context:ident, $view:ident, $sink:ident| $body:block)*) => {$(
        $(#[$meta])*
        extern "C" fn $name<E: ContextEngine>(instance: *const u8, call: *const CallV1, args: *const wire::$args) -> u32 {
            // SAFETY: the host lends valid arguments until the hook returns.
            let session = unsafe { (*args).session };
            hook::<E>(instance, call, session, |$engine, $context, $sink| {
                // SAFETY: as above.
                let $view = unsafe { &*args };
                $body
            })
        }
    )*};
}

hooks! {
    bootstrap(BootstrapArgsV1) |engine, context, _args, sink| {
        let result = engine.bootstrap(context)?;
        context.flush()?;
        result.push(context.call(), sink)
    }
    maintain(MaintainArgsV1) |engine, context, args, sink| {
        // SAFETY: the view is a transparent wrapper.
        let result = engine.maintain(context, unsafe { &*std::ptr::from_ref(args).cast() })?;
        context.flush()?;
        result.push(context.call(), sink)
    }
    ingest(IngestArgsV1) |engine, context, args, sink| {
        // SAFETY: the host lends the list until the hook returns.
        let entries = unsafe { Entry::list(args.entries) };
        let mut ingested_count = 0;
        for entry in entries {
            ingested_count += u64::from(engine.ingest(context, entry)?);
        }
        context.flush()?;
        crate::results::pushed((sink.ingest)(context.call().frame, &wire::IngestResultV1 { ingested_count }))
    }
    ingest_batch(IngestArgsV1) |engine, context, args, sink| {
        // SAFETY: the host lends the list until the hook returns.
        let ingested_count = engine.ingest_batch(context, unsafe { Entry::list(args.entries) })?;
        context.flush()?;
        crate::results::pushed((sink.ingest)(context.call().frame, &wire::IngestResultV1 { ingested_count }))
    }
    after_turn(AfterTurnArgsV1) |engine, context, args, _sink| {
        // SAFETY: the view is a transparent wrapper.
        engine.after_turn(context, unsafe { &*std::ptr::from_ref(args).cast() })?;
        Ok(context.flush()?)
    }
    commit_turn(CommitTurnArgsV1) |engine, context, args, sink| {
        // SAFETY: the view is a transparent wrapper.
        let committed = engine.commit_turn(context, unsafe { &*std::ptr::from_ref(args).cast() })?;
        context.flush()?;
        let result = wire::CommitResultV1 { status: committed.code(), reserved: 0 };
        crate::results::pushed((sink.commit)(context.call().frame, &result))
    }
    assemble(AssembleArgsV1) |engine, context, args, sink| {
        // SAFETY: the host lends the arguments and the call until the hook returns.
        let request = unsafe { AssembleRequest::new(args, context.call()) };
        let result = engine.assemble(context, &request)?;
        context.flush()?;
        result.push(context.call(), sink)
    }
    compact(CompactArgsV1) |engine, context, args, sink| {
        // SAFETY: the host lends the arguments and the call until the hook returns.
        let request = unsafe { CompactRequest::new(args, context.call()) };
        let result = engine.compact(context, &request)?;
        context.flush()?;
        result.push(context.call(), sink)
    }
    session_ended(SessionEndedArgsV1) |engine, context, args, _sink| {
        // SAFETY: the view is a transparent wrapper.
        engine.on_session_ended(context, unsafe { &*std::ptr::from_ref(args).cast() })?;
        Ok(context.flush()?)
    }
    tools(ToolsArgsV1) |engine, context, _args, sink| {
        let tools = engine.tools(context)?;
        context.flush()?;
        tools.iter().try_for_each(|tool| tool.push(context.call(), sink))
    }
    call_tool(CallToolArgsV1) |engine, context, args, sink| {
        // SAFETY: the view is a transparent wrapper.
        let reply = engine.call_tool(context, unsafe { &*std::ptr::from_ref(args).cast() })?;
        context.flush()?;
        reply.push(context.call(), sink)
    }
}

extern "C" fn info<E: ContextEngine>(instance: *const u8, call: *const CallV1) -> u32 {
    hook::<E>(instance, call, std::ptr::null(), |engine, context, sink| {
        let semantics = if matches!(E::COMMIT, Commit::Never) { 0 } else { semantics::DURABLE };
        engine.info().push(context.call(), sink, semantics)
    })
}

extern "C" fn prepare<E: ContextEngine>(
    instance: *const u8,
    call: *const CallV1,
    args: *const wire::PrepareSubagentArgsV1,
) -> u32 {
    hook::<E>(instance, call, std::ptr::null(), |engine, context, sink| {
        // SAFETY: the host lends valid arguments until the hook returns; the view is a transparent wrapper.
        let spawn: &SubagentSpawn = unsafe { &*args.cast() };
        let handle = engine.prepare_subagent_spawn(context, spawn)?;
        context.flush()?;
        let result = wire::PrepareSubagentResultV1 { rollback_handle: handle.unwrap_or(0) };
        crate::results::pushed((sink.prepare_subagent)(context.call().frame, &result))
    })
}

extern "C" fn rollback<E: ContextEngine>(instance: *const u8, call: *const CallV1, handle: u64) -> u32 {
    hook::<E>(instance, call, std::ptr::null(), |engine, context, _| {
        engine.rollback_subagent_spawn(context, handle)?;
        Ok(context.flush()?)
    })
}

extern "C" fn subagent_ended<E: ContextEngine>(
    instance: *const u8,
    call: *const CallV1,
    args: *const wire::SubagentEndedArgsV1,
) -> u32 {
    hook::<E>(instance, call, std::ptr::null(), |engine, context, _| {
        // SAFETY: the host lends valid arguments until the hook returns; the view is a transparent wrapper.
        engine.on_subagent_ended(context, unsafe { &*args.cast() })?;
        Ok(context.flush()?)
    })
}

extern "C" fn dispose<E: ContextEngine>(instance: *const u8, call: *const CallV1) -> u32 {
    dispose_with::<E>(instance, call, E::dispose)
}

/// The last call of an instance, which is dropped after it.
pub(crate) fn dispose_with<E>(
    instance: *const u8,
    call: *const CallV1,
    dispose: impl FnOnce(&E, &Context) -> Result<()>,
) -> u32 {
    call_hook(call, std::ptr::null(), |context, _| {
        let mut disposed = Ok(());
        // The instance is dropped whatever `dispose` does, and a drop that panics is contained like a hook.
        let panicked = quietly(|| {
            // SAFETY: `instance` is the box of `create`, still alive.
            disposed = dispose(unsafe { &*instance.cast::<E>() }, context).and_then(|()| Ok(context.flush()?));
        });
        // SAFETY: `instance` is the box of `create`; this is the last call, so nothing refers to it any more.
        let dropped = quietly(|| drop(unsafe { Box::from_raw(instance.cast_mut().cast::<E>()) }));
        panicked.and(disposed).and(dropped)
    })
}
