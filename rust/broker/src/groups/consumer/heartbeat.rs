//! ConsumerGroupHeartbeat of a member that joins or stays; `leave.rs` has those that leave.

use crate::planted::{Bug, planted};
use std::collections::BTreeSet;
use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;

use super::reconcile::Reconciliation;
use super::subscriptions::RegexUpdate;
use super::{
    Change, ConsumerGroup, ConsumerMember, Context, Held, JOIN_EPOCH, LEAVE_STATIC_EPOCH, MemberState, Partitions,
    Timer,
};
use crate::error::ApiError;

/// A ConsumerGroupHeartbeat request. The caller has checked that it is well formed.
#[derive(Clone, Debug)]
pub(crate) struct Heartbeat {
    pub(crate) member_id: Arc<str>,
    pub(crate) member_epoch: i32,
    pub(crate) instance_id: Option<Arc<str>>,
    pub(crate) rack_id: Option<Arc<str>>,
    /// -1 if it has not changed since the last heartbeat.
    pub(crate) rebalance_timeout_ms: i32,
    pub(crate) subscribed_names: Option<BTreeSet<Arc<str>>>,
    pub(crate) subscribed_regex: Option<Arc<str>>,
    pub(crate) server_assignor: Option<Arc<str>>,
    pub(crate) owned: Option<Partitions>,
    pub(crate) client_id: Arc<str>,
    pub(crate) client_host: Arc<str>,
}

/// The content of a ConsumerGroupHeartbeat answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeartbeatAnswer {
    pub(crate) member_id: Arc<str>,
    pub(crate) member_epoch: i32,
    pub(crate) heartbeat_interval_ms: i32,
    /// `None` if it has not changed since the last answer.
    pub(crate) assignment: Option<Partitions>,
}

/// The outcome of [`ConsumerGroup::subscribe`].
pub(super) struct Subscribed {
    pub(super) epoch: i32,
    /// True if the member's subscription changed, so that its assignment must be checked against it.
    pub(super) changed: bool,
}

impl ConsumerGroup {
    /// Handles a heartbeat that joins or stays. Returns the answer, and the changes to store.
    ///
    /// # Errors
    /// A heartbeat that is refused. The group is unchanged then.
    pub(crate) fn heartbeat(
        &mut self,
        context: &Context<'_>,
        request: &Heartbeat,
    ) -> Result<(HeartbeatAnswer, Vec<Change>), ApiError> {
        self.check_size(context, &request.member_id)?;
        let mut changes = Vec::new();
        let before = match &request.instance_id {
            None => self.dynamic_member(request)?,
            Some(instance_id) => self.rejoining_static_member(request, instance_id, &mut changes)?,
        };
        let mut member = request.updated(&before);
        // As since Kafka 4.4, a change of the preferred assignor bumps the epoch at once. Before, the next bump applied
        // it.
        let is_outvoted = self.assignor_now(context) != self.assignor(context, &member);
        let subscribed = self.subscribe(context, &before, &member, &mut changes, |update| {
            // A new pattern is resolved after this answer, and bumps the epoch then.
            is_outvoted || update == RegexUpdate::UpdatedAndResolved
        })?;
        let (target_epoch, target) = self.target_for(context, subscribed.epoch, &member, &mut changes);
        let step = Reconciliation {
            target_epoch,
            target: &target,
            subscribed: &self.subscribed_topics(&member, context.image),
            subscription_changed: subscribed.changed,
            owned: request.owned.as_ref(),
        };
        let next = self.reconciled(&member, &step);
        let moved = next != member;
        if moved {
            changes.push(Change::Current(next.clone()));
        }
        member = next;

        self.refresh = false;
        self.apply_all(&changes);
        if moved {
            self.watch_rebalance(context.now_ms, &member);
        }
        self.watch_session(context.now_ms, &member.id, context.settings.session_timeout_ms);

        let told = request.member_epoch == JOIN_EPOCH || request.is_full() || before.assigned != member.assigned;
        let answer = HeartbeatAnswer {
            member_id: Arc::clone(&member.id),
            member_epoch: member.epoch,
            heartbeat_interval_ms: context.settings.heartbeat_interval_ms,
            assignment: told.then(|| member.assigned.partitions()),
        };
        Ok((answer, changes))
    }

