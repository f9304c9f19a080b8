//! What a member is given.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Answer, CallError, CallId, CommitOffset, Ticket, TopicInfo};
use crate::assign::AssignError;
use crate::{Now, TopicPartition};

/// The assignment that a leader computed: the bytes for each member by its id, and the partition counts of the topics that it
/// was computed from.
pub type Assignments = (Vec<(String, Vec<u8>)>, BTreeMap<Arc<str>, usize>);

/// What the user subscribes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subscription {
    /// Topics by their names, whether they exist or not.
    Topics(BTreeSet<Arc<str>>),
    /// The topics that a pattern matches which the client evaluates. A topic that appears later did not exist before.
    Matched(BTreeSet<Arc<str>>),
    /// A pattern in RE2's syntax that the broker evaluates. Under KIP-848 only: a classic member ignores it.
    Regex(String),
}

/// An event, an answer, or a wish of the user. An input of the other protocol is ignored.
#[derive(Clone, Debug)]
pub enum Input {
    /// Nothing but time has passed.
    Tick,
    /// The subscription; again after each change, and when a pattern matches other topics.
    Subscribe(Subscription),
    /// KIP-848 only: the topics of the cluster, given before a subscription by [`Subscription::Regex`]. Without this list the
    /// member cannot know which of the matched topics existed before.
    Listed {
        /// The number of partitions of each topic.
        counts: BTreeMap<Arc<str>, usize>,
    },
    /// Metadata of the subscribed topics, for a leader those of all members, and of the topics that
    /// [`Output::ResolveTopicIds`](super::Output::ResolveTopicIds) asked for. Topics that do not exist are left out; the driver
    /// waits until metadata has an answer for each.
    Topics {
        /// By name.
        topics: BTreeMap<Arc<str>, TopicInfo>,
    },
    /// The answer to an [`Output::Call`](super::Output::Call), or that there will be none. Exactly one follows each call.
    Answer {
        /// The call.
        id: CallId,
        /// The answer.
        outcome: Result<Answer, CallError>,
    },
    /// Classic only, for [`Output::ComputeAssignment`](super::Output::ComputeAssignment): the leader's result.
    AssignmentComputed {
        /// The ticket of the output.
        ticket: Ticket,
        /// The assignment.
        outcome: Result<Assignments, AssignError>,
    },
    /// For [`Output::PrepareRevocation`](super::Output::PrepareRevocation) and
    /// [`Output::CollectFinished`](super::Output::CollectFinished): the offsets that the user has finished and that are not
    /// committed yet.
    Finished {
        /// The ticket of the output.
        ticket: Ticket,
        /// Offsets to commit.
        offsets: BTreeMap<TopicPartition, CommitOffset>,
    },
    /// For [`Output::Callback`](super::Output::Callback): the callback returned or raised, or the user has none.
    CalledBack {
        /// The ticket of the output.
        ticket: Ticket,
    },
    /// The user wants offsets committed; [`Output::Committed`](super::Output::Committed) answers.
    Commit {
        /// For the answer.
        ticket: Ticket,
        /// The offsets.
        offsets: BTreeMap<TopicPartition, CommitOffset>,
        /// The commit fails at this time in any case.
        deadline: Now,
    },
    /// Classic only: the user wants a rebalance, now or later (seed S045). Whatever an assignor deferred is due then.
    Rejoin {
        /// When.
        at: Now,
        /// The reason, for brokers' logs (KIP-800).
        reason: String,
    },
    /// The user ends the subscription. The member revokes its partitions in order and leaves the group.
    Unsubscribe,
    /// As [`Self::Unsubscribe`], for good; ends with [`Output::Closed`](super::Output::Closed), at the deadline in any case.
    Close {
        /// Closing ends at this time in any case.
        deadline: Now,
        /// Whether a dynamic member leaves the group. A static member never leaves under the classic protocol; under KIP-848
        /// it always announces that it will be back, or its successor would find the id in use.
        leave: bool,
    },
}
