//! Heartbeats, what their answers say, and the lease that they renew (contract 6 and 7).

use monedula_protocol::error_code::ErrorCode;

use super::member::Member;
use super::reactions::{api, reaction};
use super::{Reaction, State};
use crate::Now;
use crate::group::{Answer, Call, CallId, GroupEvent, InFlight, Kind, Timer};

impl Member {
    /// Sends a heartbeat if one is due.
    pub(super) fn advance_heartbeat(&mut self, now: Now) {
        if !self.in_group() || self.heartbeat.is_some() || self.coordinator.node_id().is_none() {
            return;
        }
        // While a join is under way none are needed, and Kafka's own consumers send none (seed S016). But what is kept flows on
        // meanwhile, for minutes maybe, and only an answer proves that it is still this member's.
        let joining = self.state == State::PreparingRebalance || self.join_outcome_unknown;
        let due = match joining {
            true => self.lease_needs_heartbeat(now),
            false => !self.out.timers.waits(Timer::Heartbeat, now),
        };
        if !due {
            return;
        }
        let call = Call::Heartbeat {
            group_id: self.config.group_id.clone(),
            member_id: self.member_id.clone(),
            instance_id: self.config.instance_id.clone(),
            generation: self.generation,
        };
        self.heartbeat = self.send(Kind::Heartbeat, call, now);
        self.out.timers.set(Timer::Heartbeat, now + self.cadence.pause(self.config.heartbeat_interval, now));
    }

    /// Whether half of the lease is over, and something is leased.
    fn lease_needs_heartbeat(&mut self, now: Now) -> bool {
        let Some(confirmed) = self.lease.confirmed().filter(|_| !self.owned.is_empty()) else { return false };
        let at = confirmed + self.config.session_timeout / 2;
        let due = now >= at && !self.out.timers.waits(Timer::Heartbeat, now);
        if now < at {
            self.out.timers.set(Timer::Heartbeat, at);
        }
        due
    }

    pub(super) fn heartbeat_answered(&mut self, id: CallId, call: InFlight, outcome: Result<Answer, String>, now: Now) {
        if self.heartbeat != Some(id) {
            return;
        }
        self.heartbeat = None;
        // An answer to an older generation's heartbeat says nothing about this one.
        if call.generation_or_epoch != self.generation {
            return;
        }
        let code = match outcome {
            Ok(Answer::Heartbeat { code }) => code,
            Ok(_) => return self.heartbeat_again(now),
            Err(reason) => {
                self.coordinator_lost(call.node_id, &reason, false, now);
                return self.heartbeat_again(now);
            }
        };
        self.coordinator_answered(code);
        let joining = self.state == State::PreparingRebalance
            || self.exit.is_some() && self.join_group.is_some()
            || self.join_outcome_unknown && self.state != State::CompletingRebalance;
        if code == ErrorCode::None {
            self.heartbeat_attempts = 0;
            self.out.event(GroupEvent::Heartbeat { took: now - call.sent });
            return self.confirm(call.sent);
        }
        match reaction(api(Kind::Heartbeat), code) {
            Reaction::Rejoin => {
                // It comes from a coordinator that knows the member: the session goes on. But whoever has not joined at the end
                // of the rebalance timeout is dropped, and the rebalance may have begun right after the last good answer.
                self.heartbeat_attempts = 0;
                let begun = self.lease.confirmed().unwrap_or(call.sent);
                self.rejoin_by.get_or_insert(begun + self.config.max_poll_interval);
                self.out.event(GroupEvent::Heartbeat { took: now - call.sent });
                self.confirm(call.sent);
                match self.state {
                    State::Stable => self.want_rejoin("the coordinator rebalances the group".into()),
                    State::Revoking => self.join_meanwhile("the coordinator rebalances the group"),
                    // The answer to SyncGroup is on its way, and out of date by now.
                    State::CompletingRebalance => self.outdated = true,
                    _ => {}
                }
            }
            // The join that is under way will tell: the generation is one that it replaces.
            Reaction::DropGeneration if joining => {}
            Reaction::DropGeneration => self.lose_and_rejoin(code, api(Kind::Heartbeat), false),
            Reaction::DropMember => self.lose_and_rejoin(code, api(Kind::Heartbeat), true),
            reacted @ (Reaction::Retry | Reaction::Rediscover) => {
                self.out.retried(api(Kind::Heartbeat), code);
                self.coordinator_error(reacted, call, code.name(), now);
                self.heartbeat_again(now);
            }
            _ => self.fail(self.error_of(api(Kind::Heartbeat), code), now),
        }
    }

    fn heartbeat_again(&mut self, now: Now) {
        let delay = self.out.delay(self.heartbeat_attempts);
        self.heartbeat_attempts = self.heartbeat_attempts.saturating_add(1);
        self.out.timers.set(Timer::Heartbeat, now + delay.min(self.config.heartbeat_interval));
    }

    /// An answer proves that the member was in the group when the coordinator took the request, so not before `sent`.
    pub(super) fn confirm(&mut self, sent: Now) {
        let confirmed = self.lease.confirm(sent);
        self.out.timers.set(Timer::Session, confirmed + self.config.session_timeout);
    }

    /// Until when the coordinator cannot have thrown this member out.
    pub(super) fn proven_until(&self) -> Now {
        let Some(confirmed) = self.lease.confirmed() else { return Now::ZERO };
        // A rebalance may have begun right after, of which this member has not heard: it ends after the rebalance timeout.
        let silent = confirmed + self.config.session_timeout.min(self.config.max_poll_interval);
        let end = self.rejoin_by.map_or(silent, |rejoin_by| rejoin_by.min(silent));
        end.saturating_sub(self.config.lease_margin())
    }

    /// Says until when records may be handed out, where that changed.
    pub(super) fn advance_lease(&mut self, now: Now) {
        let until = match (self.owned.is_empty(), self.join_outcome_unknown) {
            (true, _) => None,
            // The next generation may take this member's claims for old: until it is there, nothing is handed out.
            (false, true) => Some(Now::ZERO),
            (false, false) => Some(self.proven_until()),
        };
        self.lease.set(until, &mut self.out, now);
    }

    /// Nothing is leased any more. To be said before the end of the membership: who assigns partitions by hand afterwards reads
    /// without a lease.
    pub(super) fn end_lease(&mut self, now: Now) {
        self.lease.set(None, &mut self.out, now);
    }

    pub(super) fn lease_over(&mut self) {
        if !self.owned.is_empty() {
            self.lease.expire(&mut self.out);
        }
    }
}
