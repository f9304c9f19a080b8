//! The requests and timers of a consumer group as its slot handles them: creating and converting the group, and storing
//! its changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use monedula_protocol::error::WireError;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::wire::Reader;

use super::{
    Change, ClusterImage, ConsumerGroup, ConsumerSettings, Context, Heartbeat, HeartbeatAnswer, JOIN_EPOCH,
    LEAVE_EPOCH, LEAVE_STATIC_EPOCH, read_record,
};
use crate::cluster::StoredRecord;
use crate::core::Core;
use crate::error::ApiError;
use crate::groups::{ClassicGroup, Effects, Group, Groups, Join, JoinAnswer, Leaver, Slot, Sync, SyncAnswer};

impl Core {
    /// Calls `work` with the context of a group.
    pub(crate) fn with_consumer_context<T>(&self, group_id: &str, work: impl FnOnce(&Context<'_>) -> T) -> T {
        let mut settings = ConsumerSettings::new(&self.settings.kafka);
        if let Some(configs) = self.configs.of_group(group_id) {
            settings.override_with(configs);
        }
        let image = ClusterImage { topics: &self.topics, nodes: &self.nodes };
        work(&Context { now_ms: self.now_ms, image: &image, settings: &settings })
    }

    /// Handles a ConsumerGroupHeartbeat. `partition` is the group's partition of `__consumer_offsets`.
    ///
    /// # Errors
    /// A heartbeat that is refused.
    pub(crate) fn consumer_group_heartbeat(
        &mut self,
        partition: i32,
        group_id: &str,
        request: &Heartbeat,
    ) -> Result<HeartbeatAnswer, ApiError> {
        let answered = self.change_group(partition, group_id, |core, slot, effects| {
            core.with_consumer_context(group_id, |context| slot.heartbeat(context, request, effects))
        });
        let answer = answered.unwrap_or_else(|error| Err(ApiError::new(error, error.name())))?;
        let is_due = |slot: &Slot| matches!(&slot.group, Some(Group::Consumer(group)) if group.regexes_are_due());
        if self.groups.slot(partition, group_id).is_some_and(is_due) {
            // `change_group` logs an error, which does not affect the answer.
            let _ = self.change_group(partition, group_id, |core, slot, effects| {
                core.with_consumer_context(group_id, |context| slot.resolve_regexes(context, effects));
            });
        }
        Ok(answer)
    }
}

impl Groups {
    /// Topic metadata changed: all consumer and share groups check their subscriptions at their next heartbeat.
    pub(crate) fn metadata_changed(&mut self) {
        for slot in self.shards.values_mut().flat_map(BTreeMap::values_mut) {
            match &mut slot.group {
                Some(Group::Consumer(group)) => group.request_refresh(),
                Some(Group::Share(group)) => group.request_refresh(),
                Some(Group::Classic(_)) | None => {}
            }
        }
    }
}

impl Slot {
    fn heartbeat(
        &mut self,
        context: &Context<'_>,
        request: &Heartbeat,
        effects: &mut Effects,
    ) -> Result<HeartbeatAnswer, ApiError> {
        if matches!(request.member_epoch, LEAVE_EPOCH | LEAVE_STATIC_EPOCH) {
            return self.leave(context, request, effects);
        }
        let joins = request.member_epoch == JOIN_EPOCH;
        let (answer, changes) = match &mut self.group {
            Some(Group::Consumer(group)) => group.heartbeat(context, request)?,
            Some(Group::Classic(classic)) if joins && !classic.is_empty() => {
                let (mut group, mut changes) = ConsumerGroup::from_classic(context, &self.id, classic)?;
                let (answer, more) = group.heartbeat(context, request)?;
                changes.extend(more);
                // Members with a pending request in a classic rebalance must join the consumer group.
                classic.abandon(ErrorCode::RebalanceInProgress, effects);
                self.begin_consumer_group(group, effects);
                (answer, changes)
            }
            None | Some(Group::Classic(_)) if joins => {
                let mut group = ConsumerGroup::new(Arc::clone(&self.id));
                let done = group.heartbeat(context, request)?;
                self.begin_consumer_group(group, effects);
                done
            }
            None => return Err(self.not_found("Consumer group", "not found")),
            Some(_) => return Err(self.not_found("Group", "is not a consumer group")),
        };
        self.record(&changes, effects);
        Ok(answer)
    }

    /// Replaces the slot's group, if it has one, by a consumer group.
    fn begin_consumer_group(&mut self, group: ConsumerGroup, effects: &mut Effects) {
        self.drop_group(effects);
        self.group = Some(Group::Consumer(group));
    }

    fn leave(
        &mut self,
        context: &Context<'_>,
        request: &Heartbeat,
        effects: &mut Effects,
    ) -> Result<HeartbeatAnswer, ApiError> {
        let group = match &mut self.group {
            Some(Group::Consumer(group)) => group,
            Some(_) => return Err(self.not_found("Group", "is not a consumer group")),
            None => return Err(self.not_found("Group", "not found")),
        };
        let member_id = group.leaving_member(&request.member_id, request.instance_id.as_deref())?;
        if request.instance_id.is_some() && request.member_epoch == LEAVE_STATIC_EPOCH {
            let changes = group.leave_for_a_while(&member_id);
            self.record(&changes, effects);
        } else {
            log::info!("member {member_id} leaves group {}", self.id);
            self.fence(context, [Arc::clone(&member_id)].into(), effects);
        }
        Ok(HeartbeatAnswer::left(member_id, request.member_epoch))
    }

