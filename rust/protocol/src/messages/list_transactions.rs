//! ListTransactions, API key 66, versions 0-2 (KIP-664).
//!
//! All are flexible. 1 adds the filter by duration (KIP-994), 2 that by a pattern (KIP-1152).

use crate::wire::api;

api! {
    ListTransactions, versions 0..=2, flexible 0..;

    /// Asks a coordinator which transactional ids it has. An id must pass every filter; an empty
    /// one lets everything through.
    request ListTransactionsRequest<'a> {
        /// Names of states.
        state_filters: Vec<&'a str>, 0..;
        /// Producer ids.
        producer_id_filters: Vec<i64>, 0..;
        /// Lets through what has been open for more milliseconds than this; negative for no filter.
        duration_filter: i64 = -1, 1..;
        /// A regular expression for transactional ids; `None` for no filter.
        transactional_id_pattern: Option<&'a str> = None, 2.., nullable 2..;
    }

    /// The transactional ids.
    response ListTransactionsResponse<'a> {
        /// How long the client was throttled.
        throttle_time_ms: i32, 0..;
        /// The error, or 0.
        error_code: i16, 0..;
        /// Names in `state_filters` that are no state's.
        unknown_state_filters: Vec<&'a str>, 0..;
        /// The transactional ids.
        transaction_states: Vec<TransactionState<'a>>, 0..;
    }

    /// A transactional id.
    struct TransactionState<'a> {
        /// The id.
        transactional_id: &'a str, 0..;
        /// The producer's id.
        producer_id: i64, 0..;
        /// Kafka's name of the state, such as `Ongoing`.
        transaction_state: &'a str, 0..;
    }
}
