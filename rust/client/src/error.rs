//! The errors of the client. Each variant calls for another reaction of the caller.

use std::sync::Arc;
use std::time::Duration;

use monedula_columns::{OutOfMemory, WalkError, WalkErrorKind};
use monedula_engine::TopicPartition;
use monedula_engine::fetch::Fault;
use monedula_engine::group::GroupError;
use monedula_engine::produce::SendFault;
use monedula_engine::transaction::TransactionError;
use monedula_protocol::error::WireError;
use monedula_protocol::error_code::ErrorCode;

use crate::blocking::NotRun;
use crate::config::ConfigError;

/// A number with its noun, for messages: `1 row`, `2 rows`.
pub fn counted(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// An error of the client.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// A setting is invalid; change it.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An argument is invalid; change it.
    #[error("{0}")]
    Argument(String),
    /// No broker could be reached.
    #[error("no broker of the cluster can be reached after {} ms: {reasons}. Check bootstrap.servers and that the \
             brokers run and listen there{}", after.as_millis(), closed(reasons))]
    Unreachable {
        /// Duration of the attempts.
        after: Duration,
        /// The error of each address.
        reasons: String,
    },
    /// A broker and the client did not accept each other's identity. Final for the client.
    #[error(transparent)]
    Authentication(Box<AuthenticationError>),
    /// A call did not end within its timeout.
    #[error("{what} did not end within {} ms{}", after.as_millis(), because(last_error))]
    TimedOut {
        /// The operation.
        what: String,
        /// The timeout.
        after: Duration,
        /// The error of the last attempt, if there is one.
        last_error: Option<String>,
    },
    /// A wait for records ended while the brokers that they would come from did not answer: that none came says nothing
    /// about the topic.
    #[error("{what} for {}{}", seconds_of(*failing_for), because(last_error))]
    Unavailable {
        /// Subject of the sentence that ends before "for 12 s": the brokers that do not answer.
        what: &'static str,
        /// Duration of the failure.
        failing_for: Duration,
        /// The last error, if there is one.
        last_error: Option<String>,
    },
    /// A wait for records ended while the schema registry did not answer: records are there, and cannot be decoded
    /// before it does.
    #[error("the schema registry has not answered for {}{}", seconds_of(*failing_for), because(last_error))]
    RegistryUnavailable {
        /// Duration of the failure.
        failing_for: Duration,
        /// The last error, if there is one.
        last_error: Option<String>,
    },
    /// Reading of one partition has stopped; the other partitions continue.
    #[error(transparent)]
    Partition(#[from] Fault),
    /// Records cannot be decoded.
    #[error("{}", with_hint(error.to_string(), self.hint()))]
    Decode {
        /// The partition.
        partition: TopicPartition,
        /// The error, which names the offset.
        error: WalkError,
    },
    /// An error of a bounded read. Its advice differs from a consumer's, since the user has no consumer to seek with.
    #[error("{}", told_of_read(.0))]
    Read(Box<Self>),
    /// A [`Self::Decode`] of records of a share group, which are not left locked.
    #[error("{}", told_of_share(error, *is_rejected))]
    ShareDecode {
        /// The error.
        error: Box<Self>,
        /// True if the records were rejected, false if they were released.
        is_rejected: bool,
    },
    /// The user is not authorized to use the group.
    #[error(
        "using the group {group} is not allowed (GROUP_AUTHORIZATION_FAILED); ask for the READ permission \
             on it"
    )]
    GroupDenied {
        /// The group.
        group: String,
    },
    /// The group has members, and only they may commit its offsets.
    #[error("the group {group} is in use by running consumers ({}); stop them first, or use another group id", code.name())]
    GroupInUse {
        /// The group.
        group: String,
        /// The broker's error.
        code: ErrorCode,
    },
    /// An error of the consumer group membership.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// A call of a transaction failed.
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    /// A broker refused an operation on a topic, a partition, a group or a resource.
    #[error(transparent)]
    Refused(Box<Refused>),
    /// Records could not be delivered.
    #[error(transparent)]
    Delivery(#[from] SendFault),
    /// A broker refused a batch because of some of its records (KIP-467): because of this one, or of others.
    #[error(
        "{partition}: the broker refused the record's batch ({}): {}", code.name(),
        refusal(reason.as_deref(), *spoilers)
    )]
    RecordRefused {
        /// The partition of the record.
        partition: TopicPartition,
        /// The broker's error.
        code: ErrorCode,
        /// Fault of this record; `None` if the batch was refused only because of others.
        reason: Option<String>,
        /// Number of records that were the reason to refuse the batch.
        spoilers: usize,
    },
    /// A record is larger than `max.request.size`.
    #[error(
        "{topic}: the record has {bytes} bytes, more than max.request.size ({limit}); make it smaller, or raise \
             max.request.size, and max.message.bytes of the topic with it"
    )]
    RecordTooLarge {
        /// The topic of the record.
        topic: String,
        /// The size of the record.
        bytes: usize,
        /// `max.request.size`.
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
        /// Number of metadata requests that were sent for it.
        attempts: u32,
        /// Duration of the lookups.
        after: Duration,
    },
    /// The topic has no such partition.
    #[error("{partition}: the topic has {}, 0 to {}", counted(*partitions as u64, "partition"), partitions - 1)]
    UnknownPartition {
        /// The partition.
        partition: TopicPartition,
        /// The number of partitions of the topic.
        partitions: usize,
    },
    /// A broker answered with an error that is not retriable.
    #[error("{what}: the broker answered {} ({})", code.name(), code.message())]
    Broker {
        /// The operation.
        what: String,
        /// The broker's error.
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
        /// The name of the API.
        api: &'static str,
        /// The client's lowest version.
        ours_min: i16,
        /// The client's highest version.
        ours_max: i16,
        /// The broker's versions.
        theirs: String,
    },
    /// A response is larger than `receive.message.max.bytes`.
    #[error(
        "{broker}: the answer to {api} has {bytes} bytes, more than receive.message.max.bytes ({limit}); raise \
             receive.message.max.bytes{}",
        too_large_advice(api)
    )]
    AnswerTooLarge {
        /// The broker.
        broker: String,
        /// The name of the API.
        api: &'static str,
        /// The size of the response.
        bytes: usize,
        /// `receive.message.max.bytes`.
        limit: usize,
    },
    /// The system has no memory left for a buffer. The operation was not done; the client continues to work.
    #[error(transparent)]
    NoMemory(#[from] OutOfMemory),
    /// The system has no memory left for a buffer. The consumer is closed, and rows that were being decoded are lost.
    #[error(
        "no memory for a buffer of {bytes} bytes; the consumer is closed. Raise the process's memory limit (in Spark, \
             spark.executor.pyspark.memory), or lower queued.max.bytes and the size of batches"
    )]
    OutOfMemory {
        /// The buffer's size.
        bytes: usize,
    },
    /// `buffer.memory` of a producer stayed full for `max.block.ms`.
    #[error(
        "no room for a record of {needed} bytes in buffer.memory ({buffer_memory}) for {} ms (max.block.ms): records are \
             sent faster than brokers take them, or no broker answers{}", max_block.as_millis(), because(last_error)
    )]
    BufferFull {
        /// The bytes needed.
        needed: usize,
        /// `buffer.memory`.
        buffer_memory: usize,
        /// `max.block.ms`.
        max_block: Duration,
        /// Present trouble with brokers.
        last_error: Option<String>,
    },
    /// The producer was closed.
    #[error("the producer is closed")]
    ProducerClosed,
    /// The admin client was closed.
    #[error("the admin is closed")]
    AdminClosed,
    /// The consumer was closed.
    #[error("the consumer is closed")]
    Closed,
    /// The system grants no thread. Later it may.
    #[error("{0}. The same call may succeed later")]
    NoThread(NotRun),
    /// A bug in the client.
    #[error("an error in monedula itself: {0}. Please report it")]
    Internal(String),
    /// The wait was ended by `wakeup()`.
    #[error("the wait was ended by wakeup()")]
    WokenUp,
}

