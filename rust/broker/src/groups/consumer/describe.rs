//! The state of a consumer group as the describe and list requests return it.

use super::{Assignor, ConsumerGroup, Partitions};

/// Kafka's state of a consumer group.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum GroupState {
    Empty,
    /// The group's epoch is ahead of the target assignment's.
    Assigning,
    /// Some members are not reconciled with the target assignment.
    Reconciling,
    Stable,
}

impl GroupState {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Assigning => "Assigning",
            Self::Reconciling => "Reconciling",
            Self::Stable => "Stable",
        }
    }
}

impl ConsumerGroup {
    pub(crate) fn state(&self) -> GroupState {
        if self.members.is_empty() {
            GroupState::Empty
        } else if self.epoch > self.target_epoch {
            GroupState::Assigning
        } else if self.members.values().all(|member| member.is_reconciled_to(self.target_epoch)) {
            GroupState::Stable
        } else {
            GroupState::Reconciling
        }
    }

    pub(crate) fn epoch(&self) -> i32 {
        self.epoch
    }

    pub(crate) fn target_epoch(&self) -> i32 {
        self.target_epoch
    }

    pub(crate) fn target(&self, member_id: &str) -> Option<&Partitions> {
        self.targets.get(member_id)
    }

    /// The name of the assignor that most members prefer; `None` if no member names one.
    pub(crate) fn assignor_name(&self) -> Option<&'static str> {
        self.preferred_assignor().map(Assignor::name)
    }
}
