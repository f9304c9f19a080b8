//! The records of `__consumer_offsets`: Kafka's own layouts, and one more for the offsets of open transactions.
//!
//! Kafka stores the offsets of a transaction as transactional batches, and a reader needs the marker behind them to
//! know whether they are committed. Here each is a record with a key of its own until the transaction ends, so that the
//! log can be read record by record, and compacted, without tracking producers.

use bytes::Bytes;
use monedula_protocol::api::Message;
use monedula_protocol::error::WireError;
use monedula_protocol::messages::group_records::{
    GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue,
};
use monedula_protocol::wire::{Reader, Writer};

use super::offsets::CommittedOffset;
use crate::cluster::{StoredRecord, versioned};

/// The key version of a committed offset. The version of its key says what kind of record a record is.
pub(super) const OFFSET_KEY: i16 = 1;
/// The older key version of a committed offset, with the same fields.
pub(super) const OLD_OFFSET_KEY: i16 = 0;
/// The key version of a classic group.
pub(super) const CLASSIC_GROUP_KEY: i16 = 2;
/// The key version of an offset in an open transaction. Kafka does not use this number.
pub(super) const PENDING_OFFSET_KEY: i16 = 100;

const CLASSIC_GROUP_VALUE: i16 = 3;
/// The value version of an offset without an expiry time; the one below is that of an offset with one.
const OFFSET_VALUE: i16 = 4;
const EXPIRING_OFFSET_VALUE: i16 = 1;
/// The tagged field with an offset's [`CommittedOffset::order`]; Kafka's readers ignore it.
const ORDER_TAG: u32 = 1000;

/// The key of a committed offset, or of one in an open transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OffsetKey<'a> {
    pub(super) topic: &'a str,
    pub(super) partition: i32,
    /// The producer of the open transaction; `None` for a committed offset.
    pub(super) producer_id: Option<i64>,
}

/// The record of an offset; without `committed`, the tombstone that removes it.
pub(super) fn offset(
    group: &str,
    key: &OffsetKey<'_>,
    committed: Option<&CommittedOffset>,
) -> Result<StoredRecord, WireError> {
    let fields = OffsetCommitKey { group, topic: key.topic, partition: key.partition, ..Default::default() };
    let mut writer = Writer::new();
    writer.i16(if key.producer_id.is_some() { PENDING_OFFSET_KEY } else { OFFSET_KEY });
    fields.encode(&mut writer, OFFSET_KEY)?;
    if let Some(producer_id) = key.producer_id {
        writer.i64(producer_id);
    }
    let value = committed.map(offset_value).transpose()?;
    Ok(StoredRecord { key: writer.into_bytes().into(), value })
}

fn offset_value(committed: &CommittedOffset) -> Result<Bytes, WireError> {
    let order = committed.order.to_be_bytes();
    // Only version 1 of the value has an expiry time, and it has no leader epoch. Clients that request a retention time
    // (OffsetCommit up to version 4) send no leader epoch either, and TxnOffsetCommit has no retention time.
    let (version, unknown_tagged_fields) = match committed.expires_at_ms {
        Some(_) => (EXPIRING_OFFSET_VALUE, Vec::new()),
        None => (OFFSET_VALUE, vec![(ORDER_TAG, order.as_slice())]),
    };
    let value = OffsetCommitValue {
        offset: committed.offset,
        leader_epoch: committed.leader_epoch,
        metadata: &committed.metadata,
        commit_timestamp: committed.committed_at_ms,
        expire_timestamp: committed.expires_at_ms.unwrap_or(-1),
        topic_id: committed.topic_id,
        unknown_tagged_fields,
    };
    versioned(&value, version)
}

/// The record of a generation of a classic group.
pub(super) fn classic_group(group: &str, value: &GroupMetadataValue<'_>) -> Result<StoredRecord, WireError> {
    let value = versioned(value, CLASSIC_GROUP_VALUE)?;
    Ok(StoredRecord { value: Some(value), ..classic_group_gone(group)? })
}

/// The tombstone of a classic group.
pub(super) fn classic_group_gone(group: &str) -> Result<StoredRecord, WireError> {
    let key = versioned(&GroupMetadataKey { group, ..Default::default() }, CLASSIC_GROUP_KEY)?;
    Ok(StoredRecord { key, value: None })
}

/// Reads the key of an offset, `layout` being its version.
pub(super) fn read_offset_key(key: &[u8], layout: i16) -> Result<OffsetKey<'_>, WireError> {
    let mut reader = Reader::new(key);
    reader.i16()?;
    let fields = OffsetCommitKey::decode(&mut reader, OFFSET_KEY)?;
    let producer_id = (layout == PENDING_OFFSET_KEY).then(|| reader.i64()).transpose()?;
    Ok(OffsetKey { topic: fields.topic, partition: fields.partition, producer_id })
}

/// Reads the value of an offset. The order is 0 if the record has none.
pub(super) fn read_offset(value: &[u8]) -> Result<CommittedOffset, WireError> {
    let mut reader = Reader::new(value);
    let version = reader.i16()?;
    let value = OffsetCommitValue::decode(&mut reader, version)?;
    let tagged = value.unknown_tagged_fields.iter().find(|(tag, _)| *tag == ORDER_TAG);
    let order = tagged.and_then(|(_, bytes)| (*bytes).try_into().ok()).map_or(0, u64::from_be_bytes);
    Ok(CommittedOffset {
        topic_id: value.topic_id,
        offset: value.offset,
        leader_epoch: value.leader_epoch,
        metadata: value.metadata.into(),
        committed_at_ms: value.commit_timestamp,
        expires_at_ms: Some(value.expire_timestamp).filter(|&at_ms| at_ms >= 0),
        order,
    })
}

/// Reads the value of a generation of a classic group.
pub(super) fn read_classic_group(value: &[u8]) -> Result<GroupMetadataValue<'_>, WireError> {
    let mut reader = Reader::new(value);
    let version = reader.i16()?;
    GroupMetadataValue::decode(&mut reader, version)
}
