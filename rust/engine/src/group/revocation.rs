//! Revoking partitions in order: hand out no more records, let the user finish, commit, call back, and only then release
//! (contract 2).

use std::collections::BTreeSet;

use super::{Offsets, Ticket};
use crate::TopicPartition;

/// How far a revocation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The user finishes the records that were handed out.
    Finishing,
    /// The finished offsets are committed.
    Committing,
    /// The user's Revoked callback runs.
    CallingBack,
    /// The user's own commits come to their end, or run out of time.
    Draining,
}

/// Partitions on their way out; none at all where a classic member only commits before it joins.
#[derive(Clone, Debug)]
pub(crate) struct Revocation {
    /// Of the output whose answer the current step waits for.
    ticket: Ticket,
    partitions: BTreeSet<TopicPartition>,
    step: Step,
    /// Finished offsets of these partitions that came as the answer to an earlier output.
    finished: Offsets,
}

impl Revocation {
    pub(crate) fn new(ticket: Ticket, partitions: BTreeSet<TopicPartition>) -> Self {
        Self { ticket, partitions, step: Step::Finishing, finished: Offsets::new() }
    }

    pub(crate) fn partitions(&self) -> &BTreeSet<TopicPartition> {
        &self.partitions
    }

    pub(crate) fn step(&self) -> Step {
        self.step
    }

    /// Takes finished offsets that came under `ticket`. If they are the answer that this revocation waits for, all its finished
    /// offsets come back as the first value. Offsets that it has no use for come back as the second.
    pub(crate) fn take_finished(&mut self, ticket: Ticket, mut offsets: Offsets) -> (Option<Offsets>, Offsets) {
        if self.step != Step::Finishing {
            return (None, offsets);
        }
        if self.ticket != ticket {
            // They were asked for by a revocation or a commit that is over. Those of other partitions are brought again.
            let ours = offsets.extract_if(.., |partition, _| self.partitions.contains(partition));
            self.finished.extend(ours);
            return (None, offsets);
        }
        let mut finished = std::mem::take(&mut self.finished);
        finished.append(&mut offsets);
        (Some(finished), Offsets::new())
    }

    /// The finished offsets are to be committed.
    pub(crate) fn begin_commit(&mut self) {
        self.step = Step::Committing;
    }

    /// The Revoked callback was asked for under `ticket`.
    pub(crate) fn begin_callback(&mut self, ticket: Ticket) {
        (self.ticket, self.step) = (ticket, Step::CallingBack);
    }

    /// Whether it was this callback that the revocation waited for; the user's own commits come next.
    pub(crate) fn called_back(&mut self, ticket: Ticket) -> bool {
        let is_ours = self.ticket == ticket && self.step == Step::CallingBack;
        if is_ours {
            self.step = Step::Draining;
        }
        is_ours
    }

    /// The partitions whose Revoked callback was asked for: the user knows that they go.
    pub(crate) fn notified(&self) -> BTreeSet<TopicPartition> {
        match self.step {
            Step::CallingBack | Step::Draining => self.partitions.clone(),
            Step::Finishing | Step::Committing => BTreeSet::new(),
        }
    }

    /// These partitions are lost meanwhile. Returns those whose Revoked callback was asked for, and whether nothing is left to revoke.
    pub(crate) fn leave_out(&mut self, lost: &BTreeSet<TopicPartition>) -> (BTreeSet<TopicPartition>, bool) {
        let mut notified = self.notified();
        notified.retain(|partition| lost.contains(partition));
        let before = self.partitions.len();
        self.partitions.retain(|partition| !lost.contains(partition));
        (notified, self.partitions.is_empty() && before > 0)
    }

    /// The partitions, and the finished offsets that were never committed.
    pub(crate) fn into_parts(self) -> (BTreeSet<TopicPartition>, Offsets) {
        (self.partitions, self.finished)
    }
}
