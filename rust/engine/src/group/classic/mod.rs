//! Membership of a consumer group under the classic protocol. [`ClassicMember`] takes every decision of the protocol;
//! the driver of a [`group::Member`](crate::group::Member) sends its requests, hands out records or holds them back,
//! and runs the user's callbacks. [`crate::ledger`] knows what the user has finished.

mod assignor_deferrals;
mod config;
mod error_codes;
mod find_coordinator;
mod heartbeat;
mod join_group;
mod leave_group;
mod member;
mod offset_commit;
mod offset_fetch;
mod poll_interval;
mod revocation;
mod sync_group;
mod topics;

pub use config::{ClassicConfig, QUICK_HEARTBEATS, TimingProblem};
pub use error_codes::{known_errors, reaction};
pub use member::ClassicMember;

pub use crate::group::state::ClassicState;
