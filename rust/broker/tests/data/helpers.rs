//! Helpers that send the requests of the data path.

use monedula_protocol::compression::Compressor;
use monedula_protocol::messages::fetch::{
    FetchPartition, FetchRequest, FetchResponse, FetchTopic, FetchableTopicResponse, PartitionData,
};
use monedula_protocol::messages::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use monedula_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use monedula_protocol::messages::produce::{
    PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData,
};
use monedula_protocol::records::{BatchEncoder, Batches, NewRecord};
use monedula_protocol::types::Uuid;

use crate::support::{START_MS, World};

pub(crate) const TOPIC: &str = "orders";

/// The highest versions of Produce and Fetch without topic ids.
pub(crate) const PRODUCE: i16 = 12;
pub(crate) const FETCH: i16 = 12;

/// A cluster of one node with one topic.
pub(crate) fn world_with(partitions: i32, kafka: &[(&str, &str)]) -> World {
    let partitions = partitions.to_string();
    let settings: Vec<_> = kafka.iter().copied().chain([("num.partitions", partitions.as_str())]).collect();
    let mut world = World::with(1, &settings);
    create(&mut world, TOPIC);
    world
}

pub(crate) fn world() -> World {
    world_with(1, &[])
}

/// Creates a topic and returns its id.
pub(crate) fn create(world: &mut World, name: &str) -> Uuid {
    let topics = Some(vec![MetadataRequestTopic { name: Some(name), ..Default::default() }]);
    let request = MetadataRequest { topics, allow_auto_topic_creation: true, ..Default::default() };
    // The first answer is that it is not there yet.
    world.call(1, &request, 12);
    world.call(1, &request, 12).topics[0].topic_id
}

pub(crate) fn encode(encoder: &BatchEncoder) -> Vec<u8> {
    let mut bytes = Vec::new();
    encoder.encode(&mut Compressor::new(), &mut bytes).unwrap();
    bytes
}

/// The batch with log append time as its timestamp type.
pub(crate) fn with_append_time(batch: &[u8], append_time_ms: i64) -> Vec<u8> {
    let batch = Batches::new(batch).next().unwrap().unwrap();
    let mut header = batch.header;
    header.set_log_append_time(append_time_ms);
    header.crc = header.crc_over(batch.payload());
    [&header.to_bytes()[..], batch.payload()].concat()
}

pub(crate) fn fill(mut encoder: BatchEncoder, values: &[&str]) -> BatchEncoder {
    for value in values {
        let value = Some(value.as_bytes());
        encoder.append(NewRecord { timestamp_ms: START_MS, key: Some(b"k"), value, headers: &[] });
    }
    encoder
}

pub(crate) fn batch(values: &[&str]) -> Vec<u8> {
    encode(&fill(BatchEncoder::new(), values))
}

pub(crate) fn produce_request<'a>(topic: &'a str, index: i32, records: &'a [u8]) -> ProduceRequest<'a> {
    let partition_data = vec![PartitionProduceData { index, records: Some(records), ..Default::default() }];
    let topic_data = vec![TopicProduceData { name: topic, partition_data, ..Default::default() }];
    ProduceRequest { acks: -1, timeout_ms: 1000, topic_data, ..Default::default() }
}

/// Produces a batch to partition 0. Returns the partition's answer.
pub(crate) fn produce(world: &mut World, records: &[u8]) -> PartitionProduceResponse<'static> {
    let mut answer = world.call(1, &produce_request(TOPIC, 0, records), PRODUCE);
    answer.responses.remove(0).partition_responses.remove(0)
}

/// Produces values, which must succeed. Returns the first offset.
pub(crate) fn produce_values(world: &mut World, values: &[&str]) -> i64 {
    let answer = produce(world, &batch(values));
    assert_eq!(answer.error_code, 0, "{answer:?}");
    answer.base_offset
}

pub(crate) fn fetch_partition(partition: i32, fetch_offset: i64) -> FetchPartition<'static> {
    FetchPartition { partition, fetch_offset, partition_max_bytes: 1 << 20, ..Default::default() }
}

/// A Fetch without a session and without a wait.
pub(crate) fn fetch_request<'a>(topic: &'a str, partitions: Vec<FetchPartition<'a>>) -> FetchRequest<'a> {
    let topics = vec![FetchTopic { topic, partitions, ..Default::default() }];
    FetchRequest { max_wait_ms: 0, min_bytes: 1, max_bytes: 1 << 20, topics, ..Default::default() }
}

/// Fetches partition 0 from an offset on.
pub(crate) fn fetch(world: &mut World, offset: i64) -> PartitionData<'static> {
    only(world.call(1, &fetch_request(TOPIC, vec![fetch_partition(0, offset)]), FETCH))
}

pub(crate) fn only(mut answer: FetchResponse<'static>) -> PartitionData<'static> {
    assert_eq!((answer.error_code, answer.responses.len()), (0, 1), "{answer:?}");
    let FetchableTopicResponse { mut partitions, .. } = answer.responses.remove(0);
    assert_eq!(partitions.len(), 1);
    partitions.remove(0)
}

/// The offsets and values of the records in an answer. A batch that is cut off at the end is left out.
pub(crate) fn records(data: &PartitionData<'_>) -> Vec<(i64, String)> {
    let batches = Batches::new(data.records.unwrap_or_default()).map(Result::unwrap);
    let mut records = Vec::new();
    for batch in batches {
        batch.verify_crc().unwrap();
        if batch.header.is_control() {
            continue;
        }
        let codec = batch.header.compression();
        let limits = monedula_protocol::compression::MAX_OUTPUT_BYTES;
        let payload = monedula_protocol::compression::Decompressor::new()
            .decompress_to_vec(codec, batch.payload(), limits)
            .unwrap();
        let text = |record: monedula_protocol::records::Record<'_>| {
            (record.offset, String::from_utf8(record.value.unwrap_or_default().to_vec()).unwrap())
        };
        records.extend(batch.records(&payload).map(|record| text(record.unwrap())));
    }
    records
}

/// The offsets and values of all records from an offset on. It takes several fetches, because an answer has the records
/// of one segment.
pub(crate) fn all_records(world: &mut World, mut offset: i64) -> Vec<(i64, String)> {
    let mut all = Vec::new();
    loop {
        let data = fetch(world, offset);
        let Some(last) = Batches::new(data.records.unwrap_or_default()).map(Result::unwrap).last() else { return all };
        all.extend(records(&data));
        offset = last.header.next_offset();
    }
}

pub(crate) fn values(data: &PartitionData<'_>) -> Vec<String> {
    records(data).into_iter().map(|(_, value)| value).collect()
}

/// The error code, offset and timestamp that ListOffsets answers for a timestamp in partition 0.
pub(crate) fn list_offset(world: &mut World, timestamp: i64, isolation_level: i8) -> (i16, i64, i64) {
    let partitions = vec![ListOffsetsPartition { timestamp, ..Default::default() }];
    let topics = vec![ListOffsetsTopic { name: TOPIC, partitions, ..Default::default() }];
    let request = ListOffsetsRequest { replica_id: -1, isolation_level, topics, ..Default::default() };
    let answer = world.call(1, &request, 11);
    let found = &answer.topics[0].partitions[0];
    (found.error_code, found.offset, found.timestamp)
}
