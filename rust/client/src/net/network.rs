//! Connections to the cluster's nodes: made on demand, with backoff, kept while used.

mod handshake;
mod link;
mod node_fallback;
mod probe;
mod setup;
mod slot;
mod trouble;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use monedula_columns::BufferPool;
use monedula_engine::backoff::Jitter;
use monedula_engine::cluster::Broker;
use monedula_protocol::api::{ApiKey, Request};
use monedula_protocol::error::WireError;
use monedula_protocol::frame;
use tokio::sync::watch;

use self::handshake::Features;
pub(crate) use self::handshake::Offered;
pub(crate) use self::link::Awaited;
use self::link::Link;
pub(crate) use self::node_fallback::NodeFallback;
use self::slot::SharedConnectionSlot;
pub(crate) use self::trouble::{Owed, joined};
use crate::config::ClientConfig;
use crate::error::{AuthenticationError, ClientError, RequestError};
use crate::lock::lock;
use crate::log::{Log, kinds};
use crate::metrics::Metrics;
use crate::net::connection::{Expected, Frame, Limits, Pieces};
use crate::net::login::Login;
use crate::run_time::RunInstant;

/// A broker, by the way in which its address is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NodeId {
    /// The n-th address of `bootstrap.servers`.
    Bootstrap(usize),
    /// A broker named by metadata.
    Broker(i32),
}

/// Purpose of a connection. Brokers work on one request of a connection at a time: anything behind a fetch that waits
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

/// Offer of an API by the brokers that connections stand to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApiSupport {
    Offers(NodeId),
    Lacks,
    Nothing,
}

type Address = (String, u16);

/// Makes a request of the version, the correlation id and `client.id`.
type Encode<'a> = Box<dyn FnOnce(i16, i32, &str) -> Result<Vec<u8>, WireError> + Send + 'a>;

/// All connections of one client.
pub(crate) struct Network {
    config: Arc<ClientConfig>,
    limits: Limits,
    brokers: Mutex<BTreeMap<i32, Broker>>,
    /// The cluster that these brokers were named for, once known.
    cluster_id: Mutex<Option<String>>,
    slots: Mutex<BTreeMap<(NodeId, Purpose), SharedConnectionSlot>>,
    /// The last failure of each address, for errors that must say what happened where.
    failures: Mutex<BTreeMap<String, String>>,
    /// Addresses that are being connected to, since when.
    connecting: Mutex<BTreeMap<String, RunInstant>>,
    jitter: Mutex<Jitter>,
    features: Mutex<Features>,
    login: Option<Arc<Login>>,
    /// Refusal of this client by a broker, or the wrong setting. Nothing is connected to any more then: the same
    /// credentials would be refused again, and brokers and directories lock accounts that try too often.
    refusal: Mutex<Option<ClientError>>,
    /// Reason that there was nothing to log in with, since the last connection that was made.
    no_credentials: Mutex<Option<Box<AuthenticationError>>>,
    /// True if the brokers of the cluster were known at some time.
    is_reached: AtomicBool,
    /// True if a connection stood at some time.
    is_connected_once: AtomicBool,
    /// True if the client is closed. Nothing is connected to any more then.
    closed: watch::Sender<bool>,
}

impl Network {
    pub(crate) fn new(config: Arc<ClientConfig>, pool: BufferPool, log: Log, metrics: Metrics, seed: u64) -> Self {
        let limits = Limits {
            client_id: config.client_id.clone(),
            request_timeout: config.request_timeout,
            max_idle: config.connections_max_idle,
            receive_max_bytes: config.receive_message_max_bytes,
            oversized: Arc::default(),
            pool,
            log,
            metrics,
        };
        let login = config.sasl.clone().map(|sasl| Arc::new(Login::new(sasl, limits.log.clone())));
        Self {
            config,
            limits,
            brokers: Mutex::default(),
            cluster_id: Mutex::default(),
            slots: Mutex::default(),
            failures: Mutex::default(),
            connecting: Mutex::default(),
            jitter: Mutex::new(Jitter::new(seed)),
            features: Mutex::new(Features { epoch: -1, transaction_version: 0 }),
            login,
            refusal: Mutex::default(),
            no_credentials: Mutex::default(),
            is_reached: AtomicBool::new(false),
            is_connected_once: AtomicBool::new(false),
            closed: watch::Sender::new(false),
        }
    }

    /// The error of a client that a broker did not let in.
    pub(crate) fn refusal(&self) -> Option<ClientError> {
        lock(&self.refusal).clone()
    }

