//! OffsetCommit of a member under KIP-848: one commit after the other, none in flight abandoned, with the epoch of the owner
//! (contract 3). No error of a commit makes a member join again: only heartbeats show whether it is in the group.

use monedula_protocol::error_code::ErrorCode;

use super::error_codes::{api, reaction};
use super::member::Member;
use crate::Now;
use crate::group::{
    Answer, Call, CallId, CallKind, CommitError, Committing, GroupProtocol, InFlight, Reaction, Timer, topic_ids,
};

impl Member {
    /// Sends the next commit if it may be sent now.
    pub(super) fn advance_commits(&mut self, now: Now) {
        self.refuse_commits_of_others(now);
        let may = self.in_group() && !self.awaits_epoch.offset_commit && self.lease.holds(now);
        if !may || self.coordinator.node_id().is_none() || self.out.timers.waits(Timer::OffsetCommit, now) {
            return;
        }
        let Some(offsets) = self.commits.next().cloned() else { return };
        let call = Call::OffsetCommit {
            protocol: GroupProtocol::Consumer,
            group_id: self.config.group_id.clone(),
            member_id: self.member_id.clone(),
            instance_id: self.config.instance_id.clone(),
            generation_or_epoch: self.epoch,
            topic_ids: topic_ids(&self.owned, offsets.keys()),
            offsets,
        };
        let sent = self.send(CallKind::OffsetCommit, call, now);
        self.commits.sent(sent);
    }

    pub(super) fn commit_answered(&mut self, id: CallId, call: InFlight, outcome: Result<Answer, String>, now: Now) {
        if !self.commits.answered(id) {
            return;
        }
        let codes = match outcome {
            Ok(Answer::OffsetCommit { codes }) => codes,
            Ok(_) => return self.commits.retry(id, "an answer of another kind", &mut self.out, now),
            Err(reason) => {
                self.coordinator_lost(call.node_id, &reason, now);
                return self.commits.retry(id, &reason, &mut self.out, now);
            }
        };
        for &code in codes.values() {
            self.coordinator_answered(code);
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
        let Some(open) = self.commits.take_codes(id, &codes, verdict) else { return };
        let open = open.into_iter().map(|code| (code, reaction(CallKind::OffsetCommit, code)));
        if let Some(refused) = Reaction::worst(open) {
            self.commit_refused(id, refused, call, now);
        }
        // The next heartbeat shows whether the member is still in the group. It is sent at once: records that are
        // handed out meanwhile might be read twice.
        if gone && call.generation_or_epoch == self.epoch && self.in_group() {
            self.out.timers.bring_forward(Timer::Heartbeat, now);
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
        self.out.retried(api(CallKind::OffsetCommit), code);
        self.coordinator_error(reacted, call, code.name(), now);
        self.commits.retry(id, code.name(), &mut self.out, now);
        // If a new epoch has arrived meanwhile, the commit is retried after its backoff. Otherwise only a heartbeat
        // brings it, and retrying before would busy-loop (KAFKA-20765).
        if reacted == Reaction::AfterHeartbeat && call.generation_or_epoch == self.epoch {
            self.awaits_epoch.offset_commit = true;
            self.hurry_heartbeat(Timer::OffsetCommit);
        }
    }
}
