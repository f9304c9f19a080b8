//! SASL on a connection: the login when it is opened, and re-authentication while it is open (KIP-368).
//!
//! SaslHandshake names the mechanism, and SaslAuthenticate carries its messages. The client never uses another
//! mechanism than the one in its settings, whatever the broker offers: an attacker between the two could offer only
//! PLAIN. A login has succeeded only when both the broker and the exchange say so; with SCRAM, the exchange requires
//! the server's signature, which proves that the broker knows the password.

mod exchange;
mod keys;
mod reauthentication;

use std::sync::Arc;
use std::time::{Duration, Instant};

use monedula_protocol::api::{ApiKey, Request};
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame;
use monedula_protocol::messages::sasl_authenticate::{SaslAuthenticateRequest, SaslAuthenticateResponse};
use monedula_protocol::messages::sasl_handshake::SaslHandshakeRequest;
use monedula_protocol::sasl::{NONCE_BYTES, SaslError, readable};
use monedula_protocol::secret::Secret;
use monedula_protocol::types::SecretBytes;

use self::exchange::{Exchange, ExchangeError, Next};
use self::keys::DerivedKeys;
use self::reauthentication::Session;
use crate::error::{AuthenticationError, RequestError};
use crate::log::{Entry, Log, kinds};
use crate::net::connection::{Connection, Expected, Frame};
use crate::net::network::Offered;
use crate::sasl::{NoCredentials, Sasl};

/// Most messages in one exchange; no mechanism needs more.
const MAX_ROUNDS: usize = 10;

pub(crate) struct Login {
    sasl: Arc<Sasl>,
    keys: DerivedKeys,
    log: Log,
}

impl Login {
    pub(crate) fn new(sasl: Arc<Sasl>, log: Log) -> Self {
        Self { sasl, keys: DerivedKeys::default(), log }
    }

    /// Logs in on a new connection, or re-authenticates on an open one. `draw` is a random number.
    ///
    /// # Errors
    /// [`RequestError::Fatal`] if the broker refuses the login. After any other error, another connection may succeed.
    pub(crate) async fn log_in(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
        offered: &Offered,
        draw: u64,
    ) -> Result<(), RequestError> {
        let version = self.version(connection, offered)?;
        let session = self.authenticate(connection, version, Duration::ZERO).await?;
        self.log.record(&kinds::LOGGED_IN, || {
            let broker = connection.broker();
            Entry::new(format!("{broker}: {} has logged in", self.sasl)).broker(broker)
        });
        if let Some(session) = session {
            reauthentication::keep(self.clone(), connection, version, session, draw);
        }
        Ok(())
    }

    /// The version of SaslAuthenticate. Kafka before 1.0 had no such request, and sent the bytes of SASL without one;
    /// Kafka 4.0 does not accept that any more (KIP-896).
    fn version(&self, connection: &Connection, offered: &Offered) -> Result<i16, RequestError> {
        let max = |api: ApiKey| offered.get(&api.code()).map(|&(_, max)| max);
        match (max(ApiKey::SaslHandshake), max(ApiKey::SaslAuthenticate)) {
            (Some(1..), Some(max @ 0..)) => Ok(max.min(*SaslAuthenticateRequest::VERSIONS.end())),
            _ => Err(self.failure(
                connection,
                "no login is possible",
                "the broker does not offer SaslHandshake 1 and SaslAuthenticate".into(),
                "Check that security.protocol is that of the listener; brokers from Kafka 1.0 on have both",
            )),
        }
    }

    /// Runs a whole exchange. `busy` is how long the broker may be busy with earlier requests before it answers.
    async fn authenticate(
        &self,
        connection: &Connection,
        version: i16,
        busy: Duration,
    ) -> Result<Option<Session>, RequestError> {
        let obtained = self.sasl.obtain(host(connection)).await;
        let obtained = obtained.map_err(|error| self.no_credentials(connection, error))?;
        self.handshake(connection, busy).await?;
        let began_at = Instant::now();
        let (mut exchange, mut message) =
            Exchange::start(obtained, nonce(connection)?).map_err(|error| self.exchange_failed(connection, &error))?;
        for _ in 0..MAX_ROUNDS {
            let (answer, version) = self.send(connection, version, &message).await?;
            let response = decode(connection, &answer, version)?;
            let error = ErrorCode::from_code(response.error_code);
            if error != ErrorCode::None {
                if exchange.refused() {
                    let reason =
                        format!("the login was refused ({}); new credentials are fetched", said(&response, error));
                    return Err(RequestError::Disconnected { broker: connection.broker().to_owned(), reason });
                }
                return Err(self.refused(connection, &said(&response, error)));
            }
            match exchange.step(response.auth_bytes.expose(), &self.keys).await {
                Ok(Next::Send(next)) => message = next,
                Ok(Next::Done) => return Ok(Session::of(began_at, response.session_lifetime_ms)),
                Err(ExchangeError::Sasl(error)) => return Err(self.exchange_failed(connection, &error)),
                Err(ExchangeError::Credentials(error)) => return Err(self.no_credentials(connection, error)),
                Err(ExchangeError::Endless) => break,
            }
        }
        Err(self.refused(connection, "the exchange does not come to an end"))
    }

