//! The simulated nodes (brokers) of the cluster.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::BrokerError;
use crate::security::SecurityProtocol;
use crate::settings::Settings;

/// The id of a node. The ids are consecutive, starting at `first_node_id` of the settings (default 1).
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub i32);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) host: Arc<str>,
    /// The port on which it listens; 0 before it listens.
    pub(crate) port: u16,
    pub(crate) other_ports: BTreeMap<SecurityProtocol, u16>,
    pub(crate) rack: Option<Arc<str>>,
    pub(crate) alive: bool,
}

impl Node {
    /// The port of the listener with this security protocol, which clients of that listener are told.
    pub(crate) fn port(&self, protocol: SecurityProtocol) -> u16 {
        self.other_ports.get(&protocol).copied().unwrap_or(self.port)
    }

    /// The node as clients of the listener with this security protocol see it.
    pub(crate) fn seen_at(&self, protocol: SecurityProtocol) -> Self {
        Self { port: self.port(protocol), ..self.clone() }
    }
}

/// All nodes, running or stopped.
#[derive(Debug)]
pub(crate) struct Nodes {
    by_id: BTreeMap<NodeId, Node>,
    /// The epoch of the controller: 1, raised each time another node becomes the controller.
    controller_epoch: i32,
}

impl Nodes {
    pub(crate) fn new(settings: &Settings) -> Result<Self, BrokerError> {
        if settings.nodes == 0 {
            let problem = "0, but a cluster has at least one node".to_owned();
            return Err(BrokerError::Setting { name: "nodes".to_owned(), problem });
        }
        let first = settings.first_node_id;
        if first < 0 || first.checked_add(i32::from(settings.nodes) - 1).is_none() {
            let problem = format!("{first}, but {} nodes have ids from 0 to {}", settings.nodes, i32::MAX);
            return Err(BrokerError::Setting { name: "first_node_id".to_owned(), problem });
        }
        let node = |index: u16| Node {
            id: NodeId(first + i32::from(index)),
            host: settings.host.as_str().into(),
            port: 0,
            other_ports: BTreeMap::new(),
            rack: settings
                .racks
                .get(usize::from(index))
                .filter(|rack| !rack.is_empty())
                .map(|rack| rack.as_str().into()),
            alive: true,
        };
        let by_id = (0..settings.nodes).map(node).map(|node| (node.id, node)).collect();
        Ok(Self { by_id, controller_epoch: 1 })
    }

    /// Marks a node as running or stopped. Another node may become the controller by it.
    pub(crate) fn set_alive(&mut self, id: NodeId, alive: bool) {
        let before = self.controller();
        if let Some(node) = self.get_mut(id) {
            node.alive = alive;
        }
        self.controller_epoch += i32::from(self.controller() != before);
    }

    /// The epoch of the controller, which grows with each new one.
    pub(crate) fn controller_epoch(&self) -> i32 {
        self.controller_epoch
    }

    pub(crate) fn get(&self, id: NodeId) -> Option<&Node> {
        self.by_id.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.by_id.get_mut(&id)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Node> {
        self.by_id.values()
    }

    pub(crate) fn alive(&self) -> impl Iterator<Item = &Node> {
        self.by_id.values().filter(|node| node.alive)
    }

    pub(crate) fn is_alive(&self, id: NodeId) -> bool {
        self.get(id).is_some_and(|node| node.alive)
    }

    /// The living nodes that the leader hints name, each once, as clients of a listener see them.
    pub(crate) fn endpoints(&self, hints: impl Iterator<Item = (i32, i32)>, protocol: SecurityProtocol) -> Vec<Node> {
        let mut ids: Vec<NodeId> = hints.map(|(leader, _)| NodeId(leader)).collect();
        ids.sort_unstable();
        ids.dedup();
        let alive = ids.into_iter().filter_map(|id| self.get(id)).filter(|node| node.alive);
        alive.map(|node| node.seen_at(protocol)).collect()
    }

    /// The controller: the running node with the lowest id.
    pub(crate) fn controller(&self) -> Option<NodeId> {
        self.alive().next().map(|node| node.id)
    }
}
