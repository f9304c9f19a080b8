//! The admin client on an embedded broker.

mod bounds;
#[path = "../cluster/mod.rs"]
mod cluster;
mod items;
mod moves;
mod routing;
mod silent_brokers;
mod support;
