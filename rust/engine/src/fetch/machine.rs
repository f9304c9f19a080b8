//! The machine: what it knows, how inputs reach its parts, and what these have in common. What each kind of input leads
//! to is in the files beside this one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use monedula_protocol::types::Uuid;

use super::AssignmentId;
use super::commands::Assignment;
use super::config::FetchConfig;
use super::fault::Fault;
use super::io::{Input, Output};
use super::node::{Demand, FetchNode};
use super::partition::Phase;
use super::partition_table::PartitionTable;
use crate::backoff::Jitter;
use crate::{Now, TopicPartition};

/// Decides what is fetched from whom. It does no I/O: a driver gives it inputs, and does what it puts out.
///
/// # Contract
///
/// **Time** is an argument of [`handle`](Self::handle), [`ready_nodes`](Self::ready_nodes) and
/// [`poll_fetch`](Self::poll_fetch), and never goes back from one call to the next. Every input lets time pass first:
/// timers that are due by then act before it.
///
/// **Inputs.** [`handle`](Self::handle) takes what happened: commands of the user, metadata, answers, or nothing but
/// time ([`Input::Tick`]). What an input names that is no longer assigned, or only under another reading, is ignored.
///
/// **Outputs.** Call [`poll`](Self::poll) after every `handle`, until it returns `None`, and carry the outputs out in
/// their order. Only `handle` makes outputs. [`Output::Fetched`] refers to the answer of the input just handled, so
/// that answer has to be kept until then. Each [`Output::ListOffset`], [`Output::ListLogRange`] and
/// [`Output::OffsetForLeaderEpoch`] is to be answered once; where a later one names the same partition, the earlier one
/// needs no answer.
///
/// **Fetches** are pulled, since only the driver knows whether there is memory for one. Once the outputs are drained,
/// and whenever memory was freed, offer [`poll_fetch`](Self::poll_fetch) to the nodes of
/// [`ready_nodes`](Self::ready_nodes), in their order. A plan that it returns counts as sent: exactly one
/// [`Input::FetchAnswer`] or [`Input::FetchFailed`] must follow.
///
/// **Waking.** [`wake_at`](Self::wake_at), asked after all of that, says when to give it a [`Input::Tick`] and to offer
/// fetches again if nothing else happens before.
#[derive(Debug)]
pub struct FetchMachine {
    pub(super) config: FetchConfig,
    pub(super) jitter: Jitter,
    /// Time of the last call that had one.
    pub(super) now: Now,
    pub(super) partitions: PartitionTable,
    /// Partitions of bounded reads that are fetched to their ends.
    pub(super) complete: BTreeSet<AssignmentId>,
    pub(super) by_partition: BTreeMap<TopicPartition, AssignmentId>,
    pub(super) by_id: BTreeMap<(Uuid, i32), AssignmentId>,
    pub(super) nodes: BTreeMap<i32, FetchNode>,
    /// Names of partitions that are no longer assigned but that a fetch session may still hold.
    pub(super) retired: BTreeMap<AssignmentId, TopicPartition>,
    /// Brokers that the last metadata had.
    pub(super) brokers: BTreeSet<i32>,
    timers: BTreeSet<(Now, AssignmentId)>,
    outputs: VecDeque<Output>,
    refresh_wanted: bool,
    pub(super) next_id: AssignmentId,
    /// Fetches sent so far.
    pub(super) requests: u64,
    /// Fetches answered so far.
    pub(super) answers: u64,
}

impl FetchMachine {
    /// The time that the first fetch from a node waits for lookups of partitions led by it: without them it would be a
    /// long poll that leaves these out.
    const HOLD: Duration = Duration::from_millis(200);

    /// A machine without partitions; `seed` decides its jitter.
    pub fn new(config: FetchConfig, seed: u64) -> Self {
        Self {
            config,
            jitter: Jitter::new(seed),
            now: Now::ZERO,
            partitions: PartitionTable::default(),
            complete: BTreeSet::new(),
            by_partition: BTreeMap::new(),
            by_id: BTreeMap::new(),
            nodes: BTreeMap::new(),
            retired: BTreeMap::new(),
            brokers: BTreeSet::new(),
            timers: BTreeSet::new(),
            outputs: VecDeque::new(),
            refresh_wanted: false,
            next_id: 0,
            requests: 0,
            answers: 0,
        }
    }