    /// Starts or stops the member's timer to revoke partitions.
    pub(super) fn watch_rebalance(&mut self, now_ms: i64, member: &ConsumerMember) {
        log::debug!("member {} of group {} is in epoch {} now: {:?}", member.id, self.id, member.epoch, member.state);
        // Members of the classic protocol have the join and sync timers instead.
        if member.classic.is_some() {
            return;
        }
        if member.state == MemberState::UnrevokedPartitions {
            let due_ms = now_ms + i64::from(member.rebalance_timeout_ms);
            self.timers.start(&member.id, Timer::Rebalance { epoch: member.epoch }, due_ms);
        } else {
            self.timers.stop_rebalance(&member.id);
        }
    }

    pub(super) fn watch_session(&mut self, now_ms: i64, member_id: &Arc<str>, timeout_ms: i32) {
        self.timers.start(member_id, Timer::Session, now_ms + i64::from(timeout_ms));
    }

    pub(super) fn check_size(&self, context: &Context<'_>, member_id: &str) -> Result<(), ApiError> {
        let max_size = context.settings.max_size;
        if (self.members.len() as i64) < i64::from(max_size) || self.members.contains_key(member_id) {
            return Ok(());
        }
        let message = format!("The consumer group has reached its maximum capacity of {max_size} members.");
        Err(ApiError::new(ErrorCode::GroupMaxSizeReached, message))
    }

    fn dynamic_member(&self, request: &Heartbeat) -> Result<ConsumerMember, ApiError> {
        let joins = request.member_epoch == JOIN_EPOCH;
        let member = match self.members.get(&request.member_id) {
            Some(member) => member.clone(),
            None if joins => ConsumerMember::new(Arc::clone(&request.member_id)),
            None => return Err(self.unknown(&request.member_id)),
        };
        check_epoch(&member, request)?;
        if joins {
            log::info!("member {} joins group {}", member.id, self.id);
        }
        Ok(member)
    }

    fn rejoining_static_member(
        &self,
        request: &Heartbeat,
        instance_id: &str,
        changes: &mut Vec<Change>,
    ) -> Result<ConsumerMember, ApiError> {
        let existing = self.static_member(instance_id);
        if request.member_epoch != JOIN_EPOCH {
            let member = self.known_static_member(&request.member_id, instance_id)?;
            check_epoch(member, request)?;
            return Ok(member.clone());
        }
        let Some(existing) = existing else {
            let known = self.members.get(&request.member_id).cloned();
            return Ok(known.unwrap_or_else(|| ConsumerMember::new(Arc::clone(&request.member_id))));
        };
        if existing.classic.is_none() && existing.epoch != LEAVE_STATIC_EPOCH {
            let message = format!(
                "Static member {} with instance id {instance_id} cannot join the group because the instance id is owned by \
                 {} member.",
                request.member_id, existing.id
            );
            return Err(ApiError::new(ErrorCode::UnreleasedInstanceId, message));
        }
        Ok(self.replace(existing, &request.member_id, changes))
    }

    /// Replaces a static member by one with another id, which takes over its state, in epoch 0.
    pub(super) fn replace(&self, old: &ConsumerMember, id: &Arc<str>, changes: &mut Vec<Change>) -> ConsumerMember {
        log::info!("member {id} takes the place of static member {} in group {}", old.id, self.id);
        let new = ConsumerMember { id: Arc::clone(id), epoch: JOIN_EPOCH, previous_epoch: JOIN_EPOCH, ..old.clone() };
        let target = self.targets.get(&old.id).cloned().unwrap_or_default();
        changes.extend([
            Change::CurrentGone(Arc::clone(&old.id)),
            Change::TargetGone(Arc::clone(&old.id)),
            Change::SubscriptionGone(Arc::clone(&old.id)),
            Change::Subscription(new.clone()),
            Change::Target(Arc::clone(id), target),
            Change::Current(new.clone()),
        ]);
        new
    }

