//! Brokers: one connection and how its socket is made, all of them, and what they say of the cluster.

pub(crate) mod connection;
pub(crate) mod dial;
pub(crate) mod metadata;
pub mod network;
