//! What is computed from a run.

use super::play::{Done, Run};

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

    /// The part of all that ended by each time.
    pub fn distribution(&self) -> Vec<(f64, f64)> {
        let count = self.sorted.len() as f64;
        self.sorted.iter().enumerate().map(|(at, &time)| (time, (at + 1) as f64 / count)).collect()
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
    fn jains_index_is_one_of_equals() {
        let done = |at| Done { from: 0, to: 1, bytes: 1000, at };
        assert!((jain(&[done(5), done(5), done(5)]) - 1.0).abs() < 1e-12);
        // Rates of 2 and 1: 9 / (2 * 5).
        assert!((jain(&[done(5), done(10)]) - 0.9).abs() < 1e-12);
    }
}
