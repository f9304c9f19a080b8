//! The producers that partitions remember (DescribeProducers), and the end of a transaction in one partition without
//! its coordinator (WriteTxnMarkers): KIP-664.

use std::time::Duration;

use monedula_engine::TopicPartition;
use monedula_protocol::api::Request;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::describe_producers::{
    DescribeProducersRequest, ProducerState as DescribedProducer, TopicRequest,
};
use monedula_protocol::messages::write_txn_markers::{
    WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest,
};

use super::call::{AdminCall, CallResult, ItemCall, Items, Recipient, Refusal, Subject, by_topic, read};
use super::{Admin, AdminContext};
use crate::error::ClientError;
use crate::net::network::NodeId;

/// The state of a producer in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerState {
    /// The producer id.
    pub producer_id: i64,
    /// The producer epoch.
    pub producer_epoch: i32,
    /// The sequence number of its last record, if there is one.
    pub last_sequence: Option<i32>,
    /// The largest timestamp of its last batch, in milliseconds since 1970, if there is one.
    pub last_timestamp: Option<i64>,
    /// The epoch of the coordinator that wrote its last marker, if there is one.
    pub coordinator_epoch: Option<i32>,
    /// The first offset of its open transaction; `None` without one.
    pub transaction_start_offset: Option<i64>,
}

/// A transaction to abort in one partition, by the numbers of its producer there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionAbort {
    /// The partition.
    pub partition: TopicPartition,
    /// The producer id.
    pub producer_id: i64,
    /// The producer epoch; the partition refuses an older one.
    pub producer_epoch: i16,
    /// The coordinator epoch; the partition refuses an older one than that of the last marker.
    pub coordinator_epoch: i32,
}

impl Admin {
    /// Describes the producers that these partitions remember, as their leaders or a given replica know them.
    pub fn describe_producers(
        &self,
        partitions: Vec<TopicPartition>,
        broker: Option<i32>,
        timeout: Duration,
    ) -> AdminCall<Items<TopicPartition, Vec<ProducerState>>> {
        self.run(DescribeProducers { broker }, partitions, timeout)
    }

    /// Writes an abort marker for a producer's transaction to one partition. The coordinator does not hear of it: this
    /// is for transactions that the coordinator does not know.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED for an epoch that is too
    /// old, or CLUSTER_AUTHORIZATION_FAILED.
    pub fn abort_transaction(&self, abort: TransactionAbort, timeout: Duration) -> AdminCall<()> {
        let partition = abort.partition.clone();
        self.run_one(AbortTransaction { abort }, partition, timeout)
    }
}

impl AdminContext {
    pub(super) async fn describe_producers(
        &self,
        partitions: Vec<TopicPartition>,
        broker: Option<i32>,
        timeout: Duration,
    ) -> Result<Items<TopicPartition, Vec<ProducerState>>, ClientError> {
        self.run(DescribeProducers { broker }, partitions, timeout).await
    }
}

struct DescribeProducers {
    /// A replica to ask in place of the leaders.
    broker: Option<i32>,
}

impl ItemCall for DescribeProducers {
    type Key = TopicPartition;
    type Value = Vec<ProducerState>;

    fn what(&self, partition: &TopicPartition) -> String {
        match self.broker {
            Some(broker) => format!("describing the producers of {partition} on broker {broker}"),
            None => format!("describing the producers of {partition}"),
        }
    }

    fn subject(&self, partition: &TopicPartition) -> Subject {
        Subject::partition(partition)
    }

