//! A Produce request as bytes, and its answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use monedula_engine::TopicPartition;
use monedula_engine::produce::{PartitionAnswer, RequestFailure, RequestId};
use monedula_protocol::api::Request;
use monedula_protocol::error::WireError;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame;
use monedula_protocol::messages::produce::{ProduceRequest, ProduceResponse};
use monedula_protocol::produce_frame::{ProduceFrame, TopicBatches};
use monedula_protocol::records::BATCH_HEADER_BYTES;
use monedula_protocol::types::Uuid;

use crate::error::RequestError;
use crate::net::connection::{Connection, Frame, Pieces};
use crate::net::metadata::Endpoint;
use crate::net::network::Awaited;

/// The last version that names topics; later ones have topic ids.
const LAST_VERSION_OF_NAMES: i16 = 12;
/// The last version that does not add partitions to the transaction by itself (KIP-890).
const LAST_VERSION_OF_TRANSACTIONS_1: i16 = 11;
/// The first version in which the client, not the broker, waits when a quota is exceeded (KIP-219).
const FIRST_VERSION_OF_THROTTLED_CLIENTS: i16 = 6;

pub(crate) struct OutgoingRequest {
    pub(crate) id: RequestId,
    pub(crate) acks: i16,
    pub(crate) timeout_ms: i32,
    pub(crate) transactional_id: Option<Arc<str>>,
    /// True if the transaction uses transaction version 2 (KIP-890).
    pub(crate) version2: bool,
    pub(crate) batches: Vec<OutgoingBatch>,
}

pub(crate) struct OutgoingBatch {
    pub(crate) partition: TopicPartition,
    pub(crate) topic_id: Uuid,
    pub(crate) header: [u8; BATCH_HEADER_BYTES],
    pub(crate) payload: Bytes,
}

pub(crate) struct RequestOutcome {
    pub(crate) request: RequestId,
    pub(crate) outcome: Result<Vec<PartitionAnswer>, RequestFailure>,
    /// Brokers that the answer named.
    pub(crate) endpoints: Vec<Endpoint>,
}

impl OutgoingRequest {
    pub(super) fn last_version(&self) -> i16 {
        let named = self.batches.iter().any(|batch| batch.topic_id == Uuid::ZERO);
        match (&self.transactional_id, named) {
            (Some(_), _) if !self.version2 => LAST_VERSION_OF_TRANSACTIONS_1,
            (_, true) => LAST_VERSION_OF_NAMES,
            _ => *ProduceRequest::VERSIONS.end(),
        }
    }

    pub(super) fn encode(&self, version: i16, correlation_id: i32, client_id: &str) -> Result<Pieces, WireError> {
        let mut topics: Vec<TopicBatches<'_>> = Vec::new();
        let mut payloads = Vec::new();
        // One entry for each topic, in whatever order its partitions are: brokers refuse a repeated topic.
        let mut by_topic: BTreeMap<&str, usize> = BTreeMap::new();
        for batch in &self.batches {
            let at = *by_topic.entry(&batch.partition.topic).or_insert_with(|| {
                topics.push(TopicBatches { name: &batch.partition.topic, id: batch.topic_id, partitions: Vec::new() });
                payloads.push(Vec::new());
                topics.len() - 1
            });
            topics[at].partitions.push((batch.partition.partition, batch.header, batch.payload.len()));
            payloads[at].push(batch.payload.clone());
        }
        let frame = ProduceFrame {
            transactional_id: self.transactional_id.as_deref(),
            acks: self.acks,
            timeout_ms: self.timeout_ms,
            topics: &topics,
        };
        let gaps = frame.encode(version, correlation_id, Some(client_id))?;
        let mut rest = Bytes::from(gaps.bytes);
        let mut pieces = Vec::new();
        let mut before = 0;
        for (cut, payload) in gaps.cuts.into_iter().zip(payloads.into_iter().flatten()) {
            pieces.push(rest.split_to(cut - before));
            pieces.push(payload);
            before = cut;
        }
        pieces.push(rest);
        Ok(Pieces(pieces))
    }

    pub(super) async fn answer(&self, sent: Awaited) -> RequestOutcome {
        let connection = sent.connection().clone();
        match sent.answer().await {
            Ok((frame, version)) => self.answered(&connection, &frame, version),
            Err(error) => self.failed(failure(error, RequestFailure::Lost)),
        }
    }

    pub(super) fn lost(&self, reason: String) -> RequestOutcome {
        self.failed(RequestFailure::Lost(reason))
    }

    pub(super) fn failed(&self, failure: RequestFailure) -> RequestOutcome {
        RequestOutcome { request: self.id, outcome: Err(failure), endpoints: Vec::new() }
    }

    fn answered(&self, connection: &Connection, frame: &Frame, version: i16) -> RequestOutcome {
        if self.acks == 0 {
            return RequestOutcome { request: self.id, outcome: Ok(Vec::new()), endpoints: Vec::new() };
        }
        match frame::decode_response::<ProduceRequest<'_>>(frame.as_slice(), version) {
            Ok(response) => {
                // Before that version the broker itself waits (KIP-219).
                if version >= FIRST_VERSION_OF_THROTTLED_CLIENTS {
                    connection.throttle(response.throttle_time_ms);
                }
                let endpoints = response
                    .node_endpoints
                    .iter()
                    .filter_map(|endpoint| Endpoint::at(endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack));
                let endpoints = endpoints.collect();
                RequestOutcome { request: self.id, outcome: Ok(self.partitions(&response)), endpoints }
            }
            Err(error) => self.lost(error.to_string()),
        }
    }

    fn partitions(&self, response: &ProduceResponse<'_>) -> Vec<PartitionAnswer> {
        let mut answers = Vec::new();
        for topic in &response.responses {
            let of_topic = |batch: &&OutgoingBatch| match topic.topic_id {
                Uuid::ZERO => *batch.partition.topic == *topic.name,
                id => batch.topic_id == id,
            };
            let Some(batch) = self.batches.iter().find(of_topic) else { continue };
            let name = &batch.partition.topic;
            for answer in &topic.partition_responses {
                let leader = (answer.current_leader.leader_id, answer.current_leader.leader_epoch);
                answers.push(PartitionAnswer {
                    partition: TopicPartition::new(name.clone(), answer.index),
                    code: ErrorCode::from_code(answer.error_code),
                    message: answer.error_message.map(str::to_owned),
                    base_offset: answer.base_offset,
                    log_append_time_ms: answer.log_append_time_ms,
                    log_start_offset: answer.log_start_offset,
                    record_errors: answer
                        .record_errors
                        .iter()
                        .map(|record| (record.batch_index, record.batch_index_error_message.map(str::to_owned)))
                        .collect(),
                    leader: (leader.0 >= 0).then_some(leader),
                });
            }
        }
        answers
    }
}

pub(super) fn failure(error: RequestError, otherwise: impl FnOnce(String) -> RequestFailure) -> RequestFailure {
    match error {
        RequestError::Fatal(error) => RequestFailure::Fatal(error.to_string()),
        error => otherwise(error.to_string()),
    }
}
