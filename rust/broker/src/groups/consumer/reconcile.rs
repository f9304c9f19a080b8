//! The steps of one member towards its target.

use crate::groups::planted::{Bug, planted};
use std::collections::BTreeSet;

use monedula_protocol::types::Uuid;

use super::{ConsumerGroup, Held, Member, MemberState, Partitions};

/// What decides a member's next step.
#[derive(Copy, Clone, Debug)]
pub(super) struct Step<'a> {
    pub(super) target_epoch: i32,
    pub(super) target: &'a Partitions,
    /// The topics that the member subscribes to, as far as they exist.
    pub(super) subscribed: &'a BTreeSet<Uuid>,
    pub(super) subscription_changed: bool,
    /// What the member says it owns; `None` if it says nothing, which never counts as having given anything back.
    pub(super) owned: Option<&'a Partitions>,
}

impl ConsumerGroup {
    /// The member after its next step: itself, if it cannot move.
    pub(super) fn reconciled(&self, member: &Member, step: &Step<'_>) -> Member {
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

    fn next(&self, member: &Member, step: &Step<'_>) -> Member {
        let wanted =
            |topic: Uuid, partition| step.subscribed.contains(&topic) && step.target.contains(topic, partition);
        let (kept, revoked): (Vec<_>, Vec<_>) =
            member.assigned.iter().partition(|&(topic, partition, _)| wanted(topic, partition));
        let (mut assigned, revoked): (Held, Held) = (kept.into_iter().collect(), revoked.into_iter().collect());

        let mut next = member.clone();
        if !revoked.is_empty() && step.still_owns(&revoked) {
            // It stays in its epoch until it says that it has given them back.
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

    /// Whether nobody else holds a partition. What the member itself was to give back comes back to it at once.
    fn is_free(&self, member: &Member, topic: Uuid, partition: i32) -> bool {
        planted(Bug::GiveBeforeReported)
            || !self.holders.contains_key(&(topic, partition))
            || member.pending_revocation.contains(topic, partition)
    }
}

impl Step<'_> {
    fn still_owns(&self, revoked: &Held) -> bool {
        if planted(Bug::SilenceIsAck) && self.owned.is_none() {
            return false;
        }
        self.owned.is_none_or(|owned| owned.iter().any(|(topic, partition)| revoked.contains(topic, partition)))
    }
}

/// A member that has no step to take yet gives back at once what it does not subscribe to any more.
fn without_unsubscribed(member: &Member, step: &Step<'_>) -> Member {
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
