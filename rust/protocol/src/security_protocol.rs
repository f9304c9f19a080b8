//! The security protocols of listeners: `security.protocol` of clients, and each listener's protocol of a broker.

use std::str::FromStr;

/// Combination of TLS and SASL on a connection.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SecurityProtocol {
    /// No TLS, no login.
    #[default]
    Plaintext,
    /// TLS.
    Ssl,
    /// SASL without TLS.
    SaslPlaintext,
    /// SASL over TLS.
    SaslSsl,
}

impl SecurityProtocol {
    const ALL: [Self; 4] = [Self::Plaintext, Self::Ssl, Self::SaslPlaintext, Self::SaslSsl];

    /// Kafka's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plaintext => "PLAINTEXT",
            Self::Ssl => "SSL",
            Self::SaslPlaintext => "SASL_PLAINTEXT",
            Self::SaslSsl => "SASL_SSL",
        }
    }

    /// Returns true if connections are encrypted.
    pub fn has_tls(self) -> bool {
        matches!(self, Self::Ssl | Self::SaslSsl)
    }

    /// Returns true if connections begin with a login.
    pub fn has_sasl(self) -> bool {
        matches!(self, Self::SaslPlaintext | Self::SaslSsl)
    }
}

/// A text that names no security protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is none of {known}", known = SecurityProtocol::ALL.map(SecurityProtocol::name).join(", "))]
pub struct UnknownSecurityProtocol(String);

impl FromStr for SecurityProtocol {
    type Err = UnknownSecurityProtocol;

    fn from_str(text: &str) -> Result<Self, UnknownSecurityProtocol> {
        let found = Self::ALL.into_iter().find(|protocol| protocol.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| UnknownSecurityProtocol(text.to_owned()))
    }
}
