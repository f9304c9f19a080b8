//! DescribeProducers, version 0 (KIP-664): the state of the producers that each partition remembers.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::describe_producers::{
    DescribeProducersRequest, DescribeProducersResponse, PartitionResponse, ProducerState, TopicRequest, TopicResponse,
};

use super::Handled;
use crate::cluster::check_topic_name;
use crate::core::Core;
use crate::request::{Call, Mentions, TopicKey};
use crate::security::{Operation, Resource};

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &DescribeProducersRequest<'_>) -> Handled {
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        // Kafka sends a message for an unknown topic, but none for an unknown partition of a known topic.
        let unknown = core.topics.get(topic.name).is_none();
        let mut partitions = Vec::with_capacity(topic.partition_indexes.len());
        for &index in &topic.partition_indexes {
            let found = find(core, call, topic.name, index);
            let told = |error: &&ErrorCode| unknown || **error == ErrorCode::TopicAuthorizationFailed;
            let error_message = found.as_ref().err().filter(told).map(|error| error.name());
            partitions.push(PartitionResponse { error_message, ..describe(index, found) });
        }
        topics.push(TopicResponse { name: topic.name, partitions, ..Default::default() });
    }
    Ok(call.answer::<DescribeProducersRequest<'_>>(&DescribeProducersResponse { topics, ..Default::default() }))
}

fn find(core: &mut Core, call: &Call<'_>, topic: &str, index: i32) -> Result<Vec<ProducerState<'static>>, ErrorCode> {
    core.authorize(call, Operation::Read, Resource::Topic(topic))?;
    if let Some(error) = core.faults.partition_error(call, topic, index) {
        return Err(error);
    }
    if check_topic_name(topic).is_err() {
        return Err(ErrorCode::InvalidTopicException);
    }
    let partition = core.topics.partition(topic, index).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    // Followers know the producers too.
    if !partition.replicas.contains(&call.node) {
        return Err(ErrorCode::NotLeaderOrFollower);
    }
    let states = partition.log.producers().all().map(|(producer_id, producer)| ProducerState {
        producer_id,
        producer_epoch: producer.epoch.into(),
        last_sequence: producer.last_sequence(),
        last_timestamp: producer.last_timestamp_ms,
        coordinator_epoch: producer.coordinator_epoch,
        current_txn_start_offset: producer.transaction_start.unwrap_or(-1),
        ..Default::default()
    });
    Ok(states.collect())
}

fn describe<'a>(partition_index: i32, found: Result<Vec<ProducerState<'a>>, ErrorCode>) -> PartitionResponse<'a> {
    match found {
        Ok(active_producers) => PartitionResponse { partition_index, active_producers, ..Default::default() },
        Err(error) => PartitionResponse { partition_index, error_code: error.code(), ..Default::default() },
    }
}

pub(super) fn refuse<'a>(request: &DescribeProducersRequest<'a>, error: ErrorCode) -> DescribeProducersResponse<'a> {
    let refused = |topic: &TopicRequest<'a>| TopicResponse {
        name: topic.name,
        partitions: topic.partition_indexes.iter().map(|&index| describe(index, Err(error))).collect(),
        ..Default::default()
    };
    DescribeProducersResponse { topics: request.topics.iter().map(refused).collect(), ..Default::default() }
}

pub(super) fn mentions<'a>(request: &DescribeProducersRequest<'a>) -> Mentions<'a> {
    let partitions = request
        .topics
        .iter()
        .flat_map(|topic| topic.partition_indexes.iter().map(|&index| (TopicKey::Name(topic.name), index)));
    Mentions { partitions: partitions.collect(), ..Default::default() }
}
