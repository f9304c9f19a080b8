//! How often a round runs, and what it took.

use std::time::Instant;

pub(crate) struct Measure {
    pub(crate) records: u64,
    pub(crate) rounds: usize,
}

impl Measure {
    /// Prints the nanoseconds per record of the best round.
    pub(crate) fn show(&self, name: &str, mut round: impl FnMut()) {
        let nanos = (0..self.rounds).map(|_| {
            let start = Instant::now();
            round();
            start.elapsed().as_nanos() as f64
        });
        let nanos = nanos.fold(f64::INFINITY, f64::min) / self.records as f64;
        println!("{name:>48} {nanos:>10.1} {:>12.2}", 1e3 / nanos);
    }
}
