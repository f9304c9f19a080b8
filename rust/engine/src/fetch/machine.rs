//! The machine itself: commands, news and timers; answers of fetches are in `answer`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use super::SlotId;
use super::fault::Fault;
use super::partition::{EpochEnd, Phase, ResetPolicy, Resolved, Slot, Start};
use super::session::{Sent, Session};
use crate::backoff::{Backoff, Jitter};
use crate::cluster::{Cluster, Topic};
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
    Resolve {
        /// Partition.
        partition: TopicPartition,
        /// Span to echo.
        span: u64,
        /// What to look up; never an offset.
        start: Start,
    },
    /// Look up both ends of the log and call [`FetchMachine::resolved`] with `log_start` set.
    ResolveRange {
        /// Partition.
        partition: TopicPartition,
        /// Span to echo.
        span: u64,
    },
    /// Ask the leader where `offset_epoch` ends (OffsetForLeaderEpoch) and call [`FetchMachine::validated`].
    Validate {
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

/// A broker, as far as fetching from it goes.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) session: Session,
    /// Partitions fetched from here.
    pub(super) members: BTreeSet<SlotId>,
    /// Partitions whose entry in the session may have to change.
    pub(super) dirty: BTreeSet<SlotId>,
    pub(super) sent_at: Option<Now>,
    pub(super) by_topic_id: bool,
    pub(super) attempts: u32,
    pub(super) retry_at: Now,
    /// Lookups under way for partitions led here: the first fetch waits for them a moment, or it would be a long
    /// poll without them.
    pub(super) lookups: u32,
    pub(super) hold_until: Now,
}

/// See the [module](super).
#[derive(Debug)]
pub struct FetchMachine {
    pub(super) config: FetchConfig,
    pub(super) jitter: Jitter,
    pub(super) slots: BTreeMap<SlotId, Slot>,
    pub(super) by_partition: BTreeMap<TopicPartition, SlotId>,
    pub(super) by_id: BTreeMap<(Uuid, i32), SlotId>,
    pub(super) nodes: BTreeMap<i32, Node>,
    /// Names of partitions that were given up but that a session may still hold.
    pub(super) retired: BTreeMap<SlotId, (TopicPartition, Uuid)>,
    pub(super) brokers: BTreeSet<i32>,
    timers: BTreeSet<(Now, SlotId)>,
    outputs: VecDeque<Output>,
    refresh_wanted: bool,
    next_slot: SlotId,
}

impl FetchMachine {
    /// How long the first fetch of a node waits for lookups of partitions led by it.
    const HOLD: Duration = Duration::from_millis(200);

    /// A machine without partitions; `seed` decides its jitter.
    pub fn new(config: FetchConfig, seed: u64) -> Self {
        Self {
            config,
            jitter: Jitter::new(seed),
            slots: BTreeMap::new(),
            by_partition: BTreeMap::new(),
            by_id: BTreeMap::new(),
            nodes: BTreeMap::new(),
            retired: BTreeMap::new(),
            brokers: BTreeSet::new(),
            timers: BTreeSet::new(),
            outputs: VecDeque::new(),
            refresh_wanted: false,
            next_slot: 0,
        }
    }

    /// Starts reading `partition` as `span`, replacing what it was read as before.
    pub fn assign(&mut self, partition: TopicPartition, span: u64, start: Start, cluster: &Cluster, now: Now) {
        self.unassign(&partition, now);
        let id = self.next_slot;
        self.next_slot += 1;
        let slot = Slot {
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
        };
        self.slots.insert(id, slot);
        self.by_partition.insert(partition, id);
        self.start(id, start);
        self.learn(id, cluster, now);
        self.touch(id, now);
    }

    /// Stops reading `partition`.
    pub fn unassign(&mut self, partition: &TopicPartition, now: Now) {
        let Some(id) = self.by_partition.remove(partition) else { return };
        if let Some(slot) = self.slots.get_mut(&id) {
            slot.phase = Phase::Failed;
        }
        self.touch(id, now);
        let Some(slot) = self.slots.remove(&id) else { return };
        self.end_lookup(slot.lookup);
        self.by_id.remove(&(slot.topic_id, partition.partition));
        if self.nodes.values().any(|node| node.session.asked(id).is_some()) {
            self.retired.insert(id, (slot.partition, slot.topic_id));
        }
    }

