//! OffsetFetch of a member under KIP-848. The request carries the member epoch.

use super::error_codes::{api, reaction};
use super::member::Member;
use crate::Now;
use crate::group::{Answer, Call, CallId, CallKind, InFlight, OffsetsFetched, OnError, Reaction, Timer, topic_ids};

impl Member {
    /// Asks for the committed offsets of assigned partitions.
    pub(super) fn advance_offset_fetch(&mut self, now: Now) {
        if self.awaits_epoch.offset_fetch || !self.in_group() {
            return;
        }
        let Some(partitions) = self.offset_fetch.next(|_| true, &self.out, now) else { return };
        let call = Call::OffsetFetch {
            group_id: self.config.group_id.clone(),
            member: Some((self.member_id.clone(), self.epoch)),
            topic_ids: topic_ids(&self.owned, partitions.iter()),
            partitions: partitions.iter().cloned().collect(),
        };
        let sent = self.send(CallKind::OffsetFetch, call, now);
        self.offset_fetch.sent(sent, partitions);
    }

    pub(super) fn offsets_fetched(&mut self, id: CallId, call: InFlight, outcome: Result<Answer, String>, now: Now) {
        if !self.offset_fetch.is_answer(id) {
            return;
        }
        if let Ok(Answer::OffsetFetch { code, .. }) = outcome {
            self.coordinator_answered(code);
        }
        let on_error = |code| match reaction(CallKind::OffsetFetch, code) {
            Reaction::Report => OnError::Refuse,
            Reaction::Fail => OnError::Fail,
            _ => OnError::Retry,
        };
        match self.offset_fetch.answered(outcome, on_error, &self.topics.first_seen, &mut self.out, now) {
            OffsetsFetched::Done => {}
            OffsetsFetched::Lost(reason) => self.coordinator_lost(call.node_id, &reason, now),
            OffsetsFetched::Failed(code) => self.fail(self.group_error(api(CallKind::OffsetFetch), code), now),
            OffsetsFetched::Retry(code) => {
                let reacted = reaction(CallKind::OffsetFetch, code);
                self.out.retried(api(CallKind::OffsetFetch), code);
                self.coordinator_error(reacted, call, code.name(), now);
                // If a new epoch has arrived meanwhile, the fetch is retried without waiting for a heartbeat.
                if reacted == Reaction::AfterHeartbeat && call.generation_or_epoch == self.epoch {
                    self.awaits_epoch.offset_fetch = true;
                    self.hurry_heartbeat(Timer::OffsetFetch);
                }
            }
        }
    }

    /// A request waits for the answer to the next heartbeat: the heartbeat is sent after that request's backoff, not
    /// only at its interval.
    pub(super) fn hurry_heartbeat(&mut self, waiting: Timer) {
        if let Some(at) = self.out.timers.at(waiting) {
            self.out.timers.bring_forward(Timer::Heartbeat, at);
        }
    }
}
