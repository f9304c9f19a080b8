//! What tests tell the broker: the same commands from Rust, from Python and over the control port.

mod cluster;
mod faults;
mod groups;
mod logs;
mod records;
mod topics;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::BrokerError;
use crate::cluster::NodeId;
use crate::core::Core;
use crate::faults::Fault;

pub use records::{Data, Record};

/// A command. Its JSON is `{"command": "move_leader", "topic": "orders", "partition": 0, "node": 2}`. Those without arguments are
/// structs all the same: only so are arguments that they do not take refused.
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
    /// Deletes a topic.
    DeleteTopic {
        /// Its name.
        topic: String,
    },
    /// Adds partitions to a topic.
    AddPartitions {
        /// Its name.
        topic: String,
        /// How many it is to have then.
        partitions: i32,
    },
    /// Appends records to a partition, as a producer would. Answers the first offset and the one after the last.
    Append {
        /// The topic.
        topic: String,
        /// The partition.
        #[serde(default)]
        partition: i32,
        /// The records.
        records: Vec<Record>,
        /// `gzip`, `snappy`, `lz4` or `zstd`.
        compression: Option<String>,
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
    /// Makes a node the coordinator of a group or a transactional id, with all others of its partition.
    MoveCoordinator {
        /// The group.
        group: Option<String>,
        /// The transactional id.
        transactional_id: Option<String>,
        /// The new coordinator.
        node: NodeId,
    },
    /// Stops a node: its port and its connections are closed, and what it led goes to others.
    StopNode {
        /// The node.
        node: NodeId,
    },
    /// Starts a stopped node again, on its old port.
    StartNode {
        /// The node.
        node: NodeId,
    },
    /// Puts a node into a rack, or in none.
    SetRack {
        /// The node.
        node: NodeId,
        /// The rack.
        rack: Option<String>,
    },
    /// Says which replicas of a partition are in sync.
    SetIsr {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The replicas.
        isr: Vec<NodeId>,
    },
    /// Keeps only the latest record of each key, at once. Tombstones stay for the topic's `delete.retention.ms`.
    Compact {
        /// The topic.
        topic: String,
        /// The partition; all of them if it is not said.
        partition: Option<i32>,
    },
    /// Drops at once what the topics' retention does not keep, instead of at the next check.
    RunRetention {},
    /// Makes a log end at an offset, and begins a new leader epoch: what an unclean election does.
    Truncate {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The offset of the next record.
        offset: i64,
    },
    /// Makes a log start at an offset, whatever the topic's `cleanup.policy`.
    DeleteRecords {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The first offset that stays; -1 for the high watermark.
        before: i64,
    },
    /// Moves a manual clock.
    Advance {
        /// By so many milliseconds.
        ms: i64,
    },
    /// Sets a fault. Answers its id.
    Fault {
        /// The fault.
        fault: Fault,
    },
    /// Answers the hits of a fault.
    FaultHits {
        /// Its id.
        fault: u64,
    },
    /// Waits until a fault has so many hits. Answers its hits, and whether there are as many.
    Wait {
        /// Its id.
        fault: u64,
        /// The hits.
        hits: u64,
        /// How long to wait.
        timeout_ms: u64,
    },
    /// Lets go what a fault holds.
    ReleaseFault {
        /// Its id.
        fault: u64,
    },
    /// Removes a fault and lets go what it holds. Answers its hits.
    RemoveFault {
        /// Its id.
        fault: u64,
    },
    /// Removes all faults.
    RemoveFaults {},
    /// Answers all faults that are set.
    Faults {},
    /// Answers who is connected.
    Connections {},
    /// Answers all groups.
    Groups {},
    /// Answers one group with its members and offsets.
    Group {
        /// The group.
        group: String,
    },
}

impl Core {
    /// Carries a command out.
    ///
    /// # Errors
    /// [`BrokerError::Command`] with what cannot be done and why.
    pub fn control(&mut self, now_ms: i64, command: Command) -> Result<Value, BrokerError> {
        self.tick(now_ms);
        let answer = self.carry_out(command);
        self.wake_fetches();
        self.save_topics()?;
        answer
    }

    fn carry_out(&mut self, command: Command) -> Result<Value, BrokerError> {
        match command {
            Command::CreateTopic { topic, partitions, replicas, config } => {
                self.create_topic_on_command(&topic, partitions, replicas, config)
            }
            Command::DeleteTopic { topic } => self.delete_topic_on_command(&topic),
            Command::AddPartitions { topic, partitions } => self.add_partitions_on_command(&topic, partitions),
            Command::Append { topic, partition, records, compression } => {
                self.append_on_command(&topic, partition, &records, compression.as_deref())
            }
            Command::MoveLeader { topic, partition, node } => self.move_leader(&topic, partition, node),
            Command::MoveCoordinator { group, transactional_id, node } => {
                self.move_coordinator(group.as_deref(), transactional_id.as_deref(), node)
            }
            Command::Compact { topic, partition } => self.compact_on_command(&topic, partition),
            Command::RunRetention {} => {
                self.run_retention();
                Ok(Value::Null)
            }
            Command::Truncate { topic, partition, offset } => self.truncate_on_command(&topic, partition, offset),
            Command::DeleteRecords { topic, partition, before } => {
                self.delete_records_on_command(&topic, partition, before)
            }
            Command::StopNode { node } => self.stop_node(node),
            Command::StartNode { node } => self.start_node(node),
            Command::SetRack { node, rack } => self.set_rack(node, rack),
            Command::SetIsr { topic, partition, isr } => self.set_isr_on_command(&topic, partition, &isr),
            Command::Advance { .. } | Command::Wait { .. } => {
                // These need what is around the core: its clock, and someone who waits.
                Err(BrokerError::Command("the core alone has neither a clock nor the time to wait".to_owned()))
            }
            Command::Fault { fault } => self.set_fault(fault),
            Command::FaultHits { fault } => self.describe_hits(fault),
            Command::ReleaseFault { fault } => self.release_fault(fault).map(|()| Value::Null),
            Command::RemoveFault { fault } => self.remove_fault_on_command(fault),
            Command::RemoveFaults {} => Ok(self.remove_faults()),
            Command::Faults {} => Ok(self.describe_faults()),
            Command::Connections {} => Ok(self.describe_connections()),
            Command::Groups {} => self.describe_groups(),
            Command::Group { group } => self.describe_group(&group),
        }
    }
}
