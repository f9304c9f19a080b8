//! Connections to the cluster's nodes: made on demand, with backoff, kept while used.

mod handshake;
mod link;
mod probe;
mod setup;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

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
use crate::config::{ClientConfig, ConfigError};
use crate::error::{AuthenticationError, ClientError, RequestError};
use crate::lock::lock;
use crate::log::{Entry, Log, kinds};
use crate::metrics::Metrics;
use crate::net::connection::{Connection, Expected, Frame, Limits, Pieces};
use crate::net::login::Login;

/// A broker, by the way in which its address is known.
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

/// Whether a broker that a connection stands to offers an API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// This one does.
    Offers(NodeId),
    /// None of them does.
    Lacks,
    /// No connection stands.
    Nothing,
}

type Address = (String, u16);

/// Makes a request of the version, the correlation id and `client.id`.
type Encode<'a> = Box<dyn FnOnce(i16, i32, &str) -> Result<Vec<u8>, WireError> + Send + 'a>;

/// The connection to one node for one purpose, if it stands, and when the next attempt to connect may be.
#[derive(Default)]
struct ConnectionSlot {
    link: Option<Link>,
    /// Where the link goes to. What follows is about this address.
    address: Address,
    /// Failures in a row: no connection, or one that ended before it was of any use.
    failures: u32,
    retry_at: Option<Instant>,
    /// Until when the broker wanted no request, on the connection before (KIP-219).
    throttled_until: Option<Instant>,
}

/// A broker that has not answered for so long owes the answer, and one that is not connected to is told of.
const OWED: Duration = Duration::from_secs(1);

/// What is wrong with brokers, or what they were asked for, when a wait was over.
pub(crate) struct Owed(Option<String>);

impl Owed {
    /// The last error of that wait, with what is wrong with the brokers where the error does not say it.
    pub(crate) fn explain(self, last_error: Option<String>) -> Option<String> {
        match (last_error, self.0) {
            // A request that failed names its broker.
            (Some(error), Some(owed)) if !error.contains(": ") || error.ends_with("NETWORK_EXCEPTION") => {
                Some(format!("{error}; {owed}"))
            }
            (last_error, owed) => last_error.or(owed),
        }
    }
}

/// Notes that an address is being connected to, until it is dropped.
struct Connecting<'a> {
    all: &'a Mutex<BTreeMap<String, Instant>>,
    broker: String,
}

impl<'a> Connecting<'a> {
    fn begin(all: &'a Mutex<BTreeMap<String, Instant>>, (host, port): &Address) -> Self {
        let broker = format!("{host}:{port}");
        lock(all).insert(broker.clone(), Instant::now());
        Self { all, broker }
    }
}

impl Drop for Connecting<'_> {
    fn drop(&mut self) {
        lock(self.all).remove(&self.broker);
    }
}

