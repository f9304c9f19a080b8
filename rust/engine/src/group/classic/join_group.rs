//! JoinGroup: when to send it, what to revoke before, and how to handle the answer.

use std::collections::BTreeSet;
use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;

use super::error_codes::reaction;
use super::member::ClassicMember;
use super::revocation::AfterRevocation;
use crate::assign::{AssignError, Assignor, Protocol, subscription_bytes};
use crate::group::error::GroupError;
use crate::group::messages::{Call, CallId, CallKind, GroupEvent, GroupResponse, Output, Reaction, Ticket};
use crate::group::outbox::{InFlight, Timer};
use crate::group::state::ClassicState;
use crate::{Now, TopicPartition};

/// The member id, static id and metadata of each member.
pub(super) type Subscriptions = Vec<(String, Option<String>, Vec<u8>)>;

/// The protocol type of consumer groups (req S019).
pub(super) const PROTOCOL_TYPE: &str = "consumer";

/// The next join, and the JoinGroup and SyncGroup in flight.
#[derive(Clone, Debug, Default)]
pub(super) struct Join {
    /// The reason why the member has to join again, if it has to.
    pub(super) reason: Option<String>,
    /// The reason of the rebalance that the user requested for a later time.
    pub(super) later_reason: String,
    /// Set if everything that has to be revoked and committed before the next join is.
    pub(super) prepared: bool,
    pub(super) join_group: Option<CallId>,
    /// Set if the generation has a leader, who assigns. If other members of the group use KIP-848, the coordinator
    /// assigns.
    pub(super) is_led: bool,
    /// The JoinGroup that the driver was told to cancel. Its outcome follows at once.
    pub(super) cancelled: Option<CallId>,
    pub(super) sync_group: Option<CallId>,
    pub(super) computing_assignment: Option<Ticket>,
    /// This is a static leader that came back, keeps the assignment, and has no other member in its group.
    pub(super) returns_alone: bool,
    pub(super) attempts: u32,
    /// Set if the last SyncGroup was refused.
    pub(super) was_sync_refused: bool,
    /// The begin of the current rebalance, and its reason.
    pub(super) rebalance: Option<(Now, String)>,
    /// The coordinator may have processed a JoinGroup whose answer was lost. Then the generation in which this member
    /// owned its partitions may be two behind at the next join, and the leader treats its owned partitions as outdated
    /// (KIP-792).
    pub(super) outcome_unknown: bool,
    /// From this time on the coordinator may have removed the member for not having joined or synced in a rebalance,
    /// even though it sends heartbeats.
    pub(super) deadline: Option<Now>,
    /// The next rebalance began before the assignment of the current one arrived.
    pub(super) outdated: bool,
}

impl ClassicMember {
    /// Sends JoinGroup if the member has to join and all preparations are done.
    pub(super) fn advance_join(&mut self, now: Now) {
        let may = match self.state {
            ClassicState::Unjoined | ClassicState::Stable => self.base.revocation.is_none(),
            ClassicState::Revoking => self.may_join_while_revoking(),
            _ => false,
        };
        if !may
            || self.base.leave.exit.is_some()
            || !self.topics.subscribed
            || (self.join.reason.is_none() && self.state != ClassicState::Unjoined)
        {
            return;
        }
        let reason = self.join.reason.clone().unwrap_or_else(|| "not in the group".into());
        if self.join.rebalance.is_none() {
            self.join.rebalance = Some((now, reason.clone()));
            self.base.out.event(GroupEvent::RebalanceStarted { reason: reason.clone() });
        }
        // The subscription may have changed since the preparations were done. A member that already revokes partitions
        // has passed this step, and its other partitions are read on.
        let partitions = self.to_revoke_before_join();
        if self.state != ClassicState::Revoking && (!self.join.prepared || !partitions.is_empty()) {
            // Before the first join nothing was read, so there is nothing to commit (req S015).
            let commits = self.base.config.auto_commit_interval.is_some() && self.generation >= 0;
            if !partitions.is_empty() || (commits && !self.base.owned.is_empty()) {
                self.revoke(partitions, AfterRevocation::Join);
                return;
            }
            self.join.prepared = true;
        }
        if self.base.coordinator.node_id().is_some() && !self.base.out.timers.waits(Timer::JoinGroup, now) {
            self.send_join(reason, now);
        }
    }

