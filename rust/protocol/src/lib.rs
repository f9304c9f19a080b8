//! Bytes to and from Kafka's messages and record batches.
//!
//! Depends on nothing of ours. Never opens a socket, never looks at a clock, and never allocates for
//! a length that the remaining bytes cannot back.
//!
//! - [`frame`]: whole requests and responses, for both sides of a connection
//! - [`messages`]: the bodies, one file per API key, each a table of fields with their versions
//! - [`api`]: the versions spoken here, and how to agree on one
//! - [`wire`]: the primitive types, and the macros that turn tables into messages
//! - [`records`]: record batches, which messages carry as opaque bytes
//! - [`produce_frame`]: a Produce request around records that stay where they are
//! - [`compression`]: the codecs of record batches
//! - [`java`]: hash and order of strings as Kafka has them from Java
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
pub mod types;
pub mod wire;

// `cargo bolero` instruments every test of the crate, and only bolero brings what the instruments call.
#[cfg(test)]
use bolero as _;
