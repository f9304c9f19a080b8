//! InitProducerId, API key 22, versions 0-5 (KIP-98).
//!
//! From 1 the answer comes before a throttled client is muted (KIP-219). 2 is flexible. 3 lets a producer go on with
//! its id after an error (KIP-360). 4 may answer PRODUCER_FENCED (KIP-588), 5 TRANSACTION_ABORTABLE (KIP-890). Kafka
//! has a 6 in the making, for two-phase commit (KIP-939).

use crate::wire::api;

api! {
    InitProducerId, versions 0..=5, flexible 2..;

    /// Asks for a producer id and an epoch.
    request InitProducerIdRequest<'a> {
        /// The transactional id, if the producer has one; older producers with it are fenced.
        transactional_id: Option<&'a str>, 0.., nullable 0..;
        /// After how long an idle transaction is aborted; without a transactional id it says nothing.
        transaction_timeout_ms: i32, 0..;
        /// The id that the producer has, or -1.
        producer_id: i64 = -1, 3..;
        /// The epoch that the producer has, or -1.
        producer_epoch: i16 = -1, 3..;
    }

    /// The producer id and the epoch.
    response InitProducerIdResponse<'a> {
        /// How long the client was throttled.
        throttle_time_ms: i32, 0.., ignorable;
        /// The error, or 0.
        error_code: i16, 0..;
        /// The producer id, or -1.
        producer_id: i64 = -1, 0..;
        /// The epoch.
        producer_epoch: i16, 0..;
    }
}
