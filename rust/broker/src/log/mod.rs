//! A partition's log.

use bytes::Bytes;

/// The log of one partition.
#[derive(Debug, Default)]
pub(crate) struct Log {
    batches: Vec<Bytes>,
    start_offset: i64,
    end_offset: i64,
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

    /// Appends a batch that was encoded for this log's end.
    pub(crate) fn append(&mut self, batch: Bytes, records: i32) {
        self.batches.push(batch);
        self.end_offset += i64::from(records);
    }

    /// All batches, oldest first.
    pub(crate) fn batches(&self) -> impl Iterator<Item = Bytes> {
        self.batches.iter().cloned()
    }
}
