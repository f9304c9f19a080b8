//! The client's side of any mechanism, with what it needs besides the broker's messages: keys that are derived on
//! another thread, and the library of Kerberos.

use monedula_protocol::sasl::{ClientExchange, ExchangeStep, NONCE_BYTES, SaslError};
use monedula_protocol::secret::Secret;

use super::keys::DerivedKeys;
use crate::sasl::{KerberosLogin, NoCredentials, Obtained, UsedToken};

#[derive(Debug)]
pub(super) enum Exchange {
    Own { exchange: ClientExchange, token: Option<UsedToken> },
    Kerberos(KerberosLogin),
}

pub(super) enum Next {
    Send(Secret),
    /// The exchange has succeeded on this side.
    Done,
}

/// Reason that it cannot go on.
pub(super) enum ExchangeError {
    Sasl(SaslError),
    Credentials(NoCredentials),
    /// The broker leads it nowhere.
    Endless,
}

impl From<SaslError> for ExchangeError {
    fn from(error: SaslError) -> Self {
        Self::Sasl(error)
    }
}

impl Exchange {
    /// Begins; returns the first message with it.
    pub(super) fn start(obtained: Obtained, nonce: [u8; NONCE_BYTES]) -> Result<(Self, Secret), SaslError> {
        match obtained {
            Obtained::Credentials { credentials, token } => {
                let (exchange, first) = ClientExchange::start(&credentials, nonce)?;
                Ok((Self::Own { exchange, token }, first))
            }
            Obtained::Kerberos(login, first) => Ok((Self::Kerberos(login), first)),
        }
    }

    /// Takes the broker's message.
    pub(super) async fn step(&mut self, challenge: &[u8], keys: &DerivedKeys) -> Result<Next, ExchangeError> {
        match self {
            Self::Own { exchange, .. } => {
                let step = match exchange.step(challenge)? {
                    ExchangeStep::Derive(derivation) => {
                        let derived = keys.derive(derivation).await;
                        let derived =
                            derived.map_err(|reason| ExchangeError::Credentials(NoCredentials::ForNow(reason)));
                        exchange.derived(derived?)?
                    }
                    step => step,
                };
                match step {
                    ExchangeStep::Send(next) => Ok(Next::Send(next)),
                    ExchangeStep::Done => Ok(Next::Done),
                    // Each would keep the client busy for half a second.
                    ExchangeStep::Derive(_) => Err(ExchangeError::Endless),
                }
            }
            Self::Kerberos(login) => match login.step(challenge).await.map_err(ExchangeError::Credentials)? {
                Some(token) => Ok(Next::Send(token.into())),
                None => Ok(Next::Done),
            },
        }
    }

    /// The broker refused it. Returns whether the next attempt has other credentials.
    pub(super) fn refused(&self) -> bool {
        match self {
            Self::Own { token, .. } => token.as_ref().is_some_and(UsedToken::refused),
            Self::Kerberos(login) => login.refused(),
        }
    }
}
