//! One registered engine: its latch, its threads, its instances, its counters. Everything about a failure ends here.

use super::abandoned::{Abandoned, ENGINE_MAX};
use super::call::frame::Frame;
use super::call::guarded::Limits;
use super::call::host_table::HostTable;
use super::call::lend;
use super::engine::EngineInfo;
use super::failure::{DegradedCode, FailureKind, HookFailure};
use super::hook::{HOOKS, Hook};
use super::instance::Instance;
use super::instances::Instances;
use super::latch::{Latch, Quarantine, now_ms};
use super::pool::Pool;
use super::remote::Remote;
use super::stats::EngineStats;
use crate::config::Config;
use crate::diagnostic::Diagnostic;
use crate::ledger::{Sort, Watched};
use crate::observe::broken;
use crate::plugins::{Kind, RawFactory, RawMemoryFactory};
use crate::worker::MEMORY_LIMIT;
use engine_abi::wire::host_params;
use sha2::Digest;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The place of an end that no hook is accused of.
pub(super) const BETWEEN_CALLS: &str = "between calls";
/// How long work waits for a free thread of its engine.
pub(crate) const QUEUE_WAIT: Duration = Duration::from_secs(10);
/// How many service errors of one hook in a row latch the engine.
const SERVICE_ERRORS_MAX: u64 = 3;

/// Longest catch-up of an engine that goes on reading.
const BOOTSTRAP_MAX: Duration = Duration::from_secs(600);

/// Deadline of each hook.
#[derive(Debug, Clone)]
pub(crate) struct Deadlines {
    hooks: [Duration; HOOKS],
    /// How long `bootstrap` may take in all while it advances through the transcript.
    bootstrap_max: Duration,
}

impl Deadlines {
    /// The defaults, overridden by `[plugins.deadlines]`; `compact` takes the safety deadline of `[compaction]`, the longest
    /// of all agents': each turn shortens it to its own agent's.
    pub(crate) fn from_config(cfg: &Config) -> Deadlines {
        let agents = cfg.agents.values().filter_map(|agent| Some(agent.compaction.as_ref()?.timeout_ms));
        let compact = agents.fold(cfg.compaction.timeout_ms, u64::max);
        let compact = if broken("8.86") { u64::from(u16::MAX) } else { compact };
        Deadlines::new(&cfg.plugins.deadlines, Duration::from_millis(compact.max(1)))
    }

    /// The defaults, overridden by `configured`, which is keyed by hook; ms.
    pub(crate) fn new(configured: &BTreeMap<String, u64>, compact: Duration) -> Deadlines {
        let mut deadlines = Hook::ALL.map(Hook::default_deadline);
        deadlines[Hook::Compact.index()] = compact;
        for hook in Hook::ALL {
            if let Some(ms) = configured.get(hook.key()) {
                deadlines[hook.index()] = Duration::from_millis((*ms).max(1));
            }
        }
        let bootstrap_max = configured.get("bootstrap_max").map_or(BOOTSTRAP_MAX, |ms| Duration::from_millis(*ms));
        Deadlines { hooks: deadlines, bootstrap_max }
    }

    pub(crate) fn of(&self, hook: Hook) -> Duration {
        self.hooks[hook.index()]
    }

    fn shortest(&self) -> Duration {
        self.hooks.iter().copied().min().unwrap_or(QUEUE_WAIT)
    }
}

/// What makes instances.
#[derive(Clone)]
pub(crate) enum Factory {
    /// Of an engine.
    Engine(RawFactory),
    /// Of a memory provider, which is called, guarded and latched like an engine.
    Memory(RawMemoryFactory),
    /// Of either, in a process of its own.
    Worker(Arc<Remote>),
}

impl Factory {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Factory::Engine(_) => Kind::Engine,
            Factory::Memory(_) => Kind::Memory,
            Factory::Worker(remote) => remote.kind(),
        }
    }
}

/// What an engine or a memory provider is registered with.
pub(crate) struct Registered {
    pub(crate) id: String,
    pub(crate) owner: String,
    pub(crate) factory: Factory,
    pub(crate) config_json: String,
    pub(crate) grants: Vec<String>,
    pub(crate) host: HostTable,
    /// Linked statically and trusted: runs inline and is never quarantined.
    pub(crate) core: bool,
    /// Most instances that stay.
    pub(crate) instances: usize,
    /// The process's count of threads that were given up.
    pub(crate) abandoned: Arc<Abandoned>,
}

