//! The log of a partition.
//!
//! A log has record batches in segments, and state that is derived from them: log start offset, high watermark, last
//! stable offset, producers, aborted transactions, and leader epochs. [`validate`] has the checks that a client's batch
//! must pass before.
//!
//! With a directory the batches are in files (`file.rs`). A batch is written before it is acknowledged, but not synced
//! to disk, as in Kafka. When the files are opened, the state is derived from the batches again, except for the log
//! start offset and the leader epochs.

mod batch;
mod cleaner;
mod compaction_conditions;
mod data_dir;
mod disk;
mod epochs;
mod file;
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
pub(crate) use compaction_conditions::CompactionConditions;
pub(crate) use data_dir::{DataDir, StoredPartition, StoredTopic};
use disk::Directory;
pub(crate) use disk::LogState;
pub(crate) use epochs::Epochs;
pub(crate) use file::OpenFiles;
pub(crate) use lookup::LogPosition;
pub(crate) use producers::Producers;
pub(crate) use retention::Retention;
use segment::Segment;
pub(crate) use segment::{Chunk, Piece};

/// The log of one partition.
#[derive(Debug)]
pub(crate) struct Log {
    /// Never empty. The last one is the active segment.
    segments: VecDeque<Segment>,
    start_offset: i64,
    end_offset: i64,
    high_watermark: i64,
    epochs: Epochs,
    producers: Producers,
    /// The aborted transactions, in the order of their markers.
    aborted: Vec<Aborted>,
    directory: Option<Directory>,
    /// The size in bytes after the last round of compaction.
    compacted_bytes: u64,
    /// The offset up to which the log was compacted; behind it, it is dirty.
    cleaned_offset: i64,
}

/// An aborted transaction.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Aborted {
    pub(crate) producer_id: i64,
    /// The offset of its first record.
    pub(crate) first_offset: i64,
    /// The offset of its marker.
    pub(crate) last_offset: i64,
}

