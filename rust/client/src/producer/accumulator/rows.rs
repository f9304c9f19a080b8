//! Appends rows of a table to open batches: takes a partition's lock once for all its rows, and allocates nothing for a
//! row.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use monedula_protocol::records::{Header, NewRecord};

use super::super::receipt::{Receipt, RecordFuture};
use super::super::record::{Record, Refused};
use super::super::table::{BatchRows, Chunk, ColumnValues, Report, Rows, Stopped};
use super::topic::{KnownTopic, Partition, Topic};
use super::{Accumulator, now_ms};
use crate::error::ClientError;

/// Number of a table's rows that may wait for their topics' metadata: such a row costs more memory than its bytes.
const MAX_ROWS_AWAITING_METADATA: u64 = 16 << 10;

struct RowSource<'a, 'b> {
    values: &'a ColumnValues<'b>,
    report: &'a Arc<Report>,
    sent_in: u64,
    now_ms: i64,
}

impl<'b> RowSource<'_, 'b> {
    #[inline(always)]
    fn record<'h>(&self, row: u32, headers: &'h mut Vec<Header<'b>>) -> NewRecord<'h> {
        let at = row as usize;
        self.values.headers(at, headers);
        let timestamp_ms = self.values.timestamp.as_ref().and_then(|times| times.get(at)).unwrap_or(self.now_ms);
        NewRecord { timestamp_ms, key: self.values.key.get(at), value: self.values.value.get(at), headers }
    }
}

