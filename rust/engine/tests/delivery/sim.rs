//! The machine, its driver and its user; what happens to them is drawn from the seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use monedula_broker::NodeId;
use monedula_broker::control::Command;
use monedula_broker::core::{Action, ConnectionId};
use monedula_engine::backoff::{Backoff, Jitter};
use monedula_engine::cluster::Cluster;
use monedula_engine::produce::{
    Acknowledged, Acks, Batch, BatchId, Identity, Input, Output, ProduceConfig, ProduceMachine, RequestFailure,
    RequestId, SendFault, Sending,
};
use monedula_engine::transaction::{self, CallId};
use monedula_engine::{Now, TopicPartition};

use crate::broker::{Broker, NODES, TOPIC, Transactions, decode, encode, wall_ms};
use crate::judge::{Bug, Figures, Rule};
use crate::network::{Asked, Lane, Link, Network};
use crate::user::User;

/// How long records are sent, and things go wrong.
pub(crate) const TROUBLE: Duration = Duration::from_secs(4);
/// What comes to no end by then never does.
const END: Duration = Duration::from_secs(60);
const REQUEST_TIMEOUT: Duration = Duration::from_millis(700);
/// How late a connection may be that stalls: its client has given it up long before, and what it asked for has been repeated.
const LATEST_MS: u64 = 3000;
/// Steps of a run, at most: more is a spin.
const STEPS: usize = 60_000;
/// How many records a batch takes.
const FULL: usize = 8;
const RECORD_BYTES: usize = 20;

#[derive(Debug)]
pub(crate) enum Event {
    /// The user sends a record.
    Record,
    /// Something goes wrong.
    Trouble,
    Packed(BatchId),
    Split(BatchId),
    Metadata(Box<Cluster>),
    Identity,
    /// A request reaches the broker.
    Arrive(Link, Asked, Bytes),
    /// An answer reaches the client.
    Answer(Link, Asked, Vec<u8>),
    /// A request that gets no answer is in the connection.
    Written(Link, RequestId),
    /// The client notices that a connection is gone.
    Gone(Link),
    /// No connection could be made.
    Unreachable(Asked),
    TimedOut(Link, Asked),
    /// The user of transactions ends the one that is open.
    End,
    /// A new transaction.
    Begin,
}

pub(crate) struct Sim {
    pub(crate) now: Now,
    pub(crate) machine: ProduceMachine,
    pub(crate) broker: Broker,
    pub(crate) partitions: i32,
    pub(crate) idempotent: bool,
    pub(crate) acks: Acks,
    /// Who sends in transactions.
    pub(crate) user: Option<User>,
    /// By which connections each record went.
    pub(crate) ways: BTreeMap<u64, Vec<Link>>,
    /// Partition and records of each batch.
    pub(crate) contents: BTreeMap<BatchId, (i32, Vec<u64>)>,
    pub(crate) divided: BTreeSet<BatchId>,
    pub(crate) done: BTreeMap<BatchId, Result<Acknowledged, SendFault>>,
    pub(crate) figures: Figures,
    pub(crate) flushed: usize,
    pub(crate) problem: Option<(Rule, String)>,
    network: Network,
    dice: Jitter,
    pub(crate) bug: Option<Bug>,
    tracing: bool,
    events: BTreeMap<(Now, u64), Event>,
    next_event: u64,
    cluster: Cluster,
    metadata_wanted: bool,
    identity: Option<Identity>,
    open: BTreeMap<i32, BatchId>,
    next_batch: BatchId,
    next_record: u64,
    pub(crate) calm: bool,
}

