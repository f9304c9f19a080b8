//! Partition assignment under the classic protocol: assignors, and the data that members and leader exchange.
//!
//! An assignor is a pure function of the members' subscriptions and the topics. `subscription` encodes what members
//! exchange byte for byte as Java's consumers do, so a group may mix both (req S127).

mod claims;
mod constrained;
mod cooperative_sticky;
mod deferred;
mod general;
mod group;
mod racks;
mod range;
mod registry;
mod round_robin;
mod schedule;
mod sticky;
mod subscription;
mod topics;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

pub use self::deferred::{Pace, ROUNDS};
pub use self::registry::{BUILTIN, builtin, builtin_with, eager_beside_deferring};
pub use self::schedule::{Deferral, DeferredUserData, Loss, NAMES_BYTES_MAX, Newcomers, Schedule, ScheduleError};
pub use self::subscription::{
    assignment_bytes, perform, read_assignment, read_subscriptions, subscribed_topics, subscription_bytes,
    with_user_data,
};
pub use self::topics::topics_of;
use crate::TopicPartition;

/// The topics to assign, with the racks of each partition's replicas. The index is the partition's; it is empty for a
/// partition whose racks are not known.
pub type Topics = BTreeMap<Arc<str>, Vec<Vec<Arc<str>>>>;

/// The rebalance protocol (KIP-429): it says which partitions members revoke, and at which time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// All of them, before they join.
    Eager,
    /// The partitions that the new assignment lacks, after it is known; all others are read on.
    Cooperative,
}

/// The subscription of a member, as the leader gets it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberSubscription {
    /// The member id.
    pub member_id: String,
    /// The static id (KIP-345), which outlives `member_id`.
    pub instance_id: Option<String>,
    /// The subscribed topics, sorted.
    pub topics: Vec<Arc<str>>,
    /// The owned partitions; empty under the eager protocol.
    pub owned: Vec<TopicPartition>,
    /// The generation in which the member owned them; -1 if unknown (KIP-792).
    pub generation: i32,
    /// The rack (KIP-881).
    pub rack: Option<String>,
    /// The user data of the member's assignor for the leader's.
    pub user_data: Option<Vec<u8>>,
}

/// The assignment of one member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberAssignment {
    /// The assigned partitions.
    pub partitions: Vec<TopicPartition>,
    /// The user data of the leader's assignor for the member's.
    pub user_data: Option<Vec<u8>>,
}

/// The assignments of all members, by member id.
pub type Assignment = BTreeMap<String, MemberAssignment>;

/// The last assignment of a member, kept after its partitions are revoked. Sticky assignors send it to the leader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastAssignment {
    /// The generation, -1 before the first.
    pub generation: i32,
    /// The partitions.
    pub partitions: BTreeSet<TopicPartition>,
    /// The user data of the assignment.
    pub user_data: Option<Vec<u8>>,
    /// Set if the member has been in the group ever since.
    pub current: bool,
    /// The time since the assignment arrived.
    pub age: Duration,
    /// Set if the user requested a rebalance, which ends the waits of that assignment.
    pub ends_waits: bool,
}

/// An assignor: decides which member is assigned which partitions. The members of a group agree on one by its name.
pub trait Assignor: Send + Sync {
    /// The name that members agree on, such as `range`.
    fn name(&self) -> &str;

    /// The rebalance protocol of its members.
    fn protocol(&self) -> Protocol;

    /// The user data that a member sends to the leader, beside topics and owned partitions.
    fn user_data(&self, topics: &BTreeSet<Arc<str>>, last: &LastAssignment) -> Option<Vec<u8>> {
        let _ = (topics, last);
        None
    }

    /// The deferred part of an assignment, according to its user data. The member joins again when that is due.
    fn deferral(&self, user_data: Option<&[u8]>) -> Deferral {
        let _ = user_data;
        Deferral::default()
    }

    /// Tells whether it defers moves or assignments. If so, the leader updates the remaining times in its own
    /// subscription before it assigns, and a member takes part in a rebalance while it still revokes partitions: it
    /// keeps reporting them as owned, and the leader knows that they are about to become free.
    fn defers(&self) -> bool {
        false
    }

    /// Computes the assignment. `topics` has every topic that a member subscribes to and that exists.
    ///
    /// # Errors
    /// Why it cannot assign, as a message for the user.
    fn assign(&self, topics: &Topics, members: &[MemberSubscription]) -> Result<Assignment, AssignError>;
}

/// The reason why a leader could not compute an assignment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssignError {
    /// A member's subscription is malformed.
    #[error("the subscription of member {member_id} cannot be read: {reason}")]
    Subscription {
        /// The member.
        member_id: String,
        /// The malformed part.
        reason: String,
    },
    /// The assignor failed.
    #[error("the assignor {assignor} failed: {reason}")]
    Failed {
        /// The name.
        assignor: String,
        /// The error message.
        reason: String,
    },
    /// Metadata of the group's topics is not available now. A retry may succeed.
    #[error("metadata of the group's topics cannot be had: {reason}")]
    NoMetadata {
        /// The error that came instead.
        reason: String,
    },
    /// The system grants no thread to assign on. A retry may succeed.
    #[error("the assignor {assignor} cannot run: {reason}")]
    NoThread {
        /// The name.
        assignor: String,
        /// The system's error.
        reason: String,
    },
    /// The assignor returned an invalid assignment.
    #[error("the assignor {assignor} {what}")]
    Invalid {
        /// The name.
        assignor: String,
        /// The invalid part, as the end of a sentence.
        what: String,
    },
}
