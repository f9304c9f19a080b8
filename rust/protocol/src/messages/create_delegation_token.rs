//! CreateDelegationToken, API key 38, versions 1-3 (KIP-48; Kafka 4.0 removed 0).
//!
//! Version 1 makes the broker respond before it throttles the client (KIP-219). 2 is flexible. 3 adds tokens for
//! another owner (KIP-373).

use crate::types::SecretBytes;
use crate::wire::api;

api! {
    CreateDelegationToken, versions 1..=3, flexible 2..;

    /// Creates a delegation token.
    request CreateDelegationTokenRequest<'a> {
        /// The type of the owner's principal; `None` or empty if the requester is to own the token.
        owner_principal_type: Option<&'a str>, 3.., nullable 3..;
        /// The name of the owner's principal; `None` or empty if the requester is to own the token.
        owner_principal_name: Option<&'a str>, 3.., nullable 3..;
        /// The principals that may renew the token besides its owner.
        renewers: Vec<CreatableRenewers<'a>>, 0..;
        /// The longest lifetime in milliseconds; -1 for the broker's `delegation.token.max.lifetime.ms`.
        max_lifetime_ms: i64, 0..;
    }

    /// The token.
    response CreateDelegationTokenResponse<'a> {
        error_code: i16, 0..;
        /// The type of the owner's principal.
        principal_type: &'a str, 0..;
        /// The name of the owner's principal.
        principal_name: &'a str, 0..;
        token_requester_principal_type: &'a str, 3..;
        token_requester_principal_name: &'a str, 3..;
        /// The time at which the token was issued, in milliseconds since the epoch.
        issue_timestamp_ms: i64, 0..;
        /// The time at which the token expires unless it is renewed, in milliseconds since the epoch.
        expiry_timestamp_ms: i64, 0..;
        /// The time until which the token can be renewed, in milliseconds since the epoch.
        max_timestamp_ms: i64, 0..;
        token_id: &'a str, 0..;
        /// The HMAC, in base64 the token's password.
        hmac: SecretBytes<'a>, 0..;
        throttle_time_ms: i32, 0..;
    }

    /// A principal that may renew the token.
    struct CreatableRenewers<'a> {
        principal_type: &'a str, 0..;
        principal_name: &'a str, 0..;
    }
}
