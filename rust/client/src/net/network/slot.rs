//! The place of the connection to one node for one purpose: the one that stands, and the time of the next attempt.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::link::Link;
use super::trouble::{Connecting, no_answer};
use super::{Address, Network, NodeId, Purpose};
use crate::config::ConfigError;
use crate::error::RequestError;
use crate::lock::lock;
use crate::log::{Entry, kinds};
use crate::net::connection::Connection;

/// The connection to one node for one purpose, if it stands, and the time of the next attempt to connect.
#[derive(Default)]
pub(super) struct ConnectionSlot {
    pub(super) link: Option<Link>,
    /// Address of the link. All below is about it.
    address: Address,
    /// Failures in a row: no connection, or one that ended before it was of any use.
    pub(super) failures: u32,
    retry_at: Option<Instant>,
    /// End of the time for which the broker wanted no request, on the connection before (KIP-219).
    throttled_until: Option<Instant>,
}

pub(super) type SharedConnectionSlot = Arc<tokio::sync::Mutex<ConnectionSlot>>;

impl Network {
    /// The connection to `node`: the one that stands, or a new one. Waits out the backoff of earlier failures, and the
    /// time for which the broker wants no request (KIP-219).
    pub(super) async fn link(&self, node: NodeId, purpose: Purpose) -> Result<Link, RequestError> {
        match self.ready_link(node, purpose) {
            Some(link) => Ok(link),
            None => self.awaited_link(node, purpose).await,
        }
    }

    /// The connection that stands, if a request can be sent over it without a wait. Most requests find one, so only the
    /// others watch for the end of the client. Nobody overtakes a caller that waits for the slot: it is locked then.
    fn ready_link(&self, node: NodeId, purpose: Purpose) -> Option<Link> {
        let address = self.address(node).ok()?;
        let slot = lock(&self.slots).get(&(node, purpose))?.clone();
        let slot = slot.try_lock().ok().filter(|slot| slot.address == address)?;
        slot.link.clone().filter(|link| !link.connection.is_closed() && !link.is_throttled())
    }

