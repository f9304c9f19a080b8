//! What a driver does for a member.

use std::collections::BTreeSet;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use super::{Call, CallId, CallbackKind, Committed, GroupError, GroupEvent, Outcomes, Scope, Target, Ticket};
use crate::{Now, TopicPartition};

/// What the driver has to do, in the order of the outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this, and bring the answer as [`Input::Answer`](super::Input::Answer).
    Call {
        /// For the answer.
        id: CallId,
        /// The broker to ask.
        target: Target,
        /// The request.
        call: Call,
    },
    /// Classic only: this member leads the group. Get metadata of the topics of all members, compute the assignment, and bring
    /// it as [`Input::AssignmentComputed`](super::Input::AssignmentComputed).
    ComputeAssignment {
        /// For the answer.
        ticket: Ticket,
        /// Name of the assignor.
        assignor: String,
        /// Id, static id and subscription metadata of each member.
        members: Vec<(String, Option<String>, Vec<u8>)>,
    },
    /// Get metadata of the subscribed topics.
    RefreshMetadata,
    /// KIP-848 only: get metadata of the subscribed topics and of the topics with these ids, and bring it as
    /// [`Input::Topics`](super::Input::Topics). Repeated after a backoff for as long as one of the ids has no name.
    ResolveTopicIds {
        /// Topics of the target assignment whose names are not known.
        ids: BTreeSet<Uuid>,
    },
    /// These partitions belong to the member from now on. [`Output::StartingOffsets`] says where each starts, and the Assigned
    /// callback follows at once; no record of them is handed out before both.
    Assigned {
        /// The partitions.
        partitions: BTreeSet<TopicPartition>,
    },
    /// Where assigned partitions start.
    StartingOffsets {
        /// The committed offset. `None`: there is none, so `auto.offset.reset` decides, or the log start offset if the flag
        /// says that the partition was added while the member knew its topic.
        partitions: Vec<(TopicPartition, Committed, bool)>,
    },
    /// The coordinator refuses the committed offset of a partition. Report it to the user; the partition does not start.
    StartingOffsetFailed {
        /// The partition.
        partition: TopicPartition,
        /// The broker's error.
        code: ErrorCode,
    },
    /// Hand out no more records of these. As soon as the user has finished the records that were handed out (at the next call; at
    /// once if none are out and no callback is registered), bring the offsets to commit as [`Input::Finished`](super::Input::Finished).
    PrepareRevocation {
        /// For the answer.
        ticket: Ticket,
        /// The partitions.
        partitions: BTreeSet<TopicPartition>,
    },
    /// Bring the offsets that the user has finished and that are not committed yet as [`Input::Finished`](super::Input::Finished), at
    /// once.
    CollectFinished {
        /// For the answer.
        ticket: Ticket,
        /// The partitions.
        scope: Scope,
    },
    /// Run the user's callback in the user's thread, in the order of these outputs, then bring [`Input::CalledBack`](super::Input::CalledBack).
    Callback {
        /// For the answer.
        ticket: Ticket,
        /// Which callback.
        kind: CallbackKind,
        /// The partitions that change, not all (seed S042).
        partitions: BTreeSet<TopicPartition>,
    },
    /// These partitions do not belong to the member any more: discard the records that were fetched. What the user still holds of
    /// them is never committed.
    Released {
        /// The partitions.
        partitions: BTreeSet<TopicPartition>,
    },
    /// The answer to [`Input::Commit`](super::Input::Commit), and the end of each commit of the member itself.
    Committed {
        /// The user's ticket; `None` for a commit of the member itself.
        ticket: Option<Ticket>,
        /// The offset and the result of each partition.
        outcomes: Outcomes,
    },
    /// Until when records may be handed out. The driver compares it with the clock whenever it hands out records, not only when this
    /// output comes.
    Lease {
        /// The end of the lease; `None` while the member owns nothing, so that nothing is leased.
        until: Option<Now>,
    },
    /// An error for the user: on every call if it is fatal, else once.
    Raise {
        /// The error.
        error: GroupError,
        /// Whether the membership is over.
        fatal: bool,
    },
    /// KIP-848 only: `group.protocol=auto`, and the broker lacks the protocol. Go on with a classic member and the same
    /// subscription. This member owns nothing, waits for nothing, and has no further outputs.
    FallBack,
    /// For the log, metrics and hooks.
    Event(GroupEvent),
    /// [`Input::Close`](super::Input::Close) is done.
    Closed,
}
