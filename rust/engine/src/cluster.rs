//! Cluster metadata: brokers, topics, and the leader and leader epoch of each partition.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::metadata::{MetadataResponse, MetadataResponsePartition, MetadataResponseTopic};
use monedula_protocol::types::{ParseUuidError, Uuid};

use crate::{Now, TopicPartition};

/// A broker and the address on which it listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    /// Advertised host name or address.
    pub host: String,
    /// Advertised port.
    pub port: u16,
    /// Rack, for fetching from the closest replica (KIP-392).
    pub rack: Option<String>,
}

/// The leader of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Node id of the leader; `None` while there is none.
    pub leader: Option<i32>,
    /// Leader epoch; -1 from brokers that do not send it.
    pub leader_epoch: i32,
}

/// A topic as the latest metadata answers describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Topic id, [`Uuid::ZERO`] from brokers before topic ids (KIP-516).
    pub id: Uuid,
    /// Set for an internal topic, such as `__consumer_offsets`.
    pub is_internal: bool,
    /// The topic's error code in the latest metadata answer.
    pub error: ErrorCode,
    /// The answers in a row that said that the topic does not exist, if the latest did. Deletion and creation take a
    /// while to reach every broker, so that only answers over a longer time prove something.
    pub unknown: Option<Unknown>,
    /// Partitions by index. Kept when an answer has an error.
    pub partitions: BTreeMap<i32, Partition>,
    /// Node ids of each partition's replicas, for rack-aware assignors (KIP-881). Empty if not known.
    pub replicas: BTreeMap<i32, Arc<[i32]>>,
}

/// A run of answers that did not know a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The time of the first of them.
    pub since: Now,
    /// The time of the latest of them.
    pub until: Now,
}

/// A view of the cluster, merged from metadata answers and from the leaders that fetch answers name (KIP-951).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Cluster id, once known.
    pub cluster_id: Option<String>,
    /// Node id of the controller, if the last answer named one.
    pub controller_id: Option<i32>,
    /// Brokers by node id.
    pub brokers: BTreeMap<i32, Broker>,
    /// Topics by name.
    pub topics: BTreeMap<Arc<str>, Topic>,
}

impl Cluster {
    /// Merges a metadata answer that came `now`. Topics that it does not mention are kept.
    pub fn update(&mut self, response: &MetadataResponse<'_>, now: Now) {
        if let Some(cluster_id) = response.cluster_id {
            self.cluster_id = Some(cluster_id.to_owned());
        }
        self.controller_id = Some(response.controller_id).filter(|&controller_id| controller_id >= 0);
        // An answer without brokers comes from a broker that is still starting; the known ones must not be forgotten.
        if !response.brokers.is_empty() {
            self.brokers = response
                .brokers
                .iter()
                .filter_map(|broker| {
                    let port = u16::try_from(broker.port).ok()?;
                    let rack = broker.rack.map(str::to_owned);
                    Some((broker.node_id, Broker { host: broker.host.to_owned(), port, rack }))
                })
                .collect();
        }
        for answer in &response.topics {
            if let Some(name) = answer.name {
                self.update_topic(name, answer, now);
            }
        }
    }

    fn update_topic(&mut self, name: &str, answer: &MetadataResponseTopic<'_>, now: Now) {
        let error = ErrorCode::from_code(answer.error_code);
        let topic = self.topics.entry(name.into()).or_insert_with(|| Topic {
            id: answer.topic_id,
            is_internal: answer.is_internal,
            error,
            unknown: None,
            partitions: BTreeMap::new(),
            replicas: BTreeMap::new(),
        });
        (topic.error, topic.is_internal) = (error, answer.is_internal);
        if error == ErrorCode::UnknownTopicOrPartition {
            topic.unknown.get_or_insert(Unknown { since: now, until: now }).until = now;
            return;
        }
        topic.unknown = None;
        if error != ErrorCode::None && answer.partitions.is_empty() {
            return;
        }
        // Another id means that the topic was recreated: nothing known about the old one is valid. In a cluster that is
        // being upgraded, a broker without topic ids (KIP-516) sends none, which proves nothing.
        if topic.id != answer.topic_id && answer.topic_id != Uuid::ZERO {
            topic.id = answer.topic_id;
            topic.partitions.clear();
            topic.replicas.clear();
        }
        // A topic's partitions are numbered from 0 without gaps, so an index beyond their number is invalid. Code that
        // derives the number of partitions from the highest index would allocate for it.
        let count = answer.partitions.len();
        let is_index = |index: i32| usize::try_from(index).is_ok_and(|index| index < count);
        for partition in answer.partitions.iter().filter(|partition| is_index(partition.partition_index)) {
            topic.merge(partition);
        }
    }

    /// Adds a partition's leader; `topic_id` in Kafka's text form.
    ///
    /// # Errors
    /// If `topic_id` is malformed.
    pub fn add_leader(
        &mut self,
        partition: &TopicPartition,
        topic_id: &str,
        known: Partition,
    ) -> Result<(), ParseUuidError> {
        let id = topic_id.parse()?;
        let topic = self.topics.entry(partition.topic.clone()).or_insert_with(|| Topic {
            id,
            is_internal: false,
            error: ErrorCode::None,
            unknown: None,
            partitions: BTreeMap::new(),
            replicas: BTreeMap::new(),
        });
        topic.take(partition.partition, known);
        Ok(())
    }

