//! The tokio side: connections, metadata, the fetch driver, and the delivery of decoded batches.
//!
//! Bytes flow one way: [`network`] -> `driver` (which asks [`monedula_engine::fetch::FetchMachine`] what to do) -> `delivery`
//! -> [`consumer::Consumer`], whose caller's thread walks them into Arrow columns. Commands flow the other way.
#![forbid(unsafe_code)]

pub mod admin;
mod budget;
pub mod config;
mod config_keys;
mod config_values;
mod connection;
pub mod consumer;
mod coordinator;
mod delivery;
mod dial;
mod driver;
pub mod error;
pub mod group;
mod inflate;
pub mod log;
mod metadata;
pub mod metrics;
pub mod network;
mod offsets;
pub mod producer;
pub mod reader;
mod starts;
pub mod tasks;
mod topic_name;

pub use config_keys::{KEYS, Key, Kind, Role};
