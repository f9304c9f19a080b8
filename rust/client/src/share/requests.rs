//! Requests of share sessions: credit for fetches, sending, and taking the answers.

use bytes::Bytes;
use monedula_engine::fetch::Fault;
use monedula_engine::share::{AcknowledgePlan, HeldPart, ShareAnswer, ShareFetchPlan, ShareOutput};
use monedula_engine::{Now, TopicPartition};
use monedula_protocol::api::Request;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame;
use monedula_protocol::messages::share_acknowledge::ShareAcknowledgeRequest;
use monedula_protocol::messages::share_fetch::{ShareFetchRequest, ShareFetchResponse};

use super::buffer::Demand;
use super::driver::{Event, Running};
use super::fetched_rows::FetchedRows;
use crate::budget::{Charge, Room};
use crate::error::{ClientError, RequestError};
use crate::fetch::driver::ChargedFrame;
use crate::log::{Entry, kinds};
use crate::net::connection::{Expected, Frame};
use crate::net::metadata::Endpoint;
use crate::net::network::{NodeId, Purpose};
use crate::tasks::caught;

/// The least that a fetch takes of the budget. Brokers send one whole batch nevertheless.
const LEAST_BYTES: usize = 1 << 10;

impl Running {
    /// Sends all requests that are due: fetches first, which take acknowledgements along, then what they left.
    pub(super) fn send_requests(&mut self) {
        let now = self.driver.buffer.now();
        if self.driver.base.config.fetch_min_bytes > 1 {
            // A fetch that takes them along waits for nothing, and would bring whatever is there.
            self.send_acknowledgements(now);
        }
        let ready = self.sessions.ready_nodes(now);
        // The same part of the budget as a consumer's fetches have; the rest is for answers larger than asked.
        let ceiling = self.driver.budget.limit() / 8 * 5;
        let most = (ceiling / ready.len().max(1)).clamp(LEAST_BYTES, self.driver.base.config.fetch_max_bytes);
        self.is_starved = false;
        if !ready.is_empty() {
            self.driver.buffer.fetched_ahead();
        }
        for node in ready {
            match self.driver.budget.try_take_below(most.min(self.likely_bytes(node)), ceiling) {
                Some(charge) => {
                    let plan = self.sessions.fetch(node, self.demand == Demand::Ahead, now);
                    self.send_fetch(node, plan, charge);
                }
                None => self.is_starved = true,
            }
        }
        self.send_acknowledgements(now);
    }

    fn send_acknowledgements(&mut self, now: Now) {
        while let Some((node, plan)) = self.sessions.acknowledge_next(now) {
            self.send_acknowledge(node, plan);
        }
    }

    fn likely_bytes(&self, node: i32) -> usize {
        let (partitions, records) = (self.sessions.partition_count(node), self.driver.buffer.max_records());
        let least = usize::try_from(self.driver.base.config.fetch_min_bytes).unwrap_or(0);
        self.answer_sizes.likely_bytes(partitions, records).max(least)
    }

    fn send_fetch(&self, node: i32, plan: ShareFetchPlan, charge: Charge) {
        let driver = &self.driver;
        driver.base.metrics.fetches_sent(1);
        driver.reach.asked(node);
        let (base, budget, reach) = (driver.base.clone(), driver.budget.clone(), driver.reach.clone());
        let (member_id, events) = (driver.member_id.clone(), self.events.clone());
        let session = self.sessions.session(node);
        let opens = plan.session_epoch == 0;
        tokio::spawn(async move {
            let max_bytes = charge.bytes();
            let room = Room { budget, kept_bytes: max_bytes };
            let expected = Expected { extra: plan.max_wait, room: Some(room) };
            let group_id = base.config.group_id.as_deref().unwrap_or_default();
            let min_bytes = base.config.fetch_min_bytes;
            let build = |_| plan.request(group_id, &member_id, min_bytes, i32::try_from(max_bytes).unwrap_or(i32::MAX));
            let asked = async {
                if reach.is_connection_awaited(node) {
                    base.network.ensure_connected(NodeId::Broker(node), Purpose::Fetch).await?;
                    reach.connected(node);
                }
                let versions = plan.first_version()..=*ShareFetchRequest::<'_>::VERSIONS.end();
                base.network.call(NodeId::Broker(node), Purpose::Fetch, versions, expected, build).await
            };
            let answer = caught(asked).await.unwrap_or_else(|reason| Err(disconnected(node, reason)));
            if opens
                && answer.is_ok()
                && let Some(ended) = base.network.connection_ended(NodeId::Broker(node), Purpose::Fetch).await
            {
                let events = events.clone();
                // Of its own, for this task keeps the network.
                tokio::spawn(async move {
                    ended.await;
                    let _ = events.send(Event::Disconnected { session });
                });
            }
            let _ = events.send(Event::Fetched { node, answer, charge });
        });
    }

