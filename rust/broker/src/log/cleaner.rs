//! Compaction: keeps the latest record of each key. Offsets do not change.
//!
//! As Kafka's cleaner: records of aborted transactions are removed. Tombstones, and markers of transactions without
//! remaining records, are removed `delete.retention.ms` after a round has first seen them (KIP-534: the batch stores
//! that time as its delete horizon). The last batch of a producer stays, without records, so that its sequence numbers
//! continue.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use monedula_protocol::compression::Compressor;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::records::varint::{write_i32, write_i64};
use monedula_protocol::records::{
    BATCH_HEADER_BYTES, BatchHeader, LOG_OVERHEAD_BYTES, NO_TIMESTAMP, RawRecord, TimestampType,
};

use super::lookup::decompressed;
use super::segment::Segment;
use super::{Batch, Log};

#[derive(Copy, Clone, Debug)]
pub(crate) struct Cleaning {
    pub(crate) now_ms: i64,
    pub(crate) delete_retention_ms: i64,
    /// Segments with younger records are not compacted; milliseconds.
    pub(crate) min_lag_ms: i64,
    /// Compacted segments are merged up to this size.
    pub(crate) segment_bytes: u64,
}

/// The findings of a round before it rewrites batches.
struct Plan {
    cleaning: Cleaning,
    /// Records from this offset on are not compacted.
    end_offset: i64,
    /// The last offset of each key.
    latest: HashMap<Vec<u8>, i64>,
    /// Producers and the ranges of their aborted transactions.
    aborted: HashMap<i64, Vec<(i64, i64)>>,
    /// The last batch of each known producer: its last offset, or, if only a marker is known, the epoch of that.
    last_batches: HashMap<i64, Result<i64, i16>>,
    /// Producers of which this round has seen transactional records, but not yet the marker that ends the transaction.
    seen: HashSet<i64>,
}

impl Log {
    /// Compacts everything that neither an open transaction nor min.compaction.lag.ms protects, including the active
    /// segment.
    ///
    /// # Errors
    /// KAFKA_STORAGE_ERROR.
    pub(crate) fn compact(&mut self, cleaning: Cleaning) -> Result<(), ErrorCode> {
        self.roll()?;
        let young = cleaning.now_ms.saturating_sub(cleaning.min_lag_ms);
        let old = |segment: &&Segment| cleaning.min_lag_ms <= 0 || segment.age_from_ms() <= young;
        let count = self.segments.iter().take(self.closed_segments()).take_while(old).count();
        self.clean(cleaning, count)
    }

    /// Compacts the first `count` segments, none of which is the active one.
    ///
    /// # Errors
    /// KAFKA_STORAGE_ERROR.
    pub(super) fn clean(&mut self, cleaning: Cleaning, count: usize) -> Result<(), ErrorCode> {
        let end_offset = self.segments.get(count).map_or(0, |next| next.base_offset).min(self.last_stable_offset());
        let mut plan = self.plan(cleaning, count, end_offset)?;
        let mut cleaned = Vec::new();
        for index in 0..count {
            let mut batches = Vec::new();
            for batch in self.segments[index].batches() {
                batches.extend(plan.clean(self.storage(batch)?));
            }
            cleaned.push(batches);
        }
        self.put_together(cleaned, cleaning.segment_bytes)?;
        self.compacted_bytes = self.bytes();
        self.cleaned_offset = end_offset;
        Ok(())
    }

    /// True if the log is larger than `min_bytes` and than twice its size after the last round.
    pub(crate) fn wants_compaction(&self, min_bytes: u64) -> bool {
        self.bytes() > min_bytes.max(2 * self.compacted_bytes)
    }

