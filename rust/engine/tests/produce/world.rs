//! The world of a delivery machine: virtual time, and brokers with logs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use monedula_engine::backoff::Backoff;
use monedula_engine::cluster::{Broker, Cluster, Partition};
use monedula_engine::produce::{
    Acknowledged, Acks, Batch, BatchId, Input, Output, PartitionAnswer, ProduceConfig, ProduceMachine,
    ProducerIdentity, RequestBatch, RequestFailure, RequestId, SendFault,
};
use monedula_engine::{Now, TopicPartition};
use monedula_protocol::error_code::ErrorCode;

pub(crate) const TOPIC_ID: &str = "AAAAAAAAAAAAAAAAAAAAAQ";
pub(crate) const LINGER: Duration = Duration::from_millis(5);
/// How long a topic may be unknown.
pub(crate) const PROPAGATION: Duration = Duration::from_secs(30);
pub(crate) const DELIVERY_TIMEOUT: Duration = Duration::from_secs(120);
/// Longer than any wait between two attempts.
pub(crate) const BACKOFF: Duration = Duration::from_millis(1300);
pub(crate) const FIRST: ProducerIdentity = ProducerIdentity { producer_id: 7, epoch: 0 };

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn p(index: i32) -> TopicPartition {
    TopicPartition::new("t", index)
}

pub(crate) fn idempotent() -> ProduceConfig {
    ProduceConfig {
        acks: Acks::All,
        idempotent: true,
        transactional: false,
        max_in_flight: 5,
        linger: LINGER,
        max_request_bytes: 1000,
        delivery_timeout: DELIVERY_TIMEOUT,
        retries: u32::MAX,
        backoff: Backoff { initial: ms(100), max: ms(1000), factor: 2 },
        propagation: PROPAGATION,
    }
}

pub(crate) fn plain(max_in_flight: usize) -> ProduceConfig {
    ProduceConfig { idempotent: false, max_in_flight, ..idempotent() }
}

pub(crate) fn transactional() -> ProduceConfig {
    ProduceConfig { transactional: true, ..idempotent() }
}

/// A leader's state of a producer.
#[derive(Clone, Debug, Default)]
struct Producer {
    epoch: i16,
    next: i64,
    /// The last five batches: first sequence number, records, offset.
    recent: Vec<(i32, u32, i64)>,
}

/// A partition's log and its leader.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    pub(crate) leader: Option<i32>,
    pub(crate) epoch: i32,
    /// Ids of batches, in the order of the log.
    pub(crate) batches: Vec<BatchId>,
    pub(crate) end: i64,
    producers: BTreeMap<i64, Producer>,
}

impl Log {
    /// A leader's verdict on a batch.
    pub(crate) fn append(&mut self, sending: &RequestBatch, records: u32) -> Result<i64, ErrorCode> {
        let Some((identity, sequence)) = sending.sequence else { return Ok(self.write(sending.batch, records)) };
        let known = self.producers.get(&identity.producer_id).cloned();
        let mut producer = match known {
            None => Producer { epoch: identity.epoch, next: i64::from(sequence), recent: Vec::new() },
            Some(known) if known.epoch > identity.epoch => return Err(ErrorCode::InvalidProducerEpoch),
            Some(known) if known.epoch == identity.epoch => known,
            Some(_) => Producer { epoch: identity.epoch, ..Producer::default() },
        };
        let twice = |&&(first, count, _): &&(i32, u32, i64)| first == sequence && count == records;
        if let Some(&(_, _, offset)) = producer.recent.iter().find(twice) {
            return Ok(offset);
        }
        if producer.next & i64::from(i32::MAX) != i64::from(sequence) {
            return Err(ErrorCode::OutOfOrderSequenceNumber);
        }
        let offset = self.write(sending.batch, records);
        producer.next += i64::from(records);
        producer.recent.push((sequence, records, offset));
        if producer.recent.len() > 5 {
            producer.recent.remove(0);
        }
        self.producers.insert(identity.producer_id, producer);
        Ok(offset)
    }

    fn write(&mut self, batch: BatchId, records: u32) -> i64 {
        self.batches.push(batch);
        self.end += i64::from(records);
        self.end - i64::from(records)
    }

