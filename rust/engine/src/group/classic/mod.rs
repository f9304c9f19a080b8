//! Membership of a consumer group under the classic protocol.
//!
//! [`Member`] is the machine: it is given the time and an [`Input`], and leaves [`Output`]s to be drained with
//! [`Member::poll`] after every call. [`Member::wake_at`] says when it has to be called without anything having happened.
//! It takes every decision of the protocol; the driver sends what it is told to, hands records out or keeps them back, and
//! runs the user's callbacks. What the user finished is known to the [`crate::ledger`].

mod config;
mod deferring;
mod find_coordinator;
mod heartbeat;
mod join_group;
mod leave_group;
mod member;
mod offset_commit;
mod offset_fetch;
mod reactions;
mod revocation;
mod state;
mod sync_group;
mod topics;
pub(crate) mod wire;

pub use config::{GroupConfig, QUICK_HEARTBEATS, TimingProblem};
pub use deferring::Reserved;
pub use member::Member;
pub use reactions::{REACTIONS, Reaction, reaction};
pub use state::State;
