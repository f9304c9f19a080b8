//! Membership of a consumer group: the task that drives a [`monedula_engine::group::Member`], and the user's types.
//!
//! The member is a state machine without I/O; the task executes its outputs. It sends requests (`calls`, in the order
//! of `request_order`), computes the assignment while the member is the leader (`assigning`), resolves a subscription
//! to topics (`subscription`) and to topic ids (`topic_ids`). It sets in the [`crate::fetch::buffer`], whose ledger has
//! the finished rows, which partitions may be handed out and until when, and queues callbacks there.

mod assigning;
pub(crate) mod calls;
mod commits;
pub(crate) mod handle;
pub(crate) mod request_order;
mod server_pattern;
pub(crate) mod status;
pub(crate) mod subscription;
mod task;
mod topic_ids;
pub(crate) mod unknown_topics;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use monedula_engine::TopicPartition;
pub use monedula_engine::group::classic::TimingProblem;
pub use monedula_engine::group::{
    CallbackKind, CommitError, CommitOffset, GroupError, GroupEvent, MemberState, Reserved, Status,
};
pub use monedula_engine::ledger::{BatchId, Holder, OffsetAndEpoch};

pub(crate) use self::commits::closed;
pub(crate) use self::handle::GroupObserver;
pub use crate::fetch::buffer::RowCursor;
pub use crate::fetch::polled::{CommitOutcome, HandedBatch, Leaving, PendingCallback, Polled};

pub use self::status::{GroupFigures, GroupHealth, Latency};

/// A subscription as the user gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subscribed {
    /// Topics by name, whether or not they exist yet.
    Topics(BTreeSet<Arc<str>>),
    /// Topics whose whole name matches, including topics that are created later.
    Pattern {
        /// A regular expression (without look-around and back-references).
        include: String,
        /// Topics that match this expression are left out.
        exclude: Option<String>,
    },
    /// Topics whose whole name matches a pattern in RE2's syntax that the broker evaluates (KIP-848 only).
    ServerPattern(String),
}

/// Rebalance callbacks that the user has registered. The member does not wait for a callback that is not registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Listens {
    /// Partitions were assigned.
    pub assigned: bool,
    /// Partitions are about to be revoked.
    pub revoked: bool,
    /// Partitions were lost. Without this callback the one for revocation is called instead, as in Java: it is where
    /// users clean up what they keep per partition.
    pub lost: bool,
}

impl Listens {
    pub(crate) fn to(self, kind: CallbackKind) -> bool {
        match kind {
            CallbackKind::Assigned => self.assigned,
            CallbackKind::Revoked => self.revoked,
            CallbackKind::Lost => self.lost || self.revoked,
        }
    }
}

/// Offsets that a commit covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitWhat {
    /// A batch is finished: its partitions are committed up to its end, as far as everything before it is finished too.
    /// No request is sent if these offsets are committed already.
    Batch {
        /// The id of the batch.
        id: BatchId,
        /// The places of the batch's rows in the ledger, by partition.
        places: Vec<(TopicPartition, u64, OffsetAndEpoch)>,
    },
    /// The given offsets, regardless of what is finished.
    Offsets(BTreeMap<TopicPartition, CommitOffset>),
    /// Everything that this holder holds counts as finished; then all finished offsets are committed.
    Finished {
        /// The holder of the batches.
        holder: Holder,
    },
}
