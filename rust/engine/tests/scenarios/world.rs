//! The world of a [`FetchMachine`]: virtual time, a cluster view, and brokers that keep fetch sessions as Kafka does.
//! The test plays the brokers: it takes requests and gives answers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use monedula_engine::backoff::Backoff;
use monedula_engine::cluster::Cluster;
use monedula_engine::fetch::{
    EpochEnd, FetchConfig, FetchMachine, FetchPlan, Input, ListOffsetsAnswer, Output, ResetPolicy, SessionPartition,
    Start,
};
use monedula_engine::{Now, TopicPartition};
use monedula_protocol::compression::Compressor;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::fetch::{
    EpochEndOffset, FetchResponse, FetchableTopicResponse, LeaderIdAndEpoch, PartitionData,
};
use monedula_protocol::messages::metadata::{
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use monedula_protocol::records::{BatchEncoder, NewRecord};
use monedula_protocol::types::Uuid;

pub(crate) const TOPIC: &str = "t";
pub(crate) const MAX_WAIT: Duration = Duration::from_millis(500);
pub(crate) const PROPAGATION: Duration = Duration::from_secs(10);
pub(crate) const PARTITION_BYTES: i32 = 1000;
pub(crate) const SESSION: i32 = 77;
/// A cap that is larger than any scenario needs.
const MOST_REQUESTS: u32 = 20_000;

/// Partition `index` of the topic that most scenarios use.
pub(crate) fn p(index: i32) -> TopicPartition {
    TopicPartition::new(TOPIC, index)
}

/// Milliseconds.
pub(crate) fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A broker's answer for one partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reply {
    pub(crate) partition: i32,
    pub(crate) error: Option<ErrorCode>,
    pub(crate) records: Vec<u8>,
    pub(crate) preferred: Option<i32>,
    /// The end of its log; 1000 by default.
    pub(crate) high_watermark: Option<i64>,
    /// The largest epoch below the requested one, and its end.
    pub(crate) diverging: Option<(i32, i64)>,
    /// Node id and epoch.
    pub(crate) leader: Option<(i32, i32)>,
}

/// An answer without records.
pub(crate) fn empty(partition: i32) -> Reply {
    Reply { partition, ..Reply::default() }
}

/// Records `offsets` in one batch, written in epoch 0.
pub(crate) fn data(partition: i32, offsets: std::ops::Range<i64>) -> Reply {
    data_of_epoch(partition, offsets, 0)
}

/// Records `offsets` in one batch, written in `epoch`.
pub(crate) fn data_of_epoch(partition: i32, offsets: std::ops::Range<i64>, epoch: i32) -> Reply {
    Reply { partition, records: batch(offsets, epoch), ..Reply::default() }
}

/// An error.
pub(crate) fn error(partition: i32, error: ErrorCode) -> Reply {
    Reply { partition, error: Some(error), ..Reply::default() }
}

/// One record batch.
pub(crate) fn batch(offsets: std::ops::Range<i64>, epoch: i32) -> Vec<u8> {
    let mut encoder = BatchEncoder::new().base_offset(offsets.start).partition_leader_epoch(epoch);
    for _ in offsets {
        encoder.append(NewRecord { value: Some(b"v"), ..NewRecord::default() });
    }
    let mut bytes = Vec::new();
    encoder.encode(&mut Compressor::new(), &mut bytes).expect("encodes");
    bytes
}

/// A request, and all that the broker fetches for it, including earlier requests of its session.
#[derive(Debug)]
pub(crate) struct Request {
    plan: FetchPlan,
    effective: BTreeMap<(Uuid, i32), SessionPartition>,
}

impl std::ops::Deref for Request {
    type Target = FetchPlan;

    fn deref(&self) -> &FetchPlan {
        &self.plan
    }
}

impl Request {
    /// Each partition of the topic `id` that the broker is to fetch, with its offset.
    pub(crate) fn wanted(&self, id: Uuid) -> impl Iterator<Item = (i32, i64)> {
        self.effective
            .iter()
            .filter(move |((known, _), _)| *known == id)
            .map(|((_, index), sent)| (*index, sent.offset))
    }
}

/// The world; see the module.
pub(crate) struct World {
    pub(crate) machine: FetchMachine,
    pub(crate) cluster: Cluster,
    pub(crate) now: Now,
    /// Id that the topic has now.
    pub(crate) topic_id: Uuid,
    /// Session id that brokers give; 0 for none.
    pub(crate) session_id: i32,
    /// Each broker's session with the machine: partitions by topic id and index.
    sessions: BTreeMap<i32, BTreeMap<(Uuid, i32), SessionPartition>>,
    in_flight: BTreeMap<i32, FetchPlan>,
    /// The machine's outputs since [`Self::outputs`], except records of answers.
    outputs: Vec<Output>,
    /// Whether it asked for metadata since then.
    refresh_wanted: bool,
    next_reading_id: u64,
    requests: u32,
}

