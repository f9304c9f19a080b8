//! AddPartitionsToTxn, API key 24, versions 0-5 (KIP-98).
//!
//! From 1 on, a broker answers before it throttles (KIP-219). 2 may answer PRODUCER_FENCED (KIP-588). 3 is flexible, and
//! the last for clients: from 4 on, brokers ask each other, about several transactions at once, and may ask without adding
//! anything (KIP-890). What stands at the top up to 3 then stands in each transaction. 5 may answer
//! TRANSACTION_ABORTABLE.

use crate::wire::api;

api! {
    AddPartitionsToTxn, versions 0..=5, flexible 3..;

    /// Adds partitions to transactions before anything is written to them.
    request AddPartitionsToTxnRequest<'a> {
        /// The transactions, from version 4.
        transactions: Vec<AddPartitionsToTxnTransaction<'a>>, 4..;
        /// The transactional id, up to version 3.
        v3_and_below_transactional_id: &'a str, 0..=3;
        /// Its producer id, up to version 3.
        v3_and_below_producer_id: i64, 0..=3;
        /// The epoch of the producer id, up to version 3.
        v3_and_below_producer_epoch: i16, 0..=3;
        /// The topics to add, up to version 3.
        v3_and_below_topics: Vec<AddPartitionsToTxnTopic<'a>>, 0..=3;
    }

    /// What became of each.
    response AddPartitionsToTxnResponse<'a> {
        /// How long the client was throttled.
        throttle_time_ms: i32, 0..;
        /// The error of the whole request, or 0, from version 4.
        error_code: i16, 4.., ignorable;
        /// The transactions, from version 4.
        results_by_transaction: Vec<AddPartitionsToTxnResult<'a>>, 4..;
        /// The topics, up to version 3.
        results_by_topic_v3_and_below: Vec<AddPartitionsToTxnTopicResult<'a>>, 0..=3;
    }

    /// A transaction to add to.
    struct AddPartitionsToTxnTransaction<'a> {
        /// The transactional id.
        transactional_id: &'a str, 4..;
        /// Its producer id.
        producer_id: i64, 4..;
        /// The epoch of the producer id.
        producer_epoch: i16, 4..;
        /// Whether to only look if the partitions are in the transaction already.
        verify_only: bool, 4..;
        /// The topics.
        topics: Vec<AddPartitionsToTxnTopic<'a>>, 4..;
    }

    /// A topic to add.
    struct AddPartitionsToTxnTopic<'a> {
        /// Its name.
        name: &'a str, 0..;
        /// Its partitions.
        partitions: Vec<i32>, 0..;
    }

    /// A transaction's outcome.
    struct AddPartitionsToTxnResult<'a> {
        /// The transactional id.
        transactional_id: &'a str, 4..;
        /// The topics.
        topic_results: Vec<AddPartitionsToTxnTopicResult<'a>>, 4..;
    }

    /// A topic's outcome.
    struct AddPartitionsToTxnTopicResult<'a> {
        /// Its name.
        name: &'a str, 0..;
        /// Its partitions.
        results_by_partition: Vec<AddPartitionsToTxnPartitionResult<'a>>, 0..;
    }

    /// A partition's outcome.
    struct AddPartitionsToTxnPartitionResult<'a> {
        /// Its index.
        partition_index: i32, 0..;
        /// The error, or 0: OPERATION_NOT_ATTEMPTED where another partition's error kept this one out.
        partition_error_code: i16, 0..;
    }
}
