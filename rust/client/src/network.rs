//! Connections to the cluster's nodes: made on demand, with backoff, kept while used.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use monedula_columns::BufferPool;
use monedula_engine::backoff::Jitter;
use monedula_engine::cluster::Broker;
use monedula_protocol::api::{ApiKey, Request, negotiate};
use monedula_protocol::error::WireError;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame;
use monedula_protocol::messages::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;

use crate::config::ClientConfig;
use crate::connection::{Connection, Frame, Limits, Pieces, Reply};
use crate::error::{ClientError, RequestError};
use crate::log::{Level, Log};
use crate::metrics::Metrics;

/// A broker, as far as it is known how to reach it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NodeId {
    /// The n-th address of `bootstrap.servers`.
    Bootstrap(usize),
    /// A broker named by metadata.
    Broker(i32),
}

/// What a connection is for. Brokers work on one request of a connection at a time: anything behind a fetch that waits
/// for data would wait with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// Fetch requests only.
    Fetch,
    /// Everything else.
    Control,
    /// A group's JoinGroup and SyncGroup, which brokers hold until all members are there.
    Join,
    /// Heartbeat and LeaveGroup, which must not wait behind these.
    Heartbeat,
    /// OffsetCommit and OffsetFetch of a member.
    Offsets,
    /// Produce requests only.
    Produce,
}

/// Versions that a broker offers, by API key.
type Offered = BTreeMap<i16, (i16, i16)>;

#[derive(Clone)]
pub(crate) struct Link {
    connection: Arc<Connection>,
    offered: Arc<Offered>,
}

#[derive(Default)]
struct Slot {
    link: Option<(Link, (String, u16))>,
    failures: u32,
    retry_at: Option<Instant>,
}

type SharedSlot = Arc<tokio::sync::Mutex<Slot>>;

/// All connections of one client.
pub(crate) struct Network {
    config: Arc<ClientConfig>,
    limits: Limits,
    brokers: Mutex<BTreeMap<i32, Broker>>,
    slots: Mutex<BTreeMap<(NodeId, Purpose), SharedSlot>>,
    /// The last failure of each address, for errors that must say what happened where.
    failures: Mutex<BTreeMap<String, String>>,
    jitter: Mutex<Jitter>,
    features: Mutex<Features>,
}

/// What the cluster has agreed on, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Features {
    /// Grows with each change; -1 before any is known.
    epoch: i64,
    /// `transaction.version`; 0 where there is none.
    transaction_version: i16,
}

/// What a broker says of itself.
type Handshake = (Offered, Features);

impl Network {
    pub(crate) fn new(config: Arc<ClientConfig>, pool: BufferPool, log: Log, metrics: Metrics, seed: u64) -> Self {
        let limits = Limits {
            client_id: config.client_id.clone(),
            request_timeout: config.request_timeout,
            max_idle: config.connections_max_idle,
            receive_max_bytes: config.receive_message_max_bytes,
            pool,
            log,
            metrics,
        };
        Self {
            config,
            limits,
            brokers: Mutex::default(),
            slots: Mutex::default(),
            failures: Mutex::default(),
            jitter: Mutex::new(Jitter::new(seed)),
            features: Mutex::new(Features { epoch: -1, transaction_version: 0 }),
        }
    }

    /// The level of the feature `transaction.version` (KIP-890) as the brokers told last; 0 before any did.
    pub(crate) fn transaction_version(&self) -> i16 {
        self.features.lock().unwrap_or_else(PoisonError::into_inner).transaction_version
    }

    /// Takes the brokers of the newest metadata.
    pub(crate) fn set_brokers(&self, brokers: &BTreeMap<i32, Broker>) {
        self.brokers.lock().unwrap_or_else(PoisonError::into_inner).clone_from(brokers);
    }

    /// Brokers known from metadata, then the bootstrap addresses (KIP-899: the way back when no known broker answers).
    pub(crate) fn candidates(&self) -> Vec<NodeId> {
        let turn = self.jitter.lock().unwrap_or_else(PoisonError::into_inner).next();
        self.candidates_from(turn as usize)
    }

