//! ShareGroupHeartbeat: a member joins, stays and leaves.

use std::collections::BTreeSet;
use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use super::assignor::assign;
use super::{InitializedTopics, ShareChange, ShareGroup, ShareMember};
use crate::error::ApiError;
use crate::groups::consumer::{HeartbeatAnswer, Image, JOIN_EPOCH, Partitions, metadata_hash};
use crate::share::ShareSettings;

/// The environment of a share group: the time, the topics and the settings.
#[derive(Copy, Clone)]
pub(crate) struct ShareContext<'a> {
    pub(crate) now_ms: i64,
    pub(crate) image: &'a dyn Image,
    pub(crate) settings: &'a ShareSettings,
}

/// A ShareGroupHeartbeat request. The caller has checked that it is well formed.
#[derive(Clone, Debug)]
pub(crate) struct ShareHeartbeat {
    pub(crate) member_id: Arc<str>,
    pub(crate) member_epoch: i32,
    pub(crate) rack_id: Option<Arc<str>>,
    pub(crate) subscribed_names: Option<BTreeSet<Arc<str>>>,
    pub(crate) client_id: Arc<str>,
    pub(crate) client_host: Arc<str>,
}

impl ShareGroup {
    /// Handles a heartbeat that joins or stays. Returns the answer, and the changes to store.
    ///
    /// # Errors
    /// A heartbeat that is refused. The group is unchanged then.
    pub(super) fn heartbeat(
        &mut self,
        context: &ShareContext<'_>,
        request: &ShareHeartbeat,
    ) -> Result<(HeartbeatAnswer, Vec<ShareChange>), ApiError> {
        let before = self.current_member(context, request)?;
        let member = request.updated(&before);
        let mut changes = Vec::new();
        if member != before || !self.members.contains_key(&member.id) {
            changes.push(ShareChange::Subscription(member.clone()));
        }
        self.bump_for(context, &before, &member, &mut changes);
        self.refresh = false;
        self.apply_all(&changes);
        let assigned = self.assign_if_due(context);
        self.apply_all(&assigned);
        changes.extend(assigned);
        let target = self.targets.get(&member.id).cloned().unwrap_or_default();
        if before.epoch != self.target_epoch || before.assigned != target {
            let now = ShareMember {
                epoch: self.target_epoch,
                previous_epoch: before.epoch,
                assigned: target.clone(),
                ..member.clone()
            };
            let change = ShareChange::Current(now);
            self.apply(&change);
            changes.push(change);
        }
        self.watch_session(context, &member.id);
        // As Kafka 4.4 does: the answer to one that says what it subscribes to may have been lost before.
        let is_full = request.member_epoch == JOIN_EPOCH || request.subscribed_names.is_some();
        let told = is_full || before.assigned != target;
        let answer = HeartbeatAnswer {
            member_id: Arc::clone(&member.id),
            member_epoch: self.target_epoch,
            heartbeat_interval_ms: context.settings.heartbeat_interval_ms,
            assignment: told.then_some(target),
        };
        Ok((answer, changes))
    }

    /// The member that sends a heartbeat, as it is before it.
    ///
    /// # Errors
    /// GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH.
    fn current_member(&self, context: &ShareContext<'_>, request: &ShareHeartbeat) -> Result<ShareMember, ApiError> {
        let joins = request.member_epoch == JOIN_EPOCH;
        let Some(member) = self.members.get(&request.member_id) else {
            let max_size = context.settings.max_size;
            return match joins {
                false => Err(self.unknown(&request.member_id)),
                true if self.members.len() as i64 >= i64::from(max_size) => {
                    let message = format!("The share group has reached its maximum capacity of {max_size} members.");
                    Err(ApiError::new(ErrorCode::GroupMaxSizeReached, message))
                }
                true => {
                    log::info!("member {} joins share group {}", request.member_id, self.id);
                    Ok(ShareMember::new(Arc::clone(&request.member_id)))
                }
            };
        };
        // A member that missed the answer with the new epoch still sends the previous one.
        if joins || request.member_epoch == member.epoch || request.member_epoch == member.previous_epoch {
            return Ok(member.clone());
        }
        let than = if request.member_epoch > member.epoch { "greater" } else { "smaller" };
        let message = format!(
            "The share group member has a {than} member epoch ({}) than the one known by the group coordinator ({}). The \
             member must abandon all its partitions and rejoin.",
            request.member_epoch, member.epoch
        );
        Err(ApiError::new(ErrorCode::FencedMemberEpoch, message))
    }

