//! Commits: one after the other, never cancelled, with the generation of the owner (contract 3).

use monedula_protocol::error_code::ErrorCode;

use super::member::{InFlight, Kind, Member};
use super::reactions::reaction;
use super::timers::Timer;
use super::{Reaction, State};
use crate::Now;
use crate::group::{
    Answer, Call, CallId, CommitError, CommitOrigin, GroupEvent, GroupProtocol, Offsets, Output, Scope, Ticket,
    UNKNOWN_TOPIC_ATTEMPTS, topic_ids,
};

impl Member {
    /// The user wants offsets committed.
    pub(super) fn commit(&mut self, ticket: Ticket, offsets: Offsets, deadline: Now, now: Now) {
        self.queue_commit(CommitOrigin::User(ticket), offsets, deadline, now);
    }

    pub(super) fn commit_automatically(&mut self, offsets: Offsets, now: Now) {
        self.auto_commit = None;
        self.rearm_auto_commit(now);
        if let Some(interval) = self.config.auto_commit_interval.filter(|_| !offsets.is_empty()) {
            self.queue_commit(CommitOrigin::Auto, offsets, now + interval.max(self.config.session_timeout), now);
        }
    }

    pub(super) fn commit_before_revocation(&mut self, offsets: Offsets, now: Now) {
        self.queue_commit(CommitOrigin::Revocation, offsets, now + self.config.revocation_commit_timeout(), now);
    }

    fn queue_commit(&mut self, whose: CommitOrigin, offsets: Offsets, deadline: Now, now: Now) {
        self.commits.push(whose, offsets, deadline, now);
        self.commits.keep_owned(|partition| self.owned.contains_key(partition));
        self.end_commits(now);
    }

    /// Sends the next commit if that may be now.
    pub(super) fn advance_commits(&mut self, now: Now) {
        self.commits.keep_owned(|partition| self.owned.contains_key(partition));
        self.end_commits(now);
        // Between the answers to JoinGroup and SyncGroup coordinators take none; before that they take those of the old
        // generation (seed S116).
        let may = matches!(self.state, State::Stable | State::Revoking | State::PreparingRebalance)
            && self.generation >= 0
            && !self.in_doubt
            && self.lease_holds(now);
        if !may || self.coordinator.is_none() || self.timers.waits(Timer::Commit, now) {
            return;
        }
        let Some(offsets) = self.commits.next().cloned() else { return };
        let call = Call::OffsetCommit {
            protocol: GroupProtocol::Classic,
            group_id: self.config.group_id.clone(),
            member_id: self.member_id.clone(),
            instance_id: self.config.instance_id.clone(),
            generation_or_epoch: self.generation,
            topic_ids: topic_ids(&self.owned, offsets.keys()),
            offsets,
        };
        let sent = self.send(Kind::Commit, call, now);
        self.commits.sent(sent);
    }

    pub(super) fn commit_answered(&mut self, id: CallId, call: InFlight, outcome: Result<Answer, String>, now: Now) {
        if !self.commits.answered(id) {
            return;
        }
        let codes = match outcome {
            Ok(Answer::OffsetCommit { codes }) => codes,
            Ok(_) => return self.commit_again(id, "an answer of another kind", now),
            Err(reason) => {
                self.coordinator_lost(call.node_id, &reason, false, now);
                return self.commit_again(id, &reason, now);
            }
        };
        for &code in codes.values() {
            self.coordinator_answered(code);
        }
        if codes.values().any(|code| *code == ErrorCode::UnknownTopicId) {
            // If it was made anew, metadata tells, and then it is lost.
            self.push(Output::RefreshMetadata);
        }
        let gone = [ErrorCode::UnknownTopicOrPartition, ErrorCode::UnknownTopicId];
        let waited = self.commits.attempts().is_some_and(|attempts| attempts >= UNKNOWN_TOPIC_ATTEMPTS);
        let verdict = |code| match reaction(Kind::Commit.api(), code) {
            Reaction::Tell => Some(CommitError::Refused { code }),
            _ if waited && gone.contains(&code) => Some(CommitError::Refused { code }),
            _ => None,
        };
        let Some(open) = self.commits.take_codes(id, &codes, verdict) else { return };
        if let Some(refused) = worst(open) {
            self.commit_refused(id, refused, call, now);
        }
        self.end_commits(now);
    }

