//! The embedded broker: a Kafka-compatible server, strict where Kafka is strict, with faults on demand.
//!
//! [`core::Core`] is the whole cluster as one sans-IO machine: frames and the time go in, answers come out. It opens no
//! socket and reads no clock, so a test can run it in virtual time. [`server`] is what connects it to TCP: one thread, one
//! owner of the core, however many nodes it plays. [`control`] has the commands that tests give, the same ones from Rust,
//! from Python and over the control port.
//!
//! It shares the wire codec with the client and nothing else: an oracle must not share the logic that it judges.
#![forbid(unsafe_code)]

mod api;
mod cluster;
pub mod control;
pub mod core;
mod error;
mod faults;
mod fetching;
mod groups;
mod log;
mod options;
pub mod server;
pub mod settings;
mod transactions;

pub use cluster::NodeId;
pub use error::BrokerError;
pub use faults::{Effect, Fault, Selector, Side, Way};
pub use options::Options;

/// Bugs of coordinators, for tests of what finds them.
#[cfg(feature = "planted")]
pub mod planted {
    pub use crate::groups::planted::{Bug, plant};
}
