//! Everything that can happen to a reader, in virtual time: no sockets, no clock.

mod chaos;
mod fairness;
mod leaders;
mod order;
mod pacing;
mod range;
mod replicas;
mod sessions;
mod table;
mod topics;
mod truncation;
mod world;