    /// The static member with this instance id, if it has this member id.
    pub(super) fn known_static_member(&self, member_id: &str, instance_id: &str) -> Result<&ConsumerMember, ApiError> {
        let Some(member) = self.static_member(instance_id) else {
            return Err(ApiError::new(ErrorCode::UnknownMemberId, format!("Instance id {instance_id} is unknown.")));
        };
        if *member.id != *member_id {
            let message =
                format!("Static member {member_id} with instance id {instance_id} was fenced by member {}.", member.id);
            return Err(ApiError::new(ErrorCode::FencedInstanceId, message));
        }
        Ok(member)
    }

    pub(super) fn unknown(&self, member_id: &str) -> ApiError {
        let message = format!("Member {member_id} is not a member of group {}.", self.id);
        ApiError::new(ErrorCode::UnknownMemberId, message)
    }

    /// Adds the changes of a member's subscription, and bumps the group's epoch if the subscription or the topics
    /// changed.
    pub(super) fn subscribe(
        &self,
        context: &Context<'_>,
        before: &ConsumerMember,
        member: &ConsumerMember,
        changes: &mut Vec<Change>,
        bumps: impl Fn(RegexUpdate) -> bool,
    ) -> Result<Subscribed, ApiError> {
        if before != member {
            changes.push(Change::Subscription(member.clone()));
        }
        let names_changed = before.subscribed_names != member.subscribed_names;
        let update = self.update_regex(before, member, changes)?;
        let bump = names_changed || bumps(update);
        let changed = names_changed || update != RegexUpdate::Unchanged;
        let mut epoch = self.epoch;
        if bump || self.refresh {
            let hash = self.subscriptions_with(member).hash(context.image);
            if bump || hash != self.metadata_hash {
                epoch += 1;
                log::info!("group {} is in epoch {epoch} now", self.id);
                changes.push(Change::Epoch(epoch, hash));
            }
        }
        Ok(Subscribed { epoch, changed })
    }
}

impl Heartbeat {
    /// True if the request has all fields. A member sends a full request when it joins, and after an error that leaves
    /// open what the coordinator has received.
    fn is_full(&self) -> bool {
        self.rebalance_timeout_ms != -1
            && (self.subscribed_names.is_some() || self.subscribed_regex.is_some())
            && self.owned.is_some()
    }

    fn updated(&self, before: &ConsumerMember) -> ConsumerMember {
        let mut member = before.clone();
        if let Some(instance_id) = &self.instance_id {
            member.instance_id = Some(Arc::clone(instance_id));
        }
        if let Some(rack_id) = &self.rack_id {
            member.rack_id = Some(Arc::clone(rack_id));
        }
        if self.rebalance_timeout_ms != -1 {
            member.rebalance_timeout_ms = self.rebalance_timeout_ms;
        }
        if let Some(assignor) = &self.server_assignor {
            member.server_assignor = Some(Arc::clone(assignor));
        }
        if let Some(names) = &self.subscribed_names {
            member.subscribed_names = names.clone();
        }
        if let Some(regex) = &self.subscribed_regex {
            member.subscribed_regex = Arc::clone(regex);
        }
        (member.client_id, member.client_host) = (Arc::clone(&self.client_id), Arc::clone(&self.client_host));
        member.classic = None;
        member
    }
}

/// Checks the member epoch of a request. Besides the current epoch, the previous one is accepted if the member owns no
/// more than it is assigned: then it missed the answer with the new epoch.
fn check_epoch(member: &ConsumerMember, request: &Heartbeat) -> Result<(), ApiError> {
    let (received, current) = (request.member_epoch, member.epoch);
    let is_subset = |owned: &Partitions, assigned: &Held| {
        owned.iter().all(|(topic, partition)| assigned.contains(topic, partition))
    };
    let missed_one = received == member.previous_epoch
        && request.owned.as_ref().is_some_and(|owned| is_subset(owned, &member.assigned));
    if planted(Bug::AcceptStaleEpoch)
        || received == JOIN_EPOCH
        || received == current
        || received < current && missed_one
    {
        return Ok(());
    }
    let than = if received > current { "greater" } else { "smaller" };
    let message = format!(
        "The consumer group member has a {than} member epoch ({received}) than the one known by the group coordinator \
         ({current}). The member must abandon all its partitions and rejoin."
    );
    Err(ApiError::new(ErrorCode::FencedMemberEpoch, message))
}
