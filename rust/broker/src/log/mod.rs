//! A partition's log.
//!
//! Batches in segments, and what must be known of them: where the log starts, what is committed (high watermark), what no open
//! transaction can change (last stable offset), which producers wrote what, which transactions were aborted, which leader
//! epoch began where. [`validate`] is what a client's batch must pass before it gets here.
//!
//! With a directory the batches are in files (`file.rs`): a batch is written before it is acknowledged, without waiting for the
//! disk, as Kafka does. All else is learnt from the batches again when the files are opened.

mod batch;
mod cleaner;
mod data_dir;
mod dirt;
mod disk;
mod epochs;
mod file;
mod housekeeping;
mod lookup;
mod producers;
mod retention;
mod segment;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests;
pub(crate) mod validate;

use std::collections::VecDeque;
use std::io;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::records::{BatchHeader, ControlRecordType, Records, control_record};

pub(crate) use batch::Batch;
pub(crate) use cleaner::Cleaning;
pub(crate) use data_dir::{DataDir, StoredPartition, StoredTopic};
use dirt::Dirt;
use disk::Directory;
pub(crate) use disk::LogState;
pub(crate) use epochs::Epochs;
pub(crate) use file::OpenFiles;
pub(crate) use housekeeping::Housekeeping;
pub(crate) use lookup::Found;
pub(crate) use producers::Producers;
pub(crate) use retention::Retention;
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
    directory: Option<Directory>,
    /// Bytes after it was compacted the last time.
    compacted_bytes: u64,
    /// Up to where it was compacted; what is behind is dirty.
    cleaned_offset: i64,
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
    pub(crate) now_ms: i64,
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
            directory: None,
            compacted_bytes: 0,
            cleaned_offset: 0,
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

    /// Forgets idempotent producers that have been silent for long.
    pub(crate) fn expire_producers(&mut self, now_ms: i64, expiration_ms: i64) {
        self.producers.expire(now_ms, expiration_ms);
    }

    /// Bytes of all batches.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.iter().map(Segment::bytes).sum()
    }

    /// All batches that have records behind the start, oldest first.
    pub(crate) fn batches(&self) -> impl Iterator<Item = Result<Batch, ErrorCode>> {
        let batches = self.segments.iter().flat_map(|segment| segment.batches().map(|batch| self.storage(batch)));
        batches.filter(|batch| batch.as_ref().map_or(true, |batch| batch.header.last_offset() >= self.start_offset))
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
    ///
    /// # Errors
    /// KAFKA_STORAGE_ERROR, after which nothing has changed.
    pub(crate) fn append(&mut self, mut batch: Batch, leader_epoch: i32, rolling: Rolling) -> Result<i64, ErrorCode> {
        let base_offset = self.end_offset;
        batch.header.base_offset = base_offset;
        batch.header.partition_leader_epoch = leader_epoch;
        self.roll_for(&batch.header, rolling)?;
        let header = batch.header;
        let marker = marker(&batch);
        let appended = self.active().append(batch, rolling.now_ms);
        self.storage(appended)?;
        self.epochs.begin(header.partition_leader_epoch, header.base_offset);
        self.learn(&header, marker);
        self.end_offset = header.next_offset();
        Ok(base_offset)
    }

    /// What a batch tells of producers and transactions.
    fn learn(&mut self, header: &BatchHeader, marker: Option<Marked>) {
        if header.producer_id < 0 {
            return;
        }
        if !header.is_control() {
            return self.producers.appended(header);
        }
        // Compaction may have emptied the batch of a marker, when the transaction is gone altogether.
        let Some(marker) = marker else { return };
        let ended = self.producers.ended(header, marker.coordinator_epoch);
        if let Some(ended) = ended.filter(|_| marker.kind == ControlRecordType::Abort) {
            self.aborted.push(Aborted {
                producer_id: ended.producer_id,
                first_offset: ended.first_offset,
                last_offset: header.last_offset(),
            });
        }
    }

    /// Learns everything but the epochs from the batches again.
    fn learn_again(&mut self) -> Result<(), ErrorCode> {
        self.producers = Producers::default();
        self.aborted.clear();
        let segments = std::mem::take(&mut self.segments);
        let mut failed = None;
        for segment in &segments {
            for header in segment.headers() {
                // Only markers have to be looked into.
                let batch = if header.is_control() { segment.batch_at(header.base_offset) } else { None };
                match batch.transpose() {
                    Ok(batch) => self.learn(header, batch.as_ref().and_then(marker)),
                    Err(error) => failed = Some(error),
                }
            }
        }
        self.segments = segments;
        failed.map_or(Ok(()), |error| self.storage(Err(error)))
    }

    fn active(&mut self) -> &mut Segment {
        let last = self.segments.len() - 1;
        &mut self.segments[last]
    }

    fn roll_for(&mut self, header: &BatchHeader, rolling: Rolling) -> Result<(), ErrorCode> {
        let active = self.active();
        if active.is_empty() {
            return Ok(());
        }
        let full = active.bytes() + header.total_bytes() as u64 > rolling.segment_bytes;
        let age_ms = active.first_timestamp_ms().map_or(0, |first| header.max_timestamp.saturating_sub(first));
        // Kafka's files cannot hold offsets further than this from their first.
        let far = header.last_offset() - active.base_offset > i64::from(i32::MAX);
        if full || age_ms > rolling.segment_ms || far { self.roll() } else { Ok(()) }
    }

    /// Begins a new segment, unless the last one is empty.
    fn roll(&mut self) -> Result<(), ErrorCode> {
        if self.active().is_empty() && self.active().base_offset == self.end_offset {
            return Ok(());
        }
        let segment = match &self.directory {
            Some(directory) => self.storage(directory.create_segment(self.end_offset))?,
            None => Segment::new(self.end_offset),
        };
        self.active().close();
        self.segments.push_back(segment);
        Ok(())
    }

    /// How many segments are not appended to any more.
    pub(crate) fn closed_segments(&self) -> usize {
        self.segments.len() - 1
    }

    /// The place of the segment that has an offset, or would have it.
    fn segment_of(&self, offset: i64) -> usize {
        self.segments.partition_point(|segment| segment.base_offset <= offset).saturating_sub(1)
    }

    /// Bytes from an offset on, see [`Segment::read`]; of one segment only, as in Kafka.
    ///
    /// # Errors
    /// KAFKA_STORAGE_ERROR.
    pub(crate) fn read(
        &self,
        offset: i64,
        end_offset: i64,
        max_bytes: usize,
        whole_first: bool,
    ) -> Result<Chunk, ErrorCode> {
        for segment in self.segments.range(self.segment_of(offset)..) {
            let chunk = self.storage(segment.read(offset, end_offset, max_bytes, whole_first))?;
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
        let segments =
            self.segments.range(self.segment_of(offset)..).take_while(|segment| segment.base_offset < end_offset);
        segments.map(|segment| segment.position_of(end_offset) - segment.position_of(offset)).sum()
    }

    /// Transactions that were aborted and have records in a range.
    pub(crate) fn aborted_between(&self, offset: i64, end_offset: i64) -> impl Iterator<Item = Aborted> {
        let first = self.aborted.partition_point(|aborted| aborted.last_offset < offset);
        self.aborted[first..].iter().filter(move |aborted| aborted.first_offset < end_offset).copied()
    }

    /// Makes the log end at an offset, as an unclean election does: a batch that reaches beyond it loses its later records.
    ///
    /// # Errors
    /// OFFSET_OUT_OF_RANGE outside the log, KAFKA_STORAGE_ERROR.
    pub(crate) fn truncate_to(&mut self, end_offset: i64) -> Result<(), ErrorCode> {
        if !(self.start_offset..=self.end_offset).contains(&end_offset) {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        let kept = self.segment_of(end_offset);
        let cut = self.segments[kept].batch_at(end_offset).transpose();
        let cut = self.storage(cut)?.filter(|batch| batch.header.base_offset < end_offset);
        while self.segments.len() > kept + 1 {
            if let Some(segment) = self.segments.pop_back() {
                self.storage(segment.remove())?;
            }
        }
        let truncated = self.segments[kept].truncate_to(end_offset);
        self.storage(truncated)?;
        let rest = cut.and_then(|batch| cleaner::records_below(&batch, end_offset));
        if let Some(rest) = rest {
            let appended = self.active().append(rest, 0);
            self.storage(appended)?;
        }
        self.end_offset = end_offset;
        self.cleaned_offset = self.cleaned_offset.min(end_offset);
        // Where compaction took the last records, nothing but a segment's name says where the log ends.
        if self.active().next_offset() != end_offset {
            self.roll()?;
        }
        self.high_watermark = self.high_watermark.min(end_offset);
        self.epochs.truncate_to(end_offset);
        self.learn_again()
    }

    /// What went wrong with a file, told in the log, as what a client hears of it.
    fn storage<T>(&self, result: io::Result<T>) -> Result<T, ErrorCode> {
        result.map_err(|error| {
            let place = self.segments.back().and_then(Segment::path).unwrap_or_else(|| "memory".as_ref());
            ::log::error!("{}: {error}", place.display());
            ErrorCode::KafkaStorageError
        })
    }
}

/// What a marker says.
#[derive(Copy, Clone, Debug)]
struct Marked {
    kind: ControlRecordType,
    coordinator_epoch: i32,
}

/// What the marker in a batch says, if it is one.
fn marker(batch: &Batch) -> Option<Marked> {
    if !batch.header.is_control() {
        return None;
    }
    let records = Records::new(&batch.header, &batch.payload);
    let kind = control_record(records.clone()).ok().flatten()?;
    let value = records.flatten().next()?.value?;
    let coordinator_epoch = value.get(2..6)?.try_into().map(i32::from_be_bytes).ok()?;
    Some(Marked { kind, coordinator_epoch })
}
