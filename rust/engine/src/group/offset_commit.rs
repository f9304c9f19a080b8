//! Commits that wait or are under way: one after the other, never cancelled (contract 3). When one may be sent, and what an error
//! means for the membership, is the protocol's to say.

use std::collections::{BTreeSet, VecDeque};

use monedula_protocol::error_code::ErrorCode;

use super::outbox::Outbox;
use super::timers::Timer;
use super::{CallId, CommitError, GroupEvent, Offsets, Outcomes, Output, PartitionCodes, Scope, Ticket};
use crate::{Now, TopicPartition};

/// After how many attempts a commit takes a topic for deleted. Brokers hear of a new one at different times; but waiting for one
/// that is gone would hold up its revocation, whose own commit stands behind the user's.
pub(crate) const UNKNOWN_TOPIC_ATTEMPTS: u32 = 5;

/// CommitOrigin a commit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitOrigin {
    /// The user asked for it.
    User(Ticket),
    /// `auto.commit.interval.ms` passed.
    Auto,
    /// Partitions are revoked, or the member joins.
    Revocation,
}

impl CommitOrigin {
    /// `None` for the machine's own.
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
    /// The call that carries it.
    sent: Option<CallId>,
}

impl Commit {
    fn touches(&self, partitions: &BTreeSet<TopicPartition>) -> bool {
        self.open.keys().any(|partition| partitions.contains(partition))
    }

    /// What is still open comes to nothing.
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

/// All commits of a member that have not come to their end, the one at hand first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Commits {
    queue: VecDeque<Commit>,
    in_flight: Option<CallId>,
    /// What that carries, even if nobody waits for it any more.
    carried: BTreeSet<TopicPartition>,
    /// The ticket of the finished offsets that the next commit in the interval waits for.
    auto_commit: Option<Ticket>,
}

impl Commits {
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether one is sent and not answered, even if nobody waits for it any more.
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

    /// What is to be sent next. Nothing before the answer to what is under way is there, so that it never overtakes it.
    pub(crate) fn next(&self) -> Option<&Offsets> {
        self.queue.front().filter(|_| self.in_flight.is_none()).map(|commit| &commit.open)
    }

    /// The one at hand was sent.
    pub(crate) fn sent(&mut self, id: Option<CallId>) {
        self.in_flight = id;
        if let Some(commit) = self.queue.front_mut() {
            self.carried = commit.open.keys().cloned().collect();
            commit.attempts = commit.attempts.saturating_add(1);
            commit.sent = id;
        }
    }

    /// Whether it was this call that is under way; it is no more.
    pub(crate) fn answered(&mut self, id: CallId) -> bool {
        self.in_flight.take_if(|known| *known == id).is_some()
    }

    /// The one at hand, if this call carried it: that may have timed out meanwhile, and then the answer says nothing about the
    /// next.
    fn carried_by(&mut self, id: CallId) -> Option<&mut Commit> {
        self.queue.front_mut().filter(|commit| commit.sent == Some(id))
    }

    /// How often the one at hand was sent.
    pub(crate) fn attempts(&self) -> Option<u32> {
        self.queue.front().map(|commit| commit.attempts)
    }

