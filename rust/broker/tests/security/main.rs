//! Authentication and authorization, seen by clients.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../support/mod.rs"]
mod support;

mod acls;
mod authorized;
mod login;
