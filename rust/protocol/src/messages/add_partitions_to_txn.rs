//! AddPartitionsToTxn, API key 24, versions 0-5 (KIP-98).
//!
//! Version 1 makes the broker respond before it throttles the client (KIP-219). 2 may return PRODUCER_FENCED (KIP-588).
//! 3 is flexible, and the last version for clients. From 4 on, brokers send it to each other for several transactions
//! at once, and may verify partitions without adding them (KIP-890); the top-level fields of versions up to 3 are then
//! in each transaction. 5 may return TRANSACTION_ABORTABLE.

use crate::wire::api;

api! {
    AddPartitionsToTxn, versions 0..=5, flexible 3..;

    /// Adds partitions to transactions, before the producer writes to them.
    request AddPartitionsToTxnRequest<'a> {
        transactions: Vec<AddPartitionsToTxnTransaction<'a>>, 4..;
        v3_and_below_transactional_id: &'a str, 0..=3;
        v3_and_below_producer_id: i64, 0..=3;
        v3_and_below_producer_epoch: i16, 0..=3;
        v3_and_below_topics: Vec<AddPartitionsToTxnTopic<'a>>, 0..=3;
    }

    /// The result for each partition.
    response AddPartitionsToTxnResponse<'a> {
        throttle_time_ms: i32, 0..;
        /// The error of the whole request, or 0, from version 4.
        error_code: i16, 4.., ignorable;
        results_by_transaction: Vec<AddPartitionsToTxnResult<'a>>, 4..;
        results_by_topic_v3_and_below: Vec<AddPartitionsToTxnTopicResult<'a>>, 0..=3;
    }

    /// A transaction to add to.
    struct AddPartitionsToTxnTransaction<'a> {
        transactional_id: &'a str, 4..;
        producer_id: i64, 4..;
        producer_epoch: i16, 4..;
        /// True to have the coordinator only verify that the partitions are in the transaction, without adding them.
        verify_only: bool, 4..;
        topics: Vec<AddPartitionsToTxnTopic<'a>>, 4..;
    }

    /// A topic to add.
    struct AddPartitionsToTxnTopic<'a> {
        name: &'a str, 0..;
        partitions: Vec<i32>, 0..;
    }

    /// The result for one transaction.
    struct AddPartitionsToTxnResult<'a> {
        transactional_id: &'a str, 4..;
        topic_results: Vec<AddPartitionsToTxnTopicResult<'a>>, 4..;
    }

    /// The result for one topic.
    struct AddPartitionsToTxnTopicResult<'a> {
        name: &'a str, 0..;
        results_by_partition: Vec<AddPartitionsToTxnPartitionResult<'a>>, 0..;
    }

    /// The result for one partition.
    struct AddPartitionsToTxnPartitionResult<'a> {
        partition_index: i32, 0..;
        /// The error, or 0; OPERATION_NOT_ATTEMPTED if the partition was not added because of another partition's
        /// error.
        partition_error_code: i16, 0..;
    }
}
