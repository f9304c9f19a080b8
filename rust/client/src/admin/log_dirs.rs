//! The log directories of brokers, and moving replicas between them (KIP-113).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use monedula_engine::TopicPartition;
use monedula_protocol::api::Request;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::alter_replica_log_dirs::{
    AlterReplicaLogDir, AlterReplicaLogDirTopic, AlterReplicaLogDirsRequest,
};
use monedula_protocol::messages::describe_log_dirs::{
    DescribableLogDirTopic, DescribeLogDirsRequest, DescribeLogDirsResult,
};

use super::call::{AdminCall, CallResult, ItemCall, Items, Recipient, Refusal, Subject, by_topic, read, refuse_all};
use super::group_offsets::Which;
use super::{Admin, AdminContext};
use crate::net::network::NodeId;
use crate::offsets::UNKNOWN_TO_SOME;

/// A log directory of a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogDir {
    /// The path.
    pub path: String,
    /// The error if the directory cannot be read.
    pub error: Option<ErrorCode>,
    /// The size of its volume in bytes, if the broker reports it.
    pub total_bytes: Option<i64>,
    /// The bytes of its volume that are still usable, if the broker reports them.
    pub usable_bytes: Option<i64>,
    /// The replicas in the directory.
    pub replicas: Vec<(TopicPartition, LogDirReplica)>,
}

/// A replica of a partition in a log directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogDirReplica {
    /// The size of its segments in bytes.
    pub size: i64,
    /// Number of offsets from its log end to the high watermark (or, for a future replica, to the current replica).
    pub offset_lag: i64,
    /// True if it is a future replica, which replaces the one in another directory of the same
    /// broker once it has caught up.
    pub is_future: bool,
}

/// A replica: a partition on one broker.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BrokerReplica {
    /// The id of the broker.
    pub broker: i32,
    /// The partition.
    pub partition: TopicPartition,
}

impl Admin {
    /// Describes the log directories of these brokers, or of all.
    pub fn describe_log_dirs(
        &self,
        brokers: Option<Vec<i32>>,
        which: Which,
        timeout: Duration,
    ) -> AdminCall<Items<i32, Vec<LogDir>>> {
        self.until_closed(move |context| async move {
            let until = Instant::now() + timeout;
            let left = || until.saturating_duration_since(Instant::now());
            let partitions = match which {
                Which::All => None,
                Which::Topics(topics) => Some(context.base.offsets.partitions_of(topics, left()).await?),
                Which::Partitions(partitions) => Some(partitions),
            };
            let brokers = match brokers {
                Some(brokers) => brokers,
                None => context.brokers(left()).await?.brokers.into_keys().collect(),
            };
            context.run(DescribeLogDirs { partitions }, brokers, left()).await
        })
    }

    /// Moves replicas to other log directories of their brokers: the path for each. Does not wait for the end of the
    /// moves.
    ///
    /// A broker that does not have the replica keeps the directory for when it is created, and
    /// refuses with `REPLICA_NOT_AVAILABLE`.
    pub fn alter_replica_log_dirs(
        &self,
        moves: Vec<(BrokerReplica, String)>,
        timeout: Duration,
    ) -> AdminCall<Items<BrokerReplica, ()>> {
        let replicas: Vec<BrokerReplica> = moves.iter().map(|(replica, _)| replica.clone()).collect();
        self.run(AlterReplicaLogDirs { moves: moves.into_iter().collect() }, replicas, timeout)
    }
}

struct AlterReplicaLogDirs {
    moves: BTreeMap<BrokerReplica, String>,
}

impl ItemCall for AlterReplicaLogDirs {
    type Key = BrokerReplica;
    type Value = ();

    fn what(&self, replica: &BrokerReplica) -> String {
        let BrokerReplica { broker, partition } = replica;
        let path = self.moves.get(replica).map_or("", String::as_str);
        format!("moving the replica of {partition} on broker {broker} to {path}")
    }

    fn subject(&self, replica: &BrokerReplica) -> Subject {
        Subject::partition(&replica.partition)
    }