    /// Merges another view of the cluster: unknown brokers, topics, and newer leaders. The addresses of known brokers,
    /// which came from metadata, stay. An error of a topic in the other view, such as that a broker does not know it
    /// yet, says nothing about a topic that is known.
    pub fn learn(&mut self, other: &Self) {
        for (&node_id, broker) in &other.brokers {
            self.brokers.entry(node_id).or_insert_with(|| broker.clone());
        }
        for (name, topic) in &other.topics {
            let known = self.topics.entry(name.clone()).or_insert_with(|| topic.clone());
            if topic.error != ErrorCode::None {
                continue;
            }
            if known.id != topic.id {
                *known = topic.clone();
            }
            (known.error, known.unknown) = (ErrorCode::None, None);
            for (&index, partition) in &topic.partitions {
                known.take(index, *partition);
            }
        }
    }

    /// Takes a leader that a fetch answer names with its error (KIP-951). Returns `false` if it is not newer than the
    /// known one.
    pub fn hint_leader(&mut self, partition: &TopicPartition, leader: i32, leader_epoch: i32) -> bool {
        let Some(topic) = self.topics.get_mut(&partition.topic) else { return false };
        let Some(known) = topic.partitions.get_mut(&partition.partition) else { return false };
        if leader < 0 || leader_epoch <= known.leader_epoch {
            return false;
        }
        *known = Partition { leader: Some(leader), leader_epoch };
        true
    }

    /// The partition's leader, if both topic and partition are known.
    pub fn partition(&self, partition: &TopicPartition) -> Option<Partition> {
        self.topics.get(&partition.topic)?.partitions.get(&partition.partition).copied()
    }
}

impl Topic {
    /// The time for which answers in a row have said that the topic does not exist. Zero if the latest did not, or was
    /// the first.
    pub fn unknown_for(&self) -> Duration {
        self.unknown.map_or(Duration::ZERO, |unknown| unknown.until.saturating_sub(unknown.since))
    }

    /// The name of the topic's error code, if it has an error.
    pub fn error_name(&self) -> Option<&'static str> {
        (self.error != ErrorCode::None).then(|| self.error.name())
    }

    fn merge(&mut self, answer: &MetadataResponsePartition) {
        let leader = (answer.leader_id >= 0).then_some(answer.leader_id);
        self.take(answer.partition_index, Partition { leader, leader_epoch: answer.leader_epoch });
        let known = self.replicas.get(&answer.partition_index);
        if known.is_none_or(|known| **known != *answer.replica_nodes) {
            self.replicas.insert(answer.partition_index, answer.replica_nodes.as_slice().into());
        }
    }

    fn take(&mut self, index: i32, fresh: Partition) {
        let known = self.partitions.entry(index).or_insert(fresh);
        // Brokers learn of a new leader at different times: an answer with a lower leader epoch is outdated.
        if fresh.leader_epoch < 0 || fresh.leader_epoch >= known.leader_epoch {
            *known = fresh;
        }
    }
}

#[cfg(test)]
mod tests {
    use monedula_protocol::messages::metadata::MetadataResponseBroker;

    use super::*;

