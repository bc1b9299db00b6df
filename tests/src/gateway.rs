//! A running gateway.

use crate::{Client, Setup};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A gateway process. Dropped, it is killed.
#[derive(Debug)]
pub struct Gateway {
    child: Child,
    client: Client,
    stderr: Arc<Mutex<String>>,
    listener: Option<std::thread::JoinHandle<()>>,
    _folder: Arc<tempfile::TempDir>,
}

impl Gateway {
    /// Starts it in `setup` and waits until it names its address.
    pub fn start(setup: &Setup) -> Gateway {
        Gateway::try_start(setup).unwrap_or_else(|said| panic!("the gateway ended without naming its address: {said}"))
    }

    /// The same for one that may not live so long: an error with what it said.
    pub fn try_start(setup: &Setup) -> Result<Gateway, String> {
        let mut command = setup.command(&["gateway"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the gateway starts");
        let stderr = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&stderr);
        let mut pipe = child.stderr.take().expect("its stderr");
        let listener = std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(n @ 1..) = pipe.read(&mut chunk) {
                kept.lock().expect("stderr").push_str(&String::from_utf8_lossy(&chunk[..n]));
            }
        });
        let mut lines = BufReader::new(child.stdout.take().expect("its stdout")).lines();
        let address = loop {
            let Some(Ok(line)) = lines.next() else {
                // Its output may be closed while it lives on.
                let _ = child.kill();
                let status = child.wait();
                std::thread::sleep(Duration::from_millis(50));
                return Err(format!("{status:?}: {}", stderr.lock().expect("stderr")));
            };
            if let Some((_, rest)) = line.split_once("http://") {
                let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ':')).unwrap_or(rest.len());
                break rest[..end].to_owned();
            }
        };
        // Keep the pipe drained, so that the gateway never blocks on it.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Gateway { child, client: Client::new(&address), stderr, listener: Some(listener), _folder: setup.keep() })
    }

    /// A client of it.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it wrote to stderr so far.
    pub fn stderr(&self) -> String {
        self.stderr.lock().expect("stderr").clone()
    }

    /// True while it runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a signal by name, `TERM`, `KILL`, `STOP`.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = std::process::Command::new("kill").args([&format!("-{name}"), &pid]).status().expect("kill");
        // Of one that is gone it fails; of a living one a signal that was not sent must not look like one that was lost.
        assert!(
            sent.success() || !std::path::Path::new(&format!("/proc/{pid}")).exists(),
            "kill -{name} {pid}: {sent:?}"
        );
    }

    /// SIGTERM, then waits at most a minute.
    pub fn stop(self) -> ExitStatus {
        self.signal("TERM");
        self.wait()
    }

    /// Waits for its end, at most a minute.
    pub fn wait(mut self) -> ExitStatus {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(status) = self.child.try_wait().expect("its status") {
                return status;
            }
            assert!(Instant::now() < deadline, "the gateway does not end: {}", self.stderr());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The same, with everything that it wrote to stderr.
    pub fn stop_and_hear(self) -> (ExitStatus, String) {
        self.signal("TERM");
        self.end_and_hear()
    }

    /// As [`Gateway::wait`], with everything that it wrote to stderr.
    pub fn end_and_hear(mut self) -> (ExitStatus, String) {
        let (listener, said) = (self.listener.take(), Arc::clone(&self.stderr));
        let status = self.wait();
        listener.map(std::thread::JoinHandle::join);
        let said = said.lock().expect("stderr").clone();
        (status, said)
    }

    /// `kill -9`, then waits.
    pub fn kill(mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("its end");
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Both fail only when it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
