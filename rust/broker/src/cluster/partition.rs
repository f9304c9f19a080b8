//! One partition: its replicas, as far as a client can see them, and its one log.

use crate::cluster::NodeId;
use crate::log::Log;

/// A partition. All replicas share one log: what clients can see of replication is who leads, who is in sync, and epochs.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) index: i32,
    /// `None` while no replica may lead.
    pub(crate) leader: Option<NodeId>,
    pub(crate) leader_epoch: i32,
    /// The first is the preferred leader.
    pub(crate) replicas: Vec<NodeId>,
    pub(crate) isr: Vec<NodeId>,
    pub(crate) log: Log,
}
