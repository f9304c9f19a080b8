//! Produce, versions 3-13: appends one record batch to each partition. It never creates a topic.
//!
//! Not implemented: nothing known, besides what [`super`] lists. acks=all does not wait: the in-sync replicas share one
//! log and have every record at once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use bytes::Bytes;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::produce::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint, PartitionProduceData, PartitionProduceResponse,
    ProduceRequest, ProduceResponse, TopicProduceData, TopicProduceResponse,
};
use monedula_protocol::records::{Batches, RecordsError};

use super::{Handled, has_no_time};
use crate::cluster::Coordinated;
use crate::core::{Appended, Core};
use crate::log::Batch;
use crate::log::validate::{Refusal, single_batch};
use crate::request::{Answer, Call, Mentions, TopicKey};
use crate::security::{ByteQuota, Operation, Resource};
use crate::transactions::Membership;

/// The client id that Kafka allows to write to internal topics.
const ADMIN_CLIENT_ID: &str = "__admin_client";

/// The outcome for the batch of one partition.
struct ProducedBatch {
    index: i32,
    result: Result<Appended, Refusal>,
    /// Set even if the batch was refused, once the log was read; else -1.
    log_start_offset: i64,
    /// True if the batch is in the log, and the request has no time to wait for the other replicas in sync.
    timed_out: bool,
    /// The leader and its epoch, if the node is not the leader (KIP-951).
    leader: Option<(i32, i32)>,
}

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &ProduceRequest<'_>) -> Handled {
    if has_transactional_records(request) && !may_use_transactional_id(core, call, request) {
        let refused = refuse(request, ErrorCode::TransactionalIdAuthorizationFailed);
        return Ok(finish(core, call, request, refused));
    }
    let mut outcomes = Vec::with_capacity(request.topic_data.len());
    for (topic, partitions) in wanted(request) {
        let name = match call.version {
            13.. => core.topics.name_of(topic.topic_id).ok_or(ErrorCode::UnknownTopicId),
            _ => core.topics.get(topic.name).map(|found| found.name.clone()).ok_or(ErrorCode::UnknownTopicOrPartition),
        };
        // A client that may not write to a topic must not learn whether it exists.
        let asked = name.as_deref().unwrap_or(topic.name);
        let name = match core.authorize(call, Operation::Write, Resource::Topic(asked)) {
            Err(error) if name != Err(ErrorCode::UnknownTopicId) => Err(error),
            _ => name,
        };
        let partitions = partitions.into_iter().map(|data| match &name {
            Ok(name) => produce(core, call, request, name, data),
            Err(error) => {
                let result = Err((*error).into());
                ProducedBatch { index: data.index, result, log_start_offset: -1, timed_out: false, leader: None }
            }
        });
        outcomes.push((topic, partitions.collect::<Vec<_>>()));
    }
    let hints = outcomes.iter().flat_map(|(_, outcomes)| outcomes).filter_map(|one| one.leader);
    let endpoints = core.nodes.endpoints(hints, call.origin.protocol);
    let response = ProduceResponse {
        responses: outcomes.iter().map(|(topic, outcomes)| describe(topic, outcomes)).collect(),
        node_endpoints: endpoints
            .iter()
            .map(|node| NodeEndpoint {
                node_id: node.id.0,
                host: &node.host,
                port: node.port.into(),
                rack: node.rack.as_deref(),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    Ok(finish(core, call, request, response))
}

/// The topics with their partitions, each once and none without partitions. If a partition is in the request twice, the
/// later batch counts, at the place of the first.
fn wanted<'a, 'r>(
    request: &'r ProduceRequest<'a>,
) -> Vec<(&'r TopicProduceData<'a>, Vec<&'r PartitionProduceData<'a>>)> {
    let mut wanted: Vec<(&TopicProduceData<'_>, Vec<&PartitionProduceData<'_>>)> = Vec::new();
    let mut topics = HashMap::new();
    let mut partitions = HashMap::new();
    for topic in request.topic_data.iter().filter(|topic| !topic.partition_data.is_empty()) {
        let key = (topic.name, topic.topic_id);
        let at = *topics.entry(key).or_insert_with(|| {
            wanted.push((topic, Vec::with_capacity(topic.partition_data.len())));
            wanted.len() - 1
        });
        for data in &topic.partition_data {
            let into = &mut wanted[at].1;
            match partitions.entry((key, data.index)) {
                Entry::Occupied(place) => into[*place.get()] = data,
                Entry::Vacant(place) => {
                    place.insert(into.len());
                    into.push(data);
                }
            }
        }
    }
    wanted
}

/// Makes the answer. With acks=0 there is no response, so an error closes the connection.
fn finish(core: &mut Core, call: &Call<'_>, request: &ProduceRequest<'_>, response: ProduceResponse<'_>) -> Answer {
    let throttle_time_ms = core.throttle(call.ticket.connection, ByteQuota::Produced, call.frame.len());
    if request.acks != 0 {
        return call.answer::<ProduceRequest<'_>>(&ProduceResponse { throttle_time_ms, ..response });
    }
    let mut partitions = response.responses.iter().flat_map(|topic| &topic.partition_responses);
    match partitions.find(|partition| partition.error_code != 0) {
        Some(failed) => Answer::Close(format!(
            "a Produce with acks=0 failed in partition {}: {}",
            failed.index,
            ErrorCode::from_code(failed.error_code).name()
        )),
        None => Answer::Nothing,
    }
}

/// Clients know TRANSACTION_ABORTABLE from this version on (KIP-890).
const KNOWS_ABORTABLE_FROM: i16 = 11;
/// From this version on, a Produce adds its partitions to the transaction (KIP-890).
const ADDS_PARTITIONS_FROM: i16 = 12;

fn may_use_transactional_id(core: &Core, call: &Call<'_>, request: &ProduceRequest<'_>) -> bool {
    request.transactional_id.is_some_and(|id| core.allows(call, Operation::Write, Resource::TransactionalId(id)))
}

fn has_transactional_records(request: &ProduceRequest<'_>) -> bool {
    let partitions = request.topic_data.iter().flat_map(|topic| &topic.partition_data);
    partitions.filter_map(|data| data.records).any(|records| {
        let batch = Batches::new(records).next();
        batch.and_then(Result::ok).is_some_and(|batch| batch.header.is_transactional())
    })
}

fn produce(
    core: &mut Core,
    call: &Call<'_>,
    request: &ProduceRequest<'_>,
    topic: &str,
    data: &PartitionProduceData<'_>,
) -> ProducedBatch {
    let fault = core.faults.partition_error(call, topic, data.index);
    let mut in_transaction = true;
    let result = match fault {
        Some(error) => Err(error.into()),
        None => append(core, call, request, topic, data, &mut in_transaction),
    };
    let error = result.as_ref().map_or_else(|refusal| refusal.error, |_| ErrorCode::None);
    // With these errors Kafka refuses a batch before it reads the log, and answers the log start offset -1.
    let looked = !matches!(
        error,
        ErrorCode::UnknownTopicOrPartition
            | ErrorCode::NotLeaderOrFollower
            | ErrorCode::MessageTooLarge
            | ErrorCode::RecordListTooLarge
            | ErrorCode::CorruptMessage
            | ErrorCode::KafkaStorageError
            | ErrorCode::InvalidRequiredAcks
            | ErrorCode::InvalidTopicException
    );
    let looked = looked && in_transaction && (result.is_ok() || !refused_early(call, data));
    let partition = core.topics.partition(topic, data.index);
    let log_start_offset = partition.filter(|_| looked).map_or(-1, |partition| partition.log.start_offset());
    let leader = match error {
        ErrorCode::NotLeaderOrFollower if call.version >= 10 => core.topics.leader_hint(topic, data.index),
        _ => None,
    };
    let waits = request.acks == -1 && has_no_time(request.timeout_ms) && result.is_ok();
    let timed_out = waits && partition.is_some_and(|partition| partition.isr.len() > 1);
    ProducedBatch { index: data.index, result, log_start_offset, timed_out, leader }
}

/// True if the record bytes are refused before the log is read: for a wrong number of batches, but not for an invalid
/// field in the header of the batch.
fn refused_early(call: &Call<'_>, data: &PartitionProduceData<'_>) -> bool {
    let first = data.records.and_then(|records| Batches::new(records).next());
    !matches!(first, Some(Err(RecordsError::Header { .. }))) && batch_of(call, data).is_err()
}

fn batch_of(call: &Call<'_>, data: &PartitionProduceData<'_>) -> Result<Batch, Refusal> {
    let bytes: Bytes = call.frame.slice_ref(data.records.ok_or(ErrorCode::InvalidRecord)?);
    single_batch(&bytes, call.version)
}

fn append(
    core: &mut Core,
    call: &Call<'_>,
    request: &ProduceRequest<'_>,
    topic: &str,
    data: &PartitionProduceData<'_>,
    in_transaction: &mut bool,
) -> Result<Appended, Refusal> {
    let partition = core.topics.partition(topic, data.index).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    let batch = batch_of(call, data)?;
    if !(-1..=1).contains(&request.acks) {
        return Err(ErrorCode::InvalidRequiredAcks.into());
    }
    if Coordinated::of_topic(topic).is_some() && call.client_id != ADMIN_CLIENT_ID {
        return Err(ErrorCode::InvalidTopicException.into());
    }
    if partition.leader != Some(call.node) {
        return Err(ErrorCode::NotLeaderOrFollower.into());
    }
    let mut begins = false;
    if batch.header.is_transactional() {
        let joined = join_transaction(core, call, request, (topic, data.index), &batch);
        *in_transaction = joined.is_ok();
        begins = joined? && call.version >= ADDS_PARTITIONS_FROM;
    }
    core.append_from_client((topic, data.index), batch, request.acks, begins)
}

/// Checks that the partition is in the producer's transaction, or adds it (KIP-890). If the log shows an open
/// transaction of the same producer epoch, the coordinator need not be asked. Returns whether it was.
fn join_transaction(
    core: &mut Core,
    call: &Call<'_>,
    request: &ProduceRequest<'_>,
    (topic, index): (&str, i32),
    batch: &Batch,
) -> Result<bool, Refusal> {
    let producer = (batch.header.producer_id, batch.header.producer_epoch);
    let known = core.topics.partition(topic, index).and_then(|found| found.log.producers().get(producer.0));
    if known.is_some_and(|known| known.transaction_start.is_some() && known.epoch == producer.1) {
        return Ok(false);
    }
    let membership = match call.version {
        ADDS_PARTITIONS_FROM.. => Membership::Added,
        version => Membership::Checked { knows_abortable: version >= KNOWS_ABORTABLE_FROM },
    };
    let id = request.transactional_id.unwrap_or_default();
    let joined = core.join_transaction(id, producer, (topic.into(), index), membership);
    joined.map(|()| true).map_err(|error| {
        // Coordinator errors that clients would not retry after a Produce become NOT_ENOUGH_REPLICAS, which they retry.
        let unverified = match error {
            ErrorCode::ConcurrentTransactions => call.version < ADDS_PARTITIONS_FROM,
            ErrorCode::CoordinatorLoadInProgress | ErrorCode::CoordinatorNotAvailable | ErrorCode::NotCoordinator => {
                true
            }
            _ => false,
        };
        let (error, message) = match error {
            ErrorCode::InvalidTxnState => (error, Some("Partition was not added to the transaction".to_owned())),
            _ if unverified => {
                let start = "Unable to verify the partition has been added to the transaction. Underlying error";
                (ErrorCode::NotEnoughReplicas, Some(format!("{start}: {}", error.name())))
            }
            _ => (error, None),
        };
        Refusal { message, ..error.into() }
    })
}

fn describe<'a>(topic: &TopicProduceData<'a>, outcomes: &'a [ProducedBatch]) -> TopicProduceResponse<'a> {
    let partition_responses = outcomes.iter().map(|outcome| {
        let described = match &outcome.result {
            Ok(appended) => PartitionProduceResponse {
                base_offset: appended.base_offset,
                log_append_time_ms: appended.log_append_time_ms,
                error_code: if outcome.timed_out { ErrorCode::RequestTimedOut.code() } else { 0 },
                ..Default::default()
            },
            Err(refusal) => PartitionProduceResponse {
                error_code: refusal.error.code(),
                base_offset: -1,
                error_message: refusal.message.as_deref(),
                record_errors: refusal
                    .records
                    .iter()
                    .map(|(batch_index, problem)| BatchIndexAndErrorMessage {
                        batch_index: *batch_index,
                        batch_index_error_message: Some(problem),
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            },
        };
        let leader = outcome.leader.map(|(leader_id, leader_epoch)| LeaderIdAndEpoch {
            leader_id,
            leader_epoch,
            ..Default::default()
        });
        PartitionProduceResponse {
            index: outcome.index,
            log_start_offset: outcome.log_start_offset,
            current_leader: leader.unwrap_or_default(),
            ..described
        }
    });
    TopicProduceResponse {
        name: topic.name,
        topic_id: topic.topic_id,
        partition_responses: partition_responses.collect(),
        ..Default::default()
    }
}

pub(super) fn refuse<'a>(request: &ProduceRequest<'a>, error: ErrorCode) -> ProduceResponse<'a> {
    let refused = |topic: &TopicProduceData<'a>| TopicProduceResponse {
        name: topic.name,
        topic_id: topic.topic_id,
        partition_responses: topic
            .partition_data
            .iter()
            .map(|data| PartitionProduceResponse {
                index: data.index,
                error_code: error.code(),
                base_offset: -1,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    ProduceResponse { responses: request.topic_data.iter().map(refused).collect(), ..Default::default() }
}

pub(super) fn mentions<'a>(request: &ProduceRequest<'a>) -> Mentions<'a> {
    let partitions = request.topic_data.iter().flat_map(|topic| {
        let key = TopicKey::new(topic.name, topic.topic_id);
        topic.partition_data.iter().map(move |data| (key, data.index))
    });
    Mentions {
        partitions: partitions.collect(),
        transactional_id: request.transactional_id,
        unanswered: request.acks == 0,
        ..Default::default()
    }
}