    /// With an assignor that defers, the other members need not wait for the end of this member's revocation: it joins
    /// meanwhile, and the leader relies on the owned partitions that it reports (req S135).
    pub(super) fn join_meanwhile(&mut self, reason: &str) {
        let defers = self.defers();
        if defers && self.revoked_before_join().is_some() {
            self.then = AfterRevocation::JoinMeanwhile;
            self.want_rejoin(reason.to_owned());
        }
    }

    fn may_join_while_revoking(&self) -> bool {
        self.base.revocation.is_some()
            && self.then == AfterRevocation::JoinMeanwhile
            && self.to_revoke_before_join().is_empty()
    }

    /// The partitions that have to be revoked before the member joins: all under the eager protocol. Under the
    /// cooperative protocol, those of topics without a subscription, and, if the assignor defers, those that the last
    /// assignment left out while others were being revoked.
    fn to_revoke_before_join(&self) -> BTreeSet<TopicPartition> {
        let under_way = self.revoked_before_join();
        let defers = self.last.current && self.defers();
        let kept = |partition: &&TopicPartition| {
            self.protocol == Protocol::Cooperative
                && self.topics.names.contains(&partition.topic)
                && (!defers || self.last.partitions.contains(*partition))
        };
        let out = self.base.owned.keys().filter(|partition| !kept(partition));
        out.filter(|partition| under_way.is_none_or(|under_way| !under_way.contains(*partition))).cloned().collect()
    }

    pub(super) fn defers(&self) -> bool {
        self.chosen().is_some_and(|assignor| assignor.defers())
    }

    fn send_join(&mut self, reason: String, now: Now) {
        // Under the eager protocol all partitions were revoked, and the last assignment is only a hint for sticky
        // assignors.
        let claims = self.base.owned.keys().filter(|_| self.protocol == Protocol::Cooperative);
        let owned: BTreeSet<TopicPartition> = claims.cloned().collect();
        // If the answer to a JoinGroup was lost, the partitions were owned in the generation of the last assignment,
        // but not in a later one, whose leader may have assigned them to others.
        let generation = if self.join.outcome_unknown { self.last.generation } else { self.generation };
        self.last.age = now.saturating_sub(self.last_at);
        self.last.ends_waits = self.assignor_deferrals.ends_waits;
        let mut protocols = Vec::new();
        for assignor in &self.assignors {
            let rack = self.base.config.rack.as_deref();
            match subscription_bytes(&**assignor, &self.topics.names, &owned, generation, &self.last, rack) {
                Ok(bytes) => protocols.push((assignor.name().to_owned(), bytes)),
                Err(error) => {
                    let group = self.base.config.group_id.clone();
                    let error = AssignError::Failed { assignor: assignor.name().into(), reason: error.to_string() };
                    return self.fail(GroupError::Assign { group, error }, now);
                }
            }
        }
        let call = Call::JoinGroup {
            group_id: self.base.config.group_id.clone(),
            member_id: self.member_id.clone(),
            instance_id: self.base.config.instance_id.clone(),
            session_timeout: self.base.config.session_timeout,
            rebalance_timeout: self.base.config.max_poll_interval,
            protocols,
            reason,
        };
        self.join.join_group = self.send(CallKind::JoinGroup, call, now);
        self.topics.joined = self.topics.names.clone();
        self.join.reason = None;
        self.base.out.timers.clear(Timer::KeptBack);
        self.base.out.timers.clear(Timer::Deferred);
        self.join.prepared = false;
        // No heartbeats are sent until JoinGroup is answered (req S016), except those that the lease needs.
        self.set_state(ClassicState::PreparingRebalance);
    }