    fn send_acknowledge(&self, node: i32, plan: AcknowledgePlan) {
        let (base, events) = (self.driver.base.clone(), self.events.clone());
        let member_id = self.driver.member_id.clone();
        tokio::spawn(async move {
            let group_id = base.config.group_id.as_deref().unwrap_or_default();
            let versions = plan.first_version()..=*ShareAcknowledgeRequest::VERSIONS.end();
            let build = |_| plan.request(group_id, &member_id);
            // The connection of fetches: a session is of one connection, and ends with it.
            let call = base.network.call(NodeId::Broker(node), Purpose::Fetch, versions, Expected::default(), build);
            let answer = caught(call).await.unwrap_or_else(|reason| Err(disconnected(node, reason)));
            let _ = events.send(Event::Acknowledged { node, answer });
        });
    }

    pub(super) fn fetched(&mut self, node: i32, answer: Result<(Frame, i16), RequestError>, mut charge: Charge) {
        let (frame, version) = match answer {
            Ok(answered) => answered,
            Err(mut error) => {
                if let RequestError::Fatal(fatal) = &mut error
                    && let ClientError::UnsupportedVersion { api, .. } = &mut **fatal
                    && self.driver.base.config.share.is_strict
                {
                    *api = "ShareFetch with share.acquire.mode=record_limit, which Kafka has from 4.2 on";
                }
                self.driver.reach.failed(node, error.to_string(), self.driver.base.config.fetch_max_wait);
                return self.request_failed(node, &error);
            }
        };
        self.driver.reach.answered(node);
        self.refusing.remove(&node);
        charge.set(frame.capacity().saturating_sub(frame.charged_bytes()));
        let frame = Bytes::from_owner(ChargedFrame::new(frame, charge));
        let response = match frame::decode_response::<ShareFetchRequest<'_>>(&frame, version) {
            Ok(response) => response,
            Err(error) => {
                return self.request_failed(node, &RequestError::Wire { broker: format!("broker {node}"), error });
            }
        };
        let endpoints = response.node_endpoints.iter();
        self.learn(endpoints.filter_map(|it| Endpoint::at(it.node_id, it.host, it.port, it.rack)).collect());
        let answer = ShareAnswer::of_fetch(&response);
        let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
        self.answer_sizes.note(partitions.map(|partition| partition.records.len()), answer.records());
        self.sessions.answered(node, &answer, self.driver.buffer.now());
        if !self.take_outputs(Some((&frame, &response))) {
            self.driver.base.metrics.fetches_empty(1);
        }
    }

    pub(super) fn acknowledged(&mut self, node: i32, answer: Result<(Frame, i16), RequestError>) {
        let (frame, version) = match answer {
            Ok(answered) => answered,
            Err(RequestError::Fatal(error)) if matches!(*error, ClientError::UnsupportedVersion { .. }) => {
                self.sessions.unsupported(node);
                self.take_outputs(None);
                return;
            }
            Err(error) => return self.request_failed(node, &error),
        };
        match frame::decode_response::<ShareAcknowledgeRequest<'_>>(frame.as_slice(), version) {
            Ok(response) => {
                let endpoints = response.node_endpoints.iter();
                self.learn(endpoints.filter_map(|it| Endpoint::at(it.node_id, it.host, it.port, it.rack)).collect());
                self.sessions.answered(node, &ShareAnswer::of_acknowledge(&response), self.driver.buffer.now());
                self.take_outputs(None);
            }
            Err(error) => {
                self.request_failed(node, &RequestError::Wire { broker: format!("broker {node}"), error });
            }
        }
    }

    fn learn(&self, endpoints: Vec<Endpoint>) {
        if !endpoints.is_empty() {
            self.driver.base.metadata.learn_endpoints(&endpoints);
        }
    }

    fn request_failed(&mut self, node: i32, error: &RequestError) {
        let base = &self.driver.base;
        base.metrics.failed_fetch("share_fetch", error.to_string());
        base.log.record(&kinds::FETCH_FAILED, || {
            let broker = base.network.name_of(NodeId::Broker(node));
            Entry::new(format!("share session with broker {node} failed: {error}")).broker(broker)
        });
        if let RequestError::Fatal(error) = error {
            self.refusing.insert(node, (**error).clone());
        }
        self.sessions.lost(node, &error.to_string(), self.driver.buffer.now());
        self.take_outputs(None);
    }

    /// Does what the sessions say. `answer`: the one that brought records. Returns whether there were any.
    pub(super) fn take_outputs(&mut self, answer: Option<(&Bytes, &ShareFetchResponse<'_>)>) -> bool {
        let mut has_records = false;
        while let Some(output) = self.sessions.poll() {
            match output {
                ShareOutput::Acquired { session, partition, topic_id, index, acquired, deadline, lock_timeout } => {
                    let records = answer.and_then(|(frame, response)| {
                        let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
                        Some(frame.slice_ref(partitions.clone().nth(index)?.records))
                    });
                    has_records = true;
                    self.driver.buffer.acquired_again(&partition, &acquired);
                    let records = records.unwrap_or_default();
                    let (runs, gaps) = (Vec::new(), Vec::new());
                    let part = HeldPart { session, partition, topic_id, runs, gaps, deadline, lock_timeout };
                    self.driver.buffer.push(FetchedRows::new(part, records, acquired, self.walk_options));
                }
                ShareOutput::Acknowledged { acknowledgement, outcome } => {
                    self.acknowledgement_ended(&acknowledgement, outcome);
                }
                ShareOutput::LocksLost { session, partition } => self.driver.buffer.locks_lost(session, partition),
                ShareOutput::RefreshMetadata => self.driver.base.metadata.want(),
                ShareOutput::LeaderHint { partition, leader, leader_epoch } => {
                    self.driver.base.metadata.hint(&partition, leader, leader_epoch);
                }
                ShareOutput::Denied { partition, code } => {
                    self.driver.buffer.push_error(self.denial(partition, code), false);
                }
                ShareOutput::Retried { node, partition, code } => {
                    let place = partition.map_or_else(|| "the session".to_owned(), |partition| partition.to_string());
                    let what = format!("{place}: broker {node} answered {}", code.name());
                    self.driver.base.metrics.failed_fetch(code.name(), what);
                }
                ShareOutput::Closed => self.sessions_closed(),
            }
        }
        has_records
    }

    /// The error about a group or partition that a broker refuses to give.
    pub(super) fn denial(&self, partition: Option<TopicPartition>, code: ErrorCode) -> ClientError {
        let group = self.driver.base.config.group_id.clone().unwrap_or_default();
        match (partition, code) {
            (None, ErrorCode::GroupAuthorizationFailed) => ClientError::GroupDenied { group },
            (Some(partition), ErrorCode::TopicAuthorizationFailed) => {
                ClientError::Partition(Fault::TopicDenied { partition })
            }
            (partition, code) => {
                let what = partition.map_or_else(|| format!("the share group {group}"), |at| at.to_string());
                ClientError::Broker { what, code }
            }
        }
    }
}

fn disconnected(node: i32, reason: String) -> RequestError {
    RequestError::Disconnected { broker: format!("broker {node}"), reason }
}
