//! The stored state of coordinators: keyed records in the internal topics, of which the latest of each key
//! counts.
//!
//! Only the partition's log outlives a coordinator. The node that leads the partition next, in this run or after a kill
//! with a data directory, knows what was stored and nothing else.

use bytes::Bytes;
use monedula_protocol::api::Message;
use monedula_protocol::error::WireError;
use monedula_protocol::records::Records;
use monedula_protocol::wire::Writer;

use crate::cluster::{Coordinated, Topics};

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
