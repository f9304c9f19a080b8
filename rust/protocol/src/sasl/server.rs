//! Broker side of all mechanisms.

use super::oauthbearer::{self, Extensions, TokenRefusal};
use super::scram::{self, ScramCredential, ScramHash};
use super::{Mechanism, NONCE_BYTES, plain};
use crate::secret::Secret;

/// Looks up the users who may log in, for the broker's side.
pub trait Accounts {
    /// Returns true if this is the user's password. Compare in constant time, as [`Secret`] does.
    fn has_password(&self, username: &str, password: &Secret) -> bool;

    /// The user's SCRAM credential, if there is one.
    fn scram_credential(&self, hash: ScramHash, username: &str) -> Option<ScramCredential>;

    /// SCRAM credential of a delegation token (KIP-48), with the token's owner and expiry.
    fn delegation_token(&self, hash: ScramHash, token_id: &str) -> Option<(ScramCredential, Authenticated)>;

    /// Checks a bearer token and its extensions.
    ///
    /// # Errors
    /// Reason for refusing, which is sent to the client.
    fn check_token(&self, token: &str, extensions: &Extensions) -> Result<Authenticated, TokenRefusal>;
}

/// The user who has logged in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authenticated {
    /// The name of the principal, without `User:`.
    pub principal: String,
    /// Expiry of its token, in milliseconds since 1970.
    pub expires_at_ms: Option<i64>,
    /// True for a login by delegation token, which cannot create other tokens.
    pub by_delegation_token: bool,
}

impl Authenticated {
    /// A user whose credentials do not expire.
    pub fn user(principal: impl Into<String>) -> Self {
        Self { principal: principal.into(), ..Self::default() }
    }
}

/// Reason why a login was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Reason sent to the client, in Kafka's words.
    pub message: String,
    /// Details for the broker's log only.
    pub reason: String,
}

/// Next action of the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum ServerStep {
    /// Answer with these bytes, and give the client's next message to [`ServerExchange::step`].
    Challenge(Secret),
    /// Answer with these bytes; the client has logged in.
    Authenticated(Secret, Authenticated),
    /// Answer with SASL_AUTHENTICATION_FAILED.
    Refused(Refusal),
}

/// Broker side of an exchange.
#[derive(Debug)]
pub struct ServerExchange {
    mechanism: Mechanism,
    server: Server,
}

#[derive(Debug)]
enum Server {
    Plain,
    Scram(scram::Server),
    OauthBearer(oauthbearer::Server),
    Ended,
}

impl ServerExchange {
    /// Begins an exchange; `None` for GSSAPI. `nonce` are fresh random bytes.
    pub fn new(mechanism: Mechanism, nonce: [u8; NONCE_BYTES]) -> Option<Self> {
        let server = match mechanism {
            Mechanism::Plain => Server::Plain,
            Mechanism::ScramSha256 => Server::Scram(scram::Server::new(ScramHash::Sha256, nonce)),
            Mechanism::ScramSha512 => Server::Scram(scram::Server::new(ScramHash::Sha512, nonce)),
            Mechanism::OauthBearer => Server::OauthBearer(oauthbearer::Server::default()),
            Mechanism::Gssapi => return None,
        };
        Some(Self { mechanism, server })
    }

    /// The mechanism.
    pub fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    /// Takes the client's message. After `Authenticated` or `Refused`, all further messages are refused.
    pub fn step(&mut self, message: &[u8], accounts: &dyn Accounts) -> ServerStep {
        let result = match &mut self.server {
            Server::Plain => plain::check(message, accounts),
            Server::Scram(server) => server.step(message, accounts),
            Server::OauthBearer(server) => server.step(message, accounts),
            Server::Ended => Err("a message after the exchange has ended".into()),
        };
        let step = result.unwrap_or_else(|reason| ServerStep::Refused(self.refusal(reason)));
        if !matches!(step, ServerStep::Challenge(_)) {
            self.server = Server::Ended;
        }
        step
    }

    /// Refusal that does not reveal whether the user or the password was wrong, as in Kafka.
    fn refusal(&self, reason: String) -> Refusal {
        let message = match self.mechanism {
            Mechanism::Plain => "Authentication failed: Invalid username or password".to_owned(),
            Mechanism::OauthBearer => reason.clone(),
            mechanism => format!(
                "Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
            ),
        };
        Refusal { message, reason }
    }
}
