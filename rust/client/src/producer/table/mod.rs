//! Tables into records: columns of Arrow, without an object for a row.
//!
//! Rows are taken in chunks. What memory, or a topic that is not known yet, does not let through of a chunk is kept with
//! the table's [`Report`](super::Report), and is sent first when the caller comes again.

mod columns;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
pub use columns::Columns;
pub(super) use columns::Values;

use super::accumulator::Stopped;
use super::{Producer, Report, Turn};
use crate::error::ClientError;

/// Rows that are looked at together: enough that a lock costs nothing, few enough to be in the processor's cache.
const CHUNK_ROWS: usize = 4096;

/// How long a topic that is being looked up is waited for before it is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// How far a table's rows have come.
#[derive(Default)]
pub(super) struct Progress {
    /// The transaction that the whole table belongs to is not committed before its last row is taken.
    pub(super) turn: Option<Turn>,
    pub(super) left: Option<Chunk>,
    /// Rows that wait for their topic to be known.
    pub(super) parked: u64,
    /// Topics that turned out to be missing: the table's other rows need not wait to learn it again.
    pub(super) missing: BTreeMap<Arc<str>, ClientError>,
}

/// Some rows of a batch, by topic; what of them was sent is gone from it.
pub(super) struct Chunk {
    pub(super) runs: VecDeque<(Arc<str>, Vec<u32>)>,
    /// Which partitions were drawn for rows of the first run that there was no room for.
    pub(super) drawn: Vec<(u32, i32)>,
    rows: usize,
    first_row: usize,
    /// The number of the first row in the whole table.
    first_of_table: u64,
}

impl Chunk {
    /// The number in the whole table of a row of the batch.
    #[inline(always)]
    pub(super) fn of_table(&self, row: u32) -> u64 {
        self.first_of_table + (row as usize - self.first_row) as u64
    }
}

impl Producer {
    /// Takes rows of a batch from `from_row` on, and says how many. Waits for room, at most until `until`: fewer rows than
    /// there are mean that the time was over. Call it again with the rows that are left, or [`Self::give_up`].
    ///
    /// All rows of a table belong to the transaction that the first call was in; rows that fail spoil it.
    ///
    /// # Errors
    /// If the producer was closed, or is outside of that transaction. What is wrong with single rows is told in `report`.
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
            self.gate.spoil(sent_in, &refusal);
        }
        taken
    }

    fn transaction_of(&self, report: &Report) -> Result<u64, ClientError> {
        let mut progress = report.progress();
        let turn = match progress.turn.take() {
            Some(turn) => turn,
            None => self.enter()?,
        };
        Ok(progress.turn.insert(turn).transaction())
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
            let left = report.progress().left.take();
            let mut chunk = left.unwrap_or_else(|| {
                let rows = CHUNK_ROWS.min(batch.num_rows() - row);
                plan(&values, default_topic.as_ref(), report, row, rows)
            });
            let sent = self.accumulator.send_rows(&values, &mut chunk, report, sent_in);
            let rows = chunk.rows;
            let Err(stopped) = sent else {
                row += rows;
                continue;
            };
            report.progress().left = Some(chunk);
            let goes_on = match stopped {
                Stopped::Error(error) => return Err(error),
                Stopped::Full { needed } => self.wait_for_room(needed, until, Some(sent_in))?,
                Stopped::Lookup => {
                    std::thread::sleep(LOOK_AGAIN);
                    true
                }
            };
            if !goes_on || Instant::now() >= until {
                break;
            }
        }
        Ok(row - from_row)
    }

    /// Fails what is left of a chunk with `error`, and says how many rows it had: they count as taken.
    pub fn give_up(&self, report: &Report, error: &ClientError) -> usize {
        let mut progress = report.progress();
        if let Some(turn) = &progress.turn {
            self.gate.spoil(turn.transaction(), error);
        }
        let Some(chunk) = progress.left.take() else { return 0 };
        drop(progress);
        for row in chunk.runs.iter().flat_map(|(_, rows)| rows) {
            report.refused(chunk.of_table(*row), 1, error.clone());
        }
        chunk.rows
    }
}

/// Divides rows among their topics.
fn plan(values: &Values<'_>, default: Option<&Arc<str>>, report: &Report, first_row: usize, rows: usize) -> Chunk {
    let first_of_table = report.took(rows as u64);
    let mut chunk = Chunk { runs: VecDeque::new(), drawn: Vec::new(), rows, first_row, first_of_table };
    let all = first_row as u32..(first_row + rows) as u32;
    let accepted = |row: &u32| match values.refusal(*row as usize) {
        Some(refusal) => {
            report.refused(first_of_table + u64::from(*row - first_row as u32), 1, refusal);
            false
        }
        None => true,
    };
    let all: Vec<u32> = if values.may_refuse() { all.filter(accepted).collect() } else { all.collect() };
    let Some(topics) = &values.topic else {
        chunk.runs.extend(default.map(|topic| (topic.clone(), all)));
        return chunk;
    };
    let mut places: HashMap<&[u8], usize> = HashMap::new();
    for row in all {
        let bytes = topics.get(row as usize).or_else(|| default.map(|topic| topic.as_bytes()));
        let Some(bytes) = bytes else {
            report.refused(chunk.of_table(row), 1, ClientError::Argument("the row has no topic".into()));
            continue;
        };
        let place = *places.entry(bytes).or_insert(chunk.runs.len());
        if place == chunk.runs.len() {
            // A name that is no text is found to be unknown, like any other wrong one.
            chunk.runs.push_back((String::from_utf8_lossy(bytes).into(), Vec::new()));
        }
        chunk.runs[place].1.push(row);
    }
    chunk
}
