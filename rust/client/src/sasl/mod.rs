//! The credentials of a client: the settings, Java's `sasl.jaas.config`, and tokens with their sources.

mod jaas;
mod jwt;
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

use self::token::TokenProvider;
pub use self::token::{Token, TokenError, TokenSource};

/// Mechanism and credentials of a client.
#[derive(Debug)]
pub struct Sasl {
    mechanism: Mechanism,
    means: Means,
}

#[derive(Debug)]
enum Means {
    Password { username: String, password: Secret, delegation_token: bool },
    Token(Arc<TokenProvider>),
}

/// Credentials for one login.
pub(crate) struct Obtained {
    pub(crate) credentials: Credentials,
    token: Option<(Arc<TokenProvider>, u64)>,
}

impl Obtained {
    /// The broker refused these credentials. Returns whether the next attempt has others, which are a newer token.
    pub(crate) fn refused(&self) -> bool {
        self.token.as_ref().is_some_and(|(provider, number)| provider.refused(*number))
    }
}

/// Why there are no credentials.
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

    /// The credentials for a login now. A thread of its own may have to fetch a token first.
    pub(crate) async fn credentials(&self) -> Result<Obtained, NoCredentials> {
        match &self.means {
            Means::Password { username, password, delegation_token } => {
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
                Ok(Obtained { credentials, token: None })
            }
            Means::Token(provider) => {
                let (token, number) = provider.token().await?;
                let credentials =
                    Credentials::OauthBearer { token: token.value.clone(), extensions: token.extensions.clone() };
                Ok(Obtained { credentials, token: Some((provider.clone(), number)) })
            }
        }
    }

    /// What to do about a refused login.
    pub(crate) fn advice(&self) -> &'static str {
        match (self.mechanism, &self.means) {
            (_, Means::Password { delegation_token: true, .. }) => {
                "Check the id and HMAC of the delegation token, and that it has not expired"
            }
            (Mechanism::ScramSha256 | Mechanism::ScramSha512, _) => {
                "Check sasl.username and sasl.password, and that the user has a credential for this very mechanism"
            }
            (_, Means::Token(_)) => {
                "Check the token's issuer, audience, scope and claims against the broker's settings, and the clocks"
            }
            _ => "Check sasl.username and sasl.password",
        }
    }
}

/// The user and the mechanism, for errors and logs.
impl fmt::Display for Sasl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.means {
            Means::Password { username, delegation_token: false, .. } => {
                write!(f, "{username} with {}", self.mechanism)
            }
            Means::Password { username, .. } => write!(f, "the delegation token {username} with {}", self.mechanism),
            Means::Token(_) => write!(f, "the client with {}", self.mechanism),
        }
    }
}
