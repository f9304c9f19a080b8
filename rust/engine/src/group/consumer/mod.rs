//! Membership of a consumer group under the protocol of KIP-848 (`group.protocol=consumer`): the coordinator assigns,
//! and each member moves towards its target assignment independently, using heartbeats only.

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

pub use config::{ConsumerProtocolConfig, member_id};
pub use error_codes::{api, known_errors, reaction};
pub use member::ConsumerMember;

pub use crate::group::state::ConsumerState;
