//! Requests on their way to the brokers and back, with what goes wrong on it, and what the leaders' model says of them.

use std::time::Duration;

use bytes::Bytes;
use monedula_broker::NodeId;
use monedula_broker::core::Action;
use monedula_engine::TopicPartition;
use monedula_engine::group::{Call, CallId, ConnectionPurpose};
use monedula_engine::share::{AcknowledgePlan, PlannedPartition, ShareAnswer, ShareFetchPlan};
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame::{decode_response, encode_request};
use monedula_protocol::messages::share_acknowledge::ShareAcknowledgeRequest;
use monedula_protocol::messages::share_fetch::ShareFetchRequest;
use monedula_protocol::types::Uuid;

use crate::leaders::{Expected, Sender};
use crate::network::{Connection, Link, Pid};
use crate::plan::GROUP;
use crate::rules::Rule;
use crate::world::{Event, World};

/// What a request asks.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    Call(CallId, Call),
    Fetch(ShareFetchPlan),
    Acknowledge(AcknowledgePlan),
}

/// A request on its way, or at work.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) id: u64,
    pub(crate) body: Body,
    version: i16,
    frame: Bytes,
    expected: Expected,
}

/// The answer to a request of a session; of a fetch, with the bytes of the records.
pub(crate) struct Answer {
    pub(crate) share: ShareAnswer,
    pub(crate) records: Vec<Vec<u8>>,
}

impl Body {
    pub(crate) fn api(&self) -> &'static str {
        match self {
            Self::Call(_, call) => call.api(),
            Self::Fetch(_) => "ShareFetch",
            Self::Acknowledge(_) => "ShareAcknowledge",
        }
    }

    /// The partitions of a request of a session, and its epoch.
    fn planned(&self) -> Option<(i32, &[PlannedPartition])> {
        match self {
            Self::Call(..) => None,
            Self::Fetch(plan) => Some((plan.session_epoch, &plan.partitions[..])),
            Self::Acknowledge(plan) => Some((plan.session_epoch, &plan.partitions[..])),
        }
    }

    fn encode(&self, member_id: &str, version: i16, id: i32) -> Vec<u8> {
        match self {
            Self::Call(_, call) => call.encode(version, id, Some("simulation")).unwrap(),
            Self::Fetch(plan) => {
                let request = plan.request(GROUP, member_id, 1, 1 << 20);
                encode_request(&request, version, id, Some("simulation")).unwrap()
            }
            Self::Acknowledge(plan) => {
                encode_request(&plan.request(GROUP, member_id), version, id, Some("simulation")).unwrap()
            }
        }
    }
}

impl Request {
    pub(crate) fn answer(&self, frame: &[u8]) -> Option<Answer> {
        match &self.body {
            Body::Call(..) => None,
            Body::Fetch(_) => {
                let response = decode_response::<ShareFetchRequest<'_>>(frame, self.version).unwrap();
                let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
                let records = partitions.map(|partition| partition.records.to_vec()).collect();
                Some(Answer { share: ShareAnswer::of_fetch(&response), records })
            }
            Body::Acknowledge(_) => {
                let response = decode_response::<ShareAcknowledgeRequest<'_>>(frame, self.version).unwrap();
                Some(Answer { share: ShareAnswer::of_acknowledge(&response), records: Vec::new() })
            }
        }
    }

    /// The answer to a call.
    pub(crate) fn called(&self, frame: &[u8]) -> Option<monedula_engine::group::GroupResponse> {
        match &self.body {
            Body::Call(_, call) => Some(call.decode(frame, self.version).unwrap()),
            _ => None,
        }
    }
}

impl World {
    pub(crate) fn send(&mut self, pid: Pid, node: i32, body: Body) -> u64 {
        let now = self.now;
        self.last_request += 1;
        let id = self.last_request;
        self.trace(|| format!("p{pid} -> n{node} #{id} {body:?}"));
        if self.stopped_nodes.contains(&node) {
            let at = now + self.latency();
            self.push(at, Event::Refused(pid, node, Box::new(body)));
            return id;
        }
        // A session and its acknowledgements are of one connection.
        let (lane, extra) = match &body {
            Body::Call(_, call) => (Some(call.purpose()), call.extra_timeout()),
            Body::Fetch(plan) => (None, plan.max_wait),
            Body::Acknowledge(_) => (None, Duration::ZERO),
        };
        let version = match &body {
            Body::Call(_, call) => *call.versions().end(),
            _ => 2,
        };
        let member_id = self.processes.get(&pid).map_or("", |process| process.member_id.as_str());
        let frame = Bytes::from(body.encode(member_id, version, id as i32)).slice(4..);
        let request = Request { id, body, version, frame, expected: Expected::default() };
        let (latency, link) = (self.latency(), self.network.link(pid, node, lane, now));
        let hole = self.network.black_holes.get(&(pid, node)).copied().unwrap_or_default();
        let Some(connection) = self.network.links.get_mut(&link) else { return id };
        connection.waiting.push_back(request.clone());
        connection.there = (now + latency).max(connection.there).max(connection.stalled_until).max(hole);
        let at = connection.there;
        self.push(at, Event::Arrive(link, Box::new(request)));
        self.push(now + self.plan.request_timeout + extra, Event::Timeout(link, id));
        id
    }