    fn recipient(&self, partition: &TopicPartition) -> Recipient {
        self.broker.map_or_else(|| Recipient::Leader(partition.clone()), Recipient::Broker)
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, partitions: &[TopicPartition]) -> CallResult<Self> {
        let topic = |(name, partition_indexes)| TopicRequest { name, partition_indexes, ..Default::default() };
        let topics = by_topic(partitions).into_iter().map(topic).collect();
        let build = |_| DescribeProducersRequest { topics, ..Default::default() };
        let (frame, version) = context.call(node, DescribeProducersRequest::VERSIONS, build).await?;
        let response = read::<DescribeProducersRequest<'_>>(&frame, version)?;
        let answers = response.topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(|answer| {
                let partition = TopicPartition::new(topic.name, answer.partition_index);
                let producers = || answer.active_producers.iter().map(state).collect();
                (partition, Refusal::check(answer.error_code, None).map(|()| producers()))
            })
        });
        Ok(answers.collect())
    }

    fn passes(&self, code: ErrorCode, after: Duration) -> bool {
        match code {
            // A broker that was named does not become a replica: asking it again does not change that.
            ErrorCode::NotLeaderOrFollower => self.broker.is_none(),
            ErrorCode::UnknownTopicOrPartition => after < crate::offsets::UNKNOWN_TO_SOME,
            code => code.is_retriable(),
        }
    }
}

fn state(described: &DescribedProducer<'_>) -> ProducerState {
    let known = |value: i64| Some(value).filter(|&value| value >= 0);
    ProducerState {
        producer_id: described.producer_id,
        producer_epoch: described.producer_epoch,
        last_sequence: Some(described.last_sequence).filter(|&sequence| sequence >= 0),
        last_timestamp: known(described.last_timestamp),
        coordinator_epoch: Some(described.coordinator_epoch).filter(|&epoch| epoch >= 0),
        transaction_start_offset: known(described.current_txn_start_offset),
    }
}

struct AbortTransaction {
    abort: TransactionAbort,
}

impl ItemCall for AbortTransaction {
    type Key = TopicPartition;
    type Value = ();

    fn what(&self, partition: &TopicPartition) -> String {
        let TransactionAbort { producer_id, producer_epoch, .. } = self.abort;
        format!("aborting the transaction of producer {producer_id}, epoch {producer_epoch}, in {partition}")
    }

    fn subject(&self, partition: &TopicPartition) -> Subject {
        Subject::partition(partition)
    }

    fn recipient(&self, partition: &TopicPartition) -> Recipient {
        Recipient::Leader(partition.clone())
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, partitions: &[TopicPartition]) -> CallResult<Self> {
        let topic =
            |(name, partition_indexes)| WritableTxnMarkerTopic { name, partition_indexes, ..Default::default() };
        let marker = WritableTxnMarker {
            producer_id: self.abort.producer_id,
            producer_epoch: self.abort.producer_epoch,
            transaction_result: false,
            topics: by_topic(partitions).into_iter().map(topic).collect(),
            coordinator_epoch: self.abort.coordinator_epoch,
            // As Kafka's own tool: with 2, a marker would need a higher epoch than the records have.
            transaction_version: 0,
            ..Default::default()
        };
        let build = |_| WriteTxnMarkersRequest { markers: vec![marker], ..Default::default() };
        let (frame, version) = context.call(node, WriteTxnMarkersRequest::VERSIONS, build).await?;
        let response = read::<WriteTxnMarkersRequest<'_>>(&frame, version)?;
        let topics = response.markers.iter().flat_map(|marker| &marker.topics);
        let answers = topics.flat_map(|topic| {
            topic.partitions.iter().map(|answer| {
                let partition = TopicPartition::new(topic.name, answer.partition_index);
                (partition, Refusal::check(answer.error_code, None))
            })
        });
        Ok(answers.collect())
    }

    fn settle(&self, mut refusal: Refusal, _: bool) -> Result<(), Refusal> {
        match refusal.code {
            ErrorCode::InvalidProducerEpoch => {
                refusal.detail = Some("the partition has seen a newer epoch of this producer".into());
            }
            ErrorCode::TransactionCoordinatorFenced => {
                let epoch = self.abort.coordinator_epoch;
                refusal.detail = Some(format!("the partition has a marker of a coordinator epoch above {epoch}"));
            }
            _ => {}
        }
        Err(refusal)
    }
}
