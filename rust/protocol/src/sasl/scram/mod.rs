//! SCRAM (RFC 5802, RFC 7677) without channel binding, as Kafka has it (KIP-84).

mod client;
mod credentials;
mod hash;
mod message;
mod server;

pub use credentials::{KeyDerivation, ScramCredential, ScramKeys};
pub use hash::ScramHash;

pub(super) use client::Client;
pub(super) use server::Server;

/// The fewest iterations that are accepted; Kafka's minimum.
pub const MIN_ITERATIONS: u32 = 4096;
/// The most iterations that are accepted: half a second of work. Kafka's administration allows 16384.
pub const MAX_ITERATIONS: u32 = 1_000_000;
