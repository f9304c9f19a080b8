//! AddOffsetsToTxn, API key 25, versions 0-4 (KIP-98).
//!
//! Version 1 makes the broker respond before it throttles the client (KIP-219). 2 may return PRODUCER_FENCED (KIP-588),
//! 4 TRANSACTION_ABORTABLE (KIP-890). 3 is flexible.

use crate::wire::api;

api! {
    AddOffsetsToTxn, versions 0..=4, flexible 3..;

    /// Adds a group's partition of `__consumer_offsets` to a transaction, before the producer commits offsets in it.
    request AddOffsetsToTxnRequest<'a> {
        transactional_id: &'a str, 0..;
        producer_id: i64, 0..;
        producer_epoch: i16, 0..;
        group_id: &'a str, 0..;
    }

    /// The result.
    response AddOffsetsToTxnResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
    }
}
