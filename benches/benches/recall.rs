//! What `recall` costs: taking messages in, assembling a prompt, holding the index, and making it again, over sessions of
//! growing length. Beside each stands the figure of the best engine of the original's, as it was measured once on such a
//! machine: a ratio to compare by, not a rival in this run.
#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a bench that cannot measure must stop; its result is what it prints"
)]

use engine_abi::wire::{EntryHeadV1, entry_flags, role};
use engineroom::compaction::View;
use engineroom::config::Isolation;
use engineroom::model::{OFFLINE_MODEL, TokenCounter};
use engineroom::slot::{AssembleInput, EngineRef, EntryRef, PromptInput, Segment, SegmentContext, SessionFacts};
use engineroom::transcript::{Message, Role};
use engineroom::worker::{ProbeCommand, use_command};
use engineroom_benches::kept::Kept;
use engineroom_benches::process::build_with;
use engineroom_benches::scene::{dispose, engine, slot};
use engineroom_benches::stats::Sample;
use std::sync::Arc;
use std::time::Instant;

/// Messages of the session at each measurement, and what the other engine takes to assemble there, in ms.
const SIZES: [(usize, Option<f64>); 4] =
    [(1_000, Some(68.0)), (5_000, Some(308.0)), (20_000, Some(1_093.0)), (100_000, None)];
/// What the other engine takes to ingest one message, in µs.
const OTHER_INGEST: f64 = 440.0;
/// Messages of one `ingestBatch`.
const BATCH: usize = 100;
/// Prompts that are assembled at each size.
const PROMPTS: usize = 41;
/// Tokens that the engine's answer may cost.
const BUDGET: u64 = 8_000;
/// A day of the year 2026, in ms since the epoch; a message a minute follows.
const START_MS: i64 = 1_767_225_600_000;

fn main() {
    // `cargo test --benches` runs every bench with this flag; there is nothing to test here.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let built = build_with("engine-recall");
    use_command(ProbeCommand::new(built.join("engineroom")));
    let folder = tempfile::tempdir().expect("a folder");
    let kept = Arc::new(Kept::new(&folder.path().join("kept.sqlite")));
    let scene = Scene { kept, view: said(SIZES[SIZES.len() - 1].0) };
    {
        let _inside = runtime.enter();
        for (name, measure) in [("first", grown as fn(&Scene, &EngineRef)), ("again", again)] {
            let folder = folder.path().join(name);
            std::fs::create_dir(&folder).expect("a folder");
            let slot = slot(&built, &folder, "recall", Isolation::InProcess);
            measure(&scene, &engine(&slot, "recall"));
            dispose(slot);
        }
    }
}

struct Scene {
    kept: Arc<Kept>,
    view: Vec<EntryRef>,
}

impl Scene {
    fn run<T: Send + 'static>(&self, engine: &EngineRef, work: impl FnOnce(&mut Segment) -> T + Send + 'static) -> T {
        let facts = SessionFacts { session_id: "bench".into(), token_budget: Some(BUDGET), ..SessionFacts::default() };
        let context = SegmentContext::new(facts, Arc::clone(&self.kept) as _);
        engine.segment_blocking(context, work).expect("a segment")
    }

    /// The projected history of the first `len` messages.
    fn history(&self, len: usize) -> Arc<View> {
        let (heads, bodies) = self.view[..len].iter().map(|entry| (entry.head, Arc::clone(&entry.message))).unzip();
        Arc::new(View { heads, bodies, ..View::default() })
    }
}

/// A session grows; at each size prompts are assembled over it.
fn grown(scene: &Scene, engine: &EngineRef) {
    println!(
        "a session of messages of about 100 tokens, the answer in {BUDGET} tokens; µs and ms with hand-off and store"
    );
    let mut taken = 0;
    let mut resident = resident_bytes();
    for (size, other) in SIZES {
        let mut ingests = Sample::default();
        for batch in scene.view[taken..size].chunks(BATCH) {
            let (batch, len) = (batch.to_vec(), batch.len());
            let start = Instant::now();
            let new = scene.run(engine, move |segment| segment.ingest_batch(&batch).expect("ingestBatch"));
            ingests.push(start.elapsed() / u32::try_from(len).expect("a small batch"));
            assert_eq!(new, Some(len as u64), "every message is new");
        }
        let now = resident_bytes();
        let index = (now.saturating_sub(resident)) / (size - taken) as u64;
        taken = size;
        let assembles = assemble(scene, engine, size);
        println!(
            "{size:>7} messages: ingest p50 {:>6.1} µs a message ({:.0} times faster), assemble p50 {:>6.2} p99 {:>6.2} ms{}",
            ingests.percentile(50.0) * 1e3,
            OTHER_INGEST / (ingests.percentile(50.0) * 1e3),
            assembles.percentile(50.0),
            assembles.percentile(99.0),
            other
                .map_or_else(String::new, |other| format!(" ({:.0} times faster)", other / assembles.percentile(50.0))),
        );
        println!(
            "                  resident growth {index} bytes a message, stored {} bytes a message",
            scene.kept.bytes() / size as u64
        );
        // What assembling took stays with the allocator and is no index.
        resident = resident_bytes();
    }
}

