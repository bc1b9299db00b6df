//! Compaction of a long history with a model that answers at once: what the gateway itself needs for it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a bench that cannot measure must stop; its result is what it prints"
)]

use engineroom_benches::load::Target;
use engineroom_benches::model::model;
use engineroom_benches::process::{Gateway, build};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// Messages of the long history.
const MESSAGES: usize = 20_000;
/// What a whole compaction of it may take, in ms.
const TARGET_MS: f64 = 1_000.0;

#[tokio::main]
async fn main() {
    // `cargo test --benches` runs every bench with this flag; there is nothing to test here.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    let built = build();
    let upstream = model(Duration::ZERO).await;
    let folder = tempfile::tempdir_in(built.as_path()).expect("a folder on disk");
    println!(
        "a compaction before a prompt, in all: engine, summaries in parts, merging, boundary (target: {TARGET_MS} ms)"
    );
    for messages in [1_000, 5_000, MESSAGES] {
        for run in 0..3 {
            once(&built, &folder.path().join(format!("{messages}-{run}")), &upstream, messages).await;
        }
    }
}

async fn once(built: &Path, folder: &Path, upstream: &str, messages: usize) {
    std::fs::create_dir(folder).expect("a folder");
    let gateway = Gateway::start_with(
        built,
        folder,
        &format!(
            "[gateway]\nlisten = \"127.0.0.1:0\"\nstate_dir = \"state\"\nhot_sessions_bytes = 2147483648\n\n\
             [model]\nprovider = \"openai\"\nbase_url = \"http://{upstream}/v1\"\nmodel = \"gpt-4\"\n\
             context_window = 32000\nmax_output_tokens = 500\n"
        ),
    );
    let session = Target::new(&gateway.address, &["s".to_owned()]);
    session.once(0, &history(messages)).await;
    let turn = &gateway.json("/api/sessions/s/turns")["turns"][0];
    let compaction = &turn["compactions"][0];
    assert_eq!((&compaction["outcome"], &compaction["method"]), (&json!("compacted"), &json!("model")), "{turn:#}");
    let ms = compaction["micros"].as_f64().expect("its time") / 1_000.0;
    println!(
        "{messages:>7} messages, {:>9} tokens: {ms:>8.1} ms, {} tokens after; resident {} MiB{}",
        compaction["before"],
        compaction["after"],
        gateway.resident() >> 20,
        if ms > TARGET_MS { "  MISSED" } else { "" }
    );
}

/// A conversation of about a hundred tokens a message, each different from all others.
fn history(messages: usize) -> Value {
    let mut list: Vec<Value> = Vec::with_capacity(messages + 1);
    for n in 0..messages {
        let role = if n % 2 == 0 { "user" } else { "assistant" };
        let text = format!(
            "Entry {n} of the log: the barge Halcyon-{n} passed lock {} at {}:{:02} with {} tons of gravel for the yard at \
             /srv/yards/{}/intake. The crew of four said that the water was higher than the week before and that the gate on \
             the eastern side closes slowly, so we decided to have it looked at before the next convoy comes through. Nobody \
             was hurt, the papers were in order, and the harbour master {} signed them.",
            n % 17,
            n % 24,
            n % 60,
            n % 900,
            n % 40,
            ["Ada", "Grace", "Edsger", "Barbara"][n % 4],
        );
        list.push(json!({"role": role, "content": text}));
    }
    list.push(json!({"role": "user", "content": "Which barge was last?"}));
    json!({"model": "gpt-4", "messages": list})
}
