//! How much of a prompt a provider has cached already: the bytes that it shares with the prompt before, from the first one on.

use crate::stats::{mean, median, percentile};
use engineroom::model::Messages;
use serde::Serialize;

/// Shares of the prompts of one conversation, in the order in which the model was called.
#[derive(Debug, Clone, Default)]
pub struct Prefix {
    last: Option<Vec<u8>>,
    shares: Vec<f64>,
}

impl Prefix {
    /// The next prompt. The first one of a conversation has none before it, and gives no share.
    pub fn call(&mut self, messages: &Messages) {
        let json = messages.json();
        if let Some(last) = &self.last {
            self.shares.push(share(last, json));
        }
        self.last = Some(json.to_vec());
    }

    /// The share that another prompt would have if it came next.
    pub fn next(&self, messages: &Messages) -> Option<f64> {
        self.last.as_ref().map(|last| share(last, messages.json()))
    }

    /// The shares so far, each between 0 and 1.
    pub fn shares(&self) -> &[f64] {
        &self.shares
    }
}

/// Length of the longest common prefix of both, divided by the length of `this`.
pub fn share(last: &[u8], this: &[u8]) -> f64 {
    let common = last.iter().zip(this).take_while(|(a, b)| a == b).count();
    if this.is_empty() { 0.0 } else { common as f64 / this.len() as f64 }
}

/// Shares of many prompts, in percent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct PrefixReport {
    /// Prompts that have one before them.
    pub calls: usize,
    /// Median.
    pub median: f64,
    /// Mean.
    pub mean: f64,
    /// Tenth percentile: nine of ten prompts have at least this much.
    pub p10: f64,
}

impl PrefixReport {
    /// Sums up shares between 0 and 1.
    pub fn of(shares: &[f64]) -> PrefixReport {
        let percent: Vec<f64> = shares.iter().map(|share| share * 100.0).collect();
        PrefixReport {
            calls: percent.len(),
            median: median(&percent),
            mean: mean(&percent),
            p10: percentile(&percent, 10.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_share_is_the_common_prefix_over_the_length_of_the_later_prompt() {
        assert_eq!(share(b"abcd", b"abxdefgh"), 0.25);
        assert_eq!(share(b"abcdefgh", b"abcd"), 1.0);
        assert_eq!(share(b"", b"ab"), 0.0);
        assert_eq!(share(b"ab", b""), 0.0);
    }

    #[test]
    fn shares_of_prompts_as_they_are_sent() {
        // [{"role":"user","content":"a"}] has 31 bytes; the second has all of it but the closing bracket, and 66.
        let first = Messages::from(vec![json!({"role": "user", "content": "a"})]);
        let second =
            Messages::from(vec![json!({"role": "user", "content": "a"}), json!({"role": "assistant", "content": "b"})]);
        let third = Messages::from(vec![json!({"role": "assistant", "content": "b"})]);
        assert_eq!((first.json().len(), second.json().len(), third.json().len()), (31, 66, 36));
        let mut prefix = Prefix::default();
        prefix.call(&first);
        assert!(prefix.shares().is_empty());
        assert_eq!(prefix.next(&second), Some(30.0 / 66.0));
        prefix.call(&second);
        prefix.call(&third);
        // `[{"role":"` is what the last two have in common.
        assert_eq!(prefix.shares(), [30.0 / 66.0, 10.0 / 36.0]);
    }

    #[test]
    fn reports_are_in_percent() {
        let report = PrefixReport::of(&[0.0, 0.5, 1.0, 1.0]);
        assert_eq!(report, PrefixReport { calls: 4, median: 75.0, mean: 62.5, p10: 0.0 });
        assert_eq!(PrefixReport::of(&[]), PrefixReport::default());
    }
}
