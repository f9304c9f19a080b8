//! The credentials of a client: the settings, Java's `sasl.jaas.config`, tokens with their sources, and Kerberos
//! tickets.

mod assertion;
mod aws;
mod azure;
mod clouds;
mod google;
mod jaas;
mod jwt;
mod kerberos;
mod oauth_settings;
mod oidc;
mod settings;
mod sources;
mod token;

use std::fmt;
use std::sync::Arc;

use monedula_protocol::sasl::scram::ScramHash;
use monedula_protocol::sasl::{Credentials, Mechanism};
use monedula_protocol::secret::Secret;

use self::kerberos::Kerberos;
pub(crate) use self::kerberos::Login as KerberosLogin;
pub(crate) use self::oauth_settings::{client_credentials, token_agent};
pub(crate) use self::oidc::{Timeouts, agent, is_refused_by_proxy, through_proxy};
use self::token::TokenProvider;
pub use self::token::{Token, TokenError, TokenSource};

/// Mechanism and credentials of a client.
#[derive(Debug)]
pub struct Sasl {
    mechanism: Mechanism,
    credentials: MechanismCredentials,
}

#[derive(Debug)]
enum MechanismCredentials {
    Password { username: String, password: Secret, delegation_token: bool },
    Token(Arc<TokenProvider>),
    Kerberos(Arc<Kerberos>),
}

#[derive(Debug)]
pub(crate) enum Obtained {
    /// Credentials for an exchange without I/O.
    Credentials { credentials: Credentials, token: Option<UsedToken> },
    /// A login that the Kerberos library has begun, and its first message.
    Kerberos(KerberosLogin, Secret),
}

#[derive(Debug)]
pub(crate) struct UsedToken {
    provider: Arc<TokenProvider>,
    number: u64,
}

impl UsedToken {
    /// The broker refused it. Returns whether the next attempt has a newer one.
    pub(crate) fn refused(&self) -> bool {
        self.provider.refused(self.number)
    }
}

/// Reason that there are no credentials.
#[derive(Clone, Debug)]
pub(crate) enum NoCredentials {
    /// Another attempt may get some.
    ForNow(String),
    /// No further attempt will get any.
    Refused { reason: String, advice: &'static str },
}

/// The options of a login module, as names and values, for a token source in code. Empty if the text cannot be parsed.
pub fn jaas_options(jaas_config: &str) -> Vec<(String, String)> {
    let jaas = jaas::Jaas::parse(jaas_config);
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    jaas.iter().flat_map(|jaas| jaas.prefixed("").map(owned)).collect()
}

impl Sasl {
    pub(crate) fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    #[cfg(test)]
    fn kerberos(&self) -> Option<&Arc<Kerberos>> {
        if let MechanismCredentials::Kerberos(kerberos) = &self.credentials { Some(kerberos) } else { None }
    }

    /// The credentials for a login to the broker at `host` now. A thread of its own may have to fetch a token or ticket
    /// first.
    pub(crate) async fn obtain(&self, host: &str) -> Result<Obtained, NoCredentials> {
        match &self.credentials {
            MechanismCredentials::Password { username, password, delegation_token } => {
                let (username, password, delegation_token) = (username.clone(), password.clone(), *delegation_token);
                let hash = match self.mechanism {
                    Mechanism::ScramSha256 => Some(ScramHash::Sha256),
                    Mechanism::ScramSha512 => Some(ScramHash::Sha512),
                    _ => None,
                };
                let credentials = match hash {
                    Some(hash) => Credentials::Scram { hash, username, password, delegation_token },
                    None => Credentials::Plain { username, password },
                };
                Ok(Obtained::Credentials { credentials, token: None })
            }
            MechanismCredentials::Token(provider) => {
                let (token, number) = provider.token().await?;
                let credentials =
                    Credentials::OauthBearer { token: token.value.clone(), extensions: token.extensions.clone() };
                let token = Some(UsedToken { provider: provider.clone(), number });
                Ok(Obtained::Credentials { credentials, token })
            }
            MechanismCredentials::Kerberos(kerberos) => {
                let (login, first) = kerberos.begin(host).await?;
                Ok(Obtained::Kerberos(login, first.into()))
            }
        }
    }

    /// Advice about credentials that cannot be sent.
    pub(crate) fn advice_to_correct(&self) -> &'static str {
        match &self.credentials {
            MechanismCredentials::Token(_) => "Correct the source of tokens: what it gives is sent as it is",
            _ => self.advice(),
        }
    }

    /// Advice about a refused login.
    pub(crate) fn advice(&self) -> &'static str {
        match (self.mechanism, &self.credentials) {
            (_, MechanismCredentials::Password { delegation_token: true, .. }) => {
                "Check the id and HMAC of the delegation token, and that it has not expired"
            }
            (Mechanism::ScramSha256 | Mechanism::ScramSha512, _) => {
                "Check sasl.username and sasl.password, and that the user has a credential for this very mechanism"
            }
            (_, MechanismCredentials::Token(_)) => {
                "Check the token's issuer, audience, scope and claims against the broker's settings, and the clocks"
            }
            (_, MechanismCredentials::Kerberos(_)) => {
                "Check that the broker's keytab and clock are up to date, and what it makes of the principal \
                 (sasl.kerberos.principal.to.local.rules); its log says more"
            }
            _ => "Check sasl.username and sasl.password",
        }
    }
}

/// The user and the mechanism, for errors and logs.
impl fmt::Display for Sasl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.credentials {
            MechanismCredentials::Password { username, delegation_token: false, .. } => {
                write!(f, "{username} with {}", self.mechanism)
            }
            MechanismCredentials::Password { username, .. } => {
                write!(f, "the delegation token {username} with {}", self.mechanism)
            }
            MechanismCredentials::Kerberos(kerberos) if let Some(principal) = kerberos.principal() => {
                write!(f, "{principal} with {}", self.mechanism)
            }
            MechanismCredentials::Token(_) | MechanismCredentials::Kerberos(_) => {
                write!(f, "the client with {}", self.mechanism)
            }
        }
    }
}
