//! Helpers of the transaction tests: a cluster, the requests of a producer one by one, and reading what it wrote.

use std::collections::BTreeSet;

use bytes::Bytes;
use monedula_broker::settings::Settings;
use monedula_protocol::api::Request;
use monedula_protocol::compression::Compressor;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::add_offsets_to_txn::AddOffsetsToTxnRequest;
use monedula_protocol::messages::add_partitions_to_txn::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use monedula_protocol::messages::describe_transactions::{DescribeTransactionsRequest, TransactionState};
use monedula_protocol::messages::end_txn::EndTxnRequest;
use monedula_protocol::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use monedula_protocol::messages::find_coordinator::FindCoordinatorRequest;
use monedula_protocol::messages::init_producer_id::InitProducerIdRequest;
use monedula_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use monedula_protocol::messages::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use monedula_protocol::records::{BatchEncoder, Batches, NewRecord};
use monedula_protocol::types::Uuid;
use serde_json::{Value, json};

use crate::support::World;

pub(crate) const TOPIC: &str = "orders";
pub(crate) const TIMEOUT_MS: i32 = 60_000;

/// A producer id and epoch.
pub(crate) type Producer = (i64, i16);

/// The transaction version of a producer.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Speaks {
    /// Version 1: the producer adds partitions itself, and keeps its epoch.
    One,
    /// Version 2 (KIP-890): writes add their partitions, and every end raises the epoch.
    Two,
}

/// A cluster whose nodes can be stopped and started.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) world: World,
    nodes: i32,
    down: BTreeSet<i32>,
}

impl Cluster {
    /// A cluster with a topic of three partitions, and with few partitions of the internal topics.
    pub(crate) fn new(nodes: u16, kafka: &[(&str, &str)]) -> Self {
        let mut settings = Settings { nodes, ..Settings::default() };
        let few = [("transaction.state.log.num.partitions", "2"), ("offsets.topic.num.partitions", "2")];
        for (name, value) in few.iter().chain(kafka) {
            settings.kafka.set(name, value).unwrap();
        }
        Self::of(settings)
    }

    pub(crate) fn of(settings: Settings) -> Self {
        let replicas = settings.nodes.min(3);
        Self::with_replicas(settings, replicas)
    }

    pub(crate) fn with_replicas(settings: Settings, replicas: u16) -> Self {
        let nodes = settings.nodes;
        let mut cluster = Self { world: World::new(settings), nodes: nodes.into(), down: BTreeSet::new() };
        cluster.control(json!({"command": "create_topic", "topic": TOPIC, "partitions": 3, "replicas": replicas}));
        cluster.coordinator(1, "t").unwrap();
        cluster.coordinator(0, "g").unwrap();
        cluster
    }

    pub(crate) fn control(&mut self, command: Value) -> Value {
        self.world.control(command)
    }

    pub(crate) fn advance(&mut self, ms: i64) {
        self.world.advance(ms);
    }

    pub(crate) fn stop(&mut self, node: i32) {
        self.control(json!({"command": "stop_node", "node": node}));
        self.down.insert(node);
    }

    pub(crate) fn start(&mut self, node: i32) {
        self.control(json!({"command": "start_node", "node": node}));
        self.down.remove(&node);
    }

    pub(crate) fn is_down(&self, node: i32) -> bool {
        self.down.contains(&node)
    }

    /// The first node that runs.
    pub(crate) fn any(&self) -> i32 {
        (1..=self.nodes).find(|node| !self.is_down(*node)).unwrap()
    }

    /// Sends a request on a new connection, because nodes that stop close the open ones.
    #[track_caller]
    pub(crate) fn ask<'q, R: Request<'q>>(&mut self, node: i32, request: &R, version: i16) -> R::Response<'static> {
        let connection = self.world.connect(node);
        let answer = self.world.call_on(connection, request, version);
        self.world.disconnect(connection);
        answer
    }

    /// The coordinator of a group (`kind` 0) or a transactional id (`kind` 1).
    pub(crate) fn coordinator(&mut self, kind: i8, key: &str) -> Result<i32, ErrorCode> {
        let request = FindCoordinatorRequest { key_type: kind, coordinator_keys: vec![key], ..Default::default() };
        let mut found = self.ask(self.any(), &request, 4).coordinators.remove(0);
        // The first request of a cluster makes the coordinators.
        if found.error_code == ErrorCode::CoordinatorNotAvailable.code() {
            found = self.ask(self.any(), &request, 4).coordinators.remove(0);
        }
        ErrorCode::check(found.error_code).map(|()| found.node_id)
    }

    /// The leader of a partition, if it has one, and the topic's id.
    pub(crate) fn leader(&mut self, partition: i32) -> (Option<i32>, Uuid) {
        let topics = Some(vec![MetadataRequestTopic { name: Some(TOPIC), ..Default::default() }]);
        let request = MetadataRequest { topics, ..Default::default() };
        let topic = self.ask(self.any(), &request, 13).topics.remove(0);
        let leader = topic.partitions[partition as usize].leader_id;
        (Some(leader).filter(|leader| *leader >= 0), topic.topic_id)
    }
}

