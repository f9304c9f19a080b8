//! Reconciliation of the owned partitions with the target assignment: one target at a time; first revoke, then assign,
//! then acknowledge.

use std::collections::{BTreeMap, BTreeSet};

use monedula_protocol::types::Uuid;

use super::member::ConsumerMember;
use crate::group::messages::{CallbackKind, GroupEvent, Output, Partitions, Ticket};
use crate::group::state::ConsumerState;
use crate::{Now, TopicPartition};

/// The progress of the member towards its target assignment. Begins anew with each membership.
#[derive(Clone, Debug, Default)]
pub(super) struct Reconciliation {
    /// The target assignment that the coordinator last sent.
    pub(super) target: Option<Partitions>,
    /// The target that the member is reconciling with; a newer one waits until this one is acknowledged.
    pub(super) working_on: Option<Partitions>,
    /// The target that was acknowledged last, even if some of its topic names were not known.
    pub(super) acknowledged: Option<Partitions>,
    /// The Assigned callback that has to end before the target is acknowledged.
    pub(super) assigned_callback: Option<Ticket>,
    /// The time when reconciliation began.
    pub(super) since: Option<Now>,
    /// The number of partitions that this reconciliation has newly assigned.
    pub(super) assigned: usize,
    /// The number of partitions that this reconciliation has revoked.
    pub(super) revoked: usize,
}

impl ConsumerMember {
    /// Takes the next step towards the target, if no earlier one is in progress.
    pub(super) fn advance_reconciling(&mut self, now: Now) {
        if self.state != ConsumerState::Reconciling
            || self.base.revocation.is_some()
            || self.reconciliation.assigned_callback.is_some()
        {
            return;
        }
        if self.reconciliation.working_on.is_none() && !self.begin_reconciling(now) {
            return;
        }
        if self.base.revocation.is_some() {
            return;
        }
        let assignable = self.assignable_now();
        if assignable.is_empty() {
            self.reached(now);
        } else if !self.owned_is_in_flight && self.is_proven(now) {
            self.take_assigned(assignable);
        }
        // Otherwise one of two cases holds, and the next heartbeat's answer is awaited. Either a heartbeat in flight
        // reports these partitions as not owned: if the member took them now, it would still have them when a newer
        // target, which that heartbeat acknowledges unseen, assigns them to another member. Or the process was
        // suspended, and the target is older than the session; then the heartbeat is sent at once.
    }

    /// Begins to reconcile by revoking partitions. Returns `false` if there is nothing to do, for example because only
    /// topic names are missing.
    fn begin_reconciling(&mut self, now: Now) -> bool {
        let Some(target) = self.reconciliation.target.clone() else { return false };
        let goes: BTreeMap<TopicPartition, Uuid> = self
            .base
            .owned
            .iter()
            .filter(|(partition, id)| !target.contains(&(**id, partition.partition)))
            .map(|(partition, id)| (partition.clone(), *id))
            .collect();
        let acknowledged = self.reconciliation.acknowledged.as_ref() == Some(&target);
        if goes.is_empty() && acknowledged && self.assignable(&target).is_empty() {
            return false;
        }
        self.reconciliation.since.get_or_insert(now);
        self.reconciliation.working_on = Some(target);
        self.reconciliation.revoked += goes.len();
        let (replaced, revoked): (BTreeMap<_, _>, BTreeMap<_, _>) =
            goes.into_iter().partition(|(partition, id)| self.is_replaced(&partition.topic, *id));
        if !replaced.is_empty() {
            self.lose_replaced(replaced.into_keys().collect());
        }
        if !revoked.is_empty() {
            self.base.begin_revocation(revoked.into_keys().collect());
        }
        true
    }

    /// Loses partitions whose topic was recreated under the same name: offsets committed now would be taken for offsets
    /// of the new topic.
    fn lose_replaced(&mut self, lost: BTreeSet<TopicPartition>) {
        self.base.release(&lost);
        let reason = "the topic was deleted and made anew";
        self.base.out.push(Output::Released { partitions: lost.clone(), are_lost: true });
        self.base.out.event(GroupEvent::Lost { partitions: lost.clone(), reason: reason.into() });
        self.base.out.call_back(CallbackKind::Lost, lost);
    }

    /// The partitions of a target that are not owned yet and whose topic names are known. Topics that the member does
    /// not subscribe to are left out (req S067): a target may be older than the subscription.
    fn assignable(&self, target: &Partitions) -> BTreeMap<TopicPartition, Uuid> {
        let mut assignable = self.resolved(target);
        assignable.retain(|partition, _| !self.base.owned.contains_key(partition) && self.is_wanted(&partition.topic));
        assignable
    }

    /// The partitions that may be assigned now. A partition that a newer target leaves out may already have another
    /// owner, if a heartbeat sent in between reported it as not owned.
    fn assignable_now(&self) -> BTreeMap<TopicPartition, Uuid> {
        let (Some(working_on), Some(target)) = (&self.reconciliation.working_on, &self.reconciliation.target) else {
            return BTreeMap::new();
        };
        self.assignable(&working_on.intersection(target).copied().collect())
    }

    fn take_assigned(&mut self, assigned: BTreeMap<TopicPartition, Uuid>) {
        let partitions: BTreeSet<TopicPartition> = assigned.keys().cloned().collect();
        self.reconciliation.assigned += partitions.len();
        self.base.owned.extend(assigned);
        self.base.offset_fetch.add(partitions.iter().cloned());
        self.base.out.push(Output::Assigned { partitions: partitions.clone() });
        self.reconciliation.assigned_callback = Some(self.base.out.call_back(CallbackKind::Assigned, partitions));
    }

    /// The target is reached as far as possible. The next heartbeat acknowledges that, even if no partition moved.
    fn reached(&mut self, now: Now) {
        self.reconciliation.acknowledged = self.reconciliation.working_on.take();
        let took = now.saturating_sub(self.reconciliation.since.take().unwrap_or(now));
        let assigned = std::mem::take(&mut self.reconciliation.assigned);
        let revoked = std::mem::take(&mut self.reconciliation.revoked);
        self.base.out.event(GroupEvent::Synced {
            generation: self.epoch,
            took,
            rebalance: took,
            owned: self.base.owned.len(),
            assigned,
            revoked,
        });
        self.last_rebalance = Some(now);
        self.set_state(ConsumerState::Acknowledging);
    }

    /// The acknowledgement was sent. Continues with a newer target, or with partitions of this one whose topic names
    /// were missing.
    pub(super) fn acknowledgement_sent(&mut self, now: Now) {
        if self.reconciliation.target.as_ref() == Some(&self.owned_by_id())
            && self.reconciliation.target == self.reconciliation.acknowledged
        {
            self.set_state(ConsumerState::Stable);
        } else {
            self.reconciliation.since.get_or_insert(now);
            self.set_state(ConsumerState::Reconciling);
        }
    }
}