    /// As [`Self::candidates`], beginning with the `turn`-th of the known brokers.
    pub(crate) fn candidates_from(&self, turn: usize) -> Vec<NodeId> {
        let known = self.brokers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut nodes: Vec<NodeId> = known.keys().map(|&id| NodeId::Broker(id)).collect();
        if !nodes.is_empty() {
            let turn = turn % nodes.len();
            nodes.rotate_left(turn);
        }
        if nodes.is_empty() || self.config.rebootstrap {
            nodes.extend((0..self.config.bootstrap_servers.len()).map(NodeId::Bootstrap));
        }
        nodes
    }

    /// Addresses that failed last time, each with what happened.
    pub(crate) fn failures(&self) -> String {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let reasons: Vec<String> = failures.iter().map(|(broker, reason)| format!("{broker}: {reason}")).collect();
        match reasons.is_empty() {
            true => "no attempt has ended yet".into(),
            false => reasons.join("; "),
        }
    }

    /// Sends `request` in the highest common version, built by `build` for that version, and returns its answer with
    /// the version. Connects first if need be. One attempt.
    pub(crate) async fn call<'q, R: Request<'q>>(
        &self,
        node: NodeId,
        purpose: Purpose,
        versions: RangeInclusive<i16>,
        extra: Duration,
        build: impl FnOnce(i16) -> R,
    ) -> Result<(Frame, i16), RequestError> {
        let link = self.link(node, purpose).await?;
        let version = link.version(R::API_KEY, versions)?;
        let answer = link.connection.call(&build(version), version, extra).await?;
        Ok((answer, version))
    }

    /// As [`Self::call`], for a request that `encode` makes of the version, the correlation id and `client.id`.
    pub(crate) async fn call_encoded(
        &self,
        node: NodeId,
        purpose: Purpose,
        api: ApiKey,
        versions: RangeInclusive<i16>,
        extra: Duration,
        encode: impl FnOnce(i16, i32, &str) -> Result<Vec<u8>, WireError>,
    ) -> Result<(Frame, i16), RequestError> {
        let link = self.link(node, purpose).await?;
        let version = link.version(api, versions)?;
        let encode = |id, client_id: &str| encode(version, id, client_id);
        let answer = link.connection.call_encoded(api, version, extra, encode).await?;
        Ok((answer, version))
    }

    /// Puts a request behind those sent before to this node for this purpose, and gives what to wait for: callers that send
    /// one after the other keep their order on the wire. `encode` makes it of the version, the correlation id and
    /// `client.id`. Without an answer to come, an empty one comes when it is written.
    pub(crate) async fn send<P: Into<Pieces>>(
        &self,
        node: NodeId,
        purpose: Purpose,
        (api, versions): (ApiKey, RangeInclusive<i16>),
        is_answered: bool,
        encode: impl FnOnce(i16, i32, &str) -> Result<P, WireError>,
    ) -> Result<Awaited, RequestError> {
        let link = self.link(node, purpose).await?;
        let version = link.version(api, versions)?;
        let encode = |id, client_id: &str| encode(version, id, client_id);
        let reply = link.connection.send(api, version, Duration::ZERO, is_answered, encode)?;
        Ok(Awaited { link, version, reply })
    }

    /// Whether a connection stands, so that a fetch would not wait for one.
    pub(crate) fn connected(&self) -> usize {
        let slots: Vec<SharedSlot> =
            self.slots.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        let alive = |slot: &SharedSlot| {
            slot.try_lock().is_ok_and(|slot| slot.link.as_ref().is_some_and(|(link, _)| !link.connection.is_closed()))
        };
        slots.iter().filter(|slot| alive(slot)).count()
    }

