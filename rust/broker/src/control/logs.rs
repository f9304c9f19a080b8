//! The commands about logs: compaction, truncation, deletion of records.

use monedula_protocol::error_code::ErrorCode;
use serde_json::{Value, json};

use super::topics::no_topic;
use crate::BrokerError;
use crate::core::Core;

pub(super) fn refused(topic: &str, partition: i32) -> impl FnOnce(ErrorCode) -> BrokerError {
    move |error| BrokerError::Command(format!("{topic}-{partition}: {error}"))
}

impl Core {
    pub(super) fn compact_on_command(&mut self, topic: &str, partition: Option<i32>) -> Result<Value, BrokerError> {
        for partition in self.partitions_on_command(topic, partition)? {
            self.compact(topic, partition).map_err(refused(topic, partition))?;
        }
        Ok(Value::Null)
    }

    pub(super) fn truncate_on_command(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
    ) -> Result<Value, BrokerError> {
        self.truncate(topic, partition, offset).map_err(refused(topic, partition))?;
        let epoch = self.topics.partition(topic, partition).map(|partition| partition.leader_epoch);
        Ok(json!({ "leader_epoch": epoch }))
    }

    /// The partition that a command names, or all partitions of the topic.
    fn partitions_on_command(&self, topic: &str, partition: Option<i32>) -> Result<Vec<i32>, BrokerError> {
        let found = self.topics.get(topic).ok_or_else(|| no_topic(topic))?;
        Ok(match partition {
            Some(partition) => vec![partition],
            None => found.partitions.iter().map(|partition| partition.index).collect(),
        })
    }
}
