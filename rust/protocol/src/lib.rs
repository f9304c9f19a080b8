//! Bytes to and from Kafka's messages and record batches.
//!
//! Depends on nothing of ours. Never opens a socket, never looks at a clock, and never allocates for
//! a length that the remaining bytes cannot back.
#![forbid(unsafe_code)]

pub mod compression;
pub mod messages;
pub mod records;
