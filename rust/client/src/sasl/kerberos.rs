//! GSSAPI: logins with a ticket of Kerberos (RFC 4752), by the system's library.
//!
//! Every call of the library may wait for the KDC and for DNS, so it runs on a blocking thread. A login that is given
//! up meanwhile leaves the call behind; what it brings is kept for the next one, and no more than [`AT_ONCE`] of them
//! can be under way for a client.

mod advice;
mod exchange;
mod settings;
mod tickets;

use std::fmt;
use std::sync::Arc;

use monedula_gssapi::{Cause, Context, Credential, GssError, Identity};
use monedula_protocol::sasl::readable;
use tokio::sync::{Mutex, Semaphore};

use self::exchange::{Exchange, ExchangeError, Next};
pub(super) use self::settings::kerberos;
use self::tickets::{Renewal, Tickets};
use super::NoCredentials;
use crate::blocking;
use crate::wall_clock::now_ms;

/// Calls of one client that may wait for the KDC at the same time. The first of them brings the tickets that the others
/// need.
const AT_ONCE: usize = 4;

pub(crate) struct Kerberos {
    /// First part of the brokers' principal.
    service: String,
    identity: Identity,
    /// Tickets that were got with the keytab. Without one the library reads the ticket cache for each login: someone
    /// else keeps it fresh.
    tickets: Option<Arc<Mutex<Tickets<Credential>>>>,
    at_once: Arc<Semaphore>,
}

pub(crate) struct Login {
    kerberos: Arc<Kerberos>,
    exchange: Option<Exchange<Context>>,
    /// The broker's host, for errors.
    host: String,
    /// Tickets that it uses.
    number: u64,
}

impl fmt::Debug for Kerberos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { service, identity, .. } = self;
        f.debug_struct("Kerberos").field("service", service).field("identity", identity).finish_non_exhaustive()
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("kerberos", &self.kerberos).finish_non_exhaustive()
    }
}

impl Kerberos {
    fn new(service: String, identity: Identity, renewal: Renewal) -> Self {
        let tickets = identity.keytab.is_some().then(|| Arc::new(Mutex::new(Tickets::new(renewal))));
        Self { service, identity, tickets, at_once: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    pub(super) fn principal(&self) -> Option<&str> {
        self.identity.principal.as_deref()
    }

    /// Begins a login to the broker at `host`; returns it with its first message.
    pub(super) async fn begin(self: &Arc<Self>, host: &str) -> Result<(Login, Vec<u8>), NoCredentials> {
        // A host name with a dot at its end is absolute in DNS; in principals it has none.
        let host = host.strip_suffix('.').unwrap_or(host).to_owned();
        let gone = |_| NoCredentials::ForNow("the login was given up".into());
        let permit = self.at_once.clone().acquire_owned().await.map_err(gone)?;
        let tickets = match &self.tickets {
            Some(tickets) => Some(tickets.clone().lock_owned().await),
            None => None,
        };
        let kerberos = self.clone();
        on_a_thread(move || {
            let _permit = permit;
            let (credential, number) = match tickets {
                Some(mut tickets) => tickets.current(now_ms(), || acquire(&kerberos.identity)),
                None => acquire(&kerberos.identity).map(|(credential, _)| (credential, 0)),
            }
            .map_err(|error| kerberos.failure(&error, &host))?;
            let begun = Context::new(credential, &kerberos.service, &host).map_err(ExchangeError::from);
            let begun = begun.and_then(Exchange::start);
            let (exchange, token) = begun.map_err(|error| kerberos.exchange_failure(error, &host))?;
            Ok((Login { kerberos, exchange: Some(exchange), host, number }, token))
        })
        .await
    }

    fn failure(&self, error: &GssError, host: &str) -> NoCredentials {
        // Some of its words come from the KDC.
        let words = readable(error.to_string().as_bytes());
        let reason = match error.cause() {
            Cause::NoLibrary | Cause::NotSupported | Cause::Keytab => words,
            _ => format!("{words}, for the service {}@{host}", self.service),
        };
        match error.cause() {
            Cause::NoKdc => NoCredentials::ForNow(reason),
            cause => NoCredentials::Refused { reason, advice: advice::of(cause, self.identity.keytab.is_some()) },
        }
    }

    fn exchange_failure(&self, error: ExchangeError, host: &str) -> NoCredentials {
        match error {
            ExchangeError::Library(error) => self.failure(&error, host),
            ExchangeError::Broker(problem) => {
                NoCredentials::Refused { reason: problem.into(), advice: advice::OF_A_STRANGE_BROKER }
            }
        }
    }
}

impl Login {
    /// Takes the broker's message. Returns the next one for it; `None` if the login has succeeded on this side.
    pub(crate) async fn step(&mut self, challenge: &[u8]) -> Result<Option<Vec<u8>>, NoCredentials> {
        let Some(mut exchange) = self.exchange.take() else {
            return Err(NoCredentials::ForNow("the login was given up".into()));
        };
        let challenge = challenge.to_vec();
        let (exchange, next) = on_a_thread(move || {
            let next = exchange.step(&challenge);
            Ok((exchange, next))
        })
        .await?;
        self.exchange = Some(exchange);
        match next.map_err(|error| self.kerberos.exchange_failure(error, &self.host))? {
            Next::Send(token) => Ok(Some(token)),
            Next::Done => Ok(None),
        }
    }

    /// The broker refused it. Returns whether the next attempt has other tickets: those of a keytab that were got a
    /// while ago may be for a key that the broker no longer has.
    pub(crate) fn refused(&self) -> bool {
        let Some(tickets) = &self.kerberos.tickets else { return false };
        // The holder of the lock is getting new tickets.
        tickets.try_lock().map_or(true, |mut tickets| tickets.refused(self.number, now_ms()))
    }
}

fn acquire(identity: &Identity) -> Result<(Arc<Credential>, Option<std::time::Duration>), GssError> {
    let credential = Credential::acquire(identity)?;
    let lifetime = credential.lifetime();
    Ok((Arc::new(credential), lifetime))
}

async fn on_a_thread<T: Send + 'static>(
    call: impl FnOnce() -> Result<T, NoCredentials> + Send + 'static,
) -> Result<T, NoCredentials> {
    let called = blocking::run(call).await;
    called.unwrap_or_else(|error| Err(NoCredentials::ForNow(format!("the login could not be run: {error}"))))
}