/// Says which engine serves instead of one that is out.
pub(crate) type Successor = Box<dyn Fn(&str) -> String + Send + Sync>;

/// See the module.
pub(crate) struct EngineCore {
    pub(crate) id: String,
    pub(crate) owner: String,
    pub(crate) factory: Factory,
    /// Name of its part of the engines' store.
    store_name: String,
    pub(crate) config_json: String,
    pub(crate) grants: Vec<String>,
    pub(crate) host: HostTable,
    pub(crate) inline: bool,
    /// Who it is in the crash ledger.
    pub(crate) watched: Watched,
    pub(crate) latch: Latch,
    pub(crate) stats: EngineStats,
    pub(crate) pool: Pool,
    abandoned: Arc<Abandoned>,
    pub(crate) absent: Arc<AtomicU32>,
    pub(crate) closing: AtomicBool,
    first: OnceLock<Arc<Instance>>,
    pub(crate) instances: Instances,
    deadlines: Deadlines,
    state_dir: PathBuf,
    /// Keeps watch over hooks whose caller has gone.
    pub(crate) runtime: Option<tokio::runtime::Handle>,
    successor: Successor,
}

impl EngineCore {
    pub(crate) fn new(
        registered: Registered,
        deadlines: &Deadlines,
        state_dir: &Path,
        runtime: Option<tokio::runtime::Handle>,
        successor: Successor,
    ) -> Arc<EngineCore> {
        let deadlines = deadlines.clone();
        Arc::new(EngineCore {
            pool: Pool::new(&registered.id),
            abandoned: registered.abandoned,
            // Ids of providers are a namespace of their own, and a colon is in no id.
            store_name: match registered.factory.kind() {
                Kind::Engine => registered.id.clone(),
                Kind::Memory => format!("memory:{}", registered.id),
            },
            watched: match &registered.factory {
                // As trusted as the gateway itself.
                _ if registered.core => Watched::NOBODY,
                // Its crash is told by the end of its process, and is not the gateway's.
                Factory::Worker(_) => Watched::NOBODY,
                Factory::Engine(_) => Watched::new(Sort::Engine, &registered.id, &registered.owner),
                Factory::Memory(_) => Watched::new(Sort::Memory, &registered.id, &registered.owner),
            },
            id: registered.id,
            owner: registered.owner,
            factory: registered.factory,
            config_json: registered.config_json,
            grants: registered.grants,
            host: registered.host,
            inline: registered.core,
            latch: Latch::default(),
            stats: EngineStats::default(),
            absent: Arc::default(),
            closing: AtomicBool::new(false),
            first: OnceLock::new(),
            instances: Instances::new(registered.instances),
            deadlines,
            state_dir: state_dir.to_owned(),
            runtime,
            successor,
        })
    }

    /// `info` of the first instance.
    pub(crate) fn info(&self) -> Option<&Arc<EngineInfo>> {
        self.first.get().map(|instance| &instance.info)
    }

    /// True when the engine has the hook; false before its first instance is there.
    pub(crate) fn has(&self, hook: Hook) -> bool {
        self.first.get().is_some_and(|instance| instance.has(hook))
    }

    pub(crate) fn deadline(&self, hook: Hook) -> Duration {
        self.deadlines.of(hook)
    }

    /// The shortest deadline that a call may have under this cap.
    pub(crate) fn shortest_deadline(&self, cap: Option<Duration>) -> Duration {
        cap.map_or(self.deadlines.shortest(), |cap| cap.min(self.deadlines.shortest())).max(Duration::from_millis(1))
    }

    /// The running `bootstrap` has read further than before: from here it has its whole deadline again, up to the cap.
    pub(crate) fn advanced(&self, frame: &Frame) {
        let most = frame.began() + self.deadlines.bootstrap_max;
        frame.extend(most.min(Instant::now() + self.deadline(Hook::Bootstrap)));
    }

    /// True when the hook is shown the caller's cancel signal.
    pub(crate) fn sees_cancel(&self, hook: Hook) -> bool {
        let accepted = self.info().map_or(host_params::ALL, |info| info.accepted_host_params);
        lend::params(hook, accepted) & host_params::ABORT_SIGNAL != 0
    }

    /// What it is.
    pub(crate) fn kind(&self) -> Kind {
        self.factory.kind()
    }

    pub(crate) fn store_name(&self) -> &str {
        &self.store_name
    }