    /// Takes an input, at a time that never goes back. Drain [`Self::poll`] afterwards.
    pub fn handle(&mut self, now: Now, input: Input<'_>) {
        self.now = now;
        self.take_due_timers(now);
        match input {
            Input::Tick => {}
            Input::MetadataUpdate { cluster } => self.update_metadata(cluster, now),
            Input::Assign { partition, reading_id, start, end, waits_for_topic, cluster } => {
                self.assign(partition, Assignment { reading_id, start, end, waits_for_topic }, cluster, now);
            }
            Input::Unassign { partition } => self.unassign(partition, now),
            Input::Seek { partition, reading_id, start, cluster } => {
                self.seek(partition, reading_id, start, cluster, now)
            }
            Input::Pause { partition, paused } => self.pause(partition, paused, now),
            Input::Rewind { partition, reading_id, offset } => self.rewind(partition, reading_id, offset, now),
            Input::Unreadable { partition, reading_id, offset } => self.unreadable(partition, reading_id, offset, now),
            Input::FetchAnswer { node, answer } => self.fetch_answered(node, answer, now),
            Input::FetchFailed { node } => self.fetch_failed(node, now),
            Input::ListedOffset { partition, reading_id, answer } => {
                self.offset_listed(partition, reading_id, answer, now)
            }
            Input::EpochEnd { partition, reading_id, answer } => {
                self.epoch_end_found(partition, reading_id, answer, now)
            }
        }
    }

    /// The next output; `None` when all are drained.
    pub fn poll(&mut self) -> Option<Output> {
        if std::mem::take(&mut self.refresh_wanted) {
            return Some(Output::RefreshMetadata);
        }
        self.outputs.pop_front()
    }

    /// Nodes that [`Self::poll_fetch`] has a request for, the one that was asked longest ago first: where memory does
    /// not do for all of them, each has its turn.
    pub fn ready_nodes(&self, now: Now) -> Vec<i32> {
        let ready = self.nodes.iter().filter(|(_, node)| node.is_ready(now));
        let mut ready: Vec<(u64, i32)> = ready.map(|(&id, node)| (node.asked, id)).collect();
        ready.sort_unstable();
        ready.into_iter().map(|(_, id)| id).collect()
    }

    /// The time to give an [`Input::Tick`] and to look at [`Self::ready_nodes`] if nothing else happens before.
    pub fn wake_at(&self) -> Option<Now> {
        let timer = self.timers.first().map(|&(at, _)| at);
        let node = self.nodes.values().filter_map(FetchNode::wake_at).filter(|&at| at > self.now);
        timer.into_iter().chain(node).min()
    }

    /// Tells whether there are partitions, each with an end, and everything before the ends is fetched.
    pub fn is_complete(&self) -> bool {
        self.partitions.len() > 0 && self.complete.len() == self.partitions.len()
    }

    /// Tells whether the log of a partition at `node` holds more than was fetched, as far as is known.
    pub fn is_behind(&self, node: i32) -> bool {
        self.nodes.get(&node).is_some_and(FetchNode::is_behind)
    }

    /// The number of nodes that have something to fetch.
    pub fn demand(&self) -> Demand {
        let mut demand = Demand::default();
        for node in self.nodes.values().filter(|node| !node.members.is_empty()) {
            let is_behind = node.is_behind();
            demand.behind += usize::from(is_behind);
            demand.caught_up += usize::from(!is_behind);
            demand.caught_up_unasked += usize::from(!is_behind && node.sent_at.is_none());
        }
        demand
    }

    /// The number of looks at the state of a partition so far. A fetch looks at partitions that changed since the last
    /// one, not at all that are assigned.
    pub fn looks(&self) -> u64 {
        self.partitions.looks()
    }

    /// The numbers of stopped and of assigned partitions.
    pub fn stopped(&self) -> (usize, usize) {
        let stopped = self.partitions.values().filter(|state| state.phase == Phase::Failed).count();
        (stopped, self.partitions.len())
    }

    fn take_due_timers(&mut self, now: Now) {
        while let Some(&(at, id)) = self.timers.first() {
            if at > now {
                break;
            }
            self.timers.pop_first();
            self.touch(id, now);
        }
    }

    /// The assignment of `partition`, if it is still read as `reading_id`.
    pub(super) fn current(&self, partition: &TopicPartition, reading_id: u64) -> Option<AssignmentId> {
        let id = *self.by_partition.get(partition)?;
        (self.partitions.get(&id)?.reading_id == reading_id).then_some(id)
    }

