//! EndTxn, API key 26, versions 0-5 (KIP-98).
//!
//! From 1 on, a broker answers before it throttles (KIP-219). 2 may answer PRODUCER_FENCED (KIP-588), 4
//! TRANSACTION_ABORTABLE (KIP-890). 3 is flexible. 5 raises the epoch with every transaction, and answers with the next
//! one's (KIP-890).

use crate::wire::api;

api! {
    EndTxn, versions 0..=5, flexible 3..;

    /// Commits or aborts a transaction.
    request EndTxnRequest<'a> {
        /// The transactional id.
        transactional_id: &'a str, 0..;
        /// Its producer id.
        producer_id: i64, 0..;
        /// The epoch of the producer id.
        producer_epoch: i16, 0..;
        /// Whether to commit it, rather than to abort it.
        committed: bool, 0..;
    }

    /// What became of it.
    response EndTxnResponse<'a> {
        /// How long the client was throttled.
        throttle_time_ms: i32, 0..;
        /// The error, or 0.
        error_code: i16, 0..;
        /// The producer id for the next transaction, or -1; another one where the epochs of the old are used up.
        producer_id: i64 = -1, 5.., ignorable;
        /// The epoch for the next transaction, or -1.
        producer_epoch: i16 = -1, 5.., ignorable;
    }
}
