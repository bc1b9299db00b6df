//! The doors of a library and its manifest, written by one macro.
#![allow(unsafe_code, reason = "hands the entry to abi_stable's root module and calls the host's registrar")]

use crate::guard::{connect, guarded};
use crate::wire::{EngineModule, EngineModuleRef, EntryPointV1, FactoryV1, MemoryFactoryV1, RegistrarV1, Str, status};
use crate::{Error, Result};
use abi_stable::library::{CheckTypeLayout, LibHeader, RootModuleError};
use abi_stable::marker_type::ErasedPrefix;
use abi_stable::prefix_type::{PrefixRef, PrefixRefTrait, PrefixTypeTrait};
use abi_stable::std_types::{ROk, RResult};

/// What stands at the root symbol of a library.
pub type Root = LibHeader;
/// What the function behind the root symbol returns.
pub type RootResult = RResult<PrefixRef<ErasedPrefix>, RootModuleError>;

/// The root symbol's value: `module` is called once, after the host has checked every layout.
///
/// # Safety
///
/// `module` returns what [`root_module`] gives.
#[must_use]
pub const unsafe fn root(module: extern "C" fn() -> RootResult) -> Root {
    // SAFETY: the caller's promise.
    unsafe { LibHeader::from_constructor::<EngineModuleRef>(module, CheckTypeLayout::Yes) }
}

/// The root module of the library with this entry.
#[must_use]
pub fn root_module(entry: &'static EntryPointV1) -> RootResult {
    let module = EngineModule { entry }.leak_into_prefix();
    // SAFETY: the erased module is only ever cast back to the type that `root` names.
    ROk(unsafe { module.to_prefix_ref().cast::<ErasedPrefix>() })
}

/// Registers the engines of a library; what an entry's `register` does.
///
/// # Safety
///
/// `registrar` comes from the host and is valid during the call.
pub unsafe fn register(registrar: *const RegistrarV1, engines: &[(&str, FactoryV1)]) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { register_all(registrar, engines, &[]) }
}

