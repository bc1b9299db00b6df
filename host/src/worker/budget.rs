//! How much of what a worker says is read in a second. Beyond it the worker waits, not the gateway.

use std::time::{Duration, Instant};

const WINDOW: Duration = Duration::from_secs(1);

/// Bytes in each second.
#[derive(Debug)]
pub(super) struct Budget {
    most: usize,
    used: usize,
    since: Instant,
}

impl Budget {
    pub(super) fn new(most: usize) -> Budget {
        Budget { most, used: 0, since: Instant::now() }
    }

    pub(super) fn spend(&mut self, bytes: usize) {
        self.used = self.used.saturating_add(bytes);
    }

    /// `None` while something is left; else when there is something again.
    pub(super) fn over_until(&mut self) -> Option<Instant> {
        if self.since.elapsed() >= WINDOW {
            self.since = Instant::now();
            self.used = 0;
        }
        (self.used >= self.most).then(|| self.since + WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_comes_back_with_the_next_second() {
        let mut budget = Budget::new(100);
        budget.spend(99);
        assert_eq!(budget.over_until(), None);
        budget.spend(usize::MAX);
        let again = budget.over_until().unwrap();
        assert!(again <= Instant::now() + WINDOW);
        budget.since = budget.since.checked_sub(WINDOW).unwrap();
        assert_eq!(budget.over_until(), None);
        budget.spend(1);
        assert_eq!(budget.over_until(), None);
    }
}
