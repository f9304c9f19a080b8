//! Records on their way into batches, on the caller's thread, as in Java's RecordAccumulator. It waits for nothing but
//! locks that are held for moments.
//!
//! Locks, in this order: `topics` (read by senders, written by whatever changes what is known of topics), then a
//! partition's open batch or the records of a topic that wait for metadata. Commands about a batch are sent to the
//! driver under the lock of the batch, so that the driver receives the batches of a partition in their order.

mod rows;
mod topic;
mod topics;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use monedula_columns::{BufferPool, PayloadWriter};
use monedula_engine::TopicPartition;
use monedula_engine::backoff::Jitter;
use monedula_engine::produce::{BatchId, Load, Partitioner, draw_partition};
use monedula_engine::transaction::Ending;
use monedula_protocol::records::{BATCH_HEADER_BYTES, NewRecord};
use tokio::sync::{mpsc, oneshot};

use self::topic::{KnownTopic, Partition, PartitionState, Topic};
use super::admission::TransactionAdmission;
use super::awaiting_metadata::AwaitingMetadata;
use super::command::ProduceCommand;
use super::config::ProducerConfig;
use super::in_flight::UnfinishedRecords;
use super::memory::Memory;
use super::open_batch::{ClosedBatch, NotTaken, OpenBatch, max_payload_bytes};
use super::receipt::RecordFuture;
use super::record::{Record, Refused};
use crate::error::ClientError;
use crate::lock::lock;
use crate::topic_name;
use crate::wall_clock::now_ms;

/// The batches of a producer that take records, and the topics that they belong to.
pub(crate) struct Accumulator {
    admission: Arc<TransactionAdmission>,
    pub(crate) memory: Memory,
    pub(crate) pool: BufferPool,
    batch_bytes: usize,
    max_record_bytes: usize,
    partitioner: Partitioner,
    topics: RwLock<HashMap<Arc<str>, Topic>>,
    next_batch: AtomicU64,
    commands: mpsc::UnboundedSender<ProduceCommand>,
    /// [`ProduceCommand::MemoryExhausted`] was sent, and the driver has not handled it yet.
    memory_exhausted: AtomicBool,
    closed: AtomicBool,
    /// Records of closed batches that are unfinished.
    unfinished: UnfinishedRecords,
    started: Instant,
    jitter: Mutex<Jitter>,
}

impl Accumulator {
    pub(crate) fn new(
        config: &ProducerConfig,
        admission: Arc<TransactionAdmission>,
        commands: mpsc::UnboundedSender<ProduceCommand>,
        seed: u64,
    ) -> Self {
        Self {
            admission,
            memory: Memory::new(config.buffer_memory),
            pool: BufferPool::new(config.buffer_memory),
            batch_bytes: max_payload_bytes(config.batch_bytes),
            max_record_bytes: config.max_record_bytes,
            partitioner: config.partitioner,
            topics: RwLock::default(),
            next_batch: AtomicU64::new(0),
            commands,
            memory_exhausted: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            unfinished: UnfinishedRecords::default(),
            started: Instant::now(),
            jitter: Mutex::new(Jitter::new(seed)),
        }
    }

    pub(crate) fn send(&self, record: &Record<'_>) -> Result<RecordFuture, Refused> {
        let new = NewRecord {
            timestamp_ms: record.timestamp_ms.unwrap_or_else(now_ms),
            key: record.key,
            value: record.value,
            headers: record.headers,
        };
        let topics = self.topics_to_send(record.sent_in)?;
        let sent = match topics.get(record.topic) {
            Some(Topic::Known(topic)) => self.send_known(topic, record.partition, &new, record.since),
            Some(Topic::Unknown(awaiting)) => self.keep_for_topic(awaiting, record, &new),
            None => {
                drop(topics);
                self.check_record(record)?;
                self.add_unknown_topic(record.topic);
                return self.send(record);
            }
        };
        match &sent {
            Err(Refused::Full { .. }) => self.report_exhausted(),
            Err(Refused::Error(ClientError::UnknownPartition { partition, .. })) if partition.partition >= 0 => {
                if let Some(Topic::Known(topic)) = topics.get(record.topic) {
                    return self.keep_for_partition(topic, partition.partition, record.since, &new);
                }
            }
            _ => {}
        }
        sent
    }

    /// Memory is exhausted: has the driver send the batches that linger, since nothing else makes room.
    pub(super) fn report_exhausted(&self) {
        if !self.memory_exhausted.swap(true, Ordering::AcqRel) {
            self.send_command(ProduceCommand::MemoryExhausted);
        }
    }

