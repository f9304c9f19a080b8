//! The share group of KIP-932: one pure state machine for each group.
//!
//! As in a consumer group, each change of members, their subscriptions or the topics they subscribe to bumps the epoch,
//! for which the assignor computes a target. There is nothing to reconcile: a member takes its target at its next
//! heartbeat, since several members may have the same partition. What the members do with records is not the group's
//! but the partitions' ([`SharePartition`](crate::share::SharePartition)).

mod assignor;
mod calls;
mod change;
mod heartbeat;
mod member;
mod records;

use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) use assignor::ASSIGNOR;
pub(crate) use change::{InitializedTopics, ShareChange};
pub(crate) use heartbeat::{ShareContext, ShareHeartbeat};
pub(crate) use member::ShareMember;
pub(crate) use records::is_share_record;

use super::Effects;
use super::consumer::{Partitions, Timer, Timers};

/// A share group. The module explains how it works.
#[derive(Clone, Debug)]
pub(crate) struct ShareGroup {
    id: Arc<str>,
    epoch: i32,
    /// The hash of the subscribed topics' metadata at the last bump of the epoch.
    metadata_hash: i64,
    target_epoch: i32,
    /// The time at which the target assignment was computed; 0 if there is none yet.
    target_at_ms: i64,
    members: BTreeMap<Arc<str>, ShareMember>,
    targets: BTreeMap<Arc<str>, Partitions>,
    /// The topics with state.
    initialized: InitializedTopics,
    timers: Timers,
    /// True if topic metadata may have changed since `metadata_hash` was computed.
    refresh: bool,
}

impl ShareGroup {
    pub(crate) fn new(id: Arc<str>) -> Self {
        Self {
            id,
            epoch: 0,
            metadata_hash: 0,
            target_epoch: 0,
            target_at_ms: 0,
            members: BTreeMap::new(),
            targets: BTreeMap::new(),
            initialized: InitializedTopics::default(),
            timers: Timers::default(),
            refresh: true,
        }
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &ShareMember> {
        self.members.values()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Kafka's name of its state.
    pub(crate) fn state(&self) -> &'static str {
        if self.is_empty() { "Empty" } else { "Stable" }
    }

    pub(crate) fn epoch(&self) -> i32 {
        self.epoch
    }

    pub(crate) fn target_epoch(&self) -> i32 {
        self.target_epoch
    }

    /// The topics with state, by id: name, and number of partitions.
    pub(crate) fn initialized(&self) -> &InitializedTopics {
        &self.initialized
    }

    pub(crate) fn is_subscribed_to(&self, topic: &str) -> bool {
        self.members.values().any(|member| member.subscribed_names.contains(topic))
    }

    /// Marks the topic metadata for a check at the next heartbeat of any member.
    pub(crate) fn request_refresh(&mut self) {
        self.refresh = true;
    }

    /// The earliest deadline of the members' sessions.
    pub(crate) fn next_due_ms(&self) -> Option<i64> {
        self.timers.next_due_ms()
    }

    /// Starts the timers of a group that was read back from the log.
    pub(crate) fn start_timers(&mut self, context: &ShareContext<'_>) {
        for id in self.members.keys().cloned().collect::<Vec<_>>() {
            self.watch_session(context, &id);
        }
    }

    fn watch_session(&mut self, context: &ShareContext<'_>, member_id: &Arc<str>) {
        let due_ms = context.now_ms + i64::from(context.settings.session_timeout_ms);
        self.timers.start(member_id, Timer::Session, due_ms);
    }

    /// The next member to remove because its session has expired. The caller repeats this until it returns `None`.
    fn expired(&mut self, now_ms: i64) -> Option<Arc<str>> {
        while let Some((id, _)) = self.timers.pop_due(now_ms) {
            if self.members.contains_key(&id) {
                log::info!("member {id} is removed from share group {}: its session expired", self.id);
                return Some(id);
            }
        }
        None
    }

    fn apply_all(&mut self, changes: &[ShareChange]) {
        changes.iter().for_each(|change| self.apply(change));
    }

    fn apply(&mut self, change: &ShareChange) {
        let new = |id: &Arc<str>| ShareMember::new(Arc::clone(id));
        match change {
            ShareChange::Subscription(said) => {
                let member = self.members.entry(Arc::clone(&said.id)).or_insert_with(|| new(&said.id));
                let (epoch, previous_epoch) = (member.epoch, member.previous_epoch);
                let assigned = std::mem::take(&mut member.assigned);
                *member = ShareMember { epoch, previous_epoch, assigned, ..said.clone() };
            }
            ShareChange::SubscriptionGone(id) => {
                self.members.remove(id);
                self.timers.stop_all(id);
            }
            ShareChange::Current(now) => {
                let member = self.members.entry(Arc::clone(&now.id)).or_insert_with(|| new(&now.id));
                (member.epoch, member.previous_epoch) = (now.epoch, now.previous_epoch);
                member.assigned = now.assigned.clone();
            }
            // The member's subscription goes with it.
            ShareChange::CurrentGone(_) => {}
            ShareChange::Target(id, partitions) => _ = self.targets.insert(Arc::clone(id), partitions.clone()),
            ShareChange::TargetGone(id) => _ = self.targets.remove(id),
            ShareChange::TargetEpoch(epoch, at_ms) => (self.target_epoch, self.target_at_ms) = (*epoch, *at_ms),
            ShareChange::TargetEpochGone => (self.target_epoch, self.target_at_ms) = (0, 0),
            ShareChange::Epoch(epoch, hash) => (self.epoch, self.metadata_hash) = (*epoch, *hash),
            // The caller drops the group.
            ShareChange::EpochGone => {}
            ShareChange::Initialized(topics) => self.initialized = topics.clone(),
            ShareChange::InitializedGone => self.initialized.clear(),
        }
    }

    /// Replaces the topics with state. Returns the change to store.
    pub(crate) fn set_initialized(&mut self, topics: InitializedTopics) -> ShareChange {
        let change = ShareChange::Initialized(topics);
        self.apply(&change);
        change
    }

    /// Stores the tombstones that remove the group from the log.
    pub(crate) fn store_gone(&self, effects: &mut Effects) {
        self.tombstones().iter().for_each(|gone| effects.store(gone.record(&self.id)));
    }

    fn tombstones(&self) -> Vec<ShareChange> {
        let members = || self.members.keys().cloned();
        let mut changes: Vec<ShareChange> = members().map(ShareChange::CurrentGone).collect();
        changes.extend(members().map(ShareChange::TargetGone));
        changes.push(ShareChange::TargetEpochGone);
        changes.extend(members().map(ShareChange::SubscriptionGone));
        changes.extend([ShareChange::InitializedGone, ShareChange::EpochGone]);
        changes
    }
}
