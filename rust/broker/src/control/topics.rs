//! The commands about topics, and the topics that the settings name.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::BrokerError;
use crate::cluster::{NewTopic, TopicConfig, check_topic_name};
use crate::core::Core;
use crate::settings::TopicSpec;

/// The largest partition count. More than a test needs, and few enough to be created in one step.
const MAX_PARTITIONS: i32 = 100_000;

impl Core {
    /// Creates the topics that the settings name, except those that the data directory has already.
    pub(crate) fn create_missing_topics(&mut self, topics: &[TopicSpec]) -> Result<(), BrokerError> {
        for topic in topics {
            if self.topics.get(&topic.name).is_none() {
                self.create_topic_on_command(&topic.name, topic.partitions, None, BTreeMap::new())?;
            }
        }
        Ok(())
    }

    pub(super) fn create_topic_on_command(
        &mut self,
        name: &str,
        partitions: Option<i32>,
        replicas: Option<i16>,
        config: BTreeMap<String, String>,
    ) -> Result<Value, BrokerError> {
        check_topic_name(name).map_err(BrokerError::Command)?;
        if self.topics.get(name).is_some() {
            return Err(BrokerError::Command(format!("topic {name} exists already")));
        }
        let partitions = partitions.unwrap_or(self.settings.kafka.num_partitions);
        if !(1..=MAX_PARTITIONS).contains(&partitions) {
            let problem = format!("topic {name}: {partitions} partitions, but it takes 1 to {MAX_PARTITIONS}");
            return Err(BrokerError::Command(problem));
        }
        let alive = self.nodes.alive().count();
        let replicas = replicas.unwrap_or(self.settings.kafka.default_replication_factor);
        if !usize::try_from(replicas).is_ok_and(|replicas| (1..=alive).contains(&replicas)) {
            let problem = format!("topic {name}: {replicas} replicas, but {alive} nodes are alive");
            return Err(BrokerError::Command(problem));
        }
        let values = config.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let config = TopicConfig::new(values).map_err(BrokerError::Command)?;
        let replicas = self.nodes.place_replicas(0, partitions, replicas);
        let id = self.create_topic(NewTopic { name: name.into(), config, replicas });
        Ok(json!({ "topic": name, "id": id.to_string(), "partitions": partitions }))
    }

    pub(super) fn add_partitions_on_command(&mut self, name: &str, partitions: i32) -> Result<Value, BrokerError> {
        let topic = self.topics.get(name).ok_or_else(|| no_topic(name))?;
        let first = topic.partitions.len() as i32;
        let replicas = topic.partitions.first().map_or(1, |partition| partition.replicas.len() as i16);
        if !(first + 1..=MAX_PARTITIONS).contains(&partitions) {
            let problem = format!("topic {name} has {first} partitions already, and takes up to {MAX_PARTITIONS}");
            return Err(BrokerError::Command(format!("{problem}; not {partitions}")));
        }
        let replicas = self.nodes.place_replicas(first, partitions - first, replicas);
        self.add_partitions(name, replicas);
        Ok(Value::Null)
    }
}

pub(super) fn no_topic(name: &str) -> BrokerError {
    BrokerError::Command(format!("there is no topic {name}"))
}
