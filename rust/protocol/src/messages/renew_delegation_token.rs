//! RenewDelegationToken, API key 39, versions 1-2 (KIP-48; Kafka 4.0 removed 0).
//!
//! Version 1 makes the broker respond before it throttles the client (KIP-219). 2 is flexible.

use crate::types::SecretBytes;
use crate::wire::api;

api! {
    RenewDelegationToken, versions 1..=2, flexible 2..;

    /// Moves the expiry of a delegation token.
    request RenewDelegationTokenRequest<'a> {
        hmac: SecretBytes<'a>, 0..;
        /// The time for which the token is valid from now on, in milliseconds; -1 for the broker's
        /// `delegation.token.expiry.time.ms`.
        renew_period_ms: i64, 0..;
    }

    /// The new expiry.
    response RenewDelegationTokenResponse<'a> {
        error_code: i16, 0..;
        /// The time at which the token expires, in milliseconds since the epoch.
        expiry_timestamp_ms: i64, 0..;
        throttle_time_ms: i32, 0..;
    }
}