    pub(crate) fn latency(&mut self) -> Duration {
        let is_slow = !self.calm && self.chance.odds(self.plan.slow_frames);
        let base = Duration::from_micros(self.chance.between(100, 3000) as u64);
        base + if is_slow { self.chance.ms(1, self.plan.slow_ms) } else { Duration::ZERO }
    }

    pub(crate) fn arrive(&mut self, link: Link, request: Request) {
        let (ms, now) = (self.ms(), self.now);
        let Some(connection) = self.network.links.get_mut(&link).filter(|link| link.broker_open) else { return };
        let node = connection.node;
        if self.stopped_nodes.contains(&node) {
            connection.broker_open = false;
            return self.push(now, Event::Lost(link));
        }
        if connection.broker.is_none() {
            let broker = self.core.connected(ms, NodeId(node), "127.0.0.1");
            connection.broker = Some(broker);
            self.network.at_broker(broker, link);
        }
        let Some(connection) = self.network.links.get_mut(&link) else { return };
        connection.arrived.push_back(request);
        if !connection.busy {
            self.work(link);
        }
    }

    /// Gives the core the next request of a connection.
    fn work(&mut self, link: Link) {
        let ms = self.ms();
        let Some(connection) = self.network.links.get_mut(&link).filter(|link| link.broker_open) else { return };
        let sender = sender(link, connection);
        let (Some(broker), Some(request)) = (connection.broker, connection.arrived.front()) else { return };
        connection.busy = true;
        let (frame, body) = (request.frame.clone(), request.body.clone());
        if let Some((epoch, planned)) = body.planned() {
            let is_fetch = matches!(body, Body::Fetch(_));
            let batches: Vec<_> = planned.iter().map(|it| (self.named(it), it.batches.clone())).collect();
            let expected = self.leaders.request(sender, epoch, is_fetch, &batches, ms);
            let Some(connection) = self.network.links.get_mut(&link) else { return };
            let Some(request) = connection.arrived.front_mut() else { return };
            request.expected = expected;
        }
        self.core.request(ms, broker, &frame);
    }

    fn named(&self, planned: &PlannedPartition) -> TopicPartition {
        self.partition(planned.topic_id, planned.partition)
    }

    pub(crate) fn partition(&self, id: Uuid, partition: i32) -> TopicPartition {
        let topic = self.cluster.topics.iter().find(|(_, topic)| topic.id == id).map(|(name, _)| name.clone());
        TopicPartition::new(topic.unwrap_or_else(|| "?".into()), partition)
    }

    /// Lets the core do what is due by now.
    pub(crate) fn tick(&mut self) {
        let ms = self.ms();
        self.expire();
        self.core.tick(ms);
        self.drain();
    }

    /// Takes what the core has to say. The model hears of all answers before the next requests are worked on.
    pub(crate) fn drain(&mut self) {
        loop {
            let mut replies = std::mem::take(&mut self.postponed);
            replies.extend(self.core.drain());
            if replies.is_empty() {
                return;
            }
            let mut free = Vec::new();
            for reply in replies {
                let Some(link) = self.network.of_broker(reply.connection) else { continue };
                match reply.action {
                    Action::Send(pieces) => {
                        self.reply(link, Bytes::from(pieces.concat()).slice(4..));
                        free.push(link);
                    }
                    Action::Close(_) => self.broker_closes(link),
                    other => self.fail(Rule::Fatal, format!("the broker does {other:?}")),
                }
            }
            free.into_iter().for_each(|link| self.work(link));
        }
    }