    /// Its private folder for one agent.
    pub(crate) fn state_dir(&self, agent: &str) -> PathBuf {
        state_root(&self.state_dir, self.kind(), &self.id).join(folder_name(agent))
    }

    /// The worker that serves it, where one does.
    pub(crate) fn remote(&self) -> Option<&Arc<Remote>> {
        match &self.factory {
            Factory::Worker(remote) => Some(remote),
            Factory::Engine(_) | Factory::Memory(_) => None,
        }
    }

    /// The process that served it is gone. Final, whatever hook it was, and a look or not.
    pub(crate) fn crashed(&self, hook: Hook, reason: String) -> HookFailure {
        if self.closing.load(Ordering::Acquire) {
            return self.not_made(hook, FailureKind::Busy, "the gateway is stopping");
        }
        // Ended because of an earlier failure: that one is the cause.
        if let Some(failure) = self.out(hook) {
            return failure;
        }
        self.stats.failed(hook, FailureKind::Crashed);
        self.lost(hook, hook.name(), reason)
    }

    /// The same when its worker was ended from outside while no call ran: no hook did it, and none failed.
    pub(crate) fn killed_between_calls(&self, last: Hook, reason: String) {
        if !self.closing.load(Ordering::Acquire) && self.out(last).is_none() {
            self.lost(last, BETWEEN_CALLS, reason);
        }
    }

    fn lost(&self, hook: Hook, at: &str, reason: String) -> HookFailure {
        let failure = HookFailure {
            engine: self.id.clone(),
            hook,
            kind: FailureKind::Crashed,
            reason,
            causes: Vec::new(),
            code: DegradedCode::EngineCrashed,
            quarantined: true,
        };
        self.latch(&failure, at, Limits::default());
        failure
    }

    /// The agent's folder, where there is one.
    pub(crate) fn agent_dir(&self, agent: &str) -> Option<PathBuf> {
        let dir = self.state_dir.join("agents").join(folder_name(agent));
        dir.is_dir().then_some(dir)
    }

    /// An instance was made: the first one says what the engine is.
    pub(crate) fn met(&self, instance: &Arc<Instance>) {
        let _ = self.first.set(Arc::clone(instance));
    }

    /// The failure of a call that is not made because the engine is out.
    pub(crate) fn out(&self, hook: Hook) -> Option<HookFailure> {
        let record = self.latch.get().filter(|_| !broken("8.23"))?;
        Some(HookFailure {
            engine: self.id.clone(),
            hook,
            kind: FailureKind::Quarantined,
            reason: format!("it is out since it failed in {}: {}", record.at, record.reason),
            causes: record.causes.clone(),
            code: record.later_code(),
            quarantined: true,
        })
    }

    /// The failure of a call that is not the engine's fault.
    pub(crate) fn not_made(&self, hook: Hook, kind: FailureKind, reason: &str) -> HookFailure {
        let code = match kind {
            FailureKind::Deadline | FailureKind::Busy => DegradedCode::Deadline,
            _ => DegradedCode::EngineQuarantined,
        };
        HookFailure {
            engine: self.id.clone(),
            hook,
            kind,
            reason: reason.to_owned(),
            causes: Vec::new(),
            code,
            quarantined: self.latch.get().is_some(),
        }
    }

    /// A call that was only a look failed: nothing comes of it.
    pub(crate) fn seen_failing(&self, hook: Hook, kind: FailureKind, reason: String) -> HookFailure {
        let code = code_of(hook, kind);
        HookFailure { engine: self.id.clone(), hook, kind, reason, causes: Vec::new(), code, quarantined: false }
    }

    /// A call failed: counted, latched where the contract says so, and told.
    pub(crate) fn failed(&self, hook: Hook, kind: FailureKind, reason: String, causes: Vec<String>) -> HookFailure {
        self.fail(hook, kind, reason, causes, Limits::default())
    }

    fn fail(&self, hook: Hook, kind: FailureKind, reason: String, causes: Vec<String>, limits: Limits) -> HookFailure {
        let row = self.stats.failed(hook, kind);
        let code = code_of(hook, kind);
        let mut failure = HookFailure { engine: self.id.clone(), hook, kind, reason, causes, code, quarantined: false };
        let forgiven = kind == FailureKind::Service && row < SERVICE_ERRORS_MAX && hook != Hook::Factory;
        let forgiven = forgiven || broken("8.35") && hook == Hook::Assemble;
        if self.inline && !broken("8.29") || forgiven || hook == Hook::Dispose {
            let stays = if self.closing.load(Ordering::Acquire) { "" } else { "; the engine stays in service" };
            tracing::warn!(engine = %self.id, hook = %hook, code = %code, "{failure}{stays}");
            return failure;
        }
        if kind == FailureKind::Service {
            failure.reason = format!("{} (the {row}rd service error of this hook in a row)", failure.reason);
        }
        self.latch(&failure, hook.name(), limits);
        failure.quarantined = true;
        failure
    }

