//! Requests on their way to brokers, and their answers on the way back.

use std::time::Duration;

use bytes::Bytes;
use monedula_broker::core::{Action, ConnectionId};
use monedula_engine::TopicPartition;
use monedula_engine::produce::{
    Acks, Input, PartitionAnswer, ProducerIdentity, RequestBatch, RequestFailure, RequestId,
};
use monedula_engine::transaction::CallId;
use monedula_protocol::error_code::ErrorCode;

use crate::broker::{TOPIC, decode, encode, wall_ms};
use crate::judge::Bug;
use crate::network::{Lane, Link, PendingRequest};
use crate::sim::{Event, Sim, ms};
use crate::user::User;

const REQUEST_TIMEOUT: Duration = Duration::from_millis(700);

impl Sim {
    pub(crate) fn send(&mut self, request: RequestId, node: i32, batches: &[RequestBatch]) {
        let asked = PendingRequest::Produce(request);
        let Some(link) = self.link(node, Lane::Records) else { return self.at(ms(5), Event::Unreachable(asked)) };
        let mut contents: Vec<(RequestBatch, Vec<u64>)> =
            batches.iter().map(|sending| (sending.clone(), self.contents[&sending.batch].1.clone())).collect();
        for (sending, _) in &mut contents {
            match self.bug {
                Some(Bug::Unnumbered) => sending.sequence = None,
                Some(Bug::Renumbered) => {
                    sending.sequence = sending
                        .sequence
                        .map(|(identity, _)| (ProducerIdentity { producer_id: request as i64, ..identity }, 0));
                }
                _ => {}
            }
        }
        for record in contents.iter().flat_map(|(_, records)| records) {
            self.ways.entry(*record).or_default().push(link);
        }
        let transactional = self.user.is_some() && self.bug != Some(Bug::NotTransactional);
        let frame = encode(self.acks, &contents, 1, self.user.as_ref().map(User::place).filter(|_| transactional));
        if self.bug == Some(Bug::Dropped) && self.acks == Acks::None && request % 5 == 3 {
            self.network.links.get_mut(&link).expect("it is open").waiting.push_back(asked);
        } else {
            self.dispatch(link, asked, frame);
        }
        if self.acks == Acks::None {
            let takes = self.below(4);
            self.at(ms(takes), Event::Written(link, request));
        }
    }

    /// The connection to a running node.
    fn link(&mut self, node: i32, lane: Lane) -> Option<Link> {
        if let Some(link) = self.network.to(node, lane) {
            return Some(link);
        }
        self.broker.alive.contains(&node).then(|| {
            let connection = self.broker.connect(self.now, node);
            self.network.open(node, lane, connection, self.now)
        })
    }

    /// A call of the session.
    pub(crate) fn send_call(&mut self, call: CallId, node: i32, frame: Bytes) {
        let asked = PendingRequest::Call(call);
        match self.link(node, Lane::Calls) {
            Some(link) => self.dispatch(link, asked, frame),
            None => self.at(ms(5), Event::Unreachable(asked)),
        }
    }

    fn dispatch(&mut self, link: Link, asked: PendingRequest, frame: Bytes) {
        let takes = self.below(15);
        let Some(connection) = self.network.links.get_mut(&link) else { return };
        connection.waiting.push_back(asked);
        connection.there = match self.bug {
            Some(Bug::Overtaken) => self.now + ms(takes),
            _ => connection.there.max(self.now + ms(takes)),
        };
        let after = connection.there - self.now;
        self.at(after, Event::Arrive(link, asked, frame));
        self.at(REQUEST_TIMEOUT, Event::TimedOut(link, asked));
    }

    /// A request with acks=0 counts as done once it is sent.
    pub(crate) fn written(&mut self, link: Link, request: RequestId) {
        let Some(connection) = self.network.links.get_mut(&link) else { return };
        let before = connection.waiting.len();
        connection.waiting.retain(|asked| *asked != PendingRequest::Produce(request));
        if connection.waiting.len() < before {
            self.machine.handle(self.now, Input::Answer { request, outcome: Ok(Vec::new()) });
        }
    }