    /// Keeps of the producers what a clean restart keeps: a snapshot has only the last batch of each.
    pub(crate) fn restart(&mut self) {
        for producer in self.producers.values_mut() {
            let old = producer.recent.len().saturating_sub(1);
            producer.recent.drain(..old);
        }
    }

    pub(crate) fn forget_producers(&mut self) {
        self.producers.clear();
    }
}

/// A request that was sent.
#[derive(Clone, Debug)]
pub(crate) struct SentRequest {
    pub(crate) id: RequestId,
    pub(crate) broker: i32,
    pub(crate) batches: Vec<RequestBatch>,
}

pub(crate) struct World {
    pub(crate) machine: ProduceMachine,
    pub(crate) now: Now,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) logs: BTreeMap<TopicPartition, Log>,
    /// Records and bytes of batches.
    pub(crate) sizes: BTreeMap<BatchId, (u32, usize)>,
    /// Requests without an answer, in the order in which they were sent.
    pub(crate) requests: Vec<SentRequest>,
    pub(crate) done: BTreeMap<BatchId, Result<Acknowledged, SendFault>>,
    pub(crate) closed: Vec<BatchId>,
    pub(crate) splits: Vec<BatchId>,
    pub(crate) joins: Vec<TopicPartition>,
    pub(crate) flushed: Vec<u64>,
    pub(crate) failed: Vec<SendFault>,
    /// Requested identities that have not arrived yet.
    pub(crate) asked: Vec<Option<ProducerIdentity>>,
    pub(crate) refreshes: usize,
    pub(crate) hints: Vec<(TopicPartition, i32, i32)>,
    /// Brokers refuse larger batches of several records as too large.
    pub(crate) largest: usize,
    /// Whether requests of the machine (packing, identities) are answered at once.
    pub(crate) prompt: bool,
    identity: Option<ProducerIdentity>,
    next_batch: BatchId,
    config: ProduceConfig,
}

impl World {
    /// Partition i is led by `leaders[i]`.
    pub(crate) fn new(config: ProduceConfig, leaders: &[i32]) -> Self {
        let mut world = Self {
            machine: ProduceMachine::new(config.clone(), 1),
            now: Now::ZERO,
            cluster: Arc::default(),
            logs: BTreeMap::new(),
            sizes: BTreeMap::new(),
            requests: Vec::new(),
            done: BTreeMap::new(),
            closed: Vec::new(),
            splits: Vec::new(),
            joins: Vec::new(),
            flushed: Vec::new(),
            failed: Vec::new(),
            asked: Vec::new(),
            refreshes: 0,
            hints: Vec::new(),
            largest: usize::MAX,
            prompt: true,
            identity: None,
            next_batch: 0,
            config,
        };
        for (index, &leader) in (0..).zip(leaders) {
            world.logs.insert(p(index), Log { leader: Some(leader), ..Log::default() });
        }
        world.metadata();
        world
    }

    /// Gives the machine the leaders of the partitions.
    pub(crate) fn metadata(&mut self) {
        let mut cluster = Cluster::default();
        for id in 1..=3 {
            cluster.brokers.insert(id, Broker { host: "h".to_owned(), port: 1, rack: None });
        }
        for (partition, log) in &self.logs {
            let known = Partition { leader: log.leader, leader_epoch: log.epoch };
            cluster.add_leader(partition, TOPIC_ID, known).unwrap();
        }
        self.take(cluster);
    }

    pub(crate) fn take(&mut self, cluster: Cluster) {
        self.cluster = Arc::new(cluster);
        self.machine.handle(self.now, Input::MetadataUpdate { cluster: self.cluster.clone() });
        self.drain();
    }

    /// Moves a leader; the machine does not know it yet.
    pub(crate) fn move_leader(&mut self, index: i32, leader: Option<i32>) {
        let log = self.logs.get_mut(&p(index)).unwrap();
        log.leader = leader;
        log.epoch += 1;
    }

    pub(crate) fn input(&mut self, input: Input) {
        self.machine.handle(self.now, input);
        self.drain();
    }

