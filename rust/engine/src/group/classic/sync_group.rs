//! The leader's assignment, SyncGroup, and how the member takes its assignment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use monedula_protocol::error_code::ErrorCode;

use super::error_codes::reaction;
use super::join_group::{PROTOCOL_TYPE, Subscriptions};
use super::member::ClassicMember;
use super::revocation::AfterRevocation;
use crate::assign::{AssignError, LastAssignment, Protocol, read_assignment, with_user_data};
use crate::group::error::GroupError;
use crate::group::messages::{
    Assignments, Call, CallId, CallKind, CallbackKind, GroupEvent, GroupOutcome, GroupResponse, Output, Reaction,
    Ticket,
};
use crate::group::outbox::{InFlight, Timer};
use crate::{Now, TopicPartition};

/// The time for which heartbeats are more frequent after a rebalance. One rebalance is often followed by another: the
/// second round of a cooperative one, the next process of a rolling restart, or the process that comes back. Each
/// member learns of the next one by its heartbeat, and the slowest delays the others' JoinGroup.
const NEXT_STEP_WITHIN: Duration = Duration::from_secs(60);

impl ClassicMember {
    /// Sends SyncGroup. The leader first has the assignment computed.
    pub(super) fn ask_for_assignment(&mut self, skip_assignment: bool, members: Subscriptions, now: Now) {
        self.join.returns_alone = self.leader && skip_assignment && members.len() == 1;
        if self.leader && !skip_assignment {
            let ticket = self.base.out.new_id();
            self.join.computing_assignment = Some(ticket);
            let members = self.as_of_now(members, now);
            let assignor = self.assignor.clone().unwrap_or_default();
            return self.base.out.push(Output::ComputeAssignment { ticket, assignor, members });
        }
        // A static leader that comes back has to keep the assignment, but still watches the topics (KIP-814).
        if self.leader {
            self.topics.assigned_counts = Some(self.topics.counts());
        }
        self.send_sync(Vec::new(), now);
    }

    /// The remaining times in the leader's own subscription may be minutes old: updates them to now.
    fn as_of_now(&mut self, mut members: Subscriptions, now: Now) -> Subscriptions {
        self.last.age = now.saturating_sub(self.last_at);
        let Some(assignor) = self.chosen().filter(|assignor| assignor.defers()) else { return members };
        let user_data = assignor.user_data(&self.topics.joined, &self.last);
        if let Some((.., bytes)) = members.iter_mut().find(|(id, ..)| *id == self.member_id)
            && let Ok(updated) = with_user_data(bytes, user_data.as_deref())
        {
            *bytes = updated;
        }
        members
    }

    pub(super) fn assigned_by_leader(&mut self, ticket: Ticket, outcome: Result<Assignments, AssignError>, now: Now) {
        if self.join.computing_assignment.take_if(|known| *known == ticket).is_none() {
            return;
        }
        match outcome {
            Ok((assignments, counts)) => {
                self.watch_kept_back(&assignments, &counts, now);
                self.topics.assigned_counts = Some(counts);
                self.send_sync(assignments, now);
            }
            // The member is leaving; the others rebalance without it.
            Err(_) if self.base.leave.exit.is_some() => {}
            // Leaving would only make the next leader wait for the same metadata, and end this membership.
            Err(AssignError::NoMetadata { reason }) => {
                self.base.out.event(GroupEvent::Retried { api: "Metadata", reason: reason.clone() });
                self.join_again(&format!("metadata of the group's topics cannot be had: {reason}"), now);
            }
            // This machine may have a thread again before the other members have a new leader.
            Err(error @ AssignError::NoThread { .. }) => {
                self.base.out.event(GroupEvent::Retried { api: "SyncGroup", reason: error.to_string() });
                self.join_again(&error.to_string(), now);
            }
            Err(error) => {
                // The other members must not wait for a leader that cannot assign.
                self.send_leave("the assignor failed", now);
                let group = self.base.config.group_id.clone();
                self.fail(GroupError::Assign { group, error }, now);
            }
        }
    }

