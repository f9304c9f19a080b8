//! Who is to own what: Kafka's server-side assignors.

mod heterogeneous;
mod range;
mod uniform;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use monedula_protocol::types::Uuid;

use super::Partitions;

/// The assignors, by the names they have in `group.consumer.assignors`.
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

    /// The target of each member.
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

/// What is to be assigned to whom.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    /// In the order in which Kafka walks them (see [`monedula_protocol::java::in_hash_order`]), which decides who gets what.
    pub(crate) members: Vec<MemberSpec>,
    /// Whether all of them subscribe to the same topics.
    pub(crate) homogeneous: bool,
    /// The partitions of each topic that someone subscribes to.
    pub(crate) topics: BTreeMap<Uuid, i32>,
    /// Whose partitions were in the target before, of members that are gone too.
    pub(crate) taken: BTreeSet<(Uuid, i32)>,
}

/// A member, as an assignor sees it.
#[derive(Clone, Debug)]
pub(crate) struct MemberSpec {
    pub(crate) id: Arc<str>,
    pub(crate) instance_id: Option<Arc<str>>,
    /// What it subscribes to, as far as it exists.
    pub(crate) topics: BTreeSet<Uuid>,
    /// Its target until now.
    pub(crate) target: Partitions,
}

#[cfg(test)]
mod tests;
