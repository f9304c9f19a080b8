//! Who gets which partitions: assignors, what their members tell the leader, and what the leader tells them.
//!
//! An assignor is a pure function of the members' subscriptions and the topics. What travels between the members is written
//! in `subscription` byte for byte as Java's consumers do it, so that groups may be mixed (seed S127).

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
pub use self::schedule::{Deferral, Loss, NAMES_BYTES_MAX, Newcomers, Schedule, ScheduleError, Told};
pub use self::subscription::{
    assignment_bytes, perform, read_assignment, read_subscription, subscribed_topics, subscription_bytes,
    with_user_data,
};
pub use self::topics::topics_of;
use crate::TopicPartition;

/// Topics with the racks of each partition's replicas: the index is the partition's, a partition without known racks is
/// empty. What the leader of a group knows of the cluster.
pub type Topics = BTreeMap<Arc<str>, Vec<Vec<Arc<str>>>>;

/// How members of an assignor give up partitions (KIP-429).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// All of them, before they join.
    Eager,
    /// Those that the new assignment lacks, after it is known; all else flows on.
    Cooperative,
}

/// What a member has told the leader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subscription {
    /// Its id.
    pub member_id: String,
    /// Its static id (KIP-345), which outlives `member_id`.
    pub instance_id: Option<String>,
    /// Topics that it subscribes to, sorted.
    pub topics: Vec<Arc<str>>,
    /// Partitions that it owns; empty under the eager protocol.
    pub owned: Vec<TopicPartition>,
    /// The generation in which it owned them, -1 unknown (KIP-792).
    pub generation: i32,
    /// Its rack (KIP-881).
    pub rack: Option<String>,
    /// What its assignor wants the leader's to know.
    pub user_data: Option<Vec<u8>>,
}

/// What one member gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberAssignment {
    /// Its partitions.
    pub partitions: Vec<TopicPartition>,
    /// What the leader's assignor wants its own to know.
    pub user_data: Option<Vec<u8>>,
}

/// What every member gets, by member id.
pub type Assignment = BTreeMap<String, MemberAssignment>;

/// What a member was assigned last, kept over revocation: what sticky assignors tell the leader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastAssignment {
    /// The generation, -1 before the first.
    pub generation: i32,
    /// The partitions.
    pub partitions: BTreeSet<TopicPartition>,
    /// What the leader's assignor told with them.
    pub user_data: Option<Vec<u8>>,
    /// Whether the member is in the group ever since.
    pub current: bool,
    /// How long ago that was.
    pub age: Duration,
    /// The user wants a rebalance now, whatever that assignment left for later.
    pub ends_waits: bool,
}

/// Decides who gets which partitions. Members agree on one by its name.
pub trait Assignor: Send + Sync {
    /// The name that members agree on, such as `range`.
    fn name(&self) -> &str;

    /// How its members give up partitions.
    fn protocol(&self) -> Protocol;

    /// What to tell the leader beyond topics and owned partitions.
    fn user_data(&self, topics: &BTreeSet<Arc<str>>, last: &LastAssignment) -> Option<Vec<u8>> {
        let _ = (topics, last);
        None
    }

    /// What the user data of an assignment says is left for later: the member joins again when that is due.
    fn deferral(&self, user_data: Option<&[u8]>) -> Deferral {
        let _ = user_data;
        Deferral::default()
    }

    /// Whether it leaves things for later. Then its leader tells itself anew what is left of that, and a member takes part in a
    /// rebalance while it still gives up partitions: it goes on claiming them, and the leader knows that they are on their way.
    fn defers(&self) -> bool {
        false
    }

    /// Who gets what. `topics` has every topic that a member subscribes to and that exists.
    ///
    /// # Errors
    /// What keeps it from assigning, for the user.
    fn assign(&self, topics: &Topics, members: &[Subscription]) -> Result<Assignment, AssignError>;
}

/// Why there is no assignment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssignError {
    /// A member's subscription cannot be read.
    #[error("the subscription of member {member_id} cannot be read: {reason}")]
    Subscription {
        /// The member.
        member_id: String,
        /// What is wrong.
        reason: String,
    },
    /// The assignor failed.
    #[error("the assignor {assignor} failed: {reason}")]
    Failed {
        /// Its name.
        assignor: String,
        /// What it said.
        reason: String,
    },
    /// Metadata of the group's topics cannot be had now; it may be later.
    #[error("metadata of the group's topics cannot be had: {reason}")]
    NoMetadata {
        /// What came instead.
        reason: String,
    },
    /// It assigned what it must not.
    #[error("the assignor {assignor} {what}")]
    Invalid {
        /// Its name.
        assignor: String,
        /// What it did.
        what: String,
    },
}
