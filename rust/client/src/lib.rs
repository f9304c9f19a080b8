//! The tokio side: connections, metadata, the fetch driver, and the buffer of what was fetched.
//!
//! Bytes flow one way: [`net`] -> `fetch::driver` (which asks [`monedula_engine::fetch::FetchMachine`] what to do) ->
//! `fetch::buffer` -> [`consumer::Consumer`], whose caller's thread walks them into Arrow columns. Commands flow the
//! other way.
#![forbid(unsafe_code)]

pub mod admin;
mod budget;
mod committed_starts;
pub mod config;
mod config_keys;
mod config_values;
pub mod consumer;
mod coordinator;
pub mod error;
mod fetch;
pub mod group;
pub mod lock;
pub mod log;
pub mod metrics;
pub mod net;
mod offsets;
pub mod producer;
pub mod reader;
pub mod tasks;
mod topic_name;

pub use config_keys::{KEYS, Key, Kind, Role};