    /// A call took longer than it may.
    pub(crate) fn late(&self, hook: Hook, reason: String, limits: Limits) -> HookFailure {
        self.fail(hook, FailureKind::Deadline, reason, Vec::new(), limits)
    }

    /// The contract check found these problems.
    pub(crate) fn breaks_contract(&self, problems: &[String]) -> HookFailure {
        let mut failure = HookFailure {
            engine: self.id.clone(),
            hook: Hook::Info,
            kind: FailureKind::InvalidResult,
            reason: format!("the contract check failed: {}", problems.join(", ")),
            causes: Vec::new(),
            code: DegradedCode::EngineRefused,
            quarantined: false,
        };
        self.stats.failed(Hook::Info, FailureKind::InvalidResult);
        if !self.inline {
            self.latch(&failure, "contract check", Limits::default());
            failure.quarantined = true;
        }
        failure
    }

    fn latch(&self, failure: &HookFailure, at: &str, limits: Limits) {
        let hint = match failure.kind {
            FailureKind::Deadline => format!(
                "raise `{}{}_ms` in [plugins.deadlines] (now {}), or mend the engine; then restart the gateway",
                if limits.instead.is_some() { "background_" } else { "" },
                failure.hook.key(),
                limits.instead.unwrap_or_else(|| self.deadline(failure.hook)).as_millis()
            ),
            FailureKind::Crashed if at == BETWEEN_CALLS => format!(
                "restart the gateway; if the machine was short of memory, lower plugins.entries.{}.limits.memory_mb, or mend \
                 the engine",
                self.owner
            ),
            FailureKind::Crashed if failure.reason.contains(MEMORY_LIMIT) => {
                format!(
                    "raise plugins.entries.{}.{MEMORY_LIMIT}, or mend the engine; then restart the gateway",
                    self.owner
                )
            }
            _ => failure.hint().unwrap_or_default(),
        };
        self.latch.set(Quarantine {
            kind: self.kind(),
            engine: self.id.clone(),
            owner: self.owner.clone(),
            at: at.to_owned(),
            code: failure.code,
            diagnostic: Diagnostic::code(failure),
            reason: failure.reason.clone(),
            causes: failure.causes.clone(),
            when_ms: now_ms(),
            hint,
            serves: match self.kind() {
                // The chain of the other slot has nothing to do with it, even where an engine has the same id.
                Kind::Memory => "none".into(),
                Kind::Engine => (self.successor)(&self.id),
            },
        });
        // What is out is not called any more, so nobody would notice what its process does.
        if let Some(remote) = self.remote() {
            remote.end(&format!("it is out: {}", failure.reason));
        }
    }

    /// The waiting side has given up the running call: counted, latched, and its thread replaced.
    pub(crate) fn gave_up(&self, hook: Hook, had: Duration, limits: Limits) -> HookFailure {
        self.stats.abandoned.fetch_add(1, Ordering::Relaxed);
        self.stats.abandoned_live.fetch_add(1, Ordering::Relaxed);
        self.pool.give_up();
        self.abandoned.more(1);
        let what = match self.remote() {
            Some(_) => ", and its worker is ended",
            None => " and was abandoned with its thread",
        };
        let reason = format!("it did not return within its deadline of {} ms{what}", had.as_millis());
        self.late(hook, reason, limits)
    }

    /// Why it may not be called although it is not out: too many threads never came back from it, or from all engines.
    pub(crate) fn spent(&self) -> Option<String> {
        // The threads of a worker's calls come back with its end.
        if self.inline || self.remote().is_some() {
            return None;
        }
        let own = || {
            let reason = format!(
                "{ENGINE_MAX} of its threads or more are inside of calls that never came back: a restart is due"
            );
            self.pool.is_spent().then_some(reason)
        };
        self.abandoned.full().or_else(own)
    }

