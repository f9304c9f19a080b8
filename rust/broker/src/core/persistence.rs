//! Saves topics and security to the data directory, and loads them from it.
//!
//! Code that changes a topic, a user or an ACL does not save it. [`Topics`](crate::cluster::Topics) records which topics were
//! touched; those that differ from their file are saved before the answer to the request that changed them is sent.

use std::sync::Arc;

use monedula_protocol::types::Uuid;

use super::Core;
use crate::BrokerError;
use crate::cluster::{Coordinated, NodeId, Partition, Topic, TopicConfig};
use crate::draw::Draw;
use crate::log::{DataDir, Log, LogState, StoredPartition, StoredTopic};
use crate::security::StoredSecurity;

/// The difference between the seeds of two starts: an odd number other than the increment of the generator.
const SEED_STEP: u64 = 0xd6e8_feb8_6659_fd93;

fn stored(topic: &Topic) -> StoredTopic {
    let ids = |nodes: &[NodeId]| nodes.iter().map(|node| node.0).collect();
    let partition = |partition: &Partition| {
        let LogState { start_offset, epochs } = partition.log.state();
        StoredPartition {
            leader: partition.leader.map(|leader| leader.0),
            leader_epoch: partition.leader_epoch,
            // After a restart all nodes are alive, so a reassignment that was in progress has ended.
            replicas: ids(&partition.target_replicas()),
            isr: ids(&partition.isr),
            log_start_offset: start_offset,
            epochs,
            has_segments: partition.log.is_in_files(),
        }
    };
    StoredTopic {
        name: topic.name.to_string(),
        config: topic.config.set_values().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        partitions: topic.partitions.iter().map(partition).collect(),
    }
}

impl Core {
    /// Opens the data directory, if there is one, and loads its content.
    pub(super) fn load(&mut self) -> Result<(), BrokerError> {
        let Some(path) = &self.settings.data_dir else { return Ok(()) };
        let mut data_dir = DataDir::open(path)?;
        for (id, topic) in data_dir.load()? {
            let topic = self.restored(&data_dir, id, topic)?;
            self.topics.insert(topic);
        }
        if let Some(stored) = data_dir.load_security(StoredSecurity::from_text)? {
            self.security.restore(&self.settings.security, stored);
        }
        // Each start has another seed, so that no id of an earlier start is drawn again.
        self.draw = Draw::new(self.settings.seed.wrapping_add((data_dir.starts() - 1).wrapping_mul(SEED_STEP)));
        self.data_dir = Some(data_dir);
        // The coordinators load their state from the internal topics.
        self.coordinators_made(Coordinated::Groups);
        self.coordinators_made(Coordinated::Transactions);
        self.coordinators_made(Coordinated::SharePartitions);
        Ok(())
    }

    fn restored(&self, data_dir: &DataDir, id: Uuid, stored: StoredTopic) -> Result<Topic, BrokerError> {
        let values = stored.config.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let config = TopicConfig::new(values).map_err(|problem| BrokerError::Setting {
            name: format!("a config of topic {} in the data directory", stored.name),
            problem,
        })?;
        let mut partitions = Vec::with_capacity(stored.partitions.len());
        for (index, partition) in stored.partitions.into_iter().enumerate() {
            partitions.push(self.restored_partition(data_dir, id, index as i32, partition)?);
        }
        let internal = Coordinated::of_topic(&stored.name).is_some();
        Ok(Topic { name: Arc::from(stored.name), id, internal, config, partitions })
    }

    /// Restores a partition with those of its replicas whose nodes still exist; if none does, a new replica is placed.
    /// All nodes are alive at the start.
    fn restored_partition(
        &self,
        data_dir: &DataDir,
        id: Uuid,
        index: i32,
        stored: StoredPartition,
    ) -> Result<Partition, BrokerError> {
        let alive = |nodes: &[i32]| -> Vec<NodeId> {
            nodes.iter().map(|&node| NodeId(node)).filter(|&node| self.nodes.is_alive(node)).collect()
        };
        let mut replicas = alive(&stored.replicas);
        if replicas.is_empty() {
            replicas = self.nodes.place_replicas(index, 1, 1).pop().unwrap_or_default();
        }
        let mut isr = alive(&stored.isr);
        isr.retain(|node| replicas.contains(node));
        if isr.is_empty() {
            isr.clone_from(&replicas);
        }
        let was = stored.leader.map(NodeId);
        let leader = was.filter(|leader| isr.contains(leader)).or_else(|| isr.first().copied());
        let leader_epoch = stored.leader_epoch + i32::from(leader != was);
        let state = LogState { start_offset: stored.log_start_offset, epochs: stored.epochs };
        let mut log = Log::open(data_dir.log_directory(id, index), &state, data_dir.open_files())?;
        log.begin_epoch(leader_epoch);
        Ok(Partition { index, leader, leader_epoch, replicas, isr, adding: Vec::new(), removing: Vec::new(), log })
    }

    /// Saves the topics that changed since the last call, removes deleted ones, and saves what changed of security.
    ///
    /// # Errors
    /// The first file that could not be written. All others are tried nevertheless, and what failed is tried again by
    /// the next call.
    pub(crate) fn save(&mut self) -> Result<(), BrokerError> {
        let touched = self.topics.take_touched();
        let Some(data_dir) = &mut self.data_dir else { return Ok(()) };
        let mut outcome = Ok(());
        for id in touched.removed {
            if let Err(error) = data_dir.remove(id) {
                self.topics.touch_removed(id);
                outcome = outcome.and(Err(error));
            }
        }
        for name in touched.changed {
            let Some(topic) = self.topics.get(&name) else { continue };
            if let Err(error) = data_dir.save(topic.id, stored(topic)) {
                self.topics.touch(&name);
                outcome = outcome.and(Err(error));
            }
        }
        if self.security.take_touched() {
            let text = self.security.snapshot(&self.settings.security).to_text().map_err(BrokerError::Command);
            let saved = text.and_then(|text| data_dir.save_security(&text)).inspect_err(|_| self.security.touch());
            outcome = outcome.and(saved);
        }
        outcome
    }
}
