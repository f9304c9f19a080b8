//! The records of `__transaction_state`: Kafka's own layout for transactional ids, and one more for producer ids.

use std::collections::BTreeMap;

use bytes::Bytes;
use monedula_protocol::api::Message;
use monedula_protocol::error::WireError;
use monedula_protocol::messages::transaction_records::{TransactionLogKey, TransactionLogValue, TransactionPartitions};
use monedula_protocol::wire::{Reader, Writer};

use super::state::{Transaction, TransactionState};
use crate::cluster::{StoredRecord, versioned};

/// The key version of a transactional id.
const TRANSACTION_KEY: i16 = 0;
/// The key version of the allocated producer ids. In Kafka the controller stores these, and this number is not used.
const PRODUCER_IDS_KEY: i16 = 100;
const VALUE: i16 = 1;
/// Transaction version 2 in the field `client_transaction_version`.
const RAISES_EPOCH: i16 = 2;

/// A record that was read back from the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Replayed {
    /// A transactional id; `None` for its tombstone.
    Transaction(String, Option<Box<Transaction>>),
    /// All producer ids below this one are allocated.
    ProducerIds(i64),
}

/// The record of a transactional id; without `transaction`, its tombstone.
pub(super) fn transaction(id: &str, transaction: Option<&Transaction>) -> Result<StoredRecord, WireError> {
    let key = versioned(&TransactionLogKey { transactional_id: id, ..Default::default() }, TRANSACTION_KEY)?;
    Ok(StoredRecord { key, value: transaction.map(value).transpose()? })
}

fn value(transaction: &Transaction) -> Result<Bytes, WireError> {
    let mut by_topic: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for (topic, partition) in &transaction.partitions {
        by_topic.entry(topic).or_default().push(*partition);
    }
    let partitions = by_topic.into_iter().map(|(topic, ids)| TransactionPartitions {
        topic,
        partition_ids: ids,
        ..Default::default()
    });
    let value = TransactionLogValue {
        producer_id: transaction.producer_id,
        previous_producer_id: transaction.previous_producer_id,
        next_producer_id: transaction.next_producer_id,
        producer_epoch: transaction.epoch,
        transaction_timeout_ms: transaction.timeout_ms,
        transaction_status: transaction.state as i8,
        // As in Kafka, the field is null in Empty.
        transaction_partitions: (transaction.state != TransactionState::Empty).then(|| partitions.collect()),
        transaction_last_update_timestamp_ms: transaction.updated_ms,
        transaction_start_timestamp_ms: transaction.start_ms,
        client_transaction_version: if transaction.raised_epoch { RAISES_EPOCH } else { 0 },
        ..Default::default()
    };
    versioned(&value, VALUE)
}

/// The record that all producer ids below this one are allocated.
pub(super) fn producer_ids(next_id: i64) -> StoredRecord {
    let mut value = Writer::new();
    value.i64(next_id);
    let key = Bytes::copy_from_slice(&PRODUCER_IDS_KEY.to_be_bytes());
    StoredRecord { key, value: Some(value.into_bytes().into()) }
}

/// Reads a record.
///
/// # Errors
/// A record that cannot be read.
pub(super) fn read(record: &StoredRecord) -> Result<Replayed, String> {
    let text = |error: WireError| error.to_string();
    let mut key = Reader::new(&record.key);
    match key.i16().map_err(text)? {
        TRANSACTION_KEY => {
            let id = TransactionLogKey::decode(&mut key, TRANSACTION_KEY).map_err(text)?.transactional_id.to_owned();
            let transaction = record.value.as_ref().map(|value| read_value(value)).transpose()?;
            Ok(Replayed::Transaction(id, transaction.map(Box::new)))
        }
        PRODUCER_IDS_KEY => {
            let value = record.value.as_deref().unwrap_or_default();
            Ok(Replayed::ProducerIds(Reader::new(value).i64().map_err(text)?))
        }
        version => Err(format!("its key has the unknown version {version}")),
    }
}

fn read_value(bytes: &[u8]) -> Result<Transaction, String> {
    let text = |error: WireError| error.to_string();
    let mut reader = Reader::new(bytes);
    let version = reader.i16().map_err(text)?;
    let value = TransactionLogValue::decode(&mut reader, version).map_err(text)?;
    let state = TransactionState::from_number(value.transaction_status)
        .ok_or_else(|| format!("{} is no state of a transaction", value.transaction_status))?;
    let topics = value.transaction_partitions.iter().flatten();
    let partitions = topics.flat_map(|topic| topic.partition_ids.iter().map(|id| (topic.topic.into(), *id))).collect();
    Ok(Transaction {
        producer_id: value.producer_id,
        previous_producer_id: value.previous_producer_id,
        next_producer_id: value.next_producer_id,
        epoch: value.producer_epoch,
        last_epoch: -1,
        timeout_ms: value.transaction_timeout_ms,
        state,
        partitions,
        start_ms: value.transaction_start_timestamp_ms,
        updated_ms: value.transaction_last_update_timestamp_ms,
        raised_epoch: value.client_transaction_version >= RAISES_EPOCH,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_is_read_back_as_it_was_stored() {
        let empty = Transaction::new(7, 1000, 5).init(None, 1000, 6, || 0).unwrap();
        let partitions = [("a".into(), 0), ("a".into(), 2), ("b".into(), 1)].into();
        let ongoing = empty.add((7, 0), &partitions, 8).unwrap().unwrap();
        let fenced = ongoing.fenced(9);
        for stored in [&empty, &ongoing, &fenced, &fenced.completed(10)] {
            let record = transaction("t", Some(stored)).unwrap();
            // As in Kafka, the previous epoch is not stored.
            let expected = Transaction { last_epoch: -1, ..stored.clone() };
            assert_eq!(read(&record), Ok(Replayed::Transaction("t".to_owned(), Some(Box::new(expected)))));
        }
        assert_eq!(read(&transaction("t", None).unwrap()), Ok(Replayed::Transaction("t".to_owned(), None)));
        assert_eq!(read(&producer_ids(2000)), Ok(Replayed::ProducerIds(2000)));
    }

    #[test]
    fn bytes_that_are_none_of_ours_are_refused() {
        let record = |key: &[u8], value: &[u8]| StoredRecord {
            key: Bytes::copy_from_slice(key),
            value: Some(Bytes::copy_from_slice(value)),
        };
        let whole = transaction("t", Some(&Transaction::new(7, 1000, 5))).unwrap();
        let value = whole.value.clone().unwrap();
        for length in 0..value.len() {
            assert!(read(&record(&whole.key, &value[..length])).is_err(), "{length}");
        }
        assert!(read(&record(&[0, 50], &value)).unwrap_err().contains("version 50"));
        assert!(read(&record(&[0], &value)).is_err());
    }
}
