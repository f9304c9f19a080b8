//! Bugs that are planted between the machine and its world, each to be found by the rule that it breaks.

use monedula_engine::group as classic;
use monedula_engine::membership as consumer;
use monedula_protocol::error_code::ErrorCode;

use crate::checks::Rule;
use crate::messages::{Answer, Call};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A commit is told as done, and never sent.
    SkipCommit,
    /// One record too many is committed.
    CommitOneMore,
    /// Partitions are given up while the user works on them, and without a commit.
    GiveUpEarly,
    /// Heartbeats answered ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID or FENCED_MEMBER_EPOCH are taken for acknowledged.
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
    /// More partitions move at a time than may.
    MoveAtOnce,
    /// Others give up partitions for a member that is lost and waited for.
    MoveForLoss,
    /// What is kept for a lost member is kept for ever.
    ForgetDeadline,
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
        Self::MoveAtOnce,
        Self::MoveForLoss,
        Self::ForgetDeadline,
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
            Self::ResetOnError => &[Rule::Start, Rule::CommitByOwner],
            Self::SwallowLost => &[Rule::Callbacks],
            Self::MoveAtOnce => &[Rule::Rationed],
            Self::MoveForLoss => &[Rule::KeptForLoss, Rule::Rationed],
            Self::ForgetDeadline => &[Rule::Converges],
            Self::ForgetCalledBack => &[Rule::Converges, Rule::Outcomes],
        }
    }

    /// What it makes of an answer.
    pub(crate) fn mistake(self, call: &Call, mut answer: Answer) -> Answer {
        match (self, &mut answer) {
            (Self::IgnoreFencedHeartbeat, Answer::Classic(classic::Answer::Heartbeat { code })) if fenced(*code) => {
                *code = ErrorCode::None;
            }
            (Self::IgnoreFencedHeartbeat, Answer::Consumer(consumer::Answer::Heartbeat { code, epoch, .. }))
                if fenced(*code) && call.heartbeat().is_some_and(|call| call.epoch > 0) =>
            {
                (*code, *epoch) = (ErrorCode::None, call.heartbeat().map_or(0, |call| call.epoch));
            }
            (Self::IgnoreFencedCommit, _) => {
                let codes = answer.commit_codes_mut().into_iter().flatten().map(|(_, code)| code);
                codes.filter(|code| fenced(**code)).for_each(|code| *code = ErrorCode::None);
            }
            (Self::ResetOnError, _) => {
                let bad = |answer: &Answer| answer.found().is_some_and(|found| found.values().any(Result::is_err));
                if let Some(nothing) = call.found_nothing().filter(|_| bad(&answer) || answer.code() != ErrorCode::None)
                {
                    return nothing;
                }
            }
            _ => {}
        }
        answer
    }
}

fn fenced(code: ErrorCode) -> bool {
    use ErrorCode as E;
    matches!(code, E::IllegalGeneration | E::UnknownMemberId | E::FencedMemberEpoch | E::StaleMemberEpoch)
}
