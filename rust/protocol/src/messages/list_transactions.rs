//! ListTransactions, API key 66, versions 0-2 (KIP-664).
//!
//! All versions are flexible. Version 1 adds the filter by duration (KIP-994), 2 the filter by a regular expression
//! (KIP-1152).

use crate::wire::api;

api! {
    ListTransactions, versions 0..=2, flexible 0..;

    /// Lists the transactional ids of a coordinator that match every filter. An empty filter matches all.
    request ListTransactionsRequest<'a> {
        /// The names of states to list; empty for all.
        state_filters: Vec<&'a str>, 0..;
        /// The producer ids to list; empty for all.
        producer_id_filters: Vec<i64>, 0..;
        /// Lists only transactions that have been open for longer than this, in milliseconds; negative for no filter.
        duration_filter: i64 = -1, 1..;
        /// A regular expression for transactional ids; `None` for no filter.
        transactional_id_pattern: Option<&'a str> = None, 2.., nullable 2..;
    }

    /// The transactional ids.
    response ListTransactionsResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
        /// The names in `state_filters` that Kafka does not know.
        unknown_state_filters: Vec<&'a str>, 0..;
        /// The transactional ids.
        transaction_states: Vec<TransactionState<'a>>, 0..;
    }

    /// A transactional id.
    struct TransactionState<'a> {
        transactional_id: &'a str, 0..;
        producer_id: i64, 0..;
        /// Kafka's name of the state, such as `Ongoing`.
        transaction_state: &'a str, 0..;
    }
}
