//! Delivery of batches in virtual time: no sockets, no clock, brokers that judge sequence numbers as Kafka does.

mod ends;
mod errors;
mod order;
mod requests;
mod sequences;
mod storm;
mod world;
