//! Progress of the rows of a table, chunk by chunk.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use super::super::admission::SendPermit;
use super::super::record::Refused;
use super::columns::ColumnValues;
use super::report::Report;
use crate::error::ClientError;

#[derive(Default)]
pub(in crate::producer) struct Progress {
    /// Held until the last row is taken: the transaction that the table belongs to is not committed before.
    pub(in crate::producer) permit: Option<SendPermit>,
    pub(in crate::producer) rest: Option<Chunk>,
    /// Number of rows that wait for metadata.
    pub(in crate::producer) awaiting_metadata: u64,
    /// Topics that do not exist: the other rows for them fail at once.
    pub(in crate::producer) missing: BTreeMap<Arc<str>, ClientError>,
}

/// Consecutive rows of a record batch, by topic. Rows that were taken are removed.
pub(in crate::producer) struct Chunk {
    pub(in crate::producer) runs: VecDeque<(Arc<str>, Vec<u32>)>,
    /// The partitions that were drawn for rows of the first run which had no room.
    pub(in crate::producer) drawn: Vec<(u32, i32)>,
    pub(in crate::producer) rows: usize,
    first_row: usize,
    /// The number of `first_row` in the whole table.
    first_table_row: u64,
}

impl Chunk {
    /// The chunk of `rows` rows from `first_row` on. Rows that are not valid records fail, and are not in it.
    pub(in crate::producer) fn plan(
        values: &ColumnValues<'_>,
        default: Option<&Arc<str>>,
        report: &Report,
        first_row: usize,
        rows: usize,
    ) -> Self {
        let first_table_row = report.add_rows(rows as u64);
        let mut chunk = Self { runs: VecDeque::new(), drawn: Vec::new(), rows, first_row, first_table_row };
        let all = first_row as u32..(first_row + rows) as u32;
        let accepted = |row: &u32| match values.refusal(*row as usize) {
            Some(refusal) => {
                report.refused(first_table_row + u64::from(*row - first_row as u32), 1, refusal);
                false
            }
            None => true,
        };
        let all: Vec<u32> = if values.may_refuse(&(first_row..first_row + rows)) {
            all.filter(accepted).collect()
        } else {
            all.collect()
        };
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
                // Rows whose topic is not UTF-8 were refused.
                chunk.runs.push_back((String::from_utf8_lossy(bytes).into(), Vec::new()));
            }
            chunk.runs[run].1.push(row);
        }
        chunk
    }

    #[inline(always)]
    pub(in crate::producer) fn table_row(&self, row: u32) -> u64 {
        self.first_table_row + (row as usize - self.first_row) as u64
    }
}

/// Reason that not all rows of a chunk were taken.
pub(in crate::producer) enum Stopped {
    /// `buffer.memory` has no room for the next row.
    Full { needed: usize },
    /// Enough rows wait for their topic's metadata.
    TopicUnknown,
    /// No row can be sent any more.
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
