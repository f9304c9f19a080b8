//! Members of a consumer group that still use the classic protocol. JoinGroup, SyncGroup and Heartbeat take them
//! through the same reconciliation steps that ConsumerGroupHeartbeat takes the others through.
//!
//! The generation id is the member epoch. A JoinGroup reports the owned partitions and reconciles the member; the
//! SyncGroup that follows returns the assignment. A JoinGroup is answered at once, without waiting for other members.

use std::sync::Arc;

use bytes::Bytes;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::consumer_protocol::{
    self, ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition,
};
use monedula_protocol::wire::Reader;

use super::reconcile::Reconciliation;
use super::subscriptions::RegexUpdate;
use super::{
    Change, ClassicMembership, ConsumerGroup, ConsumerMember, Context, Image, MemberState, MigrationPolicy, Partitions,
    Timer,
};
use crate::error::ApiError;
use crate::groups::{Join, JoinAnswer, Leaver, MemberIdentity, Sync, SyncAnswer};

/// The protocol type of consumers.
pub(super) const CONSUMER: &str = "consumer";
/// From this version of JoinGroup on, a dynamic member without an id is assigned one, and must join again with it
/// (KIP-394).
const MEMBER_ID_REQUIRED_FROM: i16 = 4;

/// The outcome of a JoinGroup.
pub(crate) struct Joined {
    pub(crate) answer: JoinAnswer,
    pub(crate) changes: Vec<Change>,
    /// Set if this member replaced the last one of the consumer protocol: the group becomes a classic one.
    pub(crate) downgrade: Option<Downgrade>,
}

/// The downgrade of a group: its last member of the consumer protocol, a static one, came back with the classic
/// protocol.
pub(crate) struct Downgrade {
    pub(crate) joining: ConsumerMember,
    pub(crate) replaced: Arc<str>,
    /// True if the target assignment is out of date, so that the classic group must rebalance.
    pub(crate) rebalance: bool,
}

impl ConsumerGroup {
    /// Handles a JoinGroup.
    ///
    /// # Errors
    /// A join that is refused. The group is unchanged then.
    pub(crate) fn join(&mut self, context: &Context<'_>, join: &Join<'_>) -> Result<Joined, ApiError> {
        if context.settings.migration == MigrationPolicy::Disabled {
            return Err(ApiError::new(ErrorCode::InconsistentGroupProtocol, "group migration is disabled"));
        }
        let unknown = join.member_id.is_empty();
        let member_id: Arc<str> = if unknown { Arc::clone(&join.new_member_id) } else { join.member_id.into() };
        self.check_size(context, &member_id)?;
        if !self.supports(join) {
            return Err(ApiError::new(ErrorCode::InconsistentGroupProtocol, "no protocol is supported by all"));
        }
        if unknown && join.instance_id.is_none() && join.ticket.version >= MEMBER_ID_REQUIRED_FROM {
            let answer = JoinAnswer::refused(ErrorCode::MemberIdRequired, member_id);
            return Ok(Joined { answer, changes: Vec::new(), downgrade: None });
        }
        let mut changes = Vec::new();
        let before = self.joining_member(join, &member_id, unknown, &mut changes)?;
        let reported = self.reported(context, join, &before)?;
        let subscribed = self
            .subscribe(context, &before, &reported.member, &mut changes, |update| update != RegexUpdate::Unchanged)?;
        let existing = join.instance_id.and_then(|instance_id| self.static_member(instance_id));
        let replaced = existing.filter(|existing| self.can_downgrade_without(context, existing));
        let replaced = replaced.map(|replaced| Arc::clone(&replaced.id));
        let rebalance = replaced.is_some() && self.target_epoch < subscribed.epoch;
        let (target_epoch, target) = match replaced {
            Some(_) => (self.target_epoch, self.last_target(&reported.member)),
            None => self.target_for(context, subscribed.epoch, &reported.member, &mut changes),
        };
        let topics = self.subscribed_topics(&reported.member, context.image);
        let step = Reconciliation {
            target_epoch,
            target: &target,
            subscribed: &topics,
            subscription_changed: subscribed.changed,
            owned: Some(&reported.owned),
        };
        let member = if rebalance { reported.member.clone() } else { self.reconciled(&reported.member, &step) };
        if member != reported.member {
            changes.push(Change::Current(member.clone()));
        }
        let answer = joined(&member);
        if let Some(replaced) = replaced {
            let downgrade = Some(Downgrade { joining: member, replaced, rebalance });
            return Ok(Joined { answer, changes: Vec::new(), downgrade });
        }
        self.refresh = false;
        self.apply_all(&changes);
        self.timers.stop_join(&member.id);
        self.timers.stop_rebalance(&member.id);
        self.watch_session(context.now_ms, &member.id, join.session_timeout_ms);
        self.timers.start(&member.id, Timer::Sync, context.now_ms + i64::from(join.rebalance_timeout_ms));
        Ok(Joined { answer, changes, downgrade: None })
    }

