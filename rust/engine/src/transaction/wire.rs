//! Encoding of calls and decoding of their answers, for every version that a session supports.
//!
//! A broker may leave out what was requested, or answer what was not requested. Missing items stay missing; of repeated
//! ones the first counts; others are dropped.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use monedula_protocol::api::{ApiKey, Request};
use monedula_protocol::error::WireError;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame::{decode_response, encode_request};
use monedula_protocol::messages::add_offsets_to_txn::AddOffsetsToTxnRequest;
use monedula_protocol::messages::add_partitions_to_txn::{AddPartitionsToTxnRequest, AddPartitionsToTxnTopic};
use monedula_protocol::messages::end_txn::EndTxnRequest;
use monedula_protocol::messages::find_coordinator::FindCoordinatorRequest;
use monedula_protocol::messages::init_producer_id::InitProducerIdRequest;
use monedula_protocol::messages::txn_offset_commit::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};

use super::{Call, CallFailure, Ending, GroupMetadata, SessionConfig, TransactionResponse};
use crate::TopicPartition;
use crate::group::{CommitOffset, are_all_known, by_topic, name_of};
use crate::produce::ProducerIdentity;

/// From this version on, TxnOffsetCommit has topic ids instead of names (KIP-1319).
const TOPIC_IDS_FROM: i16 = 6;

impl Call {
    /// The name of the API.
    pub fn api(&self) -> &'static str {
        self.api_key().name()
    }

    /// The API key.
    pub fn api_key(&self) -> ApiKey {
        match self {
            Self::FindCoordinator { .. } => ApiKey::FindCoordinator,
            Self::InitProducerId { .. } => ApiKey::InitProducerId,
            Self::AddPartitionsToTxn { .. } => ApiKey::AddPartitionsToTxn,
            Self::AddOffsetsToTxn { .. } => ApiKey::AddOffsetsToTxn,
            Self::TxnOffsetCommit { .. } => ApiKey::TxnOffsetCommit,
            Self::EndTxn { .. } => ApiKey::EndTxn,
        }
    }

    /// The versions that can carry the call. The newest versions switch to transaction version 2 (KIP-890), so they are
    /// used with version 2 and only with it.
    pub fn versions(&self) -> RangeInclusive<i16> {
        match self {
            // The key type was added in version 1.
            Self::FindCoordinator { .. } => 1..=*FindCoordinatorRequest::VERSIONS.end(),
            Self::InitProducerId { current } => {
                let lowest = if current.is_some() { 3 } else { 0 };
                lowest..=*InitProducerIdRequest::VERSIONS.end()
            }
            // From version 4 on, only brokers send it.
            Self::AddPartitionsToTxn { .. } => 0..=3,
            Self::AddOffsetsToTxn { .. } => 0..=*AddOffsetsToTxnRequest::VERSIONS.end(),
            Self::TxnOffsetCommit { version2: true, group, offsets, .. } => {
                let by_ids = are_all_known(&group.topic_ids, offsets.keys());
                5..=if by_ids { *TxnOffsetCommitRequest::VERSIONS.end() } else { TOPIC_IDS_FROM - 1 }
            }
            // Without the member (version 3), the group could not fence a member that it has removed (KIP-447).
            Self::TxnOffsetCommit { group, .. } if !group.member_id.is_empty() => 3..=4,
            Self::TxnOffsetCommit { .. } => 0..=4,
            Self::EndTxn { version2: true, .. } => 5..=5,
            Self::EndTxn { .. } => 0..=4,
        }
    }

    /// Encodes the request as a frame with its length.
    ///
    /// # Errors
    /// If `version` cannot carry the call.
    pub fn encode(
        &self,
        config: &SessionConfig,
        version: i16,
        correlation_id: i32,
        client_id: Option<&str>,
    ) -> Result<Vec<u8>, WireError> {
        let transactional_id = config.transactional_id.as_deref().unwrap_or_default();
        match self {
            Self::FindCoordinator { group } => {
                let (key, key_type) = match group {
                    Some(group) => (group.as_str(), FindCoordinatorRequest::GROUP),
                    None => (transactional_id, FindCoordinatorRequest::TRANSACTION),
                };
                let request = FindCoordinatorRequest::of_key(key, key_type, version);
                encode_request(&request, version, correlation_id, client_id)
            }
            Self::InitProducerId { current } => {
                let request = init_request(config, *current);
                encode_request(&request, version, correlation_id, client_id)
            }
            Self::AddPartitionsToTxn { identity, partitions } => {
                let request = AddPartitionsToTxnRequest {
                    v3_and_below_transactional_id: transactional_id,
                    v3_and_below_producer_id: identity.producer_id,
                    v3_and_below_producer_epoch: identity.epoch,
                    v3_and_below_topics: add_topics(partitions.iter()),
                    ..Default::default()
                };
                encode_request(&request, version, correlation_id, client_id)
            }
            Self::AddOffsetsToTxn { identity, group } => {
                let request = AddOffsetsToTxnRequest {
                    transactional_id,
                    producer_id: identity.producer_id,
                    producer_epoch: identity.epoch,
                    group_id: group,
                    ..Default::default()
                };
                encode_request(&request, version, correlation_id, client_id)
            }
            Self::TxnOffsetCommit { identity, group, offsets, .. } => {
                let request = commit_request(transactional_id, identity, group, offsets, version);
                encode_request(&request, version, correlation_id, client_id)
            }
            Self::EndTxn { identity, ending, .. } => {
                let request = EndTxnRequest {
                    transactional_id,
                    producer_id: identity.producer_id,
                    producer_epoch: identity.epoch,
                    committed: *ending == Ending::Commit,
                    ..Default::default()
                };
                encode_request(&request, version, correlation_id, client_id)
            }
        }
    }

    /// Decodes the answer, or the error in it. `frame` comes without its length.
    ///
    /// # Errors
    /// If the bytes are malformed.
    pub fn decode(
        &self,
        config: &SessionConfig,
        frame: &[u8],
        version: i16,
    ) -> Result<Result<TransactionResponse, CallFailure>, WireError> {
        Ok(match self {
            Self::FindCoordinator { group } => {
                let key = group.as_deref().or(config.transactional_id.as_deref()).unwrap_or_default();
                let response = decode_response::<FindCoordinatorRequest<'_>>(frame, version)?;
                let found = response.of_key(key, version);
                let (node_id, host, port) = (found.node_id, found.host.to_owned(), found.port);
                let failure = |code| CallFailure::Code(code, found.error_message.map(str::to_owned));
                let checked = ErrorCode::check(found.error_code).map_err(failure);
                checked.map(|()| TransactionResponse::Coordinator { node_id, host, port })
            }
            Self::InitProducerId { .. } => {
                let response = decode_response::<InitProducerIdRequest<'_>>(frame, version)?;
                let identity = ProducerIdentity { producer_id: response.producer_id, epoch: response.producer_epoch };
                check(response.error_code).map(|()| TransactionResponse::Identity(identity))
            }
            Self::AddPartitionsToTxn { .. } => {
                let response = decode_response::<AddPartitionsToTxnRequest<'_>>(frame, version)?;
                let topics = response.results_by_topic_v3_and_below.iter();
                Ok(TransactionResponse::Partitions(first_of_each(topics.flat_map(|topic| {
                    let each = topic.results_by_partition.iter();
                    each.map(|at| (topic.name, at.partition_index, at.partition_error_code))
                }))))
            }
            Self::AddOffsetsToTxn { .. } => {
                let response = decode_response::<AddOffsetsToTxnRequest<'_>>(frame, version)?;
                check(response.error_code).map(|()| TransactionResponse::Ok)
            }
            Self::TxnOffsetCommit { group, .. } => {
                let response = decode_response::<TxnOffsetCommitRequest<'_>>(frame, version)?;
                Ok(TransactionResponse::Partitions(first_of_each(response.topics.iter().flat_map(|topic| {
                    let by_name = version < TOPIC_IDS_FROM;
                    let name = if by_name { topic.name } else { name_of(&group.topic_ids, topic.topic_id) };
                    topic.partitions.iter().map(move |at| (name, at.partition_index, at.error_code))
                }))))
            }
            Self::EndTxn { .. } => {
                let response = decode_response::<EndTxnRequest<'_>>(frame, version)?;
                let next = ProducerIdentity { producer_id: response.producer_id, epoch: response.producer_epoch };
                check(response.error_code).map(|()| match next.producer_id {
                    ..=-1 => TransactionResponse::Ok,
                    _ => TransactionResponse::Identity(next),
                })
            }
        })
    }
}

