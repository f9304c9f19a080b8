//! Produce requests on their way to brokers, as Java's Sender has them. For each broker one task sends requests in the order in which
//! they were made, since sequence numbers rely on it, and another one awaits their answers in the same order, since the futures of
//! a partition's records rely on that.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use monedula_engine::TopicPartition;
use monedula_engine::produce::{PartitionAnswer, RequestFailure, RequestId};
use monedula_protocol::api::{ApiKey, Request};
use monedula_protocol::error::WireError;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame;
use monedula_protocol::messages::produce::{ProduceRequest, ProduceResponse};
use monedula_protocol::produce_frame::{ProduceFrame, TopicBatches};
use monedula_protocol::records::BATCH_HEADER_BYTES;
use monedula_protocol::types::Uuid;
use tokio::sync::mpsc;

use crate::error::RequestError;
use crate::net::connection::{Connection, Frame, Pieces};
use crate::net::metadata::{Endpoint, Metadata};
use crate::net::network::{Awaited, Network, NodeId, Purpose};
use crate::tasks::caught;

/// The last version that names topics; later ones have topic ids.
const LAST_VERSION_OF_NAMES: i16 = 12;
/// The last version that does not add partitions to the transaction by itself (KIP-890).
const LAST_VERSION_OF_TRANSACTIONS_1: i16 = 11;
/// The first version in which the client, not the broker, waits when a quota is exceeded (KIP-219).
const FIRST_VERSION_OF_THROTTLED_CLIENTS: i16 = 6;

/// A Produce request with its batches.
pub(crate) struct OutgoingRequest {
    pub(crate) id: RequestId,
    pub(crate) acks: i16,
    pub(crate) timeout_ms: i32,
    pub(crate) transactional_id: Option<Arc<str>>,
    /// Whether the transaction uses transaction version 2 (KIP-890).
    pub(crate) version2: bool,
    pub(crate) batches: Vec<OutgoingBatch>,
}

/// A batch in a request.
pub(crate) struct OutgoingBatch {
    pub(crate) partition: TopicPartition,
    pub(crate) topic_id: Uuid,
    pub(crate) header: [u8; BATCH_HEADER_BYTES],
    pub(crate) payload: Bytes,
}

/// The outcome of a request.
pub(crate) struct RequestOutcome {
    pub(crate) request: RequestId,
    pub(crate) outcome: Result<Vec<PartitionAnswer>, RequestFailure>,
    /// Brokers that the answer named.
    pub(crate) endpoints: Vec<Endpoint>,
}

/// The sender of each broker that requests were sent to.
pub(crate) struct Senders {
    network: Arc<Network>,
    metadata: Arc<Metadata>,
    outcomes: mpsc::UnboundedSender<RequestOutcome>,
    by_broker: BTreeMap<i32, mpsc::UnboundedSender<OutgoingRequest>>,
}

impl Senders {
    pub(crate) fn new(
        network: Arc<Network>,
        metadata: Arc<Metadata>,
        outcomes: mpsc::UnboundedSender<RequestOutcome>,
    ) -> Self {
        Self { network, metadata, outcomes, by_broker: BTreeMap::new() }
    }

    /// Sends a request to a broker, after those that were sent to it before.
    pub(crate) fn send(&mut self, broker: i32, request: OutgoingRequest) {
        let sender = self.by_broker.entry(broker).or_insert_with(|| {
            let (sender, requests) = mpsc::unbounded_channel();
            tokio::spawn(run(self.network.clone(), self.metadata.clone(), broker, requests, self.outcomes.clone()));
            sender
        });
        // The task ends only when this channel is closed.
        let _ = sender.send(request);
    }
}

async fn run(
    network: Arc<Network>,
    metadata: Arc<Metadata>,
    broker: i32,
    mut requests: mpsc::UnboundedReceiver<OutgoingRequest>,
    outcomes: mpsc::UnboundedSender<RequestOutcome>,
) {
    let (in_flight, unanswered) = mpsc::unbounded_channel();
    tokio::spawn(await_answers(unanswered, outcomes));
    let mut watched = Weak::new();
    while let Some(request) = requests.recv().await {
        let request = Arc::new(request);
        let encode = {
            let request = request.clone();
            move |version: i16, id: i32, client_id: &str| request.encode(version, id, client_id)
        };
        let api = (ApiKey::Produce, *ProduceRequest::VERSIONS.start()..=request.last_version());
        let sent = caught(network.send(NodeId::Broker(broker), Purpose::Produce, api, request.acks != 0, encode)).await;
        let sent = match sent {
            Ok(sent) => sent.map_err(|error| failure(error, RequestFailure::NotSent)),
            // After a panic the request may have been sent.
            Err(reason) => Err(RequestFailure::Lost(reason)),
        };
        if let Ok(sent) = &sent
            && request.acks == 0
        {
            refresh_when_closed(sent, &mut watched, &metadata);
        }
        // Fails only if the driver is gone, which needs no outcomes.
        let _ = in_flight.send((request, sent));
    }
}

/// With acks 0 a broker that is not the leader sends no answer: it closes the connection. Requests metadata then, because all
/// following requests would be lost as well.
fn refresh_when_closed(sent: &Awaited, watched: &mut Weak<Connection>, metadata: &Arc<Metadata>) {
    let connection = Arc::downgrade(sent.connection());
    if connection.ptr_eq(watched) {
        return;
    }
    let (ended, metadata) = (sent.connection().ended(), metadata.clone());
    tokio::spawn(async move {
        ended.await;
        metadata.want();
    });
    *watched = connection;
}

/// Awaits answers in the order of their requests.
async fn await_answers(
    mut unanswered: mpsc::UnboundedReceiver<(Arc<OutgoingRequest>, Result<Awaited, RequestFailure>)>,
    outcomes: mpsc::UnboundedSender<RequestOutcome>,
) {
    while let Some((request, sent)) = unanswered.recv().await {
        let outcome = match sent {
            Ok(sent) => caught(request.answer(sent)).await.unwrap_or_else(|reason| request.lost(reason)),
            Err(failure) => request.failed(failure),
        };
        if outcomes.send(outcome).is_err() {
            return;
        }
    }
}

fn failure(error: RequestError, otherwise: impl FnOnce(String) -> RequestFailure) -> RequestFailure {
    match error {
        RequestError::Fatal(error) => RequestFailure::Fatal(error.to_string()),
        error => otherwise(error.to_string()),
    }
}

impl OutgoingRequest {
    fn last_version(&self) -> i16 {
        let named = self.batches.iter().any(|batch| batch.topic_id == Uuid::ZERO);
        match (&self.transactional_id, named) {
            (Some(_), _) if !self.version2 => LAST_VERSION_OF_TRANSACTIONS_1,
            (_, true) => LAST_VERSION_OF_NAMES,
            _ => *ProduceRequest::VERSIONS.end(),
        }
    }

    fn encode(&self, version: i16, correlation_id: i32, client_id: &str) -> Result<Pieces, WireError> {
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

    async fn answer(&self, sent: Awaited) -> RequestOutcome {
        let connection = sent.connection().clone();
        match sent.answer().await {
            Ok((frame, version)) => self.answered(&connection, &frame, version),
            Err(error) => self.failed(failure(error, RequestFailure::Lost)),
        }
    }

    fn lost(&self, reason: String) -> RequestOutcome {
        self.failed(RequestFailure::Lost(reason))
    }

    fn failed(&self, failure: RequestFailure) -> RequestOutcome {
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
