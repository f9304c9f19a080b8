//! The commits of a member that wait or are in flight. They are sent one after the other, and one in flight is never
//! cancelled (contract 3). When a commit may be sent is decided in `offset_commit.rs` of each protocol, and what an error means for
//! the membership in its `error_codes.rs`.
//! Which offsets are committed, those that the user finished and those that it chose, is decided in [`crate::ledger`].

use std::collections::{BTreeSet, VecDeque};

use monedula_protocol::error_code::ErrorCode;

use crate::group::error::CommitError;
use crate::group::messages::{CallId, GroupEvent, Offsets, Outcomes, Output, PartitionCodes, Scope, Ticket};
use crate::group::outbox::{Outbox, Timer};
use crate::{Now, TopicPartition};

/// After how many attempts a commit reports a topic as deleted. Brokers learn of a new topic at different times, so the
/// first such errors are retried. But a deleted topic must not delay its revocation, whose own commit is queued behind
/// the user's.
pub(crate) const UNKNOWN_TOPIC_ATTEMPTS: u32 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitOrigin {
    User(Ticket),
    /// The automatic commit: `auto.commit.interval.ms` passed.
    Auto,
    /// A revocation, or a join.
    Revocation,
}

impl CommitOrigin {
    /// The user's ticket; `None` for a commit that the member makes itself.
    fn ticket(self) -> Option<Ticket> {
        match self {
            Self::User(ticket) => Some(ticket),
            Self::Auto | Self::Revocation => None,
        }
    }

    fn is_own(self) -> bool {
        self.ticket().is_none()
    }
}

#[derive(Clone, Debug)]
struct Commit {
    origin: CommitOrigin,
    open: Offsets,
    done: Outcomes,
    deadline: Now,
    since: Now,
    attempts: u32,
    last: String,
    /// The call that last carried this commit.
    sent: Option<CallId>,
}

impl Commit {
    fn touches(&self, partitions: &BTreeSet<TopicPartition>) -> bool {
        self.open.keys().any(|partition| partitions.contains(partition))
    }

    /// Ends all open partitions with this error.
    fn end(&mut self, error: &CommitError) {
        let open = std::mem::take(&mut self.open);
        self.done.extend(open.into_iter().map(|(partition, at)| (partition, (at, Err(error.clone())))));
    }

    fn time_out(&mut self) {
        let last = match self.sent {
            Some(_) => "it has no answer yet".into(),
            None => self.last.clone(),
        };
        self.end(&CommitError::TimedOut { last });
    }
}

/// All commits of a member that have not ended. The current one is at the front of the queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Commits {
    queue: VecDeque<Commit>,
    in_flight: Option<CallId>,
    /// The partitions that the call in flight carries, even if their commit has timed out.
    carried: BTreeSet<TopicPartition>,
    /// The ticket under which the next automatic commit's finished offsets arrive.
    auto_commit: Option<Ticket>,
}