impl From<NotRun> for ClientError {
    fn from(error: NotRun) -> Self {
        match error {
            NotRun::NoThread(_) => Self::NoThread(error),
            NotRun::Ended(reason) => Self::Internal(format!("work on a thread of its own ended: {reason}")),
        }
    }
}

impl ClientError {
    /// The partition that the error is about, if it is about one.
    pub fn partition(&self) -> Option<&TopicPartition> {
        match self {
            Self::Partition(fault) => Some(fault.partition()),
            Self::Decode { partition, .. } => Some(partition),
            Self::Read(error) | Self::ShareDecode { error, .. } => error.partition(),
            _ => None,
        }
    }

    /// Advice on how to go on, with which the message ends. Backticks are around the words of Python's API, since a
    /// command line and Spark have others; `{next_offset}` is that of the error.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Partition(fault) => fault.hint(),
            Self::Decode { error, .. } => decode_hint(error, MODES_OF_CONSUMER, Some(advice(error).to_owned())),
            Self::Read(error) => hint_of_read(error),
            Self::ShareDecode { error, is_rejected } => hint_of_share(error, *is_rejected),
            Self::AnswerTooLarge { api, .. } => {
                let advice = too_large_advice(api).replace(", or seek past the batch", "`, or seek past the batch`");
                Some(format!("raise receive.message.max.bytes{advice}"))
            }
            _ => None,
        }
    }
}

