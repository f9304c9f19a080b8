//! The virtual nodes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::BrokerError;
use crate::settings::Settings;

/// A node's id: 1 and on.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub i32);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One node.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) host: Arc<str>,
    /// Where it listens; 0 before it does.
    pub(crate) port: u16,
    pub(crate) rack: Option<Arc<str>>,
    /// Whether it listens, leads and is in sync.
    pub(crate) alive: bool,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Nodes(BTreeMap<NodeId, Node>);

impl Nodes {
    pub(crate) fn new(settings: &Settings) -> Result<Self, BrokerError> {
        if settings.nodes == 0 {
            let problem = "0, but a cluster has at least one node".to_owned();
            return Err(BrokerError::Setting { name: "nodes".to_owned(), problem });
        }
        let node = |index: u16| Node {
            id: NodeId(i32::from(index) + 1),
            host: settings.host.as_str().into(),
            port: 0,
            rack: settings.racks.get(usize::from(index)).map(|rack| rack.as_str().into()),
            alive: true,
        };
        Ok(Self((0..settings.nodes).map(node).map(|node| (node.id, node)).collect()))
    }

    pub(crate) fn get(&self, id: NodeId) -> Option<&Node> {
        self.0.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.0.get_mut(&id)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Node> {
        self.0.values()
    }

    pub(crate) fn alive(&self) -> impl Iterator<Item = &Node> {
        self.0.values().filter(|node| node.alive)
    }

    pub(crate) fn is_alive(&self, id: NodeId) -> bool {
        self.get(id).is_some_and(|node| node.alive)
    }

    /// The node that Metadata names as the controller.
    pub(crate) fn controller(&self) -> Option<NodeId> {
        self.alive().next().map(|node| node.id)
    }
}
