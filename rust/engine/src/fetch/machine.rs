//! The machine itself: commands, news and timers; answers of fetches are in `answer`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use monedula_protocol::types::Uuid;

use super::AssignmentId;
use super::fault::Fault;
use super::node::{Demand, Node};
use super::partition::{PartitionState, Phase, ResetPolicy, Start};
use super::partition_table::PartitionTable;
use super::session::Sent;
use crate::backoff::{Backoff, Jitter};
use crate::cluster::Cluster;
use crate::{Now, TopicPartition};

/// Settings of the machine.
#[derive(Clone, Debug)]
pub struct FetchConfig {
    /// Where to go without a position (`auto.offset.reset`).
    pub reset: ResetPolicy,
    /// How long a broker may wait for `fetch.min.bytes` (`fetch.max.wait.ms`).
    pub max_wait: Duration,
    /// Cap of one partition's bytes in an answer (`max.partition.fetch.bytes`).
    pub max_partition_bytes: i32,
    /// How long a preferred replica is used before the leader is asked again (KIP-392; `metadata.max.age.ms`).
    pub preferred_replica_ttl: Duration,
    /// Waits between repetitions (`retry.backoff.ms`, `retry.backoff.max.ms`).
    pub backoff: Backoff,
    /// After how many answers in a row a topic that metadata does not know counts as missing.
    pub unknown_topic_answers: u32,
}

/// What the driver has to do, or to pass on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Look up where `start` is (ListOffsets, one attempt) and call [`FetchMachine::resolved`].
    ListOffset {
        /// Partition.
        partition: TopicPartition,
        /// Span to echo.
        span: u64,
        /// What to look up; never an offset.
        start: Start,
    },
    /// Look up both ends of the log and call [`FetchMachine::resolved`] with `log_start` set.
    ListLogRange {
        /// Partition.
        partition: TopicPartition,
        /// Span to echo.
        span: u64,
    },
    /// Ask the leader where `offset_epoch` ends (OffsetForLeaderEpoch) and call [`FetchMachine::validated`].
    OffsetForLeaderEpoch {
        /// Partition.
        partition: TopicPartition,
        /// Span to echo.
        span: u64,
        /// Epoch of the leader to be asked.
        leader_epoch: i32,
        /// Epoch of the record before the position.
        offset_epoch: i32,
    },
    /// Fetch metadata of all topics of interest, soon.
    RefreshMetadata,
    /// A broker named a newer leader (KIP-951): merge it and call [`FetchMachine::cluster_changed`].
    LeaderHint {
        /// Partition.
        partition: TopicPartition,
        /// Node id of the new leader.
        leader: i32,
        /// Its epoch.
        leader_epoch: i32,
    },
    /// Reading goes on at `offset`. `moved_from` is the position that was given up because the log no longer holds it.
    Positioned {
        /// Partition.
        partition: TopicPartition,
        /// Its span.
        span: u64,
        /// Offset of the next record.
        offset: i64,
        /// The lost position, if one was.
        moved_from: Option<i64>,
    },
    /// The partition stopped; tell the user.
    Stopped {
        /// Its span.
        span: u64,
        /// Why.
        fault: Fault,
    },
}

/// A fetch request to be sent to one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchPlan {
    /// Session id and epoch (KIP-227).
    pub session_id: i32,
    /// Session epoch.
    pub session_epoch: i32,
    /// Partitions to add or change, with their topic ids.
    pub partitions: Vec<(TopicPartition, Uuid, Sent)>,
    /// Partitions that the broker may forget.
    pub forget: Vec<(TopicPartition, Uuid)>,
    /// Whether every topic id is known, so that version 13 or newer can be spoken.
    pub by_topic_id: bool,
}

