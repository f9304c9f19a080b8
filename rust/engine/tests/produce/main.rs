//! Delivery of batches in virtual time, without sockets, to brokers that check sequence numbers as Kafka does.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod ends;
mod errors;
mod order;
mod requests;
mod send_queues;
mod sequences;
mod storm;
mod world;
