//! One socket with frames: blocking, with a time until which it blocks.

use super::frame::{Decoder, FrameError, head};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags,
    SocketType, recv, recvmsg, sendmsg, socketpair,
};
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Bytes that are read at once.
const CHUNK: usize = 64 * 1024;

/// Why a lane is of no use any more; or, with [`LaneError::Busy`], not yet.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaneError {
    /// The other side is gone.
    #[error("the other side of the lane is gone")]
    Gone,
    /// What came is not what was agreed.
    #[error("the lane broke")]
    Frame(#[from] FrameError),
    /// The other side did not take a frame in time.
    #[error("a frame was not taken in time")]
    Late,
    /// All lanes are in use.
    #[error("no lane became free in time")]
    Busy,
    /// The call used more of the processor than it may.
    #[error("the call used {} ms of processor time; {} ms are allowed", used.as_millis(), limit.as_millis())]
    Cpu {
        /// What the worker used since the call began.
        used: Duration,
        /// What the entry allows.
        limit: Duration,
    },
    /// The system refused.
    #[error("the lane failed")]
    Io(#[source] std::io::Error),
}

impl From<Errno> for LaneError {
    fn from(errno: Errno) -> LaneError {
        match errno {
            Errno::PIPE | Errno::CONNRESET => LaneError::Gone,
            errno => LaneError::Io(errno.into()),
        }
    }
}

/// A connected pair, closed in whatever is executed.
pub fn pair() -> std::io::Result<(OwnedFd, OwnedFd)> {
    #[cfg(target_os = "linux")]
    let flags = SocketFlags::CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = SocketFlags::empty();
    let pair = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    #[cfg(not(target_os = "linux"))]
    for end in [&pair.0, &pair.1] {
        rustix::io::fcntl_setfd(end, rustix::io::FdFlags::CLOEXEC)?;
        rustix::net::sockopt::set_socket_nosigpipe(end, true)?;
    }
    Ok(pair)
}

/// Writing never raises a signal, and never blocks here: who waits, polls.
pub(super) fn send_flags() -> SendFlags {
    #[cfg(target_os = "linux")]
    return SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    #[cfg(not(target_os = "linux"))]
    SendFlags::DONTWAIT
}

/// Waits for the socket, at most until then; `None` is for ever. False when the time is over.
pub(super) fn ready(socket: &OwnedFd, what: PollFlags, until: Option<Instant>) -> Result<bool, Errno> {
    loop {
        let rest = until.map(|until| until.saturating_duration_since(Instant::now()));
        let timeout = rest.map(timespec);
        match poll(&mut [PollFd::new(socket, what)], timeout.as_ref()) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

pub(super) fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: time.subsec_nanos().into() }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Wire {
    socket: OwnedFd,
    max: usize,
    decoder: Decoder,
    chunk: Box<[u8]>,
    /// What of `chunk` was read and not yet decoded.
    unread: Range<usize>,
    /// Descriptors that came with frames, where they are welcome.
    descriptors: Option<VecDeque<OwnedFd>>,
}

impl Wire {
    pub(super) fn new(socket: OwnedFd, max: usize) -> Wire {
        Wire { socket, max, decoder: Decoder::new(max), chunk: Box::default(), unread: 0..0, descriptors: None }
    }

    /// Frames may bring descriptors along, see [`Wire::descriptor`].
    pub(super) fn with_descriptors(self) -> Wire {
        Wire { descriptors: Some(VecDeque::new()), ..self }
    }

    /// The descriptor that came with the frame that was just received.
    pub(super) fn descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptors.as_mut().and_then(VecDeque::pop_front)
    }

    /// Tells the other side that nothing more will come.
    pub(super) fn shut(&self) {
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }

    pub(super) fn send(&mut self, frame: &[u8], until: Option<Instant>) -> Result<(), LaneError> {
        let head = head(frame.len(), self.max)?;
        let (mut head, mut body) = (&head[..], frame);
        while !(head.is_empty() && body.is_empty()) {
            let parts = [IoSlice::new(head), IoSlice::new(body)];
            match sendmsg(&self.socket, &parts, &mut SendAncillaryBuffer::default(), send_flags()) {
                Ok(sent) => {
                    let of_head = sent.min(head.len());
                    head = &head[of_head..];
                    body = &body[sent - of_head..];
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if !ready(&self.socket, PollFlags::OUT, until)? {
                        return Err(LaneError::Late);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Puts the next frame in the place of what `into` holds. False when none was whole in time; what came of it is kept.
    pub(super) fn receive(&mut self, into: &mut Vec<u8>, until: Option<Instant>) -> Result<bool, LaneError> {
        loop {
            while !self.unread.is_empty() {
                let (took, whole) = self.decoder.feed(&self.chunk[self.unread.clone()])?;
                self.unread.start += took;
                if whole {
                    self.decoder.take(into);
                    return Ok(true);
                }
            }
            if !ready(&self.socket, PollFlags::IN, until)? {
                return Ok(false);
            }
            if self.chunk.is_empty() {
                self.chunk = vec![0; CHUNK].into_boxed_slice();
            }
            match self.read() {
                Ok(0) => {
                    self.decoder.end()?;
                    return Err(LaneError::Gone);
                }
                Ok(count) => self.unread = 0..count,
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn read(&mut self) -> Result<usize, Errno> {
        let Some(descriptors) = &mut self.descriptors else {
            return recv(&self.socket, &mut self.chunk[..], RecvFlags::DONTWAIT).map(|(count, _)| count);
        };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut rights = RecvAncillaryBuffer::new(&mut space);
        #[cfg(target_os = "linux")]
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        #[cfg(not(target_os = "linux"))]
        let flags = RecvFlags::DONTWAIT;
        let message = recvmsg(&self.socket, &mut [IoSliceMut::new(&mut self.chunk)], &mut rights, flags)?;
        for part in rights.drain() {
            if let RecvAncillaryMessage::ScmRights(ends) = part {
                descriptors.extend(ends);
            }
        }
        Ok(message.bytes)
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> rustix::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::frame::FRAME_MAX;

    fn wires(max: usize) -> (Wire, Wire) {
        let (here, there) = pair().unwrap();
        (Wire::new(here, max), Wire::new(there, max))
    }

    fn soon() -> Option<Instant> {
        Some(Instant::now() + Duration::from_millis(20))
    }

    #[test]
    fn a_frame_larger_than_the_socket_holds_goes_through_when_the_other_side_reads() {
        let (mut here, mut there) = wires(FRAME_MAX);
        let long: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        let expected = long.clone();
        let reader = std::thread::spawn(move || {
            let mut frame = Vec::new();
            there.receive(&mut frame, None).unwrap();
            frame
        });
        here.send(&long, None).unwrap();
        assert!(reader.join().unwrap() == expected);
    }

    #[test]
    fn nothing_yet_is_told_apart_from_gone_and_part_of_a_frame_is_kept() {
        let (mut here, mut there) = wires(100);
        let mut frame = Vec::new();
        assert!(!there.receive(&mut frame, soon()).unwrap());
        rustix::net::send(&here.socket, &[3, 0, 0, 0, 1], send_flags()).unwrap();
        assert!(!there.receive(&mut frame, soon()).unwrap());
        rustix::net::send(&here.socket, &[2, 3], send_flags()).unwrap();
        assert!(there.receive(&mut frame, None).unwrap());
        assert_eq!(frame, [1, 2, 3]);
        here.send(b"", None).unwrap();
        drop(here);
        assert!(there.receive(&mut frame, None).unwrap() && frame.is_empty());
        assert!(matches!(there.receive(&mut frame, None), Err(LaneError::Gone)));
        assert!(matches!(there.send(b"x", None), Err(LaneError::Gone)));
    }

    #[test]
    fn a_frame_that_ends_with_its_socket_is_named() {
        let (here, mut there) = wires(100);
        rustix::net::send(&here.socket, &[3, 0, 0, 0, 1], send_flags()).unwrap();
        drop(here);
        let error = there.receive(&mut Vec::new(), None).unwrap_err();
        assert!(matches!(error, LaneError::Frame(FrameError::CutOff { have: 5 })), "{error:?}");
    }

    #[test]
    fn what_nobody_reads_is_late() {
        let (mut here, _there) = wires(FRAME_MAX);
        assert!(matches!(here.send(&vec![0; 8_000_000], soon()), Err(LaneError::Late)));
        assert!(matches!(here.send(&vec![0; FRAME_MAX + 1], soon()), Err(LaneError::Frame(_))));
    }
}
