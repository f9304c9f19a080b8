//! What tests tell the broker: the same commands from Rust, from Python and over the control port.

mod topics;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::BrokerError;
use crate::cluster::NodeId;
use crate::core::Core;

/// A command. Its JSON is `{"command": "move_leader", "topic": "orders", "partition": 0, "node": 2}`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Makes a topic. Answers its id.
    CreateTopic {
        /// Its name.
        topic: String,
        /// How many partitions; the broker's `num.partitions` if it is not said.
        partitions: Option<i32>,
        /// How many replicas; `default.replication.factor` if it is not said.
        replicas: Option<i16>,
        /// Its own settings, by Kafka's names.
        #[serde(default)]
        config: BTreeMap<String, String>,
    },
    /// Makes a node the leader of a partition, in a new epoch. Coordinators are moved by moving the leaders of
    /// `__consumer_offsets` and `__transaction_state`.
    MoveLeader {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The new leader.
        node: NodeId,
    },
}

impl Core {
    /// Carries a command out.
    ///
    /// # Errors
    /// [`BrokerError::Command`] with what cannot be done and why.
    pub fn control(&mut self, now_ms: i64, command: Command) -> Result<Value, BrokerError> {
        self.tick(now_ms);
        let outcome = self.carry_out(command);
        self.wake_fetches();
        outcome
    }

    fn carry_out(&mut self, command: Command) -> Result<Value, BrokerError> {
        match command {
            Command::CreateTopic { topic, partitions, replicas, config } => {
                self.create_topic_on_command(&topic, partitions, replicas, config)
            }
            Command::MoveLeader { topic, partition, node } => {
                if !self.nodes.is_alive(node) {
                    return Err(BrokerError::Command(format!("node {node} is not alive")));
                }
                self.set_leader(&topic, partition, Some(node))
                    .map_err(|error| BrokerError::Command(format!("{topic}-{partition}: {error}")))?;
                Ok(Value::Null)
            }
        }
    }
}
