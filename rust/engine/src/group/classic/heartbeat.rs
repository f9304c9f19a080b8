//! Heartbeats of a classic member, their answers, and the lease that they renew (contracts 6 and 7).

use monedula_protocol::error_code::ErrorCode;

use super::error_codes::reaction;
use super::member::ClassicMember;
use crate::Now;
use crate::group::messages::{Call, CallId, CallKind, GroupEvent, GroupOutcome, GroupResponse, Reaction};
use crate::group::outbox::{InFlight, Timer};
use crate::group::state::ClassicState;

impl ClassicMember {
    /// Sends a heartbeat if one is due.
    pub(super) fn advance_heartbeat(&mut self, now: Now) {
        if !self.in_group() || self.base.heartbeats.in_flight.is_some() || self.base.coordinator.node_id().is_none() {
            return;
        }
        // While JoinGroup is in flight the coordinator needs no heartbeats, and Kafka's own consumers send none (seed
        // S016). But owned partitions are read meanwhile, maybe for minutes, and only an answer proves that they still
        // belong to this member.
        let joining = self.state == ClassicState::PreparingRebalance || self.join.outcome_unknown;
        let due = match joining {
            true => self.lease_needs_heartbeat(now),
            false => !self.base.out.timers.waits(Timer::Heartbeat, now),
        };
        if !due {
            return;
        }
        let call = Call::Heartbeat {
            group_id: self.base.config.group_id.clone(),
            member_id: self.member_id.clone(),
            instance_id: self.base.config.instance_id.clone(),
            generation: self.generation,
        };
        self.base.heartbeats.in_flight = self.send(CallKind::Heartbeat, call, now);
        self.base
            .out
            .timers
            .set(Timer::Heartbeat, now + self.base.heartbeats.cadence.pause(self.heartbeat_interval, now));
    }

    /// Tells whether a heartbeat is due for the lease: partitions are owned, and half of the session timeout has passed
    /// since the last proof of membership.
    fn lease_needs_heartbeat(&mut self, now: Now) -> bool {
        let Some(confirmed) = self.base.lease.confirmed().filter(|_| !self.base.owned.is_empty()) else { return false };
        let at = confirmed + self.base.config.session_timeout / 2;
        let due = now >= at && !self.base.out.timers.waits(Timer::Heartbeat, now);
        if now < at {
            self.base.out.timers.set(Timer::Heartbeat, at);
        }
        due
    }

    pub(super) fn heartbeat_answered(&mut self, id: CallId, call: InFlight, outcome: GroupOutcome, now: Now) {
        if self.base.heartbeats.in_flight.take_if(|known| *known == id).is_none() {
            return;
        }
        // The answer to a heartbeat of an older generation says nothing about this one.
        if call.generation_or_epoch != self.generation {
            return;
        }
        let code = match outcome {
            Ok(GroupResponse::Heartbeat { code }) => code,
            Ok(_) => return self.heartbeat_again(now),
            Err(reason) => {
                self.coordinator_lost(call.node_id, &reason, false, now);
                return self.heartbeat_again(now);
            }
        };
        self.base.coordinator.heard(code);
        let joining = self.state == ClassicState::PreparingRebalance
            || self.base.leave.exit.is_some() && self.join.join_group.is_some()
            || self.join.outcome_unknown && self.state != ClassicState::CompletingRebalance;
        if code == ErrorCode::None {
            self.base.heartbeats.attempts = 0;
            self.base.out.event(GroupEvent::Heartbeat { took: now - call.sent });
            return self.confirm(call.sent);
        }
        match reaction(CallKind::Heartbeat, code) {
            Reaction::Rejoin => {
                // The coordinator knows the member, so the session continues. But a member that has not joined at the
                // end of the rebalance timeout is removed, and the rebalance may have begun right after the last good
                // answer.
                self.base.heartbeats.attempts = 0;
                let begun = self.base.lease.confirmed().unwrap_or(call.sent);
                self.join.deadline.get_or_insert(begun + self.base.config.max_poll_interval);
                self.base.out.event(GroupEvent::Heartbeat { took: now - call.sent });
                self.confirm(call.sent);
                match self.state {
                    ClassicState::Stable => self.want_rejoin("the coordinator rebalances the group".into()),
                    ClassicState::Revoking => self.join_meanwhile("the coordinator rebalances the group"),
                    // The answer to the SyncGroup in flight is already outdated.
                    ClassicState::CompletingRebalance => self.join.outdated = true,
                    _ => {}
                }
            }
            // The member is joining anyway, which replaces this generation; the answer to JoinGroup decides.
            Reaction::DropGeneration if joining => {}
            Reaction::DropGeneration => self.lose_and_rejoin(code, CallKind::Heartbeat.name(), false),
            Reaction::DropMember => self.lose_and_rejoin(code, CallKind::Heartbeat.name(), true),
            reacted @ (Reaction::Retry | Reaction::Rediscover) => {
                self.base.out.retried(CallKind::Heartbeat.name(), code);
                self.coordinator_error(reacted, call, code.name(), now);
                self.heartbeat_again(now);
            }
            _ => self.fail(self.group_error(CallKind::Heartbeat.name(), code), now),
        }
    }

    fn heartbeat_again(&mut self, now: Now) {
        let delay = self.base.out.delay(self.base.heartbeats.attempts);
        self.base.heartbeats.attempts = self.base.heartbeats.attempts.saturating_add(1);
        self.base.out.timers.set(Timer::Heartbeat, now + delay.min(self.heartbeat_interval));
    }

    /// An answer proves that the member was in the group when the coordinator processed the request, so not before
    /// `sent`.
    pub(super) fn confirm(&mut self, sent: Now) {
        let confirmed = self.base.lease.confirm(sent);
        self.base.out.timers.set(Timer::Session, confirmed + self.base.config.session_timeout);
    }

    /// Until when the coordinator cannot have removed this member from the group.
    pub(super) fn proven_until(&self) -> Now {
        let Some(confirmed) = self.base.lease.confirmed() else { return Now::ZERO };
        // A rebalance that the member does not know of may have begun right after the proof. It ends after the
        // rebalance timeout.
        let silent = confirmed + self.base.config.session_timeout.min(self.base.config.max_poll_interval);
        let end = self.join.deadline.map_or(silent, |rejoin_by| rejoin_by.min(silent));
        end.saturating_sub(self.base.config.lease_margin())
    }

    /// Updates until when records may be handed out.
    pub(super) fn advance_lease(&mut self, now: Now) {
        let until = match (self.base.owned.is_empty(), self.join.outcome_unknown) {
            (true, _) => None,
            // The leader of the next generation may treat this member's owned partitions as outdated: no records are
            // handed out before its assignment.
            (false, true) => Some(Now::ZERO),
            (false, false) => Some(self.proven_until()),
        };
        self.base.lease.set(until, &mut self.base.out, now);
    }
}
