//! A topic and its partitions, each with its open batch.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use monedula_engine::TopicPartition;
use monedula_engine::produce::Load;

use super::super::awaiting_metadata::AwaitingMetadata;
use super::super::in_flight::UnfinishedRecords;
use super::super::memory::TopicUsage;
use super::super::open_batch::{BatchCount, ClosedBatch, OpenBatch};
use super::super::pending_topics::TopicPartitions;
use crate::error::ClientError;
use crate::lock::lock;

pub(super) enum Topic {
    /// The partitions are not known yet.
    Unknown(Mutex<AwaitingMetadata>),
    Known(KnownTopic),
}

/// A topic whose partitions are known.
pub(super) struct KnownTopic {
    pub(super) name: Arc<str>,
    pub(super) partitions: Vec<Partition>,
    /// Number of `partitions` that exist: a recreated topic may have fewer than before.
    pub(super) partition_count: u32,
    /// The partitions that have a leader. Records without a key go to these, if there are any.
    pub(super) led: Vec<u32>,
    pub(super) usage: TopicUsage,
    /// Records for partitions beyond the known ones, which may have been added: they wait for new metadata.
    awaiting_partitions: Mutex<AwaitingMetadata>,
    /// Time of the last opening of a batch, in milliseconds since the producer was created.
    pub(super) used_ms: AtomicU64,
    /// The partition that records without a key go to (KIP-480), until `batch.size` bytes went there (KIP-794).
    pub(super) sticky: AtomicUsize,
    pub(super) sticky_bytes: AtomicUsize,
}

/// A partition of a known topic, with its open batch.
pub(super) struct Partition {
    pub(super) topic_partition: TopicPartition,
    pub(super) batches: BatchCount,
    state: Mutex<PartitionState>,
}

pub(super) struct PartitionState {
    pub(super) open: Option<OpenBatch>,
    /// The size that the next batch is likely to have.
    pub(super) expected_bytes: usize,
}

impl KnownTopic {
    pub(super) fn new(name: Arc<str>, usage: TopicUsage) -> Self {
        Self {
            name,
            partitions: Vec::new(),
            partition_count: 0,
            led: Vec::new(),
            awaiting_partitions: Mutex::new(AwaitingMetadata::new(usage.clone())),
            usage,
            used_ms: AtomicU64::new(0),
            sticky: AtomicUsize::new(usize::MAX),
            sticky_bytes: AtomicUsize::new(0),
        }
    }

    pub(super) fn resize(&mut self, partitions: TopicPartitions) {
        for index in self.partitions.len()..partitions.count as usize {
            let topic_partition = TopicPartition::new(self.name.clone(), index as i32);
            let state = Mutex::new(PartitionState { open: None, expected_bytes: 0 });
            self.partitions.push(Partition { topic_partition, batches: BatchCount::default(), state });
        }
        (self.partition_count, self.led) = (partitions.count, partitions.led);
        // No more records without a key go to a partition that has no leader.
        let sticky = self.sticky.get_mut();
        if !self.led.is_empty() && !self.led.iter().any(|&index| index as usize == *sticky) {
            *sticky = usize::MAX;
        }
    }

    /// The loads by which a partition for records without a key is drawn (KIP-794).
    pub(super) fn loads(&self) -> impl Iterator<Item = Load> {
        let mut led = self.led.iter().peekable();
        let partitions = self.partitions.iter().take(self.partition_count as usize).zip(0..);
        partitions.map(move |(partition, index)| Load {
            queued: partition.batches.get(),
            is_led: led.next_if(|&&led| led == index).is_some(),
        })
    }

    pub(super) fn partition(&self, partition: i32) -> Result<&Partition, ClientError> {
        let index = usize::try_from(partition).ok().filter(|&index| index < self.partition_count as usize);
        index.and_then(|index| self.partitions.get(index)).ok_or_else(|| ClientError::UnknownPartition {
            partition: TopicPartition::new(self.name.clone(), partition),
            partitions: self.partition_count as usize,
        })
    }

    pub(super) fn awaiting_partitions(&self) -> MutexGuard<'_, AwaitingMetadata> {
        lock(&self.awaiting_partitions)
    }

    pub(super) fn take_awaiting_partitions(&self) -> AwaitingMetadata {
        std::mem::replace(&mut self.awaiting_partitions(), AwaitingMetadata::new(self.usage.clone()))
    }

    pub(super) fn add_sticky_bytes(&self, bytes: usize) {
        self.sticky_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Partition {
    pub(super) fn state(&self) -> MutexGuard<'_, PartitionState> {
        lock(&self.state)
    }
}

impl PartitionState {
    pub(super) fn close(
        &mut self,
        partition: &TopicPartition,
        max_bytes: usize,
        unfinished: &UnfinishedRecords,
    ) -> Option<ClosedBatch> {
        let open = self.open.take()?;
        self.expected_bytes = (open.writer.len() + open.writer.len() / 8).min(max_bytes);
        Some(open.close(partition.clone(), unfinished))
    }
}