    /// Goes on elsewhere in `partition`, as `span`. Mends a partition that stopped. A recreated topic is adopted.
    pub fn seek(&mut self, partition: &TopicPartition, span: u64, start: Start, cluster: &Cluster, now: Now) {
        let Some(&id) = self.by_partition.get(partition) else { return };
        if let Some(slot) = self.slots.get_mut(&id) {
            slot.span = span;
            slot.attempts = 0;
            slot.retry_at = Now::ZERO;
            slot.missing_answers = 0;
            self.by_id.remove(&(slot.topic_id, partition.partition));
            slot.topic_id = Uuid::ZERO;
            let lookup = slot.lookup.take();
            self.end_lookup(lookup);
        }
        self.start(id, start);
        self.learn(id, cluster, now);
        self.touch(id, now);
    }

    /// Pauses or resumes fetching `partition`. What was fetched stays with the driver.
    pub fn set_paused(&mut self, partition: &TopicPartition, paused: bool, now: Now) {
        let Some(&id) = self.by_partition.get(partition) else { return };
        if let Some(slot) = self.slots.get_mut(&id) {
            slot.paused = paused;
        }
        self.touch(id, now);
    }

    /// The driver dropped what it had of `partition` from `offset` on, or found it unreadable (`stop`).
    pub fn rewind(&mut self, partition: &TopicPartition, span: u64, offset: i64, stop: bool, now: Now) {
        let Some(id) = self.current(partition, span) else { return };
        if let Some(slot) = self.slots.get_mut(&id) {
            (slot.offset, slot.offset_epoch) = (offset, -1);
            if stop {
                slot.phase = Phase::Failed;
            }
        }
        self.touch(id, now);
    }

    /// The cluster view changed: leaders, epochs, ids, topics that vanished.
    pub fn cluster_changed(&mut self, cluster: &Cluster, now: Now) {
        self.brokers = cluster.brokers.keys().copied().collect();
        let ids: Vec<SlotId> = self.slots.keys().copied().collect();
        for id in ids {
            self.learn(id, cluster, now);
            self.touch(id, now);
        }
    }

    /// An offset lookup was answered, or failed with the broker's error.
    pub fn resolved(
        &mut self,
        partition: &TopicPartition,
        span: u64,
        answer: Result<Option<Resolved>, ErrorCode>,
        now: Now,
    ) {
        let Some(id) = self.looked_up(partition, span) else { return };
        let Some(slot) = self.slots.get(&id) else { return };
        let (phase, position) = (slot.phase, slot.offset);
        match (answer, phase) {
            (Ok(Some(found)), Phase::Resolving(_)) => self.position(id, found.offset, found.leader_epoch, None),
            (Ok(Some(found)), Phase::OutOfRange) => self.leave_range(id, position, found),
            // No offset for that timestamp: the end of the log is where such records will come.
            (Ok(None), _) => self.set_phase(id, Phase::Resolving(Start::Latest)),
            (Ok(Some(_)), _) => {}
            (Err(code), _) => self.retry(id, code, now),
        }
        self.touch(id, now);
    }

