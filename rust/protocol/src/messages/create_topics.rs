//! CreateTopics, API key 19, versions 2-7 (Kafka 4.0 removed those below).
//!
//! Version 3 makes the broker respond before it throttles the client (KIP-219). 4 lets the broker choose the numbers of
//! partitions and replicas (KIP-464). 5 is flexible, and returns the configs of the created topic (KIP-525). 6 may
//! return THROTTLING_QUOTA_EXCEEDED (KIP-599), 7 adds topic ids (KIP-516).

use crate::types::Uuid;
use crate::wire::api;

api! {
    CreateTopics, versions 2..=7, flexible 5..;

    /// Creates topics.
    request CreateTopicsRequest<'a> {
        topics: Vec<CreatableTopic<'a>>, 0..;
        /// The longest time that the broker waits for the topics to exist, in milliseconds.
        timeout_ms: i32 = 60_000, 0..;
        /// True to have the request only validated, without creating topics.
        validate_only: bool, 1..;
    }

    /// The result for each topic.
    response CreateTopicsResponse<'a> {
        throttle_time_ms: i32, 2.., ignorable;
        topics: Vec<CreatableTopicResult<'a>>, 0..;
    }

    /// A topic to create.
    struct CreatableTopic<'a> {
        name: &'a str, 0..;
        /// The number of partitions; -1 with assignments, and from version 4 also for the broker's default.
        num_partitions: i32, 0..;
        /// The number of replicas of each partition; -1 with assignments, and from version 4 also for the broker's
        /// default.
        replication_factor: i16, 0..;
        /// The brokers of each partition's replicas; empty to let Kafka choose.
        assignments: Vec<CreatableReplicaAssignment<'a>>, 0..;
        /// Configs that override the defaults.
        configs: Vec<CreatableTopicConfig<'a>>, 0..;
    }

    /// The brokers of a partition's replicas.
    struct CreatableReplicaAssignment<'a> {
        partition_index: i32, 0..;
        /// The brokers; the first is the preferred leader.
        broker_ids: Vec<i32>, 0..;
    }

    /// A config of a topic to create.
    struct CreatableTopicConfig<'a> {
        name: &'a str, 0..;
        value: Option<&'a str>, 0.., nullable 0..;
    }

    /// The result for one topic.
    struct CreatableTopicResult<'a> {
        name: &'a str, 0..;
        topic_id: Uuid, 7.., ignorable;
        error_code: i16, 0..;
        error_message: Option<&'a str>, 1.., nullable 0.., ignorable;
        /// The error that explains why the numbers of partitions and replicas and the configs are missing, or 0.
        topic_config_error_code: i16, 5.., tag 0, ignorable;
        /// The number of partitions, or -1.
        num_partitions: i32 = -1, 5.., ignorable;
        /// The number of replicas of each partition, or -1.
        replication_factor: i16 = -1, 5.., ignorable;
        /// The topic's configs, if the client is authorized to describe them.
        configs: Option<Vec<CreatableTopicConfigs<'a>>>, 5.., nullable 5.., ignorable;
    }

    /// A config of a created topic.
    struct CreatableTopicConfigs<'a> {
        name: &'a str, 5..;
        /// The value; `None` if it is sensitive.
        value: Option<&'a str>, 5.., nullable 5..;
        /// True if the config is read-only.
        read_only: bool, 5..;
        /// The source of the value, as in DescribeConfigs; -1 if not known.
        config_source: i8 = -1, 5.., ignorable;
        /// True if the value is sensitive, such as a password.
        is_sensitive: bool, 5..;
    }
}