    pub(super) fn joined(&mut self, id: CallId, call: InFlight, answer: GroupResponse, now: Now) {
        if self.join.join_group.take_if(|known| *known == id).is_none() {
            return;
        }
        match answer {
            GroupResponse::JoinGroup {
                code: code @ ErrorCode::None,
                generation,
                member_id,
                leader,
                protocol_type,
                protocol,
                skip_assignment,
                members,
            } => {
                self.base.coordinator.heard(code);
                let protocol = protocol.unwrap_or_default();
                let ours = self.assignors.iter().any(|assignor| assignor.name() == protocol);
                if !ours || protocol_type.is_some_and(|kind| kind != PROTOCOL_TYPE) || generation < 0 {
                    return self
                        .fail(self.group_error(CallKind::JoinGroup.name(), ErrorCode::InconsistentGroupProtocol), now);
                }
                self.lose_if_missed(generation, &leader, now);
                self.join.is_led = !leader.is_empty();
                self.leader = leader == member_id;
                (self.generation, self.member_id, self.assignor) = (generation, member_id, Some(protocol.clone()));
                self.enter_generation(call, protocol, now);
                self.ask_for_assignment(skip_assignment, members, now);
            }
            GroupResponse::JoinGroup { code, member_id, .. } => {
                self.base.coordinator.heard(code);
                self.join_refused(code, member_id, call, now);
            }
            _ => self.join_again("an answer of another kind", now),
        }
    }

    /// The JoinGroup has no answer. `is_unsent`: the coordinator has not processed it.
    pub(super) fn join_failed(&mut self, id: CallId, call: InFlight, is_unsent: bool, reason: &str, now: Now) {
        if self.join.join_group.take_if(|known| *known == id).is_none() {
            return;
        }
        if !is_unsent {
            self.join_unanswered();
        }
        if self.join.cancelled == Some(id) {
            return self.join_elsewhere();
        }
        self.coordinator_lost(call.node_id, reason, false, now);
        self.join_again(reason, now);
    }

    /// A static member that misses a rebalance is not removed, and gets no error either. But the leader of the
    /// generation that it missed may have assigned its partitions to others.
    pub(super) fn lose_if_missed(&mut self, generation: i32, leader: &str, now: Now) {
        // If other members of the group use KIP-848, the coordinator assigns and nobody leads. Generations are then
        // this member's epochs, which skip numbers, and its partitions are not assigned to others before it has revoked
        // them.
        let missed = !leader.is_empty() && generation > self.generation + 1;
        if self.generation >= 0 && missed && !self.join.outcome_unknown {
            self.lose(None, "the group had a generation without this member");
        }
        // In such a group JoinGroup does not prove either that the member was in the group until now: a removed member
        // is let in again under its old id, as a new member, and its former partitions belong to others.
        if self.generation >= 0 && leader.is_empty() && now >= self.proven_until() {
            self.lose(None, "its session may have ended before it joined again");
        }
    }

    fn enter_generation(&mut self, call: InFlight, protocol: String, now: Now) {
        self.join.attempts = 0;
        self.topics.assigned_counts = None;
        self.confirm(call.sent);
        self.base.out.timers.set(Timer::Heartbeat, now + self.heartbeat_interval);
        // A member that does not send SyncGroup in time is removed as well.
        (self.join.deadline, self.join.outdated) = (Some(call.sent + self.base.config.max_poll_interval), false);
        let (generation, leader, took) = (self.generation, self.leader, now - call.sent);
        self.base.out.event(GroupEvent::Joined { generation, leader, protocol, took });
        self.set_state(ClassicState::CompletingRebalance);
    }

