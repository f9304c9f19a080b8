//! What a driver does for a member, under either protocol.

use std::collections::BTreeSet;

use monedula_protocol::error_code::ErrorCode;

use super::{CallbackKind, Committed, Outcomes, Scope, Ticket};
use crate::{Now, TopicPartition};

/// What the driver has to do. `Input` is that of the machine that says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// These are owned from now on: [`Effect::Start`] says where each starts, and a callback follows at once. Nothing of them
    /// is handed out before both.
    Gained {
        /// The partitions.
        partitions: BTreeSet<TopicPartition>,
    },
    /// Where gained partitions start.
    Start {
        /// With what is committed; `None`: nothing, so the policy decides, or the smallest offset if `is_new`.
        partitions: Vec<(TopicPartition, Committed, bool)>,
    },
    /// The committed offset of a partition cannot be had; tell the user and leave the partition where it is.
    StartFailed {
        /// The partition.
        partition: TopicPartition,
        /// Why.
        code: ErrorCode,
    },
    /// Hand nothing of these out any more. As soon as the user has finished what was handed out of them (which a user does by
    /// the next call, and which is so at once if nothing is out and no callback is registered), bring what is to be committed as
    /// `Input::Settled`.
    Settle {
        /// For the answer.
        ticket: Ticket,
        /// The partitions.
        partitions: BTreeSet<TopicPartition>,
    },
    /// Bring what the user has finished and is not committed yet as `Input::Settled`, at once.
    Snapshot {
        /// For the answer.
        ticket: Ticket,
        /// Of which partitions.
        scope: Scope,
    },
    /// Run the user's callback in the user's thread, in the order of these, and say so with `Input::CalledBack`.
    Callback {
        /// For the answer.
        ticket: Ticket,
        /// Which.
        kind: CallbackKind,
        /// The partitions: those that change, not all (seed S042).
        partitions: BTreeSet<TopicPartition>,
    },
    /// These are not owned any more: drop what was fetched of them. What the user still holds of them is never committed.
    Dropped {
        /// The partitions.
        partitions: BTreeSet<TopicPartition>,
    },
    /// The answer to `Input::Commit`; also for commits of the machine's own, whose ticket is `None`.
    Committed {
        /// The commit's ticket.
        ticket: Option<Ticket>,
        /// What became of each partition, with what was committed.
        outcomes: Outcomes,
    },
    /// Until when records may be handed out; `None` where nothing is leased. Held against the clock whenever records are
    /// handed out, not only when this comes.
    Lease {
        /// Until when.
        until: Option<Now>,
    },
    /// `Input::Close` is done.
    Closed,
}
