//! Membership of a consumer group under the classic protocol.
//!
//! [`Member`] is the machine: it is given the time and an [`Input`], and leaves [`Output`]s to be drained with
//! [`Member::poll`] after every call. [`Member::wake_at`] says when it has to be called without anything having happened.
//! It takes every decision of the protocol; the driver sends what it is told to, hands records out or keeps them back, and
//! runs the user's callbacks. What the user finished is known to the [`crate::ledger`].

mod calls;
mod commits;
mod config;
mod coordinator;
mod deferring;
mod error;
mod giving_up;
mod heartbeats;
mod io;
mod joining;
mod leaving;
mod lookups;
mod member;
mod reactions;
mod state;
mod syncing;
mod timers;
mod topics;
pub(crate) mod wire;

pub use calls::{Answer, Call};
pub use config::{GroupConfig, QUICK_HEARTBEATS, TimingProblem};
pub use deferring::Reserved;
pub use error::GroupError;
pub use io::{Assignments, GroupEvent, Input, Output, Status};
pub use member::Member;
pub use reactions::{REACTIONS, Reaction, reaction};
pub use state::State;

pub use crate::either::{
    CallError, CallId, CallbackKind, CommitError, CommitOffset, Committed, Effect, Lane, PartitionCodes, Scope, Target,
    Ticket, TopicIds, TopicInfo,
};
