//! The whole cluster as one machine without sockets and clocks.
//!
//! Frames and the time go in ([`Core::request`], [`Core::tick`]), [`Reply`]s come out ([`Core::drain`]). After every call,
//! drain: what a request of one connection changed may answer requests of others that wait.

mod call;
mod draw;
mod peers;

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use monedula_protocol::api::Request;
use monedula_protocol::frame::encode_response;

pub use call::{Action, ConnectionId, Reply, Wire};
pub(crate) use call::{Answer, Call, Current, Ticket};
pub(crate) use draw::Draw;
pub(crate) use peers::Hex;
use peers::Peers;

use crate::BrokerError;
use crate::api;
use crate::cluster::{Configs, NodeId, Nodes, Topics};
use crate::faults::{self, Faults};
use crate::fetching::Fetching;
use crate::groups::Groups;
use crate::log::validate::Validator;
use crate::log::{DataDir, Housekeeping};
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
    pub(crate) data_dir: Option<DataDir>,
    pub(crate) housekeeping: Housekeeping,
    pub(crate) peers: Peers,
    outbox: VecDeque<Reply>,
}

impl Core {
    /// A cluster as the settings say, with what its data directory holds.
    ///
    /// # Errors
    /// Settings that cannot be, and a data directory that cannot be read.
    pub fn new(settings: Settings, now_ms: i64) -> Result<Self, BrokerError> {
        let nodes = Nodes::new(&settings)?;
        let mut core = Self {
            now_ms,
            draw: Draw::new(settings.seed),
            configs: Configs::new(settings.kafka.clone()),
            nodes,
            topics: Topics::default(),
            groups: Groups::default(),
            transactions: Transactions::default(),
            faults: Faults::new(settings.seed),
            fetching: Fetching::default(),
            validator: Validator::default(),
            data_dir: None,
            housekeeping: Housekeeping::new(now_ms, &settings.kafka),
            peers: Peers::default(),
            outbox: VecDeque::new(),
            settings,
        };
        core.load_topics()?;
        Ok(core)
    }

    /// Someone has connected to a node.
    pub fn connected(&mut self, now_ms: i64, node: NodeId, host: &str) -> ConnectionId {
        self.advance(now_ms);
        self.peers.connected(node, host, now_ms)
    }

    /// A connection is gone. A join or a sync that waits stays as it is, as in Kafka; only its answer goes nowhere.
    pub fn disconnected(&mut self, now_ms: i64, connection: ConnectionId) {
        self.advance(now_ms);
        self.peers.disconnected(connection);
        self.faults.disconnected(connection);
        self.fetching.parked.disconnected(connection);
    }

    /// Works on one frame, without its length. The next one of the same connection may come when this one is answered: Kafka
    /// works on one request of a connection at a time.
    pub fn request(&mut self, now_ms: i64, connection: ConnectionId, frame: &Bytes) {
        self.advance(now_ms);
        if let Some((node, host)) = self.peers.address(connection) {
            self.work(connection, node, &host, frame);
            self.wake_fetches();
        }
    }

    /// The same for a request whose connection may be gone.
    pub(crate) fn work(&mut self, connection: ConnectionId, node: NodeId, host: &Arc<str>, frame: &Bytes) {
        let answer = api::serve(self, connection, node, host, frame);
        // What is not saved is not acknowledged.
        let answer = match self.save_topics() {
            Ok(()) => answer,
            Err(error) => Answer::Close(error.to_string()),
        };
        let action = match answer {
            Answer::Now(frame) => Action::Send(frame),
            Answer::Later => return,
            Answer::Nothing => Action::Nothing,
            Answer::Close(reason) => Action::Close(reason),
        };
        self.reply(connection, action);
    }

    /// When [`Core::tick`] has something to do, if nothing happens before.
    pub fn next_due_ms(&self) -> Option<i64> {
        let (groups, transactions) = (self.groups.next_due_ms(), self.transactions.next_due_ms());
        let (fetches, housekeeping) =
            (self.fetching.parked.next_due_ms(), self.housekeeping.next_due_ms(&self.settings.kafka));
        let due = [groups, transactions, fetches, housekeeping, self.faults_due_ms()];
        due.into_iter().flatten().min()
    }

    /// Does what is due.
    pub fn tick(&mut self, now_ms: i64) {
        self.advance(now_ms);
        self.tick_faults();
        Groups::tick(self);
        Transactions::tick(self);
        self.keep_house();
        self.wake_fetches();
        self.finish_due_fetches();
        if let Err(error) = self.save_topics() {
            log::error!("{error}");
        }
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

    /// Sends an answer, unless a fault keeps it back.
    pub(crate) fn reply(&mut self, connection: ConnectionId, action: Action) {
        if let Some(action) = faults::on_answer(self, connection, action) {
            self.peers.answered(connection, &action);
            self.outbox.push_back(Reply { connection, action });
        }
    }

    /// Closes all connections to a node, whatever they wait for.
    pub(crate) fn close_connections_at(&mut self, node: NodeId, reason: &str) {
        for connection in self.peers.at(node) {
            self.outbox.push_back(Reply { connection, action: Action::Close(reason.to_owned()) });
        }
    }

    /// A connection has sent a request.
    pub(crate) fn asked(&mut self, connection: ConnectionId, client_id: &str, current: Current) {
        self.peers.asked(connection, client_id, current);
    }

    /// What a connection waits for.
    pub(crate) fn current(&self, connection: ConnectionId) -> Option<Current> {
        self.peers.current(connection)
    }

    fn advance(&mut self, now_ms: i64) {
        self.now_ms = self.now_ms.max(now_ms);
    }
}
