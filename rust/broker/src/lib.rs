//! The embedded broker: a Kafka-compatible server for tests, as strict as Kafka, with faults that tests can set.
//!
//! [`core::Core`] is the whole cluster as one sans-IO state machine: its input is frames and the time, its output is
//! answers. It opens no socket and reads no clock, so a test can run it in virtual time. [`server`] connects it to TCP:
//! one thread owns the core, for any number of nodes. [`control`] has the commands of tests, which are the same from
//! Rust, from Python and over the control port.
//!
//! The broker shares only the wire codec with the client: a test oracle must not share the logic that it checks.
#![forbid(unsafe_code)]

mod api;
mod cluster;
pub mod control;
pub mod core;
mod draw;
mod error;
mod faults;
mod fetching;
mod groups;
mod log;
mod options;
mod request;
pub mod security;
pub mod server;
pub mod settings;
mod share;
mod transactions;

pub use cluster::NodeId;
pub use error::BrokerError;
pub use faults::{Direction, Effect, Fault, ScramLie, Selector, Side};
pub use options::Options;
pub use settings::FirstUse;

/// Bugs of coordinators that can be planted, to test that the model checks and the simulation find them.
#[cfg(feature = "planted")]
pub mod planted {
    pub use crate::groups::planted::{Bug, plant};
}
