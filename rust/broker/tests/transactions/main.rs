//! Transactions, as clients see them, in virtual time.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod coordinator;
mod ends;
mod offsets;
mod producer;
mod property;
mod recovery;
#[path = "../support/mod.rs"]
mod support;
mod writes;
