//! The wall clock, as the transcript keeps it; a replay sets it to the time of the recording.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Stands for "not set": no recording is that old.
const WALL: i64 = i64::MIN;

/// Milliseconds since the Unix epoch.
pub(super) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The clock of what is said: times of entries, and the age of the provider's cache. Turn records keep the wall clock.
#[derive(Debug)]
pub(super) struct Clock(AtomicI64);

impl Clock {
    /// The wall clock.
    pub(super) const fn wall() -> Clock {
        Clock(AtomicI64::new(WALL))
    }

    /// Milliseconds since the Unix epoch.
    pub(super) fn now_ms(&self) -> i64 {
        match self.0.load(Ordering::Relaxed) {
            WALL => now_ms(),
            set => set,
        }
    }

    /// Stops it at a time, or lets it run with the wall clock again.
    pub(super) fn set(&self, time_ms: Option<i64>) {
        self.0.store(time_ms.unwrap_or(WALL), Ordering::Relaxed);
    }
}
