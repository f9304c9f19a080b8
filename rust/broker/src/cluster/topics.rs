//! The topics, by name and by id.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use crate::cluster::{NodeId, Partition, TopicConfig};

/// The maximum length of a topic name.
const MAX_NAME_LENGTH: usize = 249;

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
    pub(crate) fn partition_mut(&mut self, index: i32) -> Result<&mut Partition, ErrorCode> {
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
