//! What comes from the other side of a worker's sockets.

use engineroom::worker::fuzzing::control as read;
use engineroom::worker::{FRAME_MAX, decode};

/// The bytes of a lane or of the control socket. The first byte says how long a frame may be.
pub(crate) fn frames(data: &[u8]) {
    let Some((&cap, bytes)) = data.split_first() else { return };
    let max = if cap == 255 { FRAME_MAX } else { usize::from(cap) };
    let Ok(frames) = decode(bytes, max) else { return };
    assert!(frames.iter().all(|frame| frame.len() <= max), "a frame is longer than it may be");
    let again: Vec<u8> =
        frames.iter().flat_map(|frame| [&(frame.len() as u32).to_le_bytes()[..], frame].concat()).collect();
    assert_eq!(again, bytes, "frames change when they are written and read again");
}

/// A message of the control socket, to either side.
pub(crate) fn control(data: &[u8]) {
    for (side, written) in read(data).into_iter().enumerate() {
        let Some(written) = written else { continue };
        assert_eq!(
            read(&written)[side].as_ref(),
            Some(&written),
            "a message changes when it is written and read again"
        );
    }
}