impl Accumulator {
    /// Sends the rows of a chunk. Rows that were taken, or that failed, are removed from it.
    ///
    /// # Errors
    /// Reason that rows are left.
    pub(in crate::producer) fn send_rows(
        &self,
        values: &ColumnValues<'_>,
        chunk: &mut Chunk,
        report: &Arc<Report>,
        sent_in: u64,
    ) -> Result<(), Stopped> {
        let source = RowSource { values, report, sent_in, now_ms: now_ms() };
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
                    self.rows_to_unknown_topic(&name, &source, chunk, rows)
                }
            };
            if let Some(stopped) = stopped {
                chunk.runs.push_front((name, left));
                if matches!(stopped, Stopped::Full { .. }) {
                    self.report_exhausted();
                }
                return Err(stopped);
            }
        }
        Ok(())
    }

    /// Sends rows of a topic whose partitions are known. Returns the rows that were not taken, and the reason.
    fn rows_to_known(
        &self,
        topic: &KnownTopic,
        source: &RowSource<'_, '_>,
        chunk: &mut Chunk,
        rows: Vec<u32>,
    ) -> (Vec<u32>, Option<Stopped>) {
        let (keys, given) = (&source.values.key, &source.values.partition);
        if given.is_none() && keys.is_all_null() && self.partitioner.hash(None).is_none() {
            return self.rows_to_sticky(topic, source, chunk, rows);
        }
        // Rows whose partition is drawn are mixed with rows that name theirs. In each partition they keep the order of
        // the table, including rows that had no room until now.
        let drawn_before = std::mem::take(&mut chunk.drawn);
        let mut drawn = Vec::new();
        let mut by_partition: Vec<Vec<u32>> = vec![Vec::new(); topic.partition_count as usize];
        let mut rows = rows.into_iter();
        while let Some(row) = rows.next() {
            let at = row as usize;
            let chosen = given.as_ref().and_then(|partitions| partitions.get(at));
            let chosen = chosen.or_else(|| self.partitioner.partition(keys.get(at), topic.partition_count));
            let partition = chosen.unwrap_or_else(|| {
                let partition =
                    self.draw(topic, &drawn_before, row, || bytes_of(keys.get(at), source.values.value.get(at)));
                drawn.push((row, partition));
                partition
            });
            match usize::try_from(partition).ok().and_then(|index| by_partition.get_mut(index)) {
                Some(rows) => rows.push(row),
                None => {
                    if let Some(stopped) = self.row_to_unknown_partition(topic, source, chunk, row, partition) {
                        let mut left = in_order(by_partition);
                        left.push(row);
                        left.extend(rows);
                        drawn.extend(drawn_before.iter().filter(|(later, _)| *later > row));
                        chunk.drawn = drawn;
                        return (left, Some(stopped));
                    }
                }
            }
        }
        let mut partitions = topic.partitions.iter().zip(by_partition);
        while let Some((partition, mut rows)) = partitions.next() {
            let (taken, _, stopped) = self.append_rows(topic, partition, source, chunk, &rows, usize::MAX);
            if stopped.is_some() {
                rows.drain(..taken);
                chunk.drawn = drawn;
                return (in_order(std::iter::once(rows).chain(partitions.map(|(_, rows)| rows))), stopped);
            }
        }
        (Vec::new(), None)
    }

    /// Draws a partition for a row: the one drawn before if the row had no room then, else the sticky one.
    fn draw(&self, topic: &KnownTopic, drawn_before: &[(u32, i32)], row: u32, bytes: impl Fn() -> usize) -> i32 {
        // A recreated topic may have fewer partitions.
        let drawn = drawn_before.binary_search_by_key(&row, |(row, _)| *row).ok().map(|at| drawn_before[at].1);
        if let Some(partition) = drawn.filter(|&partition| partition.cast_unsigned() < topic.partition_count) {
            return partition;
        }
        let partition = self.sticky(topic);
        topic.add_sticky_bytes(bytes());
        partition
    }

    /// Sends a row of a partition that is not known. It waits for metadata, like a single record. Returns why it
    /// cannot.
    fn row_to_unknown_partition(
        &self,
        topic: &KnownTopic,
        source: &RowSource<'_, '_>,
        chunk: &Chunk,
        row: u32,
        partition: i32,
    ) -> Option<Stopped> {
        let number = chunk.table_row(row);
        if source.report.progress().awaiting_metadata >= MAX_ROWS_AWAITING_METADATA {
            return Some(Stopped::TopicUnknown);
        }
        let mut headers = Vec::new();
        let record = source.record(row, &mut headers);
        match self.keep_for_partition(topic, partition, None, &record) {
            Ok(sent) => source.report_when_done(number, &sent),
            Err(Refused::Error(error)) if !fails_all(&error) => {
                source.report.refused(number, 1, error);
            }
            Err(refused) => return Some(refused.into()),
        }
        None
    }

    /// Sends rows without a key: `batch.size` bytes to one partition, then to another one (KIP-794).
    fn rows_to_sticky(
        &self,
        topic: &KnownTopic,
        source: &RowSource<'_, '_>,
        chunk: &Chunk,
        mut rows: Vec<u32>,
    ) -> (Vec<u32>, Option<Stopped>) {
        let mut done = 0;
        while done < rows.len() {
            let partition = match topic.partition(self.sticky(topic)) {
                Ok(partition) => partition,
                Err(error) => return (rows.split_off(done), Some(Stopped::Error(error))),
            };
            let worth = self.batch_bytes.saturating_sub(topic.sticky_bytes.load(Ordering::Relaxed));
            let (taken, bytes, stopped) = self.append_rows(topic, partition, source, chunk, &rows[done..], worth);
            topic.add_sticky_bytes(bytes);
            done += taken;
            if stopped.is_some() {
                return (rows.split_off(done), stopped);
            }
        }
        (Vec::new(), None)
    }

    /// Appends rows to one partition, until they have `max_bytes` or more. Returns the number of rows taken, their size
    /// in bytes, approximately, and the reason that not all were taken.
    fn append_rows(
        &self,
        topic: &KnownTopic,
        partition: &Partition,
        source: &RowSource<'_, '_>,
        chunk: &Chunk,
        rows: &[u32],
        max_bytes: usize,
    ) -> (usize, usize, Option<Stopped>) {
        let mut headers = Vec::new();
        let (mut first, mut own) = (0, Rows::default());
        let (mut taken, mut bytes) = (0, 0);
        let mut state = partition.state();
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
                    // The following call may close the batch, so its rows are added to the report before.
                    if let Some(open) = &state.open {
                        source.report_batch_rows(&open.receipt, first, &mut own);
                    }
                    match self.append(topic, partition, &mut state, &record, None) {
                        Ok((index, _)) => index,
                        Err(Refused::Error(error @ ClientError::RecordTooLarge { .. })) => {
                            source.report.refused(chunk.table_row(row), 1, error);
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
            if own.is_empty() {
                first = index;
            }
            own.push(chunk.table_row(row));
            taken += 1;
            bytes += bytes_of(record.key, record.value);
            if bytes >= max_bytes {
                break;
            }
        }
        if let Some(open) = &state.open {
            source.report_batch_rows(&open.receipt, first, &mut own);
        }
        (taken, bytes, stopped)
    }

    /// Sends rows of a topic whose partitions are not known. They wait for metadata like single records; their number
    /// is limited.
    fn rows_to_unknown_topic(
        &self,
        name: &Arc<str>,
        source: &RowSource<'_, '_>,
        chunk: &Chunk,
        mut rows: Vec<u32>,
    ) -> (Vec<u32>, Option<Stopped>) {
        let mut headers = Vec::new();
        for (done, &row) in rows.iter().enumerate() {
            let number = chunk.table_row(row);
            let missing = source.report.progress().missing.get(name).cloned();
            if let Some(error) = missing {
                source.report.refused(number, 1, error);
                continue;
            }
            if source.report.progress().awaiting_metadata >= MAX_ROWS_AWAITING_METADATA {
                return (rows.split_off(done), Some(Stopped::TopicUnknown));
            }
            let new = source.record(row, &mut headers);
            let partition = source.values.partition.as_ref().and_then(|partitions| partitions.get(row as usize));
            let (timestamp_ms, key, value) = (Some(new.timestamp_ms), new.key, new.value);
            let (headers, sent_in) = (new.headers, Some(source.sent_in));
            let record = Record { topic: name, partition, timestamp_ms, key, value, headers, since: None, sent_in };
            match self.send(&record) {
                Ok(sent) => source.report_when_done(number, &sent),
                Err(Refused::Error(error)) if !fails_all(&error) => {
                    source.report.refused(number, 1, error);
                }
                Err(refused) => return (rows.split_off(done), Some(refused.into())),
            }
        }
        (Vec::new(), None)
    }
}

