//! Sends Arrow tables.
//!
//! Rows are sent in chunks. Rows of a chunk that cannot be taken, for lack of memory or because their topic is not
//! known yet, are kept in the table's [`Report`](super::Report), and are sent first when the caller calls again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;

use super::handle::Producer;
use super::table::{Chunk, Columns, Report, Stopped};
use crate::error::ClientError;

/// Rows of a chunk: enough that the cost of a lock does not matter, few enough to fit into the processor's cache.
const CHUNK_ROWS: usize = 4096;

/// Pause before a topic's metadata is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

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

    /// Has the rows of a table belong to the open transaction, which is not committed before the report is sealed. For
    /// a caller that has something to do before [`Self::send_batch`].
    ///
    /// # Errors
    /// If nothing can be sent now.
    pub fn hold(&self, report: &Report) -> Result<(), ClientError> {
        if self.is_closed() {
            return Err(ClientError::ProducerClosed);
        }
        self.transaction_of(report).map(drop)
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
                Chunk::plan(&values, default_topic.as_ref(), report, row, rows)
            });
            let sent = self.accumulator.send_rows(&values, &mut chunk, report, sent_in);
            let rows = chunk.rows;
            let Err(stopped) = sent else {
                row += rows;
                continue;
            };
            report.progress().rest = Some(chunk);
            let may_go_on = match stopped {
                Stopped::Error(error) => Err(error),
                Stopped::Full { needed } => self.wait_for_room(needed, until, Some(sent_in)),
                Stopped::TopicUnknown => {
                    std::thread::sleep(LOOK_AGAIN);
                    Ok(true)
                }
            };
            match may_go_on {
                Ok(true) if Instant::now() < until => {}
                // The next call fails again: this one returns how many rows are in batches.
                Err(error) if row == from_row => return Err(error),
                _ => break,
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
