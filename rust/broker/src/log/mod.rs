//! A partition's log.
//!
//! Batches in segments, and what must be known of them: where the log starts, what is committed (high watermark), what no open
//! transaction can change (last stable offset), which producers wrote what, which transactions were aborted, which leader
//! epoch began where. [`validate`] is what a client's batch must pass before it gets here.

mod batch;
mod epochs;
mod lookup;
mod producers;
mod segment;
pub(crate) mod validate;

use std::collections::VecDeque;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::records::{ControlRecordType, control_record};

pub(crate) use batch::Batch;
pub(crate) use epochs::Epochs;
pub(crate) use lookup::Found;
pub(crate) use producers::Producers;
use segment::Segment;
pub(crate) use segment::{Chunk, Piece};

/// The log of one partition.
#[derive(Debug)]
pub(crate) struct Log {
    /// Never empty; the last one is appended to.
    segments: VecDeque<Segment>,
    start_offset: i64,
    end_offset: i64,
    high_watermark: i64,
    epochs: Epochs,
    producers: Producers,
    /// Transactions that were aborted, by the offset of their markers.
    aborted: Vec<Aborted>,
}

/// An aborted transaction.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Aborted {
    pub(crate) producer_id: i64,
    /// Of its first record.
    pub(crate) first_offset: i64,
    /// Of its marker.
    pub(crate) last_offset: i64,
}

/// When an append begins a new segment.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Rolling {
    pub(crate) segment_bytes: u64,
    pub(crate) segment_ms: i64,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            segments: VecDeque::from([Segment::new(0)]),
            start_offset: 0,
            end_offset: 0,
            high_watermark: 0,
            // A partition is led from the start, so its first epoch is known before it has records.
            epochs: Epochs::from_entries(vec![(0, 0)]),
            producers: Producers::default(),
            aborted: Vec::new(),
        }
    }
}

impl Log {
    /// Where it starts.
    pub(crate) fn start_offset(&self) -> i64 {
        self.start_offset
    }

    /// The offset of the next record.
    pub(crate) fn end_offset(&self) -> i64 {
        self.end_offset
    }

    /// The end of what is committed.
    pub(crate) fn high_watermark(&self) -> i64 {
        self.high_watermark
    }

    /// The end of what no open transaction can change.
    pub(crate) fn last_stable_offset(&self) -> i64 {
        self.producers.first_open_offset().map_or(self.high_watermark, |open| open.min(self.high_watermark))
    }

    pub(crate) fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    pub(crate) fn producers(&self) -> &Producers {
        &self.producers
    }

    /// Bytes of all batches.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.iter().map(Segment::bytes).sum()
    }

    /// All batches, oldest first.
    pub(crate) fn batches(&self) -> impl DoubleEndedIterator<Item = &Batch> {
        self.segments.iter().flat_map(Segment::batches)
    }

    /// A leader epoch begins here, whether or not anything is written under it.
    pub(crate) fn begin_epoch(&mut self, epoch: i32) {
        self.epochs.begin(epoch, self.end_offset);
    }

    /// All that was appended so far is committed.
    pub(crate) fn commit_to_end(&mut self) {
        self.high_watermark = self.end_offset;
    }

    /// Appends a batch: gives it its offsets and epoch, and learns from it. Whether its producer may write it was asked
    /// before.
    pub(crate) fn append(&mut self, mut batch: Batch, leader_epoch: i32, rolling: Rolling) -> Result<i64, ErrorCode> {
        let base_offset = self.end_offset;
        batch.header.base_offset = base_offset;
        batch.header.partition_leader_epoch = leader_epoch;
        let batch = batch.detached();
        self.roll_for(&batch, rolling);
        self.learn(&batch);
        self.end_offset = batch.header.next_offset();
        self.active().append(batch);
        Ok(base_offset)
    }

    /// What a batch tells of epochs, producers and transactions.
    fn learn(&mut self, batch: &Batch) {
        let header = &batch.header;
        self.epochs.begin(header.partition_leader_epoch, header.base_offset);
        if header.producer_id < 0 {
            return;
        }
        if !header.is_control() {
            return self.producers.appended(header);
        }
        let Some((kind, coordinator_epoch)) = marker(batch) else { return };
        let ended = self.producers.ended(header, coordinator_epoch);
        if let Some(ended) = ended.filter(|_| kind == ControlRecordType::Abort) {
            self.aborted.push(Aborted {
                producer_id: ended.producer_id,
                first_offset: ended.first_offset,
                last_offset: header.last_offset(),
            });
        }
    }

    fn active(&mut self) -> &mut Segment {
        if self.segments.is_empty() {
            self.segments.push_back(Segment::new(self.end_offset));
        }
        let last = self.segments.len() - 1;
        &mut self.segments[last]
    }

    fn roll_for(&mut self, batch: &Batch, rolling: Rolling) {
        let active = self.active();
        if active.is_empty() {
            return;
        }
        let full = active.bytes() + batch.total_bytes() as u64 > rolling.segment_bytes;
        let age_ms = active.first_timestamp_ms().map_or(0, |first| batch.header.max_timestamp.saturating_sub(first));
        // Kafka's files cannot hold offsets further than this from their first.
        let far = batch.header.last_offset() - active.base_offset > i64::from(i32::MAX);
        if full || age_ms > rolling.segment_ms || far {
            self.segments.push_back(Segment::new(self.end_offset));
        }
    }

    /// Bytes from an offset on, see [`Segment::read`]; of one segment only, as in Kafka.
    pub(crate) fn read(
        &self,
        offset: i64,
        end_offset: i64,
        max_bytes: usize,
        whole_first: bool,
    ) -> Result<Chunk, ErrorCode> {
        let first = self.segments.partition_point(|segment| segment.base_offset <= offset).saturating_sub(1);
        for segment in self.segments.range(first..) {
            let chunk = segment.read(offset, end_offset, max_bytes, whole_first);
            if chunk.bytes > 0 {
                return Ok(chunk);
            }
        }
        Ok(Chunk { next_offset: offset, ..Chunk::default() })
    }

    /// How many bytes there are from an offset to another: what a fetch of them would read, were it not limited.
    pub(crate) fn bytes_between(&self, offset: i64, end_offset: i64) -> u64 {
        if offset >= end_offset {
            return 0;
        }
        let first = self.segments.partition_point(|segment| segment.base_offset <= offset).saturating_sub(1);
        let segments = self.segments.range(first..).take_while(|segment| segment.base_offset < end_offset);
        segments.map(|segment| segment.position_of(end_offset) - segment.position_of(offset)).sum()
    }

    /// Transactions that were aborted and have records in a range.
    pub(crate) fn aborted_between(&self, offset: i64, end_offset: i64) -> impl Iterator<Item = Aborted> {
        let first = self.aborted.partition_point(|aborted| aborted.last_offset < offset);
        self.aborted[first..].iter().filter(move |aborted| aborted.first_offset < end_offset).copied()
    }
}

/// What the marker in a control batch says, and the epoch of the coordinator that wrote it.
fn marker(batch: &Batch) -> Option<(ControlRecordType, i32)> {
    let records = monedula_protocol::records::Records::new(&batch.header, &batch.payload);
    let kind = control_record(records.clone()).ok().flatten()?;
    let value = records.flatten().next()?.value?;
    let epoch = value.get(2..6).and_then(|bytes| bytes.try_into().ok()).map_or(-1, i32::from_be_bytes);
    Some((kind, epoch))
}
