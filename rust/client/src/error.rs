//! What can go wrong, by what the caller can do about it.

use std::sync::Arc;
use std::time::Duration;

use monedula_columns::{OutOfMemory, WalkError};
use monedula_engine::TopicPartition;
use monedula_engine::fetch::Fault;
use monedula_engine::group::GroupError;
use monedula_engine::produce::SendFault;
use monedula_engine::transaction::TransactionError;
use monedula_protocol::error::WireError;
use monedula_protocol::error_code::ErrorCode;

use crate::config::ConfigError;

/// An error of the client.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// A setting is wrong: change it.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An argument is wrong: change it.
    #[error("{0}")]
    Argument(String),
    /// No broker could be reached.
    #[error("no broker of the cluster can be reached after {} ms: {reasons}. Check bootstrap.servers and that the \
             brokers run and listen there", after.as_millis())]
    Unreachable {
        /// How long it was tried.
        after: Duration,
        /// Each address with what happened there.
        reasons: String,
    },
    /// A call did not end in its time.
    #[error("{what} did not end within {} ms{}", after.as_millis(), because(last_error))]
    TimedOut {
        /// The call.
        what: String,
        /// Its time.
        after: Duration,
        /// What the last attempt failed of, if any.
        last_error: Option<String>,
    },
    /// One partition stopped; the others go on.
    #[error(transparent)]
    Partition(#[from] Fault),
    /// Records cannot be decoded.
    #[error("{error}. Seek past it to go on")]
    Decode {
        /// Where.
        partition: TopicPartition,
        /// What; it names the offset.
        error: WalkError,
    },
    /// An error of a bounded read, of which nobody has a consumer to seek with.
    #[error("{}", of_read(.0))]
    Read(Box<Self>),
    /// The user may not use the consumer group.
    #[error(
        "using the consumer group {group} is not allowed (GROUP_AUTHORIZATION_FAILED); ask for the READ permission \
             on it"
    )]
    GroupDenied {
        /// The group.
        group: String,
    },
    /// Offsets of a group with members are committed by its members only.
    #[error("the group {group} is in use by running consumers ({}); stop them first, or use another group id", code.name())]
    GroupInUse {
        /// The group.
        group: String,
        /// The broker's error.
        code: ErrorCode,
    },
    /// The membership of the consumer group is in trouble.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// A transaction's verb failed.
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    /// A broker refused what was asked of a topic, a partition, a group or a resource.
    #[error(transparent)]
    Refused(Box<Refused>),
    /// Records were given up.
    #[error(transparent)]
    Delivery(#[from] SendFault),
    /// A broker refused the batch because of some of its records (KIP-467): this one, for `reason`, or others.
    #[error(
        "{partition}: the broker refused the record's batch ({}): {}", code.name(),
        refusal(reason.as_deref(), *spoilers)
    )]
    RecordRefused {
        /// Where to.
        partition: TopicPartition,
        /// The broker's error.
        code: ErrorCode,
        /// What is wrong with the record; `None` where the batch failed because of others only.
        reason: Option<String>,
        /// How many records spoiled the batch.
        spoilers: usize,
    },
    /// A record is larger than a request may be.
    #[error(
        "{topic}: the record has {bytes} bytes, more than max.request.size ({limit}); make it smaller, or raise \
             max.request.size, and max.message.bytes of the topic with it"
    )]
    RecordTooLarge {
        /// Where to.
        topic: String,
        /// Its bytes.
        bytes: usize,
        /// The most.
        limit: usize,
    },
    /// The topic of a record does not exist.
    #[error(
        "the topic {topic} does not exist ({attempts} lookups in {} ms); check its name, create it, or set \
             allow.auto.create.topics=true", after.as_millis()
    )]
    UnknownTopic {
        /// The topic.
        topic: Arc<str>,
        /// How often the cluster was asked.
        attempts: u32,
        /// For how long.
        after: Duration,
    },
    /// The topic has no such partition.
    #[error("{partition}: the topic has {partitions} partitions, 0 to {}", partitions - 1)]
    UnknownPartition {
        /// The partition.
        partition: TopicPartition,
        /// How many there are.
        partitions: usize,
    },
    /// A broker answered with an error that no retry mends.
    #[error("{what}: the broker answered {} ({})", code.name(), code.message())]
    Broker {
        /// The call.
        what: String,
        /// The answer.
        code: ErrorCode,
    },
    /// A broker and this client have no version of an API in common.
    #[error(
        "{broker}: no common version of {api}: this client speaks {ours_min} to {ours_max}, the broker {theirs}. \
             Brokers from Kafka 2.1 on are supported"
    )]
    UnsupportedVersion {
        /// The broker.
        broker: String,
        /// Name of the API.
        api: &'static str,
        /// Our lowest version.
        ours_min: i16,
        /// Our highest version.
        ours_max: i16,
        /// What the broker offers.
        theirs: String,
    },
    /// A broker's answer is larger than the setting that bounds answers.
    #[error(
        "{broker}: the answer to {api} has {bytes} bytes, more than receive.message.max.bytes ({limit}): raise \
             receive.message.max.bytes{}",
        too_large_advice(api)
    )]
    AnswerTooLarge {
        /// The broker.
        broker: String,
        /// Name of the API.
        api: &'static str,
        /// Size of the answer.
        bytes: usize,
        /// The setting.
        limit: usize,
    },
    /// The system has no memory left for a buffer. What needed it was not done; the client goes on.
    #[error(transparent)]
    NoMemory(#[from] OutOfMemory),
    /// The system has no memory left for a buffer. The consumer is closed: rows that were being put together are gone.
    #[error(
        "no memory for a buffer of {bytes} bytes; the consumer is closed. Raise the process's memory limit (in Spark, \
             spark.executor.pyspark.memory), or lower queued.max.bytes and the size of batches"
    )]
    OutOfMemory {
        /// The buffer's size.
        bytes: usize,
    },
    /// No room came free in a producer's memory.
    #[error(
        "no room for a record of {needed} bytes in buffer.memory ({buffer_memory}) for {} ms (max.block.ms): records are \
             sent faster than brokers take them, or no broker answers", max_block.as_millis()
    )]
    BufferFull {
        /// The bytes needed.
        needed: usize,
        /// The bound.
        buffer_memory: usize,
        /// How long was waited.
        max_block: Duration,
    },
    /// The producer was closed.
    #[error("the producer is closed")]
    ProducerClosed,
    /// The administrator was closed.
    #[error("the admin is closed")]
    AdminClosed,
    /// The consumer was closed.
    #[error("the consumer is closed")]
    Closed,
    /// The client itself is at fault.
    #[error("an error in monedula itself: {0}. Please report it")]
    Internal(String),
    /// The wait was ended by `wakeup()`.
    #[error("the wait was ended by wakeup()")]
    WokenUp,
}

