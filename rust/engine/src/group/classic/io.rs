//! What goes into the machine and what comes out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::{Answer, Call, GroupError, Reserved, State};
use crate::assign::{AssignError, Protocol};
use crate::group::{CallError, CallId, CommitOffset, Effect, Target, Ticket, TopicInfo};
use crate::{Now, TopicPartition};

/// What each member is to be told, by its id, and the partition counts of the topics that it was computed from.
pub type Assignments = (Vec<(String, Vec<u8>)>, BTreeMap<Arc<str>, usize>);

/// What happened, what is answered, what is wanted.
#[derive(Clone, Debug)]
pub enum Input {
    /// Nothing but time has passed.
    Tick,
    /// The topics that the user subscribes to, as names that exist or not; again after a change, also of what a pattern matches.
    Subscribe {
        /// The topics.
        topics: BTreeSet<Arc<str>>,
        /// Whether they are what a pattern matches: one that appears later was not there before.
        from_pattern: bool,
    },
    /// Metadata of the subscribed topics, and for a leader of those of all members. Those that do not exist are left out; the
    /// input waits until that is known of each.
    Topics {
        /// By name.
        topics: BTreeMap<Arc<str>, TopicInfo>,
    },
    /// An answer to a [`Output::Call`], or that there will be none. Exactly one comes for each call.
    Answer {
        /// The call.
        id: CallId,
        /// What came.
        outcome: Result<Answer, CallError>,
    },
    /// For [`Output::Assign`]: what each member is to be told.
    Assigned {
        /// Its ticket.
        ticket: Ticket,
        /// What was computed.
        outcome: Result<Assignments, AssignError>,
    },
    /// For [`Effect::Settle`] and [`Effect::Snapshot`]: what the user has finished and is not committed yet.
    Settled {
        /// Its ticket.
        ticket: Ticket,
        /// Offsets to commit.
        offsets: BTreeMap<TopicPartition, CommitOffset>,
    },
    /// For [`Effect::Callback`]: it was run, or there is none, or it raised an error that the user has seen.
    CalledBack {
        /// Its ticket.
        ticket: Ticket,
    },
    /// The user wants offsets committed; [`Effect::Committed`] answers.
    Commit {
        /// For the answer.
        ticket: Ticket,
        /// What.
        offsets: BTreeMap<TopicPartition, CommitOffset>,
        /// When it fails in any case.
        deadline: Now,
    },
    /// When the user last polled: now, while a poll waits. To be told before every other input.
    Polled {
        /// When.
        at: Now,
    },
    /// The user wants a rebalance, now or later (seed S045). Whatever an assignor left for later is due then.
    Rejoin {
        /// When.
        at: Now,
        /// Why.
        reason: String,
    },
    /// The user subscribes to nothing any more. What is owned is given up in order, and the group left.
    Unsubscribe,
    /// As [`Self::Unsubscribe`], for good; ends with [`Effect::Closed`], at the deadline in any case.
    Close {
        /// When it ends in any case.
        deadline: Now,
        /// Whether to leave the group if the member is not static.
        leave: bool,
    },
}

/// What the driver has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this, and bring the answer as [`Input::Answer`].
    Call {
        /// For the answer.
        id: CallId,
        /// To whom.
        target: Target,
        /// What.
        call: Call,
    },
    /// The member leads: compute the assignment, after metadata of all the members' topics was asked for, and bring it as
    /// [`Input::Assigned`].
    Assign {
        /// For the answer.
        ticket: Ticket,
        /// Name of the assignor.
        assignor: String,
        /// Id, static id and metadata of each member.
        members: Vec<(String, Option<String>, Vec<u8>)>,
    },
    /// An error for the user: on every call if it is fatal, else once.
    Raise {
        /// The error.
        error: GroupError,
        /// Whether the membership is over.
        fatal: bool,
    },
    /// Ask for metadata of the subscribed topics.
    RefreshMetadata,
    /// For the log, metrics and hooks.
    Event(GroupEvent),
    /// What is the same under either protocol.
    Effect(Effect),
}

impl From<Effect> for Output {
    fn from(effect: Effect) -> Self {
        Self::Effect(effect)
    }
}

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

/// How the membership is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The state.
    pub state: State,
    /// The coordinator's node id.
    pub coordinator: Option<i32>,
    /// The member's id, empty before it has one.
    pub member_id: String,
    /// The generation, -1 outside of the group.
    pub generation: i32,
    /// Whether it leads.
    pub leader: bool,
    /// The assignor chosen.
    pub assignor: Option<String>,
    /// How partitions are given up.
    pub protocol: Protocol,
    /// Topics subscribed to.
    pub topics: BTreeSet<Arc<str>>,
    /// Partitions owned.
    pub owned: BTreeSet<TopicPartition>,
    /// When the last acknowledged heartbeat was sent.
    pub last_heartbeat: Option<Now>,
    /// Until when records may be handed out.
    pub lease_until: Option<Now>,
    /// When the last rebalance ended.
    pub last_rebalance: Option<Now>,
    /// Why it took place.
    pub last_rebalance_reason: Option<String>,
    /// The error that ended the membership.
    pub fatal: Option<GroupError>,
    /// Commits that wait or are under way.
    pub pending_commits: usize,
    /// When the group meets again for what the assignor left for later.
    pub deferred_until: Option<Now>,
    /// What is kept for members that were lost.
    pub reserved: Vec<Reserved>,
}