    /// The level of the feature `transaction.version` (KIP-890), by the newest handshake; 0 before the first.
    pub(crate) fn transaction_version(&self) -> i16 {
        lock(&self.features).transaction_version
    }

    /// Takes the brokers of the newest metadata.
    pub(crate) fn set_brokers(&self, brokers: &BTreeMap<i32, Broker>) {
        lock(&self.brokers).clone_from(brokers);
        if !brokers.is_empty() {
            self.is_reached.store(true, Ordering::Release);
        }
    }

    /// Takes the id of the cluster that metadata came from.
    pub(crate) fn set_cluster_id(&self, cluster_id: Option<&str>) {
        *lock(&self.cluster_id) = cluster_id.map(str::to_owned);
    }

    /// Forgets the brokers of metadata and closes what is connected to them: only `bootstrap.servers` is known from now
    /// on, as at the start. Not with `metadata.recovery.strategy=none`.
    pub(crate) fn rebootstrap(&self, reason: &str) {
        if !self.config.rebootstrap {
            return;
        }
        self.limits.log.record(&kinds::REBOOTSTRAPPED, || format!("bootstrapping again: {reason}"));
        lock(&self.brokers).clear();
        self.set_cluster_id(None);
        let slots = lock(&self.slots);
        for (_, slot) in slots.iter().filter(|((node, _), _)| matches!(node, NodeId::Broker(_))) {
            // A slot that is locked is just being connected: it has no address any more when it is used again.
            if let Ok(slot) = slot.try_lock()
                && let Some(link) = &slot.link
            {
                link.connection.close();
            }
        }
    }

    /// Brokers known from metadata, then the bootstrap addresses (KIP-899: the way back when no known broker answers).
    pub(crate) fn candidates(&self) -> Vec<NodeId> {
        let turn = lock(&self.jitter).next();
        self.candidates_from(turn as usize)
    }

