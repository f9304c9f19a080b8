//! Commits: one after the other, never cancelled, with the epoch of the owner (contract 3). No error of a commit makes a member
//! join again: only heartbeats say who is a member.

use std::collections::{BTreeMap, BTreeSet};

use monedula_protocol::error_code::ErrorCode;

use super::member::{InFlight, Kind, Member};
use super::reactions::reaction;
use super::timers::Timer;
use super::{Answer, Call, Output, Reaction};
use crate::group::{CallId, CommitError, CommitOffset, GroupEvent, Scope, Ticket};
use crate::{Now, TopicPartition};

type Outcomes = BTreeMap<TopicPartition, (CommitOffset, Result<(), CommitError>)>;

/// Commits of the machine's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Own {
    /// In the interval.
    Auto,
    /// Before partitions are given up.
    GivingUp,
}

/// A commit that waits or is under way.
#[derive(Clone, Debug)]
pub(super) struct Commit {
    /// The user's ticket; `None` for the machine's own.
    ticket: Option<Ticket>,
    own: Option<Own>,
    open: BTreeMap<TopicPartition, CommitOffset>,
    done: Outcomes,
    deadline: Now,
    since: Now,
    attempts: u32,
    last: String,
    /// The call that carries it.
    sent: Option<CallId>,
}

impl Commit {
    pub(super) fn touches(&self, partitions: &BTreeSet<TopicPartition>) -> bool {
        self.open.keys().any(|partition| partitions.contains(partition))
    }

    /// What is still open comes to nothing.
    fn end(&mut self, error: &CommitError) {
        let open = std::mem::take(&mut self.open);
        self.done.extend(open.into_iter().map(|(partition, at)| (partition, (at, Err(error.clone())))));
    }

    fn time_out(&mut self) {
        self.end(&CommitError::TimedOut { last: self.last.clone() });
    }
}

impl Member {
    /// The user wants offsets committed.
    pub(super) fn commit(
        &mut self,
        ticket: Ticket,
        offsets: BTreeMap<TopicPartition, CommitOffset>,
        deadline: Now,
        now: Now,
    ) {
        self.queue(Some(ticket), None, offsets, deadline, now);
    }

    pub(super) fn commit_own(&mut self, own: Own, offsets: BTreeMap<TopicPartition, CommitOffset>, now: Now) {
        let patience = match own {
            Own::Auto => self.config.auto_commit_interval.unwrap_or_default().max(self.config.session_timeout),
            Own::GivingUp => self.config.revocation_commit_timeout(),
        };
        self.queue(None, Some(own), offsets, now + patience, now);
    }

    fn queue(
        &mut self,
        ticket: Option<Ticket>,
        own: Option<Own>,
        offsets: BTreeMap<TopicPartition, CommitOffset>,
        deadline: Now,
        now: Now,
    ) {
        let commit = Commit {
            ticket,
            own,
            open: offsets,
            done: Outcomes::new(),
            deadline,
            since: now,
            attempts: 0,
            last: "none was made: the member was not in the group, or the coordinator not known".into(),
            sent: None,
        };
        self.commits.push_back(commit);
        self.refuse_unowned();
        self.end_commits(now);
    }

    /// Sends the next commit if that may be now.
    pub(super) fn advance_commits(&mut self, now: Now) {
        self.refuse_unowned();
        self.end_commits(now);
        let may = self.in_group() && !self.commit_waits && self.lease_holds(now);
        if !may || self.committing.is_some() || self.timers.waits(Timer::Commit, now) {
            return;
        }
        let Some(commit) = self.commits.front_mut() else { return };
        if self.coordinator.is_none() {
            return;
        }
        commit.attempts = commit.attempts.saturating_add(1);
        let offsets = commit.open.clone();
        let call = Call::Commit {
            group_id: self.config.group_id.clone(),
            member_id: self.member_id.clone(),
            instance_id: self.config.instance_id.clone(),
            epoch: self.epoch,
            topic_ids: self.topic_ids(offsets.keys()),
            offsets,
        };
        let sent = self.send(Kind::Commit, call, false, now);
        if let Some(commit) = self.commits.front_mut() {
            commit.sent = sent;
        }
        self.committing = sent;
    }

