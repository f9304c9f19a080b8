//! SASL exchanges without I/O: the messages that client and broker carry in SaslAuthenticate.
//!
//! Client and server each have one type for all mechanisms. A driver carries bytes between [`ClientExchange`] or
//! [`ServerExchange`] and the connection, and supplies the random bytes of a nonce. GSSAPI is not here: it needs the
//! system's library.
//!
//! The mechanisms are PLAIN (RFC 4616), SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677) for users and for
//! delegation tokens (KIP-48), and OAUTHBEARER (RFC 7628, KIP-255, KIP-342).
//!
//! User names and passwords are used as they are, in UTF-8, as in Kafka: no side applies SASLprep.

mod client;
mod error;
pub mod oauthbearer;
mod plain;
pub mod scram;
mod server;

use std::fmt;

pub use client::{ClientExchange, Credentials, ExchangeStep};
pub use error::SaslError;
pub use server::{Accounts, Authenticated, Refusal, ServerExchange, ServerStep};

/// Random bytes from which SCRAM's nonces are made.
pub const NONCE_BYTES: usize = 24;

/// A SASL mechanism of Kafka.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mechanism {
    /// User name and password in plain text.
    Plain,
    /// A proof of the password, with SHA-256.
    ScramSha256,
    /// A proof of the password, with SHA-512.
    ScramSha512,
    /// A bearer token of OAuth 2.
    OauthBearer,
    /// Kerberos.
    Gssapi,
}

impl Mechanism {
    /// Every mechanism.
    pub const ALL: [Self; 5] = [Self::Plain, Self::ScramSha256, Self::ScramSha512, Self::OauthBearer, Self::Gssapi];

    /// The name on the wire and in Kafka's settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
            Self::OauthBearer => "OAUTHBEARER",
            Self::Gssapi => "GSSAPI",
        }
    }

    /// The mechanism with this name, if Kafka has it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mechanism| mechanism.name() == name)
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Text of the other side, for an error or log: without control characters, and shortened.
pub fn readable(bytes: &[u8]) -> String {
    const MAX_CHARACTERS: usize = 300;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * MAX_CHARACTERS)]);
    text.chars().filter(|character| !character.is_control()).take(MAX_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mechanisms_have_kafkas_names() {
        for mechanism in Mechanism::ALL {
            assert_eq!(Mechanism::from_name(mechanism.name()), Some(mechanism));
        }
        assert_eq!(Mechanism::from_name("scram-sha-256"), None);
        assert_eq!(Mechanism::from_name("SCRAM-SHA-1"), None);
    }

    #[test]
    fn foreign_text_is_shortened_and_has_no_control_characters() {
        assert_eq!(readable(b"a\r\n\x1b[2Jb\xff"), "a[2Jb\u{fffd}");
        assert_eq!(readable(&[b'x'; 1 << 20]).len(), 300);
    }
}
