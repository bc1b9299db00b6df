//! What a worker writes to standard error: the end of it is kept, and its lines go to the log, not faster than a log can bear.

use super::budget::Budget;
use super::ending::Tail;
use crate::plugins::one_line;
use std::io::Read;
use std::os::fd::AsFd;
use std::process::ChildStderr;
use std::time::{Duration, Instant};

/// Most bytes that are read before others have their turn.
const TURN: usize = 64 * 1024;
/// Most bytes that are read in a second.
const BYTES_MAX: usize = 4 * 1024 * 1024;
/// Lines of one worker that are logged in each [`WINDOW`].
const LINES_MAX: u32 = 20;
const WINDOW: Duration = Duration::from_secs(1);
/// Longest line; what follows is taken for a line of its own.
const LINE_MAX: usize = 4096;

/// See the module.
pub(super) struct Listener {
    pipe: Option<ChildStderr>,
    budget: Budget,
    subject: String,
    tail: Tail,
    line: Vec<u8>,
    window: Instant,
    logged: u32,
    held_back: u64,
}

impl Listener {
    pub(super) fn new(pipe: Option<ChildStderr>, subject: &str) -> std::io::Result<Listener> {
        if let Some(pipe) = &pipe {
            let flags = rustix::fs::fcntl_getfl(pipe)?;
            rustix::fs::fcntl_setfl(pipe, flags | rustix::fs::OFlags::NONBLOCK)?;
        }
        Ok(Listener {
            pipe,
            budget: Budget::new(BYTES_MAX),
            subject: subject.to_owned(),
            tail: Tail::default(),
            line: Vec::new(),
            window: Instant::now(),
            logged: 0,
            held_back: 0,
        })
    }

    /// The pipe, until it ended.
    pub(super) fn pipe(&self) -> Option<impl AsFd + '_> {
        self.pipe.as_ref()
    }

    /// When it is read again, where too much came lately.
    pub(super) fn paused(&mut self) -> Option<Instant> {
        self.budget.over_until()
    }

    /// Takes in what is there, up to a bound. False when nothing more can come.
    pub(super) fn read(&mut self) -> bool {
        let mut buffer = [0; 4096];
        for _ in 0..TURN / buffer.len() {
            let Some(pipe) = &mut self.pipe else { return false };
            match pipe.read(&mut buffer) {
                Ok(0) => self.pipe = None,
                Ok(count) => {
                    self.budget.spend(count);
                    self.take(&buffer[..count]);
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return true,
                Err(_) => self.pipe = None,
            }
        }
        true
    }

    /// The last of it, after the process ended: a process that it started may hold the pipe open for ever.
    pub(super) fn finish(&mut self) -> Vec<String> {
        self.read();
        self.pipe = None;
        self.end_line();
        self.tell_held_back();
        self.tail.lines()
    }

    fn take(&mut self, bytes: &[u8]) {
        self.tail.push(bytes);
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = LINE_MAX - self.line.len();
            self.line.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") || self.line.len() >= LINE_MAX {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let text = one_line(&String::from_utf8_lossy(&self.line));
        self.line.clear();
        if text.is_empty() {
            return;
        }
        if self.window.elapsed() >= WINDOW {
            self.tell_held_back();
            self.window = Instant::now();
            self.logged = 0;
        }
        if self.logged < LINES_MAX {
            self.logged += 1;
            tracing::info!(target: "engine", engine = %self.subject, "stderr: {text}");
        } else {
            self.held_back += 1;
        }
    }

    fn tell_held_back(&mut self) {
        if self.held_back > 0 {
            tracing::warn!(target: "engine", engine = %self.subject, "{} more lines on stderr", self.held_back);
            self.held_back = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn until_its_end(listener: &mut Listener) {
        while listener.read() {}
    }

    #[test]
    fn a_flood_is_read_to_its_end_and_only_some_of_it_is_logged() {
        let script = "i=0; while [ $i -lt 300 ]; do echo line $i >&2; i=$((i+1)); done; printf last >&2";
        let mut child = Command::new("sh").args(["-c", script]).stderr(Stdio::piped()).spawn().unwrap();
        let mut listener = Listener::new(child.stderr.take(), "w").unwrap();
        child.wait().unwrap();
        until_its_end(&mut listener);
        assert!(listener.logged <= LINES_MAX && listener.logged > 0);
        assert_eq!(listener.finish().last().unwrap(), "last");
    }

    #[test]
    fn a_line_without_an_end_takes_bounded_memory() {
        let mut listener = Listener::new(None, "w").unwrap();
        for _ in 0..100 {
            listener.take(&[b'x'; 1000]);
            assert!(listener.line.len() <= LINE_MAX);
        }
    }
}
