//! Giving up partitions in order: stop handing out, let the user finish, commit, call back, and only then let go (contract 2).

use std::collections::{BTreeMap, BTreeSet};

use super::State;
use super::member::Member;
use super::timers::Timer;
use crate::group::{CallbackKind, CommitOffset, GroupEvent, Output, Scope, Ticket};
use crate::{Now, TopicPartition};

/// What comes after partitions were given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// The member joins.
    Join,
    /// The member leaves.
    Leave,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The user finishes what was handed out.
    Settling,
    /// What was finished is committed.
    Committing,
    /// The user is told.
    CallingBack,
    /// What the user wanted committed before is, or is not in time.
    Draining,
}

/// Partitions on their way out; none at all where only a commit goes before a join.
#[derive(Clone, Debug)]
pub(super) struct Revocation {
    ticket: Ticket,
    partitions: BTreeSet<TopicPartition>,
    step: Step,
    then: Then,
    /// The others meet, and are not to wait for this.
    pub(super) meanwhile: bool,
    /// What was finished of them and brought for something that is over.
    brought: BTreeMap<TopicPartition, CommitOffset>,
}

impl Revocation {
    /// The partitions, if a join and nothing else follows.
    pub(super) fn before_a_join(&self) -> Option<&BTreeSet<TopicPartition>> {
        Some(&self.partitions).filter(|partitions| self.then == Then::Join && !partitions.is_empty())
    }

    /// These are lost meanwhile: those of which the Revoked callback was asked for, and whether nothing is left to give up.
    pub(super) fn leave_out(&mut self, lost: &BTreeSet<TopicPartition>) -> (BTreeSet<TopicPartition>, bool) {
        let out: BTreeSet<_> = self.partitions.extract_if(.., |partition| lost.contains(partition)).collect();
        let ended = self.partitions.is_empty() && !out.is_empty();
        match self.step {
            Step::CallingBack | Step::Draining => (out, ended),
            Step::Settling | Step::Committing => (BTreeSet::new(), ended),
        }
    }

    /// The partitions whose Revoked callback was asked for.
    pub(super) fn told(self) -> BTreeSet<TopicPartition> {
        match self.step {
            Step::CallingBack | Step::Draining => self.partitions,
            Step::Settling | Step::Committing => BTreeSet::new(),
        }
    }
}

impl Member {
    /// Begins to give up these partitions.
    pub(super) fn revoke(&mut self, partitions: BTreeSet<TopicPartition>, then: Then) {
        let ticket = self.new_id();
        if partitions.is_empty() {
            self.push(Output::CollectFinished { ticket, scope: Scope::All });
        } else {
            self.set_state(State::Revoking);
            self.event(GroupEvent::RebalanceWanted { partitions: partitions.clone() });
            self.push(Output::PrepareRevocation { ticket, partitions: partitions.clone() });
        }
        self.revocation = Some(Revocation {
            ticket,
            partitions,
            step: Step::Settling,
            then,
            meanwhile: false,
            brought: BTreeMap::new(),
        });
    }

    pub(super) fn settled(&mut self, ticket: Ticket, mut offsets: BTreeMap<TopicPartition, CommitOffset>, now: Now) {
        if self.auto_commit == Some(ticket) {
            return self.commit_automatically(offsets, now);
        }
        let Some(revocation) = self.revocation.as_mut().filter(|it| it.step == Step::Settling) else {
            return self.return_offsets(offsets);
        };
        if revocation.ticket != ticket {
            // What was brought for something that is over goes along; the rest is to be brought again.
            let partitions = &revocation.partitions;
            revocation.brought.extend(offsets.extract_if(.., |partition, _| partitions.contains(partition)));
            return self.return_offsets(offsets);
        }
        let mut brought = std::mem::take(&mut revocation.brought);
        brought.append(&mut offsets);
        let offsets = brought;
        if self.config.auto_commit_interval.is_none() || self.generation < 0 {
            return self.call_back_revoked();
        }
        revocation.step = Step::Committing;
        self.timers.set(Timer::Revocation, now + self.config.revocation_commit_timeout());
        match offsets.is_empty() {
            true => self.committed_before_revocation(),
            false => self.commit_before_revocation(offsets, now),
        }
    }

    /// Goes on once the commit before came to its end, whatever that was, and those in the interval that had brought offsets
    /// already: what an earlier one brought is not brought again.
    pub(super) fn committed_before_revocation(&mut self) {
        let committing = self.revocation.as_ref().filter(|it| it.step == Step::Committing);
        if committing.is_some_and(|it| !self.commits.own_wait_for(&it.partitions)) {
            self.call_back_revoked();
        }
    }

    /// A coordinator that does not commit must not keep the member from joining until it is thrown out.
    pub(super) fn revocation_timed_out(&mut self, now: Now) {
        match self.revocation.as_ref().map(|it| it.step) {
            Some(Step::Committing) => self.expire_own_commits(now),
            Some(Step::Draining) => self.end_revocation(),
            _ => {}
        }
    }

    fn call_back_revoked(&mut self) {
        self.timers.clear(Timer::Revocation);
        let Some(revocation) = &mut self.revocation else { return };
        if revocation.partitions.is_empty() {
            self.end_revocation();
            return;
        }
        revocation.step = Step::CallingBack;
        let partitions = revocation.partitions.clone();
        let ticket = self.call_back(CallbackKind::Revoked, partitions);
        if let Some(revocation) = &mut self.revocation {
            revocation.ticket = ticket;
        }
    }

    pub(super) fn called_back(&mut self, ticket: Ticket, now: Now) {
        let Some(revocation) =
            self.revocation.as_mut().filter(|it| it.ticket == ticket && it.step == Step::CallingBack)
        else {
            return;
        };
        revocation.step = Step::Draining;
        self.timers.set(Timer::Revocation, now + self.config.revocation_commit_timeout());
    }

    /// What the user wanted committed, in the callback too, is complete before the partitions are anybody else's: the commit
    /// goes over another connection than the join, which might overtake it (seed S150).
    pub(super) fn advance_revocation(&mut self) {
        let Some(revocation) = self.revocation.as_ref().filter(|it| it.step == Step::Draining) else { return };
        if !self.commits.touch(&revocation.partitions) {
            self.end_revocation();
        }
    }

    pub(super) fn end_revocation(&mut self) {
        let Some(revocation) = self.revocation.take() else { return };
        self.timers.clear(Timer::Revocation);
        if !revocation.partitions.is_empty() {
            self.let_go(&revocation.partitions);
            self.push(Output::Released { partitions: revocation.partitions });
        }
        if self.state == State::Revoking {
            self.set_state(State::Stable);
        }
        match revocation.then {
            Then::Join => {
                self.prepared = true;
                self.want_rejoin("partitions were given up".into());
            }
            Then::Leave => {}
        }
    }

    /// What was begun is begun anew for more partitions, unless it is past the user's part: a commit that is under way is not
    /// taken back, nor what the user was told.
    pub(super) fn restart_revocation(&mut self) {
        if let Some(revocation) = self.revocation.take_if(|it| it.step == Step::Settling) {
            self.return_offsets(revocation.brought);
        }
    }
}
