//! Connections with what is on its way in them. Bytes of one connection keep their order, as TCP has it; those of two do not.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use monedula_broker::core::ConnectionId;
use monedula_engine::Now;
use monedula_engine::produce::RequestId;

pub(crate) type Link = u64;

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) node: i32,
    /// The broker's end; none once it is closed.
    pub(crate) broker: Option<ConnectionId>,
    /// Whether the client still has it.
    pub(crate) client_open: bool,
    /// What was sent last arrives then.
    pub(crate) there: Now,
    pub(crate) back: Now,
    /// Nothing gets across any more, and nobody is told.
    pub(crate) dead: bool,
    /// Requests that the client waits for.
    pub(crate) waiting: VecDeque<RequestId>,
    /// Requests that the broker has got; it works on the first.
    pub(crate) arrived: VecDeque<(RequestId, Bytes)>,
    pub(crate) busy: bool,
}

/// All connections.
#[derive(Debug, Default)]
pub(crate) struct Network {
    pub(crate) links: BTreeMap<Link, Connection>,
    current: BTreeMap<i32, Link>,
    last: Link,
}

impl Network {
    /// The connection to a node, if there is one.
    pub(crate) fn to(&self, node: i32) -> Option<Link> {
        self.current.get(&node).copied()
    }

    pub(crate) fn open(&mut self, node: i32, broker: ConnectionId, now: Now) -> Link {
        self.last += 1;
        let connection = Connection {
            node,
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
        self.current.insert(node, self.last);
        self.last
    }

    /// The client gives a connection up. What it waited for there.
    pub(crate) fn give_up(&mut self, link: Link) -> Vec<RequestId> {
        let Some(connection) = self.links.get_mut(&link) else { return Vec::new() };
        connection.client_open = false;
        if self.current.get(&connection.node) == Some(&link) {
            self.current.remove(&connection.node);
        }
        connection.waiting.drain(..).collect()
    }

    pub(crate) fn of(&self, broker: ConnectionId) -> Option<Link> {
        self.links.iter().find(|(_, connection)| connection.broker == Some(broker)).map(|(&link, _)| link)
    }
}
