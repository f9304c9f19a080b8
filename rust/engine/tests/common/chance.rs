//! What is drawn from the seed.

use std::time::Duration;

use monedula_engine::backoff::Jitter;

/// A source of chance that is determined by its seed.
#[derive(Clone, Debug)]
pub(crate) struct Chance(Jitter);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        let mut source = Jitter::new(seed);
        // The first numbers of neighbouring seeds are similar.
        source.next();
        Self(source)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next()
    }

    /// A number below `limit`; 0 if that is 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % (limit.max(1) as u64)).unwrap_or_default()
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True so many times in a thousand.
    pub(crate) fn odds(&mut self, per_mille: usize) -> bool {
        self.below(1000) < per_mille
    }

    pub(crate) fn pick<'t, T>(&mut self, of: &'t [T]) -> &'t T {
        &of[self.below(of.len())]
    }

    /// A time between two, in milliseconds.
    pub(crate) fn ms(&mut self, low: usize, high: usize) -> Duration {
        Duration::from_millis(self.between(low, high) as u64)
    }
}