impl World {
    /// One partition for each leader, all in epoch 0; under `reset`.
    pub(crate) fn new(reset: ResetPolicy, leaders: &[i32]) -> Self {
        let config = FetchConfig {
            reset,
            max_wait: MAX_WAIT,
            max_partition_bytes: PARTITION_BYTES,
            preferred_replica_ttl: Duration::from_secs(300),
            backoff: Backoff { initial: ms(100), max: ms(1000), factor: 2 },
            propagation: PROPAGATION,
        };
        Self::with(config, leaders)
    }

    /// As before, with other settings.
    pub(crate) fn with(config: FetchConfig, leaders: &[i32]) -> Self {
        let mut world = Self {
            machine: FetchMachine::new(config, 7),
            cluster: Cluster::default(),
            now: Now::ZERO,
            topic_id: Uuid([1; 16]),
            session_id: SESSION,
            sessions: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            outputs: Vec::new(),
            refresh_wanted: false,
            next_reading_id: 0,
            requests: 0,
        };
        let leaders: Vec<(i32, i32)> = leaders.iter().map(|&node| (node, 0)).collect();
        world.metadata(&leaders);
        world
    }

    /// Every partition from offset 0, ready to be fetched.
    pub(crate) fn reading(leaders: &[i32]) -> Self {
        Self::reading_until(leaders, |_| None)
    }

    /// As before, each partition only up to the offset that `end` returns.
    pub(crate) fn reading_until(leaders: &[i32], end: impl Fn(i32) -> Option<i64>) -> Self {
        let mut world = Self::new(ResetPolicy::Earliest, leaders);
        for index in 0..leaders.len() as i32 {
            world.assign_as(index, Start::Offset(0, -1), end(index), false);
        }
        world.outputs();
        world
    }

    /// As [`Self::reading`], for a member whose group revokes the partitions of a topic that is gone.
    pub(crate) fn reading_as_a_member(leaders: &[i32]) -> Self {
        let mut world = Self::new(ResetPolicy::Earliest, leaders);
        for index in 0..leaders.len() as i32 {
            world.assign_as(index, Start::Offset(0, -1), None, true);
        }
        world.outputs();
        world
    }

    /// Gives the machine an input, and takes its outputs; returns the records that an answer brought.
    fn handle_answer(&mut self, input: Input<'_>) -> Vec<(i32, Vec<u8>)> {
        let answer = match input {
            Input::FetchAnswer { answer, .. } => Some(answer),
            _ => None,
        };
        self.machine.handle(self.now, input);
        let mut fetched = Vec::new();
        while let Some(output) = self.machine.poll() {
            match (output, answer) {
                (Output::Fetched(found), Some(answer)) => {
                    fetched.push((found.partition.partition, found.records(answer).to_vec()));
                }
                (Output::RefreshMetadata, _) => self.refresh_wanted = true,
                (output, _) => self.outputs.push(output),
            }
        }
        fetched
    }

    fn with_cluster(&mut self, act: impl FnOnce(&mut Self, &Cluster)) {
        let cluster = std::mem::take(&mut self.cluster);
        act(self, &cluster);
        self.cluster = cluster;
    }

    pub(crate) fn handle(&mut self, input: Input<'_>) {
        assert!(self.handle_answer(input).is_empty(), "no input but an answer brings records");
    }

    /// A metadata answer: the leader of each partition with its epoch, -1 for none. Brokers are 1 to 3.
    pub(crate) fn metadata(&mut self, leaders: &[(i32, i32)]) {
        self.metadata_of(ErrorCode::None, leaders);
    }

    /// A metadata answer with an error of the topic.
    pub(crate) fn metadata_of(&mut self, error: ErrorCode, leaders: &[(i32, i32)]) {
        let partitions = leaders.iter().enumerate().map(|(index, &(leader_id, leader_epoch))| {
            let partition_index = index as i32;
            MetadataResponsePartition { partition_index, leader_id, leader_epoch, ..Default::default() }
        });
        let topic = MetadataResponseTopic {
            name: Some(TOPIC),
            topic_id: if error == ErrorCode::None { self.topic_id } else { Uuid::ZERO },
            error_code: error.code(),
            partitions: partitions.collect(),
            ..Default::default()
        };
        let brokers =
            (1..=3).map(|node_id| MetadataResponseBroker { node_id, host: "h", port: 1, ..Default::default() });
        let answer = MetadataResponse { brokers: brokers.collect(), topics: vec![topic], ..Default::default() };
        self.cluster.update(&answer, self.now);
        self.update_metadata();
    }

