//! A producer's identity and transactions, in virtual time.

mod identity;
#[allow(dead_code, reason = "more scenarios use it")]
mod world;
