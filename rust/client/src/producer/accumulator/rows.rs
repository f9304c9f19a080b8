//! Rows of a table into open batches: one lock for all rows of a partition, nothing allocated for a row.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use monedula_protocol::records::{Header, NewRecord};

use super::super::receipt::Sent;
use super::super::record::{Record, Refused};
use super::super::report::{Report, Rows, Share};
use super::super::table::{Chunk, Values};
use super::{Accumulator, KnownTopic, Slot, Topic, now_ms};
use crate::error::ClientError;

/// Rows of a table that may wait for topics to be known: each costs more than its bytes, while it waits.
const MAX_PARKED_ROWS: u64 = 16 << 10;

/// Why not all rows of a chunk were taken.
pub(in crate::producer) enum Stopped {
    /// There is no room for the next one.
    Full { needed: usize },
    /// Enough rows wait for their topic to be known.
    Lookup,
    /// No more can be taken at all.
    Error(ClientError),
}

impl From<Refused> for Stopped {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Full { needed } => Self::Full { needed },
            Refused::Error(error) => Self::Error(error),
        }
    }
}

/// What rows have in common while they are appended.
struct Source<'a, 'b> {
    values: &'a Values<'b>,
    report: &'a Arc<Report>,
    sent_in: u64,
    now_ms: i64,
}

impl<'b> Source<'_, 'b> {
    #[inline(always)]
    fn record<'h>(&self, row: u32, headers: &'h mut Vec<Header<'b>>) -> NewRecord<'h> {
        let at = row as usize;
        if let Some(column) = &self.values.headers {
            column.get(at, headers);
        }
        let timestamp_ms = self.values.timestamp.as_ref().and_then(|times| times.get(at)).unwrap_or(self.now_ms);
        NewRecord { timestamp_ms, key: self.values.key.get(at), value: self.values.value.get(at), headers }
    }
}

impl Accumulator {
    /// Takes the rows of a chunk. Those that were taken, or that failed, are gone from it.
    ///
    /// # Errors
    /// Why some are left.
    pub(in crate::producer) fn send_rows(
        &self,
        values: &Values<'_>,
        chunk: &mut Chunk,
        report: &Arc<Report>,
        sent_in: u64,
    ) -> Result<(), Stopped> {
        let source = Source { values, report, sent_in, now_ms: now_ms() };
        while let Some((name, rows)) = chunk.runs.pop_front() {
            let topics = match self.topics_to_send(Some(sent_in)) {
                Ok(topics) => topics,
                Err(error) => {
                    chunk.runs.push_front((name, rows));
                    return Err(Stopped::Error(error));
                }
            };
            let (left, stopped) = match topics.get(&name) {
                Some(Topic::Known(topic)) => self.rows_to_known(topic, &source, chunk, rows),
                _ => {
                    drop(topics);
                    self.rows_to_parked(&name, &source, chunk, rows)
                }
            };
            if let Some(stopped) = stopped {
                chunk.runs.push_front((name, left));
                if matches!(stopped, Stopped::Full { .. }) {
                    self.is_exhausted();
                }
                return Err(stopped);
            }
        }
        Ok(())
    }

