//! The embedded broker's core: takes requests as bytes, and returns answers.

use std::collections::BTreeMap;

use bytes::Bytes;
use monedula_broker::NodeId;
use monedula_broker::control::Command;
use monedula_broker::core::{Action, ConnectionId, Core};
use monedula_broker::settings::Settings;
use monedula_engine::Now;
use monedula_engine::cluster::Cluster;
use monedula_engine::produce::{Acks, PartitionAnswer};
use monedula_engine::{TopicPartition, produce::RequestBatch};
use monedula_protocol::api::{ApiKey, Request};
use monedula_protocol::compression::{Compressor, Decompressor, MAX_OUTPUT_BYTES};
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame::{decode_response, encode_request};
use monedula_protocol::messages::fetch::{AbortedTransaction, FetchPartition, FetchRequest, FetchTopic};
use monedula_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use monedula_protocol::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use monedula_protocol::messages::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use monedula_protocol::records::{BatchEncoder, Batches, NewRecord};

pub(crate) const TOPIC: &str = "t";
pub(crate) const NODES: u16 = 3;
pub(crate) const TRANSACTIONAL_ID: &str = "id";
pub(crate) const GROUP: &str = "g";
const START_MS: i64 = 1_700_000_000_000;
/// The highest versions without topic ids.
const PRODUCE: i16 = 12;
const OFFSET_FETCH: i16 = 9;
const FETCH: i16 = 12;
const METADATA: i16 = 12;

/// How far brokers implement KIP-890.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transactions {
    /// Each transaction has an epoch of its own.
    Version2,
    /// All transactions have one epoch; a write outside of a transaction is refused.
    Version1,
    /// Before Kafka 3.6: such a write is accepted.
    Unverified,
}

#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) core: Core,
    pub(crate) alive: Vec<i32>,
}

pub(crate) fn wall_ms(now: Now) -> i64 {
    START_MS + i64::try_from(now.as_millis()).unwrap()
}

impl Broker {
    pub(crate) fn new(seed: u64, partitions: i32, max_message_bytes: usize, of: Transactions) -> Self {
        let max_versions = match of {
            Transactions::Version2 => BTreeMap::new(),
            Transactions::Version1 | Transactions::Unverified => [(ApiKey::EndTxn.code(), 4)].into(),
        };
        let mut settings = Settings { nodes: NODES, seed, max_versions, ..Settings::default() };
        settings.kafka.transaction_partition_verification_enable = of != Transactions::Unverified;
        let mut core = Core::new(settings, START_MS).unwrap();
        let config = [("max.message.bytes".to_owned(), max_message_bytes.to_string())].into();
        let create =
            Command::CreateTopic { topic: TOPIC.to_owned(), partitions: Some(partitions), replicas: Some(3), config };
        core.control(START_MS, create).unwrap();
        Self { core, alive: (1..=i32::from(NODES)).collect() }
    }

    pub(crate) fn connect(&mut self, now: Now, node: i32) -> ConnectionId {
        self.core.connected(wall_ms(now), NodeId(node), "127.0.0.1")
    }

    pub(crate) fn command(&mut self, now: Now, command: Command) -> bool {
        self.core.control(wall_ms(now), command).is_ok()
    }

    pub(crate) fn stop(&mut self, now: Now, node: i32) {
        if self.command(now, Command::StopNode { node: NodeId(node) }) {
            self.alive.retain(|alive| *alive != node);
        }
    }

    pub(crate) fn start(&mut self, now: Now, node: i32) {
        if self.command(now, Command::StartNode { node: NodeId(node) }) {
            self.alive.push(node);
        }
    }

    /// Sends a request on a connection of its own, and returns the answer without its length. Answers to other
    /// connections are added to `others`.
    fn ask<'q, R: Request<'q>>(
        &mut self,
        now: Now,
        request: &R,
        version: i16,
        others: &mut Vec<(ConnectionId, Action)>,
    ) -> Vec<u8> {
        let connection = self.connect(now, self.alive[0]);
        let frame = Bytes::from(encode_request(request, version, 1, Some("sim")).unwrap()).slice(4..);
        self.core.request(wall_ms(now), connection, &frame);
        let mut answer = None;
        for reply in self.core.drain() {
            match reply.action {
                Action::Send(pieces) if reply.connection == connection => answer = Some(pieces.concat()),
                action => others.push((reply.connection, action)),
            }
        }
        self.core.disconnected(wall_ms(now), connection);
        answer.expect("it answers at once").split_off(4)
    }

