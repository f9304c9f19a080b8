//! The records that a transaction coordinator writes to `__transaction_state`.
//!
//! A record's key and value each begin with their version as an `int16`; keys have version 0.

use crate::wire::{message, structure};

message! {
    /// The key of a transaction: its transactional id.
    TransactionLogKey<'a>, versions 0..=0;

    transactional_id: &'a str, 0..;
}

message! {
    /// The last transaction of a transactional id. Version 1 is flexible (KIP-890).
    TransactionLogValue<'a>, versions 0..=1, flexible 1..;

    producer_id: i64, 0..;
    /// The producer id of the transaction before, or -1.
    previous_producer_id: i64 = -1, 1.., tag 0, ignorable;
    /// The producer id that the producer gets when the transaction ends, or -1.
    next_producer_id: i64 = -1, 1.., tag 1, ignorable;
    producer_epoch: i16, 0..;
    /// The transaction timeout in milliseconds, after which an open transaction is aborted.
    transaction_timeout_ms: i32, 0..;
    /// Kafka's number of the state.
    transaction_status: i8, 0..;
    transaction_partitions: Option<Vec<TransactionPartitions<'a>>>, 0.., nullable 0..;
    /// The time at which the transaction last changed, in milliseconds since the epoch.
    transaction_last_update_timestamp_ms: i64, 0..;
    /// The time at which the transaction began, in milliseconds since the epoch, or -1.
    transaction_start_timestamp_ms: i64, 0..;
    /// The transaction version of the producer that ended the transaction: with 2, every transaction raises the epoch.
    client_transaction_version: i16, 1.., tag 2, ignorable;
}

structure! {
    /// A topic's partitions in a transaction.
    TransactionPartitions<'a> {
        topic: &'a str, 0..;
        partition_ids: Vec<i32>, 0..;
    }
}
