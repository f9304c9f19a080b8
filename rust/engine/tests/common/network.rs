//! Connections with what is on its way in them. Bytes of one connection keep their order, as TCP has it; those of two do not.
#![allow(dead_code, reason = "each simulation uses a part")]

use std::collections::{BTreeMap, VecDeque};

use monedula_broker::core::ConnectionId;
use monedula_engine::Now;

pub(crate) type Link = u64;

/// A process.
pub(crate) type Pid = u32;

#[derive(Debug)]
pub(crate) struct Connection<R> {
    pub(crate) pid: Pid,
    pub(crate) node: i32,
    /// The broker's end, once it has seen it.
    pub(crate) broker: Option<ConnectionId>,
    pub(crate) client_open: bool,
    pub(crate) broker_open: bool,
    /// What was sent last arrives then.
    pub(crate) there: Now,
    pub(crate) back: Now,
    /// Nothing gets across before.
    pub(crate) stalled_until: Now,
    pub(crate) last_correlation_id: i32,
    /// Requests whose answers the client waits for.
    pub(crate) waiting: VecDeque<R>,
    /// Requests that the broker has got; it works on the first.
    pub(crate) arrived: VecDeque<R>,
    pub(crate) busy: bool,
}

/// All connections. `L` says which one to a node a request takes, `R` is a request.
#[derive(Debug)]
pub(crate) struct Network<L, R> {
    pub(crate) links: BTreeMap<Link, Connection<R>>,
    lanes: BTreeMap<(Pid, i32, L), Link>,
    by_broker: BTreeMap<ConnectionId, Link>,
    last: Link,
    /// Between a process and a node nothing passes before.
    pub(crate) black_holes: BTreeMap<(Pid, i32), Now>,
}

impl<L, R> Default for Network<L, R> {
    fn default() -> Self {
        Self {
            links: BTreeMap::new(),
            lanes: BTreeMap::new(),
            by_broker: BTreeMap::new(),
            last: 0,
            black_holes: BTreeMap::new(),
        }
    }
}

impl<L: Copy + Ord, R> Network<L, R> {
    /// The connection for a call, made if there is none.
    pub(crate) fn link(&mut self, pid: Pid, node: i32, lane: L, now: Now) -> Link {
        if let Some(&link) = self.lanes.get(&(pid, node, lane)) {
            return link;
        }
        self.last += 1;
        let connection = Connection {
            pid,
            node,
            broker: None,
            client_open: true,
            broker_open: true,
            there: now,
            back: now,
            stalled_until: Now::ZERO,
            last_correlation_id: 0,
            waiting: VecDeque::new(),
            arrived: VecDeque::new(),
            busy: false,
        };
        self.links.insert(self.last, connection);
        self.lanes.insert((pid, node, lane), self.last);
        self.last
    }

    /// The client's end is closed; what it waited for.
    pub(crate) fn close_client(&mut self, link: Link) -> Vec<R> {
        self.lanes.retain(|_, open| *open != link);
        let Some(connection) = self.links.get_mut(&link) else { return Vec::new() };
        connection.client_open = false;
        connection.waiting.drain(..).collect()
    }

    /// The broker's end is closed. Whoever is gone at both ends is forgotten.
    pub(crate) fn close_broker(&mut self, link: Link) -> Option<ConnectionId> {
        let connection = self.links.get_mut(&link)?;
        connection.broker_open = false;
        connection.broker
    }

    pub(crate) fn at_broker(&mut self, broker: ConnectionId, link: Link) {
        self.by_broker.insert(broker, link);
    }

    pub(crate) fn of_broker(&self, broker: ConnectionId) -> Option<Link> {
        self.by_broker.get(&broker).copied()
    }

    pub(crate) fn of_process(&self, pid: Pid) -> Vec<Link> {
        let open = self.links.iter().filter(|(_, connection)| connection.pid == pid && connection.client_open);
        open.map(|(link, _)| *link).collect()
    }

    /// The open connection on which a request waits.
    pub(crate) fn waits_on(&self, pid: Pid, is_it: impl Fn(&R) -> bool) -> Option<Link> {
        let mut open = self.links.iter().filter(|(_, connection)| connection.pid == pid && connection.client_open);
        open.find(|(_, connection)| connection.waiting.iter().any(&is_it)).map(|(link, _)| *link)
    }

    /// Forgets what nobody needs any more.
    pub(crate) fn sweep(&mut self) {
        let gone = |connection: &Connection<R>| !connection.client_open && !connection.broker_open;
        self.by_broker.retain(|_, link| self.links.get(link).is_some_and(|connection| !gone(connection)));
        self.links.retain(|_, connection| !gone(connection));
    }
}
