//! A partition: its replicas, as far as clients can see them, and its log.

use monedula_protocol::error_code::ErrorCode;

use crate::cluster::NodeId;
use crate::log::Log;

/// A partition. All replicas share one log. Of replication it has what clients can see: leader, in-sync replicas,
/// leader epoch.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) index: i32,
    /// `None` while no replica is eligible.
    pub(crate) leader: Option<NodeId>,
    pub(crate) leader_epoch: i32,
    /// The first is the preferred leader.
    pub(crate) replicas: Vec<NodeId>,
    pub(crate) isr: Vec<NodeId>,
    /// Replicas that a reassignment adds, and replicas that it removes at its end. `replicas` contains both.
    pub(crate) adding: Vec<NodeId>,
    pub(crate) removing: Vec<NodeId>,
    pub(crate) log: Log,
}

impl Partition {
    /// All replicas are enough, even if `min.insync.replicas` is larger.
    pub(crate) fn has_min_isr(&self, min_insync_replicas: i32) -> bool {
        self.isr.len() as i64 >= i64::from(min_insync_replicas).min(self.replicas.len() as i64)
    }

    /// Advances the high watermark to the log end offset: the in-sync replicas share the log. While there are fewer
    /// than min.insync.replicas, it stays (KIP-966), because records above it might not survive a failure.
    pub(crate) fn advance_high_watermark(&mut self, min_insync_replicas: i32) {
        if self.leader.is_some() && self.has_min_isr(min_insync_replicas) {
            self.log.commit_to_end();
        }
    }

    pub(crate) fn is_reassigned(&self) -> bool {
        !self.adding.is_empty() || !self.removing.is_empty()
    }

    /// The replicas without those that a reassignment removes.
    pub(crate) fn target_replicas(&self) -> Vec<NodeId> {
        self.replicas.iter().copied().filter(|node| !self.removing.contains(node)).collect()
    }

    /// Checks the client's leader epoch against this one (KIP-320). A negative epoch is not checked.
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
