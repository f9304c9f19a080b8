//! The outputs of a member: what its driver has to do.

use std::collections::BTreeSet;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use super::call::Call;
use super::event::GroupEvent;
use super::types::{CallId, CallbackKind, Committed, Outcomes, Scope, Target, Ticket};
use crate::group::error::GroupError;
use crate::{Now, TopicPartition};

/// A task of the driver. The order of the outputs matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this request, and bring the answer as [`Input::Answer`](super::Input::Answer).
    Call {
        /// The id that the answer carries.
        id: CallId,
        /// The broker to send it to.
        target: Target,
        /// The request.
        call: Call,
    },
    /// Classic only: stop waiting for the answer to this call, and answer it at once: with
    /// [`CallError::Unsent`](crate::group::CallError::Unsent) if it was not sent, and is not sent any more, else with
    /// [`CallError::Lost`](crate::group::CallError::Lost). A call that was answered meanwhile is left alone.
    CancelCall {
        /// The call.
        id: CallId,
    },
    /// Classic only: this member leads the group. Get metadata of the topics of all members, compute the assignment,
    /// and bring it as [`Input::AssignmentComputed`](super::Input::AssignmentComputed).
    ComputeAssignment {
        /// The ticket that the answer carries.
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
        /// The topics of the target assignment whose names are not known.
        ids: BTreeSet<Uuid>,
    },
    /// The member owns these partitions from now on. [`Output::StartingOffsets`] says where each starts, and the
    /// Assigned callback follows at once; no record of them is handed out before both.
    Assigned {
        /// The partitions.
        partitions: BTreeSet<TopicPartition>,
    },
    /// The starting offsets of assigned partitions.
    StartingOffsets {
        /// The committed offset, and whether the partition was added while the member knew its topic. If the committed
        /// offset is `None`, there is none: such an added partition starts at the log start offset, any other by
        /// `auto.offset.reset`.
        partitions: Vec<(TopicPartition, Committed, bool)>,
    },
    /// The coordinator answers OffsetFetch with an error for this partition. Report it to the user; the partition does
    /// not start.
    StartingOffsetFailed {
        /// The partition.
        partition: TopicPartition,
        /// The broker's error.
        code: ErrorCode,
    },
    /// Hand out no more records of these partitions. Once the user has finished the records that were handed out (at
    /// the next call; at once if none are out and no callback is registered), bring the offsets to commit as
    /// [`Input::Finished`](super::Input::Finished).
    PrepareRevocation {
        /// The ticket that the answer carries.
        ticket: Ticket,
        /// The partitions.
        partitions: BTreeSet<TopicPartition>,
    },
    /// Bring the finished offsets that are not committed yet as [`Input::Finished`](super::Input::Finished), at once.
    CollectFinished {
        /// The ticket that the answer carries.
        ticket: Ticket,
        /// The partitions.
        scope: Scope,
    },
    /// Run the user's callback in the user's thread, in the order of these outputs, then bring
    /// [`Input::CalledBack`](super::Input::CalledBack).
    Callback {
        /// The ticket that the answer carries.
        ticket: Ticket,
        /// The callback.
        kind: CallbackKind,
        /// The partitions that change, not all owned ones (req S042).
        partitions: BTreeSet<TopicPartition>,
    },
    /// The member does not own these partitions any more: discard their fetched records. Records of them that the user
    /// still holds are never committed.
    Released {
        /// The partitions.
        partitions: BTreeSet<TopicPartition>,
        /// They were lost, not revoked: a Revoked callback for them that has not begun becomes one for lost partitions.
        are_lost: bool,
    },
    /// The answer to [`Input::Commit`](super::Input::Commit), and the end of each commit that the member makes itself.
    Committed {
        /// The user's ticket; `None` for a commit that the member made itself.
        ticket: Option<Ticket>,
        /// The offset and the result of each partition.
        outcomes: Outcomes,
    },
    /// Until when records may be handed out. The driver compares it with the clock whenever it hands out records, not
    /// only when this output arrives.
    Lease {
        /// The end of the lease; `None` while the member owns nothing: nothing is leased then.
        until: Option<Now>,
    },
    /// An error for the user: on every call if it is fatal, else once.
    Raise {
        /// The error.
        error: GroupError,
        /// Set if the membership is over.
        fatal: bool,
    },
    /// KIP-848 only: `group.protocol=auto`, and the broker does not support KIP-848. Continue with a classic member and
    /// the same subscription. This member owns nothing, waits for nothing, and has no further outputs.
    FallBack,
    /// An event for the log, metrics and hooks.
    Event(GroupEvent),
    /// The end of [`Input::Close`](super::Input::Close).
    Closed,
}
