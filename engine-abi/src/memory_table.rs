//! The function table of a memory provider, made from its trait: one guarded function per hook.
#![allow(unsafe_code, reason = "the border: turns the host's borrowed pointers into views for the duration of a hook")]

use crate::memory::{MemoryProvider, PromptSectionRequest};
use crate::raw;
use crate::results::pushed;
use crate::table::{create_with, dispose_with, hook};
use crate::wire::{
    CallV1, FactoryContextV1, MemoryFactoryV1, MemoryHitV1, MemoryInstanceV1, MemoryPromptArgsV1, MemoryProviderV1, Str,
};

/// The factory of `M`, to be registered.
#[must_use]
pub const fn memory_factory<M: MemoryProvider>() -> MemoryFactoryV1 {
    MemoryFactoryV1 { tag: std::ptr::null(), create: create::<M> }
}

/// The table of `M`: the hooks that it has not are null.
#[must_use]
pub const fn memory_table<M: MemoryProvider>() -> &'static MemoryProviderV1 {
    Table::<M>::TABLE
}

struct Table<M>(std::marker::PhantomData<M>);

impl<M: MemoryProvider> Table<M> {
    const TABLE: &'static MemoryProviderV1 = &MemoryProviderV1 {
        info: Some(info::<M>),
        prompt_section: if M::HOOKS.has("prompt_section") { Some(prompt_section::<M>) } else { None },
        search: Some(search::<M>),
        append: if M::HOOKS.has("append") { Some(append::<M>) } else { None },
        dispose: Some(dispose::<M>),
    };
}

extern "C" fn create<M: MemoryProvider>(
    _: *const u8,
    context: *const FactoryContextV1,
    out: *mut MemoryInstanceV1,
) -> u32 {
    create_with(context, M::create, |instance| {
        // SAFETY: `out` is valid for a write; `dispose` takes the box back.
        unsafe { *out = MemoryInstanceV1 { table: memory_table::<M>(), instance } };
    })
}

extern "C" fn info<M: MemoryProvider>(instance: *const u8, call: *const CallV1) -> u32 {
    hook::<M>(instance, call, std::ptr::null(), |provider, context, sink| provider.info().push(context.call(), sink, 0))
}

extern "C" fn prompt_section<M: MemoryProvider>(
    instance: *const u8,
    call: *const CallV1,
    args: *const MemoryPromptArgsV1,
) -> u32 {
    hook::<M>(instance, call, std::ptr::null(), |provider, context, sink| {
        // SAFETY: the host lends valid arguments until the hook returns; the view is a transparent wrapper.
        let request: &PromptSectionRequest = unsafe { &*args.cast() };
        let section = provider.prompt_section(context, request)?;
        context.flush()?;
        match section {
            Some(text) => pushed((sink.memory_prompt)(context.call().frame, Str::new(&text))),
            None => Ok(()),
        }
    })
}

extern "C" fn search<M: MemoryProvider>(instance: *const u8, call: *const CallV1, query: Str, limit: u64) -> u32 {
    hook::<M>(instance, call, std::ptr::null(), |provider, context, sink| {
        // SAFETY: the host lends the text until the hook returns.
        let query = unsafe { raw::text(query) }.unwrap_or_default();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let hits = provider.search(context, query, limit)?;
        context.flush()?;
        let hits: Vec<MemoryHitV1> = hits
            .iter()
            .map(|hit| MemoryHitV1 {
                id: Str::new(&hit.id),
                text: Str::new(&hit.text),
                score: hit.score,
                time_ms: hit.time_ms.unwrap_or(-1),
            })
            .collect();
        pushed((sink.memory_hits)(context.call().frame, hits.as_ptr(), hits.len()))
    })
}

extern "C" fn append<M: MemoryProvider>(instance: *const u8, call: *const CallV1, text: Str) -> u32 {
    hook::<M>(instance, call, std::ptr::null(), |provider, context, _| {
        // SAFETY: the host lends the text until the hook returns.
        provider.append(context, unsafe { raw::text(text) }.unwrap_or_default())?;
        Ok(context.flush()?)
    })
}

extern "C" fn dispose<M: MemoryProvider>(instance: *const u8, call: *const CallV1) -> u32 {
    dispose_with::<M>(instance, call, M::dispose)
}
