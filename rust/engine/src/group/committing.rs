//! How a member's commits end, and how a revocation goes on when they have (contracts 2 and 3). This part is the same
//! under both protocols. When a commit may be sent, and what a refusal means for the membership, is not: each machine
//! decides that in its `offset_commit.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use super::error::CommitError;
use super::event::GroupEvent;
use super::offset_commit::{CommitOrigin, Commits};
use super::outbox::Outbox;
use super::output::Output;
use super::revocation::{Finished, Revocation, Step};
use super::timers::Timer;
use super::words::{CallbackKind, Offsets, Ticket};
use crate::{Now, TopicPartition};

/// The fields of a member that commits and revocations use, and its settings for them.
pub(crate) struct Parts<'a> {
    pub(crate) commits: &'a mut Commits,
    pub(crate) revocation: &'a mut Option<Revocation>,
    pub(crate) owned: &'a BTreeMap<TopicPartition, Uuid>,
    pub(crate) out: &'a mut Outbox,
    pub(crate) auto_commit_interval: Option<Duration>,
    pub(crate) session_timeout: Duration,
    pub(crate) revocation_commit_timeout: Duration,
}

/// A member that commits before it releases partitions.
pub(crate) trait Committing {
    fn parts(&mut self) -> Parts<'_>;

    /// Whether the coordinator may have the member in the group, so that a commit can succeed.
    fn is_member(&self) -> bool;

    /// Releases the partitions of the revocation.
    fn end_revocation(&mut self);

    /// Queues a commit of the user.
    fn commit(&mut self, ticket: Ticket, offsets: Offsets, deadline: Now, now: Now) {
        self.queue_commit(CommitOrigin::User(ticket), offsets, deadline, now);
    }

    fn queue_commit(&mut self, origin: CommitOrigin, offsets: Offsets, deadline: Now, now: Now) {
        self.parts().commits.push(origin, offsets, deadline, now);
        self.refuse_commits_of_others(now);
    }

    /// Answers the commits of partitions that the member does not own (any more).
    fn refuse_commits_of_others(&mut self, now: Now) {
        let Parts { commits, owned, .. } = self.parts();
        commits.keep_owned(|partition| owned.contains_key(partition));
        self.end_commits(now);
    }

    /// Answers the commits without open partitions.
    fn end_commits(&mut self, now: Now) {
        let Parts { commits, out, .. } = self.parts();
        if commits.end(out, now) {
            self.committed_before_revocation();
        }
    }

    /// Ends all waiting commits: the member lost its partitions.
    fn fail_commits(&mut self, code: Option<ErrorCode>) {
        let Parts { commits, out, .. } = self.parts();
        commits.fail_lost(code, out);
    }

    fn expire_commits(&mut self, now: Now) {
        self.parts().commits.expire(now);
        self.end_commits(now);
    }

    /// Answers all waiting commits before the consumer reports that it left the group or is closed.
    fn close_commits(&mut self, now: Now) {
        self.parts().commits.fail(&CommitError::Closed);
        self.end_commits(now);
    }

    /// `auto.commit.interval.ms` has passed.
    fn auto_commit_due(&mut self, now: Now) {
        let Parts { commits, out, .. } = self.parts();
        if !commits.begin_auto_commit(out) {
            self.rearm_auto_commit(now);
        }
    }

    fn rearm_auto_commit(&mut self, now: Now) {
        if self.is_member()
            && let Parts { out, auto_commit_interval: Some(interval), .. } = self.parts()
        {
            out.timers.set(Timer::AutoCommit, now + interval);
        }
    }

    fn commit_automatically(&mut self, offsets: Offsets, now: Now) {
        self.rearm_auto_commit(now);
        let Parts { auto_commit_interval, session_timeout, .. } = self.parts();
        if let Some(interval) = auto_commit_interval.filter(|_| !offsets.is_empty()) {
            self.queue_commit(CommitOrigin::Auto, offsets, now + interval.max(session_timeout), now);
        }
    }

