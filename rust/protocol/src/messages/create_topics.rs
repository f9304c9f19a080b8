//! CreateTopics, API key 19, versions 2-7 (Kafka 4.0 removed those below).
//!
//! From 3 the answer comes before a throttled client is muted (KIP-219). 4 lets the broker choose the numbers of
//! partitions and replicas (KIP-464). 5 is flexible, and tells what was created (KIP-525). 6 may answer
//! THROTTLING_QUOTA_EXCEEDED (KIP-599), 7 adds topic ids (KIP-516).

use crate::types::Uuid;
use crate::wire::api;

api! {
    CreateTopics, versions 2..=7, flexible 5..;

    /// Creates topics.
    request CreateTopicsRequest<'a> {
        /// The topics.
        topics: Vec<CreatableTopic<'a>>, 0..;
        /// How long the broker may wait until they are there.
        timeout_ms: i32 = 60_000, 0..;
        /// Whether they are only checked, and not created.
        validate_only: bool, 1..;
    }

    /// What became of each.
    response CreateTopicsResponse<'a> {
        /// How long the client was throttled.
        throttle_time_ms: i32, 2.., ignorable;
        /// The topics.
        topics: Vec<CreatableTopicResult<'a>>, 0..;
    }

    /// A topic to create.
    struct CreatableTopic<'a> {
        /// Its name.
        name: &'a str, 0..;
        /// How many partitions; -1 with assignments, and from version 4 for the broker's default.
        num_partitions: i32, 0..;
        /// How many replicas of each; -1 with assignments, and from version 4 for the broker's default.
        replication_factor: i16, 0..;
        /// Where the replicas are to be; empty to let Kafka choose.
        assignments: Vec<CreatableReplicaAssignment<'a>>, 0..;
        /// Settings other than the defaults.
        configs: Vec<CreatableTopicConfig<'a>>, 0..;
    }

    /// Where a partition's replicas are to be.
    struct CreatableReplicaAssignment<'a> {
        /// The partition's index.
        partition_index: i32, 0..;
        /// The brokers; the first is the preferred leader.
        broker_ids: Vec<i32>, 0..;
    }

    /// A setting of a topic to create.
    struct CreatableTopicConfig<'a> {
        /// Its name.
        name: &'a str, 0..;
        /// Its value.
        value: Option<&'a str>, 0.., nullable 0..;
    }

    /// A topic's outcome.
    struct CreatableTopicResult<'a> {
        /// Its name.
        name: &'a str, 0..;
        /// Its id.
        topic_id: Uuid, 7.., ignorable;
        /// The error, or 0.
        error_code: i16, 0..;
        /// What it means.
        error_message: Option<&'a str>, 1.., nullable 0.., ignorable;
        /// Why partitions, replicas and settings are not told, or 0.
        topic_config_error_code: i16, 5.., tag 0, ignorable;
        /// How many partitions it has, or -1.
        num_partitions: i32 = -1, 5.., ignorable;
        /// How many replicas each has, or -1.
        replication_factor: i16 = -1, 5.., ignorable;
        /// All its settings, for a client that may see them.
        configs: Option<Vec<CreatableTopicConfigs<'a>>>, 5.., nullable 5.., ignorable;
    }

    /// A setting of a created topic.
    struct CreatableTopicConfigs<'a> {
        /// Its name.
        name: &'a str, 5..;
        /// Its value; `None` for a secret.
        value: Option<&'a str>, 5.., nullable 5..;
        /// Whether it can't be changed.
        read_only: bool, 5..;
        /// Where the value is from, as in DescribeConfigs; -1 where that is not told.
        config_source: i8 = -1, 5.., ignorable;
        /// Whether it is a secret.
        is_sensitive: bool, 5..;
    }
}
