//! All timers of a member in one table.

use std::collections::BTreeMap;

use crate::Now;

/// When each is due, by what it is for.
#[derive(Clone, Debug)]
pub(crate) struct Timers<T>(BTreeMap<T, Now>);

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Copy + Ord> Timers<T> {
    pub(crate) fn set(&mut self, timer: T, at: Now) {
        self.0.insert(timer, at);
    }

    /// Sets it, or clears it where there is nothing to wait for.
    pub(crate) fn put(&mut self, timer: T, at: Option<Now>) {
        match at {
            Some(at) => self.set(timer, at),
            None => self.clear(timer),
        }
    }

    /// Sets it, unless it is due earlier already.
    pub(crate) fn bring_forward(&mut self, timer: T, at: Now) {
        let due = self.0.entry(timer).or_insert(at);
        *due = at.min(*due);
    }

    pub(crate) fn clear(&mut self, timer: T) {
        self.0.remove(&timer);
    }

    pub(crate) fn clear_all(&mut self) {
        self.0.clear();
    }

    pub(crate) fn at(&self, timer: T) -> Option<Now> {
        self.0.get(&timer).copied()
    }

    /// Whether it runs and is not due yet.
    pub(crate) fn waits(&self, timer: T, now: Now) -> bool {
        self.at(timer).is_some_and(|at| at > now)
    }

    /// When the first is due.
    pub(crate) fn first(&self) -> Option<Now> {
        self.0.values().min().copied()
    }

    /// Takes those that are due, each once, the earliest first.
    pub(crate) fn take_due(&mut self, now: Now) -> Vec<T> {
        let mut due: Vec<(Now, T)> =
            self.0.iter().filter(|(_, at)| **at <= now).map(|(timer, at)| (*at, *timer)).collect();
        due.sort();
        for (_, timer) in &due {
            self.0.remove(timer);
        }
        due.into_iter().map(|(_, timer)| timer).collect()
    }
}
