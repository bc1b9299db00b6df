//! `smoke`: what a newcomer's first command starts, started, used and stopped.

use crate::run::{self, Build};
use crate::{Outcome, root};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A gateway that was started. It is killed on every way out.
pub(crate) struct Gateway(Child);

impl Drop for Gateway {
    fn drop(&mut self) {
        // Both fail only when the process is gone already, which is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Gateway {
    pub(crate) fn start(command: &mut Command) -> Result<Gateway, String> {
        command.stdout(Stdio::piped()).spawn().map(Gateway).map_err(|e| format!("the gateway: {e}"))
    }

    /// Holds a conversation with it, and stops it.
    pub(crate) fn talk(mut self) -> Outcome {
        talk(&mut self)
    }
}

pub(crate) fn smoke() -> Outcome {
    let binary = run::prepare(Build::Release)?;
    let state = std::env::temp_dir().join(format!("engineroom-smoke-{}", std::process::id()));
    let mut command = Command::new(binary);
    command
        .current_dir(root())
        .arg("gateway")
        .env("ENGINEROOM_GATEWAY_LISTEN", "127.0.0.1:0")
        .env("ENGINEROOM_GATEWAY_STATE_DIR", &state);
    let outcome = Gateway::start(&mut command).and_then(Gateway::talk);
    let _ = std::fs::remove_dir_all(&state);
    outcome
}

fn talk(gateway: &mut Gateway) -> Outcome {
    let stdout = gateway.0.stdout.take().ok_or("the gateway has no output")?;
    let mut address = None;
    for line in BufReader::new(stdout).lines() {
        let line = line.map_err(|e| e.to_string())?;
        println!("  {line}");
        if let Some((_, rest)) = line.split_once("http://") {
            let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ':')).unwrap_or(rest.len());
            address = Some(rest[..end].to_owned());
            break;
        }
    }
    let address = address.ok_or("the gateway ended without naming its address")?;

    let engines = http(&address, "GET", "/api/engines", "")?;
    for wanted in ["\"window\"", "\"ready\"", "sha256", "\"bundled\":true"] {
        if !engines.contains(wanted) {
            return Err(format!("GET /api/engines lacks {wanted}: {engines}"));
        }
    }
    let body = r#"{"model":"offline","messages":[{"role":"user","content":"My harbour pilot is called Marisol."}]}"#;
    http(&address, "POST", "/v1/chat/completions", body)?;
    let body = r#"{"model":"offline","messages":[{"role":"user","content":"What is my harbour pilot called?"}]}"#;
    let answer = http(&address, "POST", "/v1/chat/completions", body)?;
    let head = answer.to_ascii_lowercase();
    if !head.contains("x-engineroom-engine: window") || head.contains("x-engineroom-degraded") {
        return Err(format!("the second turn was not served by window: {answer}"));
    }
    if !answer.contains("Marisol") {
        return Err(format!("the second turn does not know the first: {answer}"));
    }
    stop(gateway)
}

/// One request; the whole answer, head included.
fn http(address: &str, method: &str, path: &str, body: &str) -> Result<String, String> {
    let say = |e: std::io::Error| format!("{method} {path}: {e}");
    let mut stream = TcpStream::connect(address).map_err(say)?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).map_err(say)?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\nx-engineroom-session: smoke\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .map_err(say)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(say)?;
    if !answer.starts_with("HTTP/1.1 200") {
        return Err(format!("{method} {path}: {answer}"));
    }
    Ok(answer)
}

/// SIGTERM must drain and exit 0.
fn stop(gateway: &mut Gateway) -> Outcome {
    let pid = gateway.0.id().to_string();
    Command::new("kill").args(["-TERM", &pid]).status().map_err(|e| format!("kill: {e}"))?;
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(status) = gateway.0.try_wait().map_err(|e| e.to_string())? {
            return if status.success() {
                Ok(())
            } else {
                Err(format!("after SIGTERM the gateway ended with {status}"))
            };
        }
        if Instant::now() > deadline {
            return Err("the gateway did not end within 30 s of SIGTERM".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
