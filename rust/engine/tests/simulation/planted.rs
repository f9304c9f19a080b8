//! Bugs that are planted between the machine and its world, or in the coordinator, each to be found by a rule that it breaks.

use std::time::Duration;

use monedula_broker::planted as broker;
use monedula_engine::Now;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use crate::checks::Rule;
use crate::excuses::Excuse;
use crate::messages::{Answered, Asked};
use monedula_engine::group::{Call, GroupResponse, HeartbeatCall, Partitions};

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
    /// A heartbeat says that nothing is owned but what is to be, while the user still works on it.
    AcknowledgeEarly,
    /// Of its heartbeats only the one that joins says what is owned.
    NeverAcknowledge,
    /// What it had is in the heartbeat that joins.
    JoinWithOwned,
    /// The lease is a little longer than it may be.
    LeaseFromAnswer,
    /// Now and then a target is overlooked.
    MissTarget,
    /// A target has a partition more than it has.
    TakeMore,
    /// Offsets are committed by the names of topics, and so for those that are made anew.
    CommitByName,
    /// Where going back was excused once, commits go back again and again.
    BackAgain(Excuse),
    /// Where somebody else committed an offset before, it is told as committed again, and never sent.
    SkipKnownCommit,
    /// What a stray commit came over is never committed again.
    ForgetTheEnd,
    /// Who was excused once takes every heartbeat for acknowledged.
    GoodOnce(Excuse),
    /// Whose static id another has taken takes heartbeats for acknowledged.
    IgnoreReplaced,
    /// Who sought gives up partitions without a commit.
    NoCommitOnceSought,
    /// Where a commit failed once, partitions are given up without another.
    NoCommitOnceFailed,
    /// Now and then an error that nothing justifies ends a membership.
    Refused(ErrorCode),
    /// Calls that wait are no polls.
    WaitingIsNoPoll,
    /// When all is well, the leader of a group with static members leaves out a partition, once.
    LeaveOut,
    /// The coordinator has it.
    Coordinator(broker::Bug),
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
        Self::AcknowledgeEarly,
        Self::NeverAcknowledge,
        Self::JoinWithOwned,
        Self::LeaseFromAnswer,
        Self::MissTarget,
        Self::TakeMore,
        Self::CommitByName,
        Self::BackAgain(Excuse::BackAfterSeek),
        Self::BackAgain(Excuse::StrayGoesBack),
        Self::BackAgain(Excuse::Unaccounted),
        Self::SkipKnownCommit,
        Self::ForgetTheEnd,
        Self::GoodOnce(Excuse::Blind),
        Self::GoodOnce(Excuse::Misled),
        Self::IgnoreReplaced,
        Self::NoCommitOnceSought,
        Self::NoCommitOnceFailed,
        Self::Refused(ErrorCode::UnknownServerError),
        Self::Refused(ErrorCode::InconsistentGroupProtocol),
        Self::Refused(ErrorCode::FencedInstanceId),
        Self::Refused(ErrorCode::UnreleasedInstanceId),
        Self::WaitingIsNoPoll,
        Self::LeaveOut,
        Self::Coordinator(broker::Bug::GiveBeforeReported),
        Self::Coordinator(broker::Bug::SilenceIsAck),
        Self::Coordinator(broker::Bug::ForgetRevocation),
        Self::Coordinator(broker::Bug::SkipBump),
        Self::Coordinator(broker::Bug::KeepGeneration),
        Self::Coordinator(broker::Bug::AnswerSyncEarly),
    ];

    /// The rules that may find it.
    pub(crate) fn breaks(self) -> &'static [Rule] {
        match self {
            Self::SkipCommit | Self::IgnoreFencedCommit | Self::SkipKnownCommit => &[Rule::ToldCommitted],
            Self::BackAgain(_) => &[Rule::CommitByOwner],
            Self::ForgetTheEnd | Self::LeaveOut => &[Rule::Converges],
            Self::GoodOnce(_) | Self::IgnoreReplaced => {
                &[Rule::Overlap, Rule::NoDoubleClientAssignment, Rule::OneOwner]
            }
            Self::NoCommitOnceSought | Self::NoCommitOnceFailed => &[Rule::RevokedInOrder],
            Self::Refused(_) | Self::WaitingIsNoPoll => &[Rule::Fatal],
            Self::CommitOneMore => &[Rule::CommittedUnfinished],
            Self::GiveUpEarly => &[Rule::RevokedInOrder],
            Self::IgnoreFencedHeartbeat => &[Rule::Overlap, Rule::LeaseTooLong],
            Self::PauseKept => &[Rule::Stalled],
            Self::IgnoreLease => &[Rule::LeasedDelivery],
            Self::IgnoreSettling | Self::OpenEarly => &[Rule::OwnedDelivery],
            // If the lookup failed because metadata lacks the topic, the partition starts, but is not read until the topic is known.
            Self::ResetOnError => &[Rule::Start, Rule::CommitByOwner, Rule::Stalled],
            // A user who is not notified of a loss still holds the partitions once the group is stable.
            Self::SwallowLost => &[Rule::Callbacks, Rule::Converges],
            Self::MoveAtOnce => &[Rule::Rationed],
            Self::MoveForLoss => &[Rule::KeptForLoss, Rule::Rationed],
            Self::ForgetDeadline => &[Rule::Converges],
            Self::ForgetCalledBack => &[Rule::Converges, Rule::Outcomes],
            Self::AcknowledgeEarly | Self::TakeMore => &[Rule::NoDoubleClientAssignment, Rule::Overlap],
            // The machine thinks that it has acknowledged, and the coordinator removes it.
            Self::NeverAcknowledge => &[Rule::NoDoubleClientAssignment, Rule::Overlap, Rule::Converges],
            Self::MissTarget => &[Rule::Converges],
            Self::JoinWithOwned => &[Rule::Fatal],
            Self::LeaseFromAnswer => &[Rule::LeaseTooLong, Rule::Overlap],
            Self::CommitByName => &[Rule::CommittedUnfinished],
            Self::Coordinator(bug) => match bug {
                broker::Bug::SkipBump => &[Rule::Converges],
                broker::Bug::KeepGeneration | broker::Bug::AnswerSyncEarly => {
                    &[Rule::OneOwner, Rule::Converges, Rule::Outcomes]
                }
                _ => &[Rule::NoDoubleClientAssignment, Rule::OneOwner, Rule::Overlap],
            },
        }
    }

    /// The bug that the coordinator has.
    pub(crate) fn of_coordinator(self) -> Option<broker::Bug> {
        match self {
            Self::Coordinator(bug) => Some(bug),
            _ => None,
        }
    }

    /// What it makes of a heartbeat of the consumer protocol; `settling`: the user still works on something.
    pub(crate) fn misstate(self, call: &mut HeartbeatCall, settling: bool) {
        match self {
            Self::AcknowledgeEarly if call.epoch > 0 && settling => call.owned = Some(Partitions::new()),
            Self::NeverAcknowledge if call.epoch > 0 => call.owned = None,
            Self::JoinWithOwned if call.epoch == 0 => call.owned = Some([(Uuid([1; 16]), 0)].into()),
            _ => {}
        }
    }

    /// What it makes of a lease.
    pub(crate) fn lease(self, until: Option<Now>) -> Option<Now> {
        match self {
            Self::LeaseFromAnswer => until.map(|until| until + Duration::from_millis(1500)),
            _ => until,
        }
    }

    /// What it makes of an answer; `excused`: what was excused of the process before.
    pub(crate) fn mistake(
        self,
        call: &Call,
        mut answer: GroupResponse,
        excused: impl Fn(Excuse) -> bool,
    ) -> GroupResponse {
        match (self, &mut answer) {
            (Self::IgnoreFencedHeartbeat, GroupResponse::Heartbeat { code }) if fenced(*code) => {
                *code = ErrorCode::None;
            }
            (Self::GoodOnce(excuse), GroupResponse::Heartbeat { code }) if fenced(*code) && excused(excuse) => {
                *code = ErrorCode::None;
            }
            (Self::GoodOnce(excuse), GroupResponse::ConsumerGroupHeartbeat { code, epoch, .. })
                if fenced(*code) && excused(excuse) && call.heartbeat().is_some_and(|call| call.epoch > 0) =>
            {
                (*code, *epoch) = (ErrorCode::None, call.heartbeat().map_or(0, |call| call.epoch));
            }
            (Self::IgnoreReplaced, GroupResponse::Heartbeat { code }) if *code == ErrorCode::FencedInstanceId => {
                *code = ErrorCode::None;
            }
            (Self::IgnoreFencedHeartbeat, GroupResponse::ConsumerGroupHeartbeat { code, epoch, .. })
                if fenced(*code) && call.heartbeat().is_some_and(|call| call.epoch > 0) =>
            {
                (*code, *epoch) = (ErrorCode::None, call.heartbeat().map_or(0, |call| call.epoch));
            }
            (Self::MissTarget, GroupResponse::ConsumerGroupHeartbeat { epoch, assignment, .. }) => {
                assignment.take_if(|_| *epoch % 3 == 0);
            }
            (Self::TakeMore, GroupResponse::ConsumerGroupHeartbeat { assignment: Some(assignment), .. }) => {
                let first = assignment.first().map(|&(topic, _)| (topic, 0));
                assignment.extend(first);
            }
            (Self::IgnoreFencedCommit, _) => {
                let codes = answer.commit_codes_mut().into_iter().flatten().map(|(_, code)| code);
                codes.filter(|code| fenced(**code)).for_each(|code| *code = ErrorCode::None);
            }
            (Self::ResetOnError, _) => {
                let bad =
                    |answer: &GroupResponse| answer.found().is_some_and(|found| found.values().any(Result::is_err));
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
