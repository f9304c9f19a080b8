//! Records on their way into batches, on the caller's thread. It never waits but for locks that are held for moments.
//!
//! Locks, in this order: `topics` (shared by senders, alone for whoever changes what is known of topics), then a
//! partition's open batch or a topic's parked records. What happens to a batch is told the driver under the batch's lock,
//! so that it hears of a partition's batches in their order.

mod rows;
mod topics;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use monedula_columns::{BufferPool, PayloadWriter};
use monedula_engine::TopicPartition;
use monedula_engine::backoff::Jitter;
use monedula_engine::cluster;
use monedula_engine::produce::{BatchId, Load, Partitioner, draw_partition};
use monedula_engine::transaction::Ending;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::records::{BATCH_HEADER_BYTES, NewRecord};
use tokio::sync::{mpsc, oneshot};

use super::config::ProducerConfig;
use super::driver::Order;
use super::gate::Gate;
use super::memory::{Memory, TopicShare};
use super::open_batch::{ClosedBatch, Line, NotTaken, OpenBatch, max_payload_bytes};
use super::parked::Parked;
use super::receipt::Sent;
use super::record::{Record, Refused};
use super::under_way::Unfinished;
use crate::error::ClientError;
use crate::lock::lock;
use crate::topic_name;

pub(super) use rows::Stopped;

pub(crate) struct Accumulator {
    gate: Arc<Gate>,
    pub(crate) memory: Memory,
    pub(crate) pool: BufferPool,
    batch_bytes: usize,
    max_record_bytes: usize,
    partitioner: Partitioner,
    topics: RwLock<HashMap<Arc<str>, Topic>>,
    next_batch: AtomicU64,
    orders: mpsc::UnboundedSender<Order>,
    /// Whether the driver was told that memory is short, since something was given back.
    exhausted: AtomicBool,
    closed: AtomicBool,
    /// Records of batches that take no more of them.
    unfinished: Unfinished,
    started: Instant,
    jitter: Mutex<Jitter>,
}

enum Topic {
    /// Its partitions are not known yet.
    Parked(Mutex<Parked>),
    Known(KnownTopic),
}

/// A topic with its partitions.
pub(crate) struct KnownTopic {
    name: Arc<str>,
    slots: Vec<Slot>,
    /// How many of the slots count: a topic that was made anew may have fewer partitions.
    partitions: u32,
    /// Those that have a leader; what has no key goes to these, if there are any.
    led: Vec<u32>,
    pub(crate) share: TopicShare,
    /// Records for partitions beyond the known ones, which may have been added: they wait until metadata was asked.
    beyond: Mutex<Parked>,
    /// When a batch was opened last, in ms since the producer was made.
    used_ms: AtomicU64,
    /// Where records without a key go (KIP-480), until a batch's worth of bytes went there (KIP-794).
    sticky: AtomicUsize,
    sticky_bytes: AtomicUsize,
}

/// A partition.
struct Slot {
    place: TopicPartition,
    line: Line,
    state: Mutex<SlotState>,
}

struct SlotState {
    open: Option<OpenBatch>,
    /// How large the next batch is likely to be.
    expected_bytes: usize,
}

impl Accumulator {
    pub(crate) fn new(
        config: &ProducerConfig,
        gate: Arc<Gate>,
        orders: mpsc::UnboundedSender<Order>,
        seed: u64,
    ) -> Self {
        Self {
            gate,
            memory: Memory::new(config.buffer_memory),
            pool: BufferPool::new(config.buffer_memory),
            batch_bytes: max_payload_bytes(config.batch_bytes),
            max_record_bytes: config.max_record_bytes,
            partitioner: config.partitioner,
            topics: RwLock::default(),
            next_batch: AtomicU64::new(0),
            orders,
            exhausted: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            unfinished: Unfinished::default(),
            started: Instant::now(),
            jitter: Mutex::new(Jitter::new(seed)),
        }
    }

    pub(crate) fn send(&self, record: &Record<'_>) -> Result<Sent, Refused> {
        let new = NewRecord {
            timestamp_ms: record.timestamp_ms.unwrap_or_else(now_ms),
            key: record.key,
            value: record.value,
            headers: record.headers,
        };
        let topics = self.topics_to_send(record.sent_in)?;
        let sent = match topics.get(record.topic) {
            Some(Topic::Known(topic)) => self.send_known(topic, record.partition, &new, record.since),
            Some(Topic::Parked(parked)) => self.park(parked, record, &new),
            None => {
                drop(topics);
                self.check(record.topic, &new)?;
                topic_name::check(record.topic)?;
                self.add_parked(record.topic);
                return self.send(record);
            }
        };
        match &sent {
            Err(Refused::Full { .. }) => self.is_exhausted(),
            Err(Refused::Error(ClientError::UnknownPartition { partition, .. })) if partition.partition >= 0 => {
                if let Some(Topic::Known(topic)) = topics.get(record.topic) {
                    return self.park_beyond(topic, partition.partition, record.since, &new);
                }
            }
            _ => {}
        }
        sent
    }