    /// Bumps the group's epoch if a subscription or the subscribed topics have changed, and gives new partitions a
    /// state.
    fn bump_for(
        &self,
        context: &ShareContext<'_>,
        before: &ShareMember,
        member: &ShareMember,
        changes: &mut Vec<ShareChange>,
    ) {
        let bump = before.subscribed_names != member.subscribed_names;
        if !bump && !self.refresh {
            return;
        }
        let others = self.members.values().filter(|other| other.id != member.id);
        let names = others.flat_map(|other| &other.subscribed_names).chain(&member.subscribed_names).collect();
        let hash = metadata_hash(&names, context.image);
        if bump || hash != self.metadata_hash {
            log::info!("share group {} is in epoch {} now", self.id, self.epoch + 1);
            changes.push(ShareChange::Epoch(self.epoch + 1, hash));
        }
        let topics = self.initialized_with(context, &names);
        if topics != self.initialized {
            changes.push(ShareChange::Initialized(topics));
        }
    }

    /// The topics with state, with those that exist among `names`.
    fn initialized_with(&self, context: &ShareContext<'_>, names: &BTreeSet<&Arc<str>>) -> InitializedTopics {
        let mut topics = self.initialized.clone();
        for name in names {
            let Some(id) = context.image.topic_id(name) else { continue };
            let partitions = context.image.partitions(id).unwrap_or_default();
            topics.insert(id, (Arc::clone(name), partitions));
        }
        topics
    }

    /// The changes of a new target assignment, if the group's epoch is ahead of the present one, and
    /// `share.assignment.interval.ms` have passed since (KIP-1263).
    fn assign_if_due(&self, context: &ShareContext<'_>) -> Vec<ShareChange> {
        let interval_ms = i64::from(context.settings.assignment_interval_ms);
        let may_assign =
            self.target_at_ms == 0 || interval_ms == 0 || context.now_ms >= self.target_at_ms + interval_ms;
        if self.target_epoch >= self.epoch || !may_assign {
            return Vec::new();
        }
        let mut changes = Vec::new();
        for (id, target) in self.assign(context) {
            if self.targets.get(&id) != Some(&target) {
                changes.push(ShareChange::Target(id, target));
            }
        }
        changes.push(ShareChange::TargetEpoch(self.epoch, context.now_ms));
        changes
    }

    fn assign(&self, context: &ShareContext<'_>) -> Vec<(Arc<str>, Partitions)> {
        let none = Partitions::default();
        let mut all: Vec<(Arc<str>, Partitions)> =
            self.members.keys().map(|id| (Arc::clone(id), Partitions::default())).collect();
        let names: BTreeSet<&Arc<str>> = self.members.values().flat_map(|member| &member.subscribed_names).collect();
        let topics = names.into_iter().filter_map(|name| Some((name, context.image.topic_id(name)?)));
        for (name, topic) in topics.collect::<Vec<(&Arc<str>, Uuid)>>() {
            let subscribers = self.members.values().filter(|member| member.subscribed_names.contains(name));
            let subscribers: Vec<_> = subscribers
                .map(|member| (Arc::clone(&member.id), self.targets.get(&member.id).unwrap_or(&none)))
                .collect();
            let assigned = assign(topic, context.image.partitions(topic).unwrap_or(0), &subscribers);
            for (id, target) in &mut all {
                let own = assigned.get(id).into_iter().flatten();
                own.for_each(|&partition| target.insert(topic, partition));
            }
        }
        all
    }

    /// Removes a member, and bumps the group's epoch.
    pub(super) fn fence(&mut self, context: &ShareContext<'_>, id: &Arc<str>) -> Vec<ShareChange> {
        let others = self.members.values().filter(|other| other.id != *id);
        let hash = metadata_hash(&others.flat_map(|other| &other.subscribed_names).collect(), context.image);
        let mut changes = vec![
            ShareChange::CurrentGone(Arc::clone(id)),
            ShareChange::TargetGone(Arc::clone(id)),
            ShareChange::SubscriptionGone(Arc::clone(id)),
            ShareChange::Epoch(self.epoch + 1, hash),
        ];
        if self.members.keys().all(|member| member == id) {
            // The target assignment of an empty group is up to date, with the timestamp 0.
            changes.push(ShareChange::TargetEpoch(self.epoch + 1, 0));
        }
        self.apply_all(&changes);
        log::info!("share group {} is in epoch {} now, because member {id} is gone", self.id, self.epoch);
        changes
    }

    /// The error for a member that the group does not have.
    pub(super) fn unknown(&self, member_id: &str) -> ApiError {
        let message = format!("Member {member_id} is not a member of group {}.", self.id);
        ApiError::new(ErrorCode::UnknownMemberId, message)
    }
}

impl ShareHeartbeat {
    fn updated(&self, before: &ShareMember) -> ShareMember {
        let mut member = before.clone();
        if let Some(rack_id) = &self.rack_id {
            member.rack_id = Some(Arc::clone(rack_id));
        }
        if let Some(names) = &self.subscribed_names {
            member.subscribed_names = names.clone();
        }
        (member.client_id, member.client_host) = (Arc::clone(&self.client_id), Arc::clone(&self.client_host));
        member
    }
}
