//! Topics that nodes do not know yet, although they exist: with `first_use: kafka` a new topic reaches each node a
//! little later, as in Kafka, where each node follows the controller's log for itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::cluster::NodeId;

/// The topics that nodes do not know yet.
#[derive(Debug, Default)]
pub(crate) struct UnpropagatedTopics {
    /// Time, node and topic; the first to become known first.
    until: BTreeSet<(i64, NodeId, Arc<str>)>,
}

impl UnpropagatedTopics {
    pub(super) fn hide(&mut self, topic: &Arc<str>, node: NodeId, until_ms: i64) {
        self.until.insert((until_ms, node, Arc::clone(topic)));
    }

    pub(super) fn hides(&self, topic: &str, node: NodeId) -> bool {
        self.until.iter().any(|(_, unknowing, name)| *unknowing == node && **name == *topic)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.until.is_empty()
    }

    pub(super) fn next_due_ms(&self) -> Option<i64> {
        self.until.first().map(|(until_ms, ..)| *until_ms)
    }

    /// Makes known what is known by now. Returns whether there was anything.
    pub(super) fn reveal(&mut self, now_ms: i64) -> bool {
        let before = self.until.len();
        while self.until.first().is_some_and(|(until_ms, ..)| *until_ms <= now_ms) {
            self.until.pop_first();
        }
        self.until.len() < before
    }
}
