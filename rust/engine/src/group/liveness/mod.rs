//! The means that keep a member in its group, and until when it may act on that: heartbeats, polls, the lease.

mod heartbeat_interval;
mod lease;
mod user_polls;

pub(crate) use heartbeat_interval::Heartbeats;
pub(crate) use lease::Lease;
pub(crate) use user_polls::UserPolls;
