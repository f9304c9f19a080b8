//! EndTxn, API key 26, versions 0-5 (KIP-98).
//!
//! Version 1 makes the broker respond before it throttles the client (KIP-219). 2 may return PRODUCER_FENCED (KIP-588),
//! 4 TRANSACTION_ABORTABLE (KIP-890). 3 is flexible. With 5, every transaction raises the producer epoch, and the
//! response returns the id and epoch for the next transaction (KIP-890).

use crate::wire::api;

api! {
    EndTxn, versions 0..=5, flexible 3..;

    /// Commits or aborts a transaction.
    request EndTxnRequest<'a> {
        transactional_id: &'a str, 0..;
        producer_id: i64, 0..;
        producer_epoch: i16, 0..;
        /// True to commit the transaction, false to abort it.
        committed: bool, 0..;
    }

    /// The result.
    response EndTxnResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
        /// The producer id for the next transaction, or -1. It is a new one if the epochs of the current one are used
        /// up.
        producer_id: i64 = -1, 5.., ignorable;
        /// The epoch for the next transaction, or -1.
        producer_epoch: i16 = -1, 5.., ignorable;
    }
}