    /// Removes members. If only members of the classic protocol are left, the group becomes a classic one.
    fn fence(&mut self, context: &Context<'_>, gone: BTreeSet<Arc<str>>, effects: &mut Effects) {
        let Some(Group::Consumer(group)) = &mut self.group else { return };
        if gone.is_empty() {
            return;
        }
        if group.downgrades_without(context, &gone) {
            let classic = group.to_classic(context, &gone, None);
            return self.begin_classic_group(context, classic, Some("members of the new protocol are gone"), effects);
        }
        let changes = group.fence(context, &gone);
        self.record(&changes, effects);
    }

    /// Replaces the slot's group by a classic group. If `rebalance` has a reason, the group rebalances.
    fn begin_classic_group(
        &mut self,
        context: &Context<'_>,
        mut classic: ClassicGroup,
        rebalance: Option<&str>,
        effects: &mut Effects,
    ) {
        self.drop_group(effects);
        effects.store(classic.record());
        if let Some(reason) = rebalance {
            classic.rebalance(context.now_ms, reason, effects);
        }
        self.group = Some(Group::Classic(classic));
    }

    /// Handles a JoinGroup for a consumer group with members.
    pub(crate) fn join_consumer_group(&mut self, context: &Context<'_>, join: &Join<'_>, effects: &mut Effects) {
        let Some(Group::Consumer(group)) = &mut self.group else { return };
        let joined = match group.join(context, join) {
            Ok(joined) => joined,
            Err(refusal) => {
                let why = refusal.message.unwrap_or_default();
                log::info!("{} may not join group {}: {why}", join.client_id, self.id);
                return effects.join(join.ticket, JoinAnswer::refused(refusal.code, join.member_id.into()));
            }
        };
        if let Some(downgrade) = &joined.downgrade {
            let classic = group.to_classic(context, &BTreeSet::new(), Some(downgrade));
            let reason = downgrade.rebalance.then_some("the assignment is out of date");
            self.begin_classic_group(context, classic, reason, effects);
        }
        self.record(&joined.changes, effects);
        effects.join(join.ticket, joined.answer);
    }

    /// Handles a SyncGroup for a consumer group.
    pub(crate) fn sync_consumer_group(&mut self, context: &Context<'_>, sync: &Sync<'_>, effects: &mut Effects) {
        let Some(Group::Consumer(group)) = &mut self.group else { return };
        effects.sync(sync.ticket, group.sync(context, sync).unwrap_or_else(SyncAnswer::refused));
    }

    /// Handles a LeaveGroup for a consumer group. Returns the outcome of each leaver, in order.
    pub(crate) fn leave_consumer_group(
        &mut self,
        context: &Context<'_>,
        leavers: &[Leaver<'_>],
        effects: &mut Effects,
    ) -> Vec<Result<(), ErrorCode>> {
        let Some(Group::Consumer(group)) = &mut self.group else { return Vec::new() };
        let found: Vec<_> = leavers.iter().map(|leaver| group.leaver(leaver)).collect();
        self.fence(context, found.iter().flatten().cloned().collect(), effects);
        found.into_iter().map(|found| found.map(|_| ())).collect()
    }

    /// Removes the members whose deadlines have passed.
    pub(crate) fn expire_consumer_members(&mut self, context: &Context<'_>, effects: &mut Effects) {
        while let Some(Group::Consumer(group)) = &mut self.group {
            let Some(member_id) = group.expired(context.now_ms) else { break };
            self.fence(context, [member_id].into(), effects);
        }
    }

    fn resolve_regexes(&mut self, context: &Context<'_>, effects: &mut Effects) {
        if let Some(Group::Consumer(group)) = &mut self.group {
            let changes = group.resolve_regexes(context);
            self.record(&changes, effects);
        }
    }

    fn record(&self, changes: &[Change], effects: &mut Effects) {
        changes.iter().for_each(|change| effects.store(change.record(&self.id)));
    }

    fn not_found(&self, what: &str, why: &str) -> ApiError {
        ApiError::new(ErrorCode::GroupIdNotFound, format!("{what} {} {why}.", self.id))
    }

    /// Applies a record that was read back from the log.
    ///
    /// # Errors
    /// A record that cannot be read.
    pub(crate) fn replay_consumer(&mut self, key_version: i16, record: &StoredRecord) -> Result<(), WireError> {
        let mut key = Reader::new(&record.key);
        key.i16()?;
        let change = read_record(key_version, &mut key, record.value.as_deref())?;
        match &mut self.group {
            Some(Group::Consumer(_)) if change == Change::EpochGone => self.group = None,
            Some(Group::Consumer(group)) => group.apply(&change),
            // A tombstone of a group that no longer exists.
            _ if record.value.is_none() => {}
            group => {
                let mut read = ConsumerGroup::new(Arc::clone(&self.id));
                read.apply(&change);
                *group = Some(Group::Consumer(read));
            }
        }
        Ok(())
    }
}
