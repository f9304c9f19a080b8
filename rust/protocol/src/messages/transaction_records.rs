//! What a transaction coordinator writes into `__transaction_state`: keys and values of its records.
//!
//! A record's key and value each begin with their version as an `int16`; keys have version 0.

use crate::wire::{message, structure};

message! {
    /// Whose transaction it is.
    TransactionLogKey<'a>, versions 0..=0;

    /// The transactional id.
    transactional_id: &'a str, 0..;
}

message! {
    /// A transactional id's last transaction. 1 is flexible (KIP-890).
    TransactionLogValue<'a>, versions 0..=1, flexible 1..;

    /// The producer's id.
    producer_id: i64, 0..;
    /// The id before that, or -1.
    previous_producer_id: i64 = -1, 1.., tag 0, ignorable;
    /// The id that the producer gets when the transaction has ended, or -1.
    next_producer_id: i64 = -1, 1.., tag 1, ignorable;
    /// The producer's epoch.
    producer_epoch: i16, 0..;
    /// After how long a transaction is aborted.
    transaction_timeout_ms: i32, 0..;
    /// Kafka's number of the state.
    transaction_status: i8, 0..;
    /// The partitions in the transaction.
    transaction_partitions: Option<Vec<TransactionPartitions<'a>>>, 0.., nullable 0..;
    /// When it last changed.
    transaction_last_update_timestamp_ms: i64, 0..;
    /// When it began, or -1.
    transaction_start_timestamp_ms: i64, 0..;
    /// The version of transactions that the producer spoke when it ended it: 2 raises the epoch each time.
    client_transaction_version: i16, 1.., tag 2, ignorable;
}

structure! {
    /// A topic's partitions in a transaction.
    TransactionPartitions<'a> {
        /// The topic.
        topic: &'a str, 0..;
        /// The partitions.
        partition_ids: Vec<i32>, 0..;
    }
}
