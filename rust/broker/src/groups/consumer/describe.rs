//! What others may see of a group.

use super::{Assignor, ConsumerGroup, Partitions};

/// The state of a group, as Kafka names it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum GroupState {
    Empty,
    /// Its epoch is past that of its target.
    Assigning,
    /// Members are on their way.
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

    /// The group's epoch.
    pub(crate) fn epoch(&self) -> i32 {
        self.epoch
    }

    pub(crate) fn target_epoch(&self) -> i32 {
        self.target_epoch
    }

    pub(crate) fn target(&self, member_id: &str) -> Option<&Partitions> {
        self.targets.get(member_id)
    }

    /// The assignor that most members ask for, if any does.
    pub(crate) fn assignor_name(&self) -> Option<&'static str> {
        self.preferred_assignor().map(Assignor::name)
    }
}
