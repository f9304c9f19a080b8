//! A classic member in virtual time: each requirement that the machine alone can prove, and answers that are late,
//! lost, duplicated or wrong.

mod commits;
#[path = "../common/mod.rs"]
mod common;
mod cooperative;
mod deferred;
mod error_codes;
mod finding;
mod heartbeats;
mod joining;
mod lease;
mod leaving;
mod ledger;
mod lookups;
mod pending;
mod recreated;
mod revoking;
mod states;
mod static_members;
mod storm;
mod subscription;
mod world;
