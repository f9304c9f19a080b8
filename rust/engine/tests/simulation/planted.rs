//! Bugs that are planted between the machine and its world, each to be found by the rule that it breaks.

use crate::checks::Rule;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A commit is told as done, and never sent.
    SkipCommit,
    /// One record too many is committed.
    CommitOneMore,
    /// Partitions are given up while the user works on them, and without a commit.
    GiveUpEarly,
    /// Heartbeats answered ILLEGAL_GENERATION or UNKNOWN_MEMBER_ID are taken for acknowledged.
    IgnoreFencedHeartbeat,
    /// Commits answered so are taken for done.
    IgnoreFencedCommit,
    /// What is kept waits for the end of the rebalance.
    PauseKept,
    /// Records are handed out past the lease.
    IgnoreLease,
    /// Records are handed out of what is to be given up.
    IgnoreSettling,
    /// Records are handed out before the user knows of the partition.
    OpenEarly,
    /// A lookup of offsets that failed counts as one that found nothing.
    ResetOnError,
    /// A lost member hears nothing of it.
    SwallowLost,
    /// Nobody says that the callback of a revocation has ended.
    ForgetCalledBack,
}

impl Bug {
    pub(crate) const ALL: &[Self] = &[
        Self::SkipCommit,
        Self::CommitOneMore,
        Self::GiveUpEarly,
        Self::IgnoreFencedHeartbeat,
        Self::IgnoreFencedCommit,
        Self::PauseKept,
        Self::IgnoreLease,
        Self::IgnoreSettling,
        Self::OpenEarly,
        Self::ResetOnError,
        Self::SwallowLost,
        Self::ForgetCalledBack,
    ];

    /// The rules that may find it.
    pub(crate) fn breaks(self) -> &'static [Rule] {
        match self {
            Self::SkipCommit | Self::IgnoreFencedCommit => &[Rule::ToldCommitted],
            Self::CommitOneMore => &[Rule::CommittedUnfinished],
            Self::GiveUpEarly => &[Rule::RevokedInOrder],
            Self::IgnoreFencedHeartbeat => &[Rule::Overlap, Rule::LeaseTooLong],
            Self::PauseKept => &[Rule::Stalled],
            Self::IgnoreLease => &[Rule::LeasedDelivery],
            Self::IgnoreSettling | Self::OpenEarly => &[Rule::OwnedDelivery],
            Self::ResetOnError => &[Rule::Start],
            Self::SwallowLost => &[Rule::Callbacks],
            Self::ForgetCalledBack => &[Rule::Converges, Rule::Outcomes],
        }
    }
}
