//! DescribeTransactions, API key 65, version 0, flexible (KIP-664).

use crate::wire::api;

api! {
    DescribeTransactions, versions 0..=0, flexible 0..;

    /// Describes the transactions of transactional ids; sent to their coordinators.
    request DescribeTransactionsRequest<'a> {
        transactional_ids: Vec<&'a str>, 0..;
    }

    /// The transactions.
    response DescribeTransactionsResponse<'a> {
        throttle_time_ms: i32, 0..;
        /// The last transaction of each transactional id.
        transaction_states: Vec<TransactionState<'a>>, 0..;
    }

    /// The last transaction of one transactional id.
    struct TransactionState<'a> {
        error_code: i16, 0..;
        transactional_id: &'a str, 0..;
        /// Kafka's name of the state, such as `Ongoing`.
        transaction_state: &'a str, 0..;
        transaction_timeout_ms: i32, 0..;
        /// The time at which the transaction began, in milliseconds since the epoch; -1 if none has.
        transaction_start_time_ms: i64, 0..;
        producer_id: i64, 0..;
        producer_epoch: i16, 0..;
        /// The partitions in the transaction; while it is completing, those whose marker is not written yet.
        topics: Vec<TopicData<'a>>, 0..;
    }

    /// A topic's partitions.
    struct TopicData<'a> {
        topic: &'a str, 0..;
        partitions: Vec<i32>, 0..;
    }
}
