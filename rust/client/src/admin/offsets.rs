//! Offsets of logs: listing them (ListOffsets) and deleting records before an offset (DeleteRecords).

use std::collections::BTreeMap;
use std::time::Duration;

use monedula_engine::TopicPartition;
use monedula_protocol::api::Request;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::delete_records::{DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic};
use monedula_protocol::messages::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};

use super::call::{AdminCall, Answers, CallResult, ItemCall, Items, Recipient, Refusal, Subject, read};
use super::{Admin, AdminContext};
use crate::error::ClientError;
use crate::net::network::NodeId;
use crate::offsets::{EARLIEST, LATEST, MAX_TIMESTAMP, MAX_TIMESTAMP_SINCE};

/// Offset of a partition to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OffsetSpec {
    /// The log start offset.
    Earliest,
    /// The high watermark; under read_committed, the last stable offset.
    Latest,
    /// The offset of the record with the highest timestamp.
    MaxTimestamp,
    /// The offset of the first record with at least this timestamp, in milliseconds since the epoch.
    Timestamp(i64),
}

impl OffsetSpec {
    fn number(self) -> i64 {
        match self {
            Self::Earliest => EARLIEST,
            Self::Latest => LATEST,
            Self::MaxTimestamp => MAX_TIMESTAMP,
            Self::Timestamp(timestamp_ms) => timestamp_ms,
        }
    }
}

/// An offset found in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedOffset {
    /// The offset; `None` if there is no such record.
    pub offset: Option<i64>,
    /// The timestamp of the record in milliseconds, if it was searched by timestamp.
    pub timestamp: Option<i64>,
    /// The leader epoch of the record, if the broker reports it.
    pub leader_epoch: Option<i32>,
}

impl Admin {
    /// Lists offsets of partitions. `read_committed` concerns [`OffsetSpec::Latest`].
    pub fn list_offsets(
        &self,
        specs: Vec<(TopicPartition, OffsetSpec)>,
        read_committed: bool,
        timeout: Duration,
    ) -> AdminCall<Items<TopicPartition, ListedOffset>> {
        self.until_closed(move |context| async move { context.list_offsets(specs, read_committed, timeout).await })
    }

    /// All partitions of these topics.
    pub fn partitions_of(&self, topics: Vec<String>, timeout: Duration) -> AdminCall<Vec<TopicPartition>> {
        self.until_closed(move |context| async move { context.base.offsets.partitions_of(topics, timeout).await })
    }

    /// Deletes the records before an offset (-1: before the high watermark). Returns the new log start offsets.
    pub fn delete_records(
        &self,
        before: Vec<(TopicPartition, i64)>,
        timeout: Duration,
    ) -> AdminCall<Items<TopicPartition, i64>> {
        let partitions: Vec<TopicPartition> = before.iter().map(|(partition, _)| partition.clone()).collect();
        self.run(DeleteRecords { before: before.into_iter().collect() }, partitions, timeout)
    }
}

impl AdminContext {
    pub(super) async fn list_offsets(
        &self,
        specs: Vec<(TopicPartition, OffsetSpec)>,
        read_committed: bool,
        timeout: Duration,
    ) -> Result<Items<TopicPartition, ListedOffset>, ClientError> {
        let partitions: Vec<TopicPartition> = specs.iter().map(|(partition, _)| partition.clone()).collect();
        self.run(ListOffsets { specs: specs.into_iter().collect(), read_committed }, partitions, timeout).await
    }
}

struct ListOffsets {
    specs: BTreeMap<TopicPartition, OffsetSpec>,
    read_committed: bool,
}

impl ListOffsets {
    fn topics<'p>(&self, partitions: &'p [TopicPartition]) -> Vec<ListOffsetsTopic<'p>> {
        let mut topics: BTreeMap<&str, Vec<ListOffsetsPartition<'_>>> = BTreeMap::new();
        for partition in partitions {
            topics.entry(&partition.topic).or_default().push(ListOffsetsPartition {
                partition_index: partition.partition,
                timestamp: self.specs.get(partition).map_or(LATEST, |spec| spec.number()),
                ..Default::default()
            });
        }
        topics
            .into_iter()
            .map(|(name, partitions)| ListOffsetsTopic { name, partitions, ..Default::default() })
            .collect()
    }
}

