//! Sans-IO state machines of a Kafka client: fetching, producing, transactions, group membership, share sessions and
//! partition assignment.
//!
//! No tokio, no clock and no randomness: time is an argument, jitter comes from a seed. The driver (`monedula-client`)
//! owns sockets and clock and takes no protocol decision. After every call that changes a machine, the driver drains
//! its outputs; nothing here blocks.
#![forbid(unsafe_code)]

pub mod assign;
pub mod backoff;
pub mod cluster;
pub mod fetch;
pub mod group;
pub mod lanes;
pub mod ledger;
mod named;
pub mod produce;
pub mod share;
pub mod telemetry;
mod topic_partition;
pub mod transaction;

use std::time::Duration;

pub use topic_partition::TopicPartition;

/// A point in time, as the duration since the driver's start. Virtual in tests, monotonic in the driver.
pub type Now = Duration;
