//! Probe of a port that ends connections without a word: the protocol that it speaks.
//!
//! A broker drops what it does not understand: a TLS handshake on a port without TLS, a request where it wants a login.
//! So does one that is starting, or a proxy without a broker behind it. The client asks over a connection of its own:
//! an answer shows that a setting is wrong, which it says at once instead of after `bootstrap.timeout.ms`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame;
use monedula_protocol::messages::api_versions::ApiVersionsRequest;
use monedula_protocol::messages::sasl_handshake::SaslHandshakeRequest;
use monedula_protocol::sasl::readable;

use super::link::Link;
use super::setup::{Deadline, MAX_ANSWER_BEFORE_LOGIN};
use super::{Address, Network, NodeId, Purpose};
use crate::error::RequestError;
use crate::net::connection::Connection;
use crate::net::transport::Transport;

impl Network {
    /// The error of a TLS handshake that broke off, or a better one if the port answers requests without TLS.
    pub(super) async fn explained(&self, error: RequestError, address: &Address, deadline: &Deadline) -> RequestError {
        if !matches!(error, RequestError::Disconnected { .. }) || self.is_reached.load(Ordering::Acquire) {
            return error;
        }
        let asked = async {
            let connection = self.foreign(self.dial(address, deadline).await?.into(), deadline);
            connection.call(&ApiVersionsRequest::default(), 0, Duration::ZERO).await
        };
        if deadline.of("no answer without TLS", asked).await.is_err() {
            return error;
        }
        let (with_login, without) = ("SASL_PLAINTEXT", "PLAINTEXT");
        let reason = format!(
            "the broker answers without TLS: this port is one without it; set {}, or use the port that has TLS",
            if self.login.is_some() { with_login } else { without }
        );
        RequestError::OtherProtocol { broker: deadline.broker.clone(), key: "security.protocol", reason }
    }

    /// Connects where the connection before was closed before anything was answered on it. Brokers do that to clients
    /// that have not logged in.
    pub(super) async fn connect_again(
        &self,
        node: NodeId,
        address: &Address,
        purpose: Purpose,
    ) -> Result<Link, RequestError> {
        if self.login.is_none() && !self.is_reached.load(Ordering::Acquire) {
            let deadline = self.deadline(address, purpose);
            let asked = deadline.of("no answer to SaslHandshake", self.mechanisms(address, purpose, &deadline)).await;
            if let Ok(Some(mechanisms)) = asked {
                let protocol = if self.config.tls.is_some() { "SASL_SSL" } else { "SASL_PLAINTEXT" };
                let reason = format!(
                    "the broker asks for a login ({mechanisms}): set {protocol}, with sasl.mechanism and what belongs to it"
                );
                let broker = deadline.broker;
                return Err(RequestError::OtherProtocol { broker, key: "security.protocol", reason });
            }
        }
        self.connect(node, address, purpose).await
    }

    /// The mechanisms of a port that asks for a login; `None` if it does not.
    async fn mechanisms(
        &self,
        address: &Address,
        purpose: Purpose,
        deadline: &Deadline,
    ) -> Result<Option<String>, RequestError> {
        let connection = self.foreign(self.open(address, purpose, deadline).await?, deadline);
        let request = SaslHandshakeRequest { mechanism: "PLAIN", ..Default::default() };
        let answer = connection.call(&request, 1, Duration::ZERO).await?;
        let response = frame::decode_response::<SaslHandshakeRequest<'_>>(answer.as_slice(), 1)
            .map_err(|error| RequestError::Wire { broker: deadline.broker.clone(), error })?;
        let names: Vec<String> = response.mechanisms.iter().map(|name| readable(name.as_bytes())).collect();
        let asks =
            matches!(ErrorCode::from_code(response.error_code), ErrorCode::None | ErrorCode::UnsupportedSaslMechanism);
        Ok(asks.then(|| names.join(", ")))
    }

    /// A connection to who may be anyone: `client.id` is not told.
    fn foreign(&self, transport: Transport, deadline: &Deadline) -> Arc<Connection> {
        let mut limits = self.limits.clone();
        limits.client_id.clear();
        let connection = Connection::start(transport, deadline.broker.clone(), limits);
        connection.limit_answers(MAX_ANSWER_BEFORE_LOGIN);
        Arc::new(connection)
    }
}