    /// Closes every connection, also those that someone waits on.
    pub(crate) fn close(&self) {
        let slots = std::mem::take(&mut *self.slots.lock().unwrap_or_else(PoisonError::into_inner));
        for slot in slots.values() {
            // One that is just being made is dropped with the task that makes it.
            if let Ok(slot) = slot.try_lock()
                && let Some((link, _)) = &slot.link
            {
                link.connection.close();
            }
        }
    }

    /// The connection to `node`: the one that stands, or a new one. Waits out the backoff of earlier failures.
    async fn link(&self, node: NodeId, purpose: Purpose) -> Result<Link, RequestError> {
        let address = self.address(node)?;
        let slot = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.entry((node, purpose)).or_default().clone()
        };
        // Held while connecting: callers that come meanwhile share the outcome instead of connecting as well.
        let mut slot = slot.lock().await;
        if let Some((link, known_address)) = &slot.link
            && !link.connection.is_closed()
            && *known_address == address
        {
            return Ok(link.clone());
        }
        slot.link = None;
        if let Some(at) = slot.retry_at {
            tokio::time::sleep_until(at.into()).await;
        }
        match self.connect(&address).await {
            Ok(link) => {
                self.connected_to(&address);
                (slot.failures, slot.retry_at) = (0, None);
                slot.link = Some((link.clone(), address));
                Ok(link)
            }
            Err(error) => {
                self.failed(&mut slot, &address, &error);
                Err(error)
            }
        }
    }

    fn connected_to(&self, (host, port): &(String, u16)) {
        let broker = format!("{host}:{port}");
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).remove(&broker);
        self.limits.metrics.connections_opened(1);
        self.limits.log.record(Level::Info, "network", || format!("connected to {broker}"));
    }

    fn failed(&self, slot: &mut Slot, (host, port): &(String, u16), error: &RequestError) {
        let broker = format!("{host}:{port}");
        let delay = {
            let mut jitter = self.jitter.lock().unwrap_or_else(PoisonError::into_inner);
            self.config.reconnect_backoff.delay(slot.failures, &mut jitter)
        };
        slot.failures = slot.failures.saturating_add(1);
        slot.retry_at = Some(Instant::now() + delay);
        let reason = match error {
            RequestError::Disconnected { reason, .. } => reason.clone(),
            other => other.to_string(),
        };
        self.limits.metrics.connections_failed(1);
        self.limits.log.record(Level::Warning, "network", || {
            format!("{broker}: {reason}; attempt {}, next in {} ms at the earliest", slot.failures, delay.as_millis())
        });
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).insert(broker, reason);
    }

    fn address(&self, node: NodeId) -> Result<(String, u16), RequestError> {
        match node {
            NodeId::Bootstrap(index) => {
                self.config.bootstrap_servers.get(index).cloned().ok_or(RequestError::UnknownNode(-1))
            }
            NodeId::Broker(id) => {
                let brokers = self.brokers.lock().unwrap_or_else(PoisonError::into_inner);
                let broker = brokers.get(&id).ok_or(RequestError::UnknownNode(id))?;
                Ok((broker.host.clone(), broker.port))
            }
        }
    }

    async fn connect(&self, (host, port): &(String, u16)) -> Result<Link, RequestError> {
        let broker = format!("{host}:{port}");
        self.limits.log.record(Level::Debug, "network", || format!("connecting to {broker}"));
        let timeout = self.config.connection_setup_timeout;
        let attempt = tokio::time::timeout(timeout, self.open(host, *port));
        let stream = match attempt.await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(RequestError::Disconnected { broker, reason: error.to_string() }),
            Err(_) => return Err(RequestError::TimedOut { broker, after: timeout }),
        };
        let connection = Connection::start(stream, broker, self.limits.clone());
        let (offered, features) = handshake(&connection).await?;
        self.learn_features(features);
        Ok(Link { connection: Arc::new(connection), offered: Arc::new(offered) })
    }

    fn learn_features(&self, told: Features) {
        let mut known = self.features.lock().unwrap_or_else(PoisonError::into_inner);
        // A broker that lags behind tells what no longer is.
        if told.epoch > known.epoch {
            *known = told;
        }
    }

    /// Tries every address that the name stands for.
    async fn open(&self, host: &str, port: u16) -> std::io::Result<TcpStream> {
        let mut last = std::io::Error::other(format!("the name {host} stands for no address"));
        for address in tokio::net::lookup_host((host, port)).await? {
            let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            if let Some(bytes) = self.config.receive_buffer_bytes {
                socket.set_recv_buffer_size(u32::try_from(bytes).unwrap_or(u32::MAX))?;
            }
            socket.set_nodelay(true)?;
            match socket.connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// A request that was sent.
pub(crate) struct Awaited {
    link: Link,
    version: i16,
    reply: oneshot::Receiver<Reply>,
}

impl Awaited {
    /// Where it was sent.
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.link.connection
    }

    /// Its answer, with the version.
    pub(crate) async fn answer(self) -> Result<(Frame, i16), RequestError> {
        Ok((self.link.connection.reply(self.reply).await?, self.version))
    }
}

impl Link {
    fn version(&self, api: ApiKey, ours: RangeInclusive<i16>) -> Result<i16, RequestError> {
        let theirs = self.offered.get(&api.code()).copied();
        let common = theirs.and_then(|(min, max)| negotiate(ours.clone(), min, max));
        common.ok_or_else(|| {
            RequestError::Fatal(Box::new(ClientError::UnsupportedVersion {
                broker: self.connection.broker().to_owned(),
                api: api.name(),
                ours_min: *ours.start(),
                ours_max: *ours.end(),
                theirs: theirs.map_or_else(|| "none".into(), |(min, max)| format!("{min} to {max}")),
            }))
        })
    }
}

fn features(response: &ApiVersionsResponse<'_>) -> Features {
    let transactions = response.finalized_features.iter().find(|feature| feature.name == "transaction.version");
    Features {
        epoch: response.finalized_features_epoch,
        transaction_version: transactions.map_or(0, |feature| feature.max_version_level),
    }
}

/// Asks the broker which versions it offers (KIP-35). One that does not know ours answers in version 0 with the range
/// that it knows (KIP-511), and is asked again.
async fn handshake(connection: &Connection) -> Result<Handshake, RequestError> {
    let wire = |error| RequestError::Wire { broker: connection.broker().to_owned(), error };
    let request = ApiVersionsRequest {
        client_software_name: "monedula",
        client_software_version: env!("CARGO_PKG_VERSION"),
        ..Default::default()
    };
    let mut version = *ApiVersionsRequest::VERSIONS.end();
    for _ in 0..2 {
        let answer = connection.call(&request, version, Duration::ZERO).await?;
        let answer = answer.as_slice();
        let code = answer.get(4..6).map_or(0, |bytes| i16::from_be_bytes([bytes[0], bytes[1]]));
        let refused = ErrorCode::from_code(code) == ErrorCode::UnsupportedVersion;
        let response: ApiVersionsResponse<'_> =
            frame::decode_response::<ApiVersionsRequest<'_>>(answer, if refused { 0 } else { version })
                .map_err(wire)?;
        let error = ErrorCode::from_code(response.error_code);
        if error == ErrorCode::None {
            let offered = response.api_keys.iter().map(|api| (api.api_key, (api.min_version, api.max_version)));
            return Ok((offered.collect(), features(&response)));
        }
        let range = response.api_keys.iter().find(|api| api.api_key == ApiKey::ApiVersions.code());
        let common = range.and_then(|api| negotiate(ApiVersionsRequest::VERSIONS, api.min_version, api.max_version));
        version = common.filter(|_| refused).unwrap_or(0);
    }
    let reason = "the broker refused every version of ApiVersions".to_owned();
    Err(RequestError::Disconnected { broker: connection.broker().to_owned(), reason })
}

#[cfg(test)]
#[path = "network_tests.rs"]
mod tests;