    #[inline]
    fn send_known(
        &self,
        topic: &KnownTopic,
        partition: Option<i32>,
        record: &NewRecord<'_>,
        since: Option<Instant>,
    ) -> Result<RecordFuture, Refused> {
        let (partition, is_sticky) = match partition {
            Some(partition) => (topic.partition(partition)?, false),
            None => match self.partitioner.partition(record.key, topic.partition_count) {
                Some(partition) => (topic.partition(partition)?, false),
                None => (topic.partition(self.sticky(topic))?, true),
            },
        };
        let mut state = partition.state();
        let before = state.open.as_ref().map_or(0, |open| open.writer.len());
        let (index, open) = self.append(topic, partition, &mut state, record, since)?;
        let sent = open.receipt.sent(index, record.timestamp_ms);
        if is_sticky {
            topic.add_sticky_bytes(open.writer.len().saturating_sub(before));
        }
        Ok(sent)
    }

    /// Appends a record to the partition's open batch. Opens a new one if there is none, or if it is full.
    #[inline]
    fn append<'s>(
        &self,
        topic: &KnownTopic,
        partition: &Partition,
        state: &'s mut PartitionState,
        record: &NewRecord<'_>,
        since: Option<Instant>,
    ) -> Result<(u32, &'s mut OpenBatch), Refused> {
        // A record that has waited must not join a batch whose delivery timeout ends later than its own.
        if let Some(since) = since
            && state.open.as_ref().is_some_and(|open| open.since > since)
        {
            self.close_full(partition, state);
        }
        loop {
            let is_new = state.open.is_none();
            if is_new {
                self.check(&topic.name, record)?;
                // Reserves all that the record needs at once. To reserve a little, be refused more, and release the
                // little again would look like room to a waiting sender, which would then retry without end.
                let capacity =
                    state.expected_bytes.min(self.batch_bytes).max(PayloadWriter::first_record_bytes(record));
                let opened = self.open(topic, partition, capacity, since.unwrap_or_else(Instant::now));
                state.open = Some(opened.map_err(|refused| self.refusal(refused))?);
            }
            let Some(open) = &mut state.open else { continue };
            match open.append(record, self.batch_bytes) {
                Ok(index) => {
                    if is_new {
                        let (partition, batch, since) = (partition.topic_partition.clone(), open.id, open.since);
                        self.send_command(ProduceCommand::BatchOpened { partition, batch, since });
                    }
                    // Matches again for the borrow checker, which does not see that the loop ends here.
                    return match &mut state.open {
                        Some(open) => Ok((index, open)),
                        None => Err(ClientError::Closed.into()),
                    };
                }
                Err(NotTaken::Closed) => self.close_full(partition, state),
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

    fn open(
        &self,
        topic: &KnownTopic,
        partition: &Partition,
        capacity: usize,
        since: Instant,
    ) -> Result<OpenBatch, NotTaken> {
        let id = self.next_batch_id();
        topic.used_ms.store(self.now_ms(), Ordering::Relaxed);
        let partition = Some((partition.topic_partition.clone(), &partition.batches));
        OpenBatch::open(id, partition, &self.memory, &topic.usage, &self.pool, (capacity, since))
    }

    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    fn close_full(&self, partition: &Partition, state: &mut PartitionState) {
        if let Some(batch) = state.close(&partition.topic_partition, self.batch_bytes, &self.unfinished) {
            self.send_command(ProduceCommand::BatchFull(Box::new(batch)));
        }
    }

    fn refusal(&self, refused: NotTaken) -> Refused {
        match refused {
            NotTaken::Closed => Refused::Error(ClientError::ProducerClosed),
            NotTaken::Memory(needed) => Refused::Full { needed },
            NotTaken::Lack(lack) => Refused::Error(lack.into()),
        }
    }

    /// # Errors
    /// A record that is too large, or whose topic has a name that no topic has.
    pub(crate) fn check_record(&self, record: &Record<'_>) -> Result<(), ClientError> {
        let (key, value) = (record.key, record.value);
        self.check(record.topic, &NewRecord { timestamp_ms: 0, key, value, headers: record.headers })?;
        topic_name::check(record.topic)
    }

    /// Checks a record for errors that do not depend on its batch.
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
        if stays && current < topic.partition_count as usize {
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

    /// Keeps a record of a topic whose partitions are not known yet.
    fn keep_for_topic(
        &self,
        awaiting: &Mutex<AwaitingMetadata>,
        record: &Record<'_>,
        new: &NewRecord<'_>,
    ) -> Result<RecordFuture, Refused> {
        self.check(record.topic, new)?;
        let mut awaiting = lock(awaiting);
        let target = (record.partition, record.since.unwrap_or_else(Instant::now));
        awaiting.append(target, new, &self.memory, &self.pool).map_err(|refused| self.refusal(refused))
    }

    /// Keeps a record of a partition that may have been added to a known topic, until there is new metadata.
    #[cold]
    fn keep_for_partition(
        &self,
        topic: &KnownTopic,
        partition: i32,
        since: Option<Instant>,
        record: &NewRecord<'_>,
    ) -> Result<RecordFuture, Refused> {
        self.check(&topic.name, record)?;
        let mut awaiting = topic.awaiting_partitions();
        let is_first = awaiting.is_empty();
        let target = (Some(partition), since.unwrap_or_else(Instant::now));
        let sent = awaiting.append(target, record, &self.memory, &self.pool).map_err(|refused| self.refusal(refused));
        match &sent {
            Ok(_) if is_first => self.send_command(ProduceCommand::PartitionUnknown(topic.name.clone())),
            Err(Refused::Full { .. }) => self.report_exhausted(),
            _ => {}
        }
        sent
    }

    fn add_unknown_topic(&self, name: &str) {
        let mut topics = self.topics_mut();
        if !topics.contains_key(name) && !self.closed.load(Ordering::Acquire) {
            let name: Arc<str> = name.into();
            topics.insert(name.clone(), Topic::Unknown(Mutex::default()));
            self.send_command(ProduceCommand::TopicUnknown(name));
        }
    }

    /// Number of partitions of a topic, if it is known. If not, has the driver request the topic's metadata.
    pub(crate) fn partition_count(&self, name: &str) -> Option<i32> {
        match self.topics().get(name) {
            Some(Topic::Known(topic)) => return Some(topic.partition_count as i32),
            Some(Topic::Unknown(_)) => return None,
            None => {}
        }
        if topic_name::check(name).is_ok() {
            self.add_unknown_topic(name);
        }
        None
    }

    /// Closes the open batch of a partition and returns it, if it is still this one.
    pub(crate) fn take(&self, partition: &TopicPartition, batch: BatchId) -> Option<ClosedBatch> {
        let topics = self.topics();
        let Some(Topic::Known(topic)) = topics.get(&partition.topic) else { return None };
        let partition = topic.partitions.get(usize::try_from(partition.partition).ok()?)?;
        let mut state = partition.state();
        if state.open.as_ref().is_none_or(|open| open.id != batch) {
            return None;
        }
        state.close(&partition.topic_partition, self.batch_bytes, &self.unfinished)
    }

    /// Takes no records from now on.
    pub(crate) fn close(&self) {
        // Waits for all senders: the driver receives the commands about their records before any that follow this call.
        let topics = self.topics_mut();
        self.closed.store(true, Ordering::Release);
        drop(topics);
        self.memory.close();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Sends everything that was sent so far; `reply` is notified when it is done.
    pub(crate) fn flush(&self, reply: oneshot::Sender<()>) {
        self.send_command(ProduceCommand::Flush(reply));
    }

    /// Ends the driver: once everything is done, or at once.
    pub(crate) fn stop(&self, at_once: bool) {
        self.send_command(ProduceCommand::Stop { at_once });
    }

    /// The driver has handled [`ProduceCommand::MemoryExhausted`].
    pub(crate) fn exhaustion_handled(&self) {
        self.memory_exhausted.store(false, Ordering::Release);
    }

    pub(crate) fn next_batch_id(&self) -> BatchId {
        self.next_batch.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn send_command(&self, command: ProduceCommand) {
        // Fails only if the driver is gone, which has failed everything then.
        let _ = self.commands.send(command);
    }

    fn topics(&self) -> RwLockReadGuard<'_, HashMap<Arc<str>, Topic>> {
        self.topics.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The topics, for sending. While the guard is held, the producer is not closed and the transaction does not end.
    fn topics_to_send(
        &self,
        sent_in: Option<u64>,
    ) -> Result<RwLockReadGuard<'_, HashMap<Arc<str>, Topic>>, ClientError> {
        let topics = self.topics();
        if self.closed.load(Ordering::Acquire) {
            return Err(ClientError::ProducerClosed);
        }
        self.admission.check(sent_in)?;
        Ok(topics)
    }

    /// Records that waited for metadata failed, and so does the open transaction, to which they belong.
    pub(crate) fn fail_transaction(&self, error: &ClientError) {
        self.admission.fail_open_transaction(error);
    }

    /// Takes no records until another transaction begins. The driver receives the commands about records that were sent
    /// before any that follow this call.
    pub(crate) fn end_transaction(&self, ending: Ending) {
        let _topics = self.topics_mut();
        self.admission.close(ending);
    }

    fn topics_mut(&self) -> RwLockWriteGuard<'_, HashMap<Arc<str>, Topic>> {
        self.topics.write().unwrap_or_else(PoisonError::into_inner)
    }
}
