//! Making a connection: DNS and TCP, TLS, ApiVersions, the login. All of it has one deadline.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;

use super::link::Link;
use super::{Address, Network, NodeId, Purpose};
use crate::error::RequestError;
use crate::lock::lock;
use crate::log::{Entry, kinds};
use crate::net::connection::{Connection, Limits};
use crate::net::dial::Dialer;
use crate::net::transport::Transport;
use crate::run_time::{self, RunInstant};

/// The shortest timeout of a heartbeat, however short the session: half of that may be less than a broker takes.
const SHORTEST_HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(1);

/// Answers that come before the login have no need to be larger; Kafka has the same limit for requests.
pub(super) const MAX_ANSWER_BEFORE_LOGIN: usize = 512 << 10;

impl Network {
    /// Makes a connection that is ready for requests. All that belongs to it has one deadline,
    /// `socket.connection.setup.timeout.ms`: a broker that is silent at any step holds its callers up for that long.
    pub(super) async fn connect(
        &self,
        node: NodeId,
        address: &Address,
        purpose: Purpose,
    ) -> Result<Link, RequestError> {
        let deadline = self.deadline(address, purpose);
        self.limits.log.record(&kinds::CONNECTING, || {
            Entry::new(format!("connecting to {}", deadline.broker)).broker(&deadline.broker)
        });
        let transport = self.open(address, purpose, &deadline).await?;
        let connection = Arc::new(Connection::start(transport, deadline.broker.clone(), self.limits_of(purpose)));
        connection.limit_answers(MAX_ANSWER_BEFORE_LOGIN);
        let (offered, features) = deadline.of("no answer to ApiVersions", self.handshake(node, &connection)).await?;
        if let Some(login) = &self.login {
            let draw = lock(&self.jitter).next();
            deadline.of("the login did not end", login.log_in(&connection, &offered, draw)).await?;
        }
        connection.limit_answers(usize::MAX);
        self.learn_features(features);
        Ok(Link { connection, offered: Arc::new(offered) })
    }

    pub(super) fn deadline(&self, (host, port): &Address, purpose: Purpose) -> Deadline {
        let after = match purpose {
            Purpose::Heartbeat => self.config.connection_setup_timeout.min(self.limits_of(purpose).request_timeout),
            _ => self.config.connection_setup_timeout,
        };
        Deadline { at: RunInstant::now() + after, after, broker: format!("{host}:{port}") }
    }

    /// Connects a socket, and encrypts it where the protocol wants that.
    pub(super) async fn open(
        &self,
        address: &Address,
        purpose: Purpose,
        deadline: &Deadline,
    ) -> Result<Transport, RequestError> {
        let stream = self.dial(address, deadline).await?;
        let Some(tls) = &self.config.tls else { return Ok(stream.into()) };
        let (host, port) = address;
        let encrypt = tls.connect((host, *port), stream, ciphertext_buffer_bytes(purpose), &self.limits.log);
        match deadline.of("the TLS handshake did not end", encrypt).await {
            Ok(stream) => Ok(Transport::Tls(Box::new(stream))),
            Err(error) => Err(self.explained(error, address, deadline).await),
        }
    }

    pub(super) async fn dial(&self, (host, port): &Address, deadline: &Deadline) -> Result<TcpStream, RequestError> {
        let dialer = Dialer { timeout: deadline.after, receive_buffer_bytes: self.config.receive_buffer_bytes };
        if let Some(proxy) = &self.config.proxy {
            let lacking = format!("no connection through the proxy {proxy}");
            return deadline.of(&lacking, proxy.dial(dialer, (host, *port), &deadline.broker)).await;
        }
        let dial = async {
            let dialled = dialer.dial(host, *port).await;
            dialled.map_err(|reason| RequestError::Disconnected { broker: deadline.broker.clone(), reason })
        };
        deadline.of("no connection", dial).await
    }

    /// A member that waits longer than this for the answer to a heartbeat has no time for another before its session is
    /// over.
    pub(super) fn limits_of(&self, purpose: Purpose) -> Limits {
        let mut limits = self.limits.clone();
        if purpose == Purpose::Heartbeat {
            let half = (self.config.session_timeout / 2).max(SHORTEST_HEARTBEAT_TIMEOUT);
            limits.request_timeout = limits.request_timeout.min(half);
        }
        limits
    }
}

/// The time by which a connection has to be ready.
pub(super) struct Deadline {
    at: RunInstant,
    /// The whole time, for errors.
    after: Duration,
    /// The broker as host:port.
    pub(super) broker: String,
}

impl Deadline {
    /// One step of making the connection; `lacking` is named when the time is over.
    pub(super) async fn of<T>(
        &self,
        lacking: &str,
        step: impl Future<Output = Result<T, RequestError>>,
    ) -> Result<T, RequestError> {
        tokio::select! {
            biased;
            outcome = step => outcome,
            () = run_time::sleep_until(self.at) => {
                let reason = format!("{lacking} within {} ms", self.after.as_millis());
                Err(RequestError::Disconnected { broker: self.broker.clone(), reason })
            }
        }
    }
}

/// Most bytes that one system call of an encrypted connection reads: fetches bring a lot at once.
fn ciphertext_buffer_bytes(purpose: Purpose) -> usize {
    if purpose == Purpose::Fetch { 256 << 10 } else { 16 << 10 }
}
