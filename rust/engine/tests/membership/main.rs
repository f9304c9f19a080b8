//! A member under KIP-848 in virtual time: each rule of the protocol that the machine alone can prove, bugs that other
//! clients had, and answers that are late, lost, duplicated or wrong.

mod assigning;
mod commits;
#[path = "../common/mod.rs"]
mod common;
mod content;
mod error_codes;
mod fencing;
mod finding;
mod identity;
mod lease;
mod leaving;
mod lookups;
mod reconciling;
mod regressions;
mod states;
mod storm;
mod subscription;
mod wire;
mod world;