    fn commit_refused(&mut self, id: CallId, (code, reacted): (ErrorCode, Reaction), call: InFlight, now: Now) {
        let current = call.generation == self.generation;
        let settled = matches!(self.state, State::Stable | State::Revoking) && !self.join_goes_on();
        match reacted {
            Reaction::Rejoin => {
                if current && self.state == State::Stable {
                    self.want_rejoin("the coordinator rebalances the group".into());
                }
                self.retried(Kind::Commit.api(), code);
                self.commit_again(id, code.name(), now);
            }
            Reaction::DropGeneration | Reaction::DropMember if current && settled => {
                self.lose_and_rejoin(code, Kind::Commit.api(), reacted == Reaction::DropMember);
            }
            Reaction::Fail if current => self.fail(self.error_of(Kind::Commit.api(), code), now),
            // It was another generation's request, or a join is under way that will tell: again with what is true then.
            _ => {
                self.retried(Kind::Commit.api(), code);
                self.coordinator_error(reacted, call, code.name(), now);
                self.commit_again(id, code.name(), now);
            }
        }
    }

    fn commit_again(&mut self, id: CallId, reason: &str, now: Now) {
        let Some(attempt) = self.commits.again(id, reason) else { return };
        let delay = self.config.backoff.delay(attempt, &mut self.jitter);
        self.timers.set(Timer::Commit, now + delay);
    }

    /// The member lost what it owned: nothing that waits can be committed.
    pub(super) fn fail_commits(&mut self, code: Option<ErrorCode>) {
        let error = code.map_or(CommitError::NotOwned, |code| CommitError::MemberGone { code });
        self.commits.fail(&error);
        self.timers.clear(Timer::Commit);
    }

    pub(super) fn expire_commits(&mut self, now: Now) {
        self.commits.expire(now);
        self.end_commits(now);
    }

    /// What the machine commits before partitions are given up is not waited for any longer.
    pub(super) fn expire_own_commits(&mut self, now: Now) {
        self.commits.expire_own();
        self.end_commits(now);
    }

    /// The consumer is out of the group, or closed: what waits is answered before that is said.
    pub(super) fn close_commits(&mut self, now: Now) {
        self.commits.fail(&CommitError::Closed);
        self.end_commits(now);
    }

    /// Answers the commits of which nothing is open any more.
    fn end_commits(&mut self, now: Now) {
        let ended = self.commits.take_ended();
        let own = ended.iter().any(|commit| commit.ticket.is_none());
        if ended.iter().any(|commit| commit.was_first) {
            self.timers.clear(Timer::Commit);
        }
        for commit in ended {
            let (partitions, failed) = commit.counts();
            self.event(GroupEvent::Commit { took: now.saturating_sub(commit.since), partitions, failed });
            self.push(Output::Committed { ticket: commit.ticket, outcomes: commit.outcomes });
        }
        self.timers.put(Timer::CommitDeadline, self.commits.first_deadline());
        if own {
            self.committed_before_revocation();
        }
    }

    /// Time for the commit in the interval.
    pub(super) fn auto_commit_due(&mut self, now: Now) {
        // One that waits is enough: what is finished meanwhile comes with the next.
        if self.commits.has_auto() {
            return self.rearm_auto_commit(now);
        }
        let ticket = self.new_id();
        self.auto_commit = Some(ticket);
        self.push(Output::CollectFinished { ticket, scope: Scope::All });
    }

    fn rearm_auto_commit(&mut self, now: Now) {
        if let Some(interval) = self.config.auto_commit_interval.filter(|_| self.generation >= 0) {
            self.timers.set(Timer::AutoCommit, now + interval);
        }
    }

    /// Offsets that were brought for nothing.
    pub(super) fn return_offsets(&mut self, offsets: Offsets) {
        if offsets.is_empty() {
            return;
        }
        let error = || CommitError::TimedOut { last: "the rebalance that asked for it is over".into() };
        let outcomes = offsets.into_iter().map(|(partition, at)| (partition, (at, Err(error())))).collect();
        self.push(Output::Committed { ticket: None, outcomes });
    }
}

/// Which of several partitions' errors decides: the one that says most about the membership.
fn worst(open: Vec<ErrorCode>) -> Option<(ErrorCode, Reaction)> {
    let open = open.into_iter().map(|code| (code, reaction(Kind::Commit.api(), code)));
    open.reduce(|worst, next| if severity(worst.1) < severity(next.1) { next } else { worst })
}

fn severity(reaction: Reaction) -> u8 {
    match reaction {
        Reaction::Fail => 5,
        Reaction::DropMember => 4,
        Reaction::DropGeneration => 3,
        Reaction::Rejoin => 2,
        Reaction::Rediscover => 1,
        _ => 0,
    }
}