    pub(crate) fn pass(&mut self, by: Duration) {
        let until = self.now + by;
        while let Some(at) = self.machine.wake_at().filter(|&at| at <= until) {
            assert!(at > self.now, "a timer of {at:?} is still there at {:?}", self.now);
            self.now = at;
            self.input(Input::Tick);
        }
        self.now = until;
        self.input(Input::Tick);
    }

    /// Opens a batch, which will have one record and 100 bytes.
    pub(crate) fn open(&mut self, index: i32) -> BatchId {
        self.open_sized(index, 1, 100)
    }

    pub(crate) fn open_sized(&mut self, index: i32, records: u32, bytes: usize) -> BatchId {
        self.open_since(index, (records, bytes), self.now)
    }

    /// Opens a batch whose first record was sent at that time.
    pub(crate) fn open_since(&mut self, index: i32, size: (u32, usize), since: Now) -> BatchId {
        let batch = self.next_batch;
        self.next_batch += 1;
        self.sizes.insert(batch, size);
        self.input(Input::Opened { partition: p(index), batch, since });
        batch
    }

    /// Opens a batch that is full at once.
    pub(crate) fn fill(&mut self, index: i32) -> BatchId {
        self.fill_sized(index, 1, 100)
    }

    pub(crate) fn fill_sized(&mut self, index: i32, records: u32, bytes: usize) -> BatchId {
        let batch = self.next_batch;
        self.next_batch += 1;
        self.sizes.insert(batch, (records, bytes));
        self.machine.handle(self.now, Input::Opened { partition: p(index), batch, since: self.now });
        self.machine.handle(self.now, Input::Full { batch });
        self.input(Input::Packed(Batch { id: batch, records, bytes }));
        batch
    }

    pub(crate) fn pack(&mut self, batch: BatchId) {
        let (records, bytes) = self.sizes[&batch];
        self.input(Input::Packed(Batch { id: batch, records, bytes }));
    }

    /// A part of a batch that was split.
    pub(crate) fn part(&mut self, records: u32, bytes: usize) -> Batch {
        let id = self.next_batch;
        self.next_batch += 1;
        self.sizes.insert(id, (records, bytes));
        Batch { id, records, bytes }
    }

    /// The broker carries out its oldest request, and answers.
    pub(crate) fn answer(&mut self, broker: i32) {
        let sent = self.take_request(broker);
        let answers = self.carry_out(&sent);
        self.input(Input::Answer { request: sent.id, outcome: Ok(answers) });
    }

    pub(crate) fn answer_all(&mut self) {
        while let Some(sent) = self.requests.first() {
            let broker = sent.broker;
            self.answer(broker);
        }
    }

    /// The oldest request of the broker is refused with an error, for all its batches.
    pub(crate) fn refuse(&mut self, broker: i32, code: ErrorCode) {
        let sent = self.take_request(broker);
        let answers = sent.batches.iter().map(|sending| refusal(sending, code)).collect();
        self.input(Input::Answer { request: sent.id, outcome: Ok(answers) });
    }

    /// The connection to the broker breaks: its requests may have been carried out, and their answers are lost.
    pub(crate) fn break_off(&mut self, broker: i32, carried_out: usize) {
        let (lost, kept): (Vec<SentRequest>, Vec<SentRequest>) =
            self.requests.drain(..).partition(|sent| sent.broker == broker);
        self.requests = kept;
        for sent in lost.iter().take(carried_out) {
            self.carry_out(sent);
        }
        for sent in lost {
            let outcome = Err(RequestFailure::Lost("the connection broke".to_owned()));
            self.input(Input::Answer { request: sent.id, outcome });
        }
    }

    pub(crate) fn take_request(&mut self, broker: i32) -> SentRequest {
        let place = self.requests.iter().position(|sent| sent.broker == broker);
        self.requests.remove(place.unwrap_or_else(|| panic!("no request to broker {broker}")))
    }

