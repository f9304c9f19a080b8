//! The client: network connections, metadata, the fetch driver and fetch buffer, consumers, producers
//! and the admin client. It runs on tokio and executes the state machines of [`monedula_engine`].
//!
//! Fetched bytes flow from [`net`] to `fetch::driver` (which drives a [`monedula_engine::fetch::FetchMachine`]), to
//! `fetch::buffer` and to [`consumer::Consumer`], whose calling thread decodes them into Arrow columns. Commands flow
//! the other way.
#![forbid(unsafe_code)]

pub mod admin;
mod base;
pub mod blocking;
mod budget;
mod committed_starts;
pub mod config;
mod config_keys;
mod config_values;
pub mod consumer;
mod coordinator;
pub mod error;
mod fetch;
mod files;
pub mod group;
pub mod lock;
pub mod log;
pub mod metrics;
pub mod net;
mod offsets;
pub mod producer;
mod reach;
pub mod reader;
pub mod registry;
pub mod residual;
mod run_time;
pub mod sasl;
pub mod share;
pub mod tasks;
pub mod telemetry;
mod topic_name;
mod trouble;
mod wall_clock;

pub use config_keys::{KEYS, Key, Role, SettingKind};
pub use monedula_protocol::secret::Secret;