/// The conditions under which an append begins a new segment.
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
            // A partition has a leader from the start, so its first epoch is known before it has records.
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
    /// The log start offset.
    pub(crate) fn start_offset(&self) -> i64 {
        self.start_offset
    }

    /// The log end offset: the offset of the next record.
    pub(crate) fn end_offset(&self) -> i64 {
        self.end_offset
    }

    /// The high watermark: the end of the committed records.
    pub(crate) fn high_watermark(&self) -> i64 {
        self.high_watermark
    }

    /// The last stable offset: the end of the committed records that no open transaction can change.
    pub(crate) fn last_stable_offset(&self) -> i64 {
        self.producers.first_open_offset().map_or(self.high_watermark, |open| open.min(self.high_watermark))
    }

    pub(crate) fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    pub(crate) fn producers(&self) -> &Producers {
        &self.producers
    }

    /// Removes producers without a write for `expiration_ms` and without an open transaction.
    pub(crate) fn expire_producers(&mut self, now_ms: i64, expiration_ms: i64) {
        self.producers.expire(now_ms, expiration_ms);
    }

    /// The size of all batches in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.iter().map(Segment::bytes).sum()
    }

    /// All batches with records from the log start offset on, oldest first.
    pub(crate) fn batches(&self) -> impl Iterator<Item = Result<Batch, ErrorCode>> {
        let batches = self.segments.iter().flat_map(|segment| segment.batches().map(|batch| self.storage(batch)));
        batches.filter(|batch| batch.as_ref().map_or(true, |batch| batch.header.last_offset() >= self.start_offset))
    }

    /// The headers of the batches with records from an offset on, up to batches that begin at `end_offset`.
    pub(crate) fn headers_between(&self, offset: i64, end_offset: i64) -> impl Iterator<Item = &BatchHeader> {
        let headers = self.segments.range(self.segment_of(offset)..).flat_map(Segment::headers);
        headers
            .skip_while(move |header| header.last_offset() < offset)
            .take_while(move |header| header.base_offset < end_offset)
    }

    /// The batch that contains an offset, or else the next one of its segment.
    ///
    /// # Errors
    /// KAFKA_STORAGE_ERROR.
    pub(crate) fn batch_at(&self, offset: i64) -> Result<Option<Batch>, ErrorCode> {
        self.storage(self.segments[self.segment_of(offset)].batch_at(offset).transpose())
    }

    /// Begins a leader epoch at the log end offset, whether or not anything is written in it.
    pub(crate) fn begin_epoch(&mut self, epoch: i32) {
        self.epochs.begin(epoch, self.end_offset);
    }

    /// Advances the high watermark to the log end offset.
    pub(crate) fn commit_to_end(&mut self) {
        self.high_watermark = self.end_offset;
    }

    /// Appends a batch: assigns its offsets and leader epoch, and updates the state of producers and transactions. The
    /// caller has checked the producer's state.
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

    /// Updates the state of producers and transactions with a batch.
    fn learn(&mut self, header: &BatchHeader, marker: Option<EndTransactionMarker>) {
        if header.producer_id < 0 {
            return;
        }
        if !header.is_control() {
            return self.producers.appended(header);
        }
        // Compaction may have emptied the batch of the marker, when the whole transaction was removed.
        let Some(marker) = marker else { return };
        let first_offset = self.producers.ended(header, marker.coordinator_epoch);
        if let Some(first_offset) = first_offset.filter(|_| marker.kind == ControlRecordType::Abort) {
            let (producer_id, last_offset) = (header.producer_id, header.last_offset());
            self.aborted.push(Aborted { producer_id, first_offset, last_offset });
        }
    }

    /// Derives the state of producers and transactions from the batches again.
    fn learn_again(&mut self) -> Result<(), ErrorCode> {
        self.producers = Producers::default();
        self.aborted.clear();
        let segments = std::mem::take(&mut self.segments);
        let mut failed = None;
        for segment in &segments {
            for header in segment.headers() {
                // The header of the others is enough.
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
        // Kafka's segments cannot contain offsets further than this from their base offset.
        let far = header.last_offset() - active.base_offset > i64::from(i32::MAX);
        if full || age_ms > rolling.segment_ms || far { self.roll() } else { Ok(()) }
    }

    /// Begins a new segment, unless the active one is empty.
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

    /// The number of segments other than the active one.
    pub(crate) fn closed_segments(&self) -> usize {
        self.segments.len() - 1
    }

    /// The index of the segment that contains, or would contain, an offset.
    fn segment_of(&self, offset: i64) -> usize {
        self.segments.partition_point(|segment| segment.base_offset <= offset).saturating_sub(1)
    }

    /// Reads bytes from an offset on (see [`Segment::read`]), as in Kafka from one segment only.
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

    /// The number of bytes between two offsets: what a fetch would read without its limits.
    pub(crate) fn bytes_between(&self, offset: i64, end_offset: i64) -> u64 {
        if offset >= end_offset {
            return 0;
        }
        let segments =
            self.segments.range(self.segment_of(offset)..).take_while(|segment| segment.base_offset < end_offset);
        segments.map(|segment| segment.position_of(end_offset) - segment.position_of(offset)).sum()
    }

    /// The aborted transactions with records in a range of offsets.
    pub(crate) fn aborted_between(&self, offset: i64, end_offset: i64) -> impl Iterator<Item = Aborted> {
        let first = self.aborted.partition_point(|aborted| aborted.last_offset < offset);
        self.aborted[first..].iter().filter(move |aborted| aborted.first_offset < end_offset).copied()
    }

    /// Truncates the log to an end offset, as an unclean election does. A batch that contains the offset loses its
    /// later records.
    ///
    /// # Errors
    /// OFFSET_OUT_OF_RANGE if the offset is outside the log, KAFKA_STORAGE_ERROR.
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
            let modified_ms = self.active().modified_ms();
            let appended = self.active().append(rest, modified_ms);
            self.storage(appended)?;
        }
        self.end_offset = end_offset;
        self.cleaned_offset = self.cleaned_offset.min(end_offset);
        // If compaction removed the last records, only the base offset of a new segment stores where the log ends.
        if self.active().next_offset() != end_offset {
            self.roll()?;
        }
        self.high_watermark = self.high_watermark.min(end_offset);
        self.epochs.truncate_to(end_offset);
        self.learn_again()
    }

    /// Logs an error of a file, and turns it into KAFKA_STORAGE_ERROR for the client.
    fn storage<T>(&self, result: io::Result<T>) -> Result<T, ErrorCode> {
        result.map_err(|error| {
            let place = self.segments.back().and_then(Segment::path).unwrap_or_else(|| "memory".as_ref());
            ::log::error!("{}: {error}", place.display());
            ErrorCode::KafkaStorageError
        })
    }
}

/// The content of a transaction marker.
#[derive(Copy, Clone, Debug)]
struct EndTransactionMarker {
    kind: ControlRecordType,
    coordinator_epoch: i32,
}

/// The transaction marker in a batch; `None` if it has none.
fn marker(batch: &Batch) -> Option<EndTransactionMarker> {
    if !batch.header.is_control() {
        return None;
    }
    let records = Records::new(&batch.header, &batch.payload);
    let kind = control_record(records.clone()).ok().flatten()?;
    let value = records.flatten().next()?.value?;
    let coordinator_epoch = value.get(2..6)?.try_into().map(i32::from_be_bytes).ok()?;
    Some(EndTransactionMarker { kind, coordinator_epoch })
}
