//! Mean, median and percentiles.

/// Arithmetic mean; 0 of nothing.
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// Median, of an even number the mean of both in the middle; 0 of nothing.
pub fn median(values: &[f64]) -> f64 {
    let sorted = sorted(values);
    match sorted.len() {
        0 => 0.0,
        len if len % 2 == 1 => sorted[len / 2],
        len => f64::midpoint(sorted[len / 2 - 1], sorted[len / 2]),
    }
}

/// Percentile by the nearest rank: the smallest value that at least `percent` of a hundred do not exceed; 0 of nothing.
pub fn percentile(values: &[f64], percent: f64) -> f64 {
    let sorted = sorted(values);
    let rank = (percent / 100.0 * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank - 1).or(sorted.last()).copied().unwrap_or(0.0)
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_computed_by_hand() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!((mean(&values), median(&values)), (2.5, 2.5));
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        let tens: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!((percentile(&tens, 10.0), percentile(&tens, 50.0), percentile(&tens, 99.0)), (1.0, 5.0, 10.0));
        assert_eq!(percentile(&tens, 0.0), 1.0);
        assert_eq!((mean(&[]), median(&[]), percentile(&[], 50.0)), (0.0, 0.0, 0.0));
    }
}
