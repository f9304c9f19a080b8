//! Computing the target assignment of a group epoch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use monedula_protocol::java::in_hash_order;

use super::assignors::{MemberSpec, Spec};
use super::{Assignor, Change, ConsumerGroup, ConsumerMember, Context, Partitions};

impl ConsumerGroup {
    /// The epoch of the target assignment, and the target of `member`. The assignment is computed again if the group's
    /// epoch is ahead of it.
    pub(super) fn target_for(
        &self,
        context: &Context<'_>,
        epoch: i32,
        member: &ConsumerMember,
        changes: &mut Vec<Change>,
    ) -> (i32, Partitions) {
        if self.target_epoch >= epoch || !self.may_assign(context) {
            return (self.target_epoch, self.last_target(member));
        }
        let spec = self.spec(context, member);
        let mut targets = self.assignor(context, member).assign(&spec);
        let mut own = Partitions::default();
        for MemberSpec { id, .. } in spec.members {
            let target = targets.remove(&id).unwrap_or_default();
            if id == member.id {
                own = target.clone();
            }
            if self.targets.get(&id) != Some(&target) {
                changes.push(Change::Target(id, target));
            }
        }
        changes.push(Change::TargetEpoch(epoch, context.now_ms));
        (epoch, own)
    }

    /// True if a new target assignment may be computed: `group.consumer.assignment.interval.ms` after the last one, so
    /// that changes in quick succession are assigned together (KIP-1263).
    fn may_assign(&self, context: &Context<'_>) -> bool {
        let interval_ms = i64::from(context.settings.assignment_interval_ms);
        self.target_at_ms == 0 || interval_ms == 0 || context.now_ms >= self.target_at_ms + interval_ms
    }

    pub(super) fn last_target(&self, member: &ConsumerMember) -> Partitions {
        let owner = match &member.instance_id {
            None => Some(&member.id),
            Some(instance_id) => self.static_members.get(instance_id),
        };
        owner.and_then(|id| self.targets.get(id)).cloned().unwrap_or_default()
    }

    fn spec(&self, context: &Context<'_>, member: &ConsumerMember) -> Spec {
        let replaced = member.instance_id.as_ref().and_then(|instance_id| self.static_members.get(instance_id));
        let others = self.members.values().filter(|other| other.id != member.id && Some(&other.id) != replaced);
        let one = |member: &ConsumerMember, target: Option<&Partitions>| MemberSpec {
            id: Arc::clone(&member.id),
            instance_id: member.instance_id.clone(),
            topics: self.subscribed_topics(member, context.image),
            target: target.cloned().unwrap_or_default(),
        };
        let mut members: Vec<_> = others.map(|other| one(other, self.targets.get(&other.id))).collect();
        // A static member takes over the target of the member that it replaces.
        let own = replaced.filter(|id| **id != member.id).unwrap_or(&member.id);
        members.push(one(member, self.targets.get(own)));
        in_hash_order(&mut members, |member| &member.id);
        let topics: BTreeSet<_> = members.iter().flat_map(|member| member.topics.iter().copied()).collect();
        let topics = topics.into_iter().map(|topic| (topic, context.image.partitions(topic).unwrap_or(0))).collect();
        let taken = self.targets.values().flat_map(Partitions::iter).collect();
        Spec { members, homogeneous: self.subscriptions_with(member).are_homogeneous(), topics, taken }
    }

    /// The assignor that most members prefer, with `member` in place of its present state; otherwise the default.
    pub(super) fn assignor(&self, context: &Context<'_>, member: &ConsumerMember) -> Assignor {
        let others = self.members.values().filter(|other| other.id != member.id);
        elect(others.chain([member])).unwrap_or_else(|| context.settings.default_assignor())
    }

    /// The assignor that most members prefer at present; otherwise the default.
    pub(super) fn assignor_now(&self, context: &Context<'_>) -> Assignor {
        self.preferred_assignor().unwrap_or_else(|| context.settings.default_assignor())
    }

    /// The assignor that most members prefer at present; `None` if no member names one.
    pub(super) fn preferred_assignor(&self) -> Option<Assignor> {
        elect(self.members.values())
    }
}

fn elect<'a>(members: impl Iterator<Item = &'a ConsumerMember>) -> Option<Assignor> {
    let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
    for name in members.filter_map(|member| member.server_assignor.as_deref()) {
        *votes.entry(name).or_default() += 1;
    }
    let mut votes: Vec<(&str, usize)> = votes.into_iter().collect();
    in_hash_order(&mut votes, |(name, _)| name);
    let most = votes.iter().map(|(_, count)| *count).max()?;
    // As in Kafka, a tie is decided by the iteration order of a Java hash map.
    let (name, _) = votes.into_iter().find(|(_, count)| *count == most)?;
    Assignor::by_name(name)
}
