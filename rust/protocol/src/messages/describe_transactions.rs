//! DescribeTransactions, API key 65, version 0, flexible (KIP-664).

use crate::wire::api;

api! {
    DescribeTransactions, versions 0..=0, flexible 0..;

    /// Asks a coordinator for the transactions of some transactional ids.
    request DescribeTransactionsRequest<'a> {
        /// The transactional ids.
        transactional_ids: Vec<&'a str>, 0..;
    }

    /// The transactions.
    response DescribeTransactionsResponse<'a> {
        /// How long the client was throttled.
        throttle_time_ms: i32, 0..;
        /// One for each transactional id.
        transaction_states: Vec<TransactionState<'a>>, 0..;
    }

    /// A transactional id's last transaction.
    struct TransactionState<'a> {
        /// The error, or 0.
        error_code: i16, 0..;
        /// The transactional id.
        transactional_id: &'a str, 0..;
        /// Kafka's name of the state, such as `Ongoing`.
        transaction_state: &'a str, 0..;
        /// After how long it is aborted.
        transaction_timeout_ms: i32, 0..;
        /// When it began, in milliseconds since 1970; -1 where none has.
        transaction_start_time_ms: i64, 0..;
        /// The producer's id.
        producer_id: i64, 0..;
        /// The producer's epoch.
        producer_epoch: i16, 0..;
        /// Partitions that take part; once it is being ended, those whose marker is still to be written.
        topics: Vec<TopicData<'a>>, 0..;
    }

    /// A topic's partitions.
    struct TopicData<'a> {
        /// Its name.
        topic: &'a str, 0..;
        /// The partitions.
        partitions: Vec<i32>, 0..;
    }
}