    /// The leader said where the position's epoch ends, or failed with the broker's error.
    pub fn validated(&mut self, partition: &TopicPartition, span: u64, answer: Result<EpochEnd, ErrorCode>, now: Now) {
        let Some(id) = self.looked_up(partition, span) else { return };
        match answer {
            Ok(Some(end)) => self.truncate_to(id, end),
            // A broker that knows no such epoch proves no loss; fetching itself finds out.
            Ok(None) => self.set_phase(id, Phase::Fetching),
            Err(code) => self.retry(id, code, now),
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

    /// Nodes that [`Self::next_fetch`] has a request for.
    pub fn ready_nodes(&self, now: Now) -> Vec<i32> {
        self.nodes.iter().filter(|(_, node)| node.is_ready(now)).map(|(&id, _)| id).collect()
    }

    /// Whether any partition stopped, and how many are assigned.
    pub fn stopped(&self) -> (usize, usize) {
        let stopped = self.slots.values().filter(|slot| slot.phase == Phase::Failed).count();
        (stopped, self.slots.len())
    }

    /// The request to send to `node` now; it counts as sent.
    pub fn next_fetch(&mut self, node_id: i32, now: Now) -> Option<FetchPlan> {
        let node = self.nodes.get_mut(&node_id)?;
        if !node.is_ready(now) {
            return None;
        }
        let slots = &self.slots;
        let by_topic_id = node.members.iter().all(|id| slots.get(id).is_some_and(|slot| slot.topic_id != Uuid::ZERO));
        if by_topic_id != node.by_topic_id {
            // A session speaks of topics by name or by id, not both: the other needs a new one.
            node.session.failed(None);
            node.by_topic_id = by_topic_id;
        }
        let dirty = std::mem::take(&mut node.dirty);
        let ids = if node.session.wants_full() { &node.members } else { &dirty };
        let wanted =
            ids.iter().map(|&id| (id, slots.get(&id).filter(|slot| slot.home == Some(node_id)).map(Slot::to_send)));
        let request = node.session.request(wanted);
        node.sent_at = Some(now);
        let retired = &self.retired;
        Some(FetchPlan {
            session_id: request.session_id,
            session_epoch: request.epoch,
            by_topic_id,
            partitions: request
                .send
                .iter()
                .filter_map(|&(id, sent)| slots.get(&id).map(|slot| (slot.partition.clone(), slot.topic_id, sent)))
                .collect(),
            forget: request
                .forget
                .iter()
                .filter_map(|id| {
                    let known = slots.get(id).map(|slot| (slot.partition.clone(), slot.topic_id));
                    known.or_else(|| retired.get(id).cloned())
                })
                .collect(),
        })
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
            if self.slots.get_mut(&id).is_some_and(|slot| slot.preferred.take().is_some()) {
                self.touch(id, now);
            }
        }
        self.refresh_wanted = true;
    }

    pub(super) fn forget_retired(&mut self) {
        let nodes = &self.nodes;
        self.retired.retain(|&id, _| nodes.values().any(|node| node.session.asked(id).is_some()));
    }

    pub(super) fn current(&self, partition: &TopicPartition, span: u64) -> Option<SlotId> {
        let id = *self.by_partition.get(partition)?;
        (self.slots.get(&id)?.span == span).then_some(id)
    }

    pub(super) fn emit(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    pub(super) fn want_metadata(&mut self) {
        self.refresh_wanted = true;
    }

    pub(super) fn set_phase(&mut self, id: SlotId, phase: Phase) {
        if let Some(slot) = self.slots.get_mut(&id) {
            slot.phase = phase;
        }
    }

    /// Stops a partition for good, or until the user seeks.
    pub(super) fn stop(&mut self, id: SlotId, fault: Fault) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        if slot.phase != Phase::Failed {
            slot.phase = Phase::Failed;
            let span = slot.span;
            self.emit(Output::Stopped { span, fault });
        }
    }

    /// Waits a little longer each time before the partition is tried again.
    pub(super) fn back_off(&mut self, id: SlotId, now: Now) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        slot.retry_at = now + self.config.backoff.delay(slot.attempts, &mut self.jitter);
        slot.attempts += 1;
    }

