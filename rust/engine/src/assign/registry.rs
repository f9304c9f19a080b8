//! The assignors that are there without anyone bringing one, by the names that Kafka gives them, and those that Kafka has not.

use std::sync::Arc;

use super::cooperative_sticky::CooperativeSticky;
use super::deferred::{Deferred, Pace};
use super::range::Range;
use super::round_robin::RoundRobin;
use super::sticky::Sticky;
use super::{Assignor, Protocol};

/// Names of the assignors that [`builtin`] knows.
pub const BUILTIN: &[&str] = &["range", "roundrobin", "sticky", "cooperative-sticky", "deferred", "incremental"];

/// The assignor of that name, as `partition.assignment.strategy` has it. Where it leaves things for later it has the default pace.
pub fn builtin(name: &str) -> Option<Arc<dyn Assignor>> {
    builtin_with(name, Pace::default())
}

/// What is wrong with these assignors of one member, if that is so: beside an eager one all partitions are given up before each join,
/// and nothing can be kept for anybody.
pub fn eager_beside_deferring(assignors: &[Arc<dyn Assignor>]) -> Option<String> {
    let deferring = assignors.iter().find(|assignor| assignor.defers())?;
    let eager = assignors.iter().find(|assignor| assignor.protocol() == Protocol::Eager)?;
    Some(format!(
        "{} works among cooperative assignors only, and {} is eager: beside it all partitions would be given up before each \
         rebalance; list cooperative-sticky in its place, and bring a group that is eager to that first",
        deferring.name(),
        eager.name()
    ))
}

/// As [`builtin`], with this pace where the assignor leaves things for later.
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