    /// Metadata answers of an error of the topic, many at once and then until `time` has passed.
    pub(crate) fn metadata_for(&mut self, time: Duration, error: ErrorCode, leaders: &[(i32, i32)]) {
        let until = self.now + time;
        for _ in 0..100 {
            self.metadata_of(error, leaders);
        }
        self.now = until;
        self.metadata_of(error, leaders);
    }

    /// The machine is given the cluster view as it is.
    pub(crate) fn update_metadata(&mut self) {
        self.with_cluster(|world, cluster| world.handle(Input::MetadataUpdate { cluster }));
    }

    /// The topic is deleted and created again: another id, and metadata says so.
    pub(crate) fn recreate(&mut self, leaders: &[(i32, i32)]) {
        self.topic_id = Uuid([self.topic_id.0[0] + 1; 16]);
        self.metadata(leaders);
    }

    pub(crate) fn assign(&mut self, partition: i32, start: Start) -> u64 {
        self.assign_as(partition, start, None, false)
    }

    pub(crate) fn assign_as(&mut self, partition: i32, start: Start, end: Option<i64>, waits_for_topic: bool) -> u64 {
        self.next_reading_id += 1;
        let (partition, reading_id) = (&p(partition), self.next_reading_id);
        self.with_cluster(|world, cluster| {
            world.handle(Input::Assign { partition, reading_id, start, end, waits_for_topic, cluster });
        });
        reading_id
    }

    pub(crate) fn unassign(&mut self, partition: i32) {
        self.handle(Input::Unassign { partition: &p(partition) });
    }

    pub(crate) fn seek(&mut self, partition: i32, start: Start) -> u64 {
        self.next_reading_id += 1;
        let (partition, reading_id) = (&p(partition), self.next_reading_id);
        self.with_cluster(|world, cluster| world.handle(Input::Seek { partition, reading_id, start, cluster }));
        reading_id
    }

    pub(crate) fn pause(&mut self, partition: i32, paused: bool) {
        self.handle(Input::Pause { partition: &p(partition), paused });
    }

    pub(crate) fn rewind(&mut self, partition: i32, reading_id: u64, offset: i64) {
        self.handle(Input::Rewind { partition: &p(partition), reading_id, offset });
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.machine.is_complete()
    }

    /// All outputs, except records of answers. A request for metadata comes first, and once.
    pub(crate) fn outputs(&mut self) -> Vec<Output> {
        let refresh = std::mem::take(&mut self.refresh_wanted).then_some(Output::RefreshMetadata);
        refresh.into_iter().chain(std::mem::take(&mut self.outputs)).collect()
    }

    pub(crate) fn advance(&mut self, by: Duration) {
        self.now += by;
        self.handle(Input::Tick);
    }

    /// The request for `node` now, if there is one.
    pub(crate) fn try_fetch(&mut self, node: i32) -> Option<Request> {
        if !self.machine.ready_nodes(self.now).contains(&node) {
            return None;
        }
        let plan = self.machine.poll_fetch(self.now, node)?;
        self.requests += 1;
        assert!(self.requests < MOST_REQUESTS, "a spin at {:?}", self.now);
        self.in_flight.insert(node, plan.clone());
        let effective = effective(self.sessions.get(&node), &plan);
        Some(Request { plan, effective })
    }

    /// The request for `node` now.
    pub(crate) fn fetch(&mut self, node: i32) -> Request {
        self.try_fetch(node).unwrap_or_else(|| panic!("no request to node {node} at {:?}", self.now))
    }

    /// The node answers its request; returns the partitions and offsets that were delivered.
    pub(crate) fn answer(&mut self, node: i32, replies: Vec<Reply>) -> Vec<(i32, i64)> {
        let session_id = self.session_id;
        self.answer_as(node, ErrorCode::None, session_id, replies)
    }

    /// The node refuses the request as a whole.
    pub(crate) fn refuse(&mut self, node: i32, error: ErrorCode) {
        self.answer_as(node, error, 0, Vec::new());
    }

