//! Faults that stop a partition.

use monedula_protocol::error_code::ErrorCode;

use crate::TopicPartition;

/// A fault that stopped a partition. It stays so until the user seeks, or assigns anew; other partitions go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The topic, or this partition of it, does not exist.
    #[error("{}: the cluster does not know this {what}; check its name, or create it", missing(partition, what))]
    UnknownTopicOrPartition {
        /// The partition.
        partition: TopicPartition,
        /// "topic" or "partition".
        what: &'static str,
    },
    /// The topic was deleted and created again under the same name: offsets of the old one mean nothing in it.
    #[error(
        "{partition}: the topic was deleted and created again; offsets of the old topic mean nothing in the new \
             one. {}", self.plain_hint()
    )]
    TopicRecreated {
        /// The partition.
        partition: TopicPartition,
    },
    /// The user may not read the topic.
    #[error("{partition}: reading the topic is not allowed (TOPIC_AUTHORIZATION_FAILED); ask for the READ permission")]
    TopicDenied {
        /// The partition.
        partition: TopicPartition,
    },
    /// The position is outside of what the log holds, and no reset policy says where to go.
    #[error(
        "{partition}: offset {offset} is out of range: the log holds {log_start}..{log_end}. {}", self.plain_hint()
    )]
    OffsetOutOfRange {
        /// The partition.
        partition: TopicPartition,
        /// The position.
        offset: i64,
        /// First offset that the log holds.
        log_start: i64,
        /// Offset of the next record to come.
        log_end: i64,
    },
    /// Records that were read have been replaced after an unclean leader election (KIP-320).
    #[error(
        "{partition}: the log was truncated: records from offset {divergent} to {offset} that were read are gone \
             or replaced. {}", self.plain_hint()
    )]
    LogTruncated {
        /// The partition.
        partition: TopicPartition,
        /// The position.
        offset: i64,
        /// First offset at which the log differs from what was read.
        divergent: i64,
    },
    /// No offset is known, and the reset policy is to fail.
    #[error("{partition}: no starting offset is known and auto.offset.reset is none; give one, or set the policy")]
    NoOffset {
        /// The partition.
        partition: TopicPartition,
    },
    /// The broker found its own log corrupt, or the answer could not be read.
    #[error("{partition}: the record batch at offset {offset} cannot be read: {reason}. {}", self.plain_hint())]
    Corrupt {
        /// The partition.
        partition: TopicPartition,
        /// Base offset of the batch.
        offset: i64,
        /// The damage.
        reason: String,
    },
    /// An error of the broker that no retry mends.
    #[error("{partition}: the broker answered {} ({})", code.name(), code.message())]
    Refused {
        /// The partition.
        partition: TopicPartition,
        /// The broker's error.
        code: ErrorCode,
    },
}

/// A missing thing, as it is to be looked for.
fn missing(partition: &TopicPartition, what: &str) -> String {
    if what == "topic" { partition.topic.to_string() } else { partition.to_string() }
}

impl Fault {
    /// The partition that stopped.
    pub fn partition(&self) -> &TopicPartition {
        match self {
            Self::UnknownTopicOrPartition { partition, .. }
            | Self::TopicRecreated { partition }
            | Self::TopicDenied { partition }
            | Self::OffsetOutOfRange { partition, .. }
            | Self::LogTruncated { partition, .. }
            | Self::NoOffset { partition }
            | Self::Corrupt { partition, .. }
            | Self::Refused { partition, .. } => partition,
        }
    }

    /// Advice on how to go on, with which the message ends. Backticks are around the words of a consumer, since a
    /// command line and Spark have others.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::TopicRecreated { .. } => {
                "`Seek to where the new topic is to be read from, for example its beginning`".to_owned()
            }
            Self::OffsetOutOfRange { .. } => "`Seek to an offset in it`, or set auto.offset.reset".to_owned(),
            Self::LogTruncated { divergent, .. } => format!("`Seek to` {divergent} `to read what` stands there now"),
            Self::Corrupt { .. } => "`Seek past it to go on`".to_owned(),
            _ => return None,
        })
    }

    fn plain_hint(&self) -> String {
        self.hint().unwrap_or_default().replace('`', "")
    }

    /// Kafka's code for it, [`ErrorCode::UnknownServerError`] where Kafka has none.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::UnknownTopicOrPartition { .. } => ErrorCode::UnknownTopicOrPartition,
            Self::TopicRecreated { .. } => ErrorCode::InconsistentTopicId,
            Self::TopicDenied { .. } => ErrorCode::TopicAuthorizationFailed,
            Self::OffsetOutOfRange { .. } | Self::NoOffset { .. } => ErrorCode::OffsetOutOfRange,
            Self::LogTruncated { .. } => ErrorCode::FencedLeaderEpoch,
            Self::Corrupt { .. } => ErrorCode::CorruptMessage,
            Self::Refused { code, .. } => *code,
        }
    }
}
