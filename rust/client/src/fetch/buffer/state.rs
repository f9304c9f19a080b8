//! What the lock `state` is over: the partitions' buffers, the queue of those with something to hand out, and errors to
//! raise.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use monedula_engine::TopicPartition;

use super::finished_offsets::FinishedOffsets;
use super::membership::Membership;
use super::partition_buffer::{PartitionBuffer, PartitionStatus};
use super::rows::ReturnedRows;
use super::until::UntilLoop;
use crate::error::ClientError;

/// What the lock `state` is over.
#[derive(Default)]
pub(super) struct BufferState {
    pub(super) partitions: BTreeMap<TopicPartition, PartitionBuffer>,
    /// Partitions with something to hand out, each once.
    pub(super) ready: VecDeque<TopicPartition>,
    /// Rows that were handed out and given back, in the order of the log: they go before what is ready.
    pub(super) returned: BTreeMap<TopicPartition, VecDeque<ReturnedRows>>,
    /// When the oldest of what is ready came.
    pub(super) ready_since: Option<Instant>,
    /// Records and bytes that may be handed out.
    pub(super) queued_records: u64,
    pub(super) queued_bytes: usize,
    /// Errors that were not raised yet.
    pub(super) raise: VecDeque<ClientError>,
    /// Partitions that an error for want of something stopped, such as a schema, and when they try again. It was raised.
    pub(super) lacking: BTreeMap<TopicPartition, Instant>,
    /// Errors of topics that have no partition here.
    pub(super) failed_topics: Vec<ClientError>,
    /// An error of the whole client, raised on every call while it lasts.
    pub(super) fatal: Option<ClientError>,
    /// When an error that lasts was last raised.
    pub(super) lasting_raised_at: Option<Instant>,
    /// Nothing more is fetched before what is ready is handed out: that need not wait for more.
    pub(super) flush: bool,
    /// The last batch was full, though what was queued is less than one by its bytes: typed columns may be larger than
    /// the records. What is left need not wait for more.
    pub(super) is_cut: bool,
    pub(super) woken: bool,
    pub(super) closed: bool,
    next_span: u64,
    /// The loop with `until`, if one goes on; and the number of the last one.
    pub(super) until: Option<UntilLoop>,
    pub(super) last_until: u64,
    pub(super) membership: Membership,
    pub(super) finished: FinishedOffsets,
}

impl BufferState {
    pub(super) fn new_span(&mut self) -> u64 {
        self.next_span += 1;
        self.next_span
    }

    /// The buffer of a partition, if it still has this span.
    pub(super) fn current(&mut self, partition: &TopicPartition, span: u64) -> Option<&mut PartitionBuffer> {
        self.partitions.get_mut(partition).filter(|buffer| buffer.span() == span)
    }

    /// Drops everything of a partition. False if it was not assigned.
    pub(super) fn remove(&mut self, partition: &TopicPartition) -> bool {
        self.forget_queued(partition);
        self.forget_returned(partition);
        self.stop_rows_of(partition);
        self.lacking.remove(partition);
        self.ready.retain(|ready| ready != partition);
        self.finished.released(partition);
        self.partitions.remove(partition).is_some()
    }

    pub(super) fn status_of(&self, partition: &TopicPartition, buffer: &PartitionBuffer) -> PartitionStatus {
        let returned = self.returned.get(partition).and_then(|returned| returned.front());
        let status = buffer.status();
        let finished = self.finished.finished_offset(partition);
        PartitionStatus { position: returned.map(ReturnedRows::first_offset).or(status.position), finished, ..status }
    }

    /// So many records and bytes may not be handed out any more.
    pub(super) fn uncount(&mut self, records: u64, bytes: usize) {
        self.queued_records = self.queued_records.saturating_sub(records);
        self.queued_bytes = self.queued_bytes.saturating_sub(bytes);
    }

    /// What is queued of a partition will not be handed out, and its errors will not be raised.
    pub(super) fn forget_queued(&mut self, partition: &TopicPartition) {
        self.raise.retain(|error| error.partition() != Some(partition));
        let Some(buffer) = self.partitions.get(partition) else { return };
        if !buffer.is_held_back() {
            let (records, bytes) = buffer.queued();
            self.uncount(records, bytes);
        }
    }

    /// Whether nothing can be handed out, and what is held back takes memory.
    pub(super) fn pins_memory(&mut self) -> bool {
        !self.has_ready() && self.partitions.values().any(PartitionBuffer::pins_memory)
    }

    /// Whether there is anything to hand out. Forgets partitions in the queue that have nothing any more.
    pub(super) fn has_ready(&mut self) -> bool {
        while let Some(partition) = self.ready.front() {
            let buffer = self.partitions.get_mut(partition);
            if buffer.as_ref().is_some_and(|buffer| buffer.has_data()) {
                return true;
            }
            if let Some(buffer) = buffer {
                buffer.leave_ready_queue();
            }
            self.ready.pop_front();
        }
        false
    }

    /// Puts a partition that has something to hand out into the ready queue, once. One in the middle of a batch that it
    /// decompressed goes first: there is memory for one such batch beyond the budget, not for one of each partition.
    pub(super) fn offer(&mut self, partition: &TopicPartition) {
        let Some(buffer) = self.partitions.get_mut(partition) else { return };
        if !buffer.has_data() {
            return;
        }
        let was_queued = buffer.enter_ready_queue();
        if buffer.holds_payload() {
            if was_queued {
                self.ready.retain(|ready| ready != partition);
            }
            self.ready.push_front(partition.clone());
        } else if !was_queued {
            self.ready.push_back(partition.clone());
        }
        if !was_queued {
            self.ready_since.get_or_insert_with(Instant::now);
        }
    }
}
