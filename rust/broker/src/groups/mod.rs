//! Groups, classic, consumer (KIP-848) and share (KIP-932), and their offsets, by partition of `__consumer_offsets`.
//!
//! The groups of one partition form a [`Shard`]: the partition's leader loads it from the partition's log, and it is
//! dropped when the leader changes. Within a shard each group id has a [`Slot`]. A group is a pure state machine: its
//! input is the time and a request, its output is [`Effects`]: answers to pending requests, and records to store.
//! [`Core::change_group`] carries the effects out and maintains the queue of deadlines. Only the rare sweep of expired
//! offsets walks all groups.

mod classic;
mod commits;
pub(crate) mod consumer;
mod effects;
mod loading;
#[cfg(test)]
mod model;
mod offset_expiry;
mod offsets;
mod records;
pub(crate) mod share;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::join_group::JoinGroupRequest;
use monedula_protocol::messages::sync_group::SyncGroupRequest;

pub(crate) use classic::{ClassicGroup, Join, JoinRules, Leaver, MemberIdentity, Protocol, Sync};
pub(crate) use commits::{Commit, NewOffset, complete_transaction};
pub(crate) use consumer::ConsumerGroup;
pub(crate) use effects::{Effects, GroupAnswer, JoinAnswer, JoinedMember, SyncAnswer};
pub(crate) use offsets::{CommittedOffset, Offsets};
pub(crate) use share::{InitializedTopics, ShareGroup};

use crate::cluster::{Coordinated, NodeId};
use crate::core::Core;

/// All groups of the cluster.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// The slots of each partition of `__consumer_offsets`, as its leader keeps them.
    shards: BTreeMap<i32, BTreeMap<Arc<str>, Box<Slot>>>,
    /// The deadlines of groups: time, partition of `__consumer_offsets`, group id.
    due: BTreeSet<(i64, i32, Arc<str>)>,
    /// The partitions that are loading: the end of it, partition.
    loads: BTreeSet<(i64, i32)>,
    /// The time of the next sweep of expired offsets; `None` before the first partition was loaded.
    sweep_at_ms: Option<i64>,
}

/// The state of one group id: its group and its offsets.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) id: Arc<str>,
    /// `None` if there is no such group. A slot with neither a group nor offsets is dropped.
    pub(crate) group: Option<Group>,
    pub(crate) offsets: Offsets,
    /// The entry in [`Groups::due`].
    due_ms: Option<i64>,
}

/// A group of one of the protocols.
#[derive(Debug)]
pub(crate) enum Group {
    /// The classic protocol: the group leader, a member, computes the assignment.
    Classic(ClassicGroup),
    /// The consumer protocol (KIP-848): the coordinator computes the assignment.
    Consumer(ConsumerGroup),
    /// The share protocol (KIP-932): the members have records instead of partitions.
    Share(ShareGroup),
}

impl Group {
    /// The earliest deadline of the group.
    fn next_due_ms(&self) -> Option<i64> {
        match self {
            Self::Classic(group) => group.next_due_ms(),
            Self::Consumer(group) => group.next_due_ms(),
            Self::Share(group) => group.next_due_ms(),
        }
    }

    /// Answers all pending requests with an error, because this coordinator drops the group.
    fn abandon(&mut self, error: ErrorCode, effects: &mut Effects) {
        match self {
            Self::Classic(group) => group.abandon(error, effects),
            // Requests to the others are answered at once, so none is pending.
            Self::Consumer(_) | Self::Share(_) => {}
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Classic(group) => group.is_empty(),
            Self::Consumer(group) => group.is_empty(),
            Self::Share(group) => group.is_empty(),
        }
    }

