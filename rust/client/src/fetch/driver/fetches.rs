//! Fetches: credit for them, sending them, and taking their answers.

use std::collections::BTreeMap;

use bytes::Bytes;
use monedula_engine::fetch::{FetchPlan, Input, Output};
use monedula_protocol::api::Request;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame;
use monedula_protocol::messages::fetch::{FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic};
use monedula_protocol::types::Uuid;

use super::credit::Credit;
use super::{Event, Running};
use crate::budget::{Charge, Room};
use crate::config::ClientConfig;
use crate::error::RequestError;
use crate::log::{Entry, kinds};
use crate::net::connection::{Expected, Frame};
use crate::net::metadata::Endpoint;
use crate::net::network::{NodeId, Purpose};
use crate::tasks::caught;

/// A fetch answer's bytes with their share of the budget; both go when the last record is walked.
pub(crate) struct ChargedFrame {
    frame: Frame,
    _charge: Charge,
}

impl ChargedFrame {
    pub(crate) fn new(frame: Frame, charge: Charge) -> Self {
        Self { frame, _charge: charge }
    }
}

impl AsRef<[u8]> for ChargedFrame {
    fn as_ref(&self) -> &[u8] {
        self.frame.as_slice()
    }
}

impl Running {
    /// Sends a fetch to every ready node for which there is budget, the one that was asked longest ago first.
    pub(super) fn send_fetches(&mut self) {
        let now = self.now();
        let ready = self.machine.ready_nodes(now);
        // An answer may wait to be read as well. Its broker is not ready, and records of paused partitions may take its
        // room.
        let mut starved = self.driver.budget.is_awaited();
        if !ready.is_empty() {
            let driver = &self.driver;
            let mut credit = Credit::new(driver.budget.limit(), &driver.base.config, self.machine.demand());
            for node in ready {
                let Some(charge) = credit.take(&self.driver.budget, self.machine.is_behind(node)) else { continue };
                let Some(plan) = self.machine.poll_fetch(now, node) else { continue };
                self.send_fetch(node, plan, charge);
            }
            starved |= credit.is_short();
        }
        // Once a bounded read is fetched to its end, its last rows need not wait for more either.
        let flush = starved || self.machine.is_complete();
        if flush != self.flush {
            self.flush = flush;
            self.driver.buffer.driver().set_flush(flush);
        }
        if starved {
            self.driver.base.metrics.budget_waits(u64::from(!self.starved));
            // After `set_flush`: from then on the buffer notifies `drained` when nothing is left to hand out.
            for (partition, reading_id, offset) in self.driver.buffer.driver().evict_held_back() {
                self.handle(Input::Rewind { partition: &partition, reading_id, offset });
            }
        }
        self.starved = starved;
    }

    fn send_fetch(&self, node: i32, plan: FetchPlan, charge: Charge) {
        self.driver.base.metrics.fetches_sent(1);
        self.driver.reach.asked(node);
        let (network, config, events) =
            (self.driver.base.network.clone(), self.driver.base.config.clone(), self.events.clone());
        let (budget, reach) = (self.driver.budget.clone(), self.driver.reach.clone());
        tokio::spawn(async move {
            let max_version = if plan.by_topic_id { *FetchRequest::VERSIONS.end() } else { 12 };
            let versions = *FetchRequest::VERSIONS.start()..=max_version;
            let max_bytes = charge.bytes();
            let build = |version| fetch_request(&plan, &config, max_bytes, version);
            let room = Room { budget, kept_bytes: max_bytes };
            let expected = Expected { extra: config.fetch_max_wait, room: Some(room) };
            let asked = async {
                if reach.is_connection_awaited(node) {
                    network.ensure_connected(NodeId::Broker(node), Purpose::Fetch).await?;
                    reach.connected(node);
                }
                network.call(NodeId::Broker(node), Purpose::Fetch, versions, expected, build).await
            };
            let answer = caught(asked)
                .await
                .unwrap_or_else(|reason| Err(RequestError::Disconnected { broker: format!("broker {node}"), reason }));
            let _ = events.send(Event::Fetched { node, answer, charge });
        });
    }

