//! Revocation of a classic member (contract 2). Afterwards it joins or leaves; if the assignor defers, it may join
//! before the revocation ends.

use std::collections::BTreeSet;

use super::State;
use super::member::Member;
use crate::group::{
    CallbackKind, Commits, Finished, GroupEvent, Offsets, Output, Revocation, Scope, Step, Ticket, Timer,
};
use crate::{Now, TopicPartition};

/// What follows a revocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// The member joins.
    Join,
    /// The member joins, even before its revocation ends, because the group already rebalances.
    JoinMeanwhile,
    /// The member leaves.
    Leave,
}

impl Member {
    /// The partitions being revoked, if a join follows.
    pub(super) fn revoked_before_join(&self) -> Option<&BTreeSet<TopicPartition>> {
        let partitions = self.revocation.as_ref().filter(|_| self.then != Then::Leave).map(Revocation::partitions);
        partitions.filter(|partitions| !partitions.is_empty())
    }

    /// Begins to revoke these partitions. If there are none, it only commits the finished offsets.
    pub(super) fn revoke(&mut self, partitions: BTreeSet<TopicPartition>, then: Then) {
        let ticket = self.out.new_id();
        if partitions.is_empty() {
            self.out.push(Output::CollectFinished { ticket, scope: Scope::All });
        } else {
            self.set_state(State::Revoking);
            self.out.event(GroupEvent::RebalanceWanted { partitions: partitions.clone() });
            self.out.push(Output::PrepareRevocation { ticket, partitions: partitions.clone() });
        }
        (self.revocation, self.then) = (Some(Revocation::new(ticket, partitions)), then);
    }

    pub(super) fn finished(&mut self, ticket: Ticket, offsets: Offsets, now: Now) {
        if self.commits.take_auto_commit(ticket) {
            return self.commit_automatically(offsets, now);
        }
        let commits = self.config.auto_commit_interval.is_some() && self.generation >= 0;
        let finished = match &mut self.revocation {
            Some(revocation) => revocation.take_finished(ticket, offsets, commits),
            None => Finished::NotNeeded(offsets),
        };
        match finished {
            Finished::NotNeeded(offsets) => Commits::give_back(offsets, &mut self.out),
            Finished::CallBack => self.call_back_revoked(),
            Finished::Commit(offsets) => {
                self.out.timers.set(Timer::Revocation, now + self.config.revocation_commit_timeout());
                match offsets.is_empty() {
                    true => self.committed_before_revocation(),
                    false => self.commit_before_revocation(offsets, now),
                }
            }
        }
    }

    /// Runs the Revoked callback once the commit before it has ended, whatever its result, and so have automatic
    /// commits of the same partitions: their offsets are not collected a second time.
    pub(super) fn committed_before_revocation(&mut self) {
        let committing = self.revocation.as_ref().filter(|it| it.step() == Step::Committing);
        if committing.is_some_and(|it| !self.commits.own_wait_for(it.partitions())) {
            self.call_back_revoked();
        }
    }

    /// Stops waiting for commits: a coordinator that cannot commit must not keep the member from joining until it is
    /// removed from the group.
    pub(super) fn revocation_timed_out(&mut self, now: Now) {
        match self.revocation.as_ref().map(Revocation::step) {
            Some(Step::Committing) => self.expire_own_commits(now),
            Some(Step::Draining) => self.end_revocation(),
            _ => {}
        }
    }

    fn call_back_revoked(&mut self) {
        self.out.timers.clear(Timer::Revocation);
        let Some(revocation) = &mut self.revocation else { return };
        if revocation.partitions().is_empty() {
            return self.end_revocation();
        }
        let ticket = self.out.call_back(CallbackKind::Revoked, revocation.partitions().clone());
        revocation.begin_callback(ticket);
    }

    pub(super) fn called_back(&mut self, ticket: Ticket, now: Now) {
        if self.revocation.as_mut().is_some_and(|it| it.called_back(ticket)) {
            self.out.timers.set(Timer::Revocation, now + self.config.revocation_commit_timeout());
        }
    }

    /// Ends the revocation once the user's own commits, including those of the callback, have ended. They use another
    /// connection than JoinGroup, which might overtake them (seed S150).
    pub(super) fn advance_revocation(&mut self) {
        let draining = self.revocation.as_ref().filter(|it| it.step() == Step::Draining);
        if draining.is_some_and(|it| !self.commits.touch(it.partitions())) {
            self.end_revocation();
        }
    }

    pub(super) fn end_revocation(&mut self) {
        let Some(revocation) = self.revocation.take() else { return };
        self.out.timers.clear(Timer::Revocation);
        let (partitions, _) = revocation.into_parts();
        if !partitions.is_empty() {
            self.release(&partitions);
            self.out.push(Output::Released { partitions });
        }
        if self.state == State::Revoking {
            self.set_state(State::Stable);
        }
        if self.then != Then::Leave {
            self.join.prepared = true;
            self.want_rejoin("partitions were released".into());
        }
    }

    /// Restarts the revocation, so that it covers more partitions, unless the user has already finished its part: a
    /// commit in flight cannot be taken back, nor can a callback.
    pub(super) fn restart_revocation(&mut self) {
        if let Some(revocation) = self.revocation.take_if(|it| it.step() == Step::Finishing) {
            Commits::give_back(revocation.into_parts().1, &mut self.out);
        }
    }
}
