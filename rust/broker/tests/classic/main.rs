//! Classic groups and their offsets, as clients see them, in virtual time.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod joining;
mod member;
#[path = "../support/mod.rs"]
mod support;
