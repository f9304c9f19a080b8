//! Client side of all mechanisms.

use std::sync::Arc;

use super::error::SaslError;
use super::oauthbearer::{self, Extensions};
use super::scram::{self, KeyDerivation, ScramHash, ScramKeys};
use super::{Mechanism, NONCE_BYTES, plain};
use crate::secret::Secret;

/// The credentials of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// Credentials of PLAIN.
    Plain {
        /// The user.
        username: String,
        /// The password.
        password: Secret,
    },
    /// Credentials of SCRAM.
    Scram {
        /// The mechanism's hash.
        hash: ScramHash,
        /// The user, or the id of a delegation token.
        username: String,
        /// The password, or the HMAC of a delegation token in base64.
        password: Secret,
        /// True for the credentials of a delegation token (KIP-48).
        delegation_token: bool,
    },
    /// Credentials of OAUTHBEARER.
    OauthBearer {
        /// The token.
        token: Secret,
        /// The SASL extensions (KIP-342).
        extensions: Extensions,
    },
}

impl Credentials {
    /// The mechanism that the credentials are for.
    pub fn mechanism(&self) -> Mechanism {
        match self {
            Self::Plain { .. } => Mechanism::Plain,
            Self::Scram { hash, .. } => hash.mechanism(),
            Self::OauthBearer { .. } => Mechanism::OauthBearer,
        }
    }
}

/// Next action of the driver of a [`ClientExchange`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum ExchangeStep {
    /// Send these bytes, and give the answer to [`ClientExchange::step`].
    Send(Secret),
    /// Run [`KeyDerivation::run`], which takes long, and give the keys to [`ClientExchange::derived`].
    Derive(KeyDerivation),
    /// Finish: the exchange has succeeded; with SCRAM, the server's signature was verified.
    Done,
}

/// Client side of an exchange. It has succeeded only after a [`ExchangeStep::Done`], whatever else the broker says: an error
/// code of 0 does not replace SCRAM's signature.
#[derive(Debug)]
pub struct ClientExchange(Client);

#[derive(Debug)]
enum Client {
    Plain(plain::Client),
    Scram(scram::Client),
    OauthBearer(oauthbearer::Client),
}

impl ClientExchange {
    /// Begins an exchange, and returns the first message to send. `nonce` must be fresh random bytes from a
    /// cryptographic generator; only SCRAM uses them.
    ///
    /// # Errors
    /// [`SaslError::Credentials`] if the mechanism cannot carry them.
    pub fn start(credentials: &Credentials, nonce: [u8; NONCE_BYTES]) -> Result<(Self, Secret), SaslError> {
        Ok(match credentials {
            Credentials::Plain { username, password } => {
                let (client, message) = plain::Client::start(username, password)?;
                (Self(Client::Plain(client)), message)
            }
            Credentials::Scram { hash, username, password, delegation_token } => {
                let (client, message) = scram::Client::start(*hash, username, password, *delegation_token, nonce)?;
                (Self(Client::Scram(client)), message)
            }
            Credentials::OauthBearer { token, extensions } => {
                let (client, message) = oauthbearer::Client::start(token, extensions)?;
                (Self(Client::OauthBearer(client)), message)
            }
        })
    }

    /// Takes the broker's message.
    ///
    /// # Errors
    /// Every [`SaslError`] but `Credentials`. The exchange is over then.
    pub fn step(&mut self, challenge: &[u8]) -> Result<ExchangeStep, SaslError> {
        match &mut self.0 {
            Client::Plain(client) => client.step(challenge),
            Client::Scram(client) => client.step(challenge),
            Client::OauthBearer(client) => client.step(challenge),
        }
    }

    /// Takes the keys that [`ExchangeStep::Derive`] asked for.
    ///
    /// # Errors
    /// [`SaslError::Ended`] if the exchange did not ask for keys.
    pub fn derived(&mut self, keys: Arc<ScramKeys>) -> Result<ExchangeStep, SaslError> {
        match &mut self.0 {
            Client::Scram(client) => client.derived(&keys),
            Client::Plain(_) => Err(SaslError::Ended { mechanism: Mechanism::Plain }),
            Client::OauthBearer(_) => Err(SaslError::Ended { mechanism: Mechanism::OauthBearer }),
        }
    }
}
