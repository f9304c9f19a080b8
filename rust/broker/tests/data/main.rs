//! The data path as clients see it: what is produced, fetched and looked up, in virtual time.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod fetching;
mod helpers;
mod offsets;
mod producing;
#[path = "../support/mod.rs"]
mod support;