/// A broker and the client did not accept each other's identity, or have no encryption or mechanism in common: another
/// attempt with the same settings would end in the same way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{broker}: {mechanism}: {reason}")]
pub struct AuthenticationError {
    /// The broker as host:port.
    pub broker: String,
    /// `TLS`, `proxy`, or the name of the SASL mechanism.
    pub mechanism: String,
    /// Refusal, with its author and a way out. No secret is in it.
    pub reason: String,
}

impl From<AuthenticationError> for RequestError {
    fn from(error: AuthenticationError) -> Self {
        Self::Fatal(Box::new(ClientError::Authentication(Box::new(error))))
    }
}

/// The refusal of an operation.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{what}: {} ({}){}", self.reason(), code.name(), self.advice())]
pub struct Refused {
    /// The operation, with the name of its object.
    pub what: String,
    /// The broker's error.
    pub code: ErrorCode,
    /// The broker's message, if there is one.
    pub detail: Option<String>,
    /// The topic, if it is about one.
    pub topic: Option<String>,
    /// The partition, if it is about one.
    pub partition: Option<i32>,
    /// The group, if it is about one.
    pub group: Option<String>,
}

impl ClientError {
    /// The same error of a call of which this was the last part: its timeout counts from the beginning of the call.
    pub(crate) fn of_call(self, timeout: Duration) -> Self {
        match self {
            Self::TimedOut { what, last_error, .. } => Self::TimedOut { what, after: timeout, last_error },
            error => error,
        }
    }

    /// The refusal to tell of a topic.
    pub(crate) fn of_topic(topic: &str, code: ErrorCode) -> Self {
        let what = format!("looking up the topic {topic}");
        let topic = Some(topic.to_owned());
        Self::Refused(Box::new(Refused { what, code, detail: None, topic, partition: None, group: None }))
    }
}

impl Refused {
    fn reason(&self) -> &str {
        self.detail.as_deref().map_or(self.code.message(), |detail| detail.trim_end_matches('.'))
    }

