//! ExpireDelegationToken, API key 40, versions 1-2 (KIP-48; Kafka 4.0 removed 0).
//!
//! Version 1 makes the broker respond before it throttles the client (KIP-219). 2 is flexible.

use crate::types::SecretBytes;
use crate::wire::api;

api! {
    ExpireDelegationToken, versions 1..=2, flexible 2..;

    /// Brings the expiry of a delegation token forward, or deletes the token.
    request ExpireDelegationTokenRequest<'a> {
        hmac: SecretBytes<'a>, 0..;
        /// The time for which the token remains valid, in milliseconds; a negative period deletes it at once.
        expiry_time_period_ms: i64, 0..;
    }

    /// The new expiry.
    response ExpireDelegationTokenResponse<'a> {
        error_code: i16, 0..;
        /// The time at which the token expires, in milliseconds since the epoch.
        expiry_timestamp_ms: i64, 0..;
        throttle_time_ms: i32, 0..;
    }
}
