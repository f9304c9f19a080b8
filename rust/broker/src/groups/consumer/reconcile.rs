//! The reconciliation of a member with its target assignment.

use crate::planted::{Bug, planted};
use std::collections::BTreeSet;

use monedula_protocol::types::Uuid;

use super::{ConsumerGroup, ConsumerMember, Held, MemberState, Partitions};

/// The input of a member's next reconciliation step.
#[derive(Copy, Clone, Debug)]
pub(super) struct Reconciliation<'a> {
    pub(super) target_epoch: i32,
    pub(super) target: &'a Partitions,
    /// The existing topics that the member subscribes to.
    pub(super) subscribed: &'a BTreeSet<Uuid>,
    pub(super) subscription_changed: bool,
    /// The partitions that the member reports as owned; `None` if it reports none, which never acknowledges a
    /// revocation.
    pub(super) owned: Option<&'a Partitions>,
}

impl ConsumerGroup {
    /// The member after its next step, or unchanged if there is none.
    pub(super) fn reconciled(&self, member: &ConsumerMember, step: &Reconciliation<'_>) -> ConsumerMember {
        if !step.subscription_changed && member.is_reconciled_to(step.target_epoch) {
            return member.clone();
        }
        match member.state {
            MemberState::Stable if member.epoch != step.target_epoch => self.next(member, step),
            MemberState::UnrevokedPartitions if !step.still_owns(&member.pending_revocation) => self.next(member, step),
            MemberState::UnreleasedPartitions => self.next(member, step),
            MemberState::Stable | MemberState::UnrevokedPartitions if step.subscription_changed => {
                without_unsubscribed(member, step)
            }
            MemberState::Stable | MemberState::UnrevokedPartitions => member.clone(),
        }
    }

    fn next(&self, member: &ConsumerMember, step: &Reconciliation<'_>) -> ConsumerMember {
        let wanted =
            |topic: Uuid, partition| step.subscribed.contains(&topic) && step.target.contains(topic, partition);
        let (kept, revoked): (Vec<_>, Vec<_>) =
            member.assigned.iter().partition(|&(topic, partition, _)| wanted(topic, partition));
        let (mut assigned, revoked): (Held, Held) = (kept.into_iter().collect(), revoked.into_iter().collect());

        let mut next = member.clone();
        if !revoked.is_empty() && step.still_owns(&revoked) {
            // The member stays in its epoch until it acknowledges the revocation.
            next.advance(member.epoch);
            next.state = MemberState::UnrevokedPartitions;
            (next.assigned, next.pending_revocation) = (assigned, revoked);
            return next;
        }
        let mut unreleased = false;
        let missing: Vec<_> = step
            .target
            .iter()
            .filter(|&(topic, partition)| step.subscribed.contains(&topic) && !assigned.contains(topic, partition))
            .collect();
        for (topic, partition) in missing {
            if self.is_free(member, topic, partition) {
                assigned.insert(topic, partition, step.target_epoch);
            } else {
                unreleased = true;
            }
        }
        next.advance(step.target_epoch);
        next.state = if unreleased { MemberState::UnreleasedPartitions } else { MemberState::Stable };
        (next.assigned, next.pending_revocation) = (assigned, Held::default());
        next
    }

    /// True if no other member holds a partition. A partition that the member itself must revoke can be assigned to it
    /// again.
    fn is_free(&self, member: &ConsumerMember, topic: Uuid, partition: i32) -> bool {
        planted(Bug::GiveBeforeReported)
            || !self.holders.contains_key(&(topic, partition))
            || member.pending_revocation.contains(topic, partition)
    }
}

impl Reconciliation<'_> {
    fn still_owns(&self, revoked: &Held) -> bool {
        if planted(Bug::SilenceIsAck) && self.owned.is_none() {
            return false;
        }
        self.owned.is_none_or(|owned| owned.iter().any(|(topic, partition)| revoked.contains(topic, partition)))
    }
}

/// Revokes the partitions of topics that a member no longer subscribes to, ahead of the next target.
fn without_unsubscribed(member: &ConsumerMember, step: &Reconciliation<'_>) -> ConsumerMember {
    let (kept, dropped): (Vec<_>, Vec<_>) =
        member.assigned.iter().partition(|(topic, ..)| step.subscribed.contains(topic));
    if dropped.is_empty() {
        return member.clone();
    }
    let mut next = member.clone();
    let pending: Held = member.pending_revocation.iter().chain(dropped).collect();
    next.advance(member.epoch);
    next.assigned = kept.into_iter().collect();
    if step.still_owns(&pending) {
        next.state = MemberState::UnrevokedPartitions;
        next.pending_revocation = pending;
    }
    next
}