    pub(super) fn commit_answered(&mut self, id: CallId, call: InFlight, outcome: Result<Answer, String>, now: Now) {
        if self.committing != Some(id) {
            return;
        }
        self.committing = None;
        let codes = match outcome {
            Ok(Answer::Commit { codes }) => codes,
            Ok(_) => return self.commit_again(id, "an answer of another kind", now),
            Err(reason) => {
                self.coordinator_lost(call.node_id, &reason, now);
                return self.commit_again(id, &reason, now);
            }
        };
        for &code in codes.values() {
            self.coordinator_answered(code);
        }
        // The one that was sent may have timed out meanwhile: its answer says nothing about the next.
        let Some(commit) = self.commits.front_mut().filter(|commit| commit.sent == Some(id)) else { return };
        let mut worst: Option<(ErrorCode, Reaction)> = None;
        let mut gone = false;
        for (partition, at) in std::mem::take(&mut commit.open) {
            // A partition that the answer does not name was not committed as far as anyone knows.
            let code = codes.get(&partition).copied().unwrap_or(ErrorCode::RequestTimedOut);
            if code == ErrorCode::None {
                commit.done.insert(partition, (at, Ok(())));
                continue;
            }
            match reaction(Kind::Commit.api(), code) {
                Reaction::Tell => {
                    commit.done.insert(partition, (at, Err(CommitError::Refused { code })));
                }
                Reaction::Gone => {
                    commit.done.insert(partition, (at, Err(CommitError::MemberGone { code })));
                    gone = true;
                }
                reacted => {
                    commit.open.insert(partition, at);
                    if worst.is_none_or(|(_, known)| severity(known) < severity(reacted)) {
                        worst = Some((code, reacted));
                    }
                }
            }
        }
        if let Some((code, reacted)) = worst {
            self.commit_refused(id, (code, reacted), call, now);
        }
        // Whether it is so, the next heartbeat says, and soon: what is handed out meanwhile might be read twice.
        if gone && call.epoch == self.epoch && self.in_group() {
            self.timers.bring_forward(Timer::Heartbeat, now);
        }
        self.end_commits(now);
    }

    fn commit_refused(&mut self, id: CallId, (code, reacted): (ErrorCode, Reaction), call: InFlight, now: Now) {
        self.retried(Kind::Commit.api(), code);
        self.coordinator_error(reacted, call, code.name(), now);
        self.commit_again(id, code.name(), now);
        // The epoch may have come meanwhile: then it is worth another try at once. Else only a heartbeat brings it, and trying
        // before would spin (KAFKA-20765).
        if reacted == Reaction::AfterHeartbeat && call.epoch == self.epoch {
            self.commit_waits = true;
            self.hurry_heartbeat(Timer::Commit);
        }
    }

    fn commit_again(&mut self, id: CallId, reason: &str, now: Now) {
        let Some(commit) = self.commits.front_mut().filter(|commit| commit.sent == Some(id)) else { return };
        commit.last = reason.into();
        let delay = self.config.backoff.delay(commit.attempts.saturating_sub(1), &mut self.jitter);
        self.timers.set(Timer::Commit, now + delay);
    }

    /// What is not owned any more is never sent.
    fn refuse_unowned(&mut self) {
        for commit in &mut self.commits {
            let gone = commit.open.extract_if(.., |partition, _| !self.owned.contains_key(partition));
            commit.done.extend(gone.map(|(partition, at)| (partition, (at, Err(CommitError::NotOwned)))));
        }
    }

    /// The member lost what it owned: nothing that waits can be committed.
    pub(super) fn fail_commits(&mut self, code: Option<ErrorCode>) {
        let error = code.map_or(CommitError::NotOwned, |code| CommitError::MemberGone { code });
        self.commits.iter_mut().for_each(|commit| commit.end(&error));
        self.timers.clear(Timer::Commit);
    }