    fn answer_as(&mut self, node: i32, error: ErrorCode, session_id: i32, replies: Vec<Reply>) -> Vec<(i32, i64)> {
        let plan = self.in_flight.remove(&node).unwrap_or_else(|| panic!("node {node} was asked nothing"));
        if error == ErrorCode::None {
            let held = effective(self.sessions.get(&node), &plan);
            self.sessions.insert(node, held);
        } else {
            self.sessions.remove(&node);
        }
        let partitions: Vec<PartitionData<'_>> = replies.iter().map(Reply::to_wire).collect();
        let topic = FetchableTopicResponse { topic_id: self.topic_id, partitions, ..Default::default() };
        let responses = if replies.is_empty() { Vec::new() } else { vec![topic] };
        let response = FetchResponse { error_code: error.code(), session_id, responses, ..Default::default() };
        let fetched = self.handle_answer(Input::FetchAnswer { node, answer: &response });
        fetched
            .into_iter()
            .filter(|(_, records)| !records.is_empty())
            .map(|(partition, records)| {
                let base = records[..8].try_into().map(i64::from_be_bytes).expect("a batch begins with its offset");
                (partition, base)
            })
            .collect()
    }

    /// The partitions in the session of `node`, with the topic ids that named them.
    pub(crate) fn held(&self, node: i32) -> BTreeSet<(Uuid, i32)> {
        self.sessions.get(&node).into_iter().flat_map(|held| held.keys().copied()).collect()
    }

    /// The last request to `node`.
    pub(crate) fn held_state(&self, node: i32, partition: i32) -> Option<SessionPartition> {
        self.sessions.get(&node)?.get(&(self.topic_id, partition)).copied()
    }

    /// The connection to `node` broke, or the request timed out.
    pub(crate) fn lose(&mut self, node: i32) {
        self.in_flight.remove(&node);
        self.handle(Input::FetchFailed { node });
    }

    /// ListOffsets found this offset.
    pub(crate) fn listed(&mut self, partition: i32, reading_id: u64, offset: i64, log_start: Option<i64>) {
        let found = ListOffsetsAnswer { offset, leader_epoch: -1, log_start };
        self.answer_list_offsets(partition, reading_id, Ok(Some(found)));
    }

    pub(crate) fn answer_list_offsets(
        &mut self,
        partition: i32,
        reading_id: u64,
        answer: Result<Option<ListOffsetsAnswer>, ErrorCode>,
    ) {
        self.handle(Input::ListedOffset { partition: &p(partition), reading_id, answer });
    }

    /// Answers OffsetForLeaderEpoch.
    pub(crate) fn epoch_end(&mut self, partition: i32, reading_id: u64, answer: Result<EpochEnd, ErrorCode>) {
        self.handle(Input::EpochEnd { partition: &p(partition), reading_id, answer });
    }
}

impl Reply {
    fn to_wire(&self) -> PartitionData<'_> {
        let (epoch, end_offset) = self.diverging.unwrap_or((-1, -1));
        let (leader_id, leader_epoch) = self.leader.unwrap_or((-1, -1));
        PartitionData {
            partition_index: self.partition,
            error_code: self.error.map_or(0, ErrorCode::code),
            high_watermark: self.high_watermark.unwrap_or(1000),
            diverging_epoch: EpochEndOffset { epoch, end_offset, ..Default::default() },
            current_leader: LeaderIdAndEpoch { leader_id, leader_epoch, ..Default::default() },
            preferred_read_replica: self.preferred.unwrap_or(-1),
            records: Some(&self.records),
            ..Default::default()
        }
    }
}

/// A session after `plan`. As in Kafka, partitions are added first and then forgotten, so a partition in both is
/// removed.
fn effective(
    held: Option<&BTreeMap<(Uuid, i32), SessionPartition>>,
    plan: &FetchPlan,
) -> BTreeMap<(Uuid, i32), SessionPartition> {
    let mut held = held.filter(|_| plan.session_epoch > 0).cloned().unwrap_or_default();
    held.extend(plan.partitions.iter().map(|(partition, id, sent)| ((*id, partition.partition), *sent)));
    for (partition, id) in &plan.forget {
        held.remove(&(*id, partition.partition));
    }
    held
}

/// The offset that the broker is to fetch from, whether this request says so or an earlier one of the session.
pub(crate) fn asked(request: &Request, partition: i32) -> Option<i64> {
    let sent = request.effective.iter().find(|((_, known), _)| *known == partition);
    sent.map(|(_, sent)| sent.offset)
}

/// The partitions that a request names.
pub(crate) fn named(request: &Request) -> Vec<i32> {
    request.partitions.iter().map(|(partition, _, _)| partition.partition).collect()
}