    /// Kafka's name of its state.
    pub(crate) fn state(&self) -> &'static str {
        match self {
            Self::Classic(group) => group.state().name(),
            Self::Consumer(group) => group.state().name(),
            Self::Share(group) => group.state(),
        }
    }

    /// The protocol type, such as `consumer` or `connect`; empty for a group that only stores offsets.
    pub(crate) fn protocol_type(&self) -> &str {
        match self {
            Self::Classic(group) => group.protocol_type().map(|name| &**name).unwrap_or_default(),
            Self::Consumer(_) => "consumer",
            Self::Share(_) => "share",
        }
    }

    /// Kafka's name of its type.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Classic(_) => "classic",
            Self::Consumer(_) => "consumer",
            Self::Share(_) => "share",
        }
    }

    pub(crate) fn is_subscribed_to(&self, topic: &str) -> bool {
        match self {
            Self::Classic(group) => group.is_subscribed_to(topic),
            Self::Consumer(group) => group.is_subscribed_to(topic),
            Self::Share(group) => group.is_subscribed_to(topic),
        }
    }

    /// Checks the member id and epoch of an OffsetFetch, if it has them.
    ///
    /// # Errors
    /// The errors of [`ConsumerGroup::check_offset_fetch`].
    pub(crate) fn check_offset_fetch(&self, member_id: Option<&str>, member_epoch: i32) -> Result<(), ErrorCode> {
        match self {
            // An OffsetFetch for a classic group names no member.
            Self::Classic(_) => Ok(()),
            Self::Consumer(group) => group.check_offset_fetch(member_id, member_epoch),
            // It has no offsets of this kind.
            Self::Share(_) => Ok(()),
        }
    }

    /// Checks that OffsetDelete may delete offsets of the group.
    ///
    /// # Errors
    /// NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND for a share group.
    fn check_offset_delete(&self) -> Result<(), ErrorCode> {
        match self {
            // The subscriptions of members that are not consumers cannot be read, so any of their topics may be in use.
            Self::Classic(group) if !group.is_empty() && !group.is_of_consumers() => Err(ErrorCode::NonEmptyGroup),
            Self::Classic(_) | Self::Consumer(_) => Ok(()),
            Self::Share(_) => Err(ErrorCode::GroupIdNotFound),
        }
    }

    /// Stores the tombstones that remove the group from the log.
    fn store_gone(&self, id: &str, effects: &mut Effects) {
        match self {
            Self::Classic(_) => effects.store(records::classic_group_gone(id)),
            Self::Consumer(group) => group.tombstones().iter().for_each(|gone| effects.store(gone.record(id))),
            Self::Share(group) => group.store_gone(effects),
        }
    }
}

impl Slot {
    fn new(id: Arc<str>) -> Self {
        Self { id, group: None, offsets: Offsets::default(), due_ms: None }
    }

    /// Fires the timers that are due. Afterwards none may be due at this time, or [`Groups::tick`] would not end.
    fn expire(&mut self, core: &mut Core, effects: &mut Effects) {
        match &mut self.group {
            Some(Group::Classic(group)) => group.expire(core.now_ms, effects),
            Some(Group::Consumer(_)) => {
                let id = Arc::clone(&self.id);
                core.with_consumer_context(&id, |context| self.expire_consumer_members(context, effects));
            }
            Some(Group::Share(_)) => {
                let id = Arc::clone(&self.id);
                core.with_share_context(&id, |context| self.expire_share_members(context, effects));
            }
            None => {}
        }
    }

    /// Starts the timers of a group that was read back from the log.
    fn loaded(&mut self, core: &mut Core, effects: &mut Effects) {
        match &mut self.group {
            Some(Group::Classic(group)) => group.loaded(core.now_ms, core.join_rules(), effects),
            Some(Group::Consumer(group)) => {
                core.with_consumer_context(&self.id, |context| group.start_timers(context));
            }
            Some(Group::Share(group)) => {
                core.with_share_context(&self.id, |context| group.start_timers(context));
            }
            None => {}
        }
    }

    /// Removes the group and keeps its offsets.
    pub(crate) fn drop_group(&mut self, effects: &mut Effects) {
        if let Some(group) = self.group.take() {
            group.store_gone(&self.id, effects);
        }
    }

    fn is_vacant(&self) -> bool {
        self.group.is_none() && self.offsets.is_empty()
    }
}

impl Groups {
    /// The earliest deadline of all groups, loads and sweeps.
    pub(crate) fn next_due_ms(&self) -> Option<i64> {
        let group = self.due.first().map(|(due_ms, ..)| *due_ms);
        let load = self.loads.first().map(|(due_ms, _)| *due_ms);
        [group, load, self.sweep_at_ms].into_iter().flatten().min()
    }

