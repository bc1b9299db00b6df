//! Against the shell.

use super::*;
use crate::model::{Accumulator, HostCall};
use std::time::Instant;

fn model(words: &[&str], timeout_ms: u64) -> CommandModel {
    let mut config = crate::config::Config::defaults("/x/plugins.toml".into()).model;
    config.provider = "cli".into();
    config.command = words.iter().map(|&word| word.to_owned()).collect();
    config.timeout_ms = timeout_ms;
    CommandModel::new(&config).unwrap()
}

/// A model whose command is this script; `$1` is the session.
fn script(text: &str) -> CommandModel {
    model(&["sh", "-c", text, "sh", "{session}", "{system}"], 20_000)
}

fn ask(text: &str, stream: bool) -> ModelRequest {
    let messages = vec![json!({"role": "system", "content": "Be brief."}), json!({"role": "user", "content": text})];
    let host = HostCall { session: Some("id-7".into()), ..HostCall::default() };
    ModelRequest { messages: messages.into(), stream, host, ..ModelRequest::default() }
}

async fn said(model: &CommandModel, text: &str) -> Result<String, ModelError> {
    match model.call(ask(text, false)).await? {
        ModelReply::Full(full) => Ok(full["choices"][0]["message"]["content"].as_str().unwrap().to_owned()),
        ModelReply::Stream(_) => panic!("a stream"),
    }
}

#[track_caller]
fn check(outcome: Result<String, ModelError>, words: &[&str]) {
    let error = outcome.unwrap_err();
    assert!(matches!(error, ModelError::Command { .. }), "{error:?}");
    for word in words {
        assert!(error.to_string().contains(word), "no {word:?} in: {error}");
    }
}

#[tokio::test]
async fn the_prompt_goes_in_and_the_reply_comes_out() {
    let model = script("cat; printf ' %s %s\\n\\n' \"$1\" \"$2\"");
    assert_eq!(said(&model, "Hello\nthere").await.unwrap(), "Hello\nthere id-7 Be brief.");
    // More than a pipe holds, both ways at once.
    let long = "word ".repeat(60_000);
    let back = said(&script("cat"), &long).await.unwrap();
    assert_eq!(back, long.trim_end());
    assert_eq!(said(&script("echo deaf"), &long).await.unwrap(), "deaf", "nobody has to read the prompt");
}

#[tokio::test]
async fn a_streamed_reply_comes_piece_by_piece() {
    let gate = tempfile::tempdir().unwrap();
    let path = gate.path().join("go");
    let text = format!("printf one; while [ ! -e '{}' ]; do sleep 0.01; done; printf ' two\\n'", path.display());
    let ModelReply::Stream(mut chunks) = script(&text).call(ask("x", true)).await.unwrap() else { panic!("whole") };
    let first = chunks.next().await.unwrap().unwrap();
    assert_eq!(first["choices"][0]["delta"], json!({"role": "assistant", "content": "one"}));
    std::fs::write(&path, "").unwrap();
    let mut all = Accumulator::new();
    all.push(&first);
    while let Some(chunk) = chunks.next().await {
        all.push(&chunk.unwrap());
    }
    let reply = all.finish();
    assert_eq!((reply.message.text().as_ref(), reply.finish_reason.as_deref()), ("one two", Some("stop")));
}

#[tokio::test]
async fn what_goes_wrong_is_said_with_the_last_complaint() {
    check(said(&script("echo begun; echo 'no key' >&2; exit 3"), "x").await, &["exit code 3", "no key"]);
    check(said(&script("kill -9 $$"), "x").await, &["signal 9"]);
    check(said(&script("echo '  '; echo why >&2"), "x").await, &["wrote nothing", "why"]);
    check(said(&script("printf '\\377'"), "x").await, &["not UTF-8"]);
    check(said(&script("yes | head -c 9000000"), "x").await, &["8 MiB"]);
    check(said(&model(&["/no/such/program"], 1_000), "x").await, &["/no/such/program", "could not be started"]);
}

#[tokio::test]
async fn a_command_that_hangs_is_terminated_with_what_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pid");
    // The child in the background ignores the polite signal and holds the output open.
    let text = format!("(trap '' TERM; echo $$; exec sleep 100) & echo $! > '{}'; sleep 100", path.display());
    let started = Instant::now();
    let slow = model(&["sh", "-c", &text], 300);
    let error = said(&slow, "x").await.unwrap_err();
    assert!(matches!(error, ModelError::Command { late: true, .. }), "{error}");
    assert_eq!(error.http_status(), 504);
    assert!(started.elapsed() < Duration::from_secs(15));
    let pid: i32 = std::fs::read_to_string(&path).unwrap().trim().parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    let deadline = Instant::now() + Duration::from_secs(15);
    while rustix::process::test_kill_process(pid).is_ok() && !zombie(pid) {
        assert!(Instant::now() < deadline, "the child still runs");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn zombie(pid: rustix::process::Pid) -> bool {
    std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).is_ok_and(|stat| stat.contains(") Z "))
}

#[tokio::test]
async fn what_is_left_running_does_not_hold_the_reply() {
    let started = Instant::now();
    assert_eq!(said(&script("sleep 100 & echo done"), "x").await.unwrap(), "done");
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn the_environment_is_small() {
    let seen = said(&script("env"), "x").await.unwrap();
    assert!(seen.contains("PATH="), "{seen}");
    assert!(!seen.contains("CARGO"), "{seen}");
    let mut model = script("env");
    model.env = vec!["CARGO_MANIFEST_DIR".into()];
    assert!(said(&model, "x").await.unwrap().contains("CARGO_MANIFEST_DIR="));
}

#[tokio::test]
async fn the_list_of_models_says_whether_the_program_is_there() {
    assert_eq!(script("x").models().await.unwrap()[0]["id"], "sh");
    for (program, why) in [("/no/such", "does not exist"), ("no-such-program", "PATH"), ("/etc/passwd", "executed")] {
        let error = model(&[program], 1_000).models().await.unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[tokio::test]
async fn a_session_that_was_seen_before_is_resumed() {
    let mut model = script("echo new");
    model.resume_command = ["sh", "-c", "echo again \"$1\"", "sh", "{session}"].map(str::to_owned).to_vec();
    assert_eq!(said(&model, "x").await.unwrap(), "new");
    let mut request = ask("x", false);
    request.host.resumed = true;
    let ModelReply::Full(full) = model.call(request).await.unwrap() else { panic!("a stream") };
    assert_eq!(full["choices"][0]["message"]["content"], "again id-7");
}