/// Registers the engines and the memory providers of a library.
///
/// # Safety
///
/// `registrar` comes from the host and is valid during the call.
pub unsafe fn register_all(
    registrar: *const RegistrarV1,
    engines: &[(&str, FactoryV1)],
    memory: &[(&str, MemoryFactoryV1)],
) -> u32 {
    // On a refusal the host has logged why; what else is in the library may still serve.
    let taken = |id: &str, answer: u32| match answer {
        status::OK | status::REFUSED => Ok(()),
        other => Err(Error::new(format_args!("the host did not register \"{id}\" ({other})"))),
    };
    let work = |registrar: &RegistrarV1| {
        for (id, factory) in engines {
            taken(id, (registrar.register_engine)(registrar.context, Str::new(id), factory))?;
        }
        for (id, factory) in memory {
            taken(id, (registrar.register_memory)(registrar.context, Str::new(id), factory))?;
        }
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { register_with(registrar, work) }
}

/// Connects the library with the host's log and runs `work` inside the guard.
///
/// # Safety
///
/// `registrar` comes from the host and is valid during the call.
pub unsafe fn register_with(registrar: *const RegistrarV1, work: impl FnOnce(&RegistrarV1) -> Result<()>) -> u32 {
    // SAFETY: the caller's promise.
    let registrar = unsafe { &*registrar };
    connect(registrar.host);
    guarded(
        std::ptr::null(),
        || work(registrar),
        |message, _| {
            (registrar.fail)(registrar.context, Str::new(message));
        },
    )
}

/// Makes a library of engines, memory providers or both: the manifest in its own section, both doors, and the guard around
/// everything.
///
/// ```ignore
/// engine_abi::export_engine! {
///     plugin: "window",
///     engines: { "window" => Window },
///     memory: { "notes" => Notes },
///     config_schema: r#"{ "type": "object" }"#,
/// }
/// ```
///
/// `plugin` is the id under which the operator configures the library; `engines` are the ids that the slot of context engines
/// names, each with a type that implements [`crate::ContextEngine`]; `memory` those that the memory slot names, each with a
/// type that implements [`crate::MemoryProvider`]. One of the two may be left out. `config_schema` is a JSON Schema, checked by
/// the host before the library is loaded. Version and description come from the crate.
#[macro_export]
macro_rules! export_engine {
    (
        plugin: $plugin:expr,
        engines: { $first:literal => $first_engine:ty $(, $id:literal => $engine:ty)* $(,)? }
        $(, memory: { $first_memory:literal => $first_provider:ty $(, $memory:literal => $provider:ty)* $(,)? })?
        $(, config_schema: $schema:expr)? $(,)?
    ) => {
        $crate::manifest_section! {
            ("plugin", $plugin),
            ("engines", concat!($first $(, ",", $id)*)),
            $(("memory", concat!($first_memory $(, ",", $memory)*)),)?
            ("kind", "context-engine"),
            $(("config_schema", $schema),)?
        }
        $crate::export_entry! {
            |registrar| {
                let engines = [
                    ($first, $crate::factory::<$first_engine>()),
                    $(($id, $crate::factory::<$engine>()),)*
                ];
                let memory: &[(&str, $crate::wire::MemoryFactoryV1)] = &[
                    $(
                        ($first_memory, $crate::memory_factory::<$first_provider>()),
                        $(($memory, $crate::memory_factory::<$provider>()),)*
                    )?
                ];
                // SAFETY: the host calls `register` with a registrar that is valid during the call.
                unsafe { $crate::export::register_all(registrar, &engines, memory) }
            }
        }
    };
    (
        plugin: $plugin:expr,
        memory: { $first:literal => $first_provider:ty $(, $id:literal => $provider:ty)* $(,)? }
        $(, config_schema: $schema:expr)? $(,)?
    ) => {
        $crate::manifest_section! {
            ("plugin", $plugin),
            ("memory", concat!($first $(, ",", $id)*)),
            ("kind", "memory"),
            $(("config_schema", $schema),)?
        }
        $crate::export_entry! {
            |registrar| {
                let memory = [
                    ($first, $crate::memory_factory::<$first_provider>()),
                    $(($id, $crate::memory_factory::<$provider>()),)*
                ];
                // SAFETY: the host calls `register` with a registrar that is valid during the call.
                unsafe { $crate::export::register_all(registrar, &[], &memory) }
            }
        }
    };
}

/// The manifest alone, from its pairs; contract, panic strategy, door, version and description are added.
#[macro_export]
macro_rules! manifest_section {
    ($($pair:expr),* $(,)?) => {
        const _: () = {
            const PARTS: &[(&str, &str)] = &[
                $($pair,)*
                ("contract", $crate::wire::CONTRACT_VERSION),
                ("panic", if cfg!(panic = "unwind") { "unwind" } else { "abort" }),
                ("door", "rust"),
                ("version", env!("CARGO_PKG_VERSION")),
                ("description", env!("CARGO_PKG_DESCRIPTION")),
                ("sdk", $crate::SDK),
            ];
            $crate::manifest_bytes!(PARTS);
        };
    };
}

/// Puts the manifest of these parts into the object section.
#[doc(hidden)]
#[macro_export]
macro_rules! manifest_bytes {
    ($parts:expr) => {
        #[used]
        #[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA_CONST,__engineroom"))]
        #[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".engineroom"))]
        static MANIFEST: [u8; $crate::manifest::section_len($parts)] = $crate::manifest::section($parts);
    };
}

/// The doors alone, around a function that registers; for libraries that register in a way of their own.
#[macro_export]
macro_rules! export_entry {
    // Items are not hygienic: their names must not be those that `$register` may use.
    (|$registrar:ident| $register:expr) => {
        const _: () = {
            extern "C" fn __register($registrar: *const $crate::wire::RegistrarV1) -> u32 {
                $register
            }
            static __ENTRY: $crate::wire::EntryPointV1 = $crate::wire::EntryPointV1 {
                contract_major: $crate::wire::CONTRACT_MAJOR,
                contract_minor: $crate::wire::CONTRACT_MINOR,
                register: __register,
                get_extension: None,
            };
            extern "C" fn __module() -> $crate::export::RootResult {
                $crate::export::root_module(&__ENTRY)
            }
            #[unsafe(export_name = "_1as_0lib_1header_0root_bmodule_bloader")]
            // SAFETY: `__module` returns the root module.
            static __ROOT: $crate::export::Root = unsafe { $crate::export::root(__module) };
            #[unsafe(export_name = "engineroom_entry_v1")]
            extern "C" fn __entry() -> *const $crate::wire::EntryPointV1 {
                &__ENTRY
            }
        };
    };
}
