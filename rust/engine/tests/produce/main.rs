//! Delivery of batches in virtual time: no sockets, no clock, brokers that judge sequence numbers as Kafka does.

mod order;
mod requests;
mod storm;
mod world;