impl Sim {
    pub(crate) fn new(seed: u64, bug: Option<Bug>, tracing: bool) -> Self {
        let mut dice = Jitter::new(seed);
        // Neighbouring seeds begin alike.
        dice.next();
        let (acks, idempotent, transactional) = match dice.next() % 10 {
            0 => (Acks::None, false, false),
            1 => (Acks::Leader, false, false),
            2 => (Acks::All, false, false),
            3..=5 => (Acks::All, true, true),
            _ => (Acks::All, true, false),
        };
        let config = ProduceConfig {
            acks,
            idempotent,
            transactional,
            max_in_flight: if idempotent || acks == Acks::None { 1 + (dice.next() % 5) as usize } else { 1 },
            linger: ms(dice.next() % 20),
            max_request_bytes: 400,
            delivery_timeout: ms([800, 1500, 20_000, 20_000][(dice.next() % 4) as usize]),
            retries: u32::MAX,
            backoff: Backoff { initial: ms(100), max: ms(400), factor: 2 },
        };
        let partitions = 1 + (dice.next() % 4) as i32;
        // Some topics take no full batch.
        let limit = if dice.next().is_multiple_of(4) { 61 + FULL * RECORD_BYTES / 2 } else { 1 << 20 };
        let version2 = dice.next().is_multiple_of(2);
        let transactions = match bug {
            Some(Bug::Unverified) => Transactions::Unverified,
            _ if version2 => Transactions::Version2,
            _ => Transactions::Version1,
        };
        let user = transactional.then(|| User::new(seed, transactions == Transactions::Version2));
        let mut sim = Self {
            now: Now::ZERO,
            broker: Broker::new(seed, partitions, limit, transactions),
            partitions,
            idempotent,
            acks,
            user,
            ways: BTreeMap::new(),
            contents: BTreeMap::new(),
            divided: BTreeSet::new(),
            done: BTreeMap::new(),
            figures: Figures::default(),
            flushed: 0,
            problem: None,
            network: Network::default(),
            dice,
            bug,
            tracing,
            events: BTreeMap::new(),
            next_event: 0,
            cluster: Cluster::default(),
            metadata_wanted: false,
            identity: None,
            open: BTreeMap::new(),
            next_batch: 0,
            next_record: 0,
            calm: false,
            machine: ProduceMachine::new(config, seed),
        };
        match sim.user {
            Some(_) => sim.initialize(),
            None => sim.at(ms(1), Event::Record),
        }
        sim.at(ms(30), Event::Trouble);
        sim.want_metadata();
        sim
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.dice.next() % limit.max(1)
    }

    pub(crate) fn at(&mut self, after: Duration, event: Event) {
        self.next_event += 1;
        self.events.insert((self.now + after, self.next_event), event);
    }

    pub(crate) fn trace(&self, text: impl FnOnce() -> String) {
        if self.tracing {
            println!("{:>9.3} {}", self.now.as_secs_f64(), text());
        }
    }

    pub(crate) fn run(&mut self) {
        for _ in 0..STEPS {
            self.settle();
            let event = self.events.first_key_value().map(|((at, _), _)| *at);
            let core = self.broker.core.next_due_ms().map(|due| ms((due - wall_ms(Now::ZERO)).max(0) as u64));
            let session = self.user.as_ref().and_then(User::wake_at);
            let Some(next) = [event, self.machine.wake_at(), core, session].into_iter().flatten().min() else { return };
            if next > END || (self.calm && self.machine.unfinished() == 0 && self.is_idle()) {
                return;
            }
            self.now = self.now.max(next);
            self.broker.core.tick(wall_ms(self.now));
            self.machine.handle(self.now, Input::Tick);
            self.session(None);
            while let Some(entry) = self.events.first_entry()
                && entry.key().0 <= self.now
            {
                let event = entry.remove();
                self.event(event);
            }
        }
        self.problem = Some((Rule::Ends, format!("{STEPS} steps, and no end")));
    }

