//! Membership of a consumer group: the task that drives a [`monedula_engine::group::Member`], and what the user sees.
//!
//! The member decides, the task does: it sends calls (`calls`), computes assignments where the member leads (`assigning`),
//! knows which topics a subscription means (`subscription`) and which ids they have (`topics`), and tells the [`crate::fetch::buffer`] which partitions may be handed
//! out, until when, and which callbacks are to be run in the user's thread. What the user finished stands in the buffer's
//! ledger.

mod assigning;
mod calls;
mod commits;
pub(crate) mod handle;
mod status;
pub(crate) mod subscription;
mod task;
mod topics;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use monedula_engine::TopicPartition;
pub use monedula_engine::group::classic::TimingProblem;
pub use monedula_engine::group::{CallbackKind, CommitError, CommitOffset, GroupError, GroupEvent, State};
pub use monedula_engine::ledger::{BatchId, Holder, Place};

pub(crate) use self::commits::closed;
pub use crate::fetch::buffer::RowCursor;
pub use crate::fetch::step::{CommitOutcome, HandedBatch, Leaving, PendingCallback, Step};

pub use self::status::{GroupFigures, GroupHealth, Kept, Latency};

/// What to subscribe to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subscribed {
    /// Topics by name, whether they exist yet or not.
    Topics(BTreeSet<Arc<str>>),
    /// Topics whose whole name matches, those too that come to exist later.
    Pattern {
        /// A regular expression (without look-around and back-references).
        include: String,
        /// Topics that match this one are left out.
        exclude: Option<String>,
    },
    /// Topics whose whole name matches a pattern that the broker reads and matches, in RE2's syntax, under KIP-848 only.
    ServerPattern(String),
}

/// Which callbacks the user has. Where there is none, nothing is called and nothing waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Listens {
    /// Partitions were gained.
    pub assigned: bool,
    /// Partitions are to be given up.
    pub revoked: bool,
    /// Partitions were lost. Without it, the one for revocation is called for them, as in Java: whoever keeps something for a
    /// partition clears it there.
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

/// What to commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitWhat {
    /// A batch is finished: its partitions are committed up to its end, as far as everything before is finished too. Nothing is
    /// sent where as much is committed already.
    Batch {
        /// The batch.
        id: BatchId,
        /// Its places.
        places: Vec<(TopicPartition, u64, Place)>,
    },
    /// These offsets, whatever was finished.
    Offsets(BTreeMap<TopicPartition, CommitOffset>),
    /// What this holder holds is finished: everything is committed that is finished.
    Finished {
        /// Who.
        holder: Holder,
    },
}
