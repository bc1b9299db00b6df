//! Frames: a length of four bytes, little endian, then that many bytes.
//!
//! The other side is not to be trusted: a length is only believed as far as its bytes have come, and never beyond the cap.

/// Longest payload of a frame on a lane: what a sink may hold (64 MiB), with room for what stands around it.
pub const FRAME_MAX: usize = 96 * 1024 * 1024;
/// Longest payload of a frame on the control socket; the request with the plugin's configuration is the longest one.
pub const CONTROL_MAX: usize = 4 * 1024 * 1024;
/// Bytes of a length.
pub(super) const HEAD: usize = 4;
/// Most bytes that are set aside for a frame before they have come.
const AHEAD: usize = 64 * 1024;

/// Bytes that are no frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// A length beyond the cap.
    #[error("a frame of {len} bytes is longer than the {max} that are allowed")]
    Oversize {
        /// What was announced.
        len: usize,
        /// The cap.
        max: usize,
    },
    /// The bytes end within a frame.
    #[error("a frame was cut off after {have} of its bytes")]
    CutOff {
        /// Bytes that came, those of the length included.
        have: usize,
    },
}

/// The four bytes before a payload.
///
/// # Errors
/// The payload is longer than `max`.
pub(super) fn head(len: usize, max: usize) -> Result<[u8; HEAD], FrameError> {
    match u32::try_from(len) {
        Ok(short) if len <= max => Ok(short.to_le_bytes()),
        _ => Err(FrameError::Oversize { len, max }),
    }
}

/// Puts frames together out of bytes as they come.
#[derive(Debug)]
pub(super) struct Decoder {
    max: usize,
    head: [u8; HEAD],
    /// How many bytes of `head` have come.
    known: usize,
    body: Vec<u8>,
    /// An error stays: after it nobody knows where a frame begins.
    broken: Option<FrameError>,
}

impl Decoder {
    pub(super) fn new(max: usize) -> Decoder {
        Decoder { max, head: [0; HEAD], known: 0, body: Vec::new(), broken: None }
    }

    /// Takes bytes from the front of `bytes`, at most up to the end of one frame. Gives how many it took, and whether the
    /// frame is whole: then [`Decoder::take`] it.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<(usize, bool), FrameError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        let of_head = bytes.len().min(HEAD - self.known);
        self.head[self.known..self.known + of_head].copy_from_slice(&bytes[..of_head]);
        self.known += of_head;
        if self.known < HEAD {
            return Ok((of_head, false));
        }
        let len = self.len();
        if len > self.max {
            let error = FrameError::Oversize { len, max: self.max };
            self.broken = Some(error);
            return Err(error);
        }
        if self.body.is_empty() {
            self.body.reserve(len.min(AHEAD));
        }
        let rest = &bytes[of_head..];
        let of_body = rest.len().min(len - self.body.len());
        self.body.extend_from_slice(&rest[..of_body]);
        Ok((of_head + of_body, self.body.len() == len))
    }

    /// Puts the whole frame in the place of what `into` holds, and is ready for the next one.
    pub(super) fn take(&mut self, into: &mut Vec<u8>) {
        into.clear();
        std::mem::swap(into, &mut self.body);
        self.known = 0;
    }

    /// The bytes have ended.
    ///
    /// # Errors
    /// They ended within a frame.
    pub(super) fn end(&self) -> Result<(), FrameError> {
        match (self.broken, self.known) {
            (Some(error), _) => Err(error),
            (None, 0) => Ok(()),
            (None, known) => Err(FrameError::CutOff { have: known + self.body.len() }),
        }
    }

    fn len(&self) -> usize {
        usize::try_from(u32::from_le_bytes(self.head)).unwrap_or(usize::MAX)
    }
}

/// The frames that `bytes` consists of, with payloads of at most `max` bytes.
///
/// # Errors
/// A frame is too long, or the last one is cut off.
pub fn decode(bytes: &[u8], max: usize) -> Result<Vec<Vec<u8>>, FrameError> {
    let mut decoder = Decoder::new(max);
    let (mut frames, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        let (took, whole) = decoder.feed(rest)?;
        rest = &rest[took..];
        if whole {
            let mut frame = Vec::new();
            decoder.take(&mut frame);
            frames.push(frame);
        }
    }
    decoder.end().map(|()| frames)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encode(frames: &[Vec<u8>]) -> Vec<u8> {
        frames.iter().flat_map(|frame| [&head(frame.len(), FRAME_MAX).unwrap()[..], frame].concat()).collect()
    }

    #[test]
    fn a_length_beyond_the_cap_is_refused_before_its_bytes_come_and_the_error_stays() {
        let mut decoder = Decoder::new(10);
        let error = FrameError::Oversize { len: 11, max: 10 };
        assert_eq!(decoder.feed(&[11, 0, 0, 0]), Err(error));
        assert_eq!(decoder.feed(&[1, 0, 0, 0, 7]), Err(error));
        let error = decode(&u32::MAX.to_le_bytes(), 10).unwrap_err();
        assert_eq!(error.to_string(), "a frame of 4294967295 bytes is longer than the 10 that are allowed");
        assert!(head(11, 10).is_err());
    }

    #[test]
    fn a_long_announcement_takes_little_memory() {
        let mut decoder = Decoder::new(FRAME_MAX);
        let head = u32::try_from(FRAME_MAX).unwrap().to_le_bytes();
        assert_eq!(decoder.feed(&[&head[..], b"abc"].concat()), Ok((7, false)));
        assert!(decoder.body.capacity() <= AHEAD);
        assert_eq!(decoder.end(), Err(FrameError::CutOff { have: 7 }));
    }

    #[test]
    fn bytes_of_the_next_frame_are_left() {
        let mut decoder = Decoder::new(10);
        assert_eq!(decoder.feed(&[2, 0, 0, 0, 7, 8, 1]), Ok((6, true)));
        let mut frame = b"old".to_vec();
        decoder.take(&mut frame);
        assert_eq!((frame, decoder.end()), (vec![7, 8], Ok(())));
    }

    proptest! {
        #[test]
        fn frames_read_back_however_their_bytes_are_cut(
            frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8),
            cut in 1..9_usize,
        ) {
            let bytes = encode(&frames);
            prop_assert_eq!(&decode(&bytes, 40).unwrap(), &frames);
            let (mut decoder, mut out) = (Decoder::new(40), Vec::new());
            for piece in bytes.chunks(cut) {
                let mut rest = piece;
                while !rest.is_empty() {
                    let (took, whole) = decoder.feed(rest).unwrap();
                    rest = &rest[took..];
                    if whole {
                        let mut frame = Vec::new();
                        decoder.take(&mut frame);
                        out.push(frame);
                    }
                }
            }
            prop_assert_eq!(out, frames);
        }

        #[test]
        fn garbage_never_panics_and_never_gives_more_than_came(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(frames) = decode(&bytes, 100) {
                prop_assert_eq!(encode(&frames), bytes);
            }
        }
    }
}
