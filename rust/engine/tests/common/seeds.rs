//! Seeds of a simulation: which ones, and all of them on every core.
#![allow(dead_code, reason = "one of the simulations runs its seeds in order")]

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number of the environment, such as `SEEDS` or `FIRST`.
pub(crate) fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number")))
}

/// Hands seeds to `run` on every core, until one says that it is enough.
pub(crate) fn on_every_core(seeds: Range<u64>, run: &(dyn Fn(u64) -> bool + Sync)) {
    let (next, enough) = (AtomicU64::new(seeds.start), AtomicU64::new(0));
    let work = || {
        while enough.load(Ordering::Relaxed) == 0 {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            if run(seed) {
                enough.store(1, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
}