    /// True if the joining member supports a protocol that all members of the classic protocol support.
    fn supports(&self, join: &Join<'_>) -> bool {
        let all = |name: &Arc<str>| {
            let mut classic = self.members.values().filter_map(|member| member.classic.as_ref());
            classic.all(|member| member.protocols.iter().any(|(own, _)| own == name))
        };
        join.protocol_type == CONSUMER && join.protocols.iter().any(|protocol| all(&protocol.name))
    }

    fn joining_member(
        &self,
        join: &Join<'_>,
        member_id: &Arc<str>,
        unknown: bool,
        changes: &mut Vec<Change>,
    ) -> Result<ConsumerMember, ApiError> {
        let known =
            || self.members.get(member_id).cloned().unwrap_or_else(|| ConsumerMember::new(Arc::clone(member_id)));
        let Some(instance_id) = join.instance_id else {
            return Ok(known());
        };
        if !unknown {
            return Ok(self.known_static_member(member_id, instance_id)?.clone());
        }
        match self.static_member(instance_id) {
            Some(existing) => Ok(self.replace(existing, member_id, changes)),
            None => Ok(known()),
        }
    }

    fn reported(
        &self,
        context: &Context<'_>,
        join: &Join<'_>,
        before: &ConsumerMember,
    ) -> Result<ReportedMember, ApiError> {
        let malformed = |_| ApiError::new(ErrorCode::UnknownServerError, "the subscription cannot be read");
        let metadata = join.protocols.first().map(|protocol| protocol.metadata.clone()).unwrap_or_default();
        let subscription = ConsumerProtocolSubscription::read(&metadata).map_err(malformed)?;
        let mut member = before.clone();
        if let Some(instance_id) = join.instance_id {
            member.instance_id = Some(instance_id.into());
        }
        if let Some(rack_id) = subscription.rack_id.filter(|rack_id| !rack_id.is_empty()) {
            member.rack_id = Some(rack_id.into());
        }
        if join.rebalance_timeout_ms != -1 {
            member.rebalance_timeout_ms = join.rebalance_timeout_ms;
        }
        member.subscribed_names = subscription.topics.iter().map(|&name| name.into()).collect();
        member.subscribed_regex = "".into();
        (member.client_id, member.client_host) = (join.client_id.into(), Arc::clone(&join.client_host));
        let protocols = join.protocols.iter().map(|own| (Arc::clone(&own.name), own.metadata.clone())).collect();
        member.classic = Some(ClassicMembership { session_timeout_ms: join.session_timeout_ms, protocols });
        Ok(ReportedMember { member, owned: by_id(&subscription.owned_partitions, context.image) })
    }

    /// Handles a SyncGroup: returns the assignment as of the member's last join.
    ///
    /// # Errors
    /// A sync that is refused.
    pub(crate) fn sync(&mut self, context: &Context<'_>, sync: &Sync<'_>) -> Result<SyncAnswer, ErrorCode> {
        let (member, classic) = self.classic_member(sync.who)?;
        if member.epoch != sync.who.generation_id {
            return Err(ErrorCode::IllegalGeneration);
        }
        let name = classic.protocols.first().map(|(name, _)| &**name);
        let is_other_type = sync.protocol_type.is_some_and(|kind| kind != CONSUMER);
        if is_other_type || sync.protocol_name.is_some_and(|wanted| Some(wanted) != name) {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        let (id, session_timeout_ms) = (Arc::clone(&member.id), classic.session_timeout_ms);
        // A member that must revoke partitions has joined already, and stays in its epoch: it needs its reduced
        // assignment, not another join.
        if self.target_epoch > member.epoch && member.state != MemberState::UnrevokedPartitions {
            let due_ms = context.now_ms + i64::from(member.rebalance_timeout_ms);
            self.timers.start_if_absent(&id, Timer::Join, due_ms);
            return Err(ErrorCode::RebalanceInProgress);
        }
        let version = classic_version(classic);
        let assignment = assignment(&member.assigned.partitions(), version, context.image);
        self.timers.stop_sync(&id);
        self.watch_session(context.now_ms, &id, session_timeout_ms);
        Ok(SyncAnswer {
            error: ErrorCode::None,
            protocol_type: sync.protocol_type.map(Into::into),
            protocol_name: sync.protocol_name.map(Into::into),
            assignment,
        })
    }

    /// Handles a Heartbeat.
    ///
    /// # Errors
    /// REBALANCE_IN_PROGRESS if the member must join again; UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
    pub(crate) fn classic_heartbeat(
        &mut self,
        context: &Context<'_>,
        who: MemberIdentity<'_>,
    ) -> Result<(), ErrorCode> {
        let (member, classic) = self.classic_member(who)?;
        if member.epoch != who.generation_id {
            return Err(ErrorCode::IllegalGeneration);
        }
        let id = Arc::clone(&member.id);
        let due_ms = context.now_ms + i64::from(member.rebalance_timeout_ms);
        let rejoin = member.epoch < self.target_epoch
            || member.state == MemberState::UnrevokedPartitions
            || member.state == MemberState::UnreleasedPartitions && !self.waits_for_others(member);
        let session_timeout_ms = classic.session_timeout_ms;
        self.watch_session(context.now_ms, &id, session_timeout_ms);
        if rejoin {
            self.timers.start_if_absent(&id, Timer::Join, due_ms);
            return Err(ErrorCode::RebalanceInProgress);
        }
        Ok(())
    }

    /// True if another member still holds a partition of the member's target.
    fn waits_for_others(&self, member: &ConsumerMember) -> bool {
        let target = self.targets.get(&member.id);
        target.into_iter().flat_map(Partitions::iter).any(|(topic, partition)| {
            !member.assigned.contains(topic, partition) && self.holders.contains_key(&(topic, partition))
        })
    }

    fn classic_member(&self, who: MemberIdentity<'_>) -> Result<(&ConsumerMember, &ClassicMembership), ErrorCode> {
        let member = match who.instance_id {
            None => self.members.get(who.member_id).ok_or(ErrorCode::UnknownMemberId)?,
            Some(instance_id) => {
                self.known_static_member(who.member_id, instance_id).map_err(|refusal| refusal.code)?
            }
        };
        let classic = member.classic.as_ref().ok_or(ErrorCode::UnknownMemberId)?;
        Ok((member, classic))
    }

    /// The member that a LeaveGroup names.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    pub(crate) fn leaver(&self, leaver: &Leaver<'_>) -> Result<Arc<str>, ErrorCode> {
        let found = match leaver.instance_id {
            // An administrator removes a static member by its instance id alone.
            Some(instance_id) if leaver.member_id.is_empty() => {
                let member = self.static_member(instance_id).ok_or(ErrorCode::UnknownMemberId)?;
                Ok(Arc::clone(&member.id))
            }
            instance_id => self.leaving_member(leaver.member_id, instance_id),
        };
        found.map_err(|refusal| refusal.code)
    }

