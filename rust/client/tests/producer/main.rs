//! Producers on an embedded broker.

mod delivery;
mod memory;
mod settings;
mod spoilt;
mod support;
mod tables;
mod topics;
mod transactions;
