//! Conversion between the two kinds of group (the online migration of KIP-848): a classic group of consumers becomes a
//! consumer group when the first member of the consumer protocol joins, and a classic group again when the last one has
//! left.

use std::collections::BTreeSet;
use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::consumer_protocol::{ConsumerProtocolAssignment, ConsumerProtocolSubscription};

use super::classic_members::{assignment, by_id, classic_version};
use super::{
    Change, ClassicMembership, ConsumerGroup, ConsumerMember, Context, Downgrade, Held, MemberState, Partitions,
};
use crate::error::ApiError;
use crate::groups::classic::{ClassicGroup, ClassicMember, ConvertedMember};

impl ConsumerGroup {
    /// Converts a classic group to a consumer group. Returns the group, and the changes to store.
    ///
    /// # Errors
    /// GROUP_ID_NOT_FOUND if the group cannot be converted, with the reason; UNKNOWN_SERVER_ERROR while the members
    /// have not agreed on a protocol.
    pub(crate) fn from_classic(
        context: &Context<'_>,
        id: &Arc<str>,
        classic: &ClassicGroup,
    ) -> Result<(Self, Vec<Change>), ApiError> {
        let refused = |why: &str| {
            let message = format!("Cannot upgrade classic group {id} to consumer group because {why}.");
            log::info!("{message}");
            ApiError::new(ErrorCode::GroupIdNotFound, message)
        };
        if !context.settings.migration.upgrades() {
            return Err(refused("online upgrade is disabled"));
        }
        if !classic.is_of_consumers() {
            return Err(refused("the group does not use the consumer embedded protocol"));
        }
        if classic.members().len() as i64 > i64::from(context.settings.max_size) {
            return Err(refused("the group size exceeds the consumer group maximum size"));
        }
        let (generation, mut group) = (classic.generation_id(), Self::new(Arc::clone(id)));
        // Kafka's coordinator assumes that all members support the protocol of the last generation. Before the first
        // generation, and if a member that joined since does not support it, Kafka fails with an error without a
        // message.
        let known = |protocol: &&Arc<str>| {
            classic.members().all(|(_, member)| member.protocols.iter().any(|own| own.name == **protocol))
        };
        let Some(protocol) = classic.protocol_name().filter(known) else {
            log::error!("classic group {id} cannot be upgraded before its members have agreed on a protocol");
            return Err(ErrorCode::UnknownServerError.into());
        };
        let mut members = Vec::new();
        for (member_id, member) in classic.members() {
            members.push(upgraded(context, generation, member_id, member, protocol).map_err(|why| refused(&why))?);
        }
        let mut changes: Vec<Change> = members.iter().cloned().map(Change::Subscription).collect();
        group.apply_all(&changes);
        let hash = group.subscriptions_without(&BTreeSet::new()).hash(context.image);
        let mut rest = vec![Change::Epoch(generation, hash)];
        rest.extend(members.iter().map(|member| Change::Target(Arc::clone(&member.id), member.assigned.partitions())));
        rest.push(Change::TargetEpoch(generation, 0));
        rest.extend(members.iter().cloned().map(Change::Current));
        group.apply_all(&rest);
        changes.extend(rest);
        for (member_id, member) in classic.members() {
            group.watch_session(context.now_ms, member_id, member.session_timeout_ms);
        }
        log::info!("classic group {id} becomes a consumer group in epoch {generation}");
        Ok((group, changes))
    }

    /// True if the group becomes a classic one when these members are removed.
    pub(crate) fn downgrades_without(&self, context: &Context<'_>, gone: &BTreeSet<Arc<str>>) -> bool {
        let mut left = self.members.values().filter(|member| !gone.contains(&member.id)).peekable();
        let count = self.members.len() - gone.len();
        left.peek().is_some()
            && left.all(|member| member.classic.is_some())
            && context.settings.migration.downgrades()
            && count as i64 <= i64::from(context.settings.classic_max_size)
    }

    /// Converts the group to a classic one, without these members. `downgrade` has the classic member that replaces the
    /// last one of the consumer protocol, if that is the cause.
    pub(crate) fn to_classic(
        &self,
        context: &Context<'_>,
        gone: &BTreeSet<Arc<str>>,
        downgrade: Option<&Downgrade>,
    ) -> ClassicGroup {
        let stays = |member: &&ConsumerMember| {
            !gone.contains(&member.id) && downgrade.is_none_or(|downgrade| downgrade.replaced != member.id)
        };
        let mut members: Vec<(&ConsumerMember, &Arc<str>)> =
            self.members.values().filter(stays).map(|member| (member, &member.id)).collect();
        members.extend(downgrade.map(|downgrade| (&downgrade.joining, &downgrade.replaced)));
        let members = members.into_iter().filter_map(|(member, target_of)| {
            let classic = member.classic.as_ref()?;
            let target = self.targets.get(target_of).cloned().unwrap_or_default();
            Some(ConvertedMember {
                id: Arc::clone(&member.id),
                instance_id: member.instance_id.clone(),
                client_id: Arc::clone(&member.client_id),
                client_host: Arc::clone(&member.client_host),
                session_timeout_ms: classic.session_timeout_ms,
                rebalance_timeout_ms: member.rebalance_timeout_ms,
                protocols: classic.protocols.clone(),
                assignment: assignment(&target, classic_version(classic), context.image),
            })
        });
        log::info!("consumer group {} becomes a classic group in generation {}", self.id, self.epoch);
        ClassicGroup::converted(Arc::clone(&self.id), context.now_ms, self.epoch, members.collect())
    }
}

fn upgraded(
    context: &Context<'_>,
    generation: i32,
    id: &Arc<str>,
    member: &ClassicMember,
    protocol: &str,
) -> Result<ConsumerMember, String> {
    let malformed = |_| "the embedded consumer protocol is malformed".to_owned();
    let metadata = member.metadata(protocol);
    let subscription = ConsumerProtocolSubscription::read(&metadata).map_err(malformed)?;
    let mut assigned = Partitions::default();
    if !member.assignment.is_empty() {
        let assignment = ConsumerProtocolAssignment::read(&member.assignment).map_err(malformed)?;
        if assignment.user_data.is_some_and(|data| !data.is_empty()) {
            return Err("an unsupported custom assignor is in use. Please refer to the documentation or switch to a \
                        default assignor before re-attempting the upgrade"
                .to_owned());
        }
        assigned = by_id(&assignment.assigned_partitions, context.image);
    }
    let protocols = member.protocols.iter().map(|own| (Arc::clone(&own.name), own.metadata.clone())).collect();
    Ok(ConsumerMember {
        epoch: generation,
        previous_epoch: generation,
        state: MemberState::Stable,
        instance_id: member.instance_id.clone(),
        rack_id: subscription.rack_id.filter(|rack_id| !rack_id.is_empty()).map(Into::into),
        rebalance_timeout_ms: member.rebalance_timeout_ms,
        client_id: Arc::clone(&member.client_id),
        client_host: Arc::clone(&member.client_host),
        subscribed_names: subscription.topics.iter().map(|&name| name.into()).collect(),
        assigned: Held::at(&assigned, generation),
        classic: Some(ClassicMembership { session_timeout_ms: member.session_timeout_ms, protocols }),
        ..ConsumerMember::new(Arc::clone(id))
    })
}
