//! What is computed from a run.

use super::play::{Done, Run};

/// Steps of a distribution: more than a plot has pixels.
const MOST_STEPS: usize = 1000;

/// Completion times in nanoseconds.
pub struct Times {
    /// Sorted.
    sorted: Vec<f64>,
}

impl Times {
    pub fn of(run: &Run) -> Times {
        let mut sorted: Vec<f64> = run.done.iter().map(|done| done.at as f64 / 1000.0).collect();
        sorted.sort_by(f64::total_cmp);
        Times { sorted }
    }

    pub fn mean(&self) -> f64 {
        self.sorted.iter().sum::<f64>() / self.sorted.len().max(1) as f64
    }

    /// The least time that this part of all do not exceed (nearest rank).
    pub fn quantile(&self, part: f64) -> f64 {
        let rank = (part * self.sorted.len() as f64).ceil() as usize;
        self.sorted.get(rank.max(1) - 1).copied().unwrap_or(0.0)
    }

    /// The part of all that ended by each time, as a curve of steps; of many, some.
    pub fn distribution(&self) -> Vec<(f64, f64)> {
        let count = self.sorted.len();
        let steps = count.min(MOST_STEPS);
        let part = |ended: usize| ended as f64 / count as f64;
        let ended = |step: usize| step * count / steps;
        let corners = |step: usize| {
            let time = self.sorted[ended(step) - 1];
            [(time, part(ended(step - 1))), (time, part(ended(step)))]
        };
        (1..=steps).flat_map(corners).collect()
    }
}

/// Bits a second of payload.
pub fn rate(bytes: u64, ps: u64) -> f64 {
    bytes as f64 * 8e12 / ps.max(1) as f64
}

/// Jain's index of the messages' rates (Jain, Chiu and Hawe, 1984): 1 if all are the same, 1/n if one has all.
pub fn jain(done: &[Done]) -> f64 {
    let rates = || done.iter().map(|done| rate(done.bytes, done.at));
    let (sum, squares): (f64, f64) = (rates().sum(), rates().map(|rate| rate * rate).sum());
    sum * sum / (done.len() as f64 * squares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_the_nearest_rank() {
        let times = Times { sorted: (1..=200).map(f64::from).collect() };
        assert_eq!((times.quantile(0.5), times.quantile(0.99), times.quantile(1.0)), (100.0, 198.0, 200.0));
        assert_eq!(times.mean(), 100.5);
        let one = Times { sorted: vec![7.0] };
        assert_eq!((one.quantile(0.0), one.quantile(0.99)), (7.0, 7.0));
    }

    #[test]
    fn a_distribution_has_so_many_steps() {
        let two = Times { sorted: vec![3.0, 5.0] };
        assert_eq!(two.distribution(), [(3.0, 0.0), (3.0, 0.5), (5.0, 0.5), (5.0, 1.0)]);
        let many = Times { sorted: (1..=12_345).map(f64::from).collect() }.distribution();
        assert_eq!((many.len(), many.last()), (2 * MOST_STEPS, Some(&(12_345.0, 1.0))));
        assert!(many.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1));
        assert!(Times { sorted: Vec::new() }.distribution().is_empty());
    }

    #[test]
    fn jains_index_is_one_of_equals() {
        let done = |at| Done { from: 0, to: 1, bytes: 1000, at };
        assert!((jain(&[done(5), done(5), done(5)]) - 1.0).abs() < 1e-12);
        // Rates of 2 and 1: 9 / (2 * 5).
        assert!((jain(&[done(5), done(10)]) - 0.9).abs() < 1e-12);
    }
}
