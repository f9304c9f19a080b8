//! Kafka's server-side assignors, which compute the target assignment of a consumer group.

mod heterogeneous;
mod range;
mod uniform;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use monedula_protocol::types::Uuid;

use super::Partitions;

/// An assignor, by its name in `group.consumer.assignors`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Assignor {
    Uniform,
    Range,
}

impl Assignor {
    pub(crate) const ALL: [Self; 2] = [Self::Uniform, Self::Range];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Range => "range",
        }
    }

    pub(crate) fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|assignor| assignor.name() == name)
    }

    /// Computes the target of each member.
    pub(crate) fn assign(self, spec: &Spec) -> BTreeMap<Arc<str>, Partitions> {
        if spec.members.is_empty() {
            return BTreeMap::new();
        }
        match self {
            Self::Uniform if spec.homogeneous => uniform::assign(spec),
            Self::Uniform => heterogeneous::assign(spec),
            Self::Range => range::assign(spec),
        }
    }
}

/// The input of an assignor: the members and the topics.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    /// The members in the order in which Kafka iterates over them (see [`monedula_protocol::java::in_hash_order`]). The
    /// assignment depends on it.
    pub(crate) members: Vec<MemberSpec>,
    /// True if all members subscribe to the same topics.
    pub(crate) homogeneous: bool,
    /// The partition count of each topic that a member subscribes to.
    pub(crate) topics: BTreeMap<Uuid, i32>,
    /// All partitions of the previous target assignment, whichever member they belong to.
    pub(crate) taken: BTreeSet<(Uuid, i32)>,
}

/// A member in the input of an assignor.
#[derive(Clone, Debug)]
pub(crate) struct MemberSpec {
    pub(crate) id: Arc<str>,
    pub(crate) instance_id: Option<Arc<str>>,
    /// The existing topics that it subscribes to.
    pub(crate) topics: BTreeSet<Uuid>,
    /// The previous target.
    pub(crate) target: Partitions,
}

#[cfg(test)]
mod tests;