    /// The position is found, or found to be elsewhere.
    pub(super) fn position(&mut self, id: SlotId, offset: i64, offset_epoch: i32, moved_from: Option<i64>) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        (slot.offset, slot.offset_epoch, slot.phase) = (offset, offset_epoch, Phase::Fetching);
        slot.attempts = 0;
        let (partition, span) = (slot.partition.clone(), slot.span);
        self.emit(Output::Positioned { partition, span, offset, moved_from });
    }

    /// The leader's log of the position's epoch ends at `end` (KIP-320).
    pub(super) fn truncate_to(&mut self, id: SlotId, end: i64) {
        let Some(slot) = self.slots.get(&id) else { return };
        let (offset, partition) = (slot.offset, slot.partition.clone());
        if end >= offset {
            self.set_phase(id, Phase::Fetching);
        } else if self.config.reset == ResetPolicy::Fail {
            self.stop(id, Fault::LogTruncated { partition, offset, divergent: end });
        } else {
            self.position(id, end, -1, Some(offset));
        }
    }

    fn leave_range(&mut self, id: SlotId, offset: i64, found: Resolved) {
        let Some(slot) = self.slots.get(&id) else { return };
        let (partition, log_start, log_end) = (slot.partition.clone(), found.log_start.unwrap_or(0), found.offset);
        if (log_start..=log_end).contains(&offset) {
            // The leader that answered holds the position after all: the other answer was an old one.
            self.set_phase(id, Phase::Fetching);
            return;
        }
        match self.config.reset {
            ResetPolicy::Fail => self.stop(id, Fault::OffsetOutOfRange { partition, offset, log_start, log_end }),
            // Retention passed the position by: what is left starts at the log's start, and must not be skipped.
            _ if offset < log_start => self.position(id, log_start, -1, Some(offset)),
            ResetPolicy::Earliest => self.position(id, log_start, -1, Some(offset)),
            ResetPolicy::Latest => self.position(id, log_end, -1, Some(offset)),
        }
    }

    fn retry(&mut self, id: SlotId, code: ErrorCode, now: Now) {
        let Some(slot) = self.slots.get(&id) else { return };
        let partition = slot.partition.clone();
        match code {
            ErrorCode::TopicAuthorizationFailed => self.stop(id, Fault::TopicDenied { partition }),
            // UNSUPPORTED_FOR_MESSAGE_FORMAT and the like: no retry mends them.
            code if !code.is_retriable()
                && code != ErrorCode::UnknownServerError
                && code != ErrorCode::FencedLeaderEpoch =>
            {
                self.stop(id, Fault::Refused { partition, code });
            }
            _ => {
                self.back_off(id, now);
                self.want_metadata();
            }
        }
    }

    fn start(&mut self, id: SlotId, start: Start) {
        let policy = self.config.reset;
        let Some(slot) = self.slots.get_mut(&id) else { return };
        let (partition, span) = (slot.partition.clone(), slot.span);
        slot.phase = match (start, policy) {
            (Start::Offset(offset, offset_epoch), _) => {
                (slot.offset, slot.offset_epoch) = (offset, offset_epoch);
                self.emit(Output::Positioned { partition, span, offset, moved_from: None });
                self.set_phase(id, if offset_epoch >= 0 { Phase::Validating } else { Phase::Fetching });
                return;
            }
            (Start::Policy, ResetPolicy::Earliest) => Phase::Resolving(Start::Earliest),
            (Start::Policy, ResetPolicy::Latest) => Phase::Resolving(Start::Latest),
            (Start::Policy, ResetPolicy::Fail) => {
                slot.phase = Phase::Fetching;
                return self.stop(id, Fault::NoOffset { partition });
            }
            (start, _) => Phase::Resolving(start),
        };
    }

    /// Takes over what the cluster view says of the partition.
    fn learn(&mut self, id: SlotId, cluster: &Cluster, now: Now) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        if slot.phase == Phase::Failed {
            return;
        }
        let partition = slot.partition.clone();
        let Some(topic) = cluster.topics.get(&partition.topic) else {
            return self.want_metadata();
        };
        if let Some(fault) = self.topic_fault(&partition, topic) {
            return self.stop(id, fault);
        }
        if topic.error != ErrorCode::None {
            return self.want_metadata();
        }
        let Some(slot) = self.slots.get_mut(&id) else { return };
        let started = !matches!(slot.phase, Phase::Resolving(_));
        if slot.topic_id != topic.id && slot.topic_id != Uuid::ZERO && started {
            return self.stop(id, Fault::TopicRecreated { partition });
        }
        if slot.topic_id != topic.id {
            slot.topic_id = topic.id;
            self.by_id.insert((topic.id, partition.partition), id);
        }
        let Some(known) = topic.partitions.get(&partition.partition) else {
            slot.missing_answers += 1;
            return match slot.missing_answers >= self.config.unknown_topic_answers {
                true => self.stop(id, Fault::UnknownTopicOrPartition { partition, what: "partition" }),
                false => self.want_metadata(),
            };
        };
        slot.missing_answers = 0;
        if known.leader.is_none() {
            slot.leader = None;
            return self.want_metadata();
        }
        if (slot.leader, slot.leader_epoch) != (known.leader, known.leader_epoch) {
            let newer_epoch = known.leader_epoch > slot.leader_epoch && slot.leader_epoch >= 0;
            (slot.leader, slot.leader_epoch) = (known.leader, known.leader_epoch);
            slot.preferred = None;
            slot.retry_at = now;
            if slot.phase == Phase::Fetching && newer_epoch && slot.offset_epoch >= 0 {
                slot.phase = Phase::Validating;
            }
        }
    }

    fn topic_fault(&self, partition: &TopicPartition, topic: &Topic) -> Option<Fault> {
        let partition = partition.clone();
        match topic.error {
            ErrorCode::TopicAuthorizationFailed => Some(Fault::TopicDenied { partition }),
            ErrorCode::UnknownTopicOrPartition => (topic.unknown_answers >= self.config.unknown_topic_answers)
                .then_some(Fault::UnknownTopicOrPartition { partition, what: "topic" }),
            ErrorCode::None => None,
            code => (!code.is_retriable()).then_some(Fault::Refused { partition, code }),
        }
    }

    /// Brings timers, lookups and session membership of a partition up to date with its state.
    pub(super) fn touch(&mut self, id: SlotId, now: Now) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        let home = slot.fetchable_at(now);
        if let Some(old) = slot.home.filter(|&old| Some(old) != home)
            && let Some(node) = self.nodes.get_mut(&old)
        {
            node.members.remove(&id);
            node.dirty.insert(id);
        }
        slot.home = home;
        if let Some(home) = home {
            let node = self.nodes.entry(home).or_default();
            node.members.insert(id);
            node.dirty.insert(id);
        }
        if slot.phase != Phase::Failed && slot.retry_at > now {
            self.timers.insert((slot.retry_at, id));
        }
        if let Some((_, until)) = slot.preferred.filter(|&(_, until)| until > now) {
            self.timers.insert((until, id));
        }
        self.look_up(id, now);
    }

    fn look_up(&mut self, id: SlotId, now: Now) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        let Some(leader) = slot.leader.filter(|_| slot.lookup.is_none() && slot.retry_at <= now) else { return };
        let (partition, span) = (slot.partition.clone(), slot.span);
        let output = match slot.phase {
            Phase::Resolving(start) => Output::Resolve { partition, span, start },
            Phase::OutOfRange => Output::ResolveRange { partition, span },
            Phase::Validating => {
                Output::Validate { partition, span, leader_epoch: slot.leader_epoch, offset_epoch: slot.offset_epoch }
            }
            Phase::Fetching | Phase::Failed => return,
        };
        slot.lookup = Some(leader);
        let node = self.nodes.entry(leader).or_default();
        if node.lookups == 0 {
            node.hold_until = now + Self::HOLD;
        }
        node.lookups += 1;
        self.emit(output);
    }

    /// The partition whose lookup ended, unless it has moved on meanwhile.
    fn looked_up(&mut self, partition: &TopicPartition, span: u64) -> Option<SlotId> {
        let id = self.current(partition, span)?;
        let lookup = self.slots.get_mut(&id)?.lookup.take()?;
        self.end_lookup(Some(lookup));
        Some(id)
    }

    fn end_lookup(&mut self, node: Option<i32>) {
        if let Some(node) = node.and_then(|id| self.nodes.get_mut(&id)) {
            node.lookups = node.lookups.saturating_sub(1);
        }
    }
}

impl Node {
    fn is_ready(&self, now: Now) -> bool {
        let held = self.lookups > 0 && self.hold_until > now;
        self.sent_at.is_none() && !self.members.is_empty() && self.retry_at <= now && !held
    }
}

impl Slot {
    fn to_send(&self) -> Sent {
        Sent {
            span: self.span,
            offset: self.offset,
            leader_epoch: self.leader_epoch,
            offset_epoch: self.offset_epoch,
            max_bytes: self.max_bytes,
        }
    }
}
