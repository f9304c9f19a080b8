//! Giving up partitions in order: stop handing out, let the user finish, commit, call back, and only then let go (contract 2).

use std::collections::{BTreeMap, BTreeSet};

use super::commits::Own;
use super::member::Member;
use super::timers::Timer;
use super::{CallbackKind, CommitOffset, GroupEvent, Output, Scope, State, Ticket};
use crate::Now;
use crate::TopicPartition;

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
}

/// Partitions on their way out; none at all where only a commit goes before a join.
#[derive(Clone, Debug)]
pub(super) struct GivingUp {
    ticket: Ticket,
    partitions: BTreeSet<TopicPartition>,
    step: Step,
    then: Then,
}

impl GivingUp {
    /// The partitions whose Revoked callback was asked for.
    pub(super) fn told(self) -> BTreeSet<TopicPartition> {
        match self.step {
            Step::CallingBack => self.partitions,
            _ => BTreeSet::new(),
        }
    }

    /// Whether the user is being told: that cannot be taken back.
    pub(super) fn is_calling_back(&self) -> bool {
        self.step == Step::CallingBack
    }
}

impl Member {
    /// Begins to give up these partitions.
    pub(super) fn give_up(&mut self, partitions: BTreeSet<TopicPartition>, then: Then) {
        let ticket = self.new_id();
        if partitions.is_empty() {
            self.push(Output::Snapshot { ticket, scope: Scope::All });
        } else {
            self.set_state(State::Revoking);
            self.event(GroupEvent::RebalanceWanted { partitions: partitions.clone() });
            self.push(Output::Settle { ticket, partitions: partitions.clone() });
        }
        self.giving_up = Some(GivingUp { ticket, partitions, step: Step::Settling, then });
    }

    pub(super) fn settled(&mut self, ticket: Ticket, offsets: BTreeMap<TopicPartition, CommitOffset>, now: Now) {
        if self.auto_commit == Some(ticket) {
            return self.commit_automatically(offsets, now);
        }
        let Some(giving_up) = self.giving_up.as_mut().filter(|it| it.ticket == ticket && it.step == Step::Settling)
        else {
            // What was brought for something that is over is to be brought again.
            return self.return_offsets(offsets);
        };
        if self.config.auto_commit_interval.is_none() || self.generation < 0 || offsets.is_empty() {
            return self.tell_given_up();
        }
        giving_up.step = Step::Committing;
        self.timers.set(Timer::Revocation, now + self.config.revocation_commit_timeout());
        self.commit_own(Own::GivingUp, offsets, now);
    }

    /// The commit before came to its end, whatever it was.
    pub(super) fn committed_before_giving_up(&mut self) {
        if self.giving_up.as_ref().is_some_and(|it| it.step == Step::Committing) {
            self.tell_given_up();
        }
    }

    /// A coordinator that does not commit must not keep the member from joining until it is thrown out.
    pub(super) fn commit_before_giving_up_took_too_long(&mut self) {
        self.give_up_own_commits();
        self.committed_before_giving_up();
    }

    fn tell_given_up(&mut self) {
        self.timers.clear(Timer::Revocation);
        let Some(giving_up) = &mut self.giving_up else { return };
        if giving_up.partitions.is_empty() {
            self.given_up();
            return;
        }
        giving_up.step = Step::CallingBack;
        let partitions = giving_up.partitions.clone();
        let ticket = self.call_back(CallbackKind::Revoked, partitions);
        if let Some(giving_up) = &mut self.giving_up {
            giving_up.ticket = ticket;
        }
    }

    pub(super) fn called_back(&mut self, ticket: Ticket) {
        if self.giving_up.as_ref().is_some_and(|it| it.ticket == ticket && it.is_calling_back()) {
            self.given_up();
        }
    }

    fn given_up(&mut self) {
        let Some(giving_up) = self.giving_up.take() else { return };
        if !giving_up.partitions.is_empty() {
            self.owned.retain(|partition| !giving_up.partitions.contains(partition));
            self.starting.retain(|partition| !giving_up.partitions.contains(partition));
            self.push(Output::Dropped { partitions: giving_up.partitions });
        }
        if self.state == State::Revoking {
            self.set_state(State::Stable);
        }
        match giving_up.then {
            Then::Join => {
                self.prepared = true;
                self.want_rejoin("partitions were given up".into());
            }
            Then::Leave => {}
        }
    }

    /// What was begun is begun anew for more partitions, unless the user is being told already.
    pub(super) fn stop_giving_up(&mut self) -> bool {
        match &self.giving_up {
            Some(giving_up) if giving_up.is_calling_back() => false,
            Some(_) => {
                self.giving_up = None;
                self.timers.clear(Timer::Revocation);
                self.give_up_own_commits();
                true
            }
            None => true,
        }
    }
}
