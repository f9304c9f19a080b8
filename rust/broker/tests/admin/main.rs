//! Creating, changing, describing and deleting topics, partitions and configs. The expected error codes and messages
//! are those of Apache Kafka 4.4.0.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod cluster;
mod configs;
mod first_use;
mod helpers;
mod more;
#[path = "../support/mod.rs"]
mod support;
mod topics;