    fn join_refused(&mut self, code: ErrorCode, member_id: String, call: InFlight, now: Now) {
        match reaction(CallKind::JoinGroup, code) {
            Reaction::TakeMemberId => {
                // The join follows at once, unless the member already had an id: the coordinator might send new ids
                // endlessly.
                if !self.member_id.is_empty() || member_id.is_empty() {
                    self.back_off_join(now);
                }
                self.member_id = member_id;
                self.back_from_join();
                self.want_rejoin("the coordinator asked to join with an id".into());
            }
            Reaction::DropMember => {
                let wait = self.join.attempts > 0;
                self.back_from_join();
                self.lose_and_rejoin(code, CallKind::JoinGroup.name(), true);
                self.join.attempts = self.join.attempts.saturating_add(1);
                if wait {
                    self.back_off_join(now);
                }
            }
            Reaction::DropGeneration => {
                self.back_from_join();
                self.lose_and_rejoin(code, CallKind::JoinGroup.name(), false);
                self.back_off_join(now);
            }
            reacted @ (Reaction::Retry | Reaction::Rediscover | Reaction::Rejoin) => {
                self.base.out.retried(CallKind::JoinGroup.name(), code);
                self.coordinator_error(reacted, call, code.name(), now);
                self.join_again(code.name(), now);
            }
            _ => self.fail(self.group_error(CallKind::JoinGroup.name(), code), now),
        }
    }

    /// The assignor of this generation.
    pub(super) fn chosen(&self) -> Option<Arc<dyn Assignor>> {
        let name = self.assignor.as_deref()?;
        self.assignors.iter().find(|assignor| assignor.name() == name).cloned()
    }

    /// The join failed: tries again after a backoff.
    pub(super) fn join_again(&mut self, reason: &str, now: Now) {
        self.back_from_join();
        self.back_off_join(now);
        self.want_rejoin(format!("the last attempt to join failed: {reason}"));
    }

    pub(super) fn back_off_join(&mut self, now: Now) {
        self.base.out.back_off(Timer::JoinGroup, &mut self.join.attempts, now);
    }

    /// Goes back to the state from which a member joins. With a generation, the member continues as before and keeps
    /// its partitions.
    pub(super) fn back_from_join(&mut self) {
        (self.join.join_group, self.join.sync_group, self.join.computing_assignment) = (None, None, None);
        // The preparations for a join were done. Offsets finished since then are committed with the next join.
        self.join.prepared = self.to_revoke_before_join().is_empty();
        match self.state {
            ClassicState::PreparingRebalance | ClassicState::CompletingRebalance if self.generation >= 0 => {
                self.set_joined_state()
            }
            ClassicState::PreparingRebalance | ClassicState::CompletingRebalance => {
                self.set_state(ClassicState::Unjoined)
            }
            _ => {}
        }
    }

    /// Sets the state of a member in the group: Revoking if the revocation that began before the join continues.
    pub(super) fn set_joined_state(&mut self) {
        self.set_state(if self.revoked_before_join().is_some() {
            ClassicState::Revoking
        } else {
            ClassicState::Stable
        });
    }

    /// Records that a JoinGroup which the coordinator may have processed has no answer.
    fn join_unanswered(&mut self) {
        self.join.outcome_unknown = self.join.outcome_unknown || (self.generation >= 0 && !self.base.owned.is_empty());
    }

    /// Tells whether this member takes part in a running rebalance.
    pub(super) fn join_goes_on(&self) -> bool {
        self.join.join_group.is_some() || self.join.sync_group.is_some() || self.join.computing_assignment.is_some()
    }

    /// Cancels a JoinGroup or SyncGroup that waits at a coordinator that is gone.
    pub(super) fn cancel_join(&mut self) {
        if !self.join_goes_on() {
            return;
        }
        if self.base.leave.exit.is_some() {
            (self.join.join_group, self.join.sync_group, self.join.computing_assignment) = (None, None, None);
            return;
        }
        match self.join.join_group {
            // Only the driver knows whether the request was sent. While it waits for a connection to a broker that has
            // failed, it was not; the owned partitions are not in doubt then.
            Some(id) if self.join.cancelled != Some(id) => {
                self.join.cancelled = Some(id);
                self.base.out.push(Output::CancelCall { id });
            }
            Some(_) => {}
            None => self.join_elsewhere(),
        }
    }

    fn join_elsewhere(&mut self) {
        self.back_from_join();
        self.want_rejoin("the coordinator was lost during the rebalance".into());
    }
}
