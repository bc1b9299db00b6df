//! Doors for `fuzz/`: what a child or a worker says. Not for anything else.

use super::control::{ToGateway, ToWorker, encode};
use super::errand;
use super::protocol::Line;

/// Reads what a probe's child wrote, as the parent does: each line that is for the parent, written anew. `None` stands for a
/// line that cannot be understood.
pub fn probe_lines(bytes: &[u8]) -> Vec<Option<Vec<u8>>> {
    let lines = bytes.split(|byte| *byte == b'\n').filter_map(errand::decode::<Line>);
    lines.map(|line| line.ok().map(|line| errand::encode(&line))).collect()
}

/// Reads a payload of the control socket as the gateway and as the worker does; written anew where it was understood.
pub fn control(payload: &[u8]) -> [Option<Vec<u8>>; 2] {
    let to_gateway = serde_json::from_slice::<ToGateway>(payload).ok();
    let to_worker = serde_json::from_slice::<ToWorker>(payload).ok();
    [to_gateway.and_then(|said| encode(&said).ok()), to_worker.and_then(|said| encode(&said).ok())]
}