/// Another instance finds the store only, and makes its index again.
fn again(scene: &Scene, engine: &EngineRef) {
    let (size, _) = SIZES[SIZES.len() - 1];
    let start = Instant::now();
    scene.run(engine, |segment| segment.bootstrap().map(drop).expect("bootstrap"));
    let bootstrapped = start.elapsed();
    let assembles = assemble(scene, engine, size);
    println!(
        "{size:>7} messages, index made again from the store: {:.2} s (target: under 5), then assemble p50 {:.2} ms",
        bootstrapped.as_secs_f64(),
        assembles.percentile(50.0)
    );
}

fn assemble(scene: &Scene, engine: &EngineRef, size: usize) -> Sample {
    let view = scene.history(size);
    let mut sample = Sample::default();
    let mut words = Words::new(size as u64);
    for number in 0..PROMPTS + 1 {
        let text = words.text(12);
        let input = AssembleInput {
            view: Arc::clone(&view),
            len: size,
            prompt: Some(PromptInput {
                entry_id: (size + 1 + number) as u64,
                tokens: 20,
                message: Arc::new(Message::text_of(Role::User, text)),
            }),
            system_tokens: 0,
            available_tools: Vec::new(),
            model: None,
            citations_mode: 0,
        };
        let start = Instant::now();
        let output = scene.run(engine, move |segment| segment.assemble(&input).expect("assemble"));
        // The first one after so many new messages moves the window, as happens once in a long while.
        if number > 0 {
            sample.push(start.elapsed());
        }
        assert!(output.volatile_prompt_addition.is_some() && !output.items.is_empty(), "it shows passages and a tail");
    }
    sample
}

/// So many messages, users and assistants in turn.
fn said(count: usize) -> Vec<EntryRef> {
    let counter = TokenCounter::for_model(OFFLINE_MODEL);
    let mut words = Words::new(0);
    (1..=count as u64)
        .map(|id| {
            let user = id % 2 == 1;
            let text = words.text(68);
            let message = Message::text_of(if user { Role::User } else { Role::Assistant }, text);
            let head = EntryHeadV1 {
                id,
                time_ms: START_MS + i64::try_from(id).expect("a small number") * 60_000,
                tokens: counter.message(&message),
                role: if user { role::USER } else { role::ASSISTANT },
                flags: if user { entry_flags::TURN_START } else { 0 },
                text_bytes: u32::try_from(message.text().len()).expect("a short text"),
            };
            EntryRef { head, message: Arc::new(message) }
        })
        .collect()
}

/// Words as a language has them: few that are everywhere, many that are rare (Zipf's law), in sentences.
struct Words(u64);

impl Words {
    fn new(seed: u64) -> Words {
        Words(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// splitmix64 (Steele, Lea and Flood, 2014).
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn text(&mut self, words: usize) -> String {
        let mut text = String::new();
        for at in 0..words {
            // The rank is the exponential of a uniform number: its frequency falls as one over itself.
            let uniform = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and 50,000")]
            let rank = 50_000_f64.powf(uniform) as u64;
            text.push_str(&word(rank));
            text.push_str(if at + 1 == words {
                "."
            } else if at % 11 == 10 {
                ". "
            } else {
                " "
            });
        }
        text
    }
}

/// The word of this rank: the more frequent the shorter.
fn word(mut rank: u64) -> String {
    const SYLLABLES: [&str; 32] = [
        "ta", "ri", "mo", "sel", "ka", "ven", "lu", "ne", "dor", "pi", "sha", "gre", "ul", "ti", "bra", "no", "el",
        "fi", "ras", "qua", "ze", "hu", "mir", "jo", "la", "ex", "wen", "cy", "ob", "tra", "si", "dy",
    ];
    let mut word = String::new();
    loop {
        word.push_str(SYLLABLES[(rank % 32) as usize]);
        rank /= 32;
        if rank == 0 {
            return word;
        }
    }
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the status of this process");
    let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("VmRSS");
    let kib: u64 = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number");
    kib * 1024
}
