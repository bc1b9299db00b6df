//! What gateway and worker say on the control socket, and the gateway's end of it, on which nobody ever waits.

use super::frame::{CONTROL_MAX, head};
use super::protocol::Failure;
use super::sandbox::SandboxReport;
use super::wire::{LaneError, ready, send_flags};
use crate::plugins::{LoadRequest, Wanted};
use rustix::event::PollFlags;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, sendmsg};
use serde::{Deserialize, Serialize};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::time::Instant;

/// Most bytes that wait for a worker that does not read. What comes on top of it is dropped: such a worker is ended soon.
const PENDING_MAX: usize = 64 * 1024;

/// What a worker is to do; the first frame that it gets.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct WorkerRequest {
    /// Version of the program: a worker of another version would only half understand.
    pub version: String,
    /// Process id of the gateway: a worker whose gateway is gone ends.
    pub parent: u32,
    /// What is loaded; `wanted` names the subject and nothing else.
    pub load: LoadRequest,
    /// Who lives in the worker.
    pub subject: Wanted,
    /// The folder of its state, for all agents.
    pub state_root: PathBuf,
    /// For whoever serves the calls.
    pub setup: String,
}

/// From the gateway.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToWorker {
    /// What to do.
    Open(Box<WorkerRequest>),
    /// A new lane; its descriptor comes with the frame.
    Lane(u32),
    /// A call, or [`super::EVERY_CALL`], is to come to its end.
    Cancel(u64),
    /// The worker is to end itself.
    Stop,
}

/// From the worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToGateway {
    /// It lives, and is of this version.
    Hello { version: String },
    /// What confines the library; nothing of it has run yet.
    Confined(SandboxReport),
    /// A step begins.
    At { stage: String, hook: String },
    /// Something worth knowing.
    Note(String),
    /// It failed to open, cleanly, and ends.
    Failed(Failure),
    /// Lanes are served.
    Ready,
    /// For whoever listens to what is said beside calls.
    Said(String),
}

pub(super) fn encode<T: Serialize>(message: &T) -> std::io::Result<Vec<u8>> {
    serde_json::to_vec(message).map_err(std::io::Error::from)
}

/// The gateway's writing end.
#[derive(Debug)]
pub(super) struct Control {
    /// Until the worker is dead: a quarantined engine keeps its handle, which must not keep a descriptor.
    socket: Option<OwnedFd>,
    /// What the worker has not taken yet; its beginning may be the rest of a frame.
    pending: Vec<u8>,
}

impl Control {
    pub(super) fn new(socket: OwnedFd) -> Control {
        Control { socket: Some(socket), pending: Vec::new() }
    }

    /// The worker is dead.
    pub(super) fn close(&mut self) {
        self.socket = None;
        self.pending = Vec::new();
    }

    #[cfg(test)]
    pub(super) fn is_open(&self) -> bool {
        self.socket.is_some()
    }

    fn socket(&self) -> Result<&OwnedFd, LaneError> {
        self.socket.as_ref().ok_or(LaneError::Gone)
    }

    /// Says something, or keeps it until there is room. An error only when the worker is gone.
    pub(super) fn tell(&mut self, message: &ToWorker) -> Result<(), LaneError> {
        let body = encode(message).map_err(LaneError::Io)?;
        let head = head(body.len(), CONTROL_MAX)?;
        if self.pending.len() + body.len() <= PENDING_MAX {
            self.pending.extend(head);
            self.pending.extend(body);
        }
        self.flush()
    }

    /// The first message, which may be long: waits until it is taken.
    pub(super) fn open(&mut self, request: WorkerRequest, until: Instant) -> Result<(), LaneError> {
        let body = encode(&ToWorker::Open(Box::new(request))).map_err(LaneError::Io)?;
        self.pending.extend(head(body.len(), CONTROL_MAX)?);
        self.pending.extend(body);
        loop {
            self.flush()?;
            if self.pending.is_empty() {
                return Ok(());
            }
            if !ready(self.socket()?, PollFlags::OUT, Some(until))? {
                return Err(LaneError::Late);
            }
        }
    }

    /// Hands the other end of a new lane over. False when the worker does not take anything now.
    pub(super) fn lane(&mut self, number: u32, end: &OwnedFd) -> Result<bool, LaneError> {
        self.flush()?;
        if !self.pending.is_empty() {
            return Ok(false);
        }
        let body = encode(&ToWorker::Lane(number)).map_err(LaneError::Io)?;
        let frame = [&head(body.len(), CONTROL_MAX)?[..], &body].concat();
        let ends = [end.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut rights = SendAncillaryBuffer::new(&mut space);
        rights.push(SendAncillaryMessage::ScmRights(&ends));
        match sendmsg(self.socket()?, &[IoSlice::new(&frame)], &mut rights, send_flags()) {
            // The descriptor went with the first byte.
            Ok(sent) => {
                self.pending.extend(&frame[sent..]);
                Ok(true)
            }
            Err(Errno::INTR | Errno::AGAIN) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn flush(&mut self) -> Result<(), LaneError> {
        while !self.pending.is_empty() {
            let parts = [IoSlice::new(&self.pending)];
            match sendmsg(self.socket()?, &parts, &mut SendAncillaryBuffer::default(), send_flags()) {
                Ok(sent) => drop(self.pending.drain(..sent)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