/// True if an error concerns all records, so that no other row could be sent either.
fn fails_all(error: &ClientError) -> bool {
    matches!(error, ClientError::ProducerClosed | ClientError::Transaction(_) | ClientError::Delivery(_))
}

/// Bytes of a record besides its key and value, approximately.
const RECORD_OVERHEAD_BYTES: usize = 8;

fn bytes_of(key: Option<&[u8]>, value: Option<&[u8]>) -> usize {
    key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len) + RECORD_OVERHEAD_BYTES
}

/// Rows of several partitions in the order of the table: a row may get another partition when it is sent again.
fn in_order(by_partition: impl IntoIterator<Item = Vec<u32>>) -> Vec<u32> {
    let mut rows: Vec<u32> = by_partition.into_iter().flatten().collect();
    rows.sort_unstable();
    rows
}

impl RowSource<'_, '_> {
    /// Reports a row that waits for metadata once it is done.
    fn report_when_done(&self, row: u64, sent: &RecordFuture) {
        self.report.progress().awaiting_metadata += 1;
        let (report, outcome) = (self.report.clone(), sent.clone());
        sent.on_done(move || report.awaited_row_done(row, outcome.try_outcome()));
    }

    /// Has the report receive the outcome of rows, which are the records from `first` on of an open batch. To be called
    /// under the lock of the batch: before, the records are not known.
    fn report_batch_rows(&self, receipt: &Receipt, first: u32, rows: &mut Rows) {
        if !rows.is_empty() {
            let rows = Arc::new(std::mem::take(rows));
            receipt.add_rows(BatchRows { report: self.report.clone(), first, rows });
        }
    }
}
