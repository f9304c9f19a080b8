//! InitProducerId, API key 22, versions 0-5 (KIP-98).
//!
//! Version 1 makes the broker respond before it throttles the client (KIP-219). 2 is flexible. 3 lets a producer keep
//! its id after an error (KIP-360). 4 may return PRODUCER_FENCED (KIP-588), 5 TRANSACTION_ABORTABLE (KIP-890). Not
//! implemented: version 6, which Kafka is developing for two-phase commit (KIP-939).

use crate::wire::api;

api! {
    InitProducerId, versions 0..=5, flexible 2..;

    /// Asks for a producer id and an epoch.
    request InitProducerIdRequest<'a> {
        /// The transactional id, if the producer has one; older producers with the same id are fenced.
        transactional_id: Option<&'a str>, 0.., nullable 0..;
        /// The transaction timeout in milliseconds, after which an open transaction is aborted. Ignored without a
        /// transactional id.
        transaction_timeout_ms: i32, 0..;
        /// The producer's current id, or -1.
        producer_id: i64 = -1, 3..;
        /// The producer's current epoch, or -1.
        producer_epoch: i16 = -1, 3..;
    }

    /// The producer id and the epoch.
    response InitProducerIdResponse<'a> {
        throttle_time_ms: i32, 0.., ignorable;
        error_code: i16, 0..;
        /// The producer id, or -1.
        producer_id: i64 = -1, 0..;
        producer_epoch: i16, 0..;
    }
}
