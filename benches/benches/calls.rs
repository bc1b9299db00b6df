//! What the guard around a call of an engine costs, and how `window`'s assemble grows with the history.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a bench that cannot measure must stop; its result is what it prints"
)]

use engine_abi::testing::{Engine, Line};
use engine_abi::{
    AssembleRequest, Assembly, Commit, CompactRequest, Compaction, Context, ContextEngine, Entry, Factory, Info,
    Result, hooks,
};
use engineroom::compaction::View;
use engineroom::config::Config;
use engineroom::plugins::RawFactory;
use engineroom::slot::{AssembleInput, EntryRef, LeaseRequest, NoServices, Slot};
use engineroom::transcript::{Message, Role};
use engineroom::worker::{ProbeCommand, use_command};
use engineroom_benches::process::build;
use engineroom_benches::scene::{context, head};
use engineroom_benches::stats::Sample;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An engine that does nothing, so that what is measured is the way to it.
struct Quiet;

#[hooks]
impl ContextEngine for Quiet {
    type Config = serde::de::IgnoredAny;
    const COMMIT: Commit = Commit::Stateless;

    fn create(_: Self::Config, _: &Factory) -> Result<Self> {
        Ok(Quiet)
    }

    fn info(&self) -> Info {
        Info::new("quiet", "Quiet")
    }

    fn ingest(&self, _: &Context, _: &Entry) -> Result<bool> {
        Ok(true)
    }

    fn assemble(&self, _: &Context, request: &AssembleRequest) -> Result<Assembly> {
        Ok(Assembly::new().keep(request.history().heads()))
    }

    fn compact(&self, context: &Context, request: &CompactRequest) -> Result<Compaction> {
        Ok(context.delegate_compaction(request)?)
    }
}

const CALLS: usize = 100_000;
const BLOCKS: usize = 11;

#[tokio::main]
async fn main() {
    // `cargo test --benches` runs every bench with this flag; there is nothing to test here.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    let built = build();
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = Config::defaults(folder.path().join("plugins.toml"));
    config.plugins.slots.context_engine = vec!["quiet".into(), "window".into()];
    std::fs::create_dir(&config.plugins.dir).expect("a plugins folder");
    let name = format!("{}window{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let library = config.plugins.dir.join(&name);
    std::fs::copy(built.join(&name), &library).expect("the engine");
    std::fs::set_permissions(&library, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("its mode");
    use_command(ProbeCommand::new(built.join("engineroom")));

    let runtime = tokio::runtime::Handle::current();
    let slot = Slot::new(&config, runtime);
    slot.register("bench", "quiet", RawFactory(engine_abi::factory::<Quiet>()), "{}").expect("a free id");
    let started = Arc::clone(&slot);
    std::thread::spawn(move || started.start(&(Arc::new(NoServices) as _))).join().expect("the slot starts");

    calls(&slot).await;
    assemble(&slot).await;
}

/// The engine that serves under `id`.
fn engine(slot: &Slot, id: &str) -> engineroom::slot::EngineRef {
    let mut lease = slot.lease(&LeaseRequest::turn("main", true)).expect("a lease");
    while lease.engine().id() != id {
        lease.pass_over(engineroom::slot::DegradedCode::EngineDisabled, "not measured now").expect("a next candidate");
    }
    lease.engine().clone()
}

async fn calls(slot: &Slot) {
    let quiet = engine(slot, "quiet");
    let bare = Engine::new::<Quiet>("{}").expect("an engine");
    let line = Line::user(1, "a message of ordinary length, which nobody reads");
    let entry = EntryRef { head: head(1), message: Arc::new(Message::text_of(Role::User, line.text.clone())) };
    let per_call = |span: Duration| span.as_nanos() as f64 / CALLS as f64;
    let (mut direct, mut guarded, mut handed) = (Vec::new(), Vec::new(), Sample::default());
    for _ in 0..BLOCKS {
        let start = Instant::now();
        bare.ingest_times(&line, CALLS).expect("ingest");
        direct.push(per_call(start.elapsed()));

        let entry = entry.clone();
        let work = move |segment: &mut engineroom::slot::Segment| {
            let start = Instant::now();
            for _ in 0..CALLS {
                segment.ingest(&entry).expect("ingest");
            }
            start.elapsed()
        };
        guarded.push(per_call(quiet.segment(context(), work).await.expect("a segment")));

        for _ in 0..1_000 {
            let start = Instant::now();
            quiet.segment(context(), |_| ()).await.expect("a segment");
            handed.push(start.elapsed());
        }
    }
    let median = |list: &mut Vec<f64>| {
        list.sort_by(f64::total_cmp);
        list[list.len() / 2]
    };
    let (direct, guarded) = (median(&mut direct), median(&mut guarded));
    println!("one call, ingest of one entry, ns");
    println!("  bare, through the function table          {direct:>8.0}");
    println!(
        "  guarded, deadline armed, on the turn's own thread {guarded:>8.0}   {:.0} more (target: under 1,000)",
        guarded - direct
    );
    println!(
        "  the hand-off to that thread and back, p50 {:>8.0}   p99 {:.0}; once per segment, not per hook",
        handed.percentile(50.0) * 1e6,
        handed.percentile(99.0) * 1e6
    );
}

async fn assemble(slot: &Slot) {
    let window = engine(slot, "window");
    println!("window's assemble, guarded, budget of 8,000 tokens, µs");
    let mut base = None;
    for entries in [100_u64, 10_000, 100_000] {
        let body = Arc::new(Message::text_of(Role::User, "never read"));
        let view = Arc::new(View {
            heads: (1..=entries).map(head).collect(),
            bodies: (1..=entries).map(|_| Arc::clone(&body)).collect(),
            ..View::default()
        });
        let work = move |segment: &mut engineroom::slot::Segment| {
            let input = AssembleInput {
                len: view.heads.len(),
                view: Arc::clone(&view),
                prompt: None,
                system_tokens: 0,
                available_tools: Vec::new(),
                model: None,
                citations_mode: 0,
            };
            let mut sample = Sample::default();
            for _ in 0..2_000 {
                let start = Instant::now();
                segment.assemble(&input).expect("assemble");
                sample.push(start.elapsed());
            }
            sample
        };
        let sample = window.segment(context(), work).await.expect("a segment");
        let p50 = sample.percentile(50.0) * 1e3;
        let base = *base.get_or_insert(p50);
        println!(
            "  {entries:>7} entries   p50 {p50:>8.2}   p99 {:>8.2}   {:.2} times that at 100",
            sample.percentile(99.0) * 1e3,
            p50 / base
        );
    }
}