    /// Ends the loads, runs the sweep and fires the groups' timers that are due.
    pub(crate) fn tick(core: &mut Core) {
        let now_ms = core.now_ms;
        while let Some(&(due_ms, partition)) = core.groups.loads.first().filter(|(due_ms, _)| *due_ms <= now_ms) {
            core.groups.loads.remove(&(due_ms, partition));
            Self::load(core, partition);
        }
        if core.groups.sweep_at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
            Self::sweep(core);
        }
        while let Some((due_ms, partition, id)) =
            core.groups.due.first().filter(|(due_ms, ..)| *due_ms <= now_ms).cloned()
        {
            log::trace!("group {id} of partition {partition} was due at {due_ms}");
            // On an error `change_group` logs it and reads the group back as it was stored.
            let _ = core.change_group(partition, &id, |core, slot, effects| slot.expire(core, effects));
        }
    }

    /// The slot of a group id, if there is one.
    pub(crate) fn slot(&self, partition: i32, id: &str) -> Option<&Slot> {
        Some(self.shards.get(&partition)?.get(id)?)
    }

    /// The slots of a partition, by id.
    pub(crate) fn slots(&self, partition: i32) -> impl Iterator<Item = &Slot> {
        self.shards.get(&partition).into_iter().flat_map(BTreeMap::values).map(|slot| &**slot)
    }

    /// The group ids of a partition's slots.
    fn ids(&self, partition: i32) -> Vec<Arc<str>> {
        self.slots(partition).map(|slot| Arc::clone(&slot.id)).collect()
    }

    /// The partitions of `__consumer_offsets` whose groups have been loaded.
    fn loaded_partitions(&self) -> Vec<i32> {
        self.shards.keys().copied().filter(|&partition| self.check_loaded(partition).is_ok()).collect()
    }

    /// Checks that a partition has a leader, which has loaded it.
    ///
    /// # Errors
    /// NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
    fn check_loaded(&self, partition: i32) -> Result<i32, ErrorCode> {
        if self.loads.iter().any(|(_, loading)| *loading == partition) {
            return Err(ErrorCode::CoordinatorLoadInProgress);
        }
        if self.shards.contains_key(&partition) { Ok(partition) } else { Err(ErrorCode::NotCoordinator) }
    }

    fn take(&mut self, partition: i32, id: &str) -> Box<Slot> {
        let found = self.shards.get_mut(&partition).and_then(|shard| shard.remove(id));
        found.unwrap_or_else(|| Box::new(Slot::new(id.into())))
    }

    /// Puts a slot back and updates its entry in the queue of deadlines.
    fn put(&mut self, partition: i32, mut slot: Box<Slot>) {
        let due_ms = slot.group.as_ref().and_then(Group::next_due_ms);
        if due_ms != slot.due_ms {
            if let Some(before_ms) = slot.due_ms {
                self.due.remove(&(before_ms, partition, Arc::clone(&slot.id)));
            }
            if let Some(due_ms) = due_ms {
                self.due.insert((due_ms, partition, Arc::clone(&slot.id)));
            }
            slot.due_ms = due_ms;
        }
        if !slot.is_vacant() {
            self.shards.entry(partition).or_default().insert(Arc::clone(&slot.id), slot);
        }
    }
}

impl Core {
    /// The partition of `__consumer_offsets` that a group belongs to, if `node` leads it and has loaded it.
    ///
    /// # Errors
    /// NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
    pub(crate) fn group_partition(&mut self, node: NodeId, group_id: &str) -> Result<i32, ErrorCode> {
        self.check_coordinator(Coordinated::Groups, group_id, node)?;
        self.groups.check_loaded(self.coordinator_partition(Coordinated::Groups, group_id))
    }

    /// The partitions of `__consumer_offsets` that a node leads.
    ///
    /// # Errors
    /// COORDINATOR_LOAD_IN_PROGRESS where one of them is not loaded yet.
    pub(crate) fn group_partitions_of(&self, node: NodeId) -> Result<Vec<i32>, ErrorCode> {
        let leads = |index: i32| {
            let partition = self.topics.partition(Coordinated::Groups.topic(), index);
            partition.is_some_and(|partition| partition.leader == Some(node))
        };
        let led = self.groups.shards.keys().filter(|index| leads(**index));
        led.map(|&index| self.groups.check_loaded(index)).collect()
    }

    /// Runs `change` on the slot of a group id and carries out its effects: stores the records, then sends the answers.
    ///
    /// `change` may create or remove the group of the slot. It must not touch other groups.
    ///
    /// # Errors
    /// Records that cannot be stored. The change is undone then: the group is read back as it was stored.
    pub(crate) fn change_group<T>(
        &mut self,
        partition: i32,
        group_id: &str,
        change: impl FnOnce(&mut Self, &mut Slot, &mut Effects) -> T,
    ) -> Result<T, ErrorCode> {
        let mut slot = self.groups.take(partition, group_id);
        let mut effects = Effects::default();
        let outcome = change(self, &mut slot, &mut effects);
        let stored = match effects.broken.take() {
            Some(error) => Err(error),
            None => self.store(Coordinated::Groups, partition, &effects.records),
        };
        match stored {
            Ok(()) => {
                self.groups.put(partition, slot);
                self.send_group_answers(effects);
                Ok(outcome)
            }
            Err(error) => {
                log::error!("group {group_id} could not be stored: {error}");
                self.send_group_answers(effects.failed(error));
                Groups::restore(self, partition, slot, error);
                Err(error)
            }
        }
    }

    /// The broker's settings for JoinGroup.
    pub(crate) fn join_rules(&self) -> JoinRules {
        JoinRules {
            initial_delay_ms: self.settings.kafka.group_initial_rebalance_delay_ms,
            max_size: usize::try_from(self.settings.kafka.group_max_size).unwrap_or(0),
        }
    }

    fn send_group_answers(&mut self, effects: Effects) {
        for (ticket, answer) in effects.answers {
            match answer {
                GroupAnswer::Join(answer) => {
                    self.answer::<JoinGroupRequest<'_>>(ticket, &answer.response(ticket.version));
                }
                GroupAnswer::Sync(answer) => self.answer::<SyncGroupRequest<'_>>(ticket, &answer.response()),
            }
        }
    }
}
