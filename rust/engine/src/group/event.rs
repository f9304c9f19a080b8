//! What happens to a member, for the log, metrics and hooks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::State;
use crate::TopicPartition;

/// What happened, for the log, metrics and hooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupEvent {
    /// The state changed.
    StateChanged {
        /// From.
        from: State,
        /// To.
        to: State,
    },
    /// `group.protocol=auto`, and the broker lacks the protocol of KIP-848: a classic member takes over.
    FellBack {
        /// The broker's error.
        reason: String,
    },
    /// The coordinator is known.
    CoordinatorFound {
        /// Its node id.
        node_id: i32,
    },
    /// It is not known any more.
    CoordinatorLost {
        /// Why.
        reason: String,
    },
    /// A rebalance began for this member.
    RebalanceStarted {
        /// Why.
        reason: String,
    },
    /// JoinGroup was answered.
    Joined {
        /// The generation.
        generation: i32,
        /// Whether the member leads.
        leader: bool,
        /// The assignor.
        protocol: String,
        /// How long the join took.
        took: Duration,
    },
    /// SyncGroup was answered: the rebalance is over for this member.
    Synced {
        /// The generation.
        generation: i32,
        /// How long the sync took.
        took: Duration,
        /// How long the rebalance took, from its notice on.
        rebalance: Duration,
        /// How many partitions are owned now, those to be revoked left out.
        owned: usize,
        /// How many were gained.
        gained: usize,
        /// How many are to be revoked.
        revoked: usize,
    },
    /// A heartbeat was acknowledged.
    Heartbeat {
        /// How long it took.
        took: Duration,
    },
    /// A commit was answered.
    Commit {
        /// How long it took, with its repetitions.
        took: Duration,
        /// How many partitions were committed.
        partitions: usize,
        /// How many were not.
        failed: usize,
    },
    /// An error that is retried and not shown.
    Retried {
        /// Name of the API.
        api: &'static str,
        /// What it was.
        reason: String,
    },
    /// Partitions are to be given up: a user in the middle of a long batch may hurry.
    RebalanceWanted {
        /// The partitions.
        partitions: BTreeSet<TopicPartition>,
    },
    /// Partitions were lost.
    Lost {
        /// The partitions.
        partitions: BTreeSet<TopicPartition>,
        /// Why.
        reason: String,
    },
    /// Partitions are kept for members that were lost: one event for each loss that this member did not know of.
    Reserved {
        /// The partitions.
        partitions: BTreeSet<TopicPartition>,
        /// How many members are waited for.
        members: usize,
        /// Who they are: static ids or member ids; empty if the leader did not tell.
        names: BTreeSet<Arc<str>>,
        /// For how long, from now on.
        left: Duration,
    },
    /// Partitions are not kept any more: who they were kept for came back, or they are given away.
    Released {
        /// The partitions.
        partitions: BTreeSet<TopicPartition>,
    },
    /// The lease ran out: nothing is handed out.
    LeaseExpired,
    /// It was renewed after that.
    LeaseRenewed,
    /// The group was left.
    Left {
        /// Why.
        reason: String,
    },
}