    /// As [`Self::candidates`], beginning with the `turn`-th of the known brokers.
    pub(crate) fn candidates_from(&self, turn: usize) -> Vec<NodeId> {
        let known = lock(&self.brokers);
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

    /// True if a connection to this node stands.
    pub(crate) fn is_connected(&self, node: NodeId) -> bool {
        let slots: Vec<SharedConnectionSlot> =
            lock(&self.slots).iter().filter(|((of, _), _)| *of == node).map(|(_, slot)| slot.clone()).collect();
        slots.iter().any(|slot| {
            slot.try_lock().is_ok_and(|slot| slot.link.as_ref().is_some_and(|link| !link.connection.is_closed()))
        })
    }

    /// Resolves when the connection that there is to this node for this purpose ends; `None` without one.
    pub(crate) async fn connection_ended(
        &self,
        node: NodeId,
        purpose: Purpose,
    ) -> Option<impl Future<Output = ()> + Send + use<>> {
        let slot = lock(&self.slots).get(&(node, purpose)).cloned()?;
        let slot = slot.lock().await;
        Some(slot.link.as_ref()?.connection.ended())
    }

    /// True if a broker asks for a pause at present (KIP-219).
    pub(crate) fn is_throttled(&self) -> bool {
        let is_throttled = |slot: &SharedConnectionSlot| {
            slot.try_lock().is_ok_and(|slot| slot.link.as_ref().is_some_and(Link::is_throttled))
        };
        self.all_slots().iter().any(is_throttled)
    }

    fn all_slots(&self) -> Vec<SharedConnectionSlot> {
        lock(&self.slots).values().cloned().collect()
    }

    /// Sends `request` in the highest common version, built by `build` for that version, and returns its answer with
    /// the version. Connects first if need be. One attempt.
    pub(crate) async fn call<'q, R: Request<'q>>(
        &self,
        node: NodeId,
        purpose: Purpose,
        versions: RangeInclusive<i16>,
        expected: impl Into<Expected>,
        build: impl FnOnce(i16) -> R + Send,
    ) -> Result<(Frame, i16), RequestError> {
        let encode =
            |version, id, client_id: &str| frame::encode_request(&build(version), version, id, Some(client_id));
        self.call_encoded(node, purpose, R::API_KEY, versions, expected, encode).await
    }

    /// As [`Self::call`], for a request that `encode` makes of the version, the correlation id and `client.id`.
    pub(crate) async fn call_encoded(
        &self,
        node: NodeId,
        purpose: Purpose,
        api: ApiKey,
        versions: RangeInclusive<i16>,
        expected: impl Into<Expected>,
        encode: impl FnOnce(i16, i32, &str) -> Result<Vec<u8>, WireError> + Send,
    ) -> Result<(Frame, i16), RequestError> {
        self.call_boxed(node, purpose, (api, versions), expected.into(), Box::new(encode)).await
    }

    /// As [`Self::call_encoded`], compiled once for all kinds of requests.
    async fn call_boxed(
        &self,
        node: NodeId,
        purpose: Purpose,
        (api, versions): (ApiKey, RangeInclusive<i16>),
        expected: Expected,
        encode: Encode<'_>,
    ) -> Result<(Frame, i16), RequestError> {
        let link = self.link(node, purpose).await?;
        let version = link.version(api, versions)?;
        let encode = |id, client_id: &str| encode(version, id, client_id);
        let answer = link.connection.call_encoded(api, version, expected, encode).await?;
        Ok((answer, version))
    }

    /// Connects to this node, unless a connection stands.
    pub(crate) async fn ensure_connected(&self, node: NodeId, purpose: Purpose) -> Result<(), RequestError> {
        self.link(node, purpose).await.map(drop)
    }

    /// Puts a request behind those sent before to this node for this purpose, and returns what its answer is awaited
    /// by. Callers that send one after the other keep their order on the wire. `encode` makes it of the version, the
    /// correlation id and `client.id`. One that is never answered gets an empty answer when it is written.
    pub(crate) async fn send<P: Into<Pieces>>(
        &self,
        node: NodeId,
        purpose: Purpose,
        (api, versions): (ApiKey, RangeInclusive<i16>),
        is_answered: bool,
        expected: impl Into<Expected>,
        encode: impl FnOnce(i16, i32, &str) -> Result<P, WireError>,
    ) -> Result<Awaited, RequestError> {
        let link = self.link(node, purpose).await?;
        let version = link.version(api, versions)?;
        let encode = |id, client_id: &str| encode(version, id, client_id);
        let reply = link.connection.send(api, version, expected.into(), is_answered, encode)?;
        Ok(Awaited { link, version, reply })
    }

    /// Number of connections that stand.
    pub(crate) fn connected(&self) -> usize {
        let slots = self.all_slots();
        let alive = |slot: &SharedConnectionSlot| {
            slot.try_lock().is_ok_and(|slot| slot.link.as_ref().is_some_and(|link| !link.connection.is_closed()))
        };
        slots.iter().filter(|slot| alive(slot)).count()
    }

    /// A connected broker that offers an API: `preferred` if it does.
    pub(crate) fn api_support(&self, api: ApiKey, preferred: NodeId) -> ApiSupport {
        let slots = lock(&self.slots);
        let mut api_support = ApiSupport::Nothing;
        for (&(node, _), slot) in slots.iter().filter(|((_, purpose), _)| *purpose == Purpose::Control) {
            let Ok(slot) = slot.try_lock() else { continue };
            let Some(link) = slot.link.as_ref().filter(|link| !link.connection.is_closed()) else { continue };
            if link.offered.contains_key(&api.code()) {
                api_support = ApiSupport::Offers(node);
                if node == preferred {
                    break;
                }
            } else if api_support == ApiSupport::Nothing {
                api_support = ApiSupport::Lacks;
            }
        }
        api_support
    }

    /// Closes every connection, also those with requests in flight, and makes no other: a task that waits for its next
    /// attempt may outlive the client.
    pub(crate) fn close(&self) {
        self.closed.send_replace(true);
        let slots = std::mem::take(&mut *lock(&self.slots));
        for slot in slots.values() {
            // A slot that is locked is just being connected: the connection is dropped with the task that connects.
            if let Ok(slot) = slot.try_lock()
                && let Some(link) = &slot.link
            {
                link.connection.close();
            }
        }
    }

    /// The broker as host:port; as it is named to this client, if it has no known address.
    pub(crate) fn name_of(&self, node: NodeId) -> String {
        match (self.address(node), node) {
            (Ok((host, port)), _) => format!("{host}:{port}"),
            (Err(_), NodeId::Broker(id)) => format!("broker {id}"),
            (Err(_), NodeId::Bootstrap(index)) => format!("bootstrap server {index}"),
        }
    }

    fn address(&self, node: NodeId) -> Result<Address, RequestError> {
        match node {
            NodeId::Bootstrap(index) => {
                self.config.bootstrap_servers.get(index).cloned().ok_or(RequestError::UnknownNode(-1))
            }
            NodeId::Broker(id) => {
                let brokers = lock(&self.brokers);
                let broker = brokers.get(&id).ok_or(RequestError::UnknownNode(id))?;
                Ok((broker.host.clone(), broker.port))
            }
        }
    }
}

#[cfg(test)]
#[path = "network_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "setup_tests.rs"]
mod setup_tests;
