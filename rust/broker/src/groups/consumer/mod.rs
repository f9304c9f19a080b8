//! The consumer group of KIP-848: one pure state machine for each group.
//!
//! A group has an epoch, which is bumped with each change of its members, their subscriptions or the topics they
//! subscribe to. For each epoch the assignor computes a target assignment. Each member reconciles with it by itself: it
//! first revokes the partitions that are not in its target, and acknowledges that; only then it advances to the
//! target's epoch, and is assigned those partitions of its target that no other member holds.
//!
//! [`ConsumerGroup::heartbeat`] computes the effect of a request as a list of [`Change`]s, and modifies nothing before
//! all checks have passed. The changes are then applied and stored. State that is not stored ([`Timers`], `refresh`) is
//! rebuilt when a group is read back.
//!
//! `reconcile.rs` has the steps of a member, `subscriptions.rs` the topics of the group, `assignors/` the target
//! assignments, `classic_members.rs` the members that still use the classic protocol, and `conversion.rs` the
//! conversion between the two kinds of group.

mod assignors;
mod calls;
mod change;
mod classic_members;
mod commits;
mod conversion;
mod describe;
mod heartbeat;
mod image;
mod leave;
mod member;
#[cfg(test)]
mod model;
mod partitions;
mod reconcile;
mod records;
mod settings;
mod state;
mod subscriptions;
mod target;
mod timers;

use std::collections::BTreeMap;
use std::sync::Arc;

use monedula_protocol::types::Uuid;

pub(crate) use assignors::Assignor;
pub(crate) use change::{Change, ResolvedRegex};
pub(crate) use classic_members::Downgrade;
pub(crate) use heartbeat::{Heartbeat, HeartbeatAnswer};
pub(crate) use image::{ClusterImage, Image};
pub(crate) use member::{ClassicMembership, ConsumerMember, JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH, MemberState};
pub(crate) use partitions::{Held, Partitions};
pub(crate) use records::{is_consumer_record, read_record};
pub(crate) use settings::{ConsumerSettings, MigrationPolicy};
pub(crate) use subscriptions::metadata_hash;
pub(crate) use timers::{Timer, Timers};

/// A consumer group. The module explains how it works.
#[derive(Clone, Debug)]
pub(crate) struct ConsumerGroup {
    id: Arc<str>,
    epoch: i32,
    /// The hash of the subscribed topics' metadata at the last bump of the epoch.
    metadata_hash: i64,
    target_epoch: i32,
    /// The time at which the target assignment was computed; 0 if there is none yet.
    target_at_ms: i64,
    members: BTreeMap<Arc<str>, ConsumerMember>,
    /// The member ids of static members, by instance id.
    static_members: BTreeMap<Arc<str>, Arc<str>>,
    targets: BTreeMap<Arc<str>, Partitions>,
    /// The member epoch of the member that holds a partition, whether assigned or pending revocation.
    holders: BTreeMap<(Uuid, i32), i32>,
    regexes: BTreeMap<Arc<str>, ResolvedRegex>,
    /// The number of members that subscribe with each pattern.
    regex_members: BTreeMap<Arc<str>, usize>,
    timers: Timers,
    /// True if topic metadata may have changed since `metadata_hash` was computed.
    refresh: bool,
    /// True if topics may have been created or deleted since the patterns were resolved.
    refresh_regexes: bool,
}

/// The environment of a group: the time, the topics and the settings.
#[derive(Copy, Clone)]
pub(crate) struct Context<'a> {
    pub(crate) now_ms: i64,
    pub(crate) image: &'a dyn Image,
    pub(crate) settings: &'a ConsumerSettings,
}

impl ConsumerGroup {
    pub(crate) fn new(id: Arc<str>) -> Self {
        Self {
            id,
            epoch: 1,
            metadata_hash: 0,
            target_epoch: 1,
            target_at_ms: 0,
            members: BTreeMap::new(),
            static_members: BTreeMap::new(),
            targets: BTreeMap::new(),
            holders: BTreeMap::new(),
            regexes: BTreeMap::new(),
            regex_members: BTreeMap::new(),
            timers: Timers::default(),
            refresh: true,
            refresh_regexes: true,
        }
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &ConsumerMember> {
        self.members.values()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    fn static_member(&self, instance_id: &str) -> Option<&ConsumerMember> {
        self.members.get(self.static_members.get(instance_id)?)
    }

    /// Marks the topic metadata and the patterns for a check at the next heartbeat of any member.
    pub(crate) fn request_refresh(&mut self) {
        self.refresh = true;
        self.refresh_regexes = true;
    }

    /// The earliest deadline of the group's timers. [`ConsumerGroup::expired`] returns the members whose deadline has
    /// passed.
    pub(crate) fn next_due_ms(&self) -> Option<i64> {
        self.timers.next_due_ms()
    }
}
