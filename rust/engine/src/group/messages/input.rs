//! The inputs of a member.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::call::GroupResponse;
use super::types::{CallId, CommitOffset, Ticket, TopicInfo};
use crate::assign::AssignError;
use crate::group::error::CallError;
use crate::{Now, TopicPartition};

/// The assignment that a leader computed: the bytes for each member by its id, and the partition counts of the topics
/// that it is based on.
pub type Assignments = (Vec<(String, Vec<u8>)>, BTreeMap<Arc<str>, usize>);

/// A subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subscription {
    /// Topics by name, whether they exist or not.
    Topics(BTreeSet<Arc<str>>),
    /// The topics that a pattern matches, which the client evaluates. A topic that is added later is new: it did not
    /// exist before.
    Matched(BTreeSet<Arc<str>>),
    /// A pattern in RE2's syntax, which the broker evaluates. KIP-848 only: a classic member ignores it.
    Regex(String),
}

/// An event, an answer, or a request of the user. An input of the other protocol is ignored.
#[derive(Clone, Debug)]
pub enum Input {
    /// Only time has passed.
    Tick,
    /// The subscription. Given again after each change, and when a pattern matches other topics.
    Subscribe(Subscription),
    /// KIP-848 only: the topics of the cluster, given before a subscription by [`Subscription::Regex`]. Without it the
    /// member cannot know which of the matched topics existed when the user subscribed.
    Listed {
        /// The number of partitions of each topic.
        counts: BTreeMap<Arc<str>, usize>,
    },
    /// Metadata of the subscribed topics (for a leader: of all members' topics) and of the topics that
    /// [`Output::ResolveTopicIds`](super::Output::ResolveTopicIds) asked for. Topics that do not exist are left out;
    /// the driver waits until metadata has an answer for each.
    Topics {
        /// By name.
        topics: BTreeMap<Arc<str>, TopicInfo>,
    },
    /// The outcome of an [`Output::Call`](super::Output::Call). Each call has exactly one.
    Answer {
        /// The id of the call.
        id: CallId,
        /// The answer, or why there is none.
        outcome: Result<GroupResponse, CallError>,
    },
    /// Classic only: the answer to [`Output::ComputeAssignment`](super::Output::ComputeAssignment).
    AssignmentComputed {
        /// The ticket of the output.
        ticket: Ticket,
        /// The assignment.
        outcome: Result<Assignments, AssignError>,
    },
    /// The answer to [`Output::PrepareRevocation`](super::Output::PrepareRevocation) and
    /// [`Output::CollectFinished`](super::Output::CollectFinished): the finished offsets that are not committed yet.
    Finished {
        /// The ticket of the output.
        ticket: Ticket,
        /// Offsets to commit.
        offsets: BTreeMap<TopicPartition, CommitOffset>,
    },
    /// The answer to [`Output::Callback`](super::Output::Callback): the callback returned or raised, or the user
    /// registered none.
    CalledBack {
        /// The ticket of the output.
        ticket: Ticket,
    },
    /// The user commits offsets. [`Output::Committed`](super::Output::Committed) is the answer.
    Commit {
        /// The ticket of the answer.
        ticket: Ticket,
        /// The offsets.
        offsets: BTreeMap<TopicPartition, CommitOffset>,
        /// The commit fails at this time at the latest.
        deadline: Now,
    },
    /// Classic only: the user requests a rebalance, now or later (req S045). Everything that an assignor deferred
    /// becomes due then.
    Rejoin {
        /// The time of the rebalance.
        at: Now,
        /// The reason, for brokers' logs (KIP-800).
        reason: String,
    },
    /// The user unsubscribes. The member revokes its partitions in order and leaves the group.
    Unsubscribe,
    /// The user closes the consumer: as [`Self::Unsubscribe`], but final. [`Output::Closed`](super::Output::Closed)
    /// follows, at the deadline at the latest.
    Close {
        /// Closing ends at this time at the latest.
        deadline: Now,
        /// Set if a dynamic member leaves the group. A static member never leaves under the classic protocol. Under
        /// KIP-848 it always sends the heartbeat that leaves temporarily; otherwise its successor could not use the
        /// static id.
        leave: bool,
    },
}
