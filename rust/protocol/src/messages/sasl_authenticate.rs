//! SaslAuthenticate, API key 36, versions 0-2 (KIP-152).
//!
//! 1 adds the lifetime of the session (KIP-368). 2 is flexible.

use crate::types::SecretBytes;
use crate::wire::api;

api! {
    SaslAuthenticate, versions 0..=2, flexible 2..;

    /// A message of the client in a mechanism's exchange.
    request SaslAuthenticateRequest<'a> {
        /// The mechanism's bytes.
        auth_bytes: SecretBytes<'a>, 0..;
    }

    /// The broker's message that follows.
    response SaslAuthenticateResponse<'a> {
        error_code: i16, 0..;
        /// The error message, if any.
        error_message: Option<&'a str>, 0.., nullable 0..;
        /// The mechanism's bytes.
        auth_bytes: SecretBytes<'a>, 0..;
        /// Milliseconds after which the broker closes the connection unless the client authenticates again; 0 for no
        /// limit.
        session_lifetime_ms: i64, 1.., ignorable;
    }
}