    /// Whatever needs no time.
    fn settle(&mut self) {
        loop {
            let replies: Vec<(ConnectionId, Action)> =
                self.broker.core.drain().map(|reply| (reply.connection, reply.action)).collect();
            let outputs: Vec<Output> = std::iter::from_fn(|| self.machine.poll()).collect();
            let said = self.user.as_mut().map(User::drain).unwrap_or_default();
            if replies.is_empty() && outputs.is_empty() && said.is_empty() {
                return;
            }
            replies.into_iter().for_each(|(connection, action)| self.reply(connection, action));
            outputs.into_iter().for_each(|output| self.output(output));
            said.into_iter().for_each(|output| self.said(output));
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Record => self.record(),
            Event::Trouble => self.trouble(),
            Event::Packed(batch) => {
                let packed = self.packed(batch);
                self.machine.handle(self.now, Input::Packed(packed));
            }
            Event::Split(batch) => self.split(batch),
            Event::Metadata(cluster) => {
                self.metadata_wanted = false;
                self.cluster = *cluster;
                self.tell_cluster();
            }
            Event::Identity => {
                let next = self.identity.map_or(0, |identity| identity.epoch + 1);
                let identity = Identity { producer_id: 1000, epoch: next };
                self.identity = Some(identity);
                self.machine.handle(self.now, Input::Identity(identity));
            }
            Event::Arrive(link, request, frame) => self.arrive(link, request, frame),
            Event::Answer(link, request, frame) => self.answer(link, request, &frame),
            Event::Gone(link) => self.lose(link, "the connection broke"),
            Event::Written(link, request) => self.written(link, request),
            Event::Unreachable(Asked::Produce(request)) => {
                let outcome = Err(RequestFailure::NotSent("nobody listens".to_owned()));
                self.machine.handle(self.now, Input::Answer { request, outcome });
            }
            Event::Unreachable(Asked::Call(call)) => self.call_lost(call, "nobody listens"),
            Event::TimedOut(link, asked) => {
                if self.network.links[&link].waiting.contains(&asked) {
                    self.lose(link, "no answer in time");
                }
            }
            Event::End => self.end(),
            Event::Begin => self.begin(),
        }
    }

    fn tell_cluster(&mut self) {
        let cluster = Arc::new(self.cluster.clone());
        self.machine.cluster_changed(self.now, &cluster);
    }

    /// A record for a partition, into its open batch.
    fn record(&mut self) {
        if self.now < TROUBLE {
            let pause = self.below(12);
            self.at(ms(pause), Event::Record);
        }
        if self.user.as_ref().is_some_and(|user| !user.may_send()) {
            return;
        }
        let partition = self.below(self.partitions as u64) as i32;
        let batch = match self.open.get(&partition) {
            Some(&batch) => batch,
            None => {
                let batch = self.next_batch;
                self.next_batch += 1;
                self.open.insert(partition, batch);
                self.contents.insert(batch, (partition, Vec::new()));
                let place = TopicPartition::new(TOPIC, partition);
                self.machine.handle(self.now, Input::Opened { partition: place, batch, since: self.now });
                batch
            }
        };
        self.next_record += 1;
        if let Some(user) = &mut self.user {
            user.sent(self.next_record);
        }
        let Some((_, records)) = self.contents.get_mut(&batch) else { return };
        records.push(self.next_record);
        if records.len() >= FULL {
            self.open.remove(&partition);
            self.machine.handle(self.now, Input::Full { batch });
            self.pack(batch);
        }
        if self.below(40) == 0 && self.user.is_none() {
            self.figures.flushes += 1;
            self.machine.handle(self.now, Input::Flush { ticket: self.next_record });
        }
    }

    fn pack(&mut self, batch: BatchId) {
        let takes = self.below(4);
        self.at(ms(takes), Event::Packed(batch));
    }

    fn packed(&self, batch: BatchId) -> Batch {
        let records = self.contents[&batch].1.len();
        Batch { id: batch, records: records as u32, bytes: 61 + records * RECORD_BYTES }
    }

    fn split(&mut self, batch: BatchId) {
        // It was given up meanwhile. Where that is not known yet, its parts have an end each.
        if self.done.contains_key(&batch) {
            return;
        }
        let (partition, records) = self.contents[&batch].clone();
        let parts = records.chunks(records.len().div_ceil(2)).map(|records| {
            self.next_batch += 1;
            self.contents.insert(self.next_batch - 1, (partition, records.to_vec()));
            self.packed(self.next_batch - 1)
        });
        let parts = parts.collect();
        self.divided.insert(batch);
        self.figures.splits += 1;
        self.machine.handle(self.now, Input::SplitInto { batch, parts });
    }

