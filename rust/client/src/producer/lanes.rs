//! Requests on their way to brokers. Each broker has a task that sends them in the order they were made, since sequence
//! numbers count on it, and one that hands their answers on in that order, which futures of a partition count on.

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

/// The last version that names topics; those after it have ids.
const LAST_VERSION_OF_NAMES: i16 = 12;
/// The last version before a transaction takes partitions in by itself (KIP-890).
const LAST_VERSION_OF_TRANSACTIONS_1: i16 = 11;
/// The first version in which the client waits where a quota is exceeded, not the broker.
const FIRST_VERSION_OF_THROTTLED_CLIENTS: i16 = 6;

/// A request with its batches.
pub(crate) struct Order {
    pub(crate) id: RequestId,
    pub(crate) acks: i16,
    pub(crate) timeout_ms: i32,
    pub(crate) transactional_id: Option<Arc<str>>,
    /// Whether the cluster's transactions take partitions in by themselves.
    pub(crate) transactions_2: bool,
    pub(crate) batches: Vec<Part>,
}

/// A batch in a request.
pub(crate) struct Part {
    pub(crate) place: TopicPartition,
    pub(crate) topic_id: Uuid,
    pub(crate) header: [u8; BATCH_HEADER_BYTES],
    pub(crate) payload: Bytes,
}

/// What came for a request.
pub(crate) struct Answered {
    pub(crate) request: RequestId,
    pub(crate) outcome: Result<Vec<PartitionAnswer>, RequestFailure>,
    pub(crate) endpoints: Vec<Endpoint>,
}

/// Tasks by broker.
pub(crate) struct Lanes {
    network: Arc<Network>,
    metadata: Arc<Metadata>,
    answers: mpsc::UnboundedSender<Answered>,
    lanes: BTreeMap<i32, mpsc::UnboundedSender<Order>>,
}

impl Lanes {
    pub(crate) fn new(
        network: Arc<Network>,
        metadata: Arc<Metadata>,
        answers: mpsc::UnboundedSender<Answered>,
    ) -> Self {
        Self { network, metadata, answers, lanes: BTreeMap::new() }
    }

    /// Sends a request to a broker, behind those that were sent before.
    pub(crate) fn send(&mut self, broker: i32, order: Order) {
        let lane = self.lanes.entry(broker).or_insert_with(|| {
            let (lane, orders) = mpsc::unbounded_channel();
            tokio::spawn(run(self.network.clone(), self.metadata.clone(), broker, orders, self.answers.clone()));
            lane
        });
        // The lane's task ends with this side of it only.
        let _ = lane.send(order);
    }
}

async fn run(
    network: Arc<Network>,
    metadata: Arc<Metadata>,
    broker: i32,
    mut orders: mpsc::UnboundedReceiver<Order>,
    answers: mpsc::UnboundedSender<Answered>,
) {
    let (under_way, waiting) = mpsc::unbounded_channel();
    tokio::spawn(hand_on(waiting, answers));
    let mut watched = Weak::new();
    while let Some(order) = orders.recv().await {
        let order = Arc::new(order);
        let encode = {
            let order = order.clone();
            move |version: i16, id: i32, client_id: &str| order.encode(version, id, client_id)
        };
        let api = (ApiKey::Produce, *ProduceRequest::VERSIONS.start()..=order.last_version());
        let sent = caught(network.send(NodeId::Broker(broker), Purpose::Produce, api, order.acks != 0, encode)).await;
        let sent = match sent {
            Ok(sent) => sent.map_err(|error| failure(error, RequestFailure::NotSent)),
            // It may have been on its way already.
            Err(reason) => Err(RequestFailure::Lost(reason)),
        };
        if let Ok(sent) = &sent
            && order.acks == 0
        {
            watch(sent, &mut watched, &metadata);
        }
        // A driver that is gone needs no answers.
        let _ = under_way.send((order, sent));
    }
}

