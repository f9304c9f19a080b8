//! Events of a member, for the log, metrics and hooks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::TopicPartition;
use crate::group::state::MemberState;

/// An event of a member, for the log, metrics and hooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupEvent {
    /// The state changed.
    StateChanged {
        /// The old state.
        from: MemberState,
        /// The new state.
        to: MemberState,
    },
    /// `group.protocol=auto`, and the broker does not support KIP-848: a classic member takes over.
    FellBack {
        /// The broker's error.
        reason: String,
    },
    /// The coordinator is known.
    CoordinatorFound {
        /// The node id.
        node_id: i32,
    },
    /// The coordinator is not known any more.
    CoordinatorLost {
        /// The reason.
        reason: String,
    },
    /// A rebalance began for this member.
    RebalanceStarted {
        /// The reason.
        reason: String,
    },
    /// JoinGroup succeeded; under KIP-848, the first heartbeat did.
    Joined {
        /// The generation; the member epoch under KIP-848.
        generation: i32,
        /// Set if the member leads the group.
        leader: bool,
        /// The assignor.
        protocol: String,
        /// The time that the join took.
        took: Duration,
    },
    /// The rebalance is over for this member: SyncGroup succeeded, or the target assignment is reached (KIP-848).
    Synced {
        /// The generation; the member epoch under KIP-848.
        generation: i32,
        /// The time that SyncGroup took; under KIP-848 the same as `rebalance`.
        took: Duration,
        /// The time that the rebalance took, counted from when the member noticed it.
        rebalance: Duration,
        /// The number of owned partitions, without those that are revoked next.
        owned: usize,
        /// The number of newly assigned partitions.
        assigned: usize,
        /// The number of revoked partitions.
        revoked: usize,
    },
    /// A heartbeat was answered without an error that ends the session.
    Heartbeat {
        /// The time until the answer.
        took: Duration,
    },
    /// A commit ended, successfully or not.
    Commit {
        /// The time that it took, including retries.
        took: Duration,
        /// The number of committed partitions.
        partitions: usize,
        /// The number of partitions that were not committed.
        failed: usize,
    },
    /// A request failed and is retried; the user does not see the error.
    Retried {
        /// Name of the API.
        api: &'static str,
        /// The error, or what happened to the connection.
        reason: String,
    },
    /// Partitions are about to be revoked. A user in the middle of a long batch can hurry up.
    RebalanceWanted {
        /// The partitions.
        partitions: BTreeSet<TopicPartition>,
    },
    /// Partitions were lost.
    Lost {
        /// The partitions.
        partitions: BTreeSet<TopicPartition>,
        /// The reason.
        reason: String,
    },
    /// Partitions are reserved for members that were lost in a rebalance. One event for each loss that is new to this
    /// member.
    Reserved {
        /// The partitions.
        partitions: BTreeSet<TopicPartition>,
        /// The number of members that the group waits for.
        members: usize,
        /// The static ids of these members, or else their member ids; empty if the leader did not send them.
        names: BTreeSet<Arc<str>>,
        /// The remaining time of the reservation.
        left: Duration,
    },
    /// Partitions are not reserved any more: their owner came back, or they are assigned to others.
    Released {
        /// The partitions.
        partitions: BTreeSet<TopicPartition>,
    },
    /// The lease ran out: no records are handed out.
    LeaseExpired,
    /// The lease was renewed after it had run out.
    LeaseRenewed,
    /// A subscribed topic does not exist: several answers to Metadata in a row did not know it. Reported by the driver,
    /// once for each topic until it exists.
    UnknownTopic {
        /// The topic.
        topic: Arc<str>,
        /// An existing topic with nearly the same name.
        nearest: Option<Arc<str>>,
    },
    /// A topic that was reported as unknown exists now.
    TopicFound {
        /// The topic.
        topic: Arc<str>,
    },
    /// The member left the group.
    Left {
        /// The reason.
        reason: String,
    },
}
