//! What the leader's assignor left for later: when the group meets again for it, what users are told of it, and how they end it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::State;
use super::member::Member;
use crate::assign::Loss;
use crate::group::{GroupEvent, Timer};
use crate::{Now, TopicPartition};

/// What a member knows of what was left for later.
#[derive(Default)]
pub(super) struct Deferring {
    /// Whom the group waits for, as of the last assignment.
    pub(super) losses: Vec<Loss>,
    /// The user wants a rebalance, and no assignment came of it yet: nothing is waited for in the next.
    pub(super) ends_waits: bool,
}

/// Partitions that are kept for members that were lost in one rebalance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The partitions.
    pub partitions: BTreeSet<TopicPartition>,
    /// How many of these members did not come back yet.
    pub members: usize,
    /// Who they are: static ids or member ids; empty where the leader did not tell.
    pub names: BTreeSet<Arc<str>>,
    /// Until when.
    pub until: Now,
}

impl Member {
    /// The user wants a rebalance; one that is due at once does not make a later one be forgotten.
    pub(super) fn rejoin_at(&mut self, at: Now, reason: String, now: Now) {
        if at <= now {
            return self.rejoin_now(reason);
        }
        if self.out.timers.at(Timer::Rejoin).is_none_or(|known| at < known) {
            self.out.timers.set(Timer::Rejoin, at);
            self.rejoin_later = reason;
        }
    }

    /// Whoever wants a rebalance does not want to wait for lost members, for the first ones of a group or for the next round.
    pub(super) fn rejoin_now(&mut self, reason: String) {
        self.deferring.ends_waits = true;
        self.want_rejoin(reason);
    }

    pub(super) fn deferred_due(&mut self) {
        let reason = "what the assignment left for later is due";
        match self.state {
            State::Revoking => self.join_meanwhile(reason),
            _ => self.want_rejoin(reason.into()),
        }
    }

    /// An assignment came: what is kept for whom.
    pub(super) fn report_reserved(&mut self, losses: Vec<Loss>) {
        let known = std::mem::replace(&mut self.deferring.losses, losses);
        let all = |losses: &[Loss]| -> BTreeSet<TopicPartition> {
            losses.iter().flat_map(|loss| loss.partitions.iter().cloned()).collect()
        };
        let (before, after) = (all(&known), all(&self.deferring.losses));
        let partitions: BTreeSet<TopicPartition> = before.difference(&after).cloned().collect();
        if !partitions.is_empty() {
            self.out.event(GroupEvent::Released { partitions });
        }
        for Loss { remaining, members, partitions, names } in self.deferring.losses.clone() {
            if !partitions.is_subset(&before) {
                self.out.event(GroupEvent::Reserved { partitions, members, names, left: remaining });
            }
        }
    }

    /// What is kept for whom, and until when.
    pub(super) fn reserved(&self) -> Vec<Reserved> {
        let reserved = self.deferring.losses.iter().cloned();
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
