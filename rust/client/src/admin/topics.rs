//! Topics: creating, deleting, listing and describing them, and adding partitions.

use std::time::Duration;

use monedula_protocol::api::Request;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::create_partitions::{
    CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic,
};
use monedula_protocol::messages::create_topics::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreatableTopicResult, CreateTopicsRequest,
};
use monedula_protocol::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use monedula_protocol::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponsePartition, MetadataResponseTopic,
};
use monedula_protocol::types::Uuid;

use super::call::{AdminCall, CallResult, ItemCall, Items, Recipient, Refusal, Subject, read, refuse_all};
use super::{Admin, AdminContext};
use crate::net::network::NodeId;

/// A topic to create.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NewTopic {
    /// The name.
    pub name: String,
    /// The number of partitions; `None` for the broker's default, or if there are assignments.
    pub partitions: Option<i32>,
    /// The number of replicas of each partition; `None` likewise.
    pub replication_factor: Option<i16>,
    /// Node ids of the replicas of each partition, the preferred leader first; empty to let Kafka choose.
    pub assignments: Vec<(i32, Vec<i32>)>,
    /// Configs that override the broker's defaults.
    pub configs: Vec<(String, String)>,
}

/// The result of creating a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreatedTopic {
    /// The topic id in Kafka's text form.
    pub topic_id: Option<String>,
    /// The number of partitions.
    pub partitions: Option<i32>,
    /// The number of replicas of each partition.
    pub replication_factor: Option<i16>,
    /// The configs; `None` for a sensitive value.
    pub configs: Vec<(String, Option<String>)>,
}

/// New partitions for a topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NewPartitions {
    /// The name of the topic.
    pub topic: String,
    /// The total number of partitions afterwards, including the existing ones.
    pub total: i32,
    /// Node ids of the replicas of each new partition, the preferred leader first; `None` to let Kafka choose.
    pub assignments: Option<Vec<Vec<i32>>>,
}

/// The description of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicDescription {
    /// The topic id in Kafka's text form.
    pub topic_id: Option<String>,
    /// True if it is internal to Kafka, such as `__consumer_offsets`.
    pub internal: bool,
    /// The partitions, by number.
    pub partitions: Vec<PartitionDescription>,
}

/// The description of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionDescription {
    /// The number.
    pub partition: i32,
    /// The node id of the leader; `None` if there is none.
    pub leader: Option<i32>,
    /// The leader epoch, -1 if unknown.
    pub leader_epoch: i32,
    /// Node ids of the replicas, the preferred leader first.
    pub replicas: Vec<i32>,
    /// Node ids of the in-sync replicas.
    pub isr: Vec<i32>,
    /// Node ids of the offline replicas.
    pub offline: Vec<i32>,
}

impl Admin {
    /// Creates topics; `validate_only` creates none.
    pub fn create_topics(
        &self,
        topics: Vec<NewTopic>,
        validate_only: bool,
        timeout: Duration,
    ) -> AdminCall<Items<String, CreatedTopic>> {
        self.until_closed(move |context| async move {
            let created = context.run(CreateTopics { validate_only }, topics, timeout).await?;
            Ok(created.into_iter().map(|(topic, outcome)| (topic.name, outcome)).collect())
        })
    }

    /// Deletes topics.
    pub fn delete_topics(&self, topics: Vec<String>, timeout: Duration) -> AdminCall<Items<String, ()>> {
        self.run(DeleteTopics, topics, timeout)
    }

    /// Adds partitions to topics; `validate_only` adds none.
    pub fn create_partitions(
        &self,
        topics: Vec<NewPartitions>,
        validate_only: bool,
        timeout: Duration,
    ) -> AdminCall<Items<String, ()>> {
        self.until_closed(move |context| async move {
            let added = context.run(CreatePartitions { validate_only }, topics, timeout).await?;
            Ok(added.into_iter().map(|(topic, outcome)| (topic.topic, outcome)).collect())
        })
    }

    /// Lists all topics, including internal ones.
    pub fn list_topics(&self, timeout: Duration) -> AdminCall<Items<String, TopicDescription>> {
        self.run_one(ListTopics, (), timeout)
    }

    /// Describes these topics with their partitions.
    pub fn describe_topics(
        &self,
        topics: Vec<String>,
        timeout: Duration,
    ) -> AdminCall<Items<String, TopicDescription>> {
        self.run(DescribeTopics, topics, timeout)
    }
}

struct CreateTopics {
    validate_only: bool,
}

impl ItemCall for CreateTopics {
    type Key = NewTopic;
    type Value = CreatedTopic;
    const RECIPIENT: Recipient = Recipient::Controller;

    fn what(&self, topic: &NewTopic) -> String {
        format!("creating topic {}", topic.name)
    }