    /// Rows of a topic whose partitions are known. Gives back what was not taken, and why.
    fn rows_to_known(
        &self,
        topic: &KnownTopic,
        source: &Source<'_, '_>,
        chunk: &mut Chunk,
        rows: Vec<u32>,
    ) -> (Vec<u32>, Option<Stopped>) {
        let (keys, given) = (&source.values.key, &source.values.partition);
        if given.is_none() && keys.is_all_null() && self.partitioner.hash(None).is_none() {
            return self.rows_to_sticky(topic, source, chunk, rows);
        }
        // Drawn rows are mixed with those of a given partition: in each, the rows keep the order of the table, also where
        // there was no room for some of them until now.
        let before = std::mem::take(&mut chunk.drawn);
        let mut drawn = Vec::new();
        let mut by_partition: Vec<Vec<u32>> = vec![Vec::new(); topic.partitions as usize];
        let mut rows = rows.into_iter();
        while let Some(row) = rows.next() {
            let at = row as usize;
            let chosen = given.as_ref().and_then(|partitions| partitions.get(at));
            let chosen = chosen.or_else(|| self.partitioner.partition(keys.get(at), topic.partitions));
            let partition = chosen.unwrap_or_else(|| {
                let partition = self.draw(topic, &before, row, || bytes_of(keys.get(at), source.values.value.get(at)));
                drawn.push((row, partition));
                partition
            });
            match usize::try_from(partition).ok().and_then(|index| by_partition.get_mut(index)) {
                Some(rows) => rows.push(row),
                None => {
                    if let Some(stopped) = self.row_beyond(topic, source, chunk, row, partition) {
                        let mut left = in_order(by_partition);
                        left.push(row);
                        left.extend(rows);
                        drawn.extend(before.iter().filter(|(later, _)| *later > row));
                        chunk.drawn = drawn;
                        return (left, Some(stopped));
                    }
                }
            }
        }
        let mut partitions = topic.slots.iter().zip(by_partition);
        while let Some((slot, mut rows)) = partitions.next() {
            let (taken, _, stopped) = self.append_rows(topic, slot, source, chunk, &rows, usize::MAX);
            if stopped.is_some() {
                rows.drain(..taken);
                chunk.drawn = drawn;
                return (in_order(std::iter::once(rows).chain(partitions.map(|(_, rows)| rows))), stopped);
            }
        }
        (Vec::new(), None)
    }

    /// Where a row goes that may go anywhere: where it was to go when there was no room for it, else to the next partition.
    fn draw(&self, topic: &KnownTopic, before: &[(u32, i32)], row: u32, bytes: impl Fn() -> usize) -> i32 {
        // A topic made anew meanwhile may have fewer partitions.
        let drawn = before.binary_search_by_key(&row, |(row, _)| *row).ok().map(|at| before[at].1);
        if let Some(partition) = drawn.filter(|&partition| partition.cast_unsigned() < topic.partitions) {
            return partition;
        }
        let partition = self.sticky(topic);
        topic.went(bytes());
        partition
    }

    /// A row of a partition that is not known: it waits until metadata was asked, like a single record. Says why it cannot.
    fn row_beyond(
        &self,
        topic: &KnownTopic,
        source: &Source<'_, '_>,
        chunk: &Chunk,
        row: u32,
        partition: i32,
    ) -> Option<Stopped> {
        let number = chunk.of_table(row);
        if source.report.progress().parked >= MAX_PARKED_ROWS {
            return Some(Stopped::Lookup);
        }
        let mut headers = Vec::new();
        let record = source.record(row, &mut headers);
        match self.park_beyond(topic, partition, None, &record) {
            Ok(sent) => source.parked(number, &sent),
            Err(Refused::Error(error)) if !ends_all(&error) => {
                source.report.refused(number, 1, error);
            }
            Err(refused) => return Some(refused.into()),
        }
        None
    }

    /// Rows that may go anywhere: a batch's worth of bytes to one partition, then to another (KIP-794).
    fn rows_to_sticky(
        &self,
        topic: &KnownTopic,
        source: &Source<'_, '_>,
        chunk: &Chunk,
        mut rows: Vec<u32>,
    ) -> (Vec<u32>, Option<Stopped>) {
        let mut done = 0;
        while done < rows.len() {
            let slot = match topic.slot(self.sticky(topic)) {
                Ok(slot) => slot,
                Err(error) => return (rows.split_off(done), Some(Stopped::Error(error))),
            };
            let worth = self.batch_bytes.saturating_sub(topic.sticky_bytes.load(Ordering::Relaxed));
            let (taken, bytes, stopped) = self.append_rows(topic, slot, source, chunk, &rows[done..], worth);
            topic.went(bytes);
            done += taken;
            if stopped.is_some() {
                return (rows.split_off(done), stopped);
            }
        }
        (Vec::new(), None)
    }