    /// A boxed future: it is awaited for every kind of request, and would be compiled into each of them.
    fn awaited_link(
        &self,
        node: NodeId,
        purpose: Purpose,
    ) -> Pin<Box<dyn Future<Output = Result<Link, RequestError>> + Send + '_>> {
        Box::pin(async move {
            let mut closed = self.closed.subscribe();
            loop {
                let link = tokio::select! {
                    biased;
                    _ = closed.wait_for(|&closed| closed) => return Err(self.closed_error(node)),
                    link = self.standing_link(node, purpose) => link?,
                };
                // Waits without the lock on the slot: meanwhile the connection counts as one that stands, and can be
                // closed.
                match link.connection.throttled_until().filter(|&until| until > Instant::now()) {
                    Some(until) => tokio::time::sleep_until(until.into()).await,
                    None => return Ok(link),
                }
            }
        })
    }

    fn closed_error(&self, node: NodeId) -> RequestError {
        RequestError::Disconnected { broker: self.name_of(node), reason: "the client is closed".into() }
    }

    async fn standing_link(&self, node: NodeId, purpose: Purpose) -> Result<Link, RequestError> {
        let address = self.address(node)?;
        let slot = {
            let mut slots = lock(&self.slots);
            slots.entry((node, purpose)).or_default().clone()
        };
        // Held while connecting: callers that come meanwhile share the outcome instead of connecting as well.
        let mut slot = slot.lock().await;
        if slot.address != address {
            *slot = ConnectionSlot { address: address.clone(), ..ConnectionSlot::default() };
        }
        let ended = slot.link.take_if(|link| link.connection.is_closed());
        if let Some(link) = &ended {
            self.ended(&mut slot, &link.connection);
        }
        if let Some(link) = &slot.link {
            return Ok(link.clone());
        }
        if let Some(at) = slot.retry_at {
            tokio::time::sleep_until(at.into()).await;
        }
        if let Some(refusal) = self.refusal() {
            return Err(RequestError::Fatal(Box::new(refusal)));
        }
        let connecting = Connecting::begin(&self.connecting, &address);
        let connected = match ended.filter(|link| !link.connection.has_served()) {
            Some(_) => self.connect_again(node, &address, purpose).await,
            None => self.connect(node, &address, purpose).await,
        };
        drop(connecting);
        match connected {
            Ok(link) => {
                self.connected_to(&address);
                slot.retry_at = None;
                link.connection.throttle_until(slot.throttled_until);
                slot.link = Some(link.clone());
                Ok(link)
            }
            Err(error) => {
                let error = self.judge(error);
                self.failed(&mut slot, &address, &error);
                Err(error)
            }
        }
    }

    /// Records a failed attempt to connect: an error that would come again is kept, and told to all.
    ///
    /// A port that speaks another protocol than the settings say is a mistake in them. Where the cluster was reached
    /// before, its brokers may be changing theirs, one after the other.
    fn judge(&self, error: RequestError) -> RequestError {
        let error = match error {
            RequestError::OtherProtocol { broker, reason, .. } if self.is_reached.load(Ordering::Acquire) => {
                RequestError::Disconnected { broker, reason }
            }
            RequestError::OtherProtocol { broker, key, reason } => {
                let message = format!("{key}: {broker}: {reason}");
                RequestError::Fatal(Box::new(ConfigError { key: key.into(), message }.into()))
            }
            other => other,
        };
        if let RequestError::Fatal(fatal) = &error {
            *lock(&self.refusal) = Some((**fatal).clone());
        }
        if let RequestError::NoCredentials(error) = &error {
            *lock(&self.no_credentials) = Some(error.clone());
        }
        error
    }

    /// A connection ended. The next one waits as after a failed attempt, and ever longer where it was of no use: a
    /// broker or proxy that accepts every connection and drops it would be connected to as fast as it does so.
    fn ended(&self, slot: &mut ConnectionSlot, connection: &Connection) {
        if connection.has_served() {
            slot.failures = 0;
        }
        let delay = self.next_delay(slot);
        slot.retry_at = Some(connection.ended_at().unwrap_or_else(Instant::now) + delay);
        slot.throttled_until = connection.throttled_until();
    }

    fn next_delay(&self, slot: &mut ConnectionSlot) -> Duration {
        let mut jitter = lock(&self.jitter);
        let delay = self.config.reconnect_backoff.delay(slot.failures, &mut jitter);
        slot.failures = slot.failures.saturating_add(1);
        delay
    }

    fn connected_to(&self, (host, port): &Address) {
        let broker = format!("{host}:{port}");
        *lock(&self.no_credentials) = None;
        let had_failed = lock(&self.failures).remove(&broker).is_some();
        self.limits.metrics.connections_opened(1);
        let kind = match (self.is_connected_once.swap(true, Ordering::Relaxed), had_failed) {
            (false, _) => &kinds::FIRST_CONNECTED,
            (true, true) => &kinds::CONNECTED_AGAIN,
            (true, false) => &kinds::CONNECTED,
        };
        let again = if had_failed { " again" } else { "" };
        self.limits.log.record(kind, || Entry::new(format!("connected to {broker}{again}")).broker(&broker));
    }

    fn failed(&self, slot: &mut ConnectionSlot, (host, port): &Address, error: &RequestError) {
        let broker = format!("{host}:{port}");
        let delay = self.next_delay(slot);
        slot.retry_at = Some(Instant::now() + delay);
        let reason = match error {
            RequestError::Disconnected { reason, .. } => reason.clone(),
            RequestError::NoCredentials(error) => error.reason.clone(),
            RequestError::TimedOut { after, .. } => no_answer(*after),
            other => other.to_string(),
        };
        self.limits.metrics.connections_failed(1);
        self.limits.log.record(&kinds::CONNECTION_FAILED, || {
            let (attempt, next_ms) = (slot.failures, delay.as_millis());
            let told = match error {
                // Names the broker itself.
                RequestError::Fatal(_) => format!("{reason}. It is not tried again: make another client then"),
                _ => format!("{broker}: {reason}; attempt {attempt}, next in {next_ms} ms at the earliest"),
            };
            Entry::new(told).broker(&broker)
        });
        lock(&self.failures).insert(broker, reason);
    }
}
