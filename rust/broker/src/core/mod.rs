//! The simulated cluster as one state machine without sockets and clocks.
//!
//! The core's inputs are frames and the time ([`Core::request`], [`Core::tick`]), its outputs [`Reply`]s
//! ([`Core::drain`]). Drain after every call: a request of one connection may complete waiting requests of others.

mod appends;
mod coordinators;
mod dead_letters;
mod exchanges;
mod faults;
mod fetches;
mod first_use;
mod housekeeping;
mod peers;
mod persistence;
mod reassigning;
mod replicas;
mod security;
mod share_fetches;
mod share_partitions;
mod topics;

use std::collections::VecDeque;

use bytes::Bytes;
use monedula_protocol::api::Request;
use monedula_protocol::frame::encode_response;

pub use crate::request::{Action, ConnectionId, Reply, Wire};
pub(crate) use appends::{Appended, Marker};
use housekeeping::Housekeeping;
use peers::Peers;
pub(crate) use peers::{Hex, has_secrets};
pub(crate) use replicas::Election;

use crate::BrokerError;
use crate::api;
use crate::cluster::{ClientMetrics, Configs, NodeId, Nodes, Topics};
use crate::draw::Draw;
use crate::faults::Faults;
use crate::fetching::{Fetch, Parked, Sessions};
use crate::groups::Groups;
use crate::log::DataDir;
use crate::log::validate::Validator;
use crate::request::{Answer, Current, Origin, Ticket};
use crate::security::{Login, Principal, Security, SecurityProtocol};
use crate::settings::Settings;
use crate::share::{ShareFetch, SharePartitions, ShareSessions};
use crate::transactions::Transactions;

/// The simulated cluster; see the module documentation.
#[derive(Debug)]
pub struct Core {
    /// The time of the current call in milliseconds since the Unix epoch. It never goes back.
    pub(crate) now_ms: i64,
    pub(crate) settings: Settings,
    /// The generator of random values, seeded by the settings.
    pub(crate) draw: Draw,
    /// The configs of brokers and groups that were set at runtime.
    pub(crate) configs: Configs,
    pub(crate) client_metrics: ClientMetrics,
    pub(crate) nodes: Nodes,
    pub(crate) topics: Topics,
    /// True if replicas that are not in sync stay so.
    replication_paused: bool,
    pub(crate) groups: Groups,
    pub(crate) transactions: Transactions,
    pub(crate) faults: Faults,
    pub(crate) fetch_sessions: Sessions,
    pub(crate) share_partitions: SharePartitions,
    pub(crate) share_sessions: ShareSessions,
    parked: Parked<Fetch>,
    parked_share_fetches: Parked<ShareFetch>,
    validator: Validator,
    data_dir: Option<DataDir>,
    pub(crate) housekeeping: Housekeeping,
    pub(crate) peers: Peers,
    pub(crate) security: Security,
    outbox: VecDeque<Reply>,
}

impl Core {
    /// Creates the cluster of the settings, with the content of the data directory.
    ///
    /// # Errors
    /// Invalid settings, and a data directory that cannot be read.
    pub fn new(settings: Settings, now_ms: i64) -> Result<Self, BrokerError> {
        let nodes = Nodes::new(&settings)?;
        let mut core = Self {
            now_ms,
            draw: Draw::new(settings.seed),
            configs: Configs::new(settings.kafka.clone()),
            client_metrics: ClientMetrics::default(),
            nodes,
            topics: Topics::default(),
            replication_paused: false,
            groups: Groups::default(),
            transactions: Transactions::default(),
            faults: Faults::new(settings.seed),
            fetch_sessions: Sessions::default(),
            share_partitions: SharePartitions::default(),
            share_sessions: ShareSessions::default(),
            parked: Parked::default(),
            parked_share_fetches: Parked::default(),
            validator: Validator::default(),
            data_dir: None,
            housekeeping: Housekeeping::new(now_ms, &settings.kafka),
            peers: Peers::default(),
            security: Security::new(&settings.security, &settings.host)?,
            outbox: VecDeque::new(),
            settings,
        };
        core.load()?;
        Ok(core)
    }

    /// Registers a client that connected to a node. Returns the id of the connection.
    pub fn connected(&mut self, now_ms: i64, node: NodeId, host: &str) -> ConnectionId {
        self.connected_as(now_ms, node, host, self.settings.security.protocol, None)
    }

    /// Registers a client that connected to a node's listener of this security protocol, with the principal of its
    /// certificate if it showed one. Returns the id of the connection.
    pub fn connected_as(
        &mut self,
        now_ms: i64,
        node: NodeId,
        host: &str,
        protocol: SecurityProtocol,
        principal: Option<Principal>,
    ) -> ConnectionId {
        self.advance(now_ms);
        let mut origin = Origin { protocol, ..Origin::anonymous(node, host) };
        if let Some(principal) = principal {
            origin.principal = principal;
        }
        let login = match protocol.has_sasl() {
            true => Login::Start,
            false => Login::NotNeeded,
        };
        self.peers.connected(origin, login, now_ms)
    }