fn check(code: i16) -> Result<(), CallFailure> {
    ErrorCode::check(code).map_err(|code| CallFailure::Code(code, None))
}

fn init_request(config: &SessionConfig, current: Option<ProducerIdentity>) -> InitProducerIdRequest<'_> {
    InitProducerIdRequest {
        transactional_id: config.transactional_id.as_deref(),
        transaction_timeout_ms: i32::try_from(config.transaction_timeout.as_millis()).unwrap_or(i32::MAX),
        producer_id: current.map_or(-1, |identity| identity.producer_id),
        producer_epoch: current.map_or(-1, |identity| identity.epoch),
        ..Default::default()
    }
}

fn add_topics<'a>(partitions: impl Iterator<Item = &'a TopicPartition>) -> Vec<AddPartitionsToTxnTopic<'a>> {
    let mut by_topic: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for partition in partitions {
        by_topic.entry(&partition.topic).or_default().push(partition.partition);
    }
    let each = by_topic.into_iter();
    each.map(|(name, partitions)| AddPartitionsToTxnTopic { name, partitions, ..Default::default() }).collect()
}

fn commit_request<'a>(
    transactional_id: &'a str,
    identity: &ProducerIdentity,
    group: &'a GroupMetadata,
    offsets: &'a BTreeMap<TopicPartition, CommitOffset>,
    version: i16,
) -> TxnOffsetCommitRequest<'a> {
    let partition = |partition_index, at: &'a CommitOffset| TxnOffsetCommitRequestPartition {
        partition_index,
        committed_offset: at.offset,
        committed_leader_epoch: at.leader_epoch,
        committed_metadata: Some(&at.metadata),
        ..Default::default()
    };
    let topics = by_topic(offsets, &group.topic_ids, partition);
    let topic =
        |(name, topic_id, partitions)| TxnOffsetCommitRequestTopic { name, topic_id, partitions, ..Default::default() };
    let mut request = TxnOffsetCommitRequest {
        transactional_id,
        group_id: &group.group,
        producer_id: identity.producer_id,
        producer_epoch: identity.epoch,
        topics: topics.map(topic).collect(),
        ..Default::default()
    };
    if version >= 3 {
        request.generation_id_or_member_epoch = group.generation;
        request.member_id = &group.member_id;
        request.group_instance_id = group.instance_id.as_deref();
    }
    request
}

fn first_of_each<'a>(codes: impl Iterator<Item = (&'a str, i32, i16)>) -> BTreeMap<TopicPartition, ErrorCode> {
    let mut first = BTreeMap::new();
    for (topic, partition, code) in codes {
        first.entry(TopicPartition::new(topic, partition)).or_insert(ErrorCode::from_code(code));
    }
    first
}