/// A broker that is not the leader answers nothing where nothing is to be answered: it closes the connection. Who leads is
/// asked anew then, or all that follows would be lost as well.
fn watch(sent: &Awaited, watched: &mut Weak<Connection>, metadata: &Arc<Metadata>) {
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

/// Waits for answers in the order of their requests.
async fn hand_on(
    mut waiting: mpsc::UnboundedReceiver<(Arc<Order>, Result<Awaited, RequestFailure>)>,
    answers: mpsc::UnboundedSender<Answered>,
) {
    while let Some((order, sent)) = waiting.recv().await {
        let answered = match sent {
            Ok(sent) => caught(order.answer(sent)).await.unwrap_or_else(|reason| order.lost(reason)),
            Err(failure) => order.failed(failure),
        };
        if answers.send(answered).is_err() {
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

impl Order {
    fn last_version(&self) -> i16 {
        let named = self.batches.iter().any(|part| part.topic_id == Uuid::ZERO);
        match (&self.transactional_id, named) {
            (Some(_), _) if !self.transactions_2 => LAST_VERSION_OF_TRANSACTIONS_1,
            (_, true) => LAST_VERSION_OF_NAMES,
            _ => *ProduceRequest::VERSIONS.end(),
        }
    }

    fn encode(&self, version: i16, correlation_id: i32, client_id: &str) -> Result<Pieces, WireError> {
        let mut topics: Vec<TopicBatches<'_>> = Vec::new();
        let mut payloads = Vec::new();
        // One entry a topic, wherever its partitions stand: brokers read a repeated topic as an error.
        let mut by_topic: BTreeMap<&str, usize> = BTreeMap::new();
        for part in &self.batches {
            let at = *by_topic.entry(&part.place.topic).or_insert_with(|| {
                topics.push(TopicBatches { name: &part.place.topic, id: part.topic_id, partitions: Vec::new() });
                payloads.push(Vec::new());
                topics.len() - 1
            });
            topics[at].partitions.push((part.place.partition, part.header, part.payload.len()));
            payloads[at].push(part.payload.clone());
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

    async fn answer(&self, sent: Awaited) -> Answered {
        let connection = sent.connection().clone();
        match sent.answer().await {
            Ok((frame, version)) => self.answered(&connection, &frame, version),
            Err(error) => self.failed(failure(error, RequestFailure::Lost)),
        }
    }

    fn lost(&self, reason: String) -> Answered {
        self.failed(RequestFailure::Lost(reason))
    }

    fn failed(&self, failure: RequestFailure) -> Answered {
        Answered { request: self.id, outcome: Err(failure), endpoints: Vec::new() }
    }

    fn answered(&self, connection: &Connection, frame: &Frame, version: i16) -> Answered {
        if self.acks == 0 {
            return Answered { request: self.id, outcome: Ok(Vec::new()), endpoints: Vec::new() };
        }
        match frame::decode_response::<ProduceRequest<'_>>(frame.as_slice(), version) {
            Ok(response) => {
                // Brokers before that version wait themselves (KIP-219).
                if version >= FIRST_VERSION_OF_THROTTLED_CLIENTS {
                    connection.throttle(response.throttle_time_ms);
                }
                let endpoints = response
                    .node_endpoints
                    .iter()
                    .filter_map(|endpoint| Endpoint::at(endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack));
                let endpoints = endpoints.collect();
                Answered { request: self.id, outcome: Ok(self.partitions(&response)), endpoints }
            }
            Err(error) => self.lost(error.to_string()),
        }
    }

    fn partitions(&self, response: &ProduceResponse<'_>) -> Vec<PartitionAnswer> {
        let mut answers = Vec::new();
        for topic in &response.responses {
            let of_topic = |part: &&Part| match topic.topic_id {
                Uuid::ZERO => *part.place.topic == *topic.name,
                id => part.topic_id == id,
            };
            let Some(name) = self.batches.iter().find(of_topic).map(|part| part.place.topic.clone()) else { continue };
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
