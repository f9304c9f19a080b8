//! The identity of a share partition.

use std::sync::Arc;

use monedula_protocol::types::Uuid;

/// A partition for a share group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ShareKey {
    pub(crate) group: Arc<str>,
    pub(crate) topic: Uuid,
    pub(crate) partition: i32,
}

impl ShareKey {
    /// The key by which Kafka chooses the partition of `__share_group_state`.
    pub(crate) fn coordinator_key(&self) -> String {
        format!("{}:{}:{}", self.group, self.topic, self.partition)
    }
}
