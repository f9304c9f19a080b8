//! Membership of a consumer group under the protocol of KIP-848 (`group.protocol=consumer`): the coordinator assigns,
//! and each member moves towards its target assignment independently, using heartbeats only.
//!
//! [`Member`] is a state machine with the same interface as the one in [`crate::group::classic`]: it takes the time and
//! an [`Input`](crate::group::Input), and leaves [`Output`](crate::group::Output)s, which the driver drains with
//! [`Member::poll`] after every call. [`Member::wake_at`] says when the driver has to call it if nothing else happens.
//! Tickets, callbacks, offsets and commit errors have the same types under both protocols.

mod config;
mod consumer_group_heartbeat;
mod error_codes;
mod fencing;
mod find_coordinator;
mod lease;
mod leave_group;
mod member;
mod offset_commit;
mod offset_fetch;
mod poll_interval;
mod reconciliation;
mod revocation;
mod topics;
pub(crate) mod wire;

pub use config::{ConsumerProtocolConfig, member_id};
pub use error_codes::{api, known_errors, reaction};
pub use member::Member;

pub use super::state::ConsumerState;
