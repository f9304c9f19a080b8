//! The topics, by name and by id, and their creation, deletion and placement.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use crate::cluster::{Coordinated, NodeId, Partition, TopicConfig};
use crate::core::Core;
use crate::log::Log;

/// The maximum length of a topic name.
const MAX_NAME_LENGTH: usize = 249;

/// Kafka's `offsets.topic.segment.bytes` and `transaction.state.log.segment.bytes`.
const INTERNAL_SEGMENT_BYTES: i32 = 104_857_600;

/// Kafka's `transaction.state.log.min.isr`, where there are as many replicas.
const TRANSACTION_MIN_ISR: usize = 2;

/// The maximum number of partitions that Kafka's controller creates for one request.
pub(crate) const MAX_PARTITIONS_PER_REQUEST: i64 = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Topics {
    by_name: BTreeMap<Arc<str>, Topic>,
    names: HashMap<Uuid, Arc<str>>,
    touched: Touched,
    changes: i64,
}

/// Topics that may have to be saved, and topics whose files must be removed.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    pub(crate) changed: BTreeSet<Arc<str>>,
    pub(crate) removed: Vec<Uuid>,
}

#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) name: Arc<str>,
    pub(crate) id: Uuid,
    pub(crate) internal: bool,
    pub(crate) config: TopicConfig,
    /// By index.
    pub(crate) partitions: Vec<Partition>,
}

impl Topic {
    /// # Errors
    /// UNKNOWN_TOPIC_OR_PARTITION.
    pub(super) fn partition_mut(&mut self, index: i32) -> Result<&mut Partition, ErrorCode> {
        let index = usize::try_from(index).map_err(|_| ErrorCode::UnknownTopicOrPartition)?;
        self.partitions.get_mut(index).ok_or(ErrorCode::UnknownTopicOrPartition)
    }
}

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
        let topic = self.by_name.get_mut(name)?;
        if !self.touched.changed.contains(name) {
            self.touched.changed.insert(Arc::clone(&topic.name));
        }
        Some(topic)
    }

    /// A topic to which batches are appended and which is not changed otherwise, so that it need not be saved.
    pub(crate) fn get_for_append(&mut self, name: &str) -> Option<&mut Topic> {
        self.by_name.get_mut(name)
    }

    /// All topics, for changes of their logs that need not be saved.
    pub(crate) fn all_for_append(&mut self) -> impl Iterator<Item = &mut Topic> {
        self.by_name.values_mut()
    }

    pub(crate) fn touch(&mut self, name: &Arc<str>) {
        self.touched.changed.insert(Arc::clone(name));
    }

    /// Has the files of a deleted topic removed again.
    pub(crate) fn touch_removed(&mut self, id: Uuid) {
        self.touched.removed.push(id);
    }

    /// Takes the topics that were touched since the last call.
    pub(crate) fn take_touched(&mut self) -> Touched {
        let touched = std::mem::take(&mut self.touched);
        self.changes += (touched.changed.len() + touched.removed.len()) as i64;
        touched
    }

    /// The number of times that topics were touched, plus 1: the simulated end offset of the metadata log in
    /// DescribeQuorum.
    pub(crate) fn changes(&self) -> i64 {
        self.changes + 1
    }

    pub(crate) fn name_of(&self, id: Uuid) -> Option<Arc<str>> {
        self.names.get(&id).cloned()
    }

    /// All topics, sorted by name.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Topic> {
        self.by_name.values()
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Topic> {
        self.touched.changed.extend(self.by_name.keys().cloned());
        self.by_name.values_mut()
    }

    pub(crate) fn partition(&self, name: &str, index: i32) -> Option<&Partition> {
        self.get(name)?.partitions.get(usize::try_from(index).ok()?)
    }

    pub(crate) fn partition_mut(&mut self, name: &str, index: i32) -> Option<&mut Partition> {
        self.get_mut(name)?.partitions.get_mut(usize::try_from(index).ok()?)
    }

    /// The leader of a partition and its epoch, for a client that asked another node (KIP-951).
    pub(crate) fn leader_hint(&self, topic: &str, index: i32) -> Option<(i32, i32)> {
        let partition = self.partition(topic, index)?;
        Some((partition.leader.map_or(-1, |node| node.0), partition.leader_epoch))
    }

    pub(crate) fn insert(&mut self, topic: Topic) {
        self.touch(&topic.name);
        self.names.insert(topic.id, Arc::clone(&topic.name));
        self.by_name.insert(Arc::clone(&topic.name), topic);
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<Topic> {
        let topic = self.by_name.remove(name)?;
        self.touched.removed.push(topic.id);
        self.names.remove(&topic.id);
        Some(topic)
    }
}

