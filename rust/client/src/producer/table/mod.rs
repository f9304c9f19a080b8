//! Sends Arrow tables, without an object for each row.
//!
//! Rows are sent in chunks. Rows of a chunk that cannot be taken, for lack of memory or because their topic is not
//! known yet, are kept in the table's [`Report`](super::Report), and are sent first when the caller calls again.

mod columns;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
pub use columns::Columns;
pub(super) use columns::Values;

use super::accumulator::Stopped;
use super::{Producer, Report, SendPermit};
use crate::error::ClientError;

/// Rows of a chunk: enough that the cost of a lock does not matter, few enough to fit into the processor's cache.
const CHUNK_ROWS: usize = 4096;

/// How long to wait for a topic's metadata before trying again.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// How far the rows of a table have come.
#[derive(Default)]
pub(super) struct Progress {
    /// Held until the last row is taken: the transaction that the table belongs to is not committed before.
    pub(super) permit: Option<SendPermit>,
    pub(super) rest: Option<Chunk>,
    /// How many rows wait for metadata.
    pub(super) awaiting_metadata: u64,
    /// Topics that do not exist: the other rows for them fail at once.
    pub(super) missing: BTreeMap<Arc<str>, ClientError>,
}

/// Consecutive rows of a record batch, by topic. Rows that were taken are removed.
pub(super) struct Chunk {
    pub(super) runs: VecDeque<(Arc<str>, Vec<u32>)>,
    /// The partitions that were drawn for rows of the first run which had no room.
    pub(super) drawn: Vec<(u32, i32)>,
    rows: usize,
    first_row: usize,
    /// The number of `first_row` in the whole table.
    first_table_row: u64,
}

impl Chunk {
    /// The number of a row in the whole table.
    #[inline(always)]
    pub(super) fn table_row(&self, row: u32) -> u64 {
        self.first_table_row + (row as usize - self.first_row) as u64
    }
}

impl Producer {
    /// Takes rows of a record batch from `from_row` on, and returns how many. Waits for room, at most until `until`: if
    /// it returns fewer rows than there are, the time was over. The caller then calls again with the other rows, or
    /// calls [`Self::fail_rest`].
    ///
    /// All rows of a table belong to the transaction of the first call. Rows that fail also fail the transaction.
    ///
    /// # Errors
    /// If the producer was closed, or that transaction has ended. Errors of single rows are in `report`.
    pub fn send_batch(
        &self,
        batch: &RecordBatch,
        columns: &Columns,
        default_topic: Option<&str>,
        report: &Arc<Report>,
        from_row: usize,
        until: Instant,
    ) -> Result<usize, ClientError> {
        let sent_in = self.transaction_of(report)?;
        let taken = self.take_rows((batch, columns, default_topic), report, sent_in, from_row, until);
        if let Some(refusal) = report.refusal() {
            self.admission.fail_transaction(sent_in, &refusal);
        }
        taken
    }

    fn transaction_of(&self, report: &Report) -> Result<u64, ClientError> {
        let mut progress = report.progress();
        let permit = match progress.permit.take() {
            Some(permit) => permit,
            None => self.acquire_permit()?,
        };
        Ok(progress.permit.insert(permit).transaction())
    }

    fn take_rows(
        &self,
        (batch, columns, default_topic): (&RecordBatch, &Columns, Option<&str>),
        report: &Arc<Report>,
        sent_in: u64,
        from_row: usize,
        until: Instant,
    ) -> Result<usize, ClientError> {
        let values = columns.values(batch);
        let default_topic = default_topic.map(Arc::from);
        let mut row = from_row;
        while row < batch.num_rows() {
            let rest = report.progress().rest.take();
            let mut chunk = rest.unwrap_or_else(|| {
                let rows = CHUNK_ROWS.min(batch.num_rows() - row);
                plan(&values, default_topic.as_ref(), report, row, rows)
            });
            let sent = self.accumulator.send_rows(&values, &mut chunk, report, sent_in);
            let rows = chunk.rows;
            let Err(stopped) = sent else {
                row += rows;
                continue;
            };
            report.progress().rest = Some(chunk);
            let may_go_on = match stopped {
                Stopped::Error(error) => return Err(error),
                Stopped::Full { needed } => self.wait_for_room(needed, until, Some(sent_in))?,
                Stopped::TopicUnknown => {
                    std::thread::sleep(LOOK_AGAIN);
                    true
                }
            };
            if !may_go_on || Instant::now() >= until {
                break;
            }
        }
        Ok(row - from_row)
    }

    /// Fails the rows that are left of a chunk. Returns the number of rows of the chunk, which counts as taken.
    pub fn fail_rest(&self, report: &Report, error: &ClientError) -> usize {
        let mut progress = report.progress();
        if let Some(permit) = &progress.permit {
            self.admission.fail_transaction(permit.transaction(), error);
        }
        let Some(chunk) = progress.rest.take() else { return 0 };
        drop(progress);
        for row in chunk.runs.iter().flat_map(|(_, rows)| rows) {
            report.refused(chunk.table_row(*row), 1, error.clone());
        }
        chunk.rows
    }
}

/// Divides rows by topic.
fn plan(values: &Values<'_>, default: Option<&Arc<str>>, report: &Report, first_row: usize, rows: usize) -> Chunk {
    let first_table_row = report.add_rows(rows as u64);
    let mut chunk = Chunk { runs: VecDeque::new(), drawn: Vec::new(), rows, first_row, first_table_row };
    let all = first_row as u32..(first_row + rows) as u32;
    let accepted = |row: &u32| match values.refusal(*row as usize) {
        Some(refusal) => {
            report.refused(first_table_row + u64::from(*row - first_row as u32), 1, refusal);
            false
        }
        None => true,
    };
    let all: Vec<u32> = if values.may_refuse() { all.filter(accepted).collect() } else { all.collect() };
    let Some(topics) = &values.topic else {
        chunk.runs.extend(default.map(|topic| (topic.clone(), all)));
        return chunk;
    };
    let mut run_of_topic: HashMap<&[u8], usize> = HashMap::new();
    for row in all {
        let bytes = topics.get(row as usize).or_else(|| default.map(|topic| topic.as_bytes()));
        let Some(bytes) = bytes else {
            report.refused(chunk.table_row(row), 1, ClientError::Argument("the row has no topic".into()));
            continue;
        };
        let run = *run_of_topic.entry(bytes).or_insert(chunk.runs.len());
        if run == chunk.runs.len() {
            // A name that is not UTF-8 fails later as an unknown topic, like any other wrong name.
            chunk.runs.push_back((String::from_utf8_lossy(bytes).into(), Vec::new()));
        }
        chunk.runs[run].1.push(row);
    }
    chunk
}