    /// True if the group can become a classic one when a classic member replaces this member of the consumer protocol:
    /// it must be the last one, and the migration policy and the group's size must allow it.
    fn can_downgrade_without(&self, context: &Context<'_>, replaced: &ConsumerMember) -> bool {
        let others = self.members.values().filter(|member| member.id != replaced.id);
        replaced.classic.is_none()
            && others.into_iter().all(|member| member.classic.is_some())
            && context.settings.migration.downgrades()
            && self.members.len() as i64 <= i64::from(context.settings.classic_max_size)
    }
}

/// A member as its JoinGroup describes it, and the partitions that it reports as owned.
struct ReportedMember {
    member: ConsumerMember,
    owned: Partitions,
}

fn joined(member: &ConsumerMember) -> JoinAnswer {
    let classic = member.classic.as_ref();
    let name = classic.and_then(|classic| classic.protocols.first()).map(|(name, _)| Arc::clone(name));
    JoinAnswer {
        error: ErrorCode::None,
        generation_id: member.epoch,
        protocol_type: Some(CONSUMER.into()),
        protocol_name: name,
        leader: "".into(),
        skip_assignment: false,
        member_id: Arc::clone(&member.id),
        members: Vec::new(),
    }
}

/// The version of the consumer protocol that a member uses, for its subscription and its assignment.
pub(super) fn classic_version(classic: &ClassicMembership) -> i16 {
    let metadata = classic.protocols.first().map(|(_, metadata)| metadata.clone()).unwrap_or_default();
    consumer_protocol::version(&mut Reader::new(&metadata)).unwrap_or(0).max(0)
}

/// Encodes an assignment in the format of the classic protocol. Deleted topics are left out.
pub(super) fn assignment(partitions: &Partitions, version: i16, image: &dyn Image) -> Bytes {
    let topics = partitions.by_topic().filter_map(|(id, partitions)| Some((image.topic_name(id)?, partitions)));
    let topics: Vec<_> = topics.collect();
    let assigned = topics.iter().map(|(topic, partitions)| TopicPartition {
        topic,
        partitions: partitions.iter().copied().collect(),
        ..Default::default()
    });
    let assigned_partitions = assigned.collect();
    let assignment = ConsumerProtocolAssignment { assigned_partitions, ..Default::default() };
    // Writing cannot fail: topic names are shorter than the format allows.
    assignment.write(version).unwrap_or_default().into()
}

/// Converts partitions by topic name to partitions by topic id. Unknown topics are left out.
pub(super) fn by_id(topics: &[TopicPartition<'_>], image: &dyn Image) -> Partitions {
    let known = topics.iter().filter_map(|topic| Some((image.topic_id(topic.topic)?, &topic.partitions)));
    known.flat_map(|(id, partitions)| partitions.iter().map(move |&partition| (id, partition))).collect()
}