    /// Batches that linger have to go: nothing else makes room.
    pub(super) fn is_exhausted(&self) {
        if !self.exhausted.swap(true, Ordering::AcqRel) {
            let _ = self.orders.send(Order::Exhausted);
        }
    }

    #[inline]
    fn send_known(
        &self,
        topic: &KnownTopic,
        partition: Option<i32>,
        record: &NewRecord<'_>,
        since: Option<Instant>,
    ) -> Result<Sent, Refused> {
        let (slot, is_sticky) = match partition {
            Some(partition) => (topic.slot(partition)?, false),
            None => match self.partitioner.partition(record.key, topic.partitions) {
                Some(partition) => (topic.slot(partition)?, false),
                None => (topic.slot(self.sticky(topic))?, true),
            },
        };
        let mut state = slot.state();
        let before = state.open.as_ref().map_or(0, |open| open.writer.len());
        let (index, open) = self.append(topic, slot, &mut state, record, since)?;
        let sent = open.receipt.sent(index, record.timestamp_ms);
        if is_sticky {
            topic.went(open.writer.len().saturating_sub(before));
        }
        Ok(sent)
    }

    /// Appends a record to the partition's open batch; opens a new one where there is none, or it is full.
    #[inline]
    fn append<'s>(
        &self,
        topic: &KnownTopic,
        slot: &Slot,
        state: &'s mut SlotState,
        record: &NewRecord<'_>,
        since: Option<Instant>,
    ) -> Result<(u32, &'s mut OpenBatch), Refused> {
        // One that has waited must not get a batch that has more time left.
        if let Some(since) = since
            && state.open.as_ref().is_some_and(|open| open.since > since)
        {
            self.close_full(slot, state);
        }
        loop {
            let is_new = state.open.is_none();
            if is_new {
                self.check(&topic.name, record)?;
                // All that the record needs, at once. To take a little, be refused more and give back the little looked like
                // room to whoever waited for some, who tried again without an end.
                let capacity =
                    state.expected_bytes.min(self.batch_bytes).max(PayloadWriter::first_record_bytes(record));
                let opened = self.open(topic, slot, capacity, since.unwrap_or_else(Instant::now));
                state.open = Some(opened.map_err(|refused| self.refusal(refused))?);
            }
            let Some(open) = &mut state.open else { continue };
            match open.append(record, self.batch_bytes) {
                Ok(index) => {
                    if is_new {
                        let (place, batch, since) = (slot.place.clone(), open.id, open.since);
                        self.order(Order::Opened { place, batch, since });
                    }
                    // Written so for the borrow checker, which does not see that the loop ends here.
                    return match &mut state.open {
                        Some(open) => Ok((index, open)),
                        None => Err(ClientError::Closed.into()),
                    };
                }
                Err(NotTaken::Closed) => self.close_full(slot, state),
                Err(refused @ (NotTaken::Memory(_) | NotTaken::Lack(_))) => {
                    if is_new {
                        state.open = None;
                    }
                    self.check(&topic.name, record)?;
                    return Err(self.refusal(refused));
                }
            }
        }
    }

    fn open(&self, topic: &KnownTopic, slot: &Slot, capacity: usize, since: Instant) -> Result<OpenBatch, NotTaken> {
        let id = self.next_batch_id();
        topic.used_ms.store(self.now_ms(), Ordering::Relaxed);
        let place = Some((slot.place.clone(), &slot.line));
        OpenBatch::open(id, place, &self.memory, &topic.share, &self.pool, (capacity, since))
    }

    /// Since the producer was made.
    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    fn close_full(&self, slot: &Slot, state: &mut SlotState) {
        if let Some(batch) = state.close(&slot.place, self.batch_bytes, &self.unfinished) {
            self.order(Order::Full(Box::new(batch)));
        }
    }

    fn refusal(&self, refused: NotTaken) -> Refused {
        match refused {
            NotTaken::Closed => Refused::Error(ClientError::ProducerClosed),
            NotTaken::Memory(needed) => Refused::Full { needed },
            NotTaken::Lack(lack) => Refused::Error(lack.into()),
        }
    }

    /// What would be wrong with a record in any batch.
    fn check(&self, topic: &str, record: &NewRecord<'_>) -> Result<(), ClientError> {
        let field = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
        let headers = record.headers.iter().map(|header| header.key.len() + field(header.value) + 10);
        let bytes = BATCH_HEADER_BYTES + 36 + field(record.key) + field(record.value) + headers.sum::<usize>();
        if bytes > self.max_record_bytes {
            let limit = self.max_record_bytes;
            return Err(ClientError::RecordTooLarge { topic: topic.to_owned(), bytes, limit });
        }
        Ok(())
    }

    fn sticky(&self, topic: &KnownTopic) -> i32 {
        let current = topic.sticky.load(Ordering::Relaxed);
        let stays = topic.sticky_bytes.load(Ordering::Relaxed) < self.batch_bytes.max(1);
        if stays && current < topic.partitions as usize {
            return current as i32;
        }
        let loads: Vec<Load> = topic.loads().collect();
        let mut jitter = lock(&self.jitter);
        let next = draw_partition(Some(current), &loads, &mut jitter).unwrap_or(0);
        drop(jitter);
        topic.sticky.store(next, Ordering::Relaxed);
        topic.sticky_bytes.store(0, Ordering::Relaxed);
        next as i32
    }

    fn park(&self, parked: &Mutex<Parked>, record: &Record<'_>, new: &NewRecord<'_>) -> Result<Sent, Refused> {
        self.check(record.topic, new)?;
        let mut parked = lock(parked);
        let place = (record.partition, record.since.unwrap_or_else(Instant::now));
        parked.append(place, new, &self.memory, &self.pool).map_err(|refused| self.refusal(refused))
    }

    /// Keeps a record whose partition may have been added a moment ago, until metadata was asked.
    #[cold]
    fn park_beyond(
        &self,
        topic: &KnownTopic,
        partition: i32,
        since: Option<Instant>,
        record: &NewRecord<'_>,
    ) -> Result<Sent, Refused> {
        self.check(&topic.name, record)?;
        let mut beyond = topic.beyond();
        let is_first = beyond.is_empty();
        let place = (Some(partition), since.unwrap_or_else(Instant::now));
        let sent = beyond.append(place, record, &self.memory, &self.pool).map_err(|refused| self.refusal(refused));
        match &sent {
            Ok(_) if is_first => self.order(Order::Beyond(topic.name.clone())),
            Err(Refused::Full { .. }) => self.is_exhausted(),
            _ => {}
        }
        sent
    }

    fn add_parked(&self, name: &str) {
        let mut topics = self.topics_mut();
        if !topics.contains_key(name) && !self.closed.load(Ordering::Acquire) {
            let name: Arc<str> = name.into();
            topics.insert(name.clone(), Topic::Parked(Mutex::default()));
            self.order(Order::Topic(name));
        }
    }

    /// Makes sure that the driver looks the topic up, and says how many partitions it has if they are known.
    pub(crate) fn partition_count(&self, name: &str) -> Option<i32> {
        match self.topics().get(name) {
            Some(Topic::Known(topic)) => return Some(topic.partitions as i32),
            Some(Topic::Parked(_)) => return None,
            None => {}
        }
        if topic_name::check(name).is_ok() {
            self.add_parked(name);
        }
        None
    }

    /// Takes the open batch out if it is still this one.
    pub(crate) fn take(&self, place: &TopicPartition, batch: BatchId) -> Option<ClosedBatch> {
        let topics = self.topics();
        let Some(Topic::Known(topic)) = topics.get(&place.topic) else { return None };
        let slot = topic.slots.get(usize::try_from(place.partition).ok()?)?;
        let mut state = slot.state();
        if state.open.as_ref().is_none_or(|open| open.id != batch) {
            return None;
        }
        state.close(&slot.place, self.batch_bytes, &self.unfinished)
    }

    /// Nothing is taken any more.
    pub(crate) fn close(&self) {
        // With every sender out of the way: what was taken is known to the driver before what follows.
        let topics = self.topics_mut();
        self.closed.store(true, Ordering::Release);
        drop(topics);
        self.memory.close();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Everything sent so far is to be done, and told to `reply`.
    pub(crate) fn flush(&self, reply: oneshot::Sender<()>) {
        self.order(Order::Flush(reply));
    }

    /// The driver ends: once everything is done, or at once.
    pub(crate) fn stop(&self, at_once: bool) {
        self.order(Order::Stop { at_once });
    }

    /// The driver has sent what lingered.
    pub(crate) fn relieved(&self) {
        self.exhausted.store(false, Ordering::Release);
    }

    pub(crate) fn next_batch_id(&self) -> BatchId {
        self.next_batch.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn order(&self, order: Order) {
        // A driver that is gone has failed everything, and takes nothing more.
        let _ = self.orders.send(order);
    }

    fn topics(&self) -> RwLockReadGuard<'_, HashMap<Arc<str>, Topic>> {
        self.topics.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The topics for whoever sends: while they are held, the producer is not closed, nor the transaction ended.
    fn topics_to_send(
        &self,
        sent_in: Option<u64>,
    ) -> Result<RwLockReadGuard<'_, HashMap<Arc<str>, Topic>>, ClientError> {
        let topics = self.topics();
        if self.closed.load(Ordering::Acquire) {
            return Err(ClientError::ProducerClosed);
        }
        self.gate.check(sent_in)?;
        Ok(topics)
    }

    /// Parked records failed: they belong to the open transaction, since an abort takes back those that it finds.
    pub(crate) fn spoil(&self, error: &ClientError) {
        self.gate.spoil_open(error);
    }

    /// Nothing is taken any more until another transaction begins. What was taken is known to the driver before what follows.
    pub(crate) fn end_transaction(&self, ending: Ending) {
        let _topics = self.topics_mut();
        self.gate.close(ending);
    }

    fn topics_mut(&self) -> RwLockWriteGuard<'_, HashMap<Arc<str>, Topic>> {
        self.topics.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What metadata says of a topic's partitions.
pub(crate) struct Partitions {
    count: u32,
    led: Vec<u32>,
}

impl Partitions {
    /// `None` while nothing is known of them.
    pub(crate) fn of(topic: &cluster::Topic) -> Option<Self> {
        let last = topic.partitions.keys().next_back().filter(|_| topic.error == ErrorCode::None)?;
        let led = topic.partitions.iter().filter(|(_, partition)| partition.leader.is_some());
        Some(Self { count: last.unsigned_abs() + 1, led: led.map(|(index, _)| index.unsigned_abs()).collect() })
    }
}

impl KnownTopic {
    fn new(name: Arc<str>, share: TopicShare) -> Self {
        Self {
            name,
            slots: Vec::new(),
            partitions: 0,
            led: Vec::new(),
            beyond: Mutex::new(Parked::sharing(share.clone())),
            share,
            used_ms: AtomicU64::new(0),
            sticky: AtomicUsize::new(usize::MAX),
            sticky_bytes: AtomicUsize::new(0),
        }
    }

    fn resize(&mut self, partitions: Partitions) {
        for index in self.slots.len()..partitions.count as usize {
            let place = TopicPartition::new(self.name.clone(), index as i32);
            let state = Mutex::new(SlotState { open: None, expected_bytes: 0 });
            self.slots.push(Slot { place, line: Line::default(), state });
        }
        (self.partitions, self.led) = (partitions.count, partitions.led);
        // Where it has no leader, nothing more is to go there.
        let sticky = self.sticky.get_mut();
        if !self.led.is_empty() && !self.led.iter().any(|&index| index as usize == *sticky) {
            *sticky = usize::MAX;
        }
    }

    /// What a partition for records without a key is drawn by (KIP-794).
    fn loads(&self) -> impl Iterator<Item = Load> {
        let mut led = self.led.iter().peekable();
        let slots = self.slots.iter().take(self.partitions as usize).zip(0..);
        slots.map(move |(slot, index)| Load {
            queued: slot.line.length(),
            is_led: led.next_if(|&&led| led == index).is_some(),
        })
    }

    fn slot(&self, partition: i32) -> Result<&Slot, ClientError> {
        let slot = usize::try_from(partition).ok().filter(|&index| index < self.partitions as usize);
        slot.and_then(|index| self.slots.get(index)).ok_or_else(|| ClientError::UnknownPartition {
            partition: TopicPartition::new(self.name.clone(), partition),
            partitions: self.partitions as usize,
        })
    }

    fn beyond(&self) -> MutexGuard<'_, Parked> {
        lock(&self.beyond)
    }

    fn take_beyond(&self) -> Parked {
        std::mem::replace(&mut self.beyond(), Parked::sharing(self.share.clone()))
    }

    fn went(&self, bytes: usize) {
        self.sticky_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Slot {
    fn state(&self) -> MutexGuard<'_, SlotState> {
        lock(&self.state)
    }
}

impl SlotState {
    fn close(&mut self, place: &TopicPartition, max_bytes: usize, closed: &Unfinished) -> Option<ClosedBatch> {
        let open = self.open.take()?;
        self.expected_bytes = (open.writer.len() + open.writer.len() / 8).min(max_bytes);
        Some(open.close(place.clone(), closed))
    }
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}
