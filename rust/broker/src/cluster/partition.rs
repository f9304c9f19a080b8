//! One partition: its replicas, as far as a client can see them, and its one log.

use monedula_protocol::error_code::ErrorCode;

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
    /// Those of the replicas that a move adds, and those that are to go when it ends.
    pub(crate) adding: Vec<NodeId>,
    pub(crate) removing: Vec<NodeId>,
    pub(crate) log: Log,
}

impl Partition {
    /// Whether enough replicas are in sync; more than there are cannot be asked for.
    pub(crate) fn has_min_isr(&self, min_insync_replicas: i32) -> bool {
        self.isr.len() as i64 >= i64::from(min_insync_replicas).min(self.replicas.len() as i64)
    }

    /// Commits what was appended: the replicas in sync have it at once. While they are too few nothing is committed
    /// (KIP-966), as nobody knows whether it would survive.
    pub(crate) fn advance_high_watermark(&mut self, min_insync_replicas: i32) {
        if self.leader.is_some() && self.has_min_isr(min_insync_replicas) {
            self.log.commit_to_end();
        }
    }

    /// Whether the client's leader epoch is this one (KIP-320); a negative one is not checked.
    ///
    /// # Errors
    /// FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH.
    pub(crate) fn check_epoch(&self, current_leader_epoch: i32) -> Result<(), ErrorCode> {
        match current_leader_epoch {
            epoch if epoch < 0 => Ok(()),
            epoch if epoch < self.leader_epoch => Err(ErrorCode::FencedLeaderEpoch),
            epoch if epoch > self.leader_epoch => Err(ErrorCode::UnknownLeaderEpoch),
            _ => Ok(()),
        }
    }
}
