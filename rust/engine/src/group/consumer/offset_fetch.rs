//! OffsetFetch of a member under KIP-848. The request carries the member epoch.

use super::error_codes::{api, reaction};
use super::member::ConsumerMember;
use crate::Now;
use crate::group::messages::{CallId, CallKind, GroupOutcome, Reaction};
use crate::group::offsets::OffsetsFetched;
use crate::group::outbox::{InFlight, Timer};

impl ConsumerMember {
    /// Asks for the committed offsets of assigned partitions.
    pub(super) fn advance_offset_fetch(&mut self, now: Now) {
        if self.awaits_epoch.offset_fetch || !self.in_group() {
            return;
        }
        let Some(partitions) = self.base.offset_fetch.next(|_| true, &self.base.out, now) else { return };
        let member = Some((self.member_id.clone(), self.epoch));
        self.base.fetch_offsets(partitions, member, self.epoch, now);
    }

    pub(super) fn offsets_fetched(&mut self, id: CallId, call: InFlight, outcome: GroupOutcome, now: Now) {
        match self.base.offsets_fetched(id, outcome, reaction, &self.topics.first_seen, now) {
            OffsetsFetched::Done => {}
            OffsetsFetched::Lost(reason) => self.coordinator_lost(call.node_id, &reason, now),
            OffsetsFetched::Failed(code) => self.fail(self.group_error(api(CallKind::OffsetFetch), code), now),
            OffsetsFetched::Retry(code) => {
                let reacted = reaction(CallKind::OffsetFetch, code);
                self.base.out.retried(api(CallKind::OffsetFetch), code);
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
        if let Some(at) = self.base.out.timers.at(waiting) {
            self.base.out.timers.bring_forward(Timer::Heartbeat, at);
        }
    }
}
