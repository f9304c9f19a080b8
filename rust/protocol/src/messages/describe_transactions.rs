//! DescribeTransactions, API key 65, version 0, flexible (KIP-664).

use crate::wire::api;

api! {
    DescribeTransactions, versions 0..=0, flexible 0..;

    /// Describes the transactions of transactional ids; sent to their coordinators.
    request DescribeTransactionsRequest<'a> {
        /// The transactional ids.
        transactional_ids: Vec<&'a str>, 0..;
    }

    /// The transactions.
    response DescribeTransactionsResponse<'a> {
        /// The throttle time in milliseconds.
        throttle_time_ms: i32, 0..;
        /// The last transaction of each transactional id.
        transaction_states: Vec<TransactionState<'a>>, 0..;
    }

    /// The last transaction of one transactional id.
    struct TransactionState<'a> {
        /// The error, or 0.
        error_code: i16, 0..;
        /// The transactional id.
        transactional_id: &'a str, 0..;
        /// Kafka's name of the state, such as `Ongoing`.
        transaction_state: &'a str, 0..;
        /// The transaction timeout in milliseconds.
        transaction_timeout_ms: i32, 0..;
        /// The time at which the transaction began, in milliseconds since the epoch; -1 if none has.
        transaction_start_time_ms: i64, 0..;
        /// The producer's id.
        producer_id: i64, 0..;
        /// The producer's epoch.
        producer_epoch: i16, 0..;
        /// The partitions in the transaction; while it is completing, those whose marker is not written yet.
        topics: Vec<TopicData<'a>>, 0..;
    }

    /// A topic's partitions.
    struct TopicData<'a> {
        /// The topic's name.
        topic: &'a str, 0..;
        /// The partitions.
        partitions: Vec<i32>, 0..;
    }
}
