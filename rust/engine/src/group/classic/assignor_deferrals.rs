//! Assignments that the leader's assignor deferred: the time of the group's next rebalance, the partitions that are
//! reserved for lost members, and how users end the wait.

use std::collections::BTreeSet;

use super::member::ClassicMember;
use crate::assign::Loss;
use crate::group::base::Reserved;
use crate::group::messages::GroupEvent;
use crate::group::outbox::Timer;
use crate::group::state::ClassicState;
use crate::{Now, TopicPartition};

/// The deferred assignments that a member knows of.
#[derive(Default)]
pub(super) struct AssignorDeferrals {
    /// The losses of members for which the group waits, as of the last assignment.
    pub(super) losses: Vec<Loss>,
    /// The user requested a rebalance, and no assignment has followed yet: the next assignment waits for nothing.
    pub(super) ends_waits: bool,
}

impl ClassicMember {
    /// The user requests a rebalance. One that is due at once does not cancel one that is due later.
    pub(super) fn rejoin_at(&mut self, at: Now, reason: String, now: Now) {
        if at <= now {
            return self.rejoin_now(reason);
        }
        if self.base.out.timers.at(Timer::Rejoin).is_none_or(|known| at < known) {
            self.base.out.timers.set(Timer::Rejoin, at);
            self.join.later_reason = reason;
        }
    }

    /// Joins for a rebalance that the user requested. It does not wait for lost members, for the first members of a
    /// group or for the next round of moves.
    pub(super) fn rejoin_now(&mut self, reason: String) {
        self.assignor_deferrals.ends_waits = true;
        self.want_rejoin(reason);
    }

    pub(super) fn deferred_due(&mut self) {
        let reason = "what the assignment left for later is due";
        match self.state {
            ClassicState::Revoking => self.join_meanwhile(reason),
            _ => self.want_rejoin(reason.into()),
        }
    }

    /// Takes the losses of a new assignment, and reports reservations that began or ended.
    pub(super) fn report_reserved(&mut self, losses: Vec<Loss>) {
        let known = std::mem::replace(&mut self.assignor_deferrals.losses, losses);
        let all = |losses: &[Loss]| -> BTreeSet<TopicPartition> {
            losses.iter().flat_map(|loss| loss.partitions.iter().cloned()).collect()
        };
        let (before, after) = (all(&known), all(&self.assignor_deferrals.losses));
        let partitions: BTreeSet<TopicPartition> = before.difference(&after).cloned().collect();
        if !partitions.is_empty() {
            self.base.out.event(GroupEvent::Released { partitions });
        }
        for Loss { remaining, members, partitions, names } in self.assignor_deferrals.losses.clone() {
            if !partitions.is_subset(&before) {
                self.base.out.event(GroupEvent::Reserved { partitions, members, names, left: remaining });
            }
        }
    }

    /// The reserved partitions, for the status.
    pub(super) fn reserved(&self) -> Vec<Reserved> {
        let reserved = self.assignor_deferrals.losses.iter().cloned();
        let until = |loss: &Loss| self.last_at + loss.remaining;
        reserved
            .map(|loss| Reserved {
                until: until(&loss),
                partitions: loss.partitions,
                members: loss.members,
                names: loss.names,
            })
            .collect()
    }
}
