//! The data path as clients see it (Produce, Fetch, ListOffsets and the logs behind them), in virtual time.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod compaction;
mod fetching;
mod helpers;
mod idempotence;
mod logs;
mod offsets;
mod producing;
mod quotas;
mod restarts;
mod sessions;
#[path = "../support/mod.rs"]
mod support;