    fn output(&mut self, output: Output) {
        self.trace(|| format!("{output:?}"));
        match output {
            Output::Close { batch } => {
                self.open.retain(|_, open| *open != batch);
                self.pack(batch);
            }
            Output::Send { request, broker, batches } => self.send(request, broker, &batches),
            Output::Split { batch } => self.at(ms(1), Event::Split(batch)),
            Output::Done { batch, outcome } => {
                self.open.retain(|_, open| *open != batch);
                if self.bug == Some(Bug::Untold) && batch % 50 == 7 {
                    return;
                }
                if self.done.insert(batch, outcome).is_some() {
                    self.problem = Some((Rule::Ends, format!("batch {batch} has two ends")));
                }
            }
            Output::RefreshMetadata => self.want_metadata(),
            Output::LeaderHint { partition, leader, leader_epoch } => {
                if self.cluster.hint_leader(&partition, leader, leader_epoch) {
                    self.tell_cluster();
                }
            }
            Output::NewIdentity { old, .. } if self.user.is_some() => {
                self.session(Some(transaction::Input::NeedIdentity { old }));
            }
            Output::NewIdentity { old, .. } => {
                assert_eq!(old, self.identity);
                self.figures.epochs += usize::from(old.is_some());
                let takes = 1 + self.below(60);
                self.at(ms(takes), Event::Identity);
            }
            Output::Flushed { .. } if self.user.is_some() => self.flushed(),
            Output::Flushed { .. } => self.flushed += 1,
            Output::JoinTransaction(partition) => self.session(Some(transaction::Input::Join(partition))),
            Output::TransactionFailed(_) if self.bug == Some(Bug::FailureUnsaid) => {}
            Output::TransactionFailed(fault) => self.session(Some(transaction::Input::Failed(fault))),
        }
    }

    /// What metadata says is as old as its answer takes.
    fn want_metadata(&mut self) {
        if std::mem::replace(&mut self.metadata_wanted, true) {
            return;
        }
        let mut cluster = self.cluster.clone();
        let mut others = Vec::new();
        self.broker.metadata(self.now, &mut cluster, &mut others);
        others.into_iter().for_each(|(connection, action)| self.reply(connection, action));
        let takes = 1 + self.below(40);
        self.at(ms(takes), Event::Metadata(Box::new(cluster)));
    }

    fn send(&mut self, request: RequestId, node: i32, batches: &[Sending]) {
        let asked = Asked::Produce(request);
        let Some(link) = self.link(node, Lane::Records) else { return self.at(ms(5), Event::Unreachable(asked)) };
        let mut contents: Vec<(Sending, Vec<u64>)> =
            batches.iter().map(|sending| (sending.clone(), self.contents[&sending.batch].1.clone())).collect();
        for (sending, _) in &mut contents {
            match self.bug {
                Some(Bug::Unnumbered) => sending.sequence = None,
                Some(Bug::Renumbered) => {
                    sending.sequence =
                        sending.sequence.map(|(identity, _)| (Identity { producer_id: request as i64, ..identity }, 0));
                }
                _ => {}
            }
        }
        for record in contents.iter().flat_map(|(_, records)| records) {
            self.ways.entry(*record).or_default().push(link);
        }
        let transactional = self.user.is_some() && self.bug != Some(Bug::NotTransactional);
        let frame = encode(self.acks, &contents, 1, self.user.as_ref().map(User::place).filter(|_| transactional));
        self.dispatch(link, asked, frame);
        if self.acks == Acks::None {
            let takes = self.below(4);
            self.at(ms(takes), Event::Written(link, request));
        }
    }

