//! The state machine of the sessions with all brokers that lead assigned partitions.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use super::acknowledgement::Acknowledgement;
use super::error::AcknowledgeError;
use super::io::{
    AcknowledgePlan, FetchedPartition, SessionId, ShareAnswer, ShareFetchPlan, ShareOutput, ShareSettings,
};
use super::node_session::{InFlight, NodeSession, Partitions, RequestKind};
use crate::backoff::Jitter;
use crate::cluster::Cluster;
use crate::{Now, TopicPartition};

/// The part of a lock's time that a fetch may wait: locks are renewed at 60 % of it, by the request after this one.
const LOCK_SHARE: f64 = 0.3;

/// A partition that is not asked for until then.
#[derive(Clone, Copy, Debug)]
struct Wait {
    until: Now,
    attempts: u32,
}

/// The sessions of a member with the leaders of its partitions. A driver owns it and the clock: after each call it drains
/// [`Self::poll`], then sends what [`Self::ready_nodes`] with [`Self::fetch`], and after that [`Self::acknowledge_next`],
/// say. It wakes the machine, by looking at these again, at [`Self::wake_at`]. Time never goes back.
pub struct ShareSessions {
    settings: ShareSettings,
    jitter: Jitter,
    outputs: VecDeque<ShareOutput>,
    cluster: Arc<Cluster>,
    assigned: BTreeMap<TopicPartition, Uuid>,
    nodes: BTreeMap<i32, NodeSession>,
    waits: BTreeMap<TopicPartition, Wait>,
    denied: BTreeMap<Option<TopicPartition>, ErrorCode>,
    /// Somebody waits for records.
    is_wanted: bool,
    /// The most records of a fetch; those of the settings at least.
    max_records: i32,
    /// The node that was asked last.
    last_asked: i32,
    refresh: Wait,
    /// Set from when the sessions are closed: by when.
    closing: Option<Now>,
    is_closed: bool,
}

impl ShareSessions {
    /// Sessions without partitions. `seed` determines the jitter.
    pub fn new(settings: ShareSettings, seed: u64) -> Self {
        Self {
            settings,
            jitter: Jitter::new(seed),
            outputs: VecDeque::new(),
            cluster: Arc::default(),
            assigned: BTreeMap::new(),
            nodes: BTreeMap::new(),
            waits: BTreeMap::new(),
            denied: BTreeMap::new(),
            is_wanted: false,
            max_records: settings.max_records,
            last_asked: -1,
            refresh: Wait { until: Now::ZERO, attempts: 0 },
            closing: None,
            is_closed: false,
        }
    }

    /// The next output; `None` when all are drained.
    pub fn poll(&mut self) -> Option<ShareOutput> {
        self.outputs.pop_front()
    }

    /// The partitions to read from now on. Records in hand of others stay as they are.
    pub fn assign(&mut self, assigned: BTreeMap<TopicPartition, Uuid>) {
        self.waits.retain(|partition, _| assigned.contains_key(partition));
        self.denied.retain(|partition, _| partition.as_ref().is_none_or(|partition| assigned.contains_key(partition)));
        self.assigned = assigned;
    }

    /// A newer view of the cluster.
    pub fn update_metadata(&mut self, cluster: &Arc<Cluster>) {
        self.cluster = cluster.clone();
        for (node, session) in &mut self.nodes {
            if let Some(request) = &mut session.in_flight {
                request
                    .note_moved(|partition, id| leader(cluster, partition, id).is_some_and(|leader| leader != *node));
            }
        }
    }

    /// Whether somebody waits for records. No fetch is sent otherwise: locks run from when the broker acquires.
    pub fn set_wanted(&mut self, is_wanted: bool) {
        self.is_wanted = is_wanted;
    }

    /// The most records of a fetch from now on.
    pub fn set_max_records(&mut self, max_records: i32) {
        self.max_records = max_records;
    }

    /// True if a broker is likely to have more records than it gave last.
    pub fn has_more(&self) -> bool {
        self.nodes.values().any(|session| session.has_more)
    }

