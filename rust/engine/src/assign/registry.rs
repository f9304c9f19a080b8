//! The built-in assignors, by name: Kafka's, and `deferred` and `incremental`, which Kafka does not have.

use std::sync::Arc;

use super::cooperative_sticky::CooperativeSticky;
use super::deferred::{Deferred, Pace};
use super::range::Range;
use super::round_robin::RoundRobin;
use super::sticky::Sticky;
use super::{Assignor, Protocol};

/// The names of the assignors that [`builtin`] knows.
pub const BUILTIN: &[&str] = &["range", "roundrobin", "sticky", "cooperative-sticky", "deferred", "incremental"];

/// The assignor with this name, as in `partition.assignment.strategy`. Deferring ones have the default pace.
pub fn builtin(name: &str) -> Option<Arc<dyn Assignor>> {
    builtin_with(name, Pace::default())
}

/// The error if one member lists an eager assignor beside a deferring one: then all partitions are revoked before each
/// join, and none can be reserved.
pub fn eager_beside_deferring(assignors: &[Arc<dyn Assignor>]) -> Option<String> {
    let deferring = assignors.iter().find(|assignor| assignor.defers())?;
    let eager = assignors.iter().find(|assignor| assignor.protocol() == Protocol::Eager)?;
    Some(format!(
        "{} works among cooperative assignors only, and {} is eager: beside it all partitions would be revoked before each \
         rebalance; list cooperative-sticky in its place, and bring a group that is eager to that first",
        deferring.name(),
        eager.name()
    ))
}

/// As [`builtin`], with this pace for deferring assignors.
pub fn builtin_with(name: &str, pace: Pace) -> Option<Arc<dyn Assignor>> {
    match name {
        "range" => Some(Arc::new(Range)),
        "roundrobin" => Some(Arc::new(RoundRobin)),
        "sticky" => Some(Arc::new(Sticky)),
        "cooperative-sticky" => Some(Arc::new(CooperativeSticky)),
        "deferred" => Some(Arc::new(Deferred::waiting(pace))),
        "incremental" => Some(Arc::new(Deferred::incremental(pace))),
        _ => None,
    }
}
