//! SaslHandshake, API key 17, versions 0-1 (KIP-43).
//!
//! After version 0, the bytes of the mechanism follow without Kafka's headers, as brokers before Kafka 1.0 have them;
//! Kafka 4.0 takes that no more (KIP-896). After version 1, SaslAuthenticate carries them (KIP-152).

use crate::wire::api;

api! {
    SaslHandshake, versions 0..=1;

    /// Chooses a mechanism.
    request SaslHandshakeRequest<'a> {
        mechanism: &'a str, 0..;
    }

    /// The result.
    response SaslHandshakeResponse<'a> {
        /// The error, or 0; UNSUPPORTED_SASL_MECHANISM if the listener does not have the mechanism.
        error_code: i16, 0..;
        /// The mechanisms that the listener has.
        mechanisms: Vec<&'a str>, 0..;
    }
}
