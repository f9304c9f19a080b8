//! A record batch, as it is appended to a log and as a log in memory keeps it.

use bytes::Bytes;
use monedula_protocol::records::{BATCH_HEADER_BYTES, BatchHeader, Batches, RecordsError};

/// A record batch: its header, which the broker may have changed, and its records as they were received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) header: BatchHeader,
    /// The records, compressed as the header says.
    pub(crate) payload: Bytes,
}

/// Smaller payloads are copied out of the request frame, because a slice would keep the whole frame in memory.
const COPY_BELOW_BYTES: usize = 16 * 1024;

impl Batch {
    /// The first batch of `bytes`; `None` if there is not a whole one.
    pub(crate) fn first_of(bytes: &Bytes) -> Result<Option<Self>, RecordsError> {
        let batch = Batches::new(bytes).next().transpose()?;
        Ok(batch.map(|batch| Self { header: batch.header, payload: bytes.slice_ref(batch.payload()) }))
    }

    /// The length in bytes, with the header.
    pub(crate) fn total_bytes(&self) -> usize {
        self.header.total_bytes()
    }

    /// Copies a small payload, so that it does not keep its request frame in memory.
    pub(crate) fn detached(self) -> Self {
        match self.payload.len() {
            0..COPY_BELOW_BYTES => Self { header: self.header, payload: Bytes::copy_from_slice(&self.payload) },
            _ => self,
        }
    }

    /// Header and records in one buffer.
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BATCH_HEADER_BYTES + self.payload.len());
        bytes.extend_from_slice(&self.header.to_bytes());
        bytes.extend_from_slice(&self.payload);
        bytes
    }
}
