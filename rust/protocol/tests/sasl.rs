//! SASL exchanges: published vectors, both sides against each other, and what either side must not fall for.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "sasl/attacks.rs"]
mod attacks;
#[path = "sasl/exchanges.rs"]
mod exchanges;
#[path = "sasl/support.rs"]
mod support;
#[path = "sasl/vectors.rs"]
mod vectors;

// `cargo bolero` instruments every test of the crate, and only bolero brings what the instruments call.
use bolero as _;
