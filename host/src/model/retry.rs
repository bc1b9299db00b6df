//! When a call is tried again, and after what pause. Only what failed before the first byte of the answer is.

use super::ModelError;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// The pause before try `attempt + 1`, or `None` when there must be none.
///
/// `attempt` counts from 1; `left` is the time to the deadline of the call. A pause that the provider asks for is kept, or the
/// error is given back at once when it is longer than the time left.
pub(super) fn pause(error: &ModelError, attempt: u32, most: u32, left: Duration) -> Option<Duration> {
    if attempt >= most || !error.transient() {
        return None;
    }
    let backoff = FIRST_PAUSE.saturating_mul(1 << (attempt - 1).min(16)).min(LONGEST_PAUSE);
    let pause = match error.retry_after() {
        Some(asked) => asked.max(FIRST_PAUSE),
        None => jitter(backoff),
    };
    (pause < left).then_some(pause)
}

/// Between half of the pause and all of it, so that many callers do not come back at the same moment.
fn jitter(pause: Duration) -> Duration {
    // A fresh hasher is seeded from the system's randomness.
    let random = RandomState::new().hash_one(0u8);
    let half = pause / 2;
    half + half.mul_f64((random >> 11) as f64 / (1u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::classify;

    const LONG: Duration = Duration::from_secs(100);

    #[test]
    fn the_pause_doubles_up_to_its_bound_and_never_leaves_its_band() {
        let error = classify(500, b"{}", None);
        for attempt in 1..40 {
            let pause = pause(&error, attempt, 100, LONG).unwrap();
            let full = FIRST_PAUSE.saturating_mul(1 << (attempt - 1).min(16)).min(LONGEST_PAUSE);
            assert!(pause >= full / 2 && pause <= full, "{attempt}: {pause:?}");
        }
    }

    #[test]
    fn the_number_of_tries_and_the_deadline_bound_it() {
        let error = classify(503, b"{}", None);
        assert_eq!(pause(&error, 3, 3, LONG), None);
        assert_eq!(pause(&error, 1, 3, Duration::from_millis(10)), None);
    }

    #[test]
    fn what_the_provider_asks_for_is_kept() {
        let error = classify(429, b"{}", Some("7"));
        assert_eq!(pause(&error, 1, 3, LONG), Some(Duration::from_secs(7)));
        assert_eq!(pause(&error, 1, 3, Duration::from_secs(5)), None);
    }

    #[test]
    fn what_cannot_get_better_is_not_tried_again() {
        for (status, body) in
            [(400, "{}"), (401, "{}"), (404, "{}"), (429, r#"{"error":{"code":"insufficient_quota"}}"#)]
        {
            assert_eq!(pause(&classify(status, body.as_bytes(), None), 1, 3, LONG), None, "{status}");
        }
    }
}
