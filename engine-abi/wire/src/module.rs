//! The doors: root module, entry, registration, factory, and the table of an engine.

use crate::*;
use abi_stable::{StableAbi, library::RootModule, package_version_strings, sabi_types::VersionStrings};

/// The root module of a Rust engine: what abi_stable checks the layout of. It holds the entry and never grows.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = EngineModuleRef)))]
#[sabi(missing_field(panic))]
pub struct EngineModule {
    /// The entry; the same that a C engine gives through [`C_ENTRY_SYMBOL`].
    #[sabi(last_prefix_field)]
    pub entry: &'static EntryPointV1,
}

impl RootModule for EngineModuleRef {
    abi_stable::declare_root_module_statics! {EngineModuleRef}
    const BASE_NAME: &'static str = "engineroom_engine";
    const NAME: &'static str = "engineroom_engine";
    const VERSION_STRINGS: VersionStrings = package_version_strings!();
}

/// Symbol of the C door: `const EntryPointV1 *engineroom_entry_v1(void)`.
pub const C_ENTRY_SYMBOL: &str = "engineroom_entry_v1";

/// The entry of a library.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct EntryPointV1 {
    /// [`crate::CONTRACT_MAJOR`] that the library was built for.
    pub contract_major: u32,
    /// [`crate::CONTRACT_MINOR`] that the library was built for.
    pub contract_minor: u32,
    /// Called once, on the loading thread. Registers engines and memory providers through `registrar`.
    pub register: extern "C" fn(registrar: *const RegistrarV1) -> u32,
    /// A table by id with version; [`ExtensionV1::NONE`] when unknown. May be called from any thread.
    pub get_extension: Option<extern "C" fn(id: Str) -> ExtensionV1>,
}

/// What `register` gets. Valid until it returns.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct RegistrarV1 {
    /// First argument of the functions below.
    pub context: *const u8,
    /// The host; its `log` may be called from now on and for ever.
    pub host: *const HostV1,
    /// Registers an engine under `id`. The factory is copied. `REFUSED` with a reason in the host's log when the id is
    /// reserved or belongs to another owner; the library may go on.
    pub register_engine: extern "C" fn(context: *const u8, id: Str, factory: *const FactoryV1) -> u32,
    /// Registers a memory provider under `id`.
    pub register_memory: extern "C" fn(context: *const u8, id: Str, factory: *const MemoryFactoryV1) -> u32,
    /// The reason of a failure, before `register` returns `ERROR` or `PANIC`.
    pub fail: extern "C" fn(context: *const u8, message: Str) -> u32,
}

/// Makes instances.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct FactoryV1 {
    /// Passed to `create` untouched.
    pub tag: *const u8,
    /// Makes one instance; on `OK` it has written `out`. On failure it pushes the reason with `context.fail`.
    pub create: extern "C" fn(tag: *const u8, context: *const FactoryContextV1, out: *mut InstanceV1) -> u32,
}

/// What a factory gets. Valid until it returns.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct FactoryContextV1 {
    /// The host.
    pub host: *const HostV1,
    /// Frame of this call, for the host's services.
    pub frame: *const FrameV1,
    /// Id under which the engine was registered.
    pub engine_id: Str,
    /// The engine's own configuration, a JSON object that its schema accepted.
    pub config_json: Str,
    /// Agent folder; absent when there is none.
    pub agent_dir: Str,
    /// Workspace folder; absent when there is none.
    pub workspace_dir: Str,
    /// The engine's private state folder; it exists.
    pub state_dir: Str,
    /// The reason of a failure.
    pub fail: extern "C" fn(frame: *const FrameV1, message: Str, service_token: u64) -> u32,
}

/// One instance: its table and what the table's functions get first.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct InstanceV1 {
    /// The table; lives as long as the library, that is for ever.
    pub table: *const EngineV1,
    /// Opaque to the host.
    pub instance: *const u8,
}

impl InstanceV1 {
    /// No instance.
    pub const NONE: InstanceV1 = InstanceV1 { table: std::ptr::null(), instance: std::ptr::null() };
}

/// The table of an engine. A null pointer is a hook that the engine does not have; `info`, `ingest`, `assemble` and
/// `compact` are required and checked after the factory.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct EngineV1 {
    /// Pushes `info`. Called once, after the factory.
    pub info: Option<extern "C" fn(instance: *const u8, call: *const CallV1) -> u32>,
    /// `bootstrap`.
    pub bootstrap: Option<extern "C" fn(instance: *const u8, call: *const CallV1, args: *const BootstrapArgsV1) -> u32>,
    /// `maintain`.
    pub maintain: Option<extern "C" fn(instance: *const u8, call: *const CallV1, args: *const MaintainArgsV1) -> u32>,
    /// `ingest`.
    pub ingest: Option<extern "C" fn(instance: *const u8, call: *const CallV1, args: *const IngestArgsV1) -> u32>,
    /// `ingestBatch`.
    pub ingest_batch: Option<extern "C" fn(instance: *const u8, call: *const CallV1, args: *const IngestArgsV1) -> u32>,
    /// `afterTurn`; pushes nothing.
    pub after_turn:
        Option<extern "C" fn(instance: *const u8, call: *const CallV1, args: *const AfterTurnArgsV1) -> u32>,
    /// `commitTurn`.
    pub commit_turn:
        Option<extern "C" fn(instance: *const u8, call: *const CallV1, args: *const CommitTurnArgsV1) -> u32>,
    /// `assemble`.
    pub assemble: Option<extern "C" fn(instance: *const u8, call: *const CallV1, args: *const AssembleArgsV1) -> u32>,
    /// `compact`.
    pub compact: Option<extern "C" fn(instance: *const u8, call: *const CallV1, args: *const CompactArgsV1) -> u32>,
    /// `prepareSubagentSpawn`.
    pub prepare_subagent_spawn:
        Option<extern "C" fn(instance: *const u8, call: *const CallV1, args: *const PrepareSubagentArgsV1) -> u32>,
    /// Undoes a preparation, at most once per handle.
    pub rollback_subagent_spawn: Option<extern "C" fn(instance: *const u8, call: *const CallV1, handle: u64) -> u32>,
    /// `onSubagentEnded`; pushes nothing.
    pub on_subagent_ended:
        Option<extern "C" fn(instance: *const u8, call: *const CallV1, args: *const SubagentEndedArgsV1) -> u32>,
    /// `onSessionEnded`; pushes nothing.
    pub on_session_ended:
        Option<extern "C" fn(instance: *const u8, call: *const CallV1, args: *const SessionEndedArgsV1) -> u32>,
    /// `tools`.
    pub tools: Option<extern "C" fn(instance: *const u8, call: *const CallV1, args: *const ToolsArgsV1) -> u32>,
    /// `callTool`.
    pub call_tool: Option<extern "C" fn(instance: *const u8, call: *const CallV1, args: *const CallToolArgsV1) -> u32>,
    /// `dispose`: the last call; frees the instance. No other call is running or follows.
    pub dispose: Option<extern "C" fn(instance: *const u8, call: *const CallV1) -> u32>,
}
