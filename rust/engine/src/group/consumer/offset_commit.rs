//! OffsetCommit of a member under KIP-848: one commit after the other, none in flight cancelled, with the epoch of the
//! owner (contract 3). No error of a commit makes a member join again: only heartbeats show whether it is in the group.

use monedula_protocol::error_code::ErrorCode;

use super::error_codes::{api, reaction};
use super::member::ConsumerMember;
use crate::Now;
use crate::group::base::Committing;
use crate::group::error::CommitError;
use crate::group::messages::{CallId, CallKind, GroupOutcome, GroupResponse, Reaction};
use crate::group::outbox::{InFlight, Timer};
use crate::group::state::GroupProtocol;

impl ConsumerMember {
    /// Sends the next commit if it may be sent now.
    pub(super) fn advance_commits(&mut self, now: Now) {
        self.refuse_commits_of_others(now);
        if self.in_group() && !self.awaits_epoch.offset_commit {
            self.base.send_commit(GroupProtocol::Consumer, &self.member_id, self.epoch, now);
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
                self.coordinator_lost(call.node_id, &reason, now);
                return self.base.commits.retry(id, &reason, &mut self.base.out, now);
            }
        };
        for &code in codes.values() {
            self.base.coordinator.heard(code);
        }
        let (mut gone, mut fenced) = (false, None);
        let verdict = |code| match reaction(CallKind::OffsetCommit, code) {
            Reaction::Report => Some(CommitError::Refused { code }),
            Reaction::Gone => {
                gone = true;
                Some(CommitError::MemberGone { code })
            }
            Reaction::Fail => {
                fenced = Some(code);
                Some(CommitError::MemberGone { code })
            }
            _ => None,
        };
        let Some(open) = self.base.commits.take_codes(id, &codes, verdict) else { return };
        let open = open.into_iter().map(|code| (code, reaction(CallKind::OffsetCommit, code)));
        if let Some(refused) = Reaction::worst(open) {
            self.commit_refused(id, refused, call, now);
        }
        // The next heartbeat shows whether the member is still in the group. It is sent at once: records that are
        // handed out meanwhile might be read twice.
        if gone && call.generation_or_epoch == self.epoch && self.in_group() {
            self.base.out.timers.bring_forward(Timer::Heartbeat, now);
        }
        self.end_commits(now);
        // Another consumer has the static id. A heartbeat may not report that: if the other one joined with the classic
        // protocol, this is now a classic group that does not know the member. It would join again, and the two would
        // fence each other endlessly.
        if let Some(code) = fenced.filter(|_| call.generation_or_epoch == self.epoch && self.in_group()) {
            self.fail(self.group_error(api(CallKind::OffsetCommit), code), now);
        }
    }

    fn commit_refused(&mut self, id: CallId, (code, reacted): (ErrorCode, Reaction), call: InFlight, now: Now) {
        self.base.out.retried(api(CallKind::OffsetCommit), code);
        self.coordinator_error(reacted, call, code.name(), now);
        self.base.commits.retry(id, code.name(), &mut self.base.out, now);
        // If a new epoch has arrived meanwhile, the commit is retried after its backoff. Otherwise only a heartbeat
        // brings it, and retrying before would busy-loop (KAFKA-20765).
        if reacted == Reaction::AfterHeartbeat && call.generation_or_epoch == self.epoch {
            self.awaits_epoch.offset_commit = true;
            self.hurry_heartbeat(Timer::OffsetCommit);
        }
    }
}