    /// A given-up call has returned after all.
    pub(crate) fn came_back(&self, hook: Hook) {
        self.stats.abandoned_live.fetch_sub(1, Ordering::Relaxed);
        self.pool.came_back();
        self.abandoned.fewer();
        tracing::warn!(engine = %self.id, hook = %hook, "an abandoned call returned; its result was dropped");
    }
}

impl std::fmt::Debug for EngineCore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineCore").field("id", &self.id).field("owner", &self.owner).finish_non_exhaustive()
    }
}

/// The degraded code of a failure.
fn code_of(hook: Hook, kind: FailureKind) -> DegradedCode {
    match (hook, kind) {
        (_, FailureKind::Crashed) => DegradedCode::EngineCrashed,
        // Both are stages of the way of a library.
        (Hook::Factory | Hook::Info, _) => DegradedCode::EngineRefused,
        (_, FailureKind::Deadline) => DegradedCode::Deadline,
        (_, FailureKind::InvalidResult) => DegradedCode::InvalidResult,
        (_, FailureKind::Service) => DegradedCode::ServiceError,
        _ => DegradedCode::EngineQuarantined,
    }
}

/// The folder of an engine's or memory provider's state, for all agents.
pub(crate) fn state_root(state_dir: &Path, kind: Kind, id: &str) -> PathBuf {
    let kind = match kind {
        Kind::Engine => "engines",
        Kind::Memory => "memory",
    };
    state_dir.join(kind).join(folder_name(id))
}

/// Longest name of a folder; systems take 255 bytes, and a name that they do not take would be held against the engine.
const LONGEST_FOLDER: usize = 150;

/// A name that is safe as one folder's: other bytes than letters, digits, `-` and `_` are written as `%XX`; of a long one the
/// end is replaced by a hash of the whole, since a client may have chosen it. Different names never share a folder.
pub(super) fn folder_name(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    if out.len() > LONGEST_FOLDER {
        let digest = sha2::Sha256::digest(name.as_bytes());
        // No escape begins like this, so no short name is spelled the same.
        out.truncate(LONGEST_FOLDER - 66);
        out.push_str("%h");
        digest.iter().for_each(|byte| out.push_str(&format!("{byte:02x}")));
    }
    if out.is_empty() { "%".into() } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_name_cannot_leave_its_folder() {
        assert_eq!(folder_name("window"), "window");
        assert_eq!(folder_name("../../etc"), "%2E%2E%2F%2E%2E%2Fetc");
        assert_eq!(folder_name(""), "%");
        assert_ne!(folder_name("a/b"), folder_name("a%2Fb"));
        let long = |end: &str| folder_name(&format!("{}{end}", "ö/".repeat(200)));
        assert_eq!(long("a").len(), LONGEST_FOLDER);
        assert_ne!(long("a"), long("b"));
        for odd in ["NUL", "con.txt", "a\0b", "%2e%2e", ".", "..", "~", "-", " ", "a\\b", "C:", "\u{202e}x", "é"] {
            let folder = folder_name(odd);
            assert!(!folder.contains(['/', '\\', '\0', '.', ':', '~', ' ']) && folder.is_ascii(), "{odd}: {folder}");
        }
    }

    proptest::proptest! {
        #[test]
        fn every_name_is_one_folder_and_no_two_share_it(one in ".{0,600}", two in ".{0,600}") {
            let (first, second) = (folder_name(&one), folder_name(&two));
            proptest::prop_assert!(first.len() <= LONGEST_FOLDER && !first.is_empty());
            proptest::prop_assert!(first.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_%".contains(&byte)));
            proptest::prop_assert_eq!(one == two, first == second);
        }
    }

    #[test]
    fn configured_deadlines_replace_the_defaults() {
        let mut cfg = Config::defaults("plugins.toml".into());
        cfg.plugins.deadlines.insert("assemble".into(), 50);
        cfg.plugins.deadlines.insert("commit_turn".into(), 70);
        cfg.compaction.timeout_ms = 1_234;
        let deadlines = Deadlines::from_config(&cfg);
        assert_eq!(deadlines.of(Hook::Assemble), Duration::from_millis(50));
        assert_eq!(deadlines.of(Hook::CommitTurn), Duration::from_millis(70));
        assert_eq!(deadlines.of(Hook::Compact), Duration::from_millis(1_234));
        assert_eq!(deadlines.of(Hook::Bootstrap), Hook::Bootstrap.default_deadline());
        assert_eq!(deadlines.shortest(), Duration::from_millis(50));
    }
}
