//! Revocation of a member under KIP-848 (contract 2). Only afterwards does it acknowledge its target.

use std::collections::BTreeSet;

use super::member::Member;
use crate::group::{CallbackKind, Commits, Finished, GroupEvent, Offsets, Output, Revocation, Step, Ticket, Timer};
use crate::{Now, TopicPartition};

impl Member {
    /// Begins to revoke these partitions. From here on none of their records is handed out. That comes before the
    /// finished offsets are collected; otherwise records would be handed out after the collection (KAFKA-16460).
    pub(super) fn revoke(&mut self, partitions: BTreeSet<TopicPartition>) {
        let ticket = self.out.new_id();
        self.out.event(GroupEvent::RebalanceWanted { partitions: partitions.clone() });
        self.out.push(Output::PrepareRevocation { ticket, partitions: partitions.clone() });
        self.revocation = Some(Revocation::new(ticket, partitions));
    }

    pub(super) fn finished(&mut self, ticket: Ticket, offsets: Offsets, now: Now) {
        if self.commits.take_auto_commit(ticket) {
            return self.commit_automatically(offsets, now);
        }
        let commits = self.config.auto_commit_interval.is_some();
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

    /// Stops waiting for commits: a coordinator that cannot commit must not keep the member from acknowledging until it
    /// is removed from the group.
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
        let ticket = self.out.call_back(CallbackKind::Revoked, revocation.partitions().clone());
        revocation.begin_callback(ticket);
    }

    pub(super) fn called_back_revoked(&mut self, ticket: Ticket, now: Now) {
        if self.revocation.as_mut().is_some_and(|it| it.called_back(ticket)) {
            self.out.timers.set(Timer::Revocation, now + self.config.revocation_commit_timeout());
        }
    }

    /// Ends the revocation once the user's own commits, including those of the callback, have ended. They use another
    /// connection than the heartbeat, which might overtake them (seed S150). A commit that timed out but is still in
    /// flight has to end too: its epoch may still be valid when it arrives, and it would overwrite what the next owner
    /// has committed by then.
    pub(super) fn advance_revocation(&mut self) {
        let draining = self.revocation.as_ref().filter(|it| it.step() == Step::Draining);
        let is_over = |it: &Revocation| !self.commits.touch(it.partitions()) && !self.commits.carry(it.partitions());
        if draining.is_some_and(is_over) {
            self.end_revocation();
        }
    }

    fn end_revocation(&mut self) {
        let Some(revocation) = self.revocation.take() else { return };
        self.out.timers.clear(Timer::Revocation);
        let (partitions, _) = revocation.into_parts();
        self.release(&partitions);
        self.out.push(Output::Released { partitions });
    }

    /// Restarts the revocation, so that it covers more partitions, unless the user has already finished its part: a
    /// commit in flight cannot be taken back, nor can a callback.
    pub(super) fn restart_revocation(&mut self) {
        if let Some(revocation) = self.revocation.take_if(|it| it.step() == Step::Finishing) {
            Commits::give_back(revocation.into_parts().1, &mut self.out);
        }
    }
}