impl ClientError {
    /// The partition that it is about, if it is about one.
    pub fn partition(&self) -> Option<&TopicPartition> {
        match self {
            Self::Partition(fault) => Some(fault.partition()),
            Self::Decode { partition, .. } => Some(partition),
            Self::Read(error) => error.partition(),
            _ => None,
        }
    }
}

/// Why something was refused, and what it was about.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{what}: {} ({}){}", self.reason(), code.name(), self.advice())]
pub struct Refused {
    /// What was to be done, with the name of what it was to be done to.
    pub what: String,
    /// The broker's error.
    pub code: ErrorCode,
    /// What the broker said of it, if it said anything.
    pub detail: Option<String>,
    /// The topic, if it is about one.
    pub topic: Option<String>,
    /// The partition, if it is about one.
    pub partition: Option<i32>,
    /// The group, if it is about one.
    pub group: Option<String>,
}

impl Refused {
    fn reason(&self) -> &str {
        self.detail.as_deref().map_or(self.code.message(), |detail| detail.trim_end_matches('.'))
    }

    /// What to do, where the broker's words leave that open.
    fn advice(&self) -> &'static str {
        match self.code {
            // A partition that the topic does not have comes with how many it has.
            ErrorCode::UnknownTopicOrPartition if self.partition.is_none() || self.detail.is_none() => {
                "; check its name, or create it"
            }
            ErrorCode::GroupIdNotFound => "; check its id against the list of groups",
            ErrorCode::InvalidPartitions => "; partitions can only be added: name a higher total",
            ErrorCode::InvalidReplicationFactor => "; every replica needs a broker of its own: ask for fewer",
            ErrorCode::InvalidConfig => "; describe the settings to see their names and values",
            _ => "",
        }
    }
}

/// Why a single request got no usable answer; a new attempt may.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RequestError {
    /// The connection could not be made, or broke.
    #[error("{broker}: {reason}")]
    Disconnected {
        /// host:port.
        broker: String,
        /// What happened.
        reason: String,
    },
    /// No answer within `request.timeout.ms`.
    #[error("{broker}: no answer within {} ms", after.as_millis())]
    TimedOut {
        /// host:port.
        broker: String,
        /// The timeout.
        after: Duration,
    },
    /// The answer cannot be read.
    #[error("{broker}: {error}")]
    Wire {
        /// host:port.
        broker: String,
        /// What is wrong with it.
        error: WireError,
    },
    /// The node is in no metadata.
    #[error("broker {0} is not known")]
    UnknownNode(i32),
    /// Not to be repeated.
    #[error(transparent)]
    Fatal(Box<ClientError>),
}

/// A fetch answers with a single record batch even where that is larger than everything that was asked for (KIP-74).
fn too_large_advice(api: &str) -> &'static str {
    match api {
        "Fetch" => {
            " above the topic's largest record batch (its max.message.bytes) and above fetch.max.bytes, or seek past the batch"
        }
        _ => "",
    }
}

/// What is wrong, with what to do in place of a seek.
fn of_read(error: &ClientError) -> String {
    match error {
        ClientError::Decode { error, .. } => match error.next_offset {
            Some(next_offset) => format!("{error}. A read that starts at {next_offset} goes on behind it"),
            None => error.to_string(),
        },
        ClientError::Partition(Fault::OffsetOutOfRange { partition, offset, log_start, log_end }) => format!(
            "{partition}: offset {offset} is out of range: the log holds {log_start}..{log_end}. Give the read a start and \
             an end in it"
        ),
        ClientError::Partition(Fault::TopicRecreated { partition }) => format!(
            "{partition}: the topic was deleted and created again; offsets of the old topic mean nothing in the new one. \
             Read the new one from its beginning"
        ),
        ClientError::Partition(Fault::LogTruncated { partition, offset, divergent }) => format!(
            "{partition}: the log was truncated: records from offset {divergent} to {offset} that were read are gone or \
             replaced. Read again from {divergent} for what stands there now"
        ),
        ClientError::Partition(Fault::Corrupt { partition, offset, reason }) => {
            format!(
                "{partition}: the record batch at offset {offset} cannot be read: {reason}. Read from behind it to go on"
            )
        }
        ClientError::Closed => "the stream is closed; start another read".into(),
        other => other.to_string(),
    }
}

fn refusal(reason: Option<&str>, spoilers: usize) -> String {
    match reason {
        Some("") => "of this record".into(),
        Some(reason) => reason.into(),
        None => format!("not because of this record, but of {spoilers} others in its batch; send it again"),
    }
}

fn because(last_error: &Option<String>) -> String {
    last_error.as_ref().map(|error| format!("; the last attempt: {error}")).unwrap_or_default()
}