    /// The current metadata.
    pub(crate) fn metadata(&mut self, now: Now, cluster: &mut Cluster, others: &mut Vec<(ConnectionId, Action)>) {
        let topics = Some(vec![MetadataRequestTopic { name: Some(TOPIC), ..Default::default() }]);
        let request = MetadataRequest { topics, ..Default::default() };
        let answer = self.ask(now, &request, METADATA, others);
        cluster.update(&decode_response::<MetadataRequest<'_>>(&answer, METADATA).unwrap(), now);
    }

    /// The group's committed offset of the first partition. An error while a transaction is open that would change it.
    pub(crate) fn committed(&mut self, now: Now) -> Result<Option<i64>, ErrorCode> {
        let command = Command::MoveCoordinator {
            group: Some(GROUP.to_owned()),
            transactional_id: None,
            node: NodeId(self.alive[0]),
        };
        assert!(self.command(now, command));
        let topics =
            Some(vec![OffsetFetchRequestTopics { name: TOPIC, partition_indexes: vec![0], ..Default::default() }]);
        let groups = vec![OffsetFetchRequestGroup { group_id: GROUP, topics, ..Default::default() }];
        let request = OffsetFetchRequest { groups, require_stable: true, ..Default::default() };
        let answer = self.ask(now, &request, OFFSET_FETCH, &mut Vec::new());
        let answer = decode_response::<OffsetFetchRequest<'_>>(&answer, OFFSET_FETCH).unwrap();
        let at = &answer.groups[0].topics[0].partitions[0];
        assert_eq!(answer.groups[0].error_code, 0);
        ErrorCode::check(at.error_code)?;
        Ok(Some(at.committed_offset).filter(|offset| *offset >= 0))
    }

    /// The values of a partition's records that read_committed sees. `None` while a transaction is open.
    pub(crate) fn log(&mut self, now: Now, partition: i32) -> Option<Vec<(i64, u64)>> {
        let command = Command::MoveLeader { topic: TOPIC.to_owned(), partition, node: NodeId(self.alive[0]) };
        assert!(self.command(now, command));
        let partitions = vec![FetchPartition { partition, partition_max_bytes: i32::MAX, ..Default::default() }];
        let topics = vec![FetchTopic { topic: TOPIC, partitions, ..Default::default() }];
        let request =
            FetchRequest { min_bytes: 1, max_bytes: i32::MAX, isolation_level: 1, topics, ..Default::default() };
        let answer = self.ask(now, &request, FETCH, &mut Vec::new());
        let answer = decode_response::<FetchRequest<'_>>(&answer, FETCH).unwrap();
        let mut found = Vec::new();
        let data = &answer.responses[0].partitions[0];
        assert_eq!(data.error_code, 0);
        if data.last_stable_offset < data.high_watermark {
            return None;
        }
        // An aborted transaction reaches from its first offset to its end marker.
        let mut aborted: Vec<(i64, i64)> = data.aborted_transactions.iter().flatten().map(span).collect();
        aborted.sort_by_key(|(_, first)| *first);
        for batch in Batches::new(data.records.unwrap_or_default()).map(Result::unwrap) {
            let of = |(producer, first): &(i64, i64)| {
                *producer == batch.header.producer_id && *first <= batch.header.base_offset
            };
            let dropped = aborted.iter().position(of);
            if batch.header.is_control() {
                dropped.map(|index| aborted.remove(index));
                continue;
            }
            if dropped.is_some() && batch.header.is_transactional() {
                continue;
            }
            let codec = batch.header.compression();
            let payload = Decompressor::new().decompress_to_vec(codec, batch.payload(), MAX_OUTPUT_BYTES).unwrap();
            for record in batch.records(&payload).map(Result::unwrap) {
                found.push((record.offset, u64::from_be_bytes(record.value.unwrap().try_into().unwrap())));
            }
        }
        Some(found)
    }
}

fn span(aborted: &AbortedTransaction<'_>) -> (i64, i64) {
    (aborted.producer_id, aborted.first_offset)
}

/// A Produce request without its length; in a transaction, with the transactional id and the version.
pub(crate) fn encode(
    acks: Acks,
    batches: &[(RequestBatch, Vec<u64>)],
    correlation_id: i32,
    transactional: Option<(&str, i16)>,
) -> Bytes {
    let in_transaction = transactional.is_some();
    let records: Vec<Vec<u8>> =
        batches.iter().map(|(sending, records)| batch(sending, records, in_transaction)).collect();
    let partition_data = batches.iter().zip(&records).map(|((sending, _), records)| PartitionProduceData {
        index: sending.partition.partition,
        records: Some(records),
        ..Default::default()
    });
    let topic_data =
        vec![TopicProduceData { name: TOPIC, partition_data: partition_data.collect(), ..Default::default() }];
    let acks = match acks {
        Acks::None => 0,
        Acks::Leader => 1,
        Acks::All => -1,
    };
    let (transactional_id, version) = (transactional.map(|(id, _)| id), transactional.map_or(PRODUCE, |(_, v)| v));
    let request = ProduceRequest { transactional_id, acks, timeout_ms: 30_000, topic_data, ..Default::default() };
    Bytes::from(encode_request(&request, version, correlation_id, Some("sim")).unwrap()).slice(4..)
}

fn batch(sending: &RequestBatch, records: &[u64], in_transaction: bool) -> Vec<u8> {
    let mut encoder = BatchEncoder::new();
    if let Some((identity, sequence)) = sending.sequence {
        encoder = encoder.producer(identity.producer_id, identity.epoch, sequence);
    }
    if in_transaction {
        encoder = encoder.transactional();
    }
    for record in records {
        let value = record.to_be_bytes();
        encoder.append(NewRecord { timestamp_ms: START_MS, key: None, value: Some(&value), headers: &[] });
    }
    let mut bytes = Vec::new();
    encoder.encode(&mut Compressor::new(), &mut bytes).unwrap();
    bytes
}

/// The content of an answer, by partition; versions 11 and 12 have one format.
pub(crate) fn decode(frame: &[u8]) -> Vec<PartitionAnswer> {
    let response = decode_response::<ProduceRequest<'_>>(frame, PRODUCE).unwrap();
    let partitions = response.responses.iter().flat_map(|topic| &topic.partition_responses);
    let answer = |answer: &monedula_protocol::messages::produce::PartitionProduceResponse<'_>| PartitionAnswer {
        partition: TopicPartition::new(TOPIC, answer.index),
        code: ErrorCode::from_code(answer.error_code),
        message: answer.error_message.map(str::to_owned),
        base_offset: answer.base_offset,
        log_append_time_ms: answer.log_append_time_ms,
        log_start_offset: answer.log_start_offset,
        record_errors: Vec::new(),
        leader: Some((answer.current_leader.leader_id, answer.current_leader.leader_epoch))
            .filter(|leader| leader.0 >= 0),
    };
    partitions.map(answer).collect()
}