    pub(super) fn fetched(&mut self, node: i32, answer: Result<(Frame, i16), RequestError>, mut charge: Charge) {
        let (frame, version) = match answer {
            Ok(answered) => answered,
            Err(error) => {
                self.driver.reach.failed(node, error.to_string(), self.driver.base.config.fetch_max_wait);
                return self.fetch_failed(node, &error);
            }
        };
        self.driver.reach.answered(node);
        if self.refusing.remove(&node).is_some() {
            self.update_fatal();
        }
        charge.set(frame.capacity().saturating_sub(frame.charged_bytes()));
        let frame = Bytes::from_owner(ChargedFrame::new(frame, charge));
        let response = match frame::decode_response::<FetchRequest<'_>>(&frame, version) {
            Ok(response) => response,
            Err(error) => {
                let broker = format!("broker {node}");
                return self.fetch_failed(node, &RequestError::Wire { broker, error });
            }
        };
        if !response.node_endpoints.is_empty() {
            let endpoints: Vec<Endpoint> = response.node_endpoints.iter().filter_map(Endpoint::new).collect();
            self.driver.base.metadata.learn_endpoints(&endpoints);
        }
        self.note_errors(node, &response);
        self.machine.handle(self.now(), Input::FetchAnswer { node, answer: &response });
        let mut is_empty = true;
        while let Some(output) = self.machine.poll() {
            match output {
                Output::Fetched(fetched) => {
                    let records = frame.slice_ref(fetched.records(&response));
                    is_empty &= records.is_empty();
                    self.driver.buffer.driver().push(&fetched, records);
                }
                output => self.act(output),
            }
        }
        if is_empty {
            self.driver.base.metrics.fetches_empty(1);
        }
    }

    /// Counts errors that the machine retries silently. Those that stop a partition are raised to the user instead.
    fn note_errors(&self, node: i32, response: &FetchResponse<'_>) {
        let metrics = &self.driver.base.metrics;
        let failed = |code: i16| Some(ErrorCode::from_code(code)).filter(|&code| code != ErrorCode::None);
        if let Some(code) = failed(response.error_code) {
            metrics.failed_fetch(code.name(), format!("broker {node} answered {}", code.name()));
        }
        for topic in &response.responses {
            for partition in &topic.partitions {
                let Some(code) = failed(partition.error_code) else { continue };
                if matches!(code, ErrorCode::TopicAuthorizationFailed | ErrorCode::CorruptMessage) {
                    continue;
                }
                let cluster = self.driver.base.metadata.cluster();
                let mut topics = cluster.topics.iter();
                let name: &str = match topic.topic {
                    "" => topics.find(|(_, known)| known.id == topic.topic_id).map_or("?", |(name, _)| &**name),
                    name => name,
                };
                let place = format!("{name}-{}", partition.partition_index);
                metrics.failed_fetch(code.name(), format!("{place}: broker {node} answered {}", code.name()));
            }
        }
    }

    pub(super) fn fetch_failed(&mut self, node: i32, error: &RequestError) {
        self.driver.base.metrics.failed_fetch("fetch", error.to_string());
        self.driver.base.log.record(&kinds::FETCH_FAILED, || {
            let broker = self.driver.base.network.name_of(NodeId::Broker(node));
            Entry::new(format!("fetch from broker {node} failed: {error}")).broker(broker)
        });
        if let RequestError::Fatal(error) = error {
            self.refusing.insert(node, (**error).clone());
            self.update_fatal();
        }
        self.handle(Input::FetchFailed { node });
    }
}

fn fetch_request<'p>(
    plan: &'p FetchPlan,
    config: &'p ClientConfig,
    max_bytes: usize,
    version: i16,
) -> FetchRequest<'p> {
    let max_bytes = i32::try_from(max_bytes).unwrap_or(i32::MAX);
    // Topics in the order in which the plan first names them: brokers fill their answers in the order of the request.
    let mut topics: Vec<FetchTopic<'_>> = Vec::new();
    let mut places: BTreeMap<(&str, Uuid), usize> = BTreeMap::new();
    for (partition, topic_id, sent) in &plan.partitions {
        let place = *places.entry((&partition.topic, *topic_id)).or_insert(topics.len());
        if place == topics.len() {
            topics.push(FetchTopic { topic: &partition.topic, topic_id: *topic_id, ..Default::default() });
        }
        topics[place].partitions.push(FetchPartition {
            partition: partition.partition,
            current_leader_epoch: sent.leader_epoch,
            fetch_offset: sent.offset,
            last_fetched_epoch: if version >= 12 { sent.offset_epoch } else { -1 },
            partition_max_bytes: sent.max_bytes,
            ..Default::default()
        });
    }
    let mut forgotten: BTreeMap<(&str, Uuid), Vec<i32>> = BTreeMap::new();
    for (partition, id) in &plan.forget {
        forgotten.entry((&partition.topic, *id)).or_default().push(partition.partition);
    }
    let sessions = version >= 7;
    FetchRequest {
        replica_id: -1,
        max_wait_ms: i32::try_from(config.fetch_max_wait.as_millis()).unwrap_or(i32::MAX),
        min_bytes: config.fetch_min_bytes.min(max_bytes),
        max_bytes,
        isolation_level: i8::from(config.read_committed),
        session_id: if sessions { plan.session_id } else { 0 },
        session_epoch: if sessions { plan.session_epoch } else { -1 },
        topics,
        forgotten_topics_data: forgotten
            .into_iter()
            .map(|((topic, topic_id), partitions)| ForgottenTopic { topic, topic_id, partitions, ..Default::default() })
            .collect(),
        rack_id: config.client_rack.as_deref().unwrap_or(""),
        ..Default::default()
    }
}