    /// The connection to a node that runs.
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
        let asked = Asked::Call(call);
        match self.link(node, Lane::Calls) {
            Some(link) => self.dispatch(link, asked, frame),
            None => self.at(ms(5), Event::Unreachable(asked)),
        }
    }

    fn dispatch(&mut self, link: Link, asked: Asked, frame: Bytes) {
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

    /// All that is ever heard of a request without acks.
    fn written(&mut self, link: Link, request: RequestId) {
        let Some(connection) = self.network.links.get_mut(&link) else { return };
        let before = connection.waiting.len();
        connection.waiting.retain(|asked| *asked != Asked::Produce(request));
        if connection.waiting.len() < before {
            self.machine.handle(self.now, Input::Answer { request, outcome: Ok(Vec::new()) });
        }
    }

    fn arrive(&mut self, link: Link, asked: Asked, frame: Bytes) {
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

    fn reply(&mut self, broker: ConnectionId, action: Action) {
        let Some(link) = self.network.of(broker) else { return };
        let takes = self.below(15);
        let Some(connection) = self.network.links.get_mut(&link) else { return };
        connection.back = connection.back.max(self.now + ms(takes));
        let after = connection.back - self.now;
        match action {
            Action::Send(pieces) => {
                connection.busy = false;
                let asked = connection.arrived.pop_front();
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

    fn answer(&mut self, link: Link, asked: Asked, frame: &[u8]) {
        let Some(connection) = self.network.links.get_mut(&link) else { return };
        if !connection.client_open || connection.waiting.front() != Some(&asked) {
            return;
        }
        connection.waiting.pop_front();
        let request = match asked {
            Asked::Produce(request) => request,
            Asked::Call(call) => return self.call_answered(call, frame),
        };
        let answers = decode(&frame[4..]);
        self.trace(|| format!("answer to {request}: {answers:?}"));
        self.machine.handle(self.now, Input::Answer { request, outcome: Ok(answers) });
    }

    /// The client gives a connection up; what is on its way there may still arrive.
    fn lose(&mut self, link: Link, reason: &str) {
        // Nothing else says that a broker does not lead any more.
        if self.acks == Acks::None {
            self.want_metadata();
        }
        for asked in self.network.give_up(link) {
            let request = match asked {
                Asked::Produce(request) => request,
                Asked::Call(call) => {
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

    fn pretend(&self) -> Vec<monedula_engine::produce::PartitionAnswer> {
        let answer = |partition| monedula_engine::produce::PartitionAnswer {
            partition: TopicPartition::new(TOPIC, partition),
            code: monedula_protocol::error_code::ErrorCode::None,
            message: None,
            base_offset: -1,
            log_append_time_ms: -1,
            log_start_offset: -1,
            record_errors: Vec::new(),
            leader: None,
        };
        (0..self.partitions).map(answer).collect()
    }

    fn trouble(&mut self) {
        if self.now >= TROUBLE {
            return self.calm_down();
        }
        let pause = 20 + self.below(150);
        self.at(ms(pause), Event::Trouble);
        let node = 1 + self.below(u64::from(NODES)) as i32;
        let partition = self.below(self.partitions as u64) as i32;
        let lane = if self.user.is_some() && self.below(3) == 0 { Lane::Calls } else { Lane::Records };
        let kinds = if self.user.is_some() { 9 } else { 7 };
        match self.below(kinds) {
            0 | 1 => {
                if let Some(link) = self.network.to(node, lane) {
                    self.trace(|| format!("the connection to {node} breaks"));
                    self.lose(link, "the connection broke");
                }
            }
            7 | 8 => self.move_coordinator(NodeId(node)),
            2 => {
                let stalls = self.below(2) == 0;
                let late = ms(300 + self.below(LATEST_MS));
                let now = self.now;
                let Some(link) = self.network.to(node, lane).and_then(|link| self.network.links.get_mut(&link)) else {
                    return;
                };
                if stalls {
                    link.there = link.there.max(now + late);
                    self.trace(|| format!("what is sent to {node} gets there {late:?} late"));
                } else {
                    link.dead = true;
                    self.trace(|| format!("nothing gets through to {node}"));
                }
            }
            3 | 4 => {
                let command = Command::MoveLeader { topic: TOPIC.to_owned(), partition, node: NodeId(node) };
                let moved = self.broker.command(self.now, command);
                self.trace(|| format!("{partition} moves to {node}: {moved}"));
                self.figures.moves += usize::from(moved);
            }
            5 if self.broker.alive.len() > 1 => {
                self.trace(|| format!("{node} stops"));
                self.broker.stop(self.now, node);
            }
            _ => {
                if !self.broker.alive.contains(&node) {
                    self.trace(|| format!("{node} starts"));
                    self.figures.restarts += 1;
                    self.broker.start(self.now, node);
                }
            }
        }
    }

    /// Nothing goes wrong any more, and what is open is flushed.
    fn calm_down(&mut self) {
        self.calm = true;
        for node in 1..=i32::from(NODES) {
            self.broker.start(self.now, node);
        }
        if self.user.is_none() {
            self.figures.flushes += 1;
            self.machine.handle(self.now, Input::Flush { ticket: 0 });
        }
    }
}

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
