//! Connections, with the requests and answers in flight. The bytes of one connection keep their order, as with TCP;
//! those of two connections do not.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use monedula_broker::core::ConnectionId;
use monedula_engine::Now;
use monedula_engine::produce::RequestId;
use monedula_engine::transaction::CallId;

pub(crate) type Link = u64;

/// A request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PendingRequest {
    /// A request of the delivery machine.
    Produce(RequestId),
    /// A request of the session, on a connection of its own.
    Call(CallId),
}

/// The purpose of a connection to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    Records,
    Calls,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) node: i32,
    lane: Lane,
    /// The broker's end; `None` once it is closed.
    pub(crate) broker: Option<ConnectionId>,
    /// Whether it is open on the client's side.
    pub(crate) client_open: bool,
    /// When the last bytes that were sent arrive.
    pub(crate) there: Now,
    pub(crate) back: Now,
    /// Nothing arrives any more, and no side notices.
    pub(crate) dead: bool,
    /// Requests that the client waits for.
    pub(crate) waiting: VecDeque<PendingRequest>,
    /// Requests that have reached the broker; it works on the first.
    pub(crate) arrived: VecDeque<(PendingRequest, Bytes)>,
    pub(crate) busy: bool,
}

/// All connections.
#[derive(Debug, Default)]
pub(crate) struct Network {
    pub(crate) links: BTreeMap<Link, Connection>,
    current: BTreeMap<(i32, Lane), Link>,
    last: Link,
}

impl Network {
    /// The open connection to a node, if there is one.
    pub(crate) fn to(&self, node: i32, lane: Lane) -> Option<Link> {
        self.current.get(&(node, lane)).copied()
    }

    pub(crate) fn open(&mut self, node: i32, lane: Lane, broker: ConnectionId, now: Now) -> Link {
        self.last += 1;
        let connection = Connection {
            node,
            lane,
            broker: Some(broker),
            client_open: true,
            there: now,
            back: now,
            dead: false,
            waiting: VecDeque::new(),
            arrived: VecDeque::new(),
            busy: false,
        };
        self.links.insert(self.last, connection);
        self.current.insert((node, lane), self.last);
        self.last
    }

    /// The client closes a connection. Returns the requests that it waited for.
    pub(crate) fn give_up(&mut self, link: Link) -> Vec<PendingRequest> {
        let Some(connection) = self.links.get_mut(&link) else { return Vec::new() };
        connection.client_open = false;
        let place = (connection.node, connection.lane);
        if self.current.get(&place) == Some(&link) {
            self.current.remove(&place);
        }
        connection.waiting.drain(..).collect()
    }

    /// Whether a connection never had a fault.
    pub(crate) fn held(&self, link: Link) -> bool {
        let connection = self.links.get(&link);
        connection.is_some_and(|connection| connection.client_open && !connection.dead && connection.broker.is_some())
    }

    /// Whether everything that was sent on working connections has arrived.
    pub(crate) fn is_quiet(&self, now: Now) -> bool {
        let mut links = self.links.iter();
        links.all(|(link, connection)| !self.held(*link) || connection.there < now && !connection.busy)
    }

    pub(crate) fn of(&self, broker: ConnectionId) -> Option<Link> {
        self.links.iter().find(|(_, connection)| connection.broker == Some(broker)).map(|(&link, _)| link)
    }
}
