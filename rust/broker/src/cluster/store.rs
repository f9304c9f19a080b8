//! Reads and writes the state of coordinators: keyed records in the internal topics, of which the latest of each key
//! counts.
//!
//! Only the partition's log outlives a coordinator. The node that leads the partition next, in this run or after a kill
//! with a data directory, knows what was stored and nothing else.

use bytes::Bytes;
use monedula_protocol::api::Message;
use monedula_protocol::compression::Compressor;
use monedula_protocol::error::WireError;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::records::{BatchEncoder, NewRecord, Records};
use monedula_protocol::wire::Writer;

use crate::cluster::{Coordinated, Topics};
use crate::core::Core;

/// A record: a key with its new value, or without a value to delete the key (tombstone).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredRecord {
    pub(crate) key: Bytes,
    pub(crate) value: Option<Bytes>,
}

/// A key or a value of a record: the version, and the message in that version.
pub(crate) fn versioned<'a>(message: &impl Message<'a>, version: i16) -> Result<Bytes, WireError> {
    let mut writer = Writer::new();
    writer.i16(version);
    message.encode(&mut writer, version)?;
    Ok(writer.into_bytes().into())
}

impl Core {
    /// Stores records as one batch, so that after a crash either all of them exist or none.
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
}

impl Topics {
    /// All remaining records of a partition in the order of their offsets.
    pub(crate) fn stored(&self, kind: Coordinated, partition: i32) -> Vec<StoredRecord> {
        let mut records = Vec::new();
        let Some(partition) = self.partition(kind.topic(), partition) else {
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
