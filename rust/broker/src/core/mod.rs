//! The whole cluster as one machine without sockets and clocks.
//!
//! Frames and the time go in ([`Core::request`], [`Core::tick`]), [`Reply`]s come out ([`Core::drain`]). After every call,
//! drain: what a request of one connection changed may answer requests of others that wait.

mod call;
mod draw;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use monedula_protocol::api::Request;
use monedula_protocol::frame::encode_response;

pub use call::{Action, ConnectionId, Reply};
pub(crate) use call::{Answer, Call, Ticket};
pub(crate) use draw::Draw;

use crate::BrokerError;
use crate::api;
use crate::cluster::{Configs, NodeId, Nodes, Topics};
use crate::faults::Faults;
use crate::fetching::Fetching;
use crate::groups::Groups;
use crate::log::validate::Validator;
use crate::settings::Settings;
use crate::transactions::Transactions;

/// The cluster. See the module.
#[derive(Debug)]
pub struct Core {
    /// The time of the call that is being worked on: milliseconds since the Unix epoch, never going back.
    pub(crate) now_ms: i64,
    pub(crate) settings: Settings,
    /// What is drawn by chance, from the seed of the settings.
    pub(crate) draw: Draw,
    /// What was set by IncrementalAlterConfigs for brokers and groups.
    pub(crate) configs: Configs,
    pub(crate) nodes: Nodes,
    pub(crate) topics: Topics,
    pub(crate) groups: Groups,
    pub(crate) transactions: Transactions,
    pub(crate) faults: Faults,
    pub(crate) fetching: Fetching,
    pub(crate) validator: Validator,
    connections: HashMap<ConnectionId, Peer>,
    last_connection: u64,
    outbox: VecDeque<Reply>,
}

/// What is known of who is at the other end of a connection.
#[derive(Clone, Debug)]
struct Peer {
    node: NodeId,
    host: Arc<str>,
}

impl Core {
    /// A cluster as the settings say, with what its data directory holds.
    ///
    /// # Errors
    /// Settings that cannot be, and a data directory that cannot be read.
    pub fn new(settings: Settings, now_ms: i64) -> Result<Self, BrokerError> {
        let nodes = Nodes::new(&settings)?;
        Ok(Self {
            now_ms,
            draw: Draw::new(settings.seed),
            configs: Configs::new(settings.kafka.clone()),
            nodes,
            topics: Topics::default(),
            groups: Groups::default(),
            transactions: Transactions::default(),
            faults: Faults::default(),
            fetching: Fetching::default(),
            validator: Validator::default(),
            connections: HashMap::new(),
            last_connection: 0,
            outbox: VecDeque::new(),
            settings,
        })
    }

    /// Someone has connected to a node.
    pub fn connected(&mut self, now_ms: i64, node: NodeId, host: &str) -> ConnectionId {
        self.advance(now_ms);
        self.last_connection += 1;
        let id = ConnectionId(self.last_connection);
        self.connections.insert(id, Peer { node, host: host.into() });
        id
    }

    /// A connection is gone. A join or a sync that waits stays as it is, as in Kafka; only its answer goes nowhere.
    pub fn disconnected(&mut self, now_ms: i64, connection: ConnectionId) {
        self.advance(now_ms);
        self.connections.remove(&connection);
        self.fetching.parked.disconnected(connection);
    }

    /// Works on one frame, without its length. The next one of the same connection may come when this one is answered: Kafka
    /// works on one request of a connection at a time.
    pub fn request(&mut self, now_ms: i64, connection: ConnectionId, frame: &Bytes) {
        self.advance(now_ms);
        let Some(Peer { node, host }) = self.connections.get(&connection).cloned() else {
            return;
        };
        let action = match api::serve(self, connection, node, &host, frame) {
            Answer::Now(frame) => Action::Send(frame),
            Answer::Later => return self.wake_fetches(),
            Answer::Nothing => Action::Nothing,
            Answer::Close(reason) => Action::Close(reason),
        };
        self.reply(connection, action);
        self.wake_fetches();
    }

    /// When [`Core::tick`] has something to do, if nothing happens before.
    pub fn next_due_ms(&self) -> Option<i64> {
        let due = [self.groups.next_due_ms(), self.transactions.next_due_ms(), self.fetching.parked.next_due_ms()];
        due.into_iter().flatten().min()
    }

    /// Does what is due.
    pub fn tick(&mut self, now_ms: i64) {
        self.advance(now_ms);
        Groups::tick(self);
        Transactions::tick(self);
        self.wake_fetches();
        self.finish_due_fetches();
    }

    /// What is to be sent, in order. Replies to connections that are gone may be among them.
    pub fn drain(&mut self) -> impl Iterator<Item = Reply> {
        self.outbox.drain(..)
    }

    /// Answers a request that was kept waiting. What cannot be encoded closes the connection: it is a bug, and a client
    /// that waits for ever would hide it.
    pub(crate) fn answer<'q, 'r, R: Request<'q>>(&mut self, ticket: Ticket, response: &R::Response<'r>) {
        let action = match encode_response::<R>(response, ticket.version, ticket.correlation_id) {
            Ok(frame) => Action::Send(vec![frame.into()]),
            Err(error) => Action::Close(error.to_string()),
        };
        self.reply(ticket.connection, action);
    }

    pub(crate) fn reply(&mut self, connection: ConnectionId, action: Action) {
        self.outbox.push_back(Reply { connection, action });
    }

    fn advance(&mut self, now_ms: i64) {
        self.now_ms = self.now_ms.max(now_ms);
    }
}
