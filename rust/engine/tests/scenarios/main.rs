//! The fetch machine in virtual time, without sockets.

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
