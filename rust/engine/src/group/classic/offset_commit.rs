//! OffsetCommit of a classic member: one commit after the other, none in flight cancelled, with the generation of the
//! owner (contract 3).

use monedula_protocol::error_code::ErrorCode;

use super::error_codes::reaction;
use super::member::ClassicMember;
use crate::Now;
use crate::group::base::Committing;
use crate::group::error::CommitError;
use crate::group::messages::{CallId, CallKind, GroupOutcome, GroupResponse, Output, Reaction};
use crate::group::offsets::UNKNOWN_TOPIC_ATTEMPTS;
use crate::group::outbox::InFlight;
use crate::group::state::{ClassicState, GroupProtocol};

impl ClassicMember {
    /// Sends the next commit if it may be sent now.
    pub(super) fn advance_commits(&mut self, now: Now) {
        self.refuse_commits_of_others(now);
        // Between the answers to JoinGroup and SyncGroup, coordinators accept no commits; before, they accept those of
        // the old generation (req S116).
        let may =
            matches!(self.state, ClassicState::Stable | ClassicState::Revoking | ClassicState::PreparingRebalance)
                && self.generation >= 0
                && !self.join.outcome_unknown;
        if may {
            self.base.send_commit(GroupProtocol::Classic, &self.member_id, self.generation, now);
        }
    }

    pub(super) fn commit_answered(&mut self, id: CallId, call: InFlight, outcome: GroupOutcome, now: Now) {
        if !self.base.commits.answered(id) {
            return;
        }
        let codes = match outcome {
            Ok(GroupResponse::OffsetCommit { codes }) => codes,
            Ok(_) => return self.base.commits.retry(id, "an answer of another kind", &mut self.base.out, now),
            Err(reason) => {
                self.coordinator_lost(call.node_id, &reason, false, now);
                return self.base.commits.retry(id, &reason, &mut self.base.out, now);
            }
        };
        for &code in codes.values() {
            self.base.coordinator.heard(code);
        }
        if codes.values().any(|code| *code == ErrorCode::UnknownTopicId) {
            // If the topic was recreated, metadata shows it, and then its partitions are lost.
            self.base.out.push(Output::RefreshMetadata);
        }
        let gone = [ErrorCode::UnknownTopicOrPartition, ErrorCode::UnknownTopicId];
        let waited = self.base.commits.attempts().is_some_and(|attempts| attempts >= UNKNOWN_TOPIC_ATTEMPTS);
        let verdict = |code| match reaction(CallKind::OffsetCommit, code) {
            Reaction::Report => Some(CommitError::Refused { code }),
            _ if waited && gone.contains(&code) => Some(CommitError::Refused { code }),
            _ => None,
        };
        let Some(open) = self.base.commits.take_codes(id, &codes, verdict) else { return };
        let open = open.into_iter().map(|code| (code, reaction(CallKind::OffsetCommit, code)));
        if let Some(refused) = Reaction::worst(open) {
            self.commit_refused(id, refused, call, now);
        }
        self.end_commits(now);
    }

    fn commit_refused(&mut self, id: CallId, (code, reacted): (ErrorCode, Reaction), call: InFlight, now: Now) {
        let current = call.generation_or_epoch == self.generation;
        let settled = matches!(self.state, ClassicState::Stable | ClassicState::Revoking) && !self.join_goes_on();
        match reacted {
            Reaction::Rejoin => {
                if current && self.state == ClassicState::Stable {
                    self.want_rejoin("the coordinator rebalances the group".into());
                }
                self.base.out.retried(CallKind::OffsetCommit.name(), code);
                self.base.commits.retry(id, code.name(), &mut self.base.out, now);
            }
            Reaction::DropGeneration | Reaction::DropMember if current && settled => {
                self.lose_and_rejoin(code, CallKind::OffsetCommit.name(), reacted == Reaction::DropMember);
            }
            Reaction::Fail if current => self.fail(self.group_error(CallKind::OffsetCommit.name(), code), now),
            // The request was of another generation, or a running join decides: retry with the values that are valid
            // then.
            _ => {
                self.base.out.retried(CallKind::OffsetCommit.name(), code);
                self.coordinator_error(reacted, call, code.name(), now);
                self.base.commits.retry(id, code.name(), &mut self.base.out, now);
            }
        }
    }
}