type SharedConnectionSlot = Arc<tokio::sync::Mutex<ConnectionSlot>>;

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
    connecting: Mutex<BTreeMap<String, Instant>>,
    jitter: Mutex<Jitter>,
    features: Mutex<Features>,
    login: Option<Arc<Login>>,
    /// Why a broker did not let this client in, or which setting is wrong. Nothing is connected to any more then: the same
    /// credentials would be refused again, and brokers and directories lock accounts that try too often.
    refusal: Mutex<Option<ClientError>>,
    /// Why there was nothing to log in with, since the last connection that was made.
    no_credentials: Mutex<Option<Box<AuthenticationError>>>,
    /// Whether the brokers of the cluster were known at some time.
    is_reached: AtomicBool,
    /// Whether a connection stood at some time.
    is_connected_once: AtomicBool,
    /// Whether the client is closed. Nothing is connected to any more then.
    closed: watch::Sender<bool>,
}

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

    /// The error of a cluster that was not reached for so long: each address that failed last time, with what happened.
    pub(crate) fn unreachable(&self, after: Duration) -> ClientError {
        self.unreachable_or(after, "no attempt has ended yet")
    }

    /// As [`Self::unreachable`]; `otherwise` is what happened where every address could be connected to.
    pub(crate) fn unreachable_or(&self, after: Duration, otherwise: &str) -> ClientError {
        if let Some(error) = lock(&self.no_credentials).clone() {
            return ClientError::Authentication(error);
        }
        let failures = lock(&self.failures);
        let reasons: Vec<String> = failures.iter().map(|(broker, reason)| format!("{broker}: {reason}")).collect();
        let reasons = if reasons.is_empty() { otherwise.to_owned() } else { reasons.join("; ") };
        ClientError::Unreachable { after, reasons }
    }

    /// What is wrong with the brokers just now, for the error of a wait that is over: each address that could not be
    /// connected to, and each that owes an answer. `None` if nothing is.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble_within(OWED)
    }

    /// As [`Self::trouble`], where a broker owes an answer after `owed`.
    fn trouble_within(&self, owed: Duration) -> Option<String> {
        let mut reasons: BTreeMap<String, String> = lock(&self.failures).clone();
        for slot in self.all_slots() {
            let Ok(slot) = slot.try_lock() else { continue };
            let Some(link) = &slot.link else { continue };
            let waiting = link.connection.oldest_waiting();
            if let Some((api, waited, _)) = waiting.filter(|(_, waited, held_back)| *waited >= *held_back + owed) {
                let reason = || format!("no answer to {} for {} ms", api.name(), waited.as_millis());
                reasons.entry(link.connection.broker().to_owned()).or_insert_with(reason);
            }
        }
        for (broker, since) in lock(&self.connecting).iter() {
            let reason = || format!("no connection for {} ms", since.elapsed().as_millis());
            reasons.entry(broker.clone()).or_insert_with(reason);
        }
        let reasons: Vec<String> = reasons.into_iter().map(|(broker, reason)| format!("{broker}: {reason}")).collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }

    /// What brokers owe a wait that is over: what is wrong with them, or else what was waited for just now.
    fn owed(&self) -> Owed {
        Owed(self.trouble().or_else(|| self.trouble_within(Duration::ZERO)))
    }

    /// The last error of a wait that is over, with what is wrong with the brokers where the error does not say it. If
    /// nothing is, with what was waited for just now.
    pub(crate) fn explain(&self, last_error: Option<String>) -> Option<String> {
        self.owed().explain(last_error)
    }

    /// The outcome of `work`. Past `timeout`, what brokers owe it, which is asked before the work is dropped: its
    /// requests and connections are gone then.
    pub(crate) async fn within<T>(&self, timeout: Duration, work: impl Future<Output = T>) -> Result<T, Owed> {
        let mut work = std::pin::pin!(work);
        tokio::time::timeout(timeout, work.as_mut()).await.map_err(|_| self.owed())
    }

    /// Whether a connection to this node stands.
    pub(crate) fn is_connected(&self, node: NodeId) -> bool {
        let slots: Vec<SharedConnectionSlot> =
            lock(&self.slots).iter().filter(|((of, _), _)| *of == node).map(|(_, slot)| slot.clone()).collect();
        slots.iter().any(|slot| {
            slot.try_lock().is_ok_and(|slot| slot.link.as_ref().is_some_and(|link| !link.connection.is_closed()))
        })
    }

    /// Whether a broker asks for a pause at present (KIP-219).
    pub(crate) fn is_throttled(&self) -> bool {
        let throttled = |slot: &SharedConnectionSlot| {
            let until = slot.try_lock().ok().and_then(|slot| slot.link.as_ref()?.connection.throttled_until());
            until.is_some_and(|until| until > Instant::now())
        };
        self.all_slots().iter().any(throttled)
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
        encode: impl FnOnce(i16, i32, &str) -> Result<P, WireError>,
    ) -> Result<Awaited, RequestError> {
        let link = self.link(node, purpose).await?;
        let version = link.version(api, versions)?;
        let encode = |id, client_id: &str| encode(version, id, client_id);
        let reply = link.connection.send(api, version, Expected::default(), is_answered, encode)?;
        Ok(Awaited { link, version, reply })
    }

    /// How many connections stand.
    pub(crate) fn connected(&self) -> usize {
        let slots = self.all_slots();
        let alive = |slot: &SharedConnectionSlot| {
            slot.try_lock().is_ok_and(|slot| slot.link.as_ref().is_some_and(|link| !link.connection.is_closed()))
        };
        slots.iter().filter(|slot| alive(slot)).count()
    }

    /// Which of the brokers that connections stand to offers an API: `preferred` if it does.
    pub(crate) fn standing(&self, api: ApiKey, preferred: NodeId) -> Standing {
        let slots = lock(&self.slots);
        let mut standing = Standing::Nothing;
        for (&(node, _), slot) in slots.iter().filter(|((_, purpose), _)| *purpose == Purpose::Control) {
            let Ok(slot) = slot.try_lock() else { continue };
            let Some(link) = slot.link.as_ref().filter(|link| !link.connection.is_closed()) else { continue };
            if link.offered.contains_key(&api.code()) {
                standing = Standing::Offers(node);
                if node == preferred {
                    break;
                }
            } else if standing == Standing::Nothing {
                standing = Standing::Lacks;
            }
        }
        standing
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

    /// The connection to `node`: the one that stands, or a new one. Waits out the backoff of earlier failures, and the
    /// time for which the broker wants no request (KIP-219).
    ///
    /// A boxed future: it is awaited for every kind of request, and would be compiled into each of them.
    fn link(
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
                // Without the lock on the slot: meanwhile the connection counts as one that stands, and can be closed.
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

    /// What a failed attempt to connect means for the client: what would fail again is kept, and told to all.
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

    /// The caller waits for this node no longer. Noted as a failure of its address, although the attempt itself was cut
    /// short.
    pub(crate) fn gave_up(&self, node: NodeId, after: Duration) -> RequestError {
        let Ok((host, port)) = self.address(node) else { return RequestError::UnknownNode(-1) };
        let broker = format!("{host}:{port}");
        lock(&self.failures).insert(broker.clone(), no_answer(after));
        RequestError::TimedOut { broker, after }
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
            Entry::new(format!("{broker}: {reason}; attempt {attempt}, next in {next_ms} ms at the earliest"))
                .broker(&broker)
        });
        lock(&self.failures).insert(broker, reason);
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

fn no_answer(after: Duration) -> String {
    format!("no answer within {} ms", after.as_millis())
}

#[cfg(test)]
#[path = "network_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "setup_tests.rs"]
mod setup_tests;
