//! SASL exchanges: published vectors, client against server, and attacks on either side.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "sasl/attacks.rs"]
mod attacks;
#[path = "sasl/exchanges.rs"]
mod exchanges;
#[path = "sasl/support.rs"]
mod support;
#[path = "sasl/vectors.rs"]
mod vectors;

// Linked since `cargo bolero` instruments every test of the crate, and only bolero defines the functions that it calls.
use bolero as _;