    fn answer(id: u8, error: ErrorCode, partitions: &[(i32, i32, i32)]) -> MetadataResponse<'static> {
        let partitions = partitions
            .iter()
            .map(|&(partition_index, leader_id, leader_epoch)| MetadataResponsePartition {
                partition_index,
                leader_id,
                leader_epoch,
                ..Default::default()
            })
            .collect();
        let topic = MetadataResponseTopic {
            name: Some("t"),
            topic_id: Uuid([id; 16]),
            error_code: error.code(),
            partitions,
            ..Default::default()
        };
        let broker = MetadataResponseBroker { node_id: 1, host: "h", port: 9092, ..Default::default() };
        MetadataResponse { brokers: vec![broker], topics: vec![topic], ..Default::default() }
    }

    fn leader(cluster: &Cluster) -> Option<(Option<i32>, i32)> {
        cluster.partition(&TopicPartition::new("t", 0)).map(|known| (known.leader, known.leader_epoch))
    }

    #[test]
    fn an_older_leader_epoch_is_ignored() {
        let mut cluster = Cluster::default();
        cluster.update(&answer(1, ErrorCode::None, &[(0, 1, 5)]), Now::ZERO);
        cluster.update(&answer(1, ErrorCode::None, &[(0, 2, 4)]), Now::ZERO);
        assert_eq!(leader(&cluster), Some((Some(1), 5)));
        cluster.update(&answer(1, ErrorCode::None, &[(0, 2, 6)]), Now::ZERO);
        assert_eq!(leader(&cluster), Some((Some(2), 6)));
    }

    #[test]
    fn another_topic_id_starts_anew_whatever_its_epoch() {
        let mut cluster = Cluster::default();
        cluster.update(&answer(1, ErrorCode::None, &[(0, 1, 5), (1, 1, 5)]), Now::ZERO);
        cluster.update(&answer(2, ErrorCode::None, &[(0, 2, 0)]), Now::ZERO);
        assert_eq!(leader(&cluster), Some((Some(2), 0)));
        assert_eq!(cluster.topics["t"].partitions.len(), 1);
    }

    #[test]
    fn an_unknown_topic_keeps_its_partitions_and_is_unknown_since_the_first_answer() {
        let at = Duration::from_secs;
        let mut cluster = Cluster::default();
        cluster.update(&answer(1, ErrorCode::None, &[(0, 1, 5)]), at(1));
        cluster.update(&answer(0, ErrorCode::UnknownTopicOrPartition, &[]), at(5));
        assert_eq!(cluster.topics["t"].unknown_for(), Duration::ZERO);
        cluster.update(&answer(0, ErrorCode::UnknownTopicOrPartition, &[]), at(8));
        assert_eq!(cluster.topics["t"].unknown_for(), at(3));
        assert_eq!(leader(&cluster), Some((Some(1), 5)));
        cluster.update(&answer(1, ErrorCode::None, &[(0, 1, 5)]), at(9));
        assert_eq!(cluster.topics["t"].unknown, None);
    }

    #[test]
    fn an_index_beyond_the_number_of_partitions_is_no_partition() {
        let mut cluster = Cluster::default();
        cluster.update(&answer(1, ErrorCode::None, &[(0, 1, 5), (i32::MAX, 1, 5), (-1, 1, 5), (2, 1, 5)]), Now::ZERO);
        let known = |cluster: &Cluster| cluster.topics["t"].partitions.keys().copied().collect::<Vec<_>>();
        assert_eq!(known(&cluster), [0, 2]);
        cluster.update(&answer(1, ErrorCode::None, &[(2, 1, 5), (0, 1, 5), (1, 1, 5)]), Now::ZERO);
        assert_eq!(known(&cluster), [0, 1, 2], "in any order");
    }

    #[test]
    fn a_hint_is_taken_only_if_it_is_newer() {
        let mut cluster = Cluster::default();
        cluster.update(&answer(1, ErrorCode::None, &[(0, 1, 5)]), Now::ZERO);
        let partition = TopicPartition::new("t", 0);
        assert!(!cluster.hint_leader(&partition, 2, 5));
        assert!(cluster.hint_leader(&partition, 2, 6));
        assert_eq!(leader(&cluster), Some((Some(2), 6)));
    }

    #[test]
    fn what_others_learned_adds_and_renews_but_never_sets_back() {
        let mut told = Cluster::default();
        told.update(&answer(1, ErrorCode::None, &[(0, 2, 4), (1, 2, 4)]), Now::ZERO);
        told.brokers.insert(2, Broker { host: "two".into(), port: 2, rack: None });
        told.brokers.insert(1, Broker { host: "elsewhere".into(), port: 1, rack: None });
        let mut cluster = Cluster::default();
        cluster.update(&answer(1, ErrorCode::None, &[(0, 1, 5)]), Now::ZERO);
        cluster.learn(&told);
        assert_eq!(leader(&cluster), Some((Some(1), 5)));
        assert_eq!(cluster.topics["t"].partitions.len(), 2);
        assert_eq!((&*cluster.brokers[&1].host, &*cluster.brokers[&2].host), ("h", "two"));
    }

    #[test]
    fn what_others_learned_of_another_topic_of_that_name_replaces_it() {
        let (mut told, mut cluster) = (Cluster::default(), Cluster::default());
        told.update(&answer(2, ErrorCode::None, &[(0, 1, 0)]), Now::ZERO);
        cluster.update(&answer(1, ErrorCode::None, &[(0, 1, 5), (1, 1, 5)]), Now::ZERO);
        cluster.learn(&told);
        assert_eq!((cluster.topics["t"].id, cluster.topics["t"].partitions.len()), (Uuid([2; 16]), 1));
    }

    // The leader's lookup reached a broker that did not know a new topic, and its partitions were forgotten.
    #[test]
    fn who_does_not_know_a_topic_does_not_make_it_forgotten() {
        let (mut told, mut cluster) = (Cluster::default(), Cluster::default());
        told.update(&answer(0, ErrorCode::UnknownTopicOrPartition, &[]), Now::ZERO);
        cluster.update(&answer(1, ErrorCode::None, &[(0, 1, 5)]), Now::ZERO);
        let before = cluster.topics["t"].clone();
        cluster.learn(&told);
        assert_eq!(cluster.topics["t"], before);
        let mut cluster = Cluster::default();
        cluster.learn(&told);
        assert_eq!(cluster.topics["t"].error, ErrorCode::UnknownTopicOrPartition);
    }

    #[test]
    fn an_answer_without_brokers_orphans_nobody() {
        let mut cluster = Cluster::default();
        cluster.update(&answer(1, ErrorCode::None, &[(0, 1, 5)]), Now::ZERO);
        cluster.update(&MetadataResponse::default(), Now::ZERO);
        assert_eq!(cluster.brokers.len(), 1);
    }
}
