//! What comes from the other side of a worker's sockets.

use engineroom::slot::fuzzing::lane;
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

/// A message of a lane, to either side. The first byte says which side, and whether the rest is the frame or changes to an
/// example, each two bytes of place and one of value; the second byte cuts it.
pub(crate) fn lanes(data: &[u8]) {
    let [how, cut, rest @ ..] = data else { return };
    let side = usize::from(how & 1);
    let frame = if how & 2 == 0 {
        rest.to_vec()
    } else {
        let all = &lane::examples()[side];
        let mut frame = all[usize::from(how >> 2) % all.len()].clone();
        for change in rest.chunks_exact(3) {
            let place = usize::from(u16::from_le_bytes([change[0], change[1]])) % frame.len().max(1);
            if let Some(byte) = frame.get_mut(place) {
                *byte = change[2];
            }
        }
        frame.truncate(frame.len().saturating_sub(usize::from(cut / 64)));
        frame
    };
    let read: fn(&[u8]) -> Option<Vec<u8>> = [lane::from_worker, lane::to_worker][side];
    if let Some(written) = read(&frame) {
        assert_eq!(read(&written).as_ref(), Some(&written), "a message changes when it is written and read again");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_reads_back() {
        for (all, read) in lane::examples().iter().zip([lane::from_worker, lane::to_worker]) {
            assert!(all.iter().all(|frame| read(frame).as_ref() == Some(frame)), "{all:?}");
        }
    }
}
