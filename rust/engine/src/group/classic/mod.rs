//! Membership of a consumer group under the classic protocol.
//!
//! [`Member`] is a state machine: it takes the time and an [`Input`](crate::group::Input), and leaves
//! [`Output`](crate::group::Output)s, which the driver drains with [`Member::poll`] after every call.
//! [`Member::wake_at`] says when the driver has to call it if nothing else happens. It takes every decision of the
//! protocol; the driver sends its requests, hands out records or holds them back, and runs the user's callbacks.
//! [`crate::ledger`] knows what the user has finished.

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
pub(crate) mod wire;

pub use config::{ClassicConfig, QUICK_HEARTBEATS, TimingProblem};
pub use error_codes::{known_errors, reaction};
pub use member::Member;

pub use super::state::ClassicState;