pub(crate) fn world() -> Cluster {
    Cluster::new(1, &[])
}

/// Sends an InitProducerId. Returns the producer id and epoch, or the error.
pub(crate) fn init_as(
    world: &mut Cluster,
    id: Option<&str>,
    expected: Producer,
    timeout_ms: i32,
    version: i16,
) -> Result<Producer, ErrorCode> {
    let node = id.map_or(Ok(world.any()), |id| world.coordinator(1, id))?;
    let request = InitProducerIdRequest {
        transactional_id: id,
        transaction_timeout_ms: timeout_ms,
        producer_id: expected.0,
        producer_epoch: expected.1,
        ..Default::default()
    };
    let answer = world.ask(node, &request, version);
    ErrorCode::check(answer.error_code)?;
    Ok((answer.producer_id, answer.producer_epoch))
}

pub(crate) fn init(world: &mut Cluster, id: &str) -> Result<Producer, ErrorCode> {
    init_as(world, Some(id), (-1, -1), TIMEOUT_MS, 5)
}

/// Sends an InitProducerId of a producer that recovers, with its id and epoch (KIP-360).
pub(crate) fn init_again(world: &mut Cluster, id: &str, expected: Producer) -> Result<Producer, ErrorCode> {
    init_as(world, Some(id), expected, TIMEOUT_MS, 5)
}

fn topics<'a>(topic: &'a str, partitions: &[i32]) -> Vec<AddPartitionsToTxnTopic<'a>> {
    vec![AddPartitionsToTxnTopic { name: topic, partitions: partitions.to_vec(), ..Default::default() }]
}

/// Sends an AddPartitionsToTxn as a client. Returns the error of each partition.
pub(crate) fn add_to(
    world: &mut Cluster,
    id: &str,
    producer: Producer,
    topic: &str,
    partitions: &[i32],
    version: i16,
) -> Vec<ErrorCode> {
    let node = world.coordinator(1, id).unwrap();
    let request = AddPartitionsToTxnRequest {
        v3_and_below_transactional_id: id,
        v3_and_below_producer_id: producer.0,
        v3_and_below_producer_epoch: producer.1,
        v3_and_below_topics: topics(topic, partitions),
        ..Default::default()
    };
    let answer = world.ask(node, &request, version);
    let results = answer.results_by_topic_v3_and_below.iter().flat_map(|topic| &topic.results_by_partition);
    results.map(|partition| ErrorCode::from_code(partition.partition_error_code)).collect()
}

pub(crate) fn add(world: &mut Cluster, id: &str, producer: Producer, partition: i32) -> ErrorCode {
    add_to(world, id, producer, TOPIC, &[partition], 3)[0]
}

/// Sends an AddPartitionsToTxn as a broker, which checks that a partition is in the transaction, or adds it. Returns
/// the error.
pub(crate) fn as_broker(
    world: &mut Cluster,
    id: &str,
    producer: Producer,
    partition: i32,
    verify_only: bool,
) -> ErrorCode {
    let node = world.coordinator(1, id).unwrap();
    let transaction = AddPartitionsToTxnTransaction {
        transactional_id: id,
        producer_id: producer.0,
        producer_epoch: producer.1,
        verify_only,
        topics: topics(TOPIC, &[partition]),
        ..Default::default()
    };
    let request = AddPartitionsToTxnRequest { transactions: vec![transaction], ..Default::default() };
    let answer = world.ask(node, &request, 5);
    let result = &answer.results_by_transaction[0].topic_results[0].results_by_partition[0];
    ErrorCode::from_code(result.partition_error_code)
}

pub(crate) fn add_offsets(world: &mut Cluster, id: &str, producer: Producer, group: &str, version: i16) -> ErrorCode {
    let node = match world.coordinator(1, id) {
        Ok(node) => node,
        Err(error) => return error,
    };
    let request = AddOffsetsToTxnRequest {
        transactional_id: id,
        producer_id: producer.0,
        producer_epoch: producer.1,
        group_id: group,
        ..Default::default()
    };
    ErrorCode::from_code(world.ask(node, &request, version).error_code)
}

/// Sends an EndTxn. Returns the producer id and epoch for the next transaction, or the error. Below version 5 they do
/// not change.
pub(crate) fn end_in(
    world: &mut Cluster,
    id: &str,
    producer: Producer,
    committed: bool,
    version: i16,
) -> Result<Producer, ErrorCode> {
    let node = world.coordinator(1, id)?;
    let request = EndTxnRequest {
        transactional_id: id,
        producer_id: producer.0,
        producer_epoch: producer.1,
        committed,
        ..Default::default()
    };
    let answer = world.ask(node, &request, version);
    ErrorCode::check(answer.error_code)?;
    Ok(if version >= 5 { (answer.producer_id, answer.producer_epoch) } else { producer })
}

