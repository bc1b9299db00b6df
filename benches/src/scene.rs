//! What the benches of single hooks call with.

use engine_abi::wire::{EntryHeadV1, entry_flags, role};
use engineroom::config::{Config, EntryConfig, Isolation};
use engineroom::slot::{EngineRef, LeaseRequest, NoServices, SegmentContext, SessionFacts, Slot};
use engineroom_tests::library_name;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A slot that the library `id` of the folder `built` serves, with its own plugins in `folder`. Within a runtime.
pub fn slot(built: &Path, folder: &Path, id: &str, isolation: Isolation) -> Arc<Slot> {
    let mut config = Config::defaults(folder.join("plugins.toml"));
    config.plugins.slots.context_engine = vec![id.to_owned()];
    config.plugins.entries.insert(id.to_owned(), EntryConfig { isolation, ..EntryConfig::default() });
    std::fs::create_dir(&config.plugins.dir).expect("a plugins folder");
    let library = config.plugins.dir.join(library_name(id));
    std::fs::copy(built.join(library_name(id)), &library).expect("the engine");
    std::fs::set_permissions(&library, std::fs::Permissions::from_mode(0o644)).expect("its mode");
    let slot = Slot::new(&config, tokio::runtime::Handle::current());
    let started = Arc::clone(&slot);
    std::thread::spawn(move || started.start(&(Arc::new(NoServices) as _))).join().expect("the slot starts");
    slot
}

/// The engine that serves in a slot, which must be `id`.
pub fn engine(slot: &Slot, id: &str) -> EngineRef {
    let lease = slot.lease(&LeaseRequest::turn("main", true)).expect("a lease");
    assert_eq!(lease.engine().id(), id, "{id} does not serve: {}", lease.reasons());
    lease.engine().clone()
}

/// Has all engines of a slot disposed, outside of the runtime.
pub fn dispose(slot: Arc<Slot>) {
    std::thread::spawn(move || slot.dispose_all(Duration::from_secs(60))).join().expect("the slot stops");
}

/// A session whose context may have 8,000 tokens, without services.
pub fn context() -> SegmentContext {
    let facts = SessionFacts { session_id: "bench".into(), token_budget: Some(8_000), ..SessionFacts::default() };
    SegmentContext::new(facts, Arc::new(NoServices))
}

/// One row of a history: users and assistants in turn, 40 tokens each.
pub fn head(id: u64) -> EntryHeadV1 {
    let user = id % 2 == 1;
    EntryHeadV1 {
        id,
        time_ms: 0,
        tokens: 40,
        role: if user { role::USER } else { role::ASSISTANT },
        flags: if user { entry_flags::TURN_START } else { 0 },
        text_bytes: 160,
    }
}
