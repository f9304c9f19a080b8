//! The part of a member that both protocols have.

use std::collections::{BTreeMap, BTreeSet};

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use super::config::MemberConfig;
use super::find_coordinator::FindCoordinator;
use super::revocation::{Revocation, RevocationStep};
use crate::group::error::GroupError;
use crate::group::liveness::{Heartbeats, Lease, UserPolls};
use crate::group::messages::{
    Call, CallId, CallKind, GroupEvent, GroupOutcome, GroupResponse, Output, Reaction, Target, Ticket, topic_ids,
};
use crate::group::offsets::{Commits, FirstSeen, OffsetFetch, OffsetsFetched};
use crate::group::outbox::{Outbox, Timer};
use crate::group::state::GroupProtocol;
use crate::{Now, TopicPartition};

/// The end of a membership, as the user wants it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exit {
    /// Set if the consumer is closed: [`Output::Closed`] follows.
    pub(crate) close: bool,
    /// Set if a member that is not static leaves the group with a request.
    pub(crate) leave: bool,
}

/// The end of a membership, while it lasts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Leave {
    /// The end that the user wants; `None` while the membership goes on.
    pub(crate) exit: Option<Exit>,
    /// The request that leaves the group.
    pub(crate) in_flight: Option<CallId>,
    /// Closing is done: [`Output::Closed`] is pushed after all other outputs.
    pub(crate) closed: bool,
}

/// The part of a member that both protocols have: what it owns, commits and revokes, its lease, and its calls.
pub(crate) struct MemberBase {
    pub(crate) config: MemberConfig,
    pub(crate) out: Outbox,
    pub(crate) coordinator: FindCoordinator,
    /// The owned partitions, each with the id that its topic had when the partition was assigned: the topic whose
    /// offsets are read and committed. Zero if the id is not known.
    pub(crate) owned: BTreeMap<TopicPartition, Uuid>,
    pub(crate) revocation: Option<Revocation>,
    pub(crate) heartbeats: Heartbeats,
    pub(crate) lease: Lease,
    pub(crate) commits: Commits,
    pub(crate) offset_fetch: OffsetFetch,
    pub(crate) user_polls: UserPolls,
    pub(crate) leave: Leave,
    pub(crate) fatal: Option<GroupError>,
}

impl MemberBase {
    /// `seed` determines the jitter.
    pub(crate) fn new(config: MemberConfig, seed: u64) -> Self {
        Self {
            out: Outbox::new(config.backoff, seed),
            coordinator: FindCoordinator::default(),
            owned: BTreeMap::new(),
            revocation: None,
            heartbeats: Heartbeats::new(config.quick_heartbeats),
            lease: Lease::default(),
            commits: Commits::default(),
            offset_fetch: OffsetFetch::default(),
            user_polls: UserPolls::default(),
            leave: Leave::default(),
            fatal: None,
            config,
        }
    }

    /// Sends a call to the coordinator, if it is known.
    pub(crate) fn send(&mut self, kind: CallKind, call: Call, generation_or_epoch: i32, now: Now) -> Option<CallId> {
        let target = Target::Coordinator { node_id: self.coordinator.node_id()? };
        Some(self.out.send(kind, target, call, generation_or_epoch, now))
    }

    /// Sends the next commit, if the lease holds and no backoff has to pass first.
    pub(crate) fn send_commit(&mut self, protocol: GroupProtocol, member_id: &str, generation_or_epoch: i32, now: Now) {
        let may = self.lease.holds(now) && !self.out.timers.waits(Timer::OffsetCommit, now);
        if !may || self.coordinator.node_id().is_none() {
            return;
        }
        let Some(offsets) = self.commits.next().cloned() else { return };
        let call = Call::OffsetCommit {
            protocol,
            group_id: self.config.group_id.clone(),
            member_id: member_id.to_owned(),
            instance_id: self.config.instance_id.clone(),
            generation_or_epoch,
            topic_ids: topic_ids(&self.owned, offsets.keys()),
            offsets,
        };
        let sent = self.send(CallKind::OffsetCommit, call, generation_or_epoch, now);
        self.commits.sent(sent);
    }