    /// The largest frame, without its length, that a connection may send now.
    pub fn max_frame_bytes(&self, connection: ConnectionId) -> usize {
        let max_bytes = match self.peers.login(connection).is_none_or(Login::is_done) {
            true => self.settings.kafka.socket_request_max_bytes,
            // Before it is known who a client is, it can make the broker allocate only a little.
            false => self.settings.security.max_receive_bytes.min(self.settings.kafka.socket_request_max_bytes),
        };
        usize::try_from(max_bytes).unwrap_or_default()
    }

    /// Removes a connection that has ended. As in Kafka, a waiting JoinGroup or SyncGroup stays in its group; only its
    /// response has no receiver.
    pub fn disconnected(&mut self, now_ms: i64, connection: ConnectionId) {
        self.advance(now_ms);
        self.peers.disconnected(connection);
        self.faults.disconnected(connection);
        self.parked.disconnected(connection);
        self.parked_share_fetches.disconnected(connection);
        for session in self.share_sessions.disconnected(connection) {
            self.release_session(&session);
        }
        self.wake_fetches();
    }

    /// Carries out one request frame, without its length. The next frame of a connection may only be passed when this
    /// one is answered: Kafka handles one request of a connection at a time.
    ///
    /// Timers that are due run first: they would otherwise run up to a millisecond after the request, which then met a
    /// member, a transaction or a fault's delay whose time was over.
    pub fn request(&mut self, now_ms: i64, connection: ConnectionId, frame: &Bytes) {
        self.advance(now_ms);
        if self.next_due_ms().is_some_and(|due_ms| due_ms <= self.now_ms) {
            self.tick(now_ms);
        }
        if let Some(origin) = self.peers.origin(connection) {
            self.work(connection, &origin, frame);
            self.wake_fetches();
        }
    }

    /// Carries out a request whose connection may have ended.
    fn work(&mut self, connection: ConnectionId, origin: &Origin, frame: &Bytes) {
        let answer = api::serve(self, connection, origin, frame);
        // Changes of topics are saved before the request is acknowledged.
        let answer = match self.save() {
            Ok(()) => answer,
            Err(error) => Answer::Close(error.to_string()),
        };
        let action = match answer {
            Answer::Now(frame) => Action::Send(frame),
            Answer::Later => return,
            Answer::Nothing => Action::Nothing,
            Answer::Close(reason) => Action::Close(reason),
            Answer::Refused(frame, reason) => {
                Action::Refuse(frame, self.settings.security.failed_authentication_delay_ms, reason)
            }
        };
        self.reply(connection, action);
    }

    /// The time at which [`Core::tick`] must be called next, unless another call comes first.
    pub fn next_due_ms(&self) -> Option<i64> {
        let (groups, transactions) = (self.groups.next_due_ms(), self.transactions.next_due_ms());
        let (fetches, housekeeping) = (self.parked.next_due_ms(), self.housekeeping.next_due_ms(&self.settings.kafka));
        let share_groups = [self.share_partitions.next_due_ms(), self.parked_share_fetches.next_due_ms()];
        let due =
            [groups, transactions, fetches, housekeeping, self.faults.next_due_ms()].into_iter().chain(share_groups);
        due.flatten().min()
    }

    /// Does all work that is due: faults, timers of groups and transactions, locks of share groups, housekeeping,
    /// waiting fetches.
    pub fn tick(&mut self, now_ms: i64) {
        self.advance(now_ms);
        self.tick_faults();
        Groups::tick(self);
        Transactions::tick(self);
        self.expire_share_locks();
        self.keep_house();
        self.wake_fetches();
        self.finish_due_fetches();
        if let Err(error) = self.save() {
            log::error!("{error}");
        }
    }

    /// Takes the pending replies, in order. Some may be for connections that have ended.
    pub fn drain(&mut self) -> impl Iterator<Item = Reply> {
        self.outbox.drain(..)
    }

    /// Answers a request that waited. A response that cannot be encoded closes the connection: that is a bug, and a
    /// client that waits for ever would hide it.
    pub(crate) fn answer<'q, 'r, R: Request<'q>>(&mut self, ticket: Ticket, response: &R::Response<'r>) {
        let action = match encode_response::<R>(response, ticket.version, ticket.correlation_id) {
            Ok(frame) => Action::Send(vec![frame.into()]),
            Err(error) => Action::Close(error.to_string()),
        };
        self.reply(ticket.connection, action);
    }

    /// Queues the action that answers a request, unless a fault holds or delays it.
    pub(crate) fn reply(&mut self, connection: ConnectionId, action: Action) {
        if let Some(action) = self.faults.on_answer(self.now_ms, connection, self.peers.current(connection), action) {
            let action = action.then_mute(self.peers.take_mute_ms(connection));
            let faults = self.faults.take_struck(connection);
            self.peers.answered(connection, &action, self.now_ms, faults);
            self.outbox.push_back(Reply { connection, action });
        }
    }

    /// Closes all connections to a node, whether or not they wait for an answer.
    pub(crate) fn close_connections_at(&mut self, node: NodeId, reason: &str) {
        for connection in self.peers.at(node) {
            self.outbox.push_back(Reply { connection, action: Action::Close(reason.to_owned()) });
        }
    }

    /// Records that a connection has sent a request.
    pub(crate) fn asked(&mut self, connection: ConnectionId, client_id: &str, current: Current) {
        self.peers.asked(connection, client_id, current, self.now_ms);
    }

    fn advance(&mut self, now_ms: i64) {
        self.now_ms = self.now_ms.max(now_ms);
    }
}
