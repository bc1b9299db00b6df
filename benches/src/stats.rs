//! Percentiles of a sample.

use std::time::Duration;

/// Durations of one kind of thing, in the order in which they were measured.
#[derive(Debug, Clone, Default)]
pub struct Sample(Vec<f64>);

impl Sample {
    /// Adds one.
    pub fn push(&mut self, value: Duration) {
        self.0.push(value.as_secs_f64() * 1e3);
    }

    /// Adds all of another.
    pub fn extend(&mut self, other: Sample) {
        self.0.extend(other.0);
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value below which `percent` of the sample lie, in ms; NaN when empty.
    pub fn percentile(&self, percent: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        if sorted.is_empty() {
            return f64::NAN;
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank is small and not negative")]
        let rank = (percent / 100.0 * (sorted.len() - 1) as f64).round() as usize;
        sorted[rank]
    }
}
