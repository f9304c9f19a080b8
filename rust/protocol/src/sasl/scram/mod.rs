//! SCRAM (RFC 5802, RFC 7677) without channel binding, as in Kafka (KIP-84).

mod client;
mod credentials;
mod hash;
mod message;
mod server;

pub use credentials::{KeyDerivation, ScramCredential, ScramKeys};
pub use hash::ScramHash;

pub(super) use client::Client;
pub(super) use server::Server;

/// Minimum of accepted iterations; Kafka's minimum.
pub const MIN_ITERATIONS: u32 = 4096;
/// Maximum of accepted iterations: half a second of work. Kafka's tools permit up to 16384.
pub const MAX_ITERATIONS: u32 = 1_000_000;
