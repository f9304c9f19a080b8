//! What goes into the machine and what comes out. Inputs and outputs that the classic machine has as well mean the same here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use monedula_protocol::types::Uuid;

use super::{Answer, Call, MembershipError, State};
use crate::group::classic::GroupEvent;
use crate::group::{CallError, CallId, CommitOffset, Effect, Target, Ticket, TopicInfo};
use crate::{Now, TopicPartition};

/// What the user subscribes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subscription {
    /// Topics by their names, that exist or not.
    Topics(BTreeSet<Arc<str>>),
    /// What a pattern matches that this client matches: one that appears later was not there before.
    Matched(BTreeSet<Arc<str>>),
    /// A pattern that the broker matches, in RE2's syntax; it is sent as it is.
    Regex(String),
}

/// What happened, what is answered, what is wanted.
#[derive(Clone, Debug)]
pub enum Input {
    /// Nothing but time has passed.
    Tick,
    /// What the user subscribes to; again after a change, also of what a pattern matches.
    Subscribe(Subscription),
    /// Before a subscription by a pattern of the coordinator's: what topics there are. Without it nobody here knows which of those
    /// that it matches were there before.
    Listed {
        /// How many partitions each topic has.
        counts: BTreeMap<Arc<str>, usize>,
    },
    /// Metadata of the topics subscribed to and of those that [`Output::Resolve`] asked for. Those that do not exist are left
    /// out; the input waits until that is known of each.
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
    /// The user subscribes to nothing any more. What is owned is given up in order, and the group left.
    Unsubscribe,
    /// As [`Self::Unsubscribe`], for good; ends with [`Effect::Closed`], at the deadline in any case.
    Close {
        /// When it ends in any case.
        deadline: Now,
        /// Whether to leave the group if the member is not static. A static one says that it will be back in any case: else
        /// its successor would find the id in use.
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
    /// Ask for metadata of the topics subscribed to and of these, by id, and bring it as [`Input::Topics`]. It comes again, after
    /// a backoff, as long as one of them has no name.
    Resolve {
        /// Topics of the target whose names are not known.
        ids: BTreeSet<Uuid>,
    },
    /// An error for the user: on every call if it is fatal, else once.
    Raise {
        /// The error.
        error: MembershipError,
        /// Whether the membership is over.
        fatal: bool,
    },
    /// `group.protocol=auto`, and the broker lacks the protocol: go on with a [`crate::group::classic::Member`] and the same subscription.
    /// This machine owns nothing, waits for nothing, and says nothing more.
    FallBack {
        /// What the broker said.
        reason: String,
    },
    /// The state changed.
    StateChanged {
        /// From.
        from: State,
        /// To.
        to: State,
    },
    /// For the log, metrics and hooks. `Joined` and `Synced` name the epoch as generation; `Synced` says that a target is
    /// reached. `StateChanged` is never among them.
    Event(GroupEvent),
    /// What is the same under either protocol.
    Effect(Effect),
}

impl From<Effect> for Output {
    fn from(effect: Effect) -> Self {
        Self::Effect(effect)
    }
}

/// How the membership is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The state.
    pub state: State,
    /// The coordinator's node id.
    pub coordinator: Option<i32>,
    /// The member's id.
    pub member_id: String,
    /// Its epoch, 0 outside of the group.
    pub epoch: i32,
    /// What it subscribes to.
    pub subscription: Option<Subscription>,
    /// Partitions owned.
    pub owned: BTreeSet<TopicPartition>,
    /// Topics of the target whose names are not known yet.
    pub unresolved: BTreeSet<Uuid>,
    /// How often the coordinator wants heartbeats.
    pub heartbeat_interval: Duration,
    /// When the last acknowledged heartbeat was sent.
    pub last_heartbeat: Option<Now>,
    /// Until when records may be handed out.
    pub lease_until: Option<Now>,
    /// When the last target was reached.
    pub last_rebalance: Option<Now>,
    /// The error that ended the membership.
    pub fatal: Option<MembershipError>,
    /// Commits that wait or are under way.
    pub pending_commits: usize,
}