    fn subject(&self, topic: &NewTopic) -> Subject {
        Subject::topic(&topic.name)
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, topics: &[NewTopic]) -> CallResult<Self> {
        let build = |_| CreateTopicsRequest {
            topics: topics.iter().map(creatable).collect(),
            timeout_ms: context.broker_time_ms(),
            validate_only: self.validate_only,
            ..Default::default()
        };
        let broker_chooses = topics.iter().any(|topic| {
            topic.assignments.is_empty() && (topic.partitions.is_none() || topic.replication_factor.is_none())
        });
        // Before KIP-464 the client must give both numbers.
        let lowest = if broker_chooses { 4 } else { *CreateTopicsRequest::VERSIONS.start() };
        let versions = lowest..=*CreateTopicsRequest::VERSIONS.end();
        let (frame, version) = context.call(node, versions, build).await?;
        let response = read::<CreateTopicsRequest<'_>>(&frame, version)?;
        let find = |name| topics.iter().find(|topic| topic.name == name).cloned();
        let answers = response.topics.iter().filter_map(|answer| {
            let outcome = Refusal::check(answer.error_code, answer.error_message).map(|()| created(answer));
            Some((find(answer.name)?, outcome))
        });
        Ok(answers.collect())
    }

    fn settle(&self, mut refusal: Refusal, lost: bool) -> Result<CreatedTopic, Refusal> {
        if lost && refusal.code == ErrorCode::TopicAlreadyExists {
            let hint = "it exists; an earlier attempt of this call, whose answer was lost, may have created it";
            refusal.detail = Some(hint.into());
        }
        Err(refusal)
    }
}

fn creatable(topic: &NewTopic) -> CreatableTopic<'_> {
    let assignment = |(partition_index, broker_ids): &(i32, Vec<i32>)| CreatableReplicaAssignment {
        partition_index: *partition_index,
        broker_ids: broker_ids.clone(),
        ..Default::default()
    };
    CreatableTopic {
        name: &topic.name,
        num_partitions: topic.partitions.unwrap_or(-1),
        replication_factor: topic.replication_factor.unwrap_or(-1),
        assignments: topic.assignments.iter().map(assignment).collect(),
        configs: topic
            .configs
            .iter()
            .map(|(name, value)| CreatableTopicConfig { name, value: Some(value), ..Default::default() })
            .collect(),
        ..Default::default()
    }
}

fn created(answer: &CreatableTopicResult<'_>) -> CreatedTopic {
    let configs = answer.configs.iter().flatten();
    CreatedTopic {
        topic_id: id_text(answer.topic_id),
        partitions: Some(answer.num_partitions).filter(|&count| count >= 0),
        replication_factor: Some(answer.replication_factor).filter(|&count| count >= 0),
        configs: configs.map(|config| (config.name.to_owned(), config.value.map(str::to_owned))).collect(),
    }
}

struct DeleteTopics;

impl ItemCall for DeleteTopics {
    type Key = String;
    type Value = ();
    const RECIPIENT: Recipient = Recipient::Controller;

    fn what(&self, topic: &String) -> String {
        format!("deleting topic {topic}")
    }

    fn subject(&self, topic: &String) -> Subject {
        Subject::topic(topic)
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, topics: &[String]) -> CallResult<Self> {
        let state = |name| DeleteTopicState { name: Some(name), ..Default::default() };
        let build = |version| {
            let names = topics.iter().map(String::as_str);
            let timeout_ms = context.broker_time_ms();
            match version {
                ..=5 => DeleteTopicsRequest { topic_names: names.collect(), timeout_ms, ..Default::default() },
                _ => DeleteTopicsRequest { topics: names.map(state).collect(), timeout_ms, ..Default::default() },
            }
        };
        let (frame, version) = context.call(node, DeleteTopicsRequest::VERSIONS, build).await?;
        let response = read::<DeleteTopicsRequest<'_>>(&frame, version)?;
        let answers = response.responses.iter().filter_map(|answer| {
            Some((answer.name?.to_owned(), Refusal::check(answer.error_code, answer.error_message)))
        });
        Ok(answers.collect())
    }

    /// The controller knows which topics exist, so this error is not retried.
    fn passes(&self, code: ErrorCode, _: Duration) -> bool {
        code != ErrorCode::UnknownTopicOrPartition && code.is_retriable()
    }

    fn settle(&self, refusal: Refusal, lost: bool) -> Result<(), Refusal> {
        match lost && refusal.code == ErrorCode::UnknownTopicOrPartition {
            true => Ok(()),
            false => Err(refusal),
        }
    }
}

struct CreatePartitions {
    validate_only: bool,
}

