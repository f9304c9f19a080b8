//! Consumers in groups, on the embedded broker.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod leases;
mod lives;
mod rebalances;
mod rows;
mod speed;
mod support;
