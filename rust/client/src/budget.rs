//! One byte budget over fetches in flight, fetched bytes and decompressed bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The budget; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limit: usize,
    used: AtomicUsize,
    freed: Notify,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Self {
        Self(Arc::new(Inner { limit, used: AtomicUsize::new(0), freed: Notify::new() }))
    }

    pub(crate) fn limit(&self) -> usize {
        self.0.limit
    }

    pub(crate) fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Takes `bytes` if they are there.
    pub(crate) fn try_take(&self, bytes: usize) -> Option<Charge> {
        self.try_take_below(bytes, self.0.limit)
    }

    /// Takes `bytes` if no more than `ceiling` are then in use.
    pub(crate) fn try_take_below(&self, bytes: usize, ceiling: usize) -> Option<Charge> {
        let fits = |used: usize| used.checked_add(bytes).filter(|&sum| sum <= ceiling.min(self.0.limit));
        self.0.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()?;
        Some(Charge { budget: self.clone(), bytes })
    }

    /// Resolves when bytes were given back after this was called.
    pub(crate) async fn freed(&self) {
        self.0.freed.notified().await;
    }
}

/// Bytes taken from the budget; given back on drop.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Budget,
    bytes: usize,
}

impl Charge {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes as many more as are missing to `bytes`, if they are there; returns how many it has then.
    pub(crate) fn reach(&mut self, bytes: usize) -> usize {
        if let Some(missing) = bytes.checked_sub(self.bytes)
            && let Some(mut more) = self.budget.try_take(missing)
        {
            self.bytes += std::mem::take(&mut more.bytes);
        }
        self.bytes
    }

    /// Corrects an estimate. May overdraw: memory that is already there cannot be refused.
    pub(crate) fn set(&mut self, bytes: usize) {
        let used = &self.budget.0.used;
        if bytes >= self.bytes {
            used.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else {
            used.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
            self.budget.0.freed.notify_one();
        }
        self.bytes = bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_no_more_than_there_is_and_gets_all_back() {
        let budget = Budget::new(100);
        assert!(budget.try_take_below(60, 50).is_none());
        let mut first = budget.try_take(60).expect("fits");
        assert!(budget.try_take(41).is_none());
        let second = budget.try_take(40).expect("fits");
        first.set(90);
        assert_eq!(budget.used(), 130);
        assert!(budget.try_take(1).is_none());
        drop((first, second));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_charge_reaches_for_more_only_as_far_as_there_is_some() {
        let budget = Budget::new(100);
        let mut charge = budget.try_take(10).expect("fits");
        assert_eq!([charge.reach(5), charge.reach(60), charge.reach(101)], [10, 60, 60]);
        let other = budget.try_take(30).expect("fits");
        assert_eq!(charge.reach(80), 60);
        drop(other);
        assert_eq!(charge.reach(100), 100);
        drop(charge);
        assert_eq!(budget.used(), 0);
    }
}