    /// A member that has revoked partitions joins again, and then they are assigned. But a static member that dies
    /// before it joins comes back without a rebalance, and the partitions would never be assigned. For that case the
    /// leader joins again: once, because an assignor may leave partitions out permanently.
    fn watch_kept_back(&mut self, assignments: &[(String, Vec<u8>)], counts: &BTreeMap<Arc<str>, usize>, now: Now) {
        let given: Vec<_> = assignments.iter().filter_map(|(_, bytes)| read_assignment(bytes).ok()).collect();
        let user_data = given.first().and_then(|assigned| assigned.user_data.as_deref());
        let left_out = self.chosen().map(|assignor| assignor.deferral(user_data).left_out).unwrap_or_default();
        let given: usize = given.iter().map(|assigned| assigned.partitions.len()).sum();
        let kept_back = counts.values().sum::<usize>().saturating_sub(given).saturating_sub(left_out);
        if self.protocol == Protocol::Cooperative && kept_back > 0 && kept_back != self.kept_back {
            self.base.out.timers.set(Timer::KeptBack, now + self.base.config.session_timeout);
        }
        self.kept_back = kept_back;
    }

    fn send_sync(&mut self, assignments: Vec<(String, Vec<u8>)>, now: Now) {
        let call = Call::SyncGroup {
            group_id: self.base.config.group_id.clone(),
            member_id: self.member_id.clone(),
            instance_id: self.base.config.instance_id.clone(),
            generation: self.generation,
            protocol: self.assignor.clone().unwrap_or_default(),
            // A leader that is gone is removed when its session ends.
            leader_timeout: if self.leader { Duration::ZERO } else { self.base.config.session_timeout },
            assignments,
        };
        self.topics.asked_for_assignment(self.join.is_led);
        self.join.sync_group = self.send(CallKind::SyncGroup, call, now);
        if self.join.sync_group.is_none() {
            self.join_again("the coordinator was lost before SyncGroup", now);
        }
    }

    pub(super) fn synced(&mut self, id: CallId, call: InFlight, outcome: GroupOutcome, now: Now) {
        if self.join.sync_group.take_if(|known| *known == id).is_none() {
            return;
        }
        let (code, protocol_type, protocol, assignment) = match outcome {
            Ok(GroupResponse::SyncGroup { code, protocol_type, protocol, assignment }) => {
                (code, protocol_type, protocol, assignment)
            }
            Ok(_) => return self.join_again("an answer of another kind", now),
            Err(reason) => {
                self.coordinator_lost(call.node_id, &reason, false, now);
                return self.join_again(&reason, now);
            }
        };
        self.base.coordinator.heard(code);
        if code != ErrorCode::None {
            return self.sync_refused(code, call, now);
        }
        if self.is_outlived(&call, now) {
            return self.join_again("the answer to SyncGroup came later than the session may have ended", now);
        }
        let other = protocol.is_some() && protocol != self.assignor;
        if other || protocol_type.is_some_and(|kind| kind != PROTOCOL_TYPE) {
            return self.fail(self.group_error(CallKind::SyncGroup.name(), ErrorCode::InconsistentGroupProtocol), now);
        }
        self.take_assignment(&assignment, call, now);
    }

    fn sync_refused(&mut self, code: ErrorCode, call: InFlight, now: Now) {
        // A coordinator that refuses each assignment would be asked thousands of times a second.
        if std::mem::replace(&mut self.join.was_sync_refused, true) {
            self.base.out.back_off_after(0, Timer::JoinGroup, now);
        }
        match reaction(CallKind::SyncGroup, code) {
            Reaction::DropMember => {
                self.back_from_join();
                self.lose_and_rejoin(code, CallKind::SyncGroup.name(), true);
            }
            Reaction::DropGeneration => {
                self.back_from_join();
                self.lose_and_rejoin(code, CallKind::SyncGroup.name(), false);
            }
            Reaction::Rejoin => {
                self.base.out.retried(CallKind::SyncGroup.name(), code);
                self.back_from_join();
                if code != ErrorCode::RebalanceInProgress {
                    self.back_off_join(now);
                }
                self.want_rejoin(format!("SyncGroup was answered {}", code.name()));
            }
            reacted @ (Reaction::Retry | Reaction::Rediscover) => {
                self.base.out.retried(CallKind::SyncGroup.name(), code);
                self.coordinator_error(reacted, call, code.name(), now);
                self.join_again(code.name(), now);
            }
            _ => self.fail(self.group_error(CallKind::SyncGroup.name(), code), now),
        }
    }

