//! The end of a member's commits, and how a revocation goes on then (contracts 2 and 3). This part is the same under
//! both protocols. When a commit may be sent, and what a refusal means for the membership, is not: each machine decides
//! that in its `offset_commit.rs`.

use std::time::Duration;

use super::member_base::MemberBase;
use super::revocation::{Finished, Revocation, RevocationStep};
use crate::Now;
use crate::group::error::CommitError;
use crate::group::messages::{CallbackKind, Offsets, Ticket};
use crate::group::offsets::{CommitOrigin, Commits};
use crate::group::outbox::Timer;

/// A member that commits before it releases partitions.
pub(crate) trait Committing {
    fn base(&mut self) -> &mut MemberBase;

    /// Tells whether the coordinator may have the member in the group, so that a commit can succeed.
    fn is_member(&self) -> bool;

    /// The time for which a revocation may wait for a commit: a coordinator that cannot commit must not keep the member
    /// from going on until it is removed from the group. There are two such waits, before and after `on_revoked`.
    fn revocation_commit_timeout(&self) -> Duration;

    /// Releases the partitions of the revocation.
    fn end_revocation(&mut self);

    /// Queues a commit of the user.
    fn commit(&mut self, ticket: Ticket, offsets: Offsets, deadline: Now, now: Now) {
        self.queue_commit(CommitOrigin::User(ticket), offsets, deadline, now);
    }

    fn queue_commit(&mut self, origin: CommitOrigin, offsets: Offsets, deadline: Now, now: Now) {
        self.base().commits.push(origin, offsets, deadline, now);
        self.refuse_commits_of_others(now);
    }

    /// Answers the commits of partitions that the member does not own (any more).
    fn refuse_commits_of_others(&mut self, now: Now) {
        let base = self.base();
        base.commits.keep_owned(|partition| base.owned.contains_key(partition));
        self.end_commits(now);
    }

    /// Answers the commits without open partitions.
    fn end_commits(&mut self, now: Now) {
        let base = self.base();
        if base.commits.end(&mut base.out, now) {
            self.committed_before_revocation();
        }
    }

    fn expire_commits(&mut self, now: Now) {
        self.base().commits.expire(now);
        self.end_commits(now);
    }

    /// Answers all waiting commits before the consumer reports that it left the group or is closed.
    fn close_commits(&mut self, now: Now) {
        self.base().commits.fail(&CommitError::Closed);
        self.end_commits(now);
    }

    /// `auto.commit.interval.ms` has passed.
    fn auto_commit_due(&mut self, now: Now) {
        let base = self.base();
        if !base.commits.begin_auto_commit(&mut base.out) {
            self.rearm_auto_commit(now);
        }
    }

    fn rearm_auto_commit(&mut self, now: Now) {
        if self.is_member()
            && let Some(interval) = self.base().config.auto_commit_interval
        {
            self.base().out.timers.set(Timer::AutoCommit, now + interval);
        }
    }

    fn commit_automatically(&mut self, offsets: Offsets, now: Now) {
        self.rearm_auto_commit(now);
        let config = &self.base().config;
        if let Some(interval) = config.auto_commit_interval.filter(|_| !offsets.is_empty()) {
            let deadline = now + interval.max(config.session_timeout);
            self.queue_commit(CommitOrigin::Auto, offsets, deadline, now);
        }
    }

    /// The user's finished offsets, which an automatic commit or a revocation asked for under `ticket`.
    fn finished(&mut self, ticket: Ticket, offsets: Offsets, now: Now) {
        if self.base().commits.take_auto_commit(ticket) {
            return self.commit_automatically(offsets, now);
        }
        let deadline = now + self.revocation_commit_timeout();
        let can_commit = self.is_member();
        let base = self.base();
        let commits = base.config.auto_commit_interval.is_some() && can_commit;
        let finished = match &mut base.revocation {
            Some(revocation) => revocation.take_finished(ticket, offsets, commits),
            None => Finished::NotNeeded(offsets),
        };
        match finished {
            Finished::NotNeeded(offsets) => Commits::give_back(offsets, &mut base.out),
            Finished::CallBack => self.call_back_revoked(),
            Finished::Commit(offsets) => {
                base.out.timers.set(Timer::Revocation, deadline);
                match offsets.is_empty() {
                    true => self.committed_before_revocation(),
                    false => self.queue_commit(CommitOrigin::Revocation, offsets, deadline, now),
                }
            }
        }
    }

    /// Runs the Revoked callback once the commit before it has ended, whatever its result, and so have automatic
    /// commits of the same partitions: their offsets are not collected a second time.
    fn committed_before_revocation(&mut self) {
        let base = self.base();
        let committing = base.revocation.as_ref().filter(|it| it.step() == RevocationStep::Committing);
        if committing.is_some_and(|it| !base.commits.own_wait_for(it.partitions())) {
            self.call_back_revoked();
        }
    }

    /// A classic member that only commits before it joins has no partitions to report.
    fn call_back_revoked(&mut self) {
        let base = self.base();
        base.out.timers.clear(Timer::Revocation);
        let Some(revocation) = &mut base.revocation else { return };
        if revocation.partitions().is_empty() {
            return self.end_revocation();
        }
        let ticket = base.out.call_back(CallbackKind::Revoked, revocation.partitions().clone());
        revocation.begin_callback(ticket);
    }

    fn called_back_revoked(&mut self, ticket: Ticket, now: Now) {
        let deadline = now + self.revocation_commit_timeout();
        let base = self.base();
        if base.revocation.as_mut().is_some_and(|it| it.called_back(ticket)) {
            base.out.timers.set(Timer::Revocation, deadline);
        }
    }

    /// Stops waiting for commits.
    fn revocation_timed_out(&mut self, now: Now) {
        let base = self.base();
        match base.revocation.as_ref().map(Revocation::step) {
            Some(RevocationStep::Committing) => {
                base.commits.expire_own();
                self.end_commits(now);
            }
            Some(RevocationStep::Draining) => self.end_revocation(),
            _ => {}
        }
    }
}
