//! Faults that tests set.
//!
//! The core decides which requests are hit, which answer they get instead, and which requests and answers are delayed,
//! in its own time. Effects on the bytes of an answer are passed to the connection in the [`Action`]. Every request
//! passes [`Faults::on_request`] before it is carried out, and every answer [`Faults::on_answer`] before it is sent.
//! Faults on partitions are applied by the APIs, which call [`Faults::partition_error`] for each partition.

mod bytes;
mod fault;
mod held_exchanges;
mod unpropagated_topics;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use monedula_protocol::api::ApiKey;
use monedula_protocol::error_code::ErrorCode;

pub use fault::{Direction, Effect, Fault, ScramLie, Selector, Side};
pub(crate) use held_exchanges::HeldExchange;

use crate::BrokerError;
use crate::cluster::{NodeId, Topics};
use crate::draw::Draw;
use crate::request::{Action, Answer, Call, ConnectionId, Current, Mentions, TopicKey, Wire};
use held_exchanges::{Armed, HeldExchanges};
use unpropagated_topics::UnpropagatedTopics;

/// The APIs that call [`Faults::partition_error`] for each partition; Metadata calls it for each topic.
const BY_PARTITION: &[ApiKey] = &[
    ApiKey::Produce,
    ApiKey::Fetch,
    ApiKey::ShareFetch,
    ApiKey::ShareAcknowledge,
    ApiKey::ListOffsets,
    ApiKey::OffsetCommit,
    ApiKey::OffsetFetch,
    ApiKey::TxnOffsetCommit,
    ApiKey::OffsetForLeaderEpoch,
    ApiKey::DeleteRecords,
    ApiKey::OffsetDelete,
    ApiKey::AddPartitionsToTxn,
    ApiKey::WriteTxnMarkers,
    ApiKey::ElectLeaders,
    ApiKey::AlterPartitionReassignments,
    ApiKey::DescribeProducers,
    ApiKey::Metadata,
];

/// The number of removed faults that are kept, for the report of a test that fails.
const KEPT_REMOVED: usize = 20;

/// The faults that are set, and the requests, answers and connections that they hold.
#[derive(Debug)]
pub(crate) struct Faults {
    /// The faults by id, which is the order in which they were set.
    active: BTreeMap<u64, Active>,
    last_id: u64,
    draw: Draw,
    /// While a delayed request resumes, the fault that had delayed it: only the faults after it apply.
    resumed_after: Option<u64>,
    held_exchanges: HeldExchanges,
    /// The effects on the next answer of a connection.
    armed: BTreeMap<ConnectionId, Armed>,
    /// The decision of each partition fault on the present request of a connection, with the correlation id of that
    /// request.
    decided: BTreeMap<ConnectionId, (i32, BTreeMap<u64, bool>)>,
    /// The connections whose answers are dropped, with the fault that does it.
    mute: BTreeMap<ConnectionId, u64>,
    /// The connections that are no longer read, with the fault that does it.
    deaf: BTreeMap<ConnectionId, u64>,
    unpropagated: UnpropagatedTopics,
    /// The faults that were removed last, with their hits, the oldest first.
    removed: VecDeque<(u64, Fault, u64)>,
    /// The faults that took effect on the present request of a connection.
    struck: BTreeMap<ConnectionId, Vec<u64>>,
}

/// The fate of a request that a fault stops.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// The request has this answer.
    Answered(Answer),
    /// The connection does this, and the request has no answer.
    Acted(Action),
}

/// A fault that is set, with its counters.
#[derive(Debug)]
struct Active {
    fault: Fault,
    apis: Vec<ApiKey>,
    error: Option<ErrorCode>,
    /// The number of requests that the selector matched.
    matched: u64,
    /// The number of requests that were hit, after `skip`, `count` and `probability`.
    used: u64,
    /// The number of requests on which the fault took effect. An effect on the answer is counted when the answer is
    /// sent.
    hits: u64,
}