    /// The user's finished offsets, which an automatic commit or a revocation asked for under `ticket`.
    fn finished(&mut self, ticket: Ticket, offsets: Offsets, now: Now) {
        if self.parts().commits.take_auto_commit(ticket) {
            return self.commit_automatically(offsets, now);
        }
        let can_commit = self.is_member();
        let Parts { revocation, out, auto_commit_interval, revocation_commit_timeout, .. } = self.parts();
        let commits = auto_commit_interval.is_some() && can_commit;
        let finished = match revocation {
            Some(revocation) => revocation.take_finished(ticket, offsets, commits),
            None => Finished::NotNeeded(offsets),
        };
        match finished {
            Finished::NotNeeded(offsets) => Commits::give_back(offsets, out),
            Finished::CallBack => self.call_back_revoked(),
            Finished::Commit(offsets) => {
                let deadline = now + revocation_commit_timeout;
                out.timers.set(Timer::Revocation, deadline);
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
        let Parts { commits, revocation, .. } = self.parts();
        let committing = revocation.as_ref().filter(|it| it.step() == Step::Committing);
        if committing.is_some_and(|it| !commits.own_wait_for(it.partitions())) {
            self.call_back_revoked();
        }
    }

    /// A classic member that only commits before it joins has no partitions to report.
    fn call_back_revoked(&mut self) {
        let Parts { revocation, out, .. } = self.parts();
        out.timers.clear(Timer::Revocation);
        let Some(revocation) = revocation else { return };
        if revocation.partitions().is_empty() {
            return self.end_revocation();
        }
        let ticket = out.call_back(CallbackKind::Revoked, revocation.partitions().clone());
        revocation.begin_callback(ticket);
    }

    fn called_back_revoked(&mut self, ticket: Ticket, now: Now) {
        let Parts { revocation, out, revocation_commit_timeout, .. } = self.parts();
        if revocation.as_mut().is_some_and(|it| it.called_back(ticket)) {
            out.timers.set(Timer::Revocation, now + revocation_commit_timeout);
        }
    }

    /// Stops waiting for commits: a coordinator that cannot commit must not keep the member from going on until it is
    /// removed from the group.
    fn revocation_timed_out(&mut self, now: Now) {
        let Parts { commits, revocation, .. } = self.parts();
        match revocation.as_ref().map(Revocation::step) {
            Some(Step::Committing) => {
                commits.expire_own();
                self.end_commits(now);
            }
            Some(Step::Draining) => self.end_revocation(),
            _ => {}
        }
    }

    /// Takes the partitions of the revocation, to release them.
    fn take_revoked(&mut self) -> Option<BTreeSet<TopicPartition>> {
        let Parts { revocation, out, .. } = self.parts();
        let (partitions, _) = revocation.take()?.into_parts();
        out.timers.clear(Timer::Revocation);
        Some(partitions)
    }

    /// Restarts the revocation, so that it covers more partitions, unless the user has already finished its part: a
    /// commit in flight cannot be taken back, nor can a callback.
    fn restart_revocation(&mut self) {
        let Parts { revocation, out, .. } = self.parts();
        if let Some(revocation) = revocation.take_if(|it| it.step() == Step::Finishing) {
            Commits::give_back(revocation.into_parts().1, out);
        }
    }

    /// Asks the user to finish what was handed out of these partitions. From here on none of their records is handed
    /// out. That comes before the finished offsets are collected; otherwise records would be handed out after the
    /// collection (KAFKA-16460).
    fn begin_revocation(&mut self, partitions: BTreeSet<TopicPartition>) {
        let Parts { revocation, out, .. } = self.parts();
        let ticket = out.new_id();
        out.event(GroupEvent::RebalanceWanted { partitions: partitions.clone() });
        out.push(Output::PrepareRevocation { ticket, partitions: partitions.clone() });
        *revocation = Some(Revocation::new(ticket, partitions));
    }
}
