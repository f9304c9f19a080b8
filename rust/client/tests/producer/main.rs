//! Producers on an embedded broker.

#[path = "../cluster/mod.rs"]
mod cluster;
mod crossing;
mod delivery;
mod memory;
mod settings;
mod spoilt;
mod support;
mod tables;
mod topics;
mod transactions;