impl Active {
    fn selects(&self, call: &Call<'_>) -> bool {
        let when = &self.fault.when;
        (self.apis.is_empty() || self.apis.contains(&call.key))
            && (when.nodes.is_empty() || when.nodes.contains(&call.node.0))
            && when.client_id.as_ref().is_none_or(|id| id == call.client_id)
            && when.min_version.is_none_or(|version| version <= call.version)
            && when.max_version.is_none_or(|version| call.version <= version)
    }

    fn selects_mentions(&self, mentions: &Mentions<'_>, topics: &Topics, fetched: &[(Arc<str>, i32)]) -> bool {
        let when = &self.fault.when;
        let is_topic = |key: &TopicKey<'_>, name: &str| match *key {
            TopicKey::Name(other) => other == name,
            TopicKey::Id(id) => topics.name_of(id).is_some_and(|other| &*other == name),
        };
        let is_named = |name: &String| {
            let partition = |(key, index): &(TopicKey<'_>, i32)| {
                when.partition.is_none_or(|partition| partition == *index) && is_topic(key, name)
            };
            let remembered = |(topic, index): &(Arc<str>, i32)| {
                **topic == **name && when.partition.is_none_or(|partition| partition == *index)
            };
            mentions.partitions.iter().any(partition)
                || fetched.iter().any(remembered)
                || when.partition.is_none() && mentions.topics.iter().any(|key| is_topic(key, name))
        };
        when.group.as_ref().is_none_or(|group| mentions.groups.contains(&group.as_str()))
            && when.transactional_id.as_ref().is_none_or(|id| mentions.transactional_id == Some(id))
            && when.topic.as_ref().is_none_or(is_named)
    }

    /// True if the fault applies to single partitions of a request.
    fn is_by_partition(&self, key: ApiKey) -> bool {
        let by_partition = matches!(self.fault.what, Effect::Error { whole: false, .. });
        by_partition && self.fault.when.topic.is_some() && BY_PARTITION.contains(&key)
    }

    /// Decides whether a request that the selector matched is hit.
    fn draw(&mut self, draw: &mut Draw) -> bool {
        self.matched += 1;
        if self.matched <= self.fault.skip || self.fault.count.is_some_and(|count| self.used >= count) {
            return false;
        }
        // A double has a mantissa of 53 bits.
        let drawn = |draw: &mut Draw| (draw.next() >> 11) as f64 / (1u64 << 53) as f64;
        let is_hit = self.fault.probability.is_none_or(|probability| drawn(draw) < probability);
        self.used += u64::from(is_hit);
        is_hit
    }

    /// Counts a request on which the fault takes effect.
    fn hit(
        &mut self,
        id: u64,
        connection: ConnectionId,
        request: Current,
        struck: &mut BTreeMap<ConnectionId, Vec<u64>>,
    ) {
        self.hits += 1;
        if self.fault.what == Effect::Observe {
            return;
        }
        struck.entry(connection).or_default().push(id);
        if log::log_enabled!(log::Level::Debug) {
            let what = serde_json::to_string(&self.fault.what).unwrap_or_default();
            log::debug!("fault {id} takes effect on {request} of connection {}: {what}", connection.0);
        }
    }
}

