//! AddPartitionsToTxn, versions 0-5. Clients send versions 0-3, for one transaction. Versions 4 and 5 are the ones that
//! Kafka's brokers send to each other: for several transactions, and to verify that partitions are in a transaction
//! (KIP-890).
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use std::collections::BTreeSet;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::add_partitions_to_txn::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic, AddPartitionsToTxnTopicResult, AddPartitionsToTxnTransaction,
};

use super::{Handled, code, fenced_for};
use crate::cluster::Coordinated;
use crate::core::Core;
use crate::request::{Call, Mentions, TopicKey};
use crate::security::{Operation, Resource};
use crate::transactions::TopicPartition;

/// Clients know PRODUCER_FENCED from this version on (KIP-588).
const PRODUCER_FENCED_FROM: i16 = 2;
/// From this version on, brokers send the request to each other, with several transactions.
const BATCHED_FROM: i16 = 4;

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &AddPartitionsToTxnRequest<'_>) -> Handled {
    let allowed = match call.version {
        ..BATCHED_FROM => {
            let id = Resource::TransactionalId(request.v3_and_below_transactional_id);
            core.authorize(call, Operation::Write, id)
        }
        _ => core.authorize(call, Operation::ClusterAction, Resource::Cluster),
    };
    allowed?;
    if call.version < BATCHED_FROM {
        let transaction = only(request);
        let results_by_topic_v3_and_below = add(core, call, &transaction);
        let response = AddPartitionsToTxnResponse { results_by_topic_v3_and_below, ..Default::default() };
        return Ok(call.answer::<AddPartitionsToTxnRequest<'_>>(&response));
    }
    let mut results = Vec::with_capacity(request.transactions.len());
    for transaction in &request.transactions {
        results.push(AddPartitionsToTxnResult {
            transactional_id: transaction.transactional_id,
            topic_results: add(core, call, transaction),
            ..Default::default()
        });
    }
    let response = AddPartitionsToTxnResponse { results_by_transaction: results, ..Default::default() };
    Ok(call.answer::<AddPartitionsToTxnRequest<'_>>(&response))
}

/// The only transaction of a request up to version 3.
fn only<'a>(request: &AddPartitionsToTxnRequest<'a>) -> AddPartitionsToTxnTransaction<'a> {
    AddPartitionsToTxnTransaction {
        transactional_id: request.v3_and_below_transactional_id,
        producer_id: request.v3_and_below_producer_id,
        producer_epoch: request.v3_and_below_producer_epoch,
        topics: request.v3_and_below_topics.clone(),
        ..Default::default()
    }
}

fn add<'a>(
    core: &mut Core,
    call: &Call<'_>,
    transaction: &AddPartitionsToTxnTransaction<'a>,
) -> Vec<AddPartitionsToTxnTopicResult<'a>> {
    let mut wanted = Vec::new();
    for topic in &transaction.topics {
        for &partition in &topic.partitions {
            wanted.push((topic.name, partition, check(core, call, topic.name, partition)));
        }
    }
    // Either all partitions are added or none: those without an error get OPERATION_NOT_ATTEMPTED.
    if wanted.iter().any(|(.., error)| *error != ErrorCode::None) {
        return results(&transaction.topics, |topic, partition| {
            let found = wanted.iter().find(|(name, index, _)| (*name, *index) == (topic, partition));
            match found.map_or(ErrorCode::None, |(.., error)| *error) {
                ErrorCode::None => ErrorCode::OperationNotAttempted,
                error => error,
            }
        });
    }
    let producer = (transaction.producer_id, transaction.producer_epoch);
    let id = transaction.transactional_id;
    if transaction.verify_only {
        return results(&transaction.topics, |topic, partition| {
            let outcome = core.verify_in_transaction(call.node, id, producer, &(topic.into(), partition));
            outcome.err().unwrap_or(ErrorCode::None)
        });
    }
    let partitions: BTreeSet<TopicPartition> =
        wanted.iter().map(|(topic, partition, _)| ((*topic).into(), *partition)).collect();
    let outcome = core.add_to_transaction(call.node, id, producer, &partitions);
    let outcome = outcome.map_err(|error| fenced_for(call.version, PRODUCER_FENCED_FROM, error));
    results(&transaction.topics, |_, _| ErrorCode::from_code(code(outcome)))
}

fn check(core: &mut Core, call: &Call<'_>, topic: &str, partition: i32) -> ErrorCode {
    if let Some(error) = core.faults.partition_error(call, topic, partition) {
        return error;
    }
    // Clients add partitions of internal topics with AddOffsetsToTxn.
    let from_client = call.version < BATCHED_FROM;
    if from_client
        && (Coordinated::of_topic(topic).is_some() || !core.allows(call, Operation::Write, Resource::Topic(topic)))
    {
        return ErrorCode::TopicAuthorizationFailed;
    }
    match core.topics.partition(topic, partition) {
        Some(_) => ErrorCode::None,
        None => ErrorCode::UnknownTopicOrPartition,
    }
}

fn results<'a>(
    topics: &[AddPartitionsToTxnTopic<'a>],
    mut outcome: impl FnMut(&str, i32) -> ErrorCode,
) -> Vec<AddPartitionsToTxnTopicResult<'a>> {
    let mut of_topic = |topic: &AddPartitionsToTxnTopic<'a>| {
        let partitions = topic.partitions.iter().map(|&partition_index| AddPartitionsToTxnPartitionResult {
            partition_index,
            partition_error_code: outcome(topic.name, partition_index).code(),
            ..Default::default()
        });
        let results_by_partition = partitions.collect();
        AddPartitionsToTxnTopicResult { name: topic.name, results_by_partition, ..Default::default() }
    };
    topics.iter().map(&mut of_topic).collect()
}

pub(super) fn refuse<'a>(request: &AddPartitionsToTxnRequest<'a>, error: ErrorCode) -> AddPartitionsToTxnResponse<'a> {
    // The version is not known here, but only requests from version 4 on have `transactions`.
    if request.transactions.is_empty() {
        let results_by_topic_v3_and_below = results(&request.v3_and_below_topics, |_, _| error);
        return AddPartitionsToTxnResponse { results_by_topic_v3_and_below, ..Default::default() };
    }
    AddPartitionsToTxnResponse { error_code: error.code(), ..Default::default() }
}

pub(super) fn mentions<'a>(request: &AddPartitionsToTxnRequest<'a>) -> Mentions<'a> {
    let topics = request.transactions.iter().flat_map(|transaction| &transaction.topics);
    let topics = topics.chain(&request.v3_and_below_topics);
    let partitions = topics.flat_map(|topic| topic.partitions.iter().map(|index| (TopicKey::Name(topic.name), *index)));
    let id = match request.transactions.first() {
        Some(transaction) => transaction.transactional_id,
        None => request.v3_and_below_transactional_id,
    };
    Mentions { transactional_id: Some(id), partitions: partitions.collect(), ..Default::default() }
}
