//! Exponential backoff with jitter (KIP-580), from a seed.

use std::time::Duration;

/// The backoff before retry n: `initial * factor^n`, at most `max`, with a jitter of +-20 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Backoff before the first retry.
    pub initial: Duration,
    /// Maximum backoff, before jitter.
    pub max: Duration,
    /// The factor by which the backoff grows with each retry: 2 in KIP-580.
    pub factor: u32,
}

impl Backoff {
    /// The jitter of KIP-580: 20 % up or down.
    const JITTER: f64 = 0.2;

    /// The backoff before retry `attempt` (0 is the first).
    pub fn delay(&self, attempt: u32, jitter: &mut Jitter) -> Duration {
        let grown = self.initial.saturating_mul(self.factor.saturating_pow(attempt));
        grown.min(self.max).mul_f64(1.0 - Self::JITTER + 2.0 * Self::JITTER * jitter.unit())
    }
}

/// Seeded source of jitter (SplitMix64): the same seed gives the same backoffs.
#[derive(Clone, Debug)]
pub struct Jitter(u64);

impl Jitter {
    /// A source that is determined by `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// The next 64 bits.
    #[allow(clippy::should_implement_trait, reason = "an endless source, not an iterator")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff { initial: Duration::from_millis(100), max: Duration::from_secs(1), factor: 2 };

    #[test]
    fn doubles_up_to_its_cap_within_a_fifth() {
        let mut jitter = Jitter::new(7);
        for (attempt, base_ms) in [(0, 100.0), (1, 200.0), (2, 400.0), (3, 800.0), (4, 1000.0), (40, 1000.0)] {
            for _ in 0..100 {
                let delay_ms = BACKOFF.delay(attempt, &mut jitter).as_secs_f64() * 1e3;
                assert!((0.8 * base_ms..=1.2 * base_ms).contains(&delay_ms), "attempt {attempt}: {delay_ms} ms");
            }
        }
    }

    #[test]
    fn the_factor_says_how_waits_grow() {
        let mut jitter = Jitter::new(7);
        for (factor, third_ms) in [(1, 100.0), (3, 900.0), (100, 1000.0)] {
            let delay_ms = Backoff { factor, ..BACKOFF }.delay(2, &mut jitter).as_secs_f64() * 1e3;
            assert!((0.8 * third_ms..=1.2 * third_ms).contains(&delay_ms), "factor {factor}: {delay_ms} ms");
        }
    }

    #[test]
    fn the_seed_decides_and_waits_differ() {
        let waits = |seed| {
            let mut jitter = Jitter::new(seed);
            (0..8).map(|_| BACKOFF.delay(0, &mut jitter)).collect::<Vec<_>>()
        };
        assert_eq!(waits(1), waits(1));
        assert_ne!(waits(1), waits(2));
        assert!(waits(1).windows(2).any(|pair| pair[0] != pair[1]));
    }
}