/// See the [module](super).
#[derive(Debug)]
pub struct FetchMachine {
    pub(super) config: FetchConfig,
    pub(super) jitter: Jitter,
    pub(super) partitions: PartitionTable,
    /// Partitions of bounded reads that are fetched to their ends.
    complete: BTreeSet<AssignmentId>,
    pub(super) by_partition: BTreeMap<TopicPartition, AssignmentId>,
    pub(super) by_id: BTreeMap<(Uuid, i32), AssignmentId>,
    pub(super) nodes: BTreeMap<i32, Node>,
    /// Names of partitions that were given up but that a session may still hold.
    pub(super) retired: BTreeMap<AssignmentId, TopicPartition>,
    pub(super) brokers: BTreeSet<i32>,
    timers: BTreeSet<(Now, AssignmentId)>,
    outputs: VecDeque<Output>,
    refresh_wanted: bool,
    next_id: AssignmentId,
    /// Requests so far.
    requests: u64,
    /// Answers so far.
    pub(super) answers: u64,
}

impl FetchMachine {
    /// How long the first fetch of a node waits for lookups of partitions led by it.
    pub(super) const HOLD: Duration = Duration::from_millis(200);

    /// A machine without partitions; `seed` decides its jitter.
    pub fn new(config: FetchConfig, seed: u64) -> Self {
        Self {
            config,
            jitter: Jitter::new(seed),
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

    /// Starts reading `partition` as `span`, replacing what it was read as before.
    pub fn assign(&mut self, partition: TopicPartition, span: u64, start: Start, cluster: &Cluster, now: Now) {
        self.unassign(&partition, now);
        let id = self.next_id;
        self.next_id += 1;
        let state = PartitionState {
            partition: partition.clone(),
            span,
            phase: Phase::Failed,
            paused: false,
            offset: 0,
            offset_epoch: -1,
            topic_id: Uuid::ZERO,
            leader: None,
            leader_epoch: -1,
            preferred: None,
            max_bytes: self.config.max_partition_bytes,
            attempts: 0,
            retry_at: Now::ZERO,
            home: None,
            lookup: None,
            missing_answers: 0,
            end: None,
            high_watermark: None,
            unknown_before: 0,
            served: 0,
            waits_for_topic: false,
        };
        self.partitions.insert(id, state);
        self.by_partition.insert(partition, id);
        self.start(id, start);
        self.learn(id, cluster, false, now);
        self.touch(id, now);
    }

    /// Stops reading `partition`.
    pub fn unassign(&mut self, partition: &TopicPartition, now: Now) {
        let Some(id) = self.by_partition.remove(partition) else { return };
        if let Some(state) = self.partitions.get_mut(&id) {
            state.phase = Phase::Failed;
        }
        self.touch(id, now);
        let Some(state) = self.partitions.remove(&id) else { return };
        self.complete.remove(&id);
        self.end_lookup(state.lookup);
        self.by_id.remove(&(state.topic_id, partition.partition));
        if self.nodes.values().any(|node| node.session.asked(id).is_some()) {
            self.retired.insert(id, state.partition);
        }
    }

    /// Has `partition` wait for its topic where that is missing, as members of groups do: the next rebalance takes it away,
    /// unless the topic is back.
    pub fn wait_for_topic(&mut self, partition: &TopicPartition) {
        if let Some(state) = self.by_partition.get(partition).and_then(|id| self.partitions.get_mut(id)) {
            state.waits_for_topic = true;
        }
    }

    /// Goes on elsewhere in `partition`, as `span`. Mends a partition that stopped. A recreated topic is adopted.
    pub fn seek(&mut self, partition: &TopicPartition, span: u64, start: Start, cluster: &Cluster, now: Now) {
        let Some(&id) = self.by_partition.get(partition) else { return };
        if let Some(state) = self.partitions.get_mut(&id) {
            state.span = span;
            state.attempts = 0;
            state.retry_at = Now::ZERO;
            state.missing_answers = 0;
            state.high_watermark = None;
            self.by_id.remove(&(state.topic_id, partition.partition));
            state.topic_id = Uuid::ZERO;
            let lookup = state.lookup.take();
            self.end_lookup(lookup);
        }
        self.start(id, start);
        self.learn(id, cluster, false, now);
        self.touch(id, now);
    }

    /// Fetches `partition` only up to `end`, exclusive; whole batches may reach beyond it.
    pub fn bound(&mut self, partition: &TopicPartition, end: i64, now: Now) {
        let Some(&id) = self.by_partition.get(partition) else { return };
        if let Some(state) = self.partitions.get_mut(&id) {
            state.end = Some(end);
        }
        self.touch(id, now);
    }

    /// Whether there are partitions, each with an end, and everything before the ends is fetched.
    pub fn is_complete(&self) -> bool {
        self.partitions.len() > 0 && self.complete.len() == self.partitions.len()
    }

    /// Pauses or resumes fetching `partition`. What was fetched stays with the driver.
    pub fn set_paused(&mut self, partition: &TopicPartition, paused: bool, now: Now) {
        let Some(&id) = self.by_partition.get(partition) else { return };
        if let Some(state) = self.partitions.get_mut(&id) {
            state.paused = paused;
        }
        self.touch(id, now);
    }

    /// The driver dropped what it had of `partition` from `offset` on, what stopped the partition behind that included: it
    /// will come up again.
    pub fn rewind(&mut self, partition: &TopicPartition, span: u64, offset: i64, now: Now) {
        let Some(id) = self.current(partition, span) else { return };
        let Some(state) = self.partitions.get_mut(&id) else { return };
        (state.offset, state.offset_epoch) = (offset, -1);
        if state.phase == Phase::Failed {
            state.phase = Phase::Fetching;
            // Of a partition that stopped no news was taken: its leader, and whether its topic still is what it was.
            self.want_metadata();
        }
        self.touch(id, now);
    }

    /// The driver found `partition` unreadable at `offset`.
    pub fn unreadable(&mut self, partition: &TopicPartition, span: u64, offset: i64, now: Now) {
        let Some(id) = self.current(partition, span) else { return };
        if let Some(state) = self.partitions.get_mut(&id) {
            (state.offset, state.offset_epoch, state.phase) = (offset, -1, Phase::Failed);
        }
        self.touch(id, now);
    }

    /// Lets timers act that are due.
    pub fn tick(&mut self, now: Now) {
        while let Some(&(at, id)) = self.timers.first() {
            if at > now {
                break;
            }
            self.timers.pop_first();
            self.touch(id, now);
        }
    }

    /// When [`Self::tick`] or [`Self::ready_nodes`] will next have something to say without any other call.
    pub fn wake_at(&self, now: Now) -> Option<Now> {
        let timer = self.timers.first().map(|&(at, _)| at);
        let nodes = self.nodes.values().filter(|node| node.sent_at.is_none() && !node.members.is_empty());
        let node = nodes.filter_map(|node| {
            let held = if node.lookups > 0 { node.hold_until } else { Now::ZERO };
            let at = node.retry_at.max(held);
            (at > now).then_some(at)
        });
        timer.into_iter().chain(node).min()
    }

    /// Drains what is to be done.
    pub fn poll(&mut self) -> Option<Output> {
        if std::mem::take(&mut self.refresh_wanted) {
            return Some(Output::RefreshMetadata);
        }
        self.outputs.pop_front()
    }

    /// Nodes that [`Self::next_fetch`] has a request for, the one that was asked longest ago first: where memory does not do
    /// for all of them, each has its turn.
    pub fn ready_nodes(&self, now: Now) -> Vec<i32> {
        let ready = self.nodes.iter().filter(|(_, node)| node.is_ready(now));
        let mut ready: Vec<(u64, i32)> = ready.map(|(&id, node)| (node.asked, id)).collect();
        ready.sort_unstable();
        ready.into_iter().map(|(_, id)| id).collect()
    }

    /// Whether more of a partition is there at `node` than was fetched, as far as is known.
    pub fn is_behind(&self, node: i32) -> bool {
        self.nodes.get(&node).is_some_and(Node::is_behind)
    }

    /// How many nodes there is something to fetch from.
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

    /// How often a partition was looked at so far. A fetch looks at what changed since the last one, not at all that is
    /// assigned.
    pub fn looks(&self) -> u64 {
        self.partitions.looks()
    }

    /// Whether any partition stopped, and how many are assigned.
    pub fn stopped(&self) -> (usize, usize) {
        let stopped = self.partitions.values().filter(|state| state.phase == Phase::Failed).count();
        (stopped, self.partitions.len())
    }

    /// The request to send to `node` now; it counts as sent.
    pub fn next_fetch(&mut self, node_id: i32, now: Now) -> Option<FetchPlan> {
        let node = self.nodes.get_mut(&node_id)?;
        if !node.is_ready(now) {
            return None;
        }
        self.requests += 1;
        node.asked = self.requests;
        let by_topic_id = node.knows_topic_ids();
        if by_topic_id != node.by_topic_id {
            // A session speaks of topics by name or by id, not both: the other needs a new one.
            node.session.failed(None);
            node.by_topic_id = by_topic_id;
        }
        let dirty = std::mem::take(&mut node.dirty);
        if dirty.iter().any(|&id| self.clashes(node_id, id)) {
            self.reopen(node_id);
        }
        let node = self.nodes.get_mut(&node_id)?;
        let partitions = &self.partitions;
        let ids = if node.session.wants_full() { &node.members } else { &dirty };
        let wanted = ids.iter().map(|&id| {
            (id, partitions.get(&id).filter(|state| state.home == Some(node_id)).map(PartitionState::to_send))
        });
        let request = node.session.request(wanted);
        node.sent_at = Some(now);
        let retired = &self.retired;
        let mut sent: Vec<(&PartitionState, Sent)> =
            request.send.iter().filter_map(|&(id, sent)| Some((partitions.get(&id)?, sent))).collect();
        // Brokers fill their answers in the order of a full request: what was served longest ago comes first, or a busy
        // partition would starve those behind it. In a session they see to that themselves.
        if request.full {
            sent.sort_by_key(|(state, _)| state.served);
        }
        let name =
            |id: &AssignmentId| partitions.get(id).map(|state| &state.partition).or_else(|| retired.get(id)).cloned();
        Some(FetchPlan {
            session_id: request.session_id,
            session_epoch: request.epoch,
            by_topic_id,
            partitions: sent.into_iter().map(|(state, sent)| (state.partition.clone(), sent.topic_id, sent)).collect(),
            forget: request.forget.iter().filter_map(|(id, topic_id)| Some((name(id)?, *topic_id))).collect(),
        })
    }

    /// Whether the next request would both add and forget the same name. A broker adds first, and then forgets what it has
    /// just been told to add: such a change needs a new session.
    fn clashes(&self, node_id: i32, id: AssignmentId) -> bool {
        let known = self.nodes.get(&node_id).and_then(|node| node.session.asked(id));
        let fetched_here = |state: &&PartitionState| state.home == Some(node_id);
        match (known, self.partitions.get(&id)) {
            (None, _) => false,
            (Some(known), Some(state)) => fetched_here(&state) && state.topic_id != known.topic_id,
            (Some(_), None) => {
                let successor = self.retired.get(&id).and_then(|partition| self.by_partition.get(partition));
                successor.and_then(|id| self.partitions.get(id)).is_some_and(|state| fetched_here(&state))
            }
        }
    }

    fn reopen(&mut self, node_id: i32) {
        if let Some(node) = self.nodes.get_mut(&node_id) {
            node.session.failed(None);
        }
    }

    /// The fetch sent to `node` got no answer: connection lost, or timed out.
    pub fn fetch_failed(&mut self, node_id: i32, now: Now) {
        let delay = {
            let Some(node) = self.nodes.get_mut(&node_id) else { return };
            node.session.failed(None);
            node.sent_at = None;
            node.attempts += 1;
            self.config.backoff.delay(node.attempts - 1, &mut self.jitter)
        };
        self.forget_retired();
        let members = match self.nodes.get_mut(&node_id) {
            Some(node) => {
                node.retry_at = now + delay;
                node.members.clone()
            }
            None => return,
        };
        for id in members {
            // A follower that fails is given up at once; its leader is the safe choice.
            if self.partitions.get_mut(&id).is_some_and(|state| state.preferred.take().is_some()) {
                self.touch(id, now);
            }
        }
        self.refresh_wanted = true;
    }

    pub(super) fn forget_retired(&mut self) {
        if self.retired.is_empty() {
            return;
        }
        // A node that nothing is fetched from is sent no request, so it would never be told: begin anew with it.
        for node in self.nodes.values_mut().filter(|node| node.members.is_empty() && node.sent_at.is_none()) {
            node.session.failed(None);
        }
        let nodes = &self.nodes;
        self.retired.retain(|&id, _| nodes.values().any(|node| node.session.asked(id).is_some()));
    }

    pub(super) fn current(&self, partition: &TopicPartition, span: u64) -> Option<AssignmentId> {
        let id = *self.by_partition.get(partition)?;
        (self.partitions.get(&id)?.span == span).then_some(id)
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
            let span = state.span;
            self.emit(Output::Stopped { span, fault });
        }
    }

    /// Waits a little longer each time before the partition is tried again.
    pub(super) fn back_off(&mut self, id: AssignmentId, now: Now) {
        let Some(state) = self.partitions.get_mut(&id) else { return };
        state.retry_at = now + self.config.backoff.delay(state.attempts, &mut self.jitter);
        state.attempts += 1;
    }

    /// The position is found, or found to be elsewhere.
    pub(super) fn position(&mut self, id: AssignmentId, offset: i64, offset_epoch: i32, moved_from: Option<i64>) {
        let Some(state) = self.partitions.get_mut(&id) else { return };
        (state.offset, state.offset_epoch, state.phase) = (offset, offset_epoch, Phase::Fetching);
        state.attempts = 0;
        let (partition, span) = (state.partition.clone(), state.span);
        self.emit(Output::Positioned { partition, span, offset, moved_from });
    }

    fn start(&mut self, id: AssignmentId, start: Start) {
        let policy = self.config.reset;
        let Some(state) = self.partitions.get_mut(&id) else { return };
        let (partition, span) = (state.partition.clone(), state.span);
        state.phase = match (start, policy) {
            (Start::Offset(offset, offset_epoch), _) => {
                (state.offset, state.offset_epoch) = (offset, offset_epoch);
                self.emit(Output::Positioned { partition, span, offset, moved_from: None });
                self.set_phase(id, if offset_epoch >= 0 { Phase::Validating } else { Phase::Fetching });
                return;
            }
            (Start::Policy, ResetPolicy::Earliest) => Phase::ListingOffset(Start::Earliest),
            (Start::Policy, ResetPolicy::Latest) => Phase::ListingOffset(Start::Latest),
            (Start::Policy, ResetPolicy::Fail) => {
                state.phase = Phase::Fetching;
                return self.stop(id, Fault::NoOffset { partition });
            }
            (start, _) => Phase::ListingOffset(start),
        };
    }

    /// Brings timers, lookups and session membership of a partition up to date with its state.
    pub(super) fn touch(&mut self, id: AssignmentId, now: Now) {
        let Some(state) = self.partitions.get_mut(&id) else { return };
        let home = state.fetchable_at(now);
        if let Some(old) = state.home.filter(|&old| Some(old) != home)
            && let Some(node) = self.nodes.get_mut(&old)
        {
            node.give_up(id);
        }
        state.home = home;
        if state.is_complete() {
            self.complete.insert(id);
        } else {
            self.complete.remove(&id);
        }
        if let Some(home) = home {
            self.nodes.entry(home).or_default().take(id, state);
        }
        if state.phase != Phase::Failed && state.retry_at > now {
            self.timers.insert((state.retry_at, id));
        }
        if let Some((_, until)) = state.preferred.filter(|&(_, until)| until > now) {
            self.timers.insert((until, id));
        }
        self.look_up(id, now);
    }
}

impl PartitionState {
    fn to_send(&self) -> Sent {
        Sent {
            span: self.span,
            topic_id: self.topic_id,
            offset: self.offset,
            leader_epoch: self.leader_epoch,
            offset_epoch: self.offset_epoch,
            max_bytes: self.max_bytes,
        }
    }
}
