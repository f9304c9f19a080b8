//! What is used for the first time: topics that clients create, and the coordinators of a new cluster.

use std::str::FromStr;
use std::sync::Arc;

use crate::cluster::{Coordinated, NodeId};
use crate::core::Core;

/// The longest time in milliseconds after which a node of Kafka's knows a topic that a client has created.
const TOPIC_MS: u64 = 17;
/// The times in milliseconds after which a cluster of Kafka's has its first coordinator.
const COORDINATOR_MS: (u64, u64) = (100, 1700);

/// How a cluster answers to what is used for the first time.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum FirstUse {
    /// The request that creates a topic or the coordinators is told that they are not there yet, as in Kafka; the next
    /// one finds them.
    #[default]
    Once,
    /// They are there after the time that Kafka takes, which differs from node to node.
    Kafka,
}

impl FirstUse {
    /// The name of the option's value.
    pub fn name(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Kafka => "kafka",
        }
    }
}

impl FromStr for FirstUse {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Once, Self::Kafka];
        all.into_iter().find(|each| each.name() == text).ok_or_else(|| format!("{text:?} is neither once nor kafka"))
    }
}

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
