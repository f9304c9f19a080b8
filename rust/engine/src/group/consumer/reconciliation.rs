//! From what is owned to the target: one target at a time, revoking before gaining, and only then acknowledging.

use std::collections::{BTreeMap, BTreeSet};

use monedula_protocol::types::Uuid;

use super::State;
use super::member::Member;
use crate::group::{CallbackKind, GroupEvent, Output, Partitions};
use crate::{Now, TopicPartition};

impl Member {
    /// Takes the next step towards the target, if none is under way.
    pub(super) fn advance_reconciling(&mut self, now: Now) {
        if self.state != State::Reconciling || self.revocation.is_some() || self.assigned_callback.is_some() {
            return;
        }
        if self.working_on.is_none() && !self.begin_reconciling(now) {
            return;
        }
        if self.revocation.is_some() {
            return;
        }
        let assignable = self.assignable_now();
        if assignable.is_empty() {
            self.reached(now);
        } else if !self.owned_is_in_flight && self.is_proven(now) {
            self.take_assigned(assignable);
        }
        // Else a heartbeat is under way that says that they are not owned: who gained them now would still have them when a newer
        // target, which that heartbeat acknowledges unseen, gives them to another. Or the process stood still, and the target is
        // older than the session: it waits for the next heartbeat's answer, which is sent at once.
    }

    /// Begins with what has to go, if there is anything to do at all: it is not, where only names are missing.
    fn begin_reconciling(&mut self, now: Now) -> bool {
        let Some(target) = self.target.clone() else { return false };
        let goes: BTreeMap<TopicPartition, Uuid> = self
            .owned
            .iter()
            .filter(|(partition, id)| !target.contains(&(**id, partition.partition)))
            .map(|(partition, id)| (partition.clone(), *id))
            .collect();
        let acknowledged = self.acknowledged.as_ref() == Some(&target);
        if goes.is_empty() && acknowledged && self.assignable(&target).is_empty() {
            return false;
        }
        self.rebalance.get_or_insert(now);
        self.working_on = Some(target);
        self.moved.1 += goes.len();
        let (replaced, revoked): (BTreeMap<_, _>, BTreeMap<_, _>) =
            goes.into_iter().partition(|(partition, id)| self.is_replaced(&partition.topic, *id));
        if !replaced.is_empty() {
            self.lose_replaced(replaced.into_keys().collect());
        }
        if !revoked.is_empty() {
            self.revoke(revoked.into_keys().collect());
        }
        true
    }

    /// The topic was made anew under the same name: what is committed now would be taken for offsets of the new one.
    fn lose_replaced(&mut self, lost: BTreeSet<TopicPartition>) {
        self.release(&lost);
        let reason = "the topic was deleted and made anew";
        self.out.push(Output::Released { partitions: lost.clone() });
        self.out.event(GroupEvent::Lost { partitions: lost.clone(), reason: reason.into() });
        self.out.call_back(CallbackKind::Lost, lost);
    }

    /// None of these is owned any more.
    pub(super) fn release(&mut self, partitions: &BTreeSet<TopicPartition>) {
        self.owned.retain(|partition, _| !partitions.contains(partition));
        self.offset_fetch.release(partitions);
    }

    /// What is to be gained of a target now. Nobody gets what it does not subscribe to (seed S067): a target may be older than
    /// the subscription.
    fn assignable(&self, target: &Partitions) -> BTreeMap<TopicPartition, Uuid> {
        let mut assignable = self.resolved(target);
        assignable.retain(|partition, _| !self.owned.contains_key(partition) && self.is_wanted(&partition.topic));
        assignable
    }

    /// What is free now. What a newer target leaves out already may be another's, if a heartbeat in between said that it is not
    /// owned.
    fn assignable_now(&self) -> BTreeMap<TopicPartition, Uuid> {
        let (Some(working_on), Some(target)) = (&self.working_on, &self.target) else { return BTreeMap::new() };
        self.assignable(&working_on.intersection(target).copied().collect())
    }

    fn take_assigned(&mut self, gained: BTreeMap<TopicPartition, Uuid>) {
        let partitions: BTreeSet<TopicPartition> = gained.keys().cloned().collect();
        self.moved.0 += partitions.len();
        self.owned.extend(gained);
        self.offset_fetch.add(partitions.iter().cloned());
        self.out.push(Output::Assigned { partitions: partitions.clone() });
        self.assigned_callback = Some(self.out.call_back(CallbackKind::Assigned, partitions));
    }

    /// All that could be done is done: the next heartbeat says so, even if nothing moved.
    fn reached(&mut self, now: Now) {
        self.acknowledged = self.working_on.take();
        let took = now.saturating_sub(self.rebalance.take().unwrap_or(now));
        let (gained, revoked) = std::mem::take(&mut self.moved);
        self.out.event(GroupEvent::Synced {
            generation: self.epoch,
            took,
            rebalance: took,
            owned: self.owned.len(),
            gained,
            revoked,
        });
        self.last_rebalance = Some(now);
        self.set_state(State::Acknowledging);
    }

    /// A newer target may wait, or names of this one.
    pub(super) fn acknowledgement_sent(&mut self, now: Now) {
        if self.target.as_ref() == Some(&self.owned_by_id()) && self.target == self.acknowledged {
            self.set_state(State::Stable);
        } else {
            self.rebalance.get_or_insert(now);
            self.set_state(State::Reconciling);
        }
    }
}
