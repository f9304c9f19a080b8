//! The topics, by name and by id.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use crate::api::ApiError;
use crate::cluster::{Coordinated, NodeId, Partition, TopicConfig};
use crate::core::Core;
use crate::log::Log;

/// Kafka's limit for the name of a topic.
const MAX_NAME_LENGTH: usize = 249;

/// What Kafka's controller creates in one go.
pub(crate) const MAX_PARTITIONS_PER_REQUEST: i64 = 10_000;

/// All topics.
#[derive(Debug, Default)]
pub(crate) struct Topics {
    by_name: BTreeMap<Arc<str>, Topic>,
    names: HashMap<Uuid, Arc<str>>,
    touched: Touched,
    changes: i64,
}

/// Topics that may have to be saved.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    pub(crate) changed: BTreeSet<Arc<str>>,
    pub(crate) removed: Vec<Uuid>,
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
        let topic = self.by_name.get_mut(name)?;
        if !self.touched.changed.contains(name) {
            self.touched.changed.insert(Arc::clone(&topic.name));
        }
        Some(topic)
    }

    /// A topic whose batches change and nothing else: there is nothing to save.
    pub(crate) fn get_for_append(&mut self, name: &str) -> Option<&mut Topic> {
        self.by_name.get_mut(name)
    }

    /// The same of all.
    pub(crate) fn all_for_append(&mut self) -> impl Iterator<Item = &mut Topic> {
        self.by_name.values_mut()
    }

    pub(crate) fn touch(&mut self, name: &Arc<str>) {
        self.touched.changed.insert(Arc::clone(name));
    }

    /// What was touched since this was asked last.
    pub(crate) fn take_touched(&mut self) -> Touched {
        let touched = std::mem::take(&mut self.touched);
        self.changes += (touched.changed.len() + touched.removed.len()) as i64;
        touched
    }

    /// How often topics were touched: what is told for the end of the log of the cluster's metadata.
    pub(crate) fn changes(&self) -> i64 {
        self.changes + 1
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
        self.touched.changed.extend(self.by_name.keys().cloned());
        self.by_name.values_mut()
    }

    pub(crate) fn partition(&self, name: &str, index: i32) -> Option<&Partition> {
        self.get(name)?.partitions.get(usize::try_from(index).ok()?)
    }

    pub(crate) fn partition_mut(&mut self, name: &str, index: i32) -> Option<&mut Partition> {
        self.get_mut(name)?.partitions.get_mut(usize::try_from(index).ok()?)
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
    /// Makes a topic, whose name and replicas have been checked.
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

    /// Adds partitions to a topic, whose replicas have been checked.
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

    /// Deletes a topic with all that belongs to it.
    pub(crate) fn delete_topic(&mut self, name: &str) -> Option<Topic> {
        let topic = self.topics.remove(name)?;
        for partition in 0..topic.partitions.len() as i32 {
            self.leader_changed(name, partition);
        }
        crate::groups::Groups::topic_deleted(self, name);
        self.metadata_changed();
        Some(topic)
    }

    /// Gives a topic other configs, which take effect at once.
    pub(crate) fn set_topic_config(&mut self, name: &str, config: TopicConfig) {
        self.housekeeping.look_for_dirt();
        if let Some(topic) = self.topics.get_mut(name) {
            topic.config = config;
        }
    }

    /// Replicas for new partitions.
    ///
    /// # Errors
    /// INVALID_REPLICATION_FACTOR with Kafka's words, if there are too few nodes.
    pub(crate) fn try_place_replicas(
        &self,
        first: i32,
        partitions: i32,
        replicas: i16,
    ) -> Result<Vec<Vec<NodeId>>, ApiError> {
        let registered = self.nodes.all().count();
        let problem = if self.nodes.alive().next().is_none() {
            "All brokers are currently fenced.".to_owned()
        } else if replicas as usize > registered {
            format!(
                "The target replication factor of {replicas} cannot be reached because only {registered} broker(s) \
                 are registered or some brokers have all their log directories cordoned."
            )
        } else {
            return Ok(self.place_replicas(first, partitions, replicas));
        };
        let message = format!("Unable to replicate the partition {replicas} time(s): {problem}");
        Err(ApiError::new(ErrorCode::InvalidReplicationFactor, message))
    }

    /// The nodes of a replica assignment that a client made.
    ///
    /// # Errors
    /// INVALID_REPLICA_ASSIGNMENT with Kafka's words.
    pub(crate) fn check_assignment(
        &self,
        partition: i32,
        assignment: &[i32],
        factor: Option<usize>,
    ) -> Result<Vec<NodeId>, ApiError> {
        let replicas = self.check_replicas(assignment)?;
        let invalid = |message: String| Err(ApiError::new(ErrorCode::InvalidReplicaAssignment, message));
        let start = "The manual partition assignment includes";
        if let Some(factor) = factor.filter(|factor| *factor != replicas.len()) {
            let count = replicas.len();
            return invalid(format!(
                "{start} a partition with {count} replica(s), but this is not consistent with previous partitions, \
                 which have {factor} replica(s)."
            ));
        }
        if !replicas.iter().any(|node| self.nodes.is_alive(*node)) {
            return invalid(format!(
                "All brokers specified in the manual partition assignment for partition {partition} are fenced or in \
                 controlled shutdown."
            ));
        }
        Ok(replicas)
    }

    /// Nodes for a partition's replicas, as a client names them: each must be there, alive or not, and once.
    ///
    /// # Errors
    /// INVALID_REPLICA_ASSIGNMENT.
    pub(crate) fn check_replicas(&self, assignment: &[i32]) -> Result<Vec<NodeId>, ApiError> {
        let invalid = |message: String| Err(ApiError::new(ErrorCode::InvalidReplicaAssignment, message));
        let start = "The manual partition assignment includes";
        let replicas: Vec<NodeId> = assignment.iter().copied().map(NodeId).collect();
        if replicas.is_empty() {
            return invalid(format!("{start} an empty replica list."));
        }
        let mut sorted = replicas.clone();
        sorted.sort_unstable();
        for (index, node) in sorted.iter().enumerate() {
            if self.nodes.get(*node).is_none() {
                return invalid(format!("{start} broker {node}, but no such broker is registered."));
            }
            if index > 0 && sorted[index - 1] == *node {
                return invalid(format!("{start} the broker {node} more than once."));
            }
        }
        Ok(replicas)
    }

    /// Replicas for new partitions, spread over the nodes: partition `first` starts at a node of its own, as later ones do.
    pub(crate) fn place_replicas(&self, first: i32, partitions: i32, replicas: i16) -> Vec<Vec<NodeId>> {
        let alive: Vec<NodeId> = self.nodes.alive().map(|node| node.id).collect();
        // Nodes that are down come last: Kafka, too, puts replicas on them only where it has to.
        let down: Vec<NodeId> = self.nodes.all().filter(|node| !node.alive).map(|node| node.id).collect();
        let count = (replicas.max(1) as usize).min(alive.len() + down.len());
        let place = |index: i32| {
            let around = (0..alive.len()).map(|step| alive[(index as usize + step) % alive.len()]);
            around.chain(down.iter().copied()).take(count).collect()
        };
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

    /// To be called after topics or partitions came or went: consumer groups look whether their subscriptions changed.
    pub(crate) fn metadata_changed(&mut self) {
        self.topics_changed();
        self.groups.metadata_changed();
    }

    /// Makes `leader` the leader of a partition in a new epoch.
    pub(crate) fn set_leader(&mut self, topic: &str, partition: i32, leader: Option<NodeId>) -> Result<(), ErrorCode> {
        let found = self.topics.partition_mut(topic, partition).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        found.leader = leader;
        found.leader_epoch += 1;
        self.leader_changed(topic, partition);
        Ok(())
    }

    /// The internal topic is there, made anew or found in the data directory: its partitions' leaders coordinate.
    pub(crate) fn coordinators_made(&mut self, kind: Coordinated) {
        let partitions = self.topics.get(kind.topic()).map_or(0, |topic| topic.partitions.len());
        for partition in 0..partitions {
            self.leader_changed(kind.topic(), partition as i32);
        }
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
