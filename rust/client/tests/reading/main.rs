//! Consumers with assigned partitions, on an embedded broker.

mod bounded;
mod brokers;
#[path = "../cluster/mod.rs"]
mod cluster;
#[cfg(target_os = "linux")]
mod memory;
mod pausing;
mod silent_leaders;
mod support;
