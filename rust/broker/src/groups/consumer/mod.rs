//! The coordinator of KIP-848: one pure machine for each consumer group.
//!
//! A group has an epoch, which grows with each change of its members, their subscriptions or the topics they subscribe to. For
//! each epoch there is a target: who is to own what in the end. Each member moves there by itself: it first gives back what the
//! target does not leave it, and says so; only then it goes on to the target's epoch, and is given what nobody else holds.
//!
//! [`ConsumerGroup::heartbeat`] works out what a request changes, as a list of [`Change`]s, and touches nothing before it knows
//! that the request is good. The changes are then applied and stored. What is not stored ([`Timers`], `refresh`) is made anew
//! when a group is read back.
//!
//! `reconcile.rs` has the steps of a member, `subscriptions.rs` what the group subscribes to, `assignors/` the targets,
//! `classic_members.rs` the members that still use the classic protocol, and `conversion.rs` the way between the two kinds of group.

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

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

pub(crate) use assignors::Assignor;
pub(crate) use change::{Change, ResolvedRegex};
pub(crate) use classic_members::Downgrade;
pub(crate) use heartbeat::{Heartbeat, HeartbeatAnswer};
pub(crate) use image::{ClusterImage, Image};
pub(crate) use member::{ClassicMember, JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH, Member, MemberState};
pub(crate) use partitions::{Held, Partitions};
pub(crate) use records::{is_consumer_record, read_record};
pub(crate) use settings::{ConsumerSettings, MigrationPolicy};
pub(crate) use timers::{Timer, Timers};

/// A consumer group. See the module.
#[derive(Clone, Debug)]
pub(crate) struct ConsumerGroup {
    id: Arc<str>,
    epoch: i32,
    /// A hash over the topics that the group subscribes to, as they were when the epoch was bumped last.
    metadata_hash: i64,
    target_epoch: i32,
    /// When the target was made; 0 if there was none yet.
    target_at_ms: i64,
    members: BTreeMap<Arc<str>, Member>,
    /// Members by instance id.
    static_members: BTreeMap<Arc<str>, Arc<str>>,
    targets: BTreeMap<Arc<str>, Partitions>,
    /// The epoch of whoever holds a partition, or is still to give it back.
    holders: BTreeMap<(Uuid, i32), i32>,
    regexes: BTreeMap<Arc<str>, ResolvedRegex>,
    /// How many members subscribe to each pattern.
    regex_members: BTreeMap<Arc<str>, usize>,
    timers: Timers,
    /// Topics may have changed since they were looked at last.
    refresh: bool,
    /// Topics may have come or gone since patterns were matched last.
    refresh_regexes: bool,
}

/// What a request is refused with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) error: ErrorCode,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(error: ErrorCode, message: impl Into<String>) -> Self {
        Self { error, message: message.into() }
    }
}

/// What a group works with.
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

    pub(crate) fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    fn static_member(&self, instance_id: &str) -> Option<&Member> {
        self.members.get(self.static_members.get(instance_id)?)
    }

    /// Members or topics may have to be looked at anew: with the next heartbeat of any member.
    pub(crate) fn request_refresh(&mut self) {
        self.refresh = true;
        self.refresh_regexes = true;
    }

    /// When [`ConsumerGroup::expire`] has something to do.
    pub(crate) fn next_due_ms(&self) -> Option<i64> {
        self.timers.next_due_ms()
    }
}