/// Checks a topic name by Kafka's rules.
///
/// # Errors
/// Kafka's message, for an INVALID_TOPIC_EXCEPTION.
pub(crate) fn check_topic_name(name: &str) -> Result<(), String> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if name.is_empty() {
        return Err("Topic name is invalid: the empty string is not allowed".to_owned());
    }
    if name == "." || name == ".." {
        return Err(format!("Topic name is invalid: '{name}' is not allowed"));
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
    /// Creates a topic whose name and replicas have been checked.
    pub(crate) fn create_topic(&mut self, new: NewTopic) -> Uuid {
        let id = self.draw.uuid();
        let internal = Coordinated::of_topic(&new.name);
        let partitions = (0..).zip(new.replicas).map(|(index, replicas)| self.new_partition(index, replicas)).collect();
        self.topics.insert(Topic { name: new.name, id, internal: internal.is_some(), config: new.config, partitions });
        self.metadata_changed();
        if let Some(kind) = internal {
            self.coordinators_made(kind);
        }
        id
    }

    fn new_partition(&self, index: i32, replicas: Vec<NodeId>) -> Partition {
        let isr: Vec<_> = replicas.iter().copied().filter(|&node| self.nodes.is_alive(node)).collect();
        Partition {
            index,
            leader: isr.first().copied(),
            leader_epoch: 0,
            replicas,
            isr,
            adding: Vec::new(),
            removing: Vec::new(),
            log: Log::default(),
        }
    }

    /// Adds partitions to a topic. Their replicas have been checked.
    pub(crate) fn add_partitions(&mut self, name: &str, replicas: Vec<Vec<NodeId>>) {
        let Some(first) = self.topics.get(name).map(|topic| topic.partitions.len() as i32) else {
            return;
        };
        let added: Vec<Partition> =
            (first..).zip(replicas).map(|(index, replicas)| self.new_partition(index, replicas)).collect();
        if let Some(topic) = self.topics.get_mut(name) {
            topic.partitions.extend(added);
        }
        self.metadata_changed();
    }

    /// Replaces the configs of a topic, with immediate effect.
    pub(crate) fn set_topic_config(&mut self, name: &str, config: TopicConfig) {
        self.housekeeping.look_for_dirt();
        if let Some(topic) = self.topics.get_mut(name) {
            topic.config = config;
        }
    }

    /// Creates the internal topic of groups or transactions, if it does not exist yet. Returns whether it did not.
    pub(crate) fn ensure_internal_topic(&mut self, kind: Coordinated) -> bool {
        if self.topics.get(kind.topic()).is_some() {
            return false;
        }
        let partitions = match kind {
            Coordinated::Groups => self.settings.kafka.offsets_topic_num_partitions,
            Coordinated::Transactions => self.settings.kafka.transaction_state_log_num_partitions,
        };
        let replicas = self.nodes.place_replicas(0, partitions, 3);
        let config = self.internal_config(kind, replicas.first().map_or(1, Vec::len));
        self.create_topic(NewTopic { name: kind.topic().into(), config, replicas });
        true
    }

    /// The configs that Kafka sets for an internal topic. As elsewhere, segments are no larger than the setting.
    fn internal_config(&self, kind: Coordinated, replicas: usize) -> TopicConfig {
        let segment_bytes = INTERNAL_SEGMENT_BYTES.min(self.settings.kafka.log_segment_bytes).to_string();
        let min_insync_replicas = TRANSACTION_MIN_ISR.min(replicas).to_string();
        let mut values = vec![("cleanup.policy", "compact"), ("segment.bytes", segment_bytes.as_str())];
        match kind {
            Coordinated::Groups => values.push(("compression.type", "producer")),
            Coordinated::Transactions => values.extend([
                ("compression.type", "uncompressed"),
                ("min.insync.replicas", min_insync_replicas.as_str()),
                ("unclean.leader.election.enable", "false"),
            ]),
        }
        TopicConfig::new(values).unwrap_or_default()
    }

    /// Makes `leader` the leader of a partition in a new epoch.
    pub(crate) fn set_leader(&mut self, topic: &str, partition: i32, leader: Option<NodeId>) -> Result<(), ErrorCode> {
        let found = self.topics.partition_mut(topic, partition).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        found.leader = leader;
        found.leader_epoch += 1;
        self.leader_changed(topic, partition);
        Ok(())
    }

    /// Handles an internal topic that was created or found in the data directory: the leaders of its partitions become
    /// coordinators.
    pub(crate) fn coordinators_made(&mut self, kind: Coordinated) {
        let partitions = self.topics.get(kind.topic()).map_or(0, |topic| topic.partitions.len());
        for partition in 0..partitions {
            self.leader_changed(kind.topic(), partition as i32);
        }
    }
}
