//! Members that leave a consumer group: by a heartbeat, by a timeout, or for a while; and the group's tombstones.

use crate::planted::{Bug, planted};
use std::collections::BTreeSet;
use std::sync::Arc;

use super::{
    Change, ConsumerGroup, ConsumerMember, Context, HeartbeatAnswer, Held, LEAVE_STATIC_EPOCH, MemberState, Timer,
};
use crate::error::ApiError;

impl ConsumerGroup {
    /// The member that a request to leave names.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID. As in Kafka the member epoch is not checked.
    pub(crate) fn leaving_member(&self, member_id: &str, instance_id: Option<&str>) -> Result<Arc<str>, ApiError> {
        let member = match instance_id {
            None => self.members.get(member_id).ok_or_else(|| self.unknown(member_id))?,
            Some(instance_id) => self.known_static_member(member_id, instance_id)?,
        };
        Ok(Arc::clone(&member.id))
    }

    /// Handles a static member that leaves temporarily: its assignment is kept until it comes back or its session ends.
    pub(crate) fn leave_for_a_while(&mut self, member_id: &str) -> Vec<Change> {
        let Some(member) = self.members.get(member_id) else {
            return Vec::new();
        };
        log::info!("static member {member_id} of group {} left for a while", self.id);
        let away = ConsumerMember {
            epoch: LEAVE_STATIC_EPOCH,
            pending_revocation: Held::default(),
            assigned: Held::at(&member.assigned.partitions(), 0),
            ..member.clone()
        };
        let changes = vec![Change::Current(away)];
        self.apply_all(&changes);
        changes
    }

    /// Removes members, and bumps the group's epoch.
    pub(crate) fn fence(&mut self, context: &Context<'_>, gone: &BTreeSet<Arc<str>>) -> Vec<Change> {
        let mut changes = Vec::new();
        for id in gone {
            changes.extend([
                Change::CurrentGone(Arc::clone(id)),
                Change::TargetGone(Arc::clone(id)),
                Change::SubscriptionGone(Arc::clone(id)),
            ]);
        }
        changes.extend(self.regexes_without(gone).into_iter().map(Change::RegexGone));
        let hash = self.subscriptions_without(gone).hash(context.image);
        let epoch = if planted(Bug::SkipBump) { self.epoch } else { self.epoch + 1 };
        changes.push(Change::Epoch(epoch, hash));
        if self.members.keys().all(|id| gone.contains(id)) {
            // As since Kafka 4.4, the target assignment of an empty group is up to date, with the timestamp 0.
            changes.push(Change::TargetEpoch(epoch, 0));
        }
        self.apply_all(&changes);
        log::info!("group {} is in epoch {} now, because members are gone: {gone:?}", self.id, self.epoch);
        changes
    }

    /// The next member to remove because a deadline has passed. The caller repeats this until it returns `None`.
    pub(crate) fn expired(&mut self, now_ms: i64) -> Option<Arc<str>> {
        while let Some((id, timer)) = self.timers.pop_due(now_ms) {
            let Some(member) = self.members.get(&id) else { continue };
            let reason = match timer {
                Timer::Session => "its session expired",
                Timer::Rebalance { epoch } if member.epoch == epoch => "it did not give its partitions back in time",
                Timer::Rebalance { .. } => continue,
                Timer::Join => "it did not join again in time",
                Timer::Sync => "it did not ask for its assignment in time",
            };
            log::info!("member {id} is removed from group {}: {reason}", self.id);
            return Some(id);
        }
        None
    }

    /// Starts the timers of a group that was read back from the log.
    pub(crate) fn start_timers(&mut self, context: &Context<'_>) {
        let members: Vec<ConsumerMember> = self.members.values().cloned().collect();
        for member in members {
            self.watch_session(context.now_ms, &member.id, context.settings.session_timeout_ms);
            if member.state == MemberState::UnrevokedPartitions {
                let due_ms = context.now_ms + i64::from(member.rebalance_timeout_ms);
                self.timers.start(&member.id, Timer::Rebalance { epoch: member.epoch }, due_ms);
            }
        }
    }

    /// The tombstones that remove the group from the log.
    pub(crate) fn tombstones(&self) -> Vec<Change> {
        let members = || self.members.keys().cloned();
        let mut changes: Vec<Change> = members().map(Change::CurrentGone).collect();
        changes.extend(members().map(Change::TargetGone));
        changes.push(Change::TargetEpochGone);
        changes.extend(members().map(Change::SubscriptionGone));
        changes.extend(self.regexes.keys().cloned().map(Change::RegexGone));
        changes.push(Change::EpochGone);
        changes
    }
}

impl HeartbeatAnswer {
    /// The answer to a member that leaves.
    pub(crate) fn left(member_id: Arc<str>, member_epoch: i32) -> Self {
        Self { member_id, member_epoch, heartbeat_interval_ms: 0, assignment: None }
    }
}