    fn plan(&self, cleaning: Cleaning, segments: usize, end_offset: i64) -> Result<Plan, ErrorCode> {
        let mut plan = Plan {
            cleaning,
            end_offset,
            latest: HashMap::new(),
            aborted: HashMap::new(),
            last_batches: self.producers.last_batches().collect(),
            seen: HashSet::new(),
        };
        for aborted in &self.aborted {
            let range = (aborted.first_offset, aborted.last_offset);
            plan.aborted.entry(aborted.producer_id).or_default().push(range);
        }
        for batch in self.segments.iter().take(segments).flat_map(Segment::batches) {
            let batch = self.storage(batch)?;
            if batch.header.is_control() || plan.is_aborted(&batch.header) {
                continue;
            }
            let Some(payload) = decompressed(&batch) else { continue };
            for (offset, record) in raw_records(&batch.header, &payload) {
                if let Some(key) = record.key.filter(|_| offset < end_offset) {
                    plan.latest.insert(key.to_vec(), offset);
                }
            }
        }
        Ok(plan)
    }

    /// Replaces the first segments by their cleaned batches, and merges neighbours that fit into one segment.
    fn put_together(&mut self, cleaned: Vec<Vec<Batch>>, segment_bytes: u64) -> Result<(), ErrorCode> {
        let mut groups: Vec<(usize, u64, Vec<Batch>)> = Vec::new();
        for batches in cleaned {
            let bytes = batches.iter().map(|batch| batch.total_bytes() as u64).sum::<u64>();
            match groups.last_mut() {
                Some((segments, total, group)) if *total + bytes <= segment_bytes => {
                    *segments += 1;
                    *total += bytes;
                    group.extend(batches);
                }
                _ => groups.push((1, bytes, batches)),
            }
        }
        // From the last to the first, so that the indexes of those before stay valid.
        let mut end = groups.iter().map(|(segments, ..)| segments).sum::<usize>();
        for (segments, _, batches) in groups.into_iter().rev() {
            let old = end - segments..end;
            end -= segments;
            let base_offset = self.segments[old.start].base_offset;
            let next_base_offset = self.segments[old.end].base_offset;
            let merged = match &self.directory {
                Some(directory) => {
                    let written = directory.write_merged(base_offset, next_base_offset, &batches);
                    Segment::of(base_offset, self.storage(written)?, batches)
                }
                None => Segment::of(base_offset, None, batches),
            };
            self.segments.drain(old.clone());
            if !merged.is_empty() || old.start == 0 {
                self.segments.insert(old.start, merged);
            } else {
                self.storage(merged.remove())?;
            }
        }
        Ok(())
    }
}

impl Plan {
    fn is_aborted(&self, header: &BatchHeader) -> bool {
        let ranges = self.aborted.get(&header.producer_id).filter(|_| header.is_transactional());
        ranges.is_some_and(|ranges| ranges.iter().any(|&(first, last)| (first..=last).contains(&header.base_offset)))
    }

    /// The batch without the records that compaction removes; `None` if nothing of it is kept.
    fn clean(&mut self, batch: Batch) -> Option<Batch> {
        let header = batch.header;
        if header.base_offset >= self.end_offset {
            return Some(batch);
        }
        let horizon_over = header.has_delete_horizon() && header.base_timestamp <= self.cleaning.now_ms;
        let keeps_empty = header.next_offset() == self.end_offset || self.is_last_of_producer(&header);
        if header.is_control() {
            // Idle: this round has seen no records of the transaction.
            let idle = !self.seen.remove(&header.producer_id);
            if idle && horizon_over {
                return keeps_empty.then(|| empty(&header));
            }
            return if idle && !header.has_delete_horizon() { self.with_horizon(&batch) } else { Some(batch) };
        }
        let aborted = self.is_aborted(&header);
        if header.is_transactional() {
            self.seen.insert(header.producer_id);
        }
        let Some(payload) = decompressed(&batch).filter(|_| !aborted) else {
            return keeps_empty.then(|| empty(&header));
        };
        let stays = |&(offset, record): &(i64, RawRecord<'_>)| {
            let latest = record.key.and_then(|key| self.latest.get(key));
            offset >= self.end_offset
                || latest.is_some_and(|&latest| offset >= latest) && (record.value.is_some() || !horizon_over)
        };
        let kept: Vec<_> = raw_records(&header, &payload).filter(stays).collect();
        if kept.is_empty() {
            return keeps_empty.then(|| empty(&header));
        }
        let tombstones = kept.iter().any(|(_, record)| record.value.is_none());
        let needs_horizon = tombstones && !header.has_delete_horizon();
        if kept.len() == header.record_count as usize && !needs_horizon {
            return Some(batch);
        }
        rewritten(&header, &kept, needs_horizon.then(|| self.horizon()))
    }