    async fn handshake(&self, connection: &Connection, busy: Duration) -> Result<(), RequestError> {
        let mechanism = self.sasl.mechanism().name();
        let request = SaslHandshakeRequest { mechanism, ..Default::default() };
        let answer = connection.call(&request, 1, busy).await?;
        let response = frame::decode_response::<SaslHandshakeRequest<'_>>(answer.as_slice(), 1)
            .map_err(|error| RequestError::Wire { broker: connection.broker().to_owned(), error })?;
        let offered: Vec<String> = response.mechanisms.iter().map(|name| readable(name.as_bytes())).collect();
        match ErrorCode::from_code(response.error_code) {
            ErrorCode::None => Ok(()),
            ErrorCode::UnsupportedSaslMechanism => Err(self.failure(
                connection,
                &format!("the broker does not take {mechanism}"),
                format!("it offers {}", if offered.is_empty() { "none".into() } else { offered.join(", ") }),
                "Set sasl.mechanism to one of these that your credentials are for",
            )),
            ErrorCode::IllegalSaslState => Err(self.failure(
                connection,
                "the login was refused",
                "the listener takes none".into(),
                "Set security.protocol to PLAINTEXT or SSL, or use the port of a listener with SASL",
            )),
            error => Err(self.refused(connection, &format!("{} ({})", error.message(), error.name()))),
        }
    }

    async fn send(
        &self,
        connection: &Connection,
        version: i16,
        message: &Secret,
    ) -> Result<(Frame, i16), RequestError> {
        let request = SaslAuthenticateRequest { auth_bytes: SecretBytes::new(message.expose()), ..Default::default() };
        Ok((connection.call(&request, version, Expected::default()).await?, version))
    }

    fn refused(&self, connection: &Connection, reason: &str) -> RequestError {
        let what = format!("the login of {} was refused", self.sasl);
        self.failure(connection, &what, reason.to_owned(), self.sasl.advice())
    }

    fn exchange_failed(&self, connection: &Connection, error: &SaslError) -> RequestError {
        let advice = match error {
            SaslError::Refused { .. } => self.sasl.advice(),
            SaslError::Credentials { .. } => self.sasl.advice_to_correct(),
            SaslError::ServerSignature { .. } | SaslError::ForeignNonce { .. } => {
                "Check that bootstrap.servers names the right cluster, and use SASL_SSL so that nobody can stand between"
            }
            SaslError::Iterations { .. } => "Have the user's SCRAM credential set with 4096 to 16384 iterations",
            _ => "The broker does not speak the mechanism as Kafka does; check what is listening there",
        };
        self.failure(connection, &format!("the login of {} failed", self.sasl), error.to_string(), advice)
    }

    fn no_credentials(&self, connection: &Connection, error: NoCredentials) -> RequestError {
        match error {
            NoCredentials::ForNow(reason) => RequestError::NoCredentials(Box::new(AuthenticationError {
                broker: connection.broker().to_owned(),
                mechanism: self.sasl.mechanism().name().to_owned(),
                reason,
            })),
            NoCredentials::Refused { reason, advice } => {
                self.failure(connection, &format!("the login of {} failed", self.sasl), reason, advice)
            }
        }
    }

    fn failure(&self, connection: &Connection, what: &str, reason: String, advice: &str) -> RequestError {
        let reason = format!("{what}: {reason}. {advice}");
        let mechanism = self.sasl.mechanism().name().to_owned();
        AuthenticationError { broker: connection.broker().to_owned(), mechanism, reason }.into()
    }
}

fn decode<'a>(
    connection: &Connection,
    answer: &'a Frame,
    version: i16,
) -> Result<SaslAuthenticateResponse<'a>, RequestError> {
    frame::decode_response::<SaslAuthenticateRequest<'_>>(answer.as_slice(), version)
        .map_err(|error| RequestError::Wire { broker: connection.broker().to_owned(), error })
}

/// The host by which the broker was dialled.
fn host(connection: &Connection) -> &str {
    connection.broker().rsplit_once(':').map_or(connection.broker(), |(host, _)| host)
}

/// The broker's reason for the refusal.
fn said(response: &SaslAuthenticateResponse<'_>, error: ErrorCode) -> String {
    match response.error_message.filter(|message| !message.is_empty()) {
        Some(message) => format!("{} ({})", readable(message.as_bytes()), error.name()),
        None => format!("{} ({})", error.message(), error.name()),
    }
}

/// Random bytes of the system's generator, from the library that TLS uses.
fn nonce(connection: &Connection) -> Result<[u8; NONCE_BYTES], RequestError> {
    let mut nonce = [0; NONCE_BYTES];
    let filled = rustls::crypto::aws_lc_rs::default_provider().secure_random.fill(&mut nonce);
    filled.map(|()| nonce).map_err(|_| RequestError::Disconnected {
        broker: connection.broker().to_owned(),
        reason: "the system gave no random bytes for the login".into(),
    })
}

#[cfg(test)]
#[path = "login_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "login_attack_tests.rs"]
mod attack_tests;