    fn recipient(&self, replica: &BrokerReplica) -> Recipient {
        Recipient::Broker(replica.broker)
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, replicas: &[BrokerReplica]) -> CallResult<Self> {
        let mut dirs: BTreeMap<&str, Vec<&TopicPartition>> = BTreeMap::new();
        for replica in replicas {
            let path = self.moves.get(replica).map_or("", String::as_str);
            dirs.entry(path).or_default().push(&replica.partition);
        }
        let topic = |(name, partitions)| AlterReplicaLogDirTopic { name, partitions, ..Default::default() };
        let dir = |(path, partitions): (_, Vec<_>)| AlterReplicaLogDir {
            path,
            topics: by_topic(partitions).into_iter().map(topic).collect(),
            ..Default::default()
        };
        let build = |_| AlterReplicaLogDirsRequest { dirs: dirs.into_iter().map(dir).collect(), ..Default::default() };
        let (frame, version) = context.call(node, AlterReplicaLogDirsRequest::VERSIONS, build).await?;
        let response = read::<AlterReplicaLogDirsRequest<'_>>(&frame, version)?;
        let mut refusals = BTreeMap::new();
        for topic in &response.results {
            for answer in &topic.partitions {
                let partition = TopicPartition::new(topic.topic_name, answer.partition_index);
                refusals.insert(partition, Refusal::check(answer.error_code, None));
            }
        }
        let answer = |replica: &BrokerReplica| Some((replica.clone(), refusals.get(&replica.partition)?.clone()));
        Ok(replicas.iter().filter_map(answer).collect())
    }

    fn passes(&self, code: ErrorCode, after: Duration) -> bool {
        match code {
            // The broker does not have the replica, or its directory failed: asking again changes neither.
            ErrorCode::ReplicaNotAvailable | ErrorCode::KafkaStorageError => false,
            ErrorCode::UnknownTopicOrPartition => after < UNKNOWN_TO_SOME,
            code => code.is_retriable(),
        }
    }
}

struct DescribeLogDirs {
    partitions: Option<Vec<TopicPartition>>,
}

impl ItemCall for DescribeLogDirs {
    type Key = i32;
    type Value = Vec<LogDir>;

    fn what(&self, node: &i32) -> String {
        format!("describing the directories of broker {node}")
    }

    fn recipient(&self, node: &i32) -> Recipient {
        Recipient::Broker(*node)
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, keys: &[i32]) -> CallResult<Self> {
        let topic = |(topic, partitions)| DescribableLogDirTopic { topic, partitions, ..Default::default() };
        let wanted = self.partitions.as_ref();
        let build = |_| DescribeLogDirsRequest {
            topics: wanted.map(|partitions| by_topic(partitions).into_iter().map(topic).collect()),
            ..Default::default()
        };
        let (frame, version) = context.call(node, DescribeLogDirsRequest::VERSIONS, build).await?;
        let response = read::<DescribeLogDirsRequest<'_>>(&frame, version)?;
        // Before version 3 a refused request gets an empty response; every broker has at least one directory.
        let refused = match response.results.is_empty() && version < 3 {
            true => ErrorCode::ClusterAuthorizationFailed.code(),
            false => response.error_code,
        };
        if let Err(refusal) = Refusal::check(refused, None) {
            return Ok(refuse_all(keys, &refusal));
        }
        let directories: Vec<LogDir> = response.results.iter().map(directory).collect();
        Ok(keys.iter().map(|&node| (node, Ok(directories.clone()))).collect())
    }
}

fn directory(described: &DescribeLogDirsResult<'_>) -> LogDir {
    let replicas = described.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|at| {
            let replica =
                LogDirReplica { size: at.partition_size, offset_lag: at.offset_lag, is_future: at.is_future_key };
            (TopicPartition::new(topic.name, at.partition_index), replica)
        })
    });
    let mut replicas: Vec<(TopicPartition, LogDirReplica)> = replicas.collect();
    replicas.sort_by(|(one, _), (other, _)| one.cmp(other));
    LogDir {
        path: described.log_dir.to_owned(),
        error: ErrorCode::check(described.error_code).err(),
        total_bytes: Some(described.total_bytes).filter(|&bytes| bytes >= 0),
        usable_bytes: Some(described.usable_bytes).filter(|&bytes| bytes >= 0),
        replicas,
    }
}
