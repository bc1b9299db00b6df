//! Waiting for what comes when it comes.

use std::time::{Duration, Instant};

/// Waits until `found` gives something, at most so long.
#[track_caller]
pub fn wait_for<T>(within: Duration, what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + within;
    loop {
        if let Some(value) = found() {
            return value;
        }
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