    /// Advice for the user, unless the broker's message has it.
    fn advice(&self) -> &'static str {
        match self.code {
            // If the partition does not exist, the detail says how many partitions the topic has.
            ErrorCode::UnknownTopicOrPartition if self.partition.is_none() || self.detail.is_none() => {
                "; check its name, or create it"
            }
            ErrorCode::TopicAuthorizationFailed => "; ask for the permission on it (an ACL)",
            ErrorCode::GroupIdNotFound => "; check its id against the list of groups",
            ErrorCode::InvalidPartitions => "; partitions can only be added: name a higher total",
            ErrorCode::InvalidReplicationFactor => "; every replica needs a broker of its own: ask for fewer",
            ErrorCode::InvalidConfig => "; describe the settings to see their names and values",
            ErrorCode::SecurityDisabled => {
                "; give brokers and controllers an authorizer: authorizer.class.name, which under KRaft is \
                 org.apache.kafka.metadata.authorizer.StandardAuthorizer"
            }
            ErrorCode::DelegationTokenAuthDisabled => "; set delegation.token.secret.key on brokers and controllers",
            ErrorCode::DelegationTokenRequestNotAllowed => {
                "; tokens are managed over a connection that logged in by SASL or by TLS with a client certificate, and \
                 not with a token"
            }
            _ => "",
        }
    }
}

/// Reason that a single request got no usable response. All but [`Self::Fatal`] may be retried.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RequestError {
    /// The connection could not be made, or broke.
    #[error("{broker}: {reason}")]
    Disconnected {
        /// The broker as host:port.
        broker: String,
        /// Event that ended it.
        reason: String,
    },
    /// No answer within `request.timeout.ms`.
    #[error("{broker}: no answer within {} ms", after.as_millis())]
    TimedOut {
        /// The broker as host:port.
        broker: String,
        /// `request.timeout.ms`.
        after: Duration,
    },
    /// The response cannot be decoded.
    #[error("{broker}: {error}")]
    Wire {
        /// The broker as host:port.
        broker: String,
        /// The decoding error.
        error: WireError,
    },
    /// The port speaks another protocol than the settings say. [`Network`](crate::net::network::Network) makes a final
    /// error of it, or one of a broken connection.
    #[error("{broker}: {reason}")]
    OtherProtocol {
        /// The broker as host:port.
        broker: String,
        /// The setting to change.
        key: &'static str,
        /// Protocol of the port, and the value to set.
        reason: String,
    },
    /// Nothing to log in with: the source of tokens brought none. The next attempt may have one.
    #[error(transparent)]
    NoCredentials(Box<AuthenticationError>),
    /// The metadata contains no such broker.
    #[error("broker {0} is not known")]
    UnknownNode(i32),
    /// An error that is not retried.
    #[error(transparent)]
    Fatal(Box<ClientError>),
}

/// Advice for fetches, whose response holds at least one record batch, however large that is (KIP-74).
fn too_large_advice(api: &str) -> &'static str {
    match api {
        "Fetch" => {
            " above the topic's largest record batch (its max.message.bytes) and above fetch.max.bytes, or seek past the batch"
        }
        _ => "",
    }
}

/// Advice about bytes that cannot be decoded.
fn advice(error: &WalkError) -> &'static str {
    match error.kind {
        WalkErrorKind::Unavailable { .. } => "`A poll a second later asks again; the position stays at the record`",
        _ => "`Seek past it to go on`",
    }
}

/// Ways of a read to let values pass that cannot be decoded.
const MODES: &str = "`With mode=\"null\" such records are kept with nulls, with mode=\"drop\" left out. `";

/// The same of a consumer, which commits.
const MODES_OF_CONSUMER: &str = "`With mode=\"null\" such records are kept with nulls, with mode=\"drop\" left out, \
                                 with dead_letter= written to a topic. `";

/// Advice about a value that cannot be decoded: its own, the modes that let such values pass, and the way on.
fn decode_hint(error: &WalkError, modes: &str, way_on: Option<String>) -> Option<String> {
    let WalkErrorKind::BadValue { bad, .. } = &error.kind else { return way_on };
    match (bad.hint, way_on) {
        (Some(hint), Some(way_on)) => Some(format!("{hint}. {modes}{way_on}")),
        (None, Some(way_on)) => Some(format!("{modes}{way_on}")),
        (hint, None) => hint.map(ToOwned::to_owned),
    }
}

