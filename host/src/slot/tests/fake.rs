//! An engine on the bare wire whose hooks are closures of a test.

use crate::plugins::RawFactory;
use crate::slot::*;
use engine_abi::wire::{status, *};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The arguments of the running hook.
pub enum Args {
    None,
    Session(*const SessionV1),
    Assemble(*const AssembleArgsV1),
    Compact(*const CompactArgsV1),
    Entries(EntryList),
}

/// One call as a closure sees it.
pub struct Called<'a> {
    pub call: &'a CallV1,
    pub args: Args,
}

impl Called<'_> {
    pub fn sink(&self) -> &SinkV1 {
        // SAFETY: the host's sinks live for ever.
        unsafe { &*self.call.sink }
    }

    pub fn fail(&self, message: &str, token: u64) -> u32 {
        (self.sink().fail)(self.call.frame, Str::new(message), token);
        status::ERROR
    }

    pub fn span(&self, first: u64, last: u64) -> u32 {
        (self.sink().spans)(self.call.frame, &SpanV1 { first, last }, 1)
    }

    pub fn message(&self, role: u32, text: Str, answers: Str, calls: &[ToolCallV1]) -> u32 {
        let message = MessageV1 {
            role,
            reserved: 0,
            text,
            tool_call_id: answers,
            name: Str::NONE,
            tool_calls: calls.as_ptr(),
            tool_calls_len: calls.len(),
        };
        (self.sink().message)(self.call.frame, &raw const message)
    }

    pub fn assembled(&self) -> u32 {
        self.assembled_with(ASSEMBLED)
    }

    pub fn assembled_with(&self, result: AssembleResultV1) -> u32 {
        (self.sink().assemble)(self.call.frame, &raw const result)
    }

    pub fn cancelled(&self) -> bool {
        (self.call.cancelled)(self.call.frame) != 0
    }

    pub fn session(&self) -> SessionV1 {
        // SAFETY: the arguments are lent for the duration of the hook, in which a `Called` lives.
        unsafe {
            match self.args {
                Args::Session(session) => *session,
                Args::Assemble(args) => *(*args).session,
                Args::Compact(args) => *(*args).session,
                _ => panic!("this hook has no session here"),
            }
        }
    }

    pub fn assemble_args(&self) -> AssembleArgsV1 {
        let Args::Assemble(args) = self.args else { panic!("not assemble") };
        // SAFETY: as above.
        unsafe { *args }
    }

    /// Asks the store for a key: what the host answers, and the token of its error.
    pub fn store_get(&self) -> (u32, u64) {
        let mut out = Bytes::NONE;
        // SAFETY: the host's table lives for ever, and so does the store's table, whose id says its type.
        unsafe {
            let host = &*self.call.host;
            let table = (host.service)(self.call.host, Str::new(service::STORE)).table.cast::<StoreV1>();
            let answer = ((*table).get)(self.call.frame, 1, Bytes::new(b"key"), &raw mut out);
            (answer, (host.last_error)(self.call.frame, std::ptr::null_mut()))
        }
    }
}

pub const ASSEMBLED: AssembleResultV1 = AssembleResultV1 {
    estimated_tokens: 1,
    system_prompt_addition: Str::NONE,
    volatile_prompt_addition: Str::NONE,
    prompt_authority: prompt_authority::ASSEMBLED,
    projection_mode: projection_mode::PER_TURN,
    projection_epoch: Str::NONE,
    projection_fingerprint: Str::NONE,
};

