//! The world of a run: clock, events, machine, brokers and user. The seed decides what happens.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use monedula_broker::core::{Action, ConnectionId};
use monedula_engine::Now;
use monedula_engine::backoff::{Backoff, Jitter};
use monedula_engine::cluster::Cluster;
use monedula_engine::produce::{
    Acknowledged, Acks, BatchId, Input, Output, ProduceConfig, ProduceMachine, ProducerIdentity, QueuedId,
    RequestFailure, RequestId, SendFault, SendQueues,
};

use crate::broker::{Broker, Transactions, wall_ms};
use crate::judge::{Bug, Figures, Rule};
use crate::network::{Link, Network, PendingRequest};
use crate::user::User;

/// How long records are sent, and faults occur.
pub(crate) const TROUBLE: Duration = Duration::from_secs(4);
/// When all work must have ended.
const END: Duration = Duration::from_secs(60);
/// Most steps of a run; more means a busy loop.
const STEPS: usize = 60_000;
/// Most records in a batch.
pub(crate) const FULL: usize = 8;
pub(crate) const RECORD_BYTES: usize = 20;

#[derive(Debug)]
pub(crate) enum Event {
    /// The user sends a record.
    Record,
    /// A fault occurs.
    Trouble,
    Packed(BatchId),
    Split(BatchId),
    Metadata(Box<Cluster>),
    Identity,
    /// A request reaches the broker.
    Arrive(Link, PendingRequest, Bytes),
    /// An answer reaches the client.
    Answer(Link, PendingRequest, Vec<u8>),
    /// A request with acks=0 has been written to the connection.
    Written(Link, RequestId),
    /// The client notices that a connection is closed.
    Gone(Link),
    /// A connection could not be opened.
    Unreachable(PendingRequest),
    TimedOut(Link, PendingRequest),
    /// The queue of waiting records is served: its first record waits for room, or for its partition to be chosen.
    ServeWaiting,
    /// The first waiting record has room and a partition.
    SendWaiting(QueuedId),
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
    /// The user of transactions.
    pub(crate) user: Option<User>,
    /// The connections on which each record was sent.
    pub(crate) ways: BTreeMap<u64, Vec<Link>>,
    /// Partition and records of each batch.
    pub(crate) contents: BTreeMap<BatchId, (i32, Vec<u64>)>,
    /// Since when each batch waits.
    pub(crate) opened: BTreeMap<BatchId, Now>,
    pub(crate) delivery_timeout: Duration,
    pub(crate) divided: BTreeSet<BatchId>,
    pub(crate) done: BTreeMap<BatchId, Result<Acknowledged, SendFault>>,
    pub(crate) figures: Figures,
    pub(crate) flushed: usize,
    pub(crate) problem: Option<(Rule, String)>,
    pub(crate) network: Network,
    dice: Jitter,
    pub(crate) bug: Option<Bug>,
    tracing: bool,
    events: BTreeMap<(Now, u64), Event>,
    next_event: u64,
    pub(crate) cluster: Cluster,
    pub(crate) metadata_wanted: bool,
    pub(crate) identity: Option<ProducerIdentity>,
    pub(crate) open: BTreeMap<i32, BatchId>,
    /// Records that wait before they are in a batch, and the partition that each is for.
    pub(crate) waiting: SendQueues<(u64, i32)>,
    pub(crate) next_batch: BatchId,
    pub(crate) next_record: u64,
    pub(crate) calm: bool,
}

impl Sim {
    pub(crate) fn new(seed: u64, bug: Option<Bug>, tracing: bool) -> Self {
        let mut dice = Jitter::new(seed);
        // Neighbouring seeds begin with similar draws.
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
            propagation: ms(1000),
        };
        let partitions = 1 + (dice.next() % 4) as i32;
        // Some topics do not accept a full batch.
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
            opened: BTreeMap::new(),
            delivery_timeout: config.delivery_timeout,
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
            waiting: SendQueues::default(),
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
            let done = self.machine.unfinished() == 0
                && self.waiting.is_empty()
                && self.is_idle()
                && self.network.is_quiet(self.now);
            if next > END || (self.calm && done) {
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

    /// Carries out everything that takes no time.
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
                let identity = ProducerIdentity { producer_id: 1000, epoch: next };
                self.identity = Some(identity);
                self.machine.handle(self.now, Input::Identity(identity));
            }
            Event::Arrive(link, request, frame) => self.arrive(link, request, frame),
            Event::Answer(link, request, frame) => self.answer(link, request, &frame),
            Event::Gone(link) => self.lose(link, "the connection broke"),
            Event::Written(link, request) => self.written(link, request),
            Event::Unreachable(PendingRequest::Produce(request)) => {
                let outcome = Err(RequestFailure::NotSent("nobody listens".to_owned()));
                self.machine.handle(self.now, Input::Answer { request, outcome });
            }
            Event::Unreachable(PendingRequest::Call(call)) => self.call_lost(call, "nobody listens"),
            Event::TimedOut(link, asked) => {
                if self.network.links[&link].waiting.contains(&asked) {
                    self.lose(link, "no answer in time");
                }
            }
            Event::ServeWaiting => self.serve_waiting(),
            Event::SendWaiting(id) => self.send_waiting(id),
            Event::End => self.end(),
            Event::Begin => self.begin(),
        }
    }
}

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