/// A message with the hint that ends it, which is a sentence of its own if it begins with a capital letter.
fn with_hint(facts: String, hint: Option<String>) -> String {
    let Some(hint) = hint.map(|hint| hint.replace('`', "")) else { return facts };
    let between = match facts.ends_with('?') {
        true => " ",
        false if hint.starts_with(char::is_uppercase) => ". ",
        false => "; ",
    };
    format!("{facts}{between}{hint}")
}

/// The advice of a bounded read, where a consumer's would be to seek.
fn hint_of_read(error: &ClientError) -> Option<String> {
    Some(match error {
        ClientError::Decode { error, .. } => {
            let way_on = match error.next_offset {
                _ if matches!(error.kind, WalkErrorKind::Unavailable { .. }) => {
                    Some("`Read again to ask again`".to_owned())
                }
                Some(_) => Some("`A read that starts at {next_offset} goes on behind it`".to_owned()),
                None => None,
            };
            return decode_hint(error, MODES, way_on);
        }
        ClientError::Partition(Fault::OffsetOutOfRange { .. }) => "Give `the read a start and an end` in it".to_owned(),
        ClientError::Partition(Fault::TopicRecreated { .. }) => "Read the new one from its beginning".to_owned(),
        ClientError::Partition(Fault::LogTruncated { divergent, .. }) => {
            format!("Read again from {divergent} for what stands there now")
        }
        ClientError::Partition(Fault::Corrupt { .. }) => "Read from behind it to go on".to_owned(),
        other => return other.hint(),
    })
}

/// The message of an error of a bounded read.
fn hint_of_share(error: &ClientError, is_rejected: bool) -> Option<String> {
    let ClientError::Decode { error, .. } = error else { return error.hint() };
    let what = match is_rejected {
        true => "It was damaged at an earlier delivery too, and is rejected",
        false => "It is released, to be delivered again, until share.delivery.count.limit is reached",
    };
    decode_hint(error, MODES, Some(what.to_owned()))
}

fn told_of_share(error: &ClientError, is_rejected: bool) -> String {
    match error {
        ClientError::Decode { error: fault, .. } => with_hint(fault.to_string(), hint_of_share(error, is_rejected)),
        error => error.to_string(),
    }
}

fn told_of_read(error: &ClientError) -> String {
    let hint = hint_of_read(error);
    match error {
        ClientError::Decode { error, .. } => {
            let next_offset = error.next_offset.unwrap_or(error.offset).to_string();
            with_hint(error.to_string(), hint.map(|hint| hint.replace("{next_offset}", &next_offset)))
        }
        ClientError::Partition(fault) if hint.is_some() => {
            let (told, of_consumer) = (fault.to_string(), fault.hint().unwrap_or_default().replace('`', ""));
            let facts = told.strip_suffix(&of_consumer).unwrap_or(&told);
            with_hint(facts.trim_end_matches(['.', ' ']).to_owned(), hint)
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

/// Advice for a user whose brokers close connections.
fn closed(reasons: &str) -> &'static str {
    match reasons.contains("the broker closed the connection") {
        true => {
            ", and that security.protocol is that of the port: a broker that asks for a login closes connections without one \
             (SASL_SSL, SASL_PLAINTEXT)"
        }
        false => "",
    }
}

/// A duration for a person: whole seconds, and tenths below ten.
fn seconds_of(duration: Duration) -> String {
    match duration.as_secs() {
        0..10 => format!("{:.1} s", duration.as_secs_f64()),
        seconds => format!("{seconds} s"),
    }
}

fn because(last_error: &Option<String>) -> String {
    last_error.as_ref().map(|error| format!("; the last attempt: {error}")).unwrap_or_default()
}