    pub(crate) fn arrive(&mut self, link: Link, asked: PendingRequest, frame: Bytes) {
        let Some(connection) = self.network.links.get_mut(&link) else { return };
        if connection.broker.is_none() || connection.dead {
            return;
        }
        if !connection.client_open {
            self.figures.zombies += 1;
        }
        connection.arrived.push_back((asked, frame));
        self.work(link);
    }

    /// A broker works on one request of a connection at a time.
    fn work(&mut self, link: Link) {
        let Some(connection) = self.network.links.get_mut(&link) else { return };
        let (Some(broker), Some((_, frame)), false) = (connection.broker, connection.arrived.front(), connection.busy)
        else {
            return;
        };
        connection.busy = true;
        let frame = frame.clone();
        self.broker.core.request(wall_ms(self.now), broker, &frame);
    }

    pub(crate) fn reply(&mut self, broker: ConnectionId, action: Action) {
        let Some(link) = self.network.of(broker) else { return };
        let takes = self.below(15);
        let Some(connection) = self.network.links.get_mut(&link) else { return };
        connection.back = connection.back.max(self.now + ms(takes));
        let after = connection.back - self.now;
        match action {
            Action::Send(pieces) => {
                connection.busy = false;
                let asked = connection.arrived.pop_front();
                if let (Some(user), Some((PendingRequest::Call(call), _))) = (&mut self.user, &asked) {
                    user.worked(*call);
                }
                if let Some((asked, _)) = asked.filter(|_| !connection.dead) {
                    self.at(after, Event::Answer(link, asked, pieces.concat()));
                }
                self.work(link);
            }
            Action::Nothing => {
                connection.busy = false;
                connection.arrived.pop_front();
                self.work(link);
            }
            _ => {
                connection.broker = None;
                self.at(after, Event::Gone(link));
            }
        }
    }

    pub(crate) fn answer(&mut self, link: Link, asked: PendingRequest, frame: &[u8]) {
        let Some(connection) = self.network.links.get_mut(&link) else { return };
        if !connection.client_open || connection.waiting.front() != Some(&asked) {
            return;
        }
        connection.waiting.pop_front();
        let request = match asked {
            PendingRequest::Produce(request) => request,
            PendingRequest::Call(call) => return self.call_answered(call, frame),
        };
        let answers = decode(&frame[4..]);
        self.trace(|| format!("answer to {request}: {answers:?}"));
        self.machine.handle(self.now, Input::Answer { request, outcome: Ok(answers) });
    }

    /// The client closes a connection; requests in flight may still arrive.
    pub(crate) fn lose(&mut self, link: Link, reason: &str) {
        // With acks=0, nothing else shows that a broker is no leader any more.
        if self.acks == Acks::None {
            self.want_metadata();
        }
        for asked in self.network.give_up(link) {
            let request = match asked {
                PendingRequest::Produce(request) => request,
                PendingRequest::Call(call) => {
                    self.call_lost(call, reason);
                    continue;
                }
            };
            self.figures.lost_requests += 1;
            self.trace(|| format!("request {request} is lost: {reason}"));
            let outcome = Err(RequestFailure::Lost(reason.to_owned()));
            let outcome = match self.bug {
                Some(Bug::LostIsGood) => Ok(self.pretend()),
                _ => outcome,
            };
            self.machine.handle(self.now, Input::Answer { request, outcome });
        }
    }

    fn pretend(&self) -> Vec<PartitionAnswer> {
        let answer = |partition| PartitionAnswer {
            partition: TopicPartition::new(TOPIC, partition),
            code: ErrorCode::None,
            message: None,
            base_offset: -1,
            log_append_time_ms: -1,
            log_start_offset: -1,
            record_errors: Vec::new(),
            leader: None,
        };
        (0..self.partitions).map(answer).collect()
    }
}
