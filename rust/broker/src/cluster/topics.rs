//! The topics, by name and by id.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use crate::cluster::{Coordinated, NodeId, Partition, TopicConfig};
use crate::core::Core;
use crate::log::Log;

/// Kafka's limit for the name of a topic.
const MAX_NAME_LENGTH: usize = 249;

/// All topics.
#[derive(Debug, Default)]
pub(crate) struct Topics {
    by_name: BTreeMap<Arc<str>, Topic>,
    names: HashMap<Uuid, Arc<str>>,
}

/// A topic.
#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) name: Arc<str>,
    pub(crate) id: Uuid,
    /// Whether it is one of the broker's own.
    pub(crate) internal: bool,
    pub(crate) config: TopicConfig,
    /// By index.
    pub(crate) partitions: Vec<Partition>,
}

/// A topic to be made.
#[derive(Clone, Debug)]
pub(crate) struct NewTopic {
    pub(crate) name: Arc<str>,
    pub(crate) config: TopicConfig,
    /// The replicas of each partition, the preferred leader first.
    pub(crate) replicas: Vec<Vec<NodeId>>,
}

impl Topics {
    pub(crate) fn get(&self, name: &str) -> Option<&Topic> {
        self.by_name.get(name)
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut Topic> {
        self.by_name.get_mut(name)
    }

    /// The name that belongs to an id.
    pub(crate) fn name_of(&self, id: Uuid) -> Option<Arc<str>> {
        self.names.get(&id).cloned()
    }

    /// By name.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Topic> {
        self.by_name.values()
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Topic> {
        self.by_name.values_mut()
    }

    pub(crate) fn partition(&self, name: &str, index: i32) -> Option<&Partition> {
        self.get(name)?.partitions.get(usize::try_from(index).ok()?)
    }

    pub(crate) fn partition_mut(&mut self, name: &str, index: i32) -> Option<&mut Partition> {
        self.get_mut(name)?.partitions.get_mut(usize::try_from(index).ok()?)
    }

    pub(crate) fn insert(&mut self, topic: Topic) {
        self.names.insert(topic.id, Arc::clone(&topic.name));
        self.by_name.insert(Arc::clone(&topic.name), topic);
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<Topic> {
        let topic = self.by_name.remove(name)?;
        self.names.remove(&topic.id);
        Some(topic)
    }
}

/// Kafka's rule for names.
///
/// # Errors
/// What is wrong, in the words that an INVALID_TOPIC_EXCEPTION carries.
pub(crate) fn check_topic_name(name: &str) -> Result<(), String> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if name.is_empty() {
        return Err("Topic name is invalid: the empty string is not allowed".to_owned());
    }
    if name == "." || name == ".." {
        return Err("Topic name is invalid: '.' or '..' is not allowed".to_owned());
    }
    if name.len() > MAX_NAME_LENGTH {
        return Err(format!("Topic name is invalid: the length of '{name}' is longer than the max allowed length 249"));
    }
    if !name.bytes().all(legal) {
        return Err(format!(
            "Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        ));
    }
    Ok(())
}

impl Core {
    /// Makes a topic, whose name and replicas have been checked.
    pub(crate) fn create_topic(&mut self, new: NewTopic) -> Uuid {
        let id = self.draw.uuid();
        let internal = Coordinated::of_topic(&new.name).is_some();
        let partition = |(index, replicas): (usize, Vec<NodeId>)| {
            let isr: Vec<_> = replicas.iter().copied().filter(|&node| self.nodes.is_alive(node)).collect();
            Partition {
                index: index as i32,
                leader: isr.first().copied(),
                leader_epoch: 0,
                replicas,
                isr,
                log: Log::default(),
            }
        };
        let partitions = new.replicas.into_iter().enumerate().map(partition).collect();
        self.topics.insert(Topic { name: new.name, id, internal, config: new.config, partitions });
        self.metadata_changed();
        id
    }

    /// Replicas for new partitions, spread over the nodes: partition `first` starts at a node of its own, as later ones do.
    pub(crate) fn place_replicas(&self, first: i32, partitions: i32, replicas: i16) -> Vec<Vec<NodeId>> {
        let nodes: Vec<NodeId> = self.nodes.alive().map(|node| node.id).collect();
        let count = (replicas.max(1) as usize).min(nodes.len());
        let place = |index: i32| (0..count).map(|step| nodes[(index as usize + step) % nodes.len()]).collect();
        (first..first + partitions).map(place).collect()
    }

    /// Makes the internal topic of groups or transactions, if it is not there yet.
    pub(crate) fn ensure_internal_topic(&mut self, kind: Coordinated) {
        if self.topics.get(kind.topic()).is_some() {
            return;
        }
        let partitions = match kind {
            Coordinated::Groups => self.settings.kafka.offsets_topic_num_partitions,
            Coordinated::Transactions => self.settings.kafka.transaction_state_log_num_partitions,
        };
        let config = TopicConfig::new([("cleanup.policy", "compact")]).unwrap_or_default();
        let replicas = self.place_replicas(0, partitions, 3);
        self.create_topic(NewTopic { name: kind.topic().into(), config, replicas });
    }

    /// The partition that `node` is asked for as its leader.
    ///
    /// # Errors
    /// UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, and the two of a wrong leader epoch (KIP-320).
    pub(crate) fn led_partition(
        &mut self,
        node: NodeId,
        topic: &str,
        partition: i32,
        current_leader_epoch: i32,
    ) -> Result<&mut Partition, ErrorCode> {
        let found = self.topics.partition_mut(topic, partition).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        if !found.replicas.contains(&node) {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        found.check_epoch(current_leader_epoch)?;
        if found.leader != Some(node) {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        Ok(found)
    }

    /// To be called after topics or partitions came or went: consumer groups look whether their subscriptions changed.
    pub(crate) fn metadata_changed(&mut self) {
        self.topics_changed();
    }

    /// Makes `leader` the leader of a partition in a new epoch.
    pub(crate) fn set_leader(&mut self, topic: &str, partition: i32, leader: Option<NodeId>) -> Result<(), ErrorCode> {
        let found = self.topics.partition_mut(topic, partition).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        found.leader = leader;
        found.leader_epoch += 1;
        self.leader_changed(topic, partition);
        Ok(())
    }

    /// To be called after a partition got another leader, or the same in a new epoch: what waits for it must hear of it.
    pub(crate) fn leader_changed(&mut self, topic: &str, partition: i32) {
        self.new_epoch(topic, partition);
        match Coordinated::of_topic(topic) {
            Some(Coordinated::Groups) => crate::groups::Groups::leader_changed(self, partition),
            Some(Coordinated::Transactions) => crate::transactions::Transactions::leader_changed(self, partition),
            None => {}
        }
    }
}