    /// Asks for the committed offsets of these partitions. `member`: its id and epoch; KIP-848 only.
    pub(crate) fn fetch_offsets(
        &mut self,
        partitions: BTreeSet<TopicPartition>,
        member: Option<(String, i32)>,
        generation_or_epoch: i32,
        now: Now,
    ) {
        let call = Call::OffsetFetch {
            group_id: self.config.group_id.clone(),
            member,
            topic_ids: topic_ids(&self.owned, partitions.iter()),
            partitions: partitions.iter().cloned().collect(),
        };
        let sent = self.send(CallKind::OffsetFetch, call, generation_or_epoch, now);
        self.offset_fetch.sent(sent, partitions);
    }

    /// Takes the answer to an OffsetFetch.
    pub(crate) fn offsets_fetched(
        &mut self,
        id: CallId,
        outcome: GroupOutcome,
        reaction: impl Fn(CallKind, ErrorCode) -> Reaction,
        first_seen: &FirstSeen,
        now: Now,
    ) -> OffsetsFetched {
        if !self.offset_fetch.is_answer(id) {
            return OffsetsFetched::Done;
        }
        if let Ok(GroupResponse::OffsetFetch { code, .. }) = outcome {
            self.coordinator.heard(code);
        }
        let reaction = |code| reaction(CallKind::OffsetFetch, code);
        self.offset_fetch.answered(outcome, reaction, first_seen, &mut self.out, now)
    }

    /// Removes partitions from the owned ones.
    pub(crate) fn release(&mut self, partitions: &BTreeSet<TopicPartition>) {
        self.owned.retain(|partition, _| !partitions.contains(partition));
        self.offset_fetch.release(partitions);
    }

    /// Releases all owned partitions at once, without a revocation: other members may own them already. `code` is the
    /// coordinator's error, if there was one. Returns the ticket of the Lost callback, if it runs.
    pub(crate) fn lose(&mut self, code: Option<ErrorCode>, reason: &str) -> Option<Ticket> {
        let notified = self.revocation.take().map(|it| it.notified()).unwrap_or_default();
        let lost: BTreeSet<TopicPartition> = std::mem::take(&mut self.owned).into_keys().collect();
        // Another member may commit these partitions before this one is assigned them again: the offsets that an
        // OffsetFetch in flight returns do not count.
        self.offset_fetch.clear();
        self.commits.fail_lost(code, &mut self.out);
        self.out.timers.clear(Timer::Revocation);
        self.out.lose(lost, &notified, reason)
    }

    pub(crate) fn lease_over(&mut self) {
        if !self.owned.is_empty() {
            self.lease.expire(&mut self.out);
        }
    }

    /// Watches the user's polls, unless the member leaves: leaving has its own deadline.
    pub(crate) fn watch_polls(&mut self, are_needed: bool) {
        let watched = are_needed && self.leave.exit.is_none();
        self.out.timers.put(Timer::Poll, watched.then(|| self.user_polls.due(self.config.max_poll_interval)));
    }

    /// Begins to end the membership.
    pub(crate) fn leave_for(&mut self, exit: Exit, deadline: Now) {
        let close = exit.close || self.leave.exit.is_some_and(|exit| exit.close);
        self.leave.exit = Some(Exit { close, ..exit });
        self.out.timers.bring_forward(Timer::Close, deadline);
        // The revocation restarts with all owned partitions, unless the user has already finished its part: a commit in
        // flight cannot be taken back, nor can a callback.
        if let Some(revocation) = self.revocation.take_if(|it| it.step() == RevocationStep::Finishing) {
            Commits::give_back(revocation.into_parts().1, &mut self.out);
        }
    }

    /// Asks the user to finish what was handed out of these partitions. From here on none of their records is handed
    /// out. That comes before the finished offsets are collected; otherwise records would be handed out after the
    /// collection (KAFKA-16460).
    pub(crate) fn begin_revocation(&mut self, partitions: BTreeSet<TopicPartition>) {
        let ticket = self.out.new_id();
        self.out.event(GroupEvent::RebalanceWanted { partitions: partitions.clone() });
        self.out.push(Output::PrepareRevocation { ticket, partitions: partitions.clone() });
        self.revocation = Some(Revocation::new(ticket, partitions));
    }

    /// Takes the partitions of the revocation, to release them.
    pub(crate) fn take_revoked(&mut self) -> Option<BTreeSet<TopicPartition>> {
        let (partitions, _) = self.revocation.take()?.into_parts();
        self.out.timers.clear(Timer::Revocation);
        Some(partitions)
    }
}