    pub(crate) fn carry_out(&mut self, sent: &SentRequest) -> Vec<PartitionAnswer> {
        let answer = |sending: &RequestBatch| {
            let (records, bytes) = self.sizes[&sending.batch];
            let log = self.logs.get_mut(&sending.partition).unwrap();
            if log.leader != Some(sent.broker) {
                return refusal(sending, ErrorCode::NotLeaderOrFollower);
            }
            if bytes > self.largest && records > 1 {
                return refusal(sending, ErrorCode::MessageTooLarge);
            }
            match log.append(sending, records) {
                Ok(base_offset) => PartitionAnswer { base_offset, ..refusal(sending, ErrorCode::None) },
                Err(code) => refusal(sending, code),
            }
        };
        sent.batches.iter().map(answer).collect()
    }

    /// Ids of the batches in requests to a broker.
    pub(crate) fn at(&self, broker: i32) -> Vec<Vec<BatchId>> {
        let requests = self.requests.iter().filter(|sent| sent.broker == broker);
        requests.map(|sent| sent.batches.iter().map(|sending| sending.batch).collect()).collect()
    }

    pub(crate) fn log(&self, index: i32) -> &[BatchId] {
        &self.logs[&p(index)].batches
    }

    pub(crate) fn give_identity(&mut self) {
        let identity = match self.identity {
            Some(old) => ProducerIdentity { epoch: old.epoch + 1, ..old },
            None => FIRST,
        };
        self.identity = Some(identity);
        self.input(Input::Identity(identity));
    }

    pub(crate) fn drain(&mut self) {
        while let Some(output) = self.machine.poll() {
            self.output(output);
        }
    }

    fn output(&mut self, output: Output) {
        match output {
            Output::Close { batch } => {
                self.closed.push(batch);
                if self.prompt {
                    let (records, bytes) = self.sizes[&batch];
                    self.machine.handle(self.now, Input::Packed(Batch { id: batch, records, bytes }));
                }
            }
            Output::Send { request, broker, batches } => self.sent(SentRequest { id: request, broker, batches }),
            Output::Split { batch } => self.splits.push(batch),
            Output::Done { batch, outcome } => {
                let before = self.done.insert(batch, outcome);
                assert!(before.is_none(), "batch {batch} is done twice");
            }
            Output::RefreshMetadata => self.refreshes += 1,
            Output::LeaderHint { partition, leader, leader_epoch } => {
                self.hints.push((partition, leader, leader_epoch))
            }
            Output::NewIdentity { old, .. } => {
                assert_eq!(old, self.identity);
                match self.prompt {
                    true => self.give_identity(),
                    false => self.asked.push(old),
                }
            }
            Output::AddToTransaction(partition) => {
                if self.prompt {
                    self.machine.handle(self.now, Input::AddedToTransaction(partition.clone()));
                }
                self.joins.push(partition);
            }
            Output::TransactionFailed(fault) => self.failed.push(fault),
            Output::Flushed { ticket } => self.flushed.push(ticket),
        }
    }

    /// Checks what holds for every request.
    fn sent(&mut self, sent: SentRequest) {
        assert!(!sent.batches.is_empty());
        let partitions: BTreeSet<_> = sent.batches.iter().map(|sending| &sending.partition).collect();
        assert_eq!(partitions.len(), sent.batches.len(), "two batches of a partition: {sent:?}");
        let bytes: usize = sent.batches.iter().map(|sending| self.sizes[&sending.batch].1).sum();
        assert!(sent.batches.len() == 1 || bytes <= self.config.max_request_bytes, "{bytes} bytes: {sent:?}");
        for sending in &sent.batches {
            assert!(!self.done.contains_key(&sending.batch), "{} is done and sent again", sending.batch);
            let flying = |other: &SentRequest| other.batches.iter().any(|flying| flying.batch == sending.batch);
            assert!(!self.requests.iter().any(flying), "{} is sent twice at once", sending.batch);
            assert_eq!(sending.sequence.is_some(), self.config.idempotent);
        }
        let there = self.requests.iter().filter(|other| other.broker == sent.broker).count();
        assert!(there < self.config.max_in_flight, "too many requests: {sent:?}");
        self.requests.push(sent);
    }
}

pub(crate) fn refusal(sending: &RequestBatch, code: ErrorCode) -> PartitionAnswer {
    PartitionAnswer {
        partition: sending.partition.clone(),
        code,
        message: None,
        base_offset: -1,
        log_append_time_ms: -1,
        log_start_offset: -1,
        record_errors: Vec::new(),
        leader: None,
    }
}
