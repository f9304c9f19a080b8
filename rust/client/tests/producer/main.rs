//! Producers on an embedded broker.

mod delivery;
mod support;
mod tables;
mod transactions;
