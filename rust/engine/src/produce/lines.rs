//! Records that have to wait before they can be in a batch, for room or for their partition to be chosen: in lines by name, each in
//! the order of their sending.
//!
//! A record belongs to the transaction that it was sent in. What an aborted one has in line is taken back, and what somebody has
//! in hands by then must not go on: whoever serves a line asks [`Lines::goes`] in the moment in which the record gets into a batch.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A place in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Counts all that ever stood in a line.
    pub number: u64,
    /// The number of the transaction that it was sent in.
    pub sent_in: u64,
}

#[derive(Debug)]
struct Waiting<T> {
    place: Place,
    what: T,
}

/// Lines of things that wait; see the [module](self).
#[derive(Debug)]
pub struct Lines<T> {
    lines: BTreeMap<Arc<str>, VecDeque<Waiting<T>>>,
    last: u64,
    /// Nothing of this transaction goes on any more, nor of those before it.
    taken_back: Option<u64>,
}

impl<T> Default for Lines<T> {
    fn default() -> Self {
        Self { lines: BTreeMap::new(), last: 0, taken_back: None }
    }
}

impl<T: Clone> Lines<T> {
    /// Whether there is such a line: who comes later has to stand behind, or would overtake.
    pub fn stands(&self, line: &str) -> bool {
        self.lines.contains_key(line)
    }

    /// How many wait in all lines.
    pub fn len(&self) -> usize {
        self.lines.values().map(VecDeque::len).sum()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Puts `what` at a line's end. Says whether it is the first one, so that somebody has to begin to serve the line.
    pub fn join(&mut self, line: &str, sent_in: u64, what: T) -> bool {
        self.last += 1;
        let waiting = Waiting { place: Place { number: self.last, sent_in }, what };
        match self.lines.get_mut(line) {
            Some(line) => {
                line.push_back(waiting);
                false
            }
            None => {
                self.lines.insert(line.into(), VecDeque::from([waiting]));
                true
            }
        }
    }

    /// Who is served: it stays there, and those behind it behind it, until it is [`Self::done`].
    pub fn first(&self, line: &str) -> Option<(Place, &T)> {
        self.lines.get(line)?.front().map(|first| (first.place, &first.what))
    }

    /// Whether what stands, or stood, there may still go into a batch.
    pub fn goes(&self, place: Place) -> bool {
        self.taken_back.is_none_or(|taken_back| place.sent_in > taken_back)
    }

    /// The first of a line is sent, or has failed, and is given back. Without another one behind it the line is gone.
    pub fn done(&mut self, line: &str) -> Option<T> {
        let waiting = self.lines.get_mut(line)?;
        let done = waiting.pop_front();
        if waiting.is_empty() {
            self.lines.remove(line);
        }
        done.map(|done| done.what)
    }

    /// A transaction is aborted: gives whatever waits of it, which has failed. Who is being served stays besides until it is
    /// [`Self::done`]: somebody has it in hands.
    pub fn take_back(&mut self, transaction: u64) -> Vec<T> {
        self.taken_back = self.taken_back.max(Some(transaction));
        let mut failed = Vec::new();
        for line in self.lines.values_mut() {
            for (index, waiting) in std::mem::take(line).into_iter().enumerate() {
                let is_over = waiting.place.sent_in <= transaction;
                if is_over {
                    failed.push(waiting.what.clone());
                }
                if index == 0 || !is_over {
                    line.push_back(waiting);
                }
            }
        }
        failed
    }

    /// The number of the last one that came.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Whether all up to this number are done, or taken back.
    pub fn passed(&self, number: u64) -> bool {
        let waits = |waiting: &&Waiting<T>| self.goes(waiting.place);
        self.lines.values().all(|line| line.iter().find(waits).is_none_or(|first| first.place.number > number))
    }
}