    /// What the answer says of each partition. `verdict` is the error with which a refused one ends, `None` for one that stays
    /// open; the errors of these come back.
    pub(crate) fn take_codes(
        &mut self,
        id: CallId,
        codes: &PartitionCodes,
        mut verdict: impl FnMut(ErrorCode) -> Option<CommitError>,
    ) -> Option<Vec<ErrorCode>> {
        let commit = self.carried_by(id)?;
        let mut open = Vec::new();
        for (partition, at) in std::mem::take(&mut commit.open) {
            // A partition that the answer does not name was not committed as far as anyone knows.
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

    /// The commit that this call carried is sent again after a backoff, if it still waits.
    pub(crate) fn retry(&mut self, id: CallId, reason: &str, out: &mut Outbox, now: Now) {
        let Some(commit) = self.carried_by(id) else { return };
        commit.last = reason.into();
        let attempts = commit.attempts.saturating_sub(1);
        out.back_off(Timer::OffsetCommit, attempts, now);
    }

    /// What is not owned any more is never sent.
    pub(crate) fn keep_owned(&mut self, owned: impl Fn(&TopicPartition) -> bool) {
        for commit in &mut self.queue {
            let gone = commit.open.extract_if(.., |partition, _| !owned(partition));
            commit.done.extend(gone.map(|(partition, at)| (partition, (at, Err(CommitError::NotOwned)))));
        }
    }

    /// None of them can come to anything.
    pub(crate) fn fail(&mut self, error: &CommitError) {
        self.queue.iter_mut().for_each(|commit| commit.end(error));
    }

    /// The member lost what it owned, with this error of the coordinator if there was one.
    pub(crate) fn fail_lost(&mut self, code: Option<ErrorCode>, out: &mut Outbox) {
        self.fail(&code.map_or(CommitError::NotOwned, |code| CommitError::MemberGone { code }));
        out.timers.clear(Timer::OffsetCommit);
    }

    pub(crate) fn expire(&mut self, now: Now) {
        self.queue.iter_mut().filter(|commit| commit.deadline <= now).for_each(Commit::time_out);
    }

    /// What the machine commits before partitions are given up is not waited for any longer.
    pub(crate) fn expire_own(&mut self) {
        self.queue.iter_mut().filter(|commit| commit.origin.is_own()).for_each(Commit::time_out);
    }

    /// Whether one of the machine's own has to come to its end before these partitions are given up.
    pub(crate) fn own_wait_for(&self, partitions: &BTreeSet<TopicPartition>) -> bool {
        let mut own = self.queue.iter().filter(|commit| commit.origin.is_own());
        own.any(|commit| commit.origin == CommitOrigin::Revocation || commit.touches(partitions))
    }

    pub(crate) fn touch(&self, partitions: &BTreeSet<TopicPartition>) -> bool {
        self.queue.iter().any(|commit| commit.touches(partitions))
    }

    /// Whether one of these may be committed yet by a call that has no outcome, though what it carried timed out.
    pub(crate) fn carry(&self, partitions: &BTreeSet<TopicPartition>) -> bool {
        self.is_in_flight() && !self.carried.is_disjoint(partitions)
    }

    /// The interval is over: asks for the finished offsets. Returns `false` if an earlier commit of this kind still waits, which is
    /// enough: what is finished meanwhile comes with the next.
    pub(crate) fn begin_auto_commit(&mut self, out: &mut Outbox) -> bool {
        if self.queue.iter().any(|commit| commit.origin == CommitOrigin::Auto) {
            return false;
        }
        let ticket = out.new_id();
        self.auto_commit = Some(ticket);
        out.push(Output::CollectFinished { ticket, scope: Scope::All });
        true
    }

    /// Whether these are the finished offsets that [`Self::begin_auto_commit`] asked for.
    pub(crate) fn take_auto_commit(&mut self, ticket: Ticket) -> bool {
        self.auto_commit.take_if(|known| *known == ticket).is_some()
    }

    /// Finished offsets that come from now on are not for a commit in the interval.
    pub(crate) fn forget_auto_commit(&mut self) {
        self.auto_commit = None;
    }

    /// Answers the commits of which nothing is open any more. Returns whether one of them was the member's own.
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

    /// Finished offsets that nothing waits for go back to be collected again.
    pub(crate) fn give_back(offsets: Offsets, out: &mut Outbox) {
        if offsets.is_empty() {
            return;
        }
        let error = || CommitError::TimedOut { last: "the rebalance that asked for it is over".into() };
        let outcomes = offsets.into_iter().map(|(partition, at)| (partition, (at, Err(error())))).collect();
        out.push(Output::Committed { ticket: None, outcomes });
    }
}
