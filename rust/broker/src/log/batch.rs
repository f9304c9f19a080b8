//! A record batch on its way into a log, and as a log in memory keeps it.

use bytes::Bytes;
use monedula_protocol::records::{BATCH_HEADER_BYTES, BatchHeader, Batches, RecordsError};

/// A batch: its header, which the broker may have changed, and its records as they came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) header: BatchHeader,
    /// The records, compressed as the header says.
    pub(crate) payload: Bytes,
}

/// Payloads below this are copied out of the frame in which they came: they would keep all of it in memory.
const COPY_BELOW_BYTES: usize = 16 * 1024;

impl Batch {
    /// The first batch of `bytes`, which begin with a whole one.
    pub(crate) fn first_of(bytes: &Bytes) -> Result<Option<Self>, RecordsError> {
        let batch = Batches::new(bytes).next().transpose()?;
        Ok(batch.map(|batch| Self { header: batch.header, payload: bytes.slice_ref(batch.payload()) }))
    }

    /// Length with the header.
    pub(crate) fn total_bytes(&self) -> usize {
        self.header.total_bytes()
    }

    /// Lets go of a frame that would be kept for a small part of it.
    pub(crate) fn detached(self) -> Self {
        match self.payload.len() {
            0..COPY_BELOW_BYTES => Self { header: self.header, payload: Bytes::copy_from_slice(&self.payload) },
            _ => self,
        }
    }

    /// All of it in one piece.
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BATCH_HEADER_BYTES + self.payload.len());
        bytes.extend_from_slice(&self.header.to_bytes());
        bytes.extend_from_slice(&self.payload);
        bytes
    }
}