impl Commits {
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Tells whether a commit is in flight, even if it has timed out.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.in_flight.is_some()
    }

    pub(crate) fn push(&mut self, origin: CommitOrigin, offsets: Offsets, deadline: Now, now: Now) {
        self.queue.push_back(Commit {
            origin,
            open: offsets,
            done: Outcomes::new(),
            deadline,
            since: now,
            attempts: 0,
            last: "none was made: the member was not in the group, or the coordinator not known".into(),
            sent: None,
        });
    }

    /// The offsets to send next; `None` while a commit is in flight, so that no commit overtakes an earlier one.
    pub(crate) fn next(&self) -> Option<&Offsets> {
        self.queue.front().filter(|_| self.in_flight.is_none()).map(|commit| &commit.open)
    }

    /// The current commit was sent.
    pub(crate) fn sent(&mut self, id: Option<CallId>) {
        self.in_flight = id;
        if let Some(commit) = self.queue.front_mut() {
            self.carried = commit.open.keys().cloned().collect();
            commit.attempts = commit.attempts.saturating_add(1);
            commit.sent = id;
        }
    }

    /// Tells whether this call was in flight. It is not any more.
    pub(crate) fn answered(&mut self, id: CallId) -> bool {
        self.in_flight.take_if(|known| *known == id).is_some()
    }

    /// The current commit, if this call carried it. The commit that the call carried may have timed out meanwhile; then
    /// the answer says nothing about the next one.
    fn carried_by(&mut self, id: CallId) -> Option<&mut Commit> {
        self.queue.front_mut().filter(|commit| commit.sent == Some(id))
    }

    pub(crate) fn attempts(&self) -> Option<u32> {
        self.queue.front().map(|commit| commit.attempts)
    }

    /// Takes the error code of each partition. `verdict` returns the error with which a refused partition ends, or
    /// `None` to keep it open. Returns the error codes of the partitions that stay open.
    pub(crate) fn take_codes(
        &mut self,
        id: CallId,
        codes: &PartitionCodes,
        mut verdict: impl FnMut(ErrorCode) -> Option<CommitError>,
    ) -> Option<Vec<ErrorCode>> {
        let commit = self.carried_by(id)?;
        let mut open = Vec::new();
        for (partition, at) in std::mem::take(&mut commit.open) {
            // A partition that the answer leaves out counts as not committed.
            let code = codes.get(&partition).copied().unwrap_or(ErrorCode::RequestTimedOut);
            let outcome = match code {
                ErrorCode::None => Some(Ok(())),
                code => verdict(code).map(Err),
            };
            match outcome {
                Some(outcome) => _ = commit.done.insert(partition, (at, outcome)),
                None => {
                    commit.open.insert(partition, at);
                    open.push(code);
                }
            }
        }
        Some(open)
    }

    /// Sends the commit that this call carried again after a backoff, if it has not ended.
    pub(crate) fn retry(&mut self, id: CallId, reason: &str, out: &mut Outbox, now: Now) {
        let Some(commit) = self.carried_by(id) else { return };
        commit.last = reason.into();
        out.back_off_after(commit.attempts.saturating_sub(1), Timer::OffsetCommit, now);
    }

    /// Ends the open partitions that the member does not own (any more) with `NotOwned`: they are never sent.
    pub(crate) fn keep_owned(&mut self, owned: impl Fn(&TopicPartition) -> bool) {
        for commit in &mut self.queue {
            let gone = commit.open.extract_if(.., |partition, _| !owned(partition));
            commit.done.extend(gone.map(|(partition, at)| (partition, (at, Err(CommitError::NotOwned)))));
        }
    }

    /// Ends all commits with this error.
    pub(crate) fn fail(&mut self, error: &CommitError) {
        self.queue.iter_mut().for_each(|commit| commit.end(error));
    }

    /// Ends all commits because the member lost its partitions; `code` is the coordinator's error, if there was one.
    pub(crate) fn fail_lost(&mut self, code: Option<ErrorCode>, out: &mut Outbox) {
        self.fail(&code.map_or(CommitError::NotOwned, |code| CommitError::MemberGone { code }));
        out.timers.clear(Timer::OffsetCommit);
    }

    pub(crate) fn expire(&mut self, now: Now) {
        self.queue.iter_mut().filter(|commit| commit.deadline <= now).for_each(Commit::time_out);
    }

    /// Times out the commits that the member makes itself: a revocation does not wait for them any longer.
    pub(crate) fn expire_own(&mut self) {
        self.queue.iter_mut().filter(|commit| commit.origin.is_own()).for_each(Commit::time_out);
    }

    /// Tells whether a revocation of these partitions has to wait for a commit that the member makes itself.
    pub(crate) fn own_wait_for(&self, partitions: &BTreeSet<TopicPartition>) -> bool {
        let mut own = self.queue.iter().filter(|commit| commit.origin.is_own());
        own.any(|commit| commit.origin == CommitOrigin::Revocation || commit.touches(partitions))
    }

    pub(crate) fn touch(&self, partitions: &BTreeSet<TopicPartition>) -> bool {
        self.queue.iter().any(|commit| commit.touches(partitions))
    }

    /// Tells whether a call in flight may still commit one of these partitions, although its commit has timed out.
    pub(crate) fn carry(&self, partitions: &BTreeSet<TopicPartition>) -> bool {
        self.is_in_flight() && !self.carried.is_disjoint(partitions)
    }

    /// The interval is over: asks for the finished offsets. Returns `false` if an earlier automatic commit still waits;
    /// offsets finished meanwhile go with the next one.
    pub(crate) fn begin_auto_commit(&mut self, out: &mut Outbox) -> bool {
        if self.queue.iter().any(|commit| commit.origin == CommitOrigin::Auto) {
            return false;
        }
        let ticket = out.new_id();
        self.auto_commit = Some(ticket);
        out.push(Output::CollectFinished { ticket, scope: Scope::All });
        true
    }

    /// Tells whether this ticket is the one that [`Self::begin_auto_commit`] asked for finished offsets with. Clears
    /// it.
    pub(crate) fn take_auto_commit(&mut self, ticket: Ticket) -> bool {
        self.auto_commit.take_if(|known| *known == ticket).is_some()
    }

    /// Forgets the ticket: finished offsets that arrive from now on are not for an automatic commit.
    pub(crate) fn forget_auto_commit(&mut self) {
        self.auto_commit = None;
    }

    /// Answers and removes the commits without open partitions. Returns whether the member made one of them itself.
    pub(crate) fn end(&mut self, out: &mut Outbox, now: Now) -> bool {
        let (mut is_first, mut own) = (true, false);
        self.queue.retain_mut(|commit| {
            let is_open = !commit.open.is_empty();
            if !is_open {
                if is_first {
                    out.timers.clear(Timer::OffsetCommit);
                }
                own |= commit.origin.is_own();
                let outcomes = std::mem::take(&mut commit.done);
                let failed = outcomes.values().filter(|(_, outcome)| outcome.is_err()).count();
                let (took, partitions) = (now.saturating_sub(commit.since), outcomes.len() - failed);
                out.event(GroupEvent::Commit { took, partitions, failed });
                out.push(Output::Committed { ticket: commit.origin.ticket(), outcomes });
            }
            is_first = false;
            is_open
        });
        out.timers.put(Timer::CommitDeadline, self.queue.iter().map(|commit| commit.deadline).min());
        own
    }

    /// Returns finished offsets that no commit needs as not committed, so that they are collected again.
    pub(crate) fn give_back(offsets: Offsets, out: &mut Outbox) {
        if offsets.is_empty() {
            return;
        }
        let error = || CommitError::TimedOut { last: "the rebalance that asked for it is over".into() };
        let outcomes = offsets.into_iter().map(|(partition, at)| (partition, (at, Err(error())))).collect();
        out.push(Output::Committed { ticket: None, outcomes });
    }
}