    pub(super) fn emit(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    pub(super) fn want_metadata(&mut self) {
        self.refresh_wanted = true;
    }

    pub(super) fn set_phase(&mut self, id: AssignmentId, phase: Phase) {
        if let Some(state) = self.partitions.get_mut(&id) {
            state.phase = phase;
        }
    }

    /// Stops a partition for good, or until the user seeks.
    pub(super) fn stop(&mut self, id: AssignmentId, fault: Fault) {
        let Some(state) = self.partitions.get_mut(&id) else { return };
        if state.phase != Phase::Failed {
            state.phase = Phase::Failed;
            let reading_id = state.reading_id;
            self.emit(Output::Stopped { reading_id, fault });
        }
    }

    /// Waits a little longer each time before the partition is tried again.
    pub(super) fn back_off(&mut self, id: AssignmentId, now: Now) {
        let Some(state) = self.partitions.get_mut(&id) else { return };
        state.retry_at = now + self.config.backoff.delay(state.attempts, &mut self.jitter);
        state.attempts += 1;
    }

    /// Reading goes on at `offset`. `moved_from` is the position before, if the log does not hold it.
    pub(super) fn position(&mut self, id: AssignmentId, offset: i64, offset_epoch: i32, moved_from: Option<i64>) {
        let Some(state) = self.partitions.get_mut(&id) else { return };
        (state.offset, state.offset_epoch, state.phase) = (offset, offset_epoch, Phase::Fetching);
        state.attempts = 0;
        let (partition, reading_id) = (state.partition.clone(), state.reading_id);
        self.emit(Output::Positioned { partition, reading_id, offset, moved_from });
    }

    /// Brings timers, the lookup and the fetch session's membership of a partition up to date with its state.
    pub(super) fn touch(&mut self, id: AssignmentId, now: Now) {
        let Some(state) = self.partitions.get_mut(&id) else { return };
        let fetched_from = state.fetchable_at(now);
        if let Some(old) = state.fetched_from.filter(|&old| Some(old) != fetched_from)
            && let Some(node) = self.nodes.get_mut(&old)
        {
            node.remove(id);
        }
        state.fetched_from = fetched_from;
        if state.is_complete() {
            self.complete.insert(id);
        } else {
            self.complete.remove(&id);
        }
        if let Some(node) = fetched_from {
            self.nodes.entry(node).or_default().add(id, state);
        }
        if state.phase != Phase::Failed && state.retry_at > now {
            self.timers.insert((state.retry_at, id));
        }
        if let Some((_, until)) = state.preferred.filter(|&(_, until)| until > now) {
            self.timers.insert((until, id));
        }
        self.look_up(id, now);
    }

    /// Begins the lookup that the partition needs in its phase, unless one is in flight, or it backs off.
    fn look_up(&mut self, id: AssignmentId, now: Now) {
        let Some(state) = self.partitions.get_mut(&id) else { return };
        let Some(leader) = state.leader.filter(|_| state.lookup_at.is_none() && state.retry_at <= now) else { return };
        let (partition, reading_id) = (state.partition.clone(), state.reading_id);
        let output = match state.phase {
            Phase::ListingOffset(start) | Phase::Moving(start) => Output::ListOffset { partition, reading_id, start },
            Phase::OutOfRange => Output::ListLogRange { partition, reading_id },
            Phase::Validating => {
                let (leader_epoch, offset_epoch) = (state.leader_epoch, state.offset_epoch);
                Output::OffsetForLeaderEpoch { partition, reading_id, leader_epoch, offset_epoch }
            }
            Phase::Fetching | Phase::Failed => return,
        };
        state.lookup_at = Some(leader);
        let node = self.nodes.entry(leader).or_default();
        if node.lookups == 0 {
            node.hold_until = now + Self::HOLD;
        }
        node.lookups += 1;
        self.emit(output);
    }

    /// The partition whose lookup was answered, unless it has another reading or another lookup by now.
    pub(super) fn take_lookup(&mut self, partition: &TopicPartition, reading_id: u64) -> Option<AssignmentId> {
        let id = self.current(partition, reading_id)?;
        let lookup_at = self.partitions.get_mut(&id)?.lookup_at.take()?;
        self.end_lookup(Some(lookup_at));
        Some(id)
    }

    /// Counts a lookup of this leader as ended: answered, or no longer awaited.
    pub(super) fn end_lookup(&mut self, lookup_at: Option<i32>) {
        if let Some(node) = lookup_at.and_then(|id| self.nodes.get_mut(&id)) {
            node.lookups = node.lookups.saturating_sub(1);
        }
    }
}
