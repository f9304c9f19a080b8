//! The driver's side of the buffer: what it brings, what stops it, and what it drops for want of memory.

use std::sync::Arc;

use bytes::Bytes;
use monedula_columns::{AbortedTransaction, segments};
use monedula_engine::TopicPartition;
use monedula_engine::fetch::Fetched;
use monedula_engine::ledger::OffsetAndEpoch;
use monedula_protocol::compression::Compression;
use monedula_protocol::records::Batches;

use super::FetchBuffer;
use super::partition_buffer::Piece;
use crate::error::ClientError;
use crate::fetch::inflate::{SEGMENT_BYTES, Segment};

impl FetchBuffer {
    /// The driver found where `partition` starts, or where it goes on because the log lost the position.
    pub(crate) fn positioned(&self, partition: &TopicPartition, span: u64, offset: i64) {
        let mut state = self.state();
        let Some(buffer) = state.current(partition, span) else { return };
        if buffer.positioned(partition, offset, &self.options) {
            if let Some(ledger) = &mut state.finished.ledger {
                ledger.start(partition, span, OffsetAndEpoch { offset, leader_epoch: -1 }, false);
            }
            self.hold_at_bound(&mut state, partition);
        } else {
            state.offer(partition);
        }
        drop(state);
        self.arrived.notify_all();
    }

    /// Takes what a fetch brought: whole record batches.
    pub(crate) fn push(&self, fetched: Fetched, records: Bytes) {
        let bytes = records.len();
        let compressed = !self.inflater.is_idle() && is_compressed(&records);
        let cut = if compressed { segments(&records, SEGMENT_BYTES) } else { vec![records] };
        let cut: Vec<Arc<Segment>> = cut.into_iter().map(|data| Arc::new(Segment::new(data))).collect();
        let aborted: Arc<[AbortedTransaction]> = fetched
            .aborted
            .iter()
            .map(|entry| AbortedTransaction { producer_id: entry.producer_id, first_offset: entry.first_offset })
            .collect();
        let mut state = self.state();
        let Some(buffer) = state.current(&fetched.partition, fetched.span) else { return };
        let pieces = cut.iter().map(|segment| Piece::Records(segment.clone(), aborted.clone()));
        if !buffer.push(&fetched, bytes, pieces) {
            return;
        }
        if !buffer.is_held_back() {
            state.queued_records += fetched.record_count;
            state.queued_bytes += bytes;
        }
        state.offer(&fetched.partition);
        drop(state);
        if compressed {
            self.inflater.push(cut.iter().map(Arc::downgrade));
        }
        self.arrived.notify_all();
    }

    /// The partition stopped: raised once, then kept in its status; raised on every call once nothing else is left.
    pub(crate) fn stopped(&self, partition: &TopicPartition, span: u64, error: ClientError) {
        let mut state = self.state();
        let Some(buffer) = state.current(partition, span) else { return };
        // What was fetched before the error is handed out first.
        match buffer.stop(error) {
            Some(error) => state.raise.push_back(error),
            None => state.offer(partition),
        }
        drop(state);
        self.arrived.notify_all();
    }

    /// An error of the whole client: raised on every call that has nothing to hand out, until it is `None` again.
    pub(crate) fn set_fatal(&self, error: Option<ClientError>) {
        let mut state = self.state();
        if error.is_none() && state.fatal.is_none() {
            return;
        }
        if error.as_ref().map(ToString::to_string) != state.fatal.as_ref().map(ToString::to_string) {
            state.lasting_raised_at = None;
        }
        state.fatal = error;
        drop(state);
        self.arrived.notify_all();
    }

    /// An error of a topic none of whose partitions is known; lasts until some are, or the assignment changes.
    pub(crate) fn topic_failed(&self, error: ClientError) {
        let mut state = self.state();
        state.raise.push_back(error.clone());
        state.failed_topics.push(error);
        state.lasting_raised_at = None;
        drop(state);
        self.arrived.notify_all();
    }

    /// A topic has partitions: the error that it had none is over.
    pub(crate) fn topic_found(&self, topic: &str) {
        let is_other = |error: &ClientError| error.partition().is_none_or(|partition| &*partition.topic != topic);
        let mut state = self.state();
        let failed = state.failed_topics.len();
        state.failed_topics.retain(is_other);
        if state.failed_topics.len() < failed {
            state.raise.retain(is_other);
        }
    }

    /// Forgets the errors of topics: the assignment changes.
    pub(crate) fn forget_topics(&self) {
        let mut state = self.state();
        let forgotten = std::mem::take(&mut state.failed_topics);
        let topics: Vec<_> = forgotten.iter().filter_map(|error| Some(error.partition()?.topic.clone())).collect();
        state.raise.retain(|error| error.partition().is_none_or(|partition| !topics.contains(&partition.topic)));
    }

    /// Whether this topic is known to have no partition that could be read.
    pub(crate) fn has_failed_topic(&self, topic: &str) -> bool {
        let about = |error: &ClientError| error.partition().is_some_and(|partition| &*partition.topic == topic);
        self.state().failed_topics.iter().any(about)
    }

    /// Whether what is ready is to be handed out at once: the driver waits for budget, or has nothing left to fetch.
    pub(crate) fn set_flush(&self, flush: bool) {
        self.state().flush = flush;
        self.arrived.notify_all();
    }

    /// For a driver without budget. If there is nothing to hand out, which would free some, drops what was fetched of
    /// partitions that are held back, and returns from where on each is to be fetched again. [`Self::drained`] says
    /// when to ask again.
    pub(crate) fn evict_held_back(&self) -> Vec<(TopicPartition, u64, i64)> {
        if !self.state().pins_memory() {
            return Vec::new();
        }
        // A batch that is being built may free some.
        let _build = self.lock_build();
        let mut state = self.state();
        if !state.pins_memory() {
            return Vec::new();
        }
        let mut evicted = Vec::new();
        for (partition, buffer) in &mut state.partitions {
            if buffer.pins_memory()
                && let Some(position) = buffer.evict(partition, &self.options)
            {
                evicted.push((partition.clone(), buffer.span(), position));
            }
        }
        evicted
    }
}

fn is_compressed(records: &[u8]) -> bool {
    Batches::new(records)
        .next()
        .is_some_and(|batch| batch.is_ok_and(|batch| batch.header.compression() != Compression::None))
}
