//! A producer's identity and transactions, in virtual time.

#[path = "../common/mod.rs"]
mod common;
mod error_codes;
mod identity;
mod offsets;
mod states;
mod storm;
mod transactions;
mod wire;
mod world;