pub(crate) fn end(
    world: &mut Cluster,
    id: &str,
    producer: Producer,
    commit: bool,
    speaks: Speaks,
) -> Result<Producer, ErrorCode> {
    end_in(world, id, producer, commit, if speaks == Speaks::Two { 5 } else { 4 })
}

pub(crate) fn describe(world: &mut Cluster, id: &'static str) -> TransactionState<'static> {
    let node = world.coordinator(1, id).unwrap();
    let request = DescribeTransactionsRequest { transactional_ids: vec![id], ..Default::default() };
    world.ask(node, &request, 0).transaction_states.remove(0)
}

/// The state of a transactional id, and its producer id and epoch.
pub(crate) fn state(world: &mut Cluster, id: &'static str) -> (String, Producer) {
    let found = describe(world, id);
    (found.transaction_state.to_owned(), (found.producer_id, found.producer_epoch))
}

/// A batch with one record. A negative sequence number stands for a producer without idempotence.
pub(crate) fn batch(producer: Producer, sequence: i32, transactional: bool, value: &str) -> Vec<u8> {
    let encoder = BatchEncoder::new().producer(producer.0, producer.1, sequence);
    let mut encoder = if transactional { encoder.transactional() } else { encoder };
    encoder.append(NewRecord {
        timestamp_ms: crate::support::START_MS,
        key: None,
        value: Some(value.as_bytes()),
        headers: &[],
    });
    let mut bytes = Vec::new();
    encoder.encode(&mut Compressor::new(), &mut bytes).unwrap();
    bytes
}

/// Produces a batch in a transaction. Returns the error code and message.
pub(crate) fn write_in(
    world: &mut Cluster,
    id: &str,
    partition: i32,
    records: &[u8],
    version: i16,
) -> (ErrorCode, Option<String>) {
    let (Some(leader), id_of_topic) = world.leader(partition) else { return (ErrorCode::LeaderNotAvailable, None) };
    let data = PartitionProduceData { index: partition, records: Some(records), ..Default::default() };
    let (name, topic_id) = if version >= 13 { ("", id_of_topic) } else { (TOPIC, Default::default()) };
    let topic = TopicProduceData { name, topic_id, partition_data: vec![data], ..Default::default() };
    let request = ProduceRequest {
        transactional_id: Some(id),
        acks: -1,
        timeout_ms: 1000,
        topic_data: vec![topic],
        ..Default::default()
    };
    let answer = world.ask(leader, &request, version);
    let partition = &answer.responses[0].partition_responses[0];
    (ErrorCode::from_code(partition.error_code), partition.error_message.map(str::to_owned))
}

/// Produces a record in a transaction of version 2. Returns the error code.
pub(crate) fn write(
    world: &mut Cluster,
    id: &str,
    producer: Producer,
    partition: i32,
    sequence: i32,
    value: &str,
) -> ErrorCode {
    write_in(world, id, partition, &batch(producer, sequence, true, value), 12).0
}

/// The values that a reader sees, and the last stable offset.
pub(crate) fn read(world: &mut Cluster, partition: i32, committed_only: bool) -> (Vec<String>, i64) {
    let (node, topic_id) = world.leader(partition);
    let node = node.unwrap();
    let mut values = Vec::new();
    let mut offset = 0;
    for _ in 0..10_000 {
        let fetched =
            FetchPartition { partition, fetch_offset: offset, partition_max_bytes: 1 << 20, ..Default::default() };
        let topic = FetchTopic { topic_id, partitions: vec![fetched], ..Default::default() };
        let request = FetchRequest {
            max_wait_ms: 0,
            min_bytes: 0,
            max_bytes: 1 << 20,
            isolation_level: i8::from(committed_only),
            session_epoch: -1,
            topics: vec![topic],
            ..Default::default()
        };
        let answer = world.ask(node, &request, 16);
        let data = &answer.responses[0].partitions[0];
        assert_eq!(data.error_code, 0);
        let records = Bytes::copy_from_slice(data.records.unwrap_or_default());
        let last_stable_offset = data.last_stable_offset;
        if records.is_empty() {
            return (values, last_stable_offset);
        }
        // Drops the records of aborted transactions as a client does: from the first offset of each to its marker.
        let mut aborted: Vec<(i64, i64)> = data
            .aborted_transactions
            .iter()
            .flatten()
            .map(|aborted| (aborted.first_offset, aborted.producer_id))
            .collect();
        aborted.sort_unstable();
        let mut dropped = BTreeSet::new();
        for batch in Batches::new(&records) {
            let batch = batch.unwrap();
            let header = &batch.header;
            while aborted.first().is_some_and(|(first, _)| *first <= header.last_offset()) {
                dropped.insert(aborted.remove(0).1);
            }
            offset = header.next_offset();
            if header.is_control() {
                dropped.remove(&header.producer_id);
            } else if !(committed_only && header.is_transactional() && dropped.contains(&header.producer_id)) {
                let records = batch.records(batch.payload());
                values
                    .extend(records.map(|record| String::from_utf8(record.unwrap().value.unwrap().to_vec()).unwrap()));
            }
        }
    }
    panic!("a log without end");
}
