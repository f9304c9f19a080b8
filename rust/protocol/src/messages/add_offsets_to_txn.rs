//! AddOffsetsToTxn, API key 25, versions 0-4 (KIP-98).
//!
//! From 1 on, a broker answers before it throttles (KIP-219). 2 may answer PRODUCER_FENCED (KIP-588), 4
//! TRANSACTION_ABORTABLE (KIP-890). 3 is flexible.

use crate::wire::api;

api! {
    AddOffsetsToTxn, versions 0..=4, flexible 3..;

    /// Adds a group's offsets to a transaction, before any are committed in it.
    request AddOffsetsToTxnRequest<'a> {
        /// The transactional id.
        transactional_id: &'a str, 0..;
        /// Its producer id.
        producer_id: i64, 0..;
        /// The epoch of the producer id.
        producer_epoch: i16, 0..;
        /// The group.
        group_id: &'a str, 0..;
    }

    /// What became of it.
    response AddOffsetsToTxnResponse<'a> {
        /// How long the client was throttled.
        throttle_time_ms: i32, 0..;
        /// The error, or 0.
        error_code: i16, 0..;
    }
}