    pub(super) fn expire_commits(&mut self, now: Now) {
        self.commits.iter_mut().filter(|commit| commit.deadline <= now).for_each(Commit::time_out);
        self.end_commits(now);
    }

    /// What the machine commits before partitions are given up is not waited for any longer.
    pub(super) fn give_up_own_commits(&mut self, now: Now) {
        self.commits.iter_mut().filter(|commit| commit.own.is_some()).for_each(Commit::time_out);
        self.end_commits(now);
    }

    /// Whether a commit of the machine's own has to come to its end before these partitions are given up.
    pub(super) fn own_commits_wait_for(&self, partitions: &BTreeSet<TopicPartition>) -> bool {
        let mut own = self.commits.iter().filter(|commit| commit.own.is_some());
        own.any(|commit| commit.own == Some(Own::GivingUp) || commit.touches(partitions))
    }

    /// The consumer is out of the group, or closed: what waits is answered before that is said.
    pub(super) fn close_commits(&mut self, now: Now) {
        self.commits.iter_mut().for_each(|commit| commit.end(&CommitError::Closed));
        self.end_commits(now);
    }

    /// Answers the commits of which nothing is open any more. The next is not sent before the answer to one that is under way
    /// is there, so that it never overtakes it.
    fn end_commits(&mut self, now: Now) {
        let mut gave_up = false;
        let mut index = 0;
        while let Some(commit) = self.commits.get(index) {
            if !commit.open.is_empty() {
                index += 1;
                continue;
            }
            let Some(commit) = self.commits.remove(index) else { break };
            if index == 0 {
                self.timers.clear(Timer::Commit);
            }
            gave_up |= commit.own.is_some();
            let failed = commit.done.values().filter(|(_, outcome)| outcome.is_err()).count();
            let partitions = commit.done.len() - failed;
            self.event(GroupEvent::Commit { took: now.saturating_sub(commit.since), partitions, failed });
            self.push(Output::Committed { ticket: commit.ticket, outcomes: commit.done });
        }
        match self.commits.iter().map(|commit| commit.deadline).min() {
            Some(deadline) => self.timers.set(Timer::CommitDeadline, deadline),
            None => self.timers.clear(Timer::CommitDeadline),
        }
        if gave_up {
            self.committed_before_giving_up();
        }
    }

    /// Time for the commit in the interval.
    pub(super) fn auto_commit_due(&mut self, now: Now) {
        // One that waits is enough: what is finished meanwhile comes with the next.
        if self.commits.iter().any(|commit| commit.own == Some(Own::Auto)) {
            return self.rearm_auto_commit(now);
        }
        let ticket = self.new_id();
        self.auto_commit = Some(ticket);
        self.push(Output::Snapshot { ticket, scope: Scope::All });
    }

    pub(super) fn commit_automatically(&mut self, offsets: BTreeMap<TopicPartition, CommitOffset>, now: Now) {
        self.auto_commit = None;
        self.rearm_auto_commit(now);
        if !offsets.is_empty() {
            self.commit_own(Own::Auto, offsets, now);
        }
    }

    fn rearm_auto_commit(&mut self, now: Now) {
        if let Some(interval) = self.config.auto_commit_interval.filter(|_| self.epoch > 0) {
            self.timers.set(Timer::AutoCommit, now + interval);
        }
    }

    /// Offsets that were brought for nothing.
    pub(super) fn return_offsets(&mut self, offsets: BTreeMap<TopicPartition, CommitOffset>) {
        if offsets.is_empty() {
            return;
        }
        let error = || CommitError::TimedOut { last: "the rebalance that asked for it is over".into() };
        let outcomes = offsets.into_iter().map(|(partition, at)| (partition, (at, Err(error())))).collect();
        self.push(Output::Committed { ticket: None, outcomes });
    }
}

/// Which of several partitions' errors decides: the one without which no repetition helps.
fn severity(reaction: Reaction) -> u8 {
    match reaction {
        Reaction::AfterHeartbeat => 2,
        Reaction::Rediscover => 1,
        _ => 0,
    }
}
