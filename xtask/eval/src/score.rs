//! Evidence recall: of each question, the share of its evidence that stands in the prompt.

use crate::stats::mean;
use serde::Serialize;
use std::collections::BTreeMap;

/// What became of one question.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// Its kind.
    pub category: String,
    /// It counts in the mean over all.
    pub counted: bool,
    /// Messages that hold the answer; at least one.
    pub evidence: usize,
    /// How many of them stand in the prompt.
    pub found: usize,
}

/// Recall over questions, in percent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Recall {
    /// Mean over the questions of the share of their evidence that was found.
    pub recall: f64,
    /// Share of the questions whose evidence was all found.
    pub strict: f64,
    /// How many questions.
    pub questions: usize,
}

impl Recall {
    fn of<'a>(scores: impl Iterator<Item = &'a Score>) -> Recall {
        let shares: Vec<f64> = scores.map(|score| 100.0 * score.found as f64 / score.evidence.max(1) as f64).collect();
        let whole: Vec<f64> = shares.iter().map(|share| if *share >= 100.0 { 100.0 } else { 0.0 }).collect();
        Recall { recall: mean(&shares), strict: mean(&whole), questions: shares.len() }
    }

    /// Over the questions that count.
    pub fn over_all(scores: &[Score]) -> Recall {
        Recall::of(scores.iter().filter(|score| score.counted))
    }

    /// Over the questions of each kind.
    pub fn by_category(scores: &[Score]) -> BTreeMap<String, Recall> {
        let mut by_category = BTreeMap::new();
        for score in scores {
            by_category
                .entry(score.category.clone())
                .or_insert_with(|| Recall::of(scores.iter().filter(|other| other.category == score.category)));
        }
        by_category
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(category: &str, found: usize, evidence: usize) -> Score {
        Score { category: category.into(), counted: category != "5", evidence, found }
    }

    #[test]
    fn every_question_weighs_the_same_whatever_its_kind() {
        let scores = [
            score("1", 1, 4),
            score("1", 2, 2),
            score("4", 0, 1),
            score("4", 1, 1),
            score("4", 1, 1),
            score("5", 0, 1),
        ];
        // (25 + 100 + 0 + 100 + 100) / 5, and 3 of 5; the adversarial one does not count.
        assert_eq!(Recall::over_all(&scores), Recall { recall: 65.0, strict: 60.0, questions: 5 });
        let by_category = Recall::by_category(&scores);
        assert_eq!(by_category["1"], Recall { recall: 62.5, strict: 50.0, questions: 2 });
        assert_eq!(by_category["5"], Recall { recall: 0.0, strict: 0.0, questions: 1 });
        assert!((by_category["4"].recall - 200.0 / 3.0).abs() < 1e-9);
        assert_eq!(Recall::over_all(&[]), Recall::default());
    }
}