impl ItemCall for ListOffsets {
    type Key = TopicPartition;
    type Value = ListedOffset;

    fn what(&self, partition: &TopicPartition) -> String {
        format!("listing an offset of {partition}")
    }

    fn subject(&self, partition: &TopicPartition) -> Subject {
        Subject::partition(partition)
    }

    fn recipient(&self, partition: &TopicPartition) -> Recipient {
        Recipient::Leader(partition.clone())
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, partitions: &[TopicPartition]) -> CallResult<Self> {
        let build = |version| ListOffsetsRequest {
            replica_id: -1,
            isolation_level: if version >= 2 { i8::from(self.read_committed) } else { 0 },
            topics: self.topics(partitions),
            timeout_ms: context.broker_time_ms(),
            ..Default::default()
        };
        let by_max = partitions.iter().any(|partition| self.specs.get(partition) == Some(&OffsetSpec::MaxTimestamp));
        let lowest = match (by_max, self.read_committed) {
            (true, _) => MAX_TIMESTAMP_SINCE,
            (false, true) => 2,
            (false, false) => *ListOffsetsRequest::VERSIONS.start(),
        };
        let (frame, version) = context.call(node, lowest..=*ListOffsetsRequest::VERSIONS.end(), build).await?;
        let response = read::<ListOffsetsRequest<'_>>(&frame, version)?;
        let mut answers = Answers::new();
        for topic in &response.topics {
            for answer in &topic.partitions {
                let listed = ListedOffset {
                    offset: Some(answer.offset).filter(|&offset| offset >= 0),
                    timestamp: Some(answer.timestamp).filter(|&timestamp| timestamp >= 0),
                    leader_epoch: Some(answer.leader_epoch).filter(|&epoch| epoch >= 0),
                };
                let partition = TopicPartition::new(topic.name, answer.partition_index);
                answers.push((partition, Refusal::check(answer.error_code, None).map(|()| listed)));
            }
        }
        Ok(answers)
    }
}

struct DeleteRecords {
    before: BTreeMap<TopicPartition, i64>,
}

impl ItemCall for DeleteRecords {
    type Key = TopicPartition;
    type Value = i64;

    fn what(&self, partition: &TopicPartition) -> String {
        match self.before.get(partition) {
            Some(offset) if *offset >= 0 => format!("deleting the records of {partition} before offset {offset}"),
            _ => format!("deleting the records of {partition}"),
        }
    }

    fn subject(&self, partition: &TopicPartition) -> Subject {
        Subject::partition(partition)
    }

    fn recipient(&self, partition: &TopicPartition) -> Recipient {
        Recipient::Leader(partition.clone())
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, partitions: &[TopicPartition]) -> CallResult<Self> {
        let mut topics: BTreeMap<&str, Vec<DeleteRecordsPartition<'_>>> = BTreeMap::new();
        for partition in partitions {
            topics.entry(&partition.topic).or_default().push(DeleteRecordsPartition {
                partition_index: partition.partition,
                offset: self.before.get(partition).copied().unwrap_or(0),
                ..Default::default()
            });
        }
        let topic = |(name, partitions)| DeleteRecordsTopic { name, partitions, ..Default::default() };
        let topics: Vec<DeleteRecordsTopic<'_>> = topics.into_iter().map(topic).collect();
        let timeout_ms = context.broker_time_ms();
        let build = |_| DeleteRecordsRequest { topics, timeout_ms, ..Default::default() };
        let (frame, version) = context.call(node, DeleteRecordsRequest::VERSIONS, build).await?;
        let response = read::<DeleteRecordsRequest<'_>>(&frame, version)?;
        let answers = response.topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(|answer| {
                let partition = TopicPartition::new(topic.name, answer.partition_index);
                (partition, Refusal::check(answer.error_code, None).map(|()| answer.low_watermark))
            })
        });
        Ok(answers.collect())
    }

    fn settle(&self, mut refusal: Refusal, _: bool) -> Result<i64, Refusal> {
        match refusal.code {
            ErrorCode::OffsetOutOfRange => {
                refusal.detail = Some("the log ends before that offset, or begins after it".into());
            }
            ErrorCode::PolicyViolation => {
                refusal.detail = Some("records of a topic can be deleted only if cleanup.policy has delete".into());
            }
            _ => {}
        }
        Err(refusal)
    }
}