    /// Rows of one partition, until `max_bytes` of them or more. Says how many were taken, about how many bytes they
    /// have, and why not more.
    fn append_rows(
        &self,
        topic: &KnownTopic,
        slot: &Slot,
        source: &Source<'_, '_>,
        chunk: &Chunk,
        rows: &[u32],
        max_bytes: usize,
    ) -> (usize, usize, Option<Stopped>) {
        let mut headers = Vec::new();
        let (mut first, mut mine) = (0, Rows::default());
        let (mut taken, mut bytes) = (0, 0);
        let mut state = slot.state();
        let mut stopped = None;
        for &row in rows {
            let record = source.record(row, &mut headers);
            let appended = match &mut state.open {
                Some(open) => open.append(&record, self.batch_bytes).ok(),
                None => None,
            };
            let index = match appended {
                Some(index) => index,
                None => {
                    // The batch may be closed in what follows: who is told of its rows has to be known before.
                    if let Some(open) = &state.open {
                        source.share(&open.receipt, first, &mut mine);
                    }
                    match self.append(topic, slot, &mut state, &record, None) {
                        Ok((index, _)) => index,
                        Err(Refused::Error(error @ ClientError::RecordTooLarge { .. })) => {
                            source.report.refused(chunk.of_table(row), 1, error);
                            taken += 1;
                            continue;
                        }
                        Err(refused) => {
                            stopped = Some(refused.into());
                            break;
                        }
                    }
                }
            };
            if mine.count() == 0 {
                first = index;
            }
            mine.push(chunk.of_table(row));
            taken += 1;
            bytes += bytes_of(record.key, record.value);
            if bytes >= max_bytes {
                break;
            }
        }
        if let Some(open) = &state.open {
            source.share(&open.receipt, first, &mut mine);
        }
        (taken, bytes, stopped)
    }

    /// Rows of a topic that is not known yet: they wait for it like single records, a limited number of them.
    fn rows_to_parked(
        &self,
        name: &Arc<str>,
        source: &Source<'_, '_>,
        chunk: &Chunk,
        mut rows: Vec<u32>,
    ) -> (Vec<u32>, Option<Stopped>) {
        let mut headers = Vec::new();
        for (done, &row) in rows.iter().enumerate() {
            let number = chunk.of_table(row);
            let missing = source.report.progress().missing.get(name).cloned();
            if let Some(error) = missing {
                source.report.refused(number, 1, error);
                continue;
            }
            if source.report.progress().parked >= MAX_PARKED_ROWS {
                return (rows.split_off(done), Some(Stopped::Lookup));
            }
            let new = source.record(row, &mut headers);
            let partition = source.values.partition.as_ref().and_then(|partitions| partitions.get(row as usize));
            let (timestamp_ms, key, value) = (Some(new.timestamp_ms), new.key, new.value);
            let (headers, sent_in) = (new.headers, Some(source.sent_in));
            let record = Record { topic: name, partition, timestamp_ms, key, value, headers, since: None, sent_in };
            match self.send(&record) {
                Ok(sent) => source.parked(number, &sent),
                Err(Refused::Error(error)) if !ends_all(&error) => {
                    source.report.refused(number, 1, error);
                }
                Err(refused) => return (rows.split_off(done), Some(refused.into())),
            }
        }
        (Vec::new(), None)
    }
}

/// Whether an error is not about the record: no other could be sent either.
fn ends_all(error: &ClientError) -> bool {
    matches!(error, ClientError::ProducerClosed | ClientError::Transaction(_) | ClientError::Delivery(_))
}

/// About what a record has beside its key and value.
const RECORD_OVERHEAD_BYTES: usize = 8;

fn bytes_of(key: Option<&[u8]>, value: Option<&[u8]>) -> usize {
    key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len) + RECORD_OVERHEAD_BYTES
}

/// Rows of many partitions as the table has them: a row may find another partition when it is tried again.
fn in_order(by_partition: impl IntoIterator<Item = Vec<u32>>) -> Vec<u32> {
    let mut rows: Vec<u32> = by_partition.into_iter().flatten().collect();
    rows.sort_unstable();
    rows
}

impl Source<'_, '_> {
    /// Has the report told of a row that waits.
    fn parked(&self, row: u64, sent: &Sent) {
        self.report.progress().parked += 1;
        let (report, outcome) = (self.report.clone(), sent.clone());
        sent.on_done(move || report.parked_done(row, outcome.try_outcome()));
    }

    /// Has the report told of rows that are the records from `first` on of an open batch. Under the batch's lock: it
    /// cannot be done before.
    fn share(&self, receipt: &super::super::receipt::Receipt, first: u32, rows: &mut Rows) {
        if rows.count() > 0 {
            let rows = Arc::new(std::mem::take(rows));
            receipt.share(Share { report: self.report.clone(), first, rows });
        }
    }
}