    /// The number of partitions that this broker sends records of; 0 without a session.
    pub fn partition_count(&self, node: i32) -> usize {
        self.nodes.get(&node).map_or(0, NodeSession::partition_count)
    }

    /// The nodes to fetch from now, the one that was asked longest ago first. Under a strict limit it is one at a time.
    pub fn ready_nodes(&mut self, now: Now) -> Vec<i32> {
        if !self.is_wanted || self.closing.is_some() {
            return Vec::new();
        }
        let wanted = self.wanted(now);
        self.refresh_leaders(now);
        let is_ready = |node: &i32| match self.nodes.get(node) {
            Some(session) => session.is_free(now) && session.renewals.is_empty(),
            None => true,
        };
        let with_leftovers =
            self.nodes.iter().filter(|(_, session)| session.partition_count() > 0).map(|(node, _)| *node);
        let mut nodes: Vec<i32> = wanted.keys().copied().chain(with_leftovers).filter(is_ready).collect();
        nodes.sort_by_key(|node| (*node <= self.last_asked, *node));
        nodes.dedup();
        if self.settings.is_strict {
            let is_fetching =
                |session: &NodeSession| session.in_flight.as_ref().is_some_and(|it| it.kind == RequestKind::Fetch);
            nodes.truncate(usize::from(!self.nodes.values().any(is_fetching)));
        }
        nodes
    }

    /// Begins a fetch from a node that is ready. The caller sends it, and brings [`Self::answered`] or [`Self::lost`]. One
    /// that is `ahead` of any call takes what there is: a decision that is made meanwhile would wait for its answer.
    pub fn fetch(&mut self, node: i32, ahead: bool, now: Now) -> ShareFetchPlan {
        let mut wanted = self.wanted(now);
        let turn_wait = self.turn_wait(wanted.keys(), now);
        let wanted = wanted.remove(&node).unwrap_or_default();
        let session = self.nodes.entry(node).or_default();
        // The outcome of what it acknowledges comes with the answer, and what it releases is there for the fetch after it
        // only: Kafka 4.4 does not end a wait for that. Or it only forgets partitions, or is ahead.
        let takes_what_there_is = !session.pending.is_empty() || wanted.is_empty() || ahead;
        let max_wait = if takes_what_there_is { Duration::ZERO } else { turn_wait };
        let max_wait = session.lock_timeout.map_or(max_wait, |lock| max_wait.min(lock.mul_f64(LOCK_SHARE)));
        let (session_epoch, partitions, forgotten) = session.fetch(wanted, max_wait, now);
        self.last_asked = node;
        let (max_records, is_strict) = (self.max_records, self.settings.is_strict);
        ShareFetchPlan { session_epoch, max_wait, max_records, is_strict, partitions, forgotten }
    }

