//! DescribeDelegationToken, API key 41, versions 1-3 (KIP-48; Kafka 4.0 removed 0).
//!
//! Version 1 makes the broker respond before it throttles the client (KIP-219). 2 is flexible. 3 adds the requester of
//! a token for another owner (KIP-373).

use crate::types::SecretBytes;
use crate::wire::api;

api! {
    DescribeDelegationToken, versions 1..=3, flexible 2..;

    /// Describes delegation tokens.
    request DescribeDelegationTokenRequest<'a> {
        /// The owners; `None` for all tokens that the requester may see.
        owners: Option<Vec<DescribeDelegationTokenOwner<'a>>>, 0.., nullable 0..;
    }

    /// The tokens.
    response DescribeDelegationTokenResponse<'a> {
        error_code: i16, 0..;
        tokens: Vec<DescribedDelegationToken<'a>>, 0..;
        throttle_time_ms: i32, 0..;
    }

    /// An owner.
    struct DescribeDelegationTokenOwner<'a> {
        principal_type: &'a str, 0..;
        principal_name: &'a str, 0..;
    }

    /// A token.
    struct DescribedDelegationToken<'a> {
        /// The type of the owner's principal.
        principal_type: &'a str, 0..;
        /// The name of the owner's principal.
        principal_name: &'a str, 0..;
        token_requester_principal_type: &'a str, 3..;
        token_requester_principal_name: &'a str, 3..;
        /// The time at which the token was issued, in milliseconds since the epoch.
        issue_timestamp: i64, 0..;
        /// The time at which the token expires unless it is renewed, in milliseconds since the epoch.
        expiry_timestamp: i64, 0..;
        /// The time until which the token can be renewed, in milliseconds since the epoch.
        max_timestamp: i64, 0..;
        token_id: &'a str, 0..;
        /// The HMAC, in base64 the token's password.
        hmac: SecretBytes<'a>, 0..;
        /// The principals that may renew the token besides its owner.
        renewers: Vec<DescribedDelegationTokenRenewer<'a>>, 0..;
    }

    /// A principal that may renew the token.
    struct DescribedDelegationTokenRenewer<'a> {
        principal_type: &'a str, 0..;
        principal_name: &'a str, 0..;
    }
}
