//! What coordinators write down: records of the internal topics, keyed, the latest of a key being the one that counts.
//!
//! The partition's log is all that outlives a coordinator. Whoever leads the partition next, on this run or after a kill with a
//! data directory, knows what was stored and nothing else.

use bytes::Bytes;
use monedula_protocol::compression::Compressor;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::records::{BatchEncoder, NewRecord, Records};

use crate::cluster::Coordinated;
use crate::core::Core;

/// One record: a key with its new value, or with none, which deletes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredRecord {
    pub(crate) key: Bytes,
    pub(crate) value: Option<Bytes>,
}

impl Core {
    /// Stores records as one batch: after a crash all of them are there, or none.
    ///
    /// # Errors
    /// COORDINATOR_NOT_AVAILABLE if the partition does not exist or cannot be written.
    pub(crate) fn store(
        &mut self,
        kind: Coordinated,
        partition: i32,
        records: &[StoredRecord],
    ) -> Result<(), ErrorCode> {
        if records.is_empty() {
            return Ok(());
        }
        let timestamp_ms = self.now_ms;
        let mut encoder = BatchEncoder::new();
        for record in records {
            let (key, value) = (Some(record.key.as_ref()), record.value.as_deref());
            encoder.append(NewRecord { timestamp_ms, key, value, headers: &[] });
        }
        let mut batch = Vec::new();
        encoder.encode(&mut Compressor::new(), &mut batch).map_err(|_| ErrorCode::UnknownServerError)?;
        self.append(kind.topic(), partition, &batch.into()).map_err(|_| ErrorCode::CoordinatorNotAvailable)?;
        self.compact_if_grown(kind.topic(), partition);
        Ok(())
    }

    /// All records of a partition that are still there, oldest first, in the batches in which they were stored.
    pub(crate) fn stored(&self, kind: Coordinated, partition: i32) -> Vec<StoredRecord> {
        let mut records = Vec::new();
        let Some(partition) = self.topics.partition(kind.topic(), partition) else {
            return records;
        };
        for batch in partition.log.batches().flatten() {
            for record in Records::new(&batch.header, &batch.payload).flatten() {
                let Some(key) = record.key else { continue };
                let value = record.value.map(Bytes::copy_from_slice);
                records.push(StoredRecord { key: Bytes::copy_from_slice(key), value });
            }
        }
        records
    }
}