    fn take_assignment(&mut self, bytes: &[u8], sync: InFlight, now: Now) {
        let assignment = match read_assignment(bytes) {
            Ok(assignment) => assignment,
            Err(error) => {
                let group = self.base.config.group_id.clone();
                let reason = format!("the assignment that the leader sent cannot be read: {error}");
                return self.fail(GroupError::Call { group, reason }, now);
            }
        };
        let kept = self.join.returns_alone.then(|| counts(&assignment.partitions));
        self.join.was_sync_refused = false;
        // This does not prove a live session: a coordinator that already has the assignment returns it without renewing
        // the session.
        self.assigned(assignment.partitions.into_iter().collect(), assignment.user_data, sync, now);
        // The partitions that the only member lacks were created, or subscribed to, while it was away: brokers do not
        // rebalance for that.
        if kept.is_some() {
            self.topics.assigned_counts = kept;
            // Without metadata yet, the first one is compared.
            if !self.topics.infos.is_empty() {
                self.rejoin_for_counts();
            }
        }
    }

    /// Tells whether the coordinator may have removed the member, and its partitions may have other owners, while the
    /// answer was in flight: then the assignment is of a generation that is over.
    fn is_outlived(&self, sync: &InFlight, now: Now) -> bool {
        let since_sent = (sync.sent + self.base.config.session_timeout).saturating_sub(self.base.config.lease_margin());
        now >= self.proven_until() && now >= since_sent
    }

    /// Ends the rebalance: newly assigned partitions start, and those that the assignment leaves out are revoked.
    fn assigned(&mut self, all: BTreeSet<TopicPartition>, user_data: Option<Vec<u8>>, sync: InFlight, now: Now) {
        self.remember_assignment(all.clone(), user_data, now);
        // The subscription may have changed since the join: partitions of other topics are not taken (req S067).
        let (wanted, unwanted): (BTreeSet<TopicPartition>, BTreeSet<TopicPartition>) =
            all.into_iter().partition(|partition| self.topics.names.contains(&partition.topic));
        let (recreated, assigned): (BTreeSet<TopicPartition>, BTreeSet<TopicPartition>) = wanted
            .iter()
            .filter(|partition| !self.base.owned.contains_key(*partition))
            .cloned()
            .partition(|partition| self.topics.is_recreated(&partition.topic));
        let revoked: BTreeSet<TopicPartition> =
            self.base.owned.keys().filter(|partition| !wanted.contains(*partition)).cloned().collect();
        let (started, reason) = self.join.rebalance.take().unwrap_or((sync.sent, String::new()));
        self.base.out.event(GroupEvent::Synced {
            generation: self.generation,
            took: now - sync.sent,
            rebalance: now.saturating_sub(started),
            owned: wanted.len() - recreated.len(),
            assigned: assigned.len(),
            revoked: revoked.len(),
        });
        self.last_rebalance = Some((now, reason));
        let outcome_was_unknown = std::mem::take(&mut self.join.outcome_unknown);
        self.join.prepared = false;
        match std::mem::take(&mut self.join.outdated) {
            true => self.want_rejoin("the coordinator rebalances the group".into()),
            false => self.join.deadline = None,
        }
        self.start_timers_of_generation(now);
        self.set_joined_state();
        self.start_assigned(assigned);
        self.give_up_revoked(revoked, outcome_was_unknown);
        if self.topics.names != self.topics.joined {
            self.want_rejoin("the subscription changed".into());
        } else if !unwanted.is_empty() {
            // A static member that comes back with fewer topics gets its former assignment, without a rebalance.
            self.back_off_join(now);
            self.want_rejoin("partitions of topics were assigned that are not subscribed to".into());
        } else if !recreated.is_empty() {
            self.want_rejoin("topics were deleted and made anew after the assignment".into());
        }
    }

