//! Consumer groups (KIP-848), as members see them, in virtual time.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod client;
mod epochs;
mod migration;
mod regressions;
mod statics;
mod subscriptions;
#[path = "../support/mod.rs"]
mod support;
