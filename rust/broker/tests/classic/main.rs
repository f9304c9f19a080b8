//! Classic groups and their offsets, as clients see them, in virtual time.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod admin;
mod errors;
mod failover;
mod joining;
mod leaving;
mod member;
mod offsets;
mod static_members;
#[path = "../support/mod.rs"]
mod support;
