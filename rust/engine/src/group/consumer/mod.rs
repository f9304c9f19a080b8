//! Membership of a consumer group under the protocol of KIP-848 (`group.protocol=consumer`): the coordinator assigns, and each
//! member moves towards its target on its own, by heartbeats only.
//!
//! [`Member`] is the machine, beside the classic one in [`crate::group::classic`] and of the same shape: it is given the time and an
//! [`Input`], and leaves [`Output`]s to be drained with [`Member::poll`] after every call. [`Member::wake_at`] says when it has
//! to be called without anything having happened. What both say in the same words (tickets, callbacks, offsets, errors of
//! commits) is of the same types.

mod config;
mod consumer_group_heartbeat;
mod fencing;
mod find_coordinator;
mod lease;
mod leave_group;
mod member;
mod offset_commit;
mod offset_fetch;
mod reactions;
mod reconciliation;
mod revocation;
mod state;
mod topics;
pub(crate) mod wire;

pub use config::{MembershipConfig, member_id};
pub use member::Member;
pub use reactions::{REACTIONS, Reaction, reaction};
pub use state::State;