    fn horizon(&self) -> i64 {
        self.cleaning.now_ms.saturating_add(self.cleaning.delete_retention_ms)
    }

    fn with_horizon(&self, batch: &Batch) -> Option<Batch> {
        let payload = decompressed(batch)?;
        let records: Vec<_> = raw_records(&batch.header, &payload).collect();
        rewritten(&batch.header, &records, Some(self.horizon()))
    }

    fn is_last_of_producer(&self, header: &BatchHeader) -> bool {
        match self.last_batches.get(&header.producer_id).filter(|_| header.producer_id >= 0) {
            Some(Ok(last_offset)) => header.last_offset() == *last_offset,
            Some(Err(epoch)) => header.is_control() && header.producer_epoch == *epoch,
            None => false,
        }
    }
}

/// The records of a batch, with their offsets.
fn raw_records<'p>(header: &BatchHeader, payload: &'p [u8]) -> impl Iterator<Item = (i64, RawRecord<'p>)> {
    let base_offset = header.base_offset;
    let mut position = 0;
    (0..header.record_count).map_while(move |_| {
        let (record, next) = RawRecord::parse(payload, position).ok()?;
        position = next;
        Some((base_offset + i64::from(record.offset_delta), record))
    })
}

/// The batch with other records than it had, at their old offsets.
fn rewritten(header: &BatchHeader, records: &[(i64, RawRecord<'_>)], horizon: Option<i64>) -> Option<Batch> {
    let mut new = *header;
    if let Some(horizon) = horizon {
        new.set_delete_horizon(horizon);
    }
    let (mut payload, mut body) = (Vec::new(), Vec::new());
    let mut largest_timestamp_ms = NO_TIMESTAMP;
    for (_, record) in records {
        let created_ms = header.base_timestamp.saturating_add(record.timestamp_delta);
        largest_timestamp_ms = largest_timestamp_ms.max(created_ms);
        body.clear();
        body.push(0);
        write_i64(&mut body, created_ms.wrapping_sub(new.base_timestamp));
        write_i32(&mut body, record.offset_delta);
        for field in [record.key, record.value] {
            write_i32(&mut body, field.map_or(-1, |field| field.len() as i32));
            body.extend_from_slice(field.unwrap_or_default());
        }
        body.extend_from_slice(record.headers);
        write_i32(&mut payload, body.len() as i32);
        payload.extend_from_slice(&body);
    }
    let mut compressed = Vec::new();
    Compressor::new().compress(header.compression(), None, &payload, &mut compressed).ok()?;
    if header.timestamp_type() == TimestampType::CreateTime {
        new.max_timestamp = largest_timestamp_ms;
    }
    new.record_count = records.len() as i32;
    new.batch_length = (BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES + compressed.len()) as i32;
    new.crc = new.crc_over(&compressed);
    Some(Batch { header: new, payload: compressed.into() })
}

/// The batch without records, which keeps its offsets and sequence numbers occupied.
fn empty(header: &BatchHeader) -> Batch {
    let mut new = *header;
    new.set_compression(monedula_protocol::compression::Compression::None);
    new.record_count = 0;
    new.batch_length = (BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES) as i32;
    new.crc = new.crc_over(&[]);
    Batch { header: new, payload: Bytes::new() }
}

/// The records of a batch below an offset, as a batch that ends there; `None` if there are none.
pub(super) fn records_below(batch: &Batch, end_offset: i64) -> Option<Batch> {
    let payload = decompressed(batch)?;
    let kept: Vec<_> = raw_records(&batch.header, &payload).take_while(|&(offset, _)| offset < end_offset).collect();
    let mut header = batch.header;
    header.last_offset_delta = (end_offset - 1 - header.base_offset) as i32;
    match kept.is_empty() {
        true => None,
        false => rewritten(&header, &kept, None),
    }
}