    /// Keeps the assignment for the next JoinGroup, with what its assignor deferred.
    fn remember_assignment(&mut self, partitions: BTreeSet<TopicPartition>, user_data: Option<Vec<u8>>, now: Now) {
        let deferral = self.chosen().map(|assignor| assignor.deferral(user_data.as_deref())).unwrap_or_default();
        self.base.out.timers.put(Timer::Deferred, deferral.rejoin_after.map(|left| now + left));
        let generation = self.generation;
        self.assignor_deferrals.ends_waits &= !self.last.ends_waits;
        self.last = LastAssignment { generation, partitions, user_data, current: true, ..LastAssignment::default() };
        self.last_at = now;
        self.report_reserved(deferral.losses);
        if self.then == AfterRevocation::JoinMeanwhile {
            self.then = AfterRevocation::Join;
        }
    }

    fn start_timers_of_generation(&mut self, now: Now) {
        // A JoinGroup that was held for long proves little about the session: no record of newly assigned partitions is
        // handed out before a heartbeat is answered.
        let interval = self.heartbeat_interval;
        let proved = self.base.lease.confirmed().is_some_and(|confirmed| now < confirmed + interval);
        self.base.heartbeats.cadence.quicken(NEXT_STEP_WITHIN, now);
        let wait = if proved { self.base.heartbeats.cadence.pause(interval, now) } else { Duration::ZERO };
        self.base.out.timers.set(Timer::Heartbeat, now + wait);
        if let Some(interval) = self.base.config.auto_commit_interval
            && self.base.out.timers.at(Timer::AutoCommit).is_none()
        {
            self.base.out.timers.set(Timer::AutoCommit, now + interval);
        }
    }

    fn start_assigned(&mut self, assigned: BTreeSet<TopicPartition>) {
        if assigned.is_empty() {
            return;
        }
        let with_ids = assigned.iter().map(|partition| (partition.clone(), self.topics.id(&partition.topic)));
        self.base.owned.extend(with_ids);
        self.base.offset_fetch.add(assigned.iter().cloned());
        self.base.out.push(Output::Assigned { partitions: assigned.clone() });
        self.base.out.call_back(CallbackKind::Assigned, assigned);
    }

    /// Revokes owned partitions that the assignment leaves out.
    fn give_up_revoked(&mut self, revoked: BTreeSet<TopicPartition>, outcome_was_unknown: bool) {
        match revoked.is_empty() {
            true => {}
            // The leader may have treated the owned partitions as outdated, and they may have other owners already: a
            // commit would overwrite those members' offsets.
            false if outcome_was_unknown => self.lose_after_unknown_join(revoked),
            // The partitions are being revoked already; others are revoked before the next join.
            false if self.base.revocation.is_some() => {}
            false => self.revoke(revoked, AfterRevocation::Join),
        }
    }

    fn lose_after_unknown_join(&mut self, mut lost: BTreeSet<TopicPartition>) {
        // The partitions that are being revoked may have other owners too: they are lost together with the others.
        let mut notified = BTreeSet::new();
        lost.extend(self.revoked_before_join().into_iter().flatten().cloned());
        if let Some(revocation) = self.base.revocation.take() {
            notified = revocation.notified();
            self.base.out.timers.clear(Timer::Revocation);
            self.set_joined_state();
        }
        self.base.release(&lost);
        let reason = "a JoinGroup had no answer, and the next assignment leaves them out";
        self.base.out.lose(lost, &notified, reason);
        // The leader may instead have kept them for this member; then they have no owner before the next rebalance.
        self.want_rejoin(reason.into());
    }
}

/// The number of these partitions of each topic.
fn counts(partitions: &[TopicPartition]) -> BTreeMap<Arc<str>, usize> {
    let mut counts = BTreeMap::new();
    for partition in partitions {
        *counts.entry(partition.topic.clone()).or_default() += 1;
    }
    counts
}