impl ItemCall for CreatePartitions {
    type Key = NewPartitions;
    type Value = ();
    const RECIPIENT: Recipient = Recipient::Controller;

    fn what(&self, topic: &NewPartitions) -> String {
        format!("giving topic {} {} partitions", topic.topic, topic.total)
    }

    fn subject(&self, topic: &NewPartitions) -> Subject {
        Subject::topic(&topic.topic)
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, topics: &[NewPartitions]) -> CallResult<Self> {
        let brokers = |ids: &Vec<i32>| CreatePartitionsAssignment { broker_ids: ids.clone(), ..Default::default() };
        let build = |_| CreatePartitionsRequest {
            topics: topics
                .iter()
                .map(|topic| CreatePartitionsTopic {
                    name: &topic.topic,
                    count: topic.total,
                    assignments: topic.assignments.as_ref().map(|each| each.iter().map(brokers).collect()),
                    ..Default::default()
                })
                .collect(),
            timeout_ms: context.broker_time_ms(),
            validate_only: self.validate_only,
            ..Default::default()
        };
        let (frame, version) = context.call(node, CreatePartitionsRequest::VERSIONS, build).await?;
        let response = read::<CreatePartitionsRequest<'_>>(&frame, version)?;
        let find = |name| topics.iter().find(|topic| topic.topic == name).cloned();
        let answers = response
            .results
            .iter()
            .filter_map(|answer| Some((find(answer.name)?, Refusal::check(answer.error_code, answer.error_message))));
        Ok(answers.collect())
    }

    fn passes(&self, code: ErrorCode, _: Duration) -> bool {
        code != ErrorCode::UnknownTopicOrPartition && code.is_retriable()
    }
}

struct ListTopics;

impl ItemCall for ListTopics {
    type Key = ();
    type Value = Items<String, TopicDescription>;
    const RECIPIENT: Recipient = Recipient::InTurn;

    fn what(&self, (): &()) -> String {
        "listing topics".into()
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, keys: &[()]) -> CallResult<Self> {
        let build = |_| MetadataRequest { topics: None, allow_auto_topic_creation: false, ..Default::default() };
        let (frame, version) = context.call(node, MetadataRequest::VERSIONS, build).await?;
        let response = read::<MetadataRequest<'_>>(&frame, version)?;
        if let Err(refusal) = Refusal::check(response.error_code, None) {
            return Ok(refuse_all(keys, &refusal));
        }
        let topics = response.topics.iter().filter(|topic| topic.error_code == 0);
        let topics = topics.filter_map(|topic| Some((topic.name?.to_owned(), Ok(described(topic)))));
        Ok(vec![((), Ok(topics.collect()))])
    }
}

struct DescribeTopics;

impl ItemCall for DescribeTopics {
    type Key = String;
    type Value = TopicDescription;
    const RECIPIENT: Recipient = Recipient::InTurn;

    fn what(&self, topic: &String) -> String {
        format!("describing topic {topic}")
    }

    fn subject(&self, topic: &String) -> Subject {
        Subject::topic(topic)
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, topics: &[String]) -> CallResult<Self> {
        let build = |_| MetadataRequest {
            topics: Some(
                topics.iter().map(|name| MetadataRequestTopic { name: Some(name), ..Default::default() }).collect(),
            ),
            allow_auto_topic_creation: false,
            ..Default::default()
        };
        let (frame, version) = context.call(node, MetadataRequest::VERSIONS, build).await?;
        let response = read::<MetadataRequest<'_>>(&frame, version)?;
        if let Err(refusal) = Refusal::check(response.error_code, None) {
            return Ok(refuse_all(topics, &refusal));
        }
        let answers = response.topics.iter().filter_map(|topic| {
            Some((topic.name?.to_owned(), Refusal::check(topic.error_code, None).map(|()| described(topic))))
        });
        Ok(answers.collect())
    }
}

fn described(topic: &MetadataResponseTopic<'_>) -> TopicDescription {
    let partition = |known: &MetadataResponsePartition<'_>| PartitionDescription {
        partition: known.partition_index,
        leader: Some(known.leader_id).filter(|&leader| leader >= 0),
        leader_epoch: known.leader_epoch,
        replicas: known.replica_nodes.clone(),
        isr: known.isr_nodes.clone(),
        offline: known.offline_replicas.clone(),
    };
    let mut partitions: Vec<PartitionDescription> = topic.partitions.iter().map(partition).collect();
    partitions.sort_by_key(|known| known.partition);
    TopicDescription { topic_id: id_text(topic.topic_id), internal: topic.is_internal, partitions }
}

/// A topic id as text; `None` from brokers before topic ids (KIP-516).
pub(super) fn id_text(id: Uuid) -> Option<String> {
    (!id.is_zero()).then(|| id.to_string())
}