    fn reply(&mut self, link: Link, frame: Bytes) {
        let Some(connection) = self.network.links.get_mut(&link) else { return };
        let sender = sender(link, connection);
        let Sender { node, pid, has_given_up, .. } = sender;
        connection.busy = false;
        let Some(request) = connection.arrived.pop_front() else { return };
        if has_given_up {
            self.figures.met("late answers", 1);
        }
        if let Some(answer) = request.answer(&frame) {
            self.trace(|| format!("n{node} -> p{pid} #{} {:?}", request.id, answer.share));
            self.judge_answer(sender, &request, &answer.share);
        }
        let api = request.body.api();
        if let Some(index) = self.lose.iter().position(|lost| *lost == api) {
            self.lose.remove(index);
            self.trace(|| format!("the answer to #{} is lost", request.id));
            return self.broker_closes(link);
        }
        let (latency, now) = (self.latency(), self.now);
        let hole = self.network.black_holes.get(&(pid, node)).copied().unwrap_or_default();
        let Some(connection) = self.network.links.get_mut(&link) else { return };
        connection.back = (now + latency).max(connection.back).max(connection.stalled_until).max(hole);
        let at = connection.back;
        self.push(at, Event::Answered(link, request.id, frame));
    }

    /// Compares an answer with what the model says, and gives the member what it acquires.
    fn judge_answer(&mut self, sender: Sender, request: &Request, answer: &ShareAnswer) {
        let (pid, expected, ms) = (sender.pid, &request.expected, self.ms());
        let is_fetch = matches!(request.body, Body::Fetch(_));
        let mut wrong = (expected.is_refused != (answer.code != ErrorCode::None))
            .then(|| format!("#{} of p{pid} is answered {:?}, not {expected:?}", request.id, answer.code));
        for told in &answer.partitions {
            let partition = self.partition(told.topic_id, told.partition);
            let code = if is_fetch { told.acknowledge_code } else { told.code };
            let was_applied = code == ErrorCode::None;
            match expected.applied.get(&partition) {
                Some(Some(applied)) if *applied != was_applied => {
                    let text = format!("#{} of p{pid}: {partition} is answered {code:?}, not {applied}", request.id);
                    wrong.get_or_insert(text);
                }
                Some(None) if was_applied => {
                    let of = |it: &&PlannedPartition| (it.topic_id, it.partition) == (told.topic_id, told.partition);
                    let planned = request.body.planned().and_then(|(_, planned)| planned.iter().find(of));
                    planned.into_iter().for_each(|it| self.leaders.apply(sender, &partition, &it.batches, ms));
                }
                _ => {}
            }
            self.figures.met("delivered again", told.acquired.iter().filter(|it| it.delivery_count > 1).count());
            if let Err(text) = self.leaders.acquire(pid, &partition, &told.acquired, ms) {
                wrong.get_or_insert(format!("#{} of p{pid}: {text}", request.id));
            }
        }
        if let Some(text) = wrong {
            self.fail(Rule::Leader, text);
        }
    }

    pub(crate) fn broker_closes(&mut self, link: Link) {
        self.disconnected(link);
        let at = self.now + self.latency();
        self.push(at, Event::Lost(link));
    }

    /// A node learns that a connection is closed.
    pub(crate) fn fin(&mut self, link: Link) {
        self.disconnected(link);
        self.network.sweep();
    }

    fn disconnected(&mut self, link: Link) {
        let ms = self.ms();
        if let Some(broker) = self.network.close_broker(link) {
            self.leaders.disconnected(link);
            self.core.disconnected(ms, broker);
        }
    }

    /// A process closes its end of a connection: what it waited for is lost. What was sent already may arrive all the same.
    pub(crate) fn close_link(&mut self, link: Link, reason: &str) {
        let Some(connection) = self.network.links.get(&link).filter(|connection| connection.client_open) else {
            return;
        };
        let (pid, node, there) = (connection.pid, connection.node, connection.there);
        let lost = self.network.close_client(link);
        let soon = self.now + self.latency();
        let at = if !self.calm && self.chance.odds(500) { there.max(soon) + Duration::from_millis(1) } else { soon };
        self.push(at, Event::Fin(link));
        for request in lost {
            self.request_lost(pid, node, request.body, reason);
        }
        self.run_process(pid);
    }

    /// A process is no more.
    pub(crate) fn vanish(&mut self, pid: Pid) {
        self.processes.remove(&pid);
        for link in self.network.of_process(pid) {
            self.close_link(link, "the process is gone");
        }
    }
}

fn sender(link: Link, connection: &Connection<Request>) -> Sender {
    Sender { node: connection.node, pid: connection.pid, link, has_given_up: !connection.client_open }
}

pub(crate) type Network = crate::network::Network<Option<ConnectionPurpose>, Request>;
