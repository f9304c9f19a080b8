//! How far the rows of a table have come, chunk by chunk.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::super::admission::SendPermit;
use super::super::record::Refused;
use crate::error::ClientError;

/// How far the rows of a table have come.
#[derive(Default)]
pub(in crate::producer) struct Progress {
    /// Held until the last row is taken: the transaction that the table belongs to is not committed before.
    pub(in crate::producer) permit: Option<SendPermit>,
    pub(in crate::producer) rest: Option<Chunk>,
    /// How many rows wait for metadata.
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
    pub(super) first_row: usize,
    /// The number of `first_row` in the whole table.
    pub(super) first_table_row: u64,
}

impl Chunk {
    /// The number of a row in the whole table.
    #[inline(always)]
    pub(in crate::producer) fn table_row(&self, row: u32) -> u64 {
        self.first_table_row + (row as usize - self.first_row) as u64
    }
}

/// Why not all rows of a chunk were taken.
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
