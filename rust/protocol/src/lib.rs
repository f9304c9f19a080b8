//! Encodes and decodes Kafka's messages and record batches.
//!
//! This crate depends on no other crate of the project. It opens no socket, reads no clock, and never allocates
//! for a length or count that the remaining bytes cannot hold.
//!
//! - [`frame`]: whole requests and responses, for both sides of a connection
//! - [`messages`]: the bodies, one file per API key, each a table of fields with their versions
//! - [`api`]: the API keys and versions that this crate supports, and version negotiation
//! - [`wire`]: the primitive types, and the macros that turn tables into messages
//! - [`records`]: record batches, which messages carry as opaque bytes
//! - [`produce_frame`]: a Produce request encoded without copying its records
//! - [`compression`]: the codecs of record batches
//! - `sasl`: the messages by which a client logs in to a broker (feature `sasl`)
//! - [`secret`]: the type of passwords and keys
//! - [`security_protocol`]: the combinations of TLS and SASL
//! - [`java`]: Java's hash and order of strings, on which Kafka relies
#![forbid(unsafe_code)]

pub mod api;
pub mod base64;
pub mod compression;
pub mod error;
pub mod error_code;
pub mod frame;
pub mod java;
pub mod messages;
pub mod produce_frame;
pub mod records;
#[cfg(feature = "sasl")]
pub mod sasl;
pub mod secret;
pub mod security_protocol;
pub mod types;
pub mod wire;

// `cargo bolero` instruments every test of the crate, and only the bolero crate defines the functions that the
// instrumentation calls.
#[cfg(test)]
use bolero as _;
