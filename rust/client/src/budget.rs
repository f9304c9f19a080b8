//! One byte budget over fetches in flight, fetched bytes and decompressed bytes.
//!
//! A broker answers with one whole batch, however much less was asked for (KIP-74), and every broker may at the same
//! time. So an answer that is larger than what was kept for it is read once the budget has room for the rest; one at a
//! time is read beyond the budget, so that a batch that is larger than all of it can be read too.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// The budget; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limit: usize,
    used: AtomicUsize,
    /// Notifies the driver, which may have credit for another fetch.
    freed: Notify,
    /// Notifies all answers that wait.
    freed_for_answers: Notify,
    /// One permit, for the one answer that may be read beyond the budget.
    beyond: Arc<Semaphore>,
    answers_waiting: AtomicUsize,
    answer_waits: Notify,
}

/// The bytes that were kept for an answer when it was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    pub(crate) budget: Budget,
    pub(crate) kept_bytes: usize,
}

/// Permission to hold an answer that is larger than its [`Room`].
#[derive(Debug)]
pub(crate) enum Admitted {
    /// The budget is charged with the missing bytes.
    Within(Charge),
    /// The one answer beyond the budget.
    Beyond { _permit: OwnedSemaphorePermit },
}

impl Admitted {
    /// Bytes that the budget is charged with by this.
    pub(crate) fn charged_bytes(&self) -> usize {
        match self {
            Self::Within(charge) => charge.bytes(),
            Self::Beyond { .. } => 0,
        }
    }
}

impl Room {
    /// Resolves when an answer of so many bytes may be read. None where enough was kept for it.
    pub(crate) async fn admit(&self, bytes: usize) -> Option<Admitted> {
        match bytes.checked_sub(self.kept_bytes) {
            None | Some(0) => None,
            Some(missing) => Some(self.budget.admit(missing).await),
        }
    }
}

struct AnswerWaiter<'a>(&'a Inner);

impl<'a> AnswerWaiter<'a> {
    fn new(inner: &'a Inner) -> Self {
        inner.answers_waiting.fetch_add(1, Ordering::Relaxed);
        inner.answer_waits.notify_one();
        Self(inner)
    }
}

impl Drop for AnswerWaiter<'_> {
    fn drop(&mut self) {
        self.0.answers_waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Self {
        Self(Arc::new(Inner {
            limit,
            used: AtomicUsize::new(0),
            freed: Notify::new(),
            freed_for_answers: Notify::new(),
            beyond: Arc::new(Semaphore::new(1)),
            answers_waiting: AtomicUsize::new(0),
            answer_waits: Notify::new(),
        }))
    }

    pub(crate) fn limit(&self) -> usize {
        self.0.limit
    }

    pub(crate) fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Takes `bytes` if so many are free.
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

    /// True if an answer waits to be read.
    pub(crate) fn is_awaited(&self) -> bool {
        self.0.answers_waiting.load(Ordering::Relaxed) > 0
    }

    /// Resolves when an answer begins to wait.
    pub(crate) async fn awaited(&self) {
        self.0.answer_waits.notified().await;
    }

    async fn admit(&self, bytes: usize) -> Admitted {
        if let Some(charge) = self.try_take(bytes) {
            return Admitted::Within(charge);
        }
        let _waiting = AnswerWaiter::new(&self.0);
        // Made once for the whole wait: the semaphore serves the answer that waits longest.
        let mut beyond = pin!(self.0.beyond.clone().acquire_owned());
        loop {
            let mut freed = pin!(self.0.freed_for_answers.notified());
            // Listens from here on, so that bytes freed after the attempt below are noticed.
            freed.as_mut().enable();
            if let Some(charge) = self.try_take(bytes) {
                return Admitted::Within(charge);
            }
            tokio::select! {
                permit = &mut beyond => match permit {
                    Ok(permit) => return Admitted::Beyond { _permit: permit },
                    // Nobody closes the semaphore.
                    Err(_) => std::future::pending().await,
                },
                () = freed => {}
            }
        }
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

    /// Takes as many more as are missing to `bytes`, if so many are free; returns how many it has then.
    pub(crate) fn reach(&mut self, bytes: usize) -> usize {
        if let Some(missing) = bytes.checked_sub(self.bytes)
            && let Some(mut more) = self.budget.try_take(missing)
        {
            self.bytes += std::mem::take(&mut more.bytes);
        }
        self.bytes
    }

    /// Corrects an estimate. May exceed the limit: memory that is already allocated cannot be refused.
    pub(crate) fn set(&mut self, bytes: usize) {
        let used = &self.budget.0.used;
        if bytes >= self.bytes {
            used.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else {
            used.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
            self.budget.0.freed.notify_one();
            self.budget.0.freed_for_answers.notify_waiters();
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
    use std::time::Duration;

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

    /// One that waits, looked at once.
    async fn waits(admitted: &mut (impl Future<Output = Option<Admitted>> + Unpin)) -> bool {
        tokio::time::timeout(Duration::ZERO, admitted).await.is_err()
    }

    #[tokio::test]
    async fn answers_larger_than_what_was_kept_for_them_wait_for_the_budget_and_one_goes_beyond_it() {
        let budget = Budget::new(100);
        let kept: Vec<Charge> = (0..4).filter_map(|_| budget.try_take(10)).collect();
        let room = Room { budget: budget.clone(), kept_bytes: 10 };
        assert!(room.admit(10).await.is_none(), "enough was kept for it");
        let within = room.admit(50).await.expect("more than was kept");
        assert_eq!((within.charged_bytes(), budget.used()), (40, 80));
        let beyond = room.admit(500).await.expect("more than was kept");
        assert_eq!((beyond.charged_bytes(), budget.used(), budget.is_awaited()), (0, 80, false));
        let (mut large, mut small) = (Box::pin(room.admit(500)), Box::pin(room.admit(60)));
        assert!(waits(&mut large).await && waits(&mut small).await && budget.is_awaited());
        tokio::time::timeout(Duration::from_secs(60), budget.awaited()).await.expect("it is told that they wait");
        drop(within);
        assert_eq!(small.await.expect("there is room").charged_bytes(), 50);
        assert!(waits(&mut large).await, "another one is beyond the budget");
        drop(beyond);
        assert!(matches!(large.await, Some(Admitted::Beyond { .. })));
        assert!(!budget.is_awaited());
        drop(kept);
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test]
    async fn who_waits_no_longer_leaves_nothing_behind() {
        let budget = Budget::new(100);
        let room = Room { budget: budget.clone(), kept_bytes: 0 };
        let first = room.admit(101).await;
        let mut second = Box::pin(room.admit(101));
        assert!(waits(&mut second).await);
        drop(first);
        // The second may have been given the leave already.
        drop(second);
        assert!(!budget.is_awaited());
        assert!(matches!(room.admit(101).await, Some(Admitted::Beyond { .. })));
    }
}
