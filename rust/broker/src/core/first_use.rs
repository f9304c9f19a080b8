//! First use of topics that clients create, and of the coordinators of a new cluster.

use std::sync::Arc;

use super::Core;
use crate::cluster::{Coordinated, NodeId};
use crate::settings::FirstUse;

/// The longest time in milliseconds after which a node of Kafka's knows a topic that a client has created.
const TOPIC_MS: u64 = 17;
/// The times in milliseconds after which a cluster of Kafka's has its first coordinator.
const COORDINATOR_MS: (u64, u64) = (100, 1700);

impl Core {
    /// Must be called when a request of a client has created a topic: nodes may learn of it later.
    pub(crate) fn first_used(&mut self, topic: &str) {
        if self.settings.first_use != FirstUse::Kafka {
            return;
        }
        let nodes: Vec<NodeId> = self.nodes.all().map(|node| node.id).collect();
        let topic: Arc<str> = topic.into();
        let coordinators_ms = Coordinated::of_topic(&topic).map(|_| self.draw_between(COORDINATOR_MS));
        for node in nodes {
            let after_ms = coordinators_ms.unwrap_or_else(|| self.draw_between((0, TOPIC_MS)));
            if after_ms > 0 {
                self.faults.hide(&topic, node, self.now_ms.saturating_add(after_ms as i64));
            }
        }
    }

    fn draw_between(&mut self, (least, most): (u64, u64)) -> u64 {
        least + self.draw.next() % (most - least + 1)
    }
}
