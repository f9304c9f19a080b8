//! Sans-IO state machines: what to fetch from whom, where each partition stands, when to try again.
//!
//! No tokio, no clock, no randomness of its own: time comes in as an argument, jitter from a seed. The driver
//! (`monedula-client`) owns sockets and clock and takes no protocol decision. Every mutation is followed by
//! draining the machine's outputs; nothing here blocks.
#![forbid(unsafe_code)]

pub mod assign;
pub mod backoff;
pub mod cluster;
pub mod fetch;
pub mod group;
pub mod ledger;
pub mod produce;
mod topic_partition;
pub mod transaction;

use std::time::Duration;

pub use topic_partition::TopicPartition;

/// A point in time: how long after the driver's start. Virtual in tests, monotonic in the driver.
pub type Now = Duration;
