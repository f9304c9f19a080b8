//! The assignors that are there without anyone bringing one, by the names that Kafka gives them.

use std::sync::Arc;

use super::Assignor;
use super::cooperative_sticky::CooperativeSticky;
use super::range::Range;
use super::round_robin::RoundRobin;
use super::sticky::Sticky;

/// Names of the assignors that [`builtin`] knows.
pub const BUILTIN: &[&str] = &["range", "roundrobin", "sticky", "cooperative-sticky"];

/// The assignor of that name, as `partition.assignment.strategy` has it.
pub fn builtin(name: &str) -> Option<Arc<dyn Assignor>> {
    match name {
        "range" => Some(Arc::new(Range)),
        "roundrobin" => Some(Arc::new(RoundRobin)),
        "sticky" => Some(Arc::new(Sticky)),
        "cooperative-sticky" => Some(Arc::new(CooperativeSticky)),
        _ => None,
    }
}