pub type Act = Arc<dyn Fn(&Called<'_>) -> u32 + Send + Sync>;

/// See the module.
pub struct Fake {
    pub id: &'static str,
    pub name: &'static str,
    pub accepts: u32,
    pub semantics: u32,
    pub requires: u32,
    pub without: &'static [Hook],
    pub acts: Mutex<HashMap<Hook, Act>>,
    pub created: AtomicUsize,
    pub disposed: AtomicUsize,
}

impl Fake {
    /// A durable engine that shows everything.
    pub fn new() -> Fake {
        Fake {
            id: "fake",
            name: "Fake",
            accepts: host_params::ALL,
            semantics: semantics::DURABLE,
            requires: 0,
            without: &[],
            acts: Mutex::default(),
            created: AtomicUsize::new(0),
            disposed: AtomicUsize::new(0),
        }
    }

    /// What a hook does.
    pub fn on(self, hook: Hook, act: impl Fn(&Called<'_>) -> u32 + Send + Sync + 'static) -> Fake {
        self.acts.lock().unwrap().insert(hook, Arc::new(act));
        self
    }

    /// A factory of instances that all behave like this; leaked like a library.
    pub fn factory(self) -> (&'static Fake, RawFactory) {
        let fake: &'static Fake = Box::leak(Box::new(self));
        (fake, RawFactory(FactoryV1 { tag: std::ptr::from_ref(fake).cast(), create }))
    }

    fn act(&self, hook: Hook, called: &Called<'_>) -> u32 {
        let act = self.acts.lock().unwrap().get(&hook).cloned();
        match act {
            Some(act) => act(called),
            None => well(hook, called),
        }
    }
}

/// What a well-behaved engine does.
fn well(hook: Hook, called: &Called<'_>) -> u32 {
    let (frame, sink) = (called.call.frame, called.sink());
    match hook {
        Hook::Assemble => {
            let args = called.assemble_args();
            if args.entries_len > 0 {
                // SAFETY: the array is lent for the duration of the hook.
                let heads = unsafe { std::slice::from_raw_parts(args.entries, args.entries_len) };
                called.span(heads[0].id, heads[heads.len() - 1].id);
            }
            called.assembled()
        }
        Hook::Bootstrap => {
            let result = BootstrapResultV1 { bootstrapped: 1, reserved: 0, imported_messages: 0, reason: Str::NONE };
            (sink.bootstrap)(frame, &raw const result)
        }
        Hook::CommitTurn => (sink.commit)(frame, &CommitResultV1 { status: commit_status::COMMITTED, reserved: 0 }),
        Hook::Ingest | Hook::IngestBatch => {
            let Args::Entries(entries) = &called.args else { panic!("no entries") };
            (sink.ingest)(frame, &IngestResultV1 { ingested_count: entries.len as u64 })
        }
        Hook::Compact => compacted(called, 0),
        _ => status::OK,
    }
}

pub fn compacted(called: &Called<'_>, first_kept: u64) -> u32 {
    let result = CompactResultV1 {
        ok: 1,
        compacted: 0,
        reason: Str::NONE,
        summary: Str::NONE,
        first_kept_entry_id: first_kept,
        tokens_before: NONE_U64,
        tokens_after: NONE_U64,
        details_json: Str::NONE,
        successor_session_id: Str::NONE,
        successor_target: std::ptr::null(),
    };
    (called.sink().compact)(called.call.frame, &raw const result)
}

fn fake<'a>(instance: *const u8) -> &'a Fake {
    // SAFETY: every tag and instance is a leaked `Fake`.
    unsafe { &*instance.cast::<Fake>() }
}

fn run(hook: Hook, instance: *const u8, call: *const CallV1, args: Args) -> u32 {
    // SAFETY: the call is lent for the duration of the hook.
    fake(instance).act(hook, &Called { call: unsafe { &*call }, args })
}

extern "C" fn create(tag: *const u8, context: *const FactoryContextV1, out: *mut InstanceV1) -> u32 {
    let fake = fake(tag);
    fake.created.fetch_add(1, Ordering::SeqCst);
    // SAFETY: the context is lent for the duration of the call.
    let context = unsafe { &*context };
    assert!(std::path::Path::new(&text(context.state_dir)).is_dir(), "the state folder exists");
    let act = fake.acts.lock().unwrap().get(&Hook::Factory).cloned();
    if let Some(act) = act {
        // The factory has no call of its own: closures here use nothing of it but `fail`.
        let frame = context.frame;
        let call = CallV1 {
            frame,
            sink: &raw const crate::slot::call::border::SINK,
            host: context.host,
            entry: no_entry,
            cancelled: not_cancelled,
            remaining_ms: no_time,
        };
        let answer = act(&Called { call: &call, args: Args::None });
        if answer != status::OK {
            return answer;
        }
    }
    let has = |hook: Hook| !fake.without.contains(&hook);
    let table = Box::leak(Box::new(EngineV1 {
        info: Some(info),
        bootstrap: has(Hook::Bootstrap).then_some(bootstrap),
        maintain: None,
        ingest: has(Hook::Ingest).then_some(ingest),
        ingest_batch: has(Hook::IngestBatch).then_some(ingest_batch),
        after_turn: has(Hook::AfterTurn).then_some(after_turn),
        commit_turn: has(Hook::CommitTurn).then_some(commit),
        assemble: has(Hook::Assemble).then_some(assemble),
        compact: has(Hook::Compact).then_some(compact),
        prepare_subagent_spawn: None,
        rollback_subagent_spawn: None,
        on_subagent_ended: None,
        on_session_ended: None,
        tools: Some(tools),
        call_tool: None,
        dispose: Some(dispose),
    }));
    // SAFETY: `out` is writable during the call.
    unsafe { out.write(InstanceV1 { table, instance: tag }) };
    status::OK
}

extern "C" fn no_entry(_: *const FrameV1, _: usize, _: *mut EntryV1) -> u32 {
    status::NOT_FOUND
}

extern "C" fn not_cancelled(_: *const FrameV1) -> u32 {
    0
}

extern "C" fn no_time(_: *const FrameV1) -> u64 {
    0
}

extern "C" fn info(instance: *const u8, call: *const CallV1) -> u32 {
    let fake = fake(instance);
    if fake.acts.lock().unwrap().contains_key(&Hook::Info) {
        return run(Hook::Info, instance, call, Args::None);
    }
    let requirement = HostRequirementV1 {
        operation: operation::AGENT_RUN,
        required_capabilities: fake.requires,
        unsupported_message: Str::new("not here"),
    };
    let info = InfoV1 {
        id: Str::new(fake.id),
        name: Str::new(fake.name),
        version: Str::NONE,
        owns_compaction: 0,
        turn_maintenance_mode: maintenance_mode::FOREGROUND,
        accepted_host_params: fake.accepts,
        transcript_semantics: fake.semantics,
        host_requirements: &raw const requirement,
        host_requirements_len: 1,
    };
    // SAFETY: the call and its sinks are valid during the hook.
    unsafe { ((*(*call).sink).info)((*call).frame, &raw const info) }
}

extern "C" fn bootstrap(instance: *const u8, call: *const CallV1, args: *const BootstrapArgsV1) -> u32 {
    // SAFETY: the arguments are lent for the duration of the hook; so below.
    run(Hook::Bootstrap, instance, call, Args::Session(unsafe { (*args).session }))
}

extern "C" fn ingest(instance: *const u8, call: *const CallV1, args: *const IngestArgsV1) -> u32 {
    // SAFETY: as above.
    run(Hook::Ingest, instance, call, Args::Entries(unsafe { (*args).entries }))
}

extern "C" fn ingest_batch(instance: *const u8, call: *const CallV1, args: *const IngestArgsV1) -> u32 {
    // SAFETY: as above.
    run(Hook::IngestBatch, instance, call, Args::Entries(unsafe { (*args).entries }))
}

extern "C" fn after_turn(instance: *const u8, call: *const CallV1, args: *const AfterTurnArgsV1) -> u32 {
    // SAFETY: as above.
    run(Hook::AfterTurn, instance, call, Args::Entries(unsafe { (*args).entries }))
}

extern "C" fn commit(instance: *const u8, call: *const CallV1, args: *const CommitTurnArgsV1) -> u32 {
    // SAFETY: as above.
    run(Hook::CommitTurn, instance, call, Args::Entries(unsafe { (*args).entries }))
}

extern "C" fn assemble(instance: *const u8, call: *const CallV1, args: *const AssembleArgsV1) -> u32 {
    run(Hook::Assemble, instance, call, Args::Assemble(args))
}

extern "C" fn compact(instance: *const u8, call: *const CallV1, args: *const CompactArgsV1) -> u32 {
    run(Hook::Compact, instance, call, Args::Compact(args))
}

extern "C" fn tools(instance: *const u8, call: *const CallV1, args: *const ToolsArgsV1) -> u32 {
    // SAFETY: as above.
    run(Hook::Tools, instance, call, Args::Session(unsafe { (*args).session }))
}

extern "C" fn dispose(instance: *const u8, call: *const CallV1) -> u32 {
    fake(instance).disposed.fetch_add(1, Ordering::SeqCst);
    run(Hook::Dispose, instance, call, Args::None)
}

/// A text that the host lends.
pub fn text(text: Str) -> String {
    if text.is_none() {
        return String::new();
    }
    // SAFETY: the host lends valid UTF-8.
    unsafe { String::from_utf8(std::slice::from_raw_parts(text.ptr, text.len).to_vec()).unwrap() }
}
