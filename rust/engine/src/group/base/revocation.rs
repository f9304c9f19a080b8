//! The steps of a revocation: hand out no more records, let the user finish, commit, run the Revoked callback, let the
//! user's own commits end, and only then release (contract 2).

use std::collections::BTreeSet;

use crate::TopicPartition;
use crate::group::messages::{Offsets, Ticket};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RevocationStep {
    /// The user finishes the records that were handed out.
    Finishing,
    /// The finished offsets are committed.
    Committing,
    /// The user's Revoked callback runs.
    CallingBack,
    /// The user's own commits end, or time out.
    Draining,
}

/// The step that follows when finished offsets have arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Finished {
    /// The offsets are not needed, and are collected again.
    NotNeeded(Offsets),
    /// Nothing is committed: the Revoked callback runs.
    CallBack,
    /// The step is [`RevocationStep::Committing`]: these offsets are committed, and then the Revoked callback runs.
    Commit(Offsets),
}

/// The state of one revocation. It has no partitions if a classic member only commits before it joins.
#[derive(Clone, Debug)]
pub(crate) struct Revocation {
    /// The ticket of the output whose answer the current step waits for.
    ticket: Ticket,
    partitions: BTreeSet<TopicPartition>,
    step: RevocationStep,
    /// Finished offsets of these partitions that arrived as the answer to an earlier output.
    finished: Offsets,
}

impl Revocation {
    pub(crate) fn new(ticket: Ticket, partitions: BTreeSet<TopicPartition>) -> Self {
        Self { ticket, partitions, step: RevocationStep::Finishing, finished: Offsets::new() }
    }

    pub(crate) fn partitions(&self) -> &BTreeSet<TopicPartition> {
        &self.partitions
    }

    pub(crate) fn step(&self) -> RevocationStep {
        self.step
    }

    /// Takes finished offsets that arrived under `ticket`. `commits`: whether the revocation commits them.
    pub(crate) fn take_finished(&mut self, ticket: Ticket, mut offsets: Offsets, commits: bool) -> Finished {
        if self.step != RevocationStep::Finishing {
            return Finished::NotNeeded(offsets);
        }
        if self.ticket != ticket {
            // A revocation or commit that is over asked for them. Those of other partitions are collected again.
            let ours = offsets.extract_if(.., |partition, _| self.partitions.contains(partition));
            self.finished.extend(ours);
            return Finished::NotNeeded(offsets);
        }
        let mut finished = std::mem::take(&mut self.finished);
        finished.append(&mut offsets);
        if !commits {
            return Finished::CallBack;
        }
        self.step = RevocationStep::Committing;
        Finished::Commit(finished)
    }

    /// The Revoked callback was requested under `ticket`.
    pub(crate) fn begin_callback(&mut self, ticket: Ticket) {
        (self.ticket, self.step) = (ticket, RevocationStep::CallingBack);
    }

    /// Tells whether the revocation waited for this callback. If so, it now waits for the user's own commits.
    pub(crate) fn called_back(&mut self, ticket: Ticket) -> bool {
        let is_ours = self.ticket == ticket && self.step == RevocationStep::CallingBack;
        if is_ours {
            self.step = RevocationStep::Draining;
        }
        is_ours
    }

    /// The partitions for which the Revoked callback was already requested.
    pub(crate) fn notified(&self) -> BTreeSet<TopicPartition> {
        match self.step {
            RevocationStep::CallingBack | RevocationStep::Draining => self.partitions.clone(),
            RevocationStep::Finishing | RevocationStep::Committing => BTreeSet::new(),
        }
    }

    /// Removes partitions that are lost meanwhile. Returns those for which the Revoked callback was already requested,
    /// and whether no partitions are left to revoke.
    pub(crate) fn leave_out(&mut self, lost: &BTreeSet<TopicPartition>) -> (BTreeSet<TopicPartition>, bool) {
        let mut notified = self.notified();
        notified.retain(|partition| lost.contains(partition));
        let before = self.partitions.len();
        self.partitions.retain(|partition| !lost.contains(partition));
        (notified, self.partitions.is_empty() && before > 0)
    }

    /// The partitions, and the finished offsets that were not committed.
    pub(crate) fn into_parts(self) -> (BTreeSet<TopicPartition>, Offsets) {
        (self.partitions, self.finished)
    }
}