    /// How long a fetch may wait for records. Under a strict limit the brokers have turns: it waits only once each of those
    /// that can be asked was found empty, and then for its part of the time, or the records of one wait for the others.
    fn turn_wait<'a>(&self, nodes: impl Iterator<Item = &'a i32>, now: Now) -> Duration {
        let max_wait = self.settings.max_wait;
        if !self.settings.is_strict {
            return max_wait;
        }
        let (mut turns, mut all_are_empty) = (0, true);
        for session in nodes.map(|node| self.nodes.get(node)) {
            if session.is_none_or(|session| session.is_answering(max_wait, now)) {
                let empty_at = session.and_then(|session| session.empty_at);
                turns += 1;
                all_are_empty &= empty_at.is_some_and(|at| now <= at + 2 * max_wait);
            }
        }
        if all_are_empty || turns == 1 { max_wait / turns.max(1) } else { Duration::ZERO }
    }

    /// Begins the next ShareAcknowledge that is due: renewals, acknowledgements that no fetch took along, and the end of
    /// sessions. The caller sends it as [`Self::fetch`]'s.
    pub fn acknowledge_next(&mut self, now: Now) -> Option<(i32, AcknowledgePlan)> {
        let is_closing = self.closing.is_some();
        let due = |session: &NodeSession| {
            let has_any = is_closing || !session.renewals.is_empty() || !session.pending.is_empty();
            session.is_open() && session.is_free(now) && has_any
        };
        let (node, session) = self.nodes.iter_mut().find(|(_, session)| due(session))?;
        let kind = match (is_closing, session.renewals.is_empty()) {
            (true, _) => RequestKind::Close,
            (false, false) => RequestKind::Renew,
            (false, true) => RequestKind::Acknowledge,
        };
        let (session_epoch, partitions) = session.acknowledge(kind, now);
        Some((*node, AcknowledgePlan { session_epoch, is_renewal: kind == RequestKind::Renew, partitions }))
    }

    /// Takes acknowledgements, to be sent with the next request to the broker that the records came from.
    pub fn acknowledge(&mut self, acknowledgement: Acknowledgement) {
        let session = self.nodes.entry(acknowledgement.session.node).or_default();
        if !session.is_open() || session.id(acknowledgement.session.node) != acknowledgement.session {
            let error = if self.closing.is_some() { AcknowledgeError::Closed } else { AcknowledgeError::SessionLost };
            return self.outputs.push_back(ShareOutput::Acknowledged { acknowledgement, outcome: Err(error) });
        }
        // An offset that stands twice in a request fails all of its partition (KIP-1222).
        for renewal in session.renewals.iter_mut().filter(|it| it.partition == acknowledgement.partition) {
            renewal.remove(&acknowledgement.ranges);
        }
        for renewal in session.renewals.extract_if(.., |renewal| renewal.ranges.is_empty()) {
            self.outputs.push_back(ShareOutput::Acknowledged { acknowledgement: renewal, outcome: Ok(Now::ZERO) });
        }
        session.pending.push(acknowledgement);
    }

    /// Takes renewals of locks, which are sent before anything else.
    pub fn renew(&mut self, renewal: Acknowledgement) {
        let session = self.nodes.entry(renewal.session.node).or_default();
        if self.closing.is_some() || !session.is_open() || session.id(renewal.session.node) != renewal.session {
            let outcome = Err(AcknowledgeError::SessionLost);
            return self.outputs.push_back(ShareOutput::Acknowledged { acknowledgement: renewal, outcome });
        }
        session.renewals.push(renewal);
    }

    /// Takes the answer to the request in flight to this node.
    pub fn answered(&mut self, node: i32, answer: &ShareAnswer, now: Now) {
        let Some(mut request) = self.nodes.get_mut(&node).and_then(|session| session.in_flight.take()) else { return };
        if answer.code != ErrorCode::None {
            self.refused(node, request, answer.code, now);
        } else {
            let (partitions, moved) = (request.take_partitions(), request.take_moved());
            let deadline = request.sent + answer.lock_timeout;
            let (is_fetch, is_close) = (request.kind == RequestKind::Fetch, request.kind == RequestKind::Close);
            let has_waited = !request.max_wait.is_zero();
            self.settle(&answer.partitions, request, deadline);
            if let Some(session) = self.nodes.get_mut(&node) {
                session.succeeded(partitions);
                if is_fetch {
                    session.empty_at = Some(now).filter(|_| answer.records() == 0);
                }
                match i32::try_from(answer.records()).unwrap_or(i32::MAX) {
                    0 => session.has_more &= !(is_fetch && has_waited),
                    records => session.has_more = records >= self.settings.max_records,
                }
                session.lock_timeout =
                    Some(answer.lock_timeout).filter(|lock| !lock.is_zero()).or(session.lock_timeout);
                session.retry_at = None;
            }
            self.denied.remove(&None);
            if is_close {
                self.session_over(node, &AcknowledgeError::Closed);
            } else if self.nodes.get(&node).is_some_and(|session| session.is_disconnected) {
                // What the answer brought was released with the connection.
                self.session_over(node, &AcknowledgeError::SessionLost);
            } else if is_fetch {
                self.take_records(node, answer, &moved, deadline, now);
            }
        }
        self.end_closing();
    }

    /// The request in flight to this node had no answer, or one that cannot be read.
    pub fn lost(&mut self, node: i32, reason: &str, now: Now) {
        let Some(request) = self.nodes.get_mut(&node).and_then(|session| session.in_flight.take()) else { return };
        // It may have been applied, and the repetition would then be INVALID_RECORD_STATE.
        self.fail(request.acknowledgements, &AcknowledgeError::Unknown { reason: reason.into() });
        self.session_over(node, &AcknowledgeError::SessionLost);
        self.back_off(node, now);
        self.end_closing();
    }

    /// The session with this node that the next fetch opens or goes on with.
    pub fn session(&self, node: i32) -> SessionId {
        self.nodes.get(&node).map_or(SessionId { node, generation: 0 }, |session| session.id(node))
    }

    /// The connection of this session has ended, and with it all that was acquired in it.
    pub fn disconnected(&mut self, ended: SessionId) {
        let Some(session) = self.nodes.get_mut(&ended.node).filter(|session| session.id(ended.node) == ended) else {
            return;
        };
        session.is_disconnected = true;
        match session.in_flight.is_none() {
            true => self.session_over(ended.node, &AcknowledgeError::SessionLost),
            // Its end or its answer ends the session.
            false => self.outputs.push_back(ShareOutput::LocksLost { session: ended, partition: None }),
        }
        self.end_closing();
    }

    /// The request in flight to this node was not sent, because the broker has no version that can carry it: one before
    /// Kafka 4.2 renews no locks. The session goes on.
    pub fn unsupported(&mut self, node: i32) {
        let request = self.nodes.get_mut(&node).and_then(|session| session.in_flight.take());
        self.fail(request.map(|it| it.acknowledgements).unwrap_or_default(), &AcknowledgeError::NoRenewals);
        self.end_closing();
    }

    /// Closes all sessions, which releases what is locked in them. [`ShareOutput::Closed`] follows, at the deadline at
    /// the latest. Acknowledgements that were taken before are sent.
    pub fn close(&mut self, deadline: Now) {
        self.closing = Some(deadline);
        for session in self.nodes.values_mut() {
            session.retry_at = None;
            let renewals = std::mem::take(&mut session.renewals);
            for acknowledgement in renewals {
                let outcome = Err(AcknowledgeError::Closed);
                self.outputs.push_back(ShareOutput::Acknowledged { acknowledgement, outcome });
            }
        }
        self.end_closing();
    }

    /// Ends closing if its deadline has passed.
    pub fn tick(&mut self, now: Now) {
        if self.closing.is_some_and(|deadline| deadline <= now && !self.is_closed) {
            for node in self.nodes.keys().copied().collect::<Vec<_>>() {
                let request = self.nodes.get_mut(&node).and_then(|session| session.in_flight.take());
                let reason = "it was not answered before the consumer was closed".to_owned();
                let unanswered = request.map(|request| request.acknowledgements).unwrap_or_default();
                self.fail(unanswered, &AcknowledgeError::Unknown { reason });
                self.session_over(node, &AcknowledgeError::Closed);
            }
            self.end_closing();
        }
    }

    /// The time after `now` to look at the machine again if nothing else happens before.
    pub fn wake_at(&self, now: Now) -> Option<Now> {
        let retries = self.nodes.values().filter_map(|session| session.retry_at);
        let waits = self.waits.values().map(|wait| wait.until).chain([self.refresh.until]);
        let asking = retries.chain(waits).filter(|_| self.is_wanted && self.closing.is_none());
        // What was due before has been done: a retry that is in flight, or a pause whose partition has had no records since.
        asking.filter(|at| *at > now).chain(self.closing.filter(|_| !self.is_closed)).min()
    }

    /// The partitions to ask each leader for.
    fn wanted(&self, now: Now) -> BTreeMap<i32, Partitions> {
        let mut wanted: BTreeMap<i32, Partitions> = BTreeMap::new();
        for (partition, id) in &self.assigned {
            let waits = self.waits.get(partition).is_some_and(|wait| wait.until > now);
            if let Some(leader) = leader(&self.cluster, partition, *id).filter(|_| !waits) {
                wanted.entry(leader).or_default().insert((partition.clone(), *id));
            }
        }
        wanted
    }

    /// Asks for metadata while a partition has no leader, as after a restart of the whole cluster.
    fn refresh_leaders(&mut self, now: Now) {
        let is_known = |(partition, id): (&TopicPartition, &Uuid)| leader(&self.cluster, partition, *id).is_some();
        if self.assigned.iter().all(is_known) {
            self.refresh = Wait { until: Now::ZERO, attempts: 0 };
        } else if self.refresh.until <= now {
            self.refresh = Wait { until: now + self.delay(self.refresh.attempts), attempts: self.refresh.attempts + 1 };
            self.outputs.push_back(ShareOutput::RefreshMetadata);
        }
    }

    fn delay(&mut self, attempts: u32) -> Duration {
        self.settings.backoff.delay(attempts, &mut self.jitter)
    }

    /// Any error of a request ends the session: with another epoch than the broker's nothing goes on.
    fn refused(&mut self, node: i32, request: InFlight, code: ErrorCode, now: Now) {
        self.fail(request.acknowledgements, &AcknowledgeError::SessionLost);
        self.session_over(node, &AcknowledgeError::SessionLost);
        let is_of_session = matches!(code, ErrorCode::ShareSessionNotFound | ErrorCode::InvalidShareSessionEpoch);
        if is_of_session || code == ErrorCode::ShareSessionLimitReached || code.is_retriable() {
            self.outputs.push_back(ShareOutput::Retried { node, partition: None, code });
        } else {
            self.deny(None, code);
        }
        let is_first = self.nodes.get(&node).is_none_or(|session| session.attempts == 0);
        match is_of_session && is_first {
            // The broker has forgotten the session: a new one is opened at once, the first time.
            true => self.nodes.entry(node).or_default().attempts = 1,
            false => self.back_off(node, now),
        }
    }

    fn back_off(&mut self, node: i32, now: Now) {
        let attempts = self.nodes.get(&node).map_or(0, |session| session.attempts);
        let retry_at = now + self.delay(attempts);
        let session = self.nodes.entry(node).or_default();
        (session.retry_at, session.attempts) = (Some(retry_at), attempts.saturating_add(1));
        self.outputs.push_back(ShareOutput::RefreshMetadata);
    }

    /// The session with this node is over, and with it all that was acquired in it.
    fn session_over(&mut self, node: i32, error: &AcknowledgeError) {
        let Some(session) = self.nodes.get_mut(&node) else { return };
        let (id, unsent) = (session.id(node), session.end());
        self.outputs.push_back(ShareOutput::LocksLost { session: id, partition: None });
        self.fail(unsent, error);
    }

    fn fail(&mut self, acknowledgements: Vec<Acknowledgement>, error: &AcknowledgeError) {
        for acknowledgement in acknowledgements {
            self.outputs.push_back(ShareOutput::Acknowledged { acknowledgement, outcome: Err(error.clone()) });
        }
    }

    /// The outcome of each acknowledgement of a request that was answered.
    fn settle(&mut self, answered: &[FetchedPartition], request: InFlight, deadline: Now) {
        let (is_fetch, is_renewal) = (request.kind == RequestKind::Fetch, request.kind == RequestKind::Renew);
        for acknowledgement in request.acknowledgements {
            let of = |it: &&FetchedPartition| {
                it.topic_id == acknowledgement.topic_id && it.partition == acknowledgement.partition.partition
            };
            let outcome = match answered.iter().find(of) {
                Some(it) if is_fetch => Some(it.acknowledge_code),
                Some(it) => Some(it.code),
                None => None,
            };
            let outcome = match outcome {
                Some(ErrorCode::None) => Ok(deadline),
                Some(ErrorCode::InvalidRecordState) if is_renewal => Err(AcknowledgeError::NotRenewed),
                Some(code) => Err(AcknowledgeError::of(code)),
                None => Err(AcknowledgeError::Unknown { reason: "the answer leaves the partition out".into() }),
            };
            self.outputs.push_back(ShareOutput::Acknowledged { acknowledgement, outcome });
        }
    }

    fn take_records(&mut self, node: i32, answer: &ShareAnswer, moved: &Partitions, deadline: Now, now: Now) {
        for (index, answered) in answer.partitions.iter().enumerate() {
            let Some(known) = self.nodes.get(&node) else { continue };
            let session = known.id(node);
            let Some(partition) = known.partition(answered.topic_id, answered.partition) else { continue };
            if answered.code != ErrorCode::None {
                self.partition_refused(session, partition, answered, now);
                continue;
            }
            self.denied.remove(&Some(partition.clone()));
            // The new leader may have given them out by now, also to this member.
            if !answered.acquired.is_empty() && !moved.contains(&(partition.clone(), answered.topic_id)) {
                // Also of leaders before this one.
                let sessions = self.nodes.values_mut();
                let outdated =
                    sessions.flat_map(|session| session.take_outdated(&partition, &answered.acquired)).collect();
                self.fail(outdated, &AcknowledgeError::LockLost);
                self.waits.remove(&partition);
                self.outputs.push_back(ShareOutput::Acquired {
                    session,
                    partition,
                    topic_id: answered.topic_id,
                    index,
                    acquired: answered.acquired.clone(),
                    deadline,
                    lock_timeout: answer.lock_timeout,
                });
            }
        }
    }

    fn partition_refused(
        &mut self,
        session: SessionId,
        partition: TopicPartition,
        answered: &FetchedPartition,
        now: Now,
    ) {
        let code = answered.code;
        let has_moved = matches!(code, ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch);
        if has_moved {
            let lost = Some(partition.clone());
            self.outputs.push_back(ShareOutput::LocksLost { session, partition: lost });
            // An answer without a leader has -1, or zeros from a broker that leaves the field out.
            let (leader, leader_epoch) = answered.leader;
            if leader >= 0 && leader_epoch >= 0 && leader != session.node {
                let partition = partition.clone();
                self.outputs.push_back(ShareOutput::LeaderHint { partition, leader, leader_epoch });
            }
        }
        if code == ErrorCode::TopicAuthorizationFailed {
            self.deny(Some(partition.clone()), code);
        } else {
            let partition = Some(partition.clone());
            self.outputs.push_back(ShareOutput::Retried { node: session.node, partition, code });
        }
        self.outputs.push_back(ShareOutput::RefreshMetadata);
        let attempts = self.waits.get(&partition).map_or(0, |wait| wait.attempts);
        let until = now + self.delay(attempts);
        self.waits.insert(partition, Wait { until, attempts: attempts.saturating_add(1) });
    }

    /// What the broker refuses to give, as of now: the group (`None`) or a partition.
    pub fn denied(&self) -> Option<(Option<TopicPartition>, ErrorCode)> {
        self.denied.iter().next().map(|(partition, code)| (partition.clone(), *code))
    }

    fn deny(&mut self, partition: Option<TopicPartition>, code: ErrorCode) {
        if self.denied.insert(partition.clone(), code) != Some(code) {
            self.outputs.push_back(ShareOutput::Denied { partition, code });
        }
    }

    fn end_closing(&mut self) {
        let is_over = |session: &NodeSession| !session.is_open() && session.in_flight.is_none();
        if self.closing.is_some() && !self.is_closed && self.nodes.values().all(is_over) {
            self.is_closed = true;
            self.outputs.push_back(ShareOutput::Closed);
        }
    }
}

fn leader(cluster: &Cluster, partition: &TopicPartition, id: Uuid) -> Option<i32> {
    let topic = cluster.topics.get(&partition.topic).filter(|topic| topic.id == id)?;
    topic.partitions.get(&partition.partition)?.leader
}