impl Faults {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            active: BTreeMap::new(),
            last_id: 0,
            // A seed of its own, so that faults do not change which member ids are drawn.
            draw: Draw::new(seed ^ 0x6661_756c_7473),
            resumed_after: None,
            held_exchanges: HeldExchanges::default(),
            armed: BTreeMap::new(),
            decided: BTreeMap::new(),
            mute: BTreeMap::new(),
            deaf: BTreeMap::new(),
            unpropagated: UnpropagatedTopics::default(),
            removed: VecDeque::new(),
            struck: BTreeMap::new(),
        }
    }

    /// True if no fault is set, and every node knows every topic.
    pub(crate) fn is_empty(&self) -> bool {
        self.active.is_empty() && self.unpropagated.is_empty()
    }

    /// Keeps a topic from a node until a time.
    pub(crate) fn hide(&mut self, topic: &Arc<str>, node: NodeId, until_ms: i64) {
        self.unpropagated.hide(topic, node, until_ms);
    }

    pub(crate) fn hides(&self, topic: &str, node: NodeId) -> bool {
        self.unpropagated.hides(topic, node)
    }

    /// Sets a fault. Returns its id.
    ///
    /// # Errors
    /// [`BrokerError::Command`] for unknown names and invalid numbers.
    pub(crate) fn set(&mut self, fault: Fault) -> Result<u64, BrokerError> {
        let checked = fault.check()?;
        self.last_id += 1;
        let active = Active { fault, apis: checked.apis, error: checked.error, matched: 0, used: 0, hits: 0 };
        self.active.insert(self.last_id, active);
        Ok(self.last_id)
    }

    /// The number of requests on which a fault took effect.
    ///
    /// # Errors
    /// [`BrokerError::Command`] if there is no such fault.
    pub(crate) fn hits(&self, id: u64) -> Result<u64, BrokerError> {
        self.active.get(&id).map(|active| active.hits).ok_or_else(|| unknown(id))
    }

    /// The sum of the hits of all faults that are set.
    pub(crate) fn all_hits(&self) -> u64 {
        self.active.values().map(|active| active.hits).sum()
    }

    /// Every fault that is set, with its id and hits.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, &Fault, u64)> {
        self.active.iter().map(|(id, active)| (*id, &active.fault, active.hits))
    }

    /// The faults that were removed last, with their ids and hits, the oldest first.
    pub(crate) fn removed(&self) -> impl Iterator<Item = (u64, &Fault, u64)> {
        self.removed.iter().map(|(id, fault, hits)| (*id, fault, *hits))
    }

    /// The error to answer for this partition, if a fault hits it. Every API with an error code for each partition
    /// calls this for each of them, before it handles the partition.
    pub(crate) fn partition_error(&mut self, call: &Call<'_>, topic: &str, partition: i32) -> Option<ErrorCode> {
        // Kafka's controller, which knows every topic, answers these two.
        let is_for_controller = matches!(call.key, ApiKey::ElectLeaders | ApiKey::AlterPartitionReassignments);
        if !is_for_controller && self.unpropagated.hides(topic, call.node) {
            return Some(unknown_topic(call));
        }
        if self.active.is_empty() {
            return None;
        }
        let decided = self.decided.entry(call.ticket.connection).or_default();
        if decided.0 != call.ticket.correlation_id {
            *decided = (call.ticket.correlation_id, BTreeMap::new());
        }
        for (id, active) in &mut self.active {
            let when = &active.fault.when;
            let is_partition = when.topic.as_deref() == Some(topic)
                && when.partition.is_none_or(|selected| selected == partition)
                && when.group.is_none();
            if !is_partition || !active.is_by_partition(call.key) || !active.selects(call) {
                continue;
            }
            // One request counts as one hit, however many of its partitions match and however often a waiting fetch
            // checks them.
            let is_hit = *decided.1.entry(*id).or_insert_with(|| {
                let is_hit = active.draw(&mut self.draw);
                if is_hit {
                    active.hit(*id, call.ticket.connection, call.current(), &mut self.struck);
                }
                is_hit
            });
            if is_hit {
                return active.error;
            }
        }
        None
    }

    /// Drops the state of a closed connection. Its delayed requests are carried out all the same: the network has taken
    /// them.
    pub(crate) fn disconnected(&mut self, connection: ConnectionId) {
        self.armed.remove(&connection);
        self.decided.remove(&connection);
        self.mute.remove(&connection);
        self.deaf.remove(&connection);
        self.struck.remove(&connection);
    }

    fn hit(&mut self, id: u64, connection: ConnectionId, request: Current) {
        if let Some(active) = self.active.get_mut(&id) {
            active.hit(id, connection, request, &mut self.struck);
        }
    }

    fn count(&mut self, id: u64) {
        if let Some(active) = self.active.get_mut(&id) {
            active.hits += 1;
        }
    }

    /// Takes the faults that took effect on the present request of a connection, which is answered now.
    pub(crate) fn take_struck(&mut self, connection: ConnectionId) -> Vec<u64> {
        self.struck.remove(&connection).unwrap_or_default()
    }

    /// Applies the faults to a request before it is carried out. `fetched` are the partitions of the fetch session that
    /// it continues, and `refused` makes the answer with an error for the whole request. Returns what becomes of it;
    /// `None` if it goes on.
    pub(crate) fn on_request(
        &mut self,
        now_ms: i64,
        call: &Call<'_>,
        mentions: &Mentions<'_>,
        (topics, fetched): (&Topics, &[(Arc<str>, i32)]),
        refused: &dyn Fn(ErrorCode) -> Answer,
    ) -> Option<Stopped> {
        let connection = call.ticket.connection;
        let resumed_after = self.resumed_after.take();
        if resumed_after.is_none() {
            self.armed.remove(&connection);
        }
        let ids: Vec<u64> = self.active.keys().copied().filter(|id| Some(*id) > resumed_after).collect();
        for id in ids {
            let Self { active, draw, .. } = self;
            let Some(active) = active.get_mut(&id) else { continue };
            let selected = active.selects(call) && active.selects_mentions(mentions, topics, fetched);
            if !selected || active.is_by_partition(call.key) || !active.draw(draw) {
                continue;
            }
            let (what, error) = (active.fault.what.clone(), active.error);
            if active.fault.side() == Side::Answer {
                let instead = error.map(refused);
                self.armed.entry(connection).or_default().push((id, what, instead));
                continue;
            }
            self.hit(id, connection, call.current());
            if let Some(stopped) = self.stop(now_ms, call, id, &what, error.map(refused)) {
                return Some(stopped);
            }
        }
        None
    }

    /// Applies an effect to a request before it is carried out. Returns what becomes of it; `None` if it goes on.
    fn stop(
        &mut self,
        now_ms: i64,
        call: &Call<'_>,
        id: u64,
        what: &Effect,
        refused: Option<Answer>,
    ) -> Option<Stopped> {
        let connection = call.ticket.connection;
        match what {
            Effect::Error { .. } => refused.map(Stopped::Answered),
            Effect::Delay { ms } => {
                self.held_exchanges.delay(now_ms + ms, HeldExchange::request(id, call));
                Some(Stopped::Answered(Answer::Later))
            }
            Effect::Hold => {
                self.held_exchanges.hold(id, HeldExchange::request(id, call));
                Some(Stopped::Answered(Answer::Later))
            }
            Effect::Drop => Some(Stopped::Answered(Answer::Nothing)),
            Effect::Close => Some(Stopped::Answered(Answer::Close("a fault closes it".to_owned()))),
            Effect::Reset => Some(Stopped::Acted(Action::Reset)),
            Effect::BlackHole { way: Direction::Answers } => {
                self.mute.insert(connection, id);
                None
            }
            Effect::BlackHole { way: Direction::Requests | Direction::Both } => {
                self.deaf.insert(connection, id);
                Some(Stopped::Acted(Action::Deaf))
            }
            // The effects on answers are armed by the caller.
            _ => None,
        }
    }

    /// Applies the armed effects to the answer of the request that a connection waits for. Returns `None` if it is
    /// delayed or held.
    pub(crate) fn on_answer(
        &mut self,
        now_ms: i64,
        connection: ConnectionId,
        request: Option<Current>,
        mut action: Action,
    ) -> Option<Action> {
        if self.is_empty() && self.armed.is_empty() {
            return Some(action);
        }
        let mut armed = self.armed.remove(&connection).unwrap_or_default();
        let mut wire = Wire::default();
        while !armed.is_empty() {
            let (id, what, instead) = armed.remove(0);
            // A connection that has ended has no request any more; the fault took effect all the same.
            match request {
                Some(request) => self.hit(id, connection, request),
                None => self.count(id),
            }
            match what {
                Effect::Delay { ms } => {
                    self.armed.insert(connection, armed);
                    self.held_exchanges.delay(now_ms + ms, HeldExchange::Answer { connection, action });
                    return None;
                }
                Effect::Hold => {
                    self.armed.insert(connection, armed);
                    self.held_exchanges.hold(id, HeldExchange::Answer { connection, action });
                    return None;
                }
                what => action = bytes::change(action, &what, instead, &mut wire, request),
            }
        }
        if self.mute.contains_key(&connection) && matches!(action, Action::Send(_)) {
            return Some(Action::Nothing);
        }
        Some(match action {
            Action::Send(pieces) if wire != Wire::default() => Action::Wire(pieces, wire),
            action => action,
        })
    }

    /// Removes a fault. Returns its hits.
    ///
    /// # Errors
    /// [`BrokerError::Command`] if there is no such fault.
    pub(crate) fn remove(&mut self, id: u64) -> Result<u64, BrokerError> {
        let Active { fault, hits, .. } = self.active.remove(&id).ok_or_else(|| unknown(id))?;
        if self.removed.len() == KEPT_REMOVED {
            self.removed.pop_front();
        }
        self.removed.push_back((id, fault, hits));
        Ok(hits)
    }

    /// Releases the requests and answers that a fault holds, in order of arrival, and the connections that it has
    /// black-holed.
    pub(crate) fn let_go(&mut self, id: u64) -> (Vec<HeldExchange>, Vec<ConnectionId>) {
        let held = self.held_exchanges.release(id);
        let swallowed = self.mute.iter().chain(self.deaf.iter()).filter(|(_, fault)| **fault == id);
        let swallowed: Vec<ConnectionId> = swallowed.map(|(connection, _)| *connection).collect();
        swallowed.iter().for_each(|connection| self.disconnected(*connection));
        (held, swallowed)
    }

    /// Takes the next request or answer whose delay is over.
    pub(crate) fn take_due(&mut self, now_ms: i64) -> Option<HeldExchange> {
        self.held_exchanges.take_due(now_ms)
    }

    /// Lets nodes know the topics that they know by now. Returns whether there was one.
    pub(crate) fn reveal(&mut self, now_ms: i64) -> bool {
        self.unpropagated.reveal(now_ms)
    }

    /// The time at which a delay is over, or a node learns of a topic.
    pub(crate) fn next_due_ms(&self) -> Option<i64> {
        [self.held_exchanges.next_due_ms(), self.unpropagated.next_due_ms()].into_iter().flatten().min()
    }

    /// Has only the faults after the one that delayed a request apply to it, which is carried out next; `None` once it
    /// is.
    pub(crate) fn resume(&mut self, delayed_by: Option<u64>) {
        self.resumed_after = delayed_by;
    }
}

/// The error for a topic that the node does not know, which some versions of an API name by its id.
fn unknown_topic(call: &Call<'_>) -> ErrorCode {
    let ids_from = match call.key {
        ApiKey::Produce | ApiKey::Fetch => 13,
        ApiKey::ShareFetch | ApiKey::ShareAcknowledge => 0,
        ApiKey::OffsetCommit | ApiKey::OffsetFetch => 10,
        _ => i16::MAX,
    };
    if call.version < ids_from { ErrorCode::UnknownTopicOrPartition } else { ErrorCode::UnknownTopicId }
}

fn unknown(id: u64) -> BrokerError {
    BrokerError::Command(format!("there is no fault {id}: it was removed, or never set"))
}
