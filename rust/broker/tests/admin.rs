//! Topics, partitions and configs, created, changed, described and deleted: codes and words are those of Apache Kafka 4.3.1.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::api_versions::ApiVersionsRequest;
use monedula_protocol::messages::create_partitions::{
    CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic,
};
use monedula_protocol::messages::create_topics::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
};
use monedula_protocol::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use monedula_protocol::messages::describe_cluster::DescribeClusterRequest;
use monedula_protocol::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResult,
};
use monedula_protocol::messages::describe_log_dirs::{DescribableLogDirTopic, DescribeLogDirsRequest};
use monedula_protocol::messages::describe_topic_partitions::{Cursor, DescribeTopicPartitionsRequest, TopicRequest};
use monedula_protocol::messages::elect_leaders::{ElectLeadersRequest, TopicPartitions};
use monedula_protocol::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use monedula_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};
use monedula_protocol::types::Uuid;
use serde_json::json;
use support::World;

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const GROUP: i8 = 32;

fn topic(name: &str, partitions: i32, replicas: i16) -> CreatableTopic<'_> {
    CreatableTopic { name, num_partitions: partitions, replication_factor: replicas, ..Default::default() }
}

fn assigned<'a>(name: &'a str, replicas: &[(i32, &[i32])]) -> CreatableTopic<'a> {
    let assignment = |&(partition_index, broker_ids): &(i32, &[i32])| CreatableReplicaAssignment {
        partition_index,
        broker_ids: broker_ids.to_vec(),
        ..Default::default()
    };
    CreatableTopic { assignments: replicas.iter().map(assignment).collect(), ..topic(name, -1, -1) }
}

fn configured<'a>(name: &'a str, configs: &[(&'a str, Option<&'a str>)]) -> CreatableTopic<'a> {
    let config =
        |&(name, value): &(&'a str, Option<&'a str>)| CreatableTopicConfig { name, value, ..Default::default() };
    CreatableTopic { configs: configs.iter().map(config).collect(), ..topic(name, 1, 1) }
}

/// Creates topics, and gives code and words of each.
fn create(world: &mut World, topics: Vec<CreatableTopic<'_>>) -> Vec<(i16, Option<String>)> {
    let request = CreateTopicsRequest { topics, ..Default::default() };
    let answer = world.call(1, &request, 7);
    answer.topics.iter().map(|topic| (topic.error_code, topic.error_message.map(str::to_owned))).collect()
}

#[track_caller]
fn refused(world: &mut World, topic: CreatableTopic<'_>, error: ErrorCode, words: &str) {
    assert_eq!(create(world, vec![topic]), [(error.code(), Some(words.to_owned()))]);
}

fn describe(world: &mut World, kind: i8, name: &'static str, keys: &[&'static str]) -> DescribeConfigsResult<'static> {
    let configuration_keys = Some(keys.to_vec());
    let resource =
        DescribeConfigsResource { resource_type: kind, resource_name: name, configuration_keys, ..Default::default() };
    let request = DescribeConfigsRequest { resources: vec![resource], include_synonyms: true, ..Default::default() };
    world.call(1, &request, 4).results.remove(0)
}

/// Value, source, and the synonyms' names and sources.
type Described = (String, i8, Vec<(String, i8)>);

/// A config to change, how, and to what.
type Change<'a> = (&'a str, i8, Option<&'a str>);

fn described(result: &DescribeConfigsResult<'_>) -> Vec<Described> {
    let config = |config: &monedula_protocol::messages::describe_configs::DescribeConfigsResourceResult<'_>| {
        let synonyms = config.synonyms.iter().map(|synonym| (synonym.name.to_owned(), synonym.source)).collect();
        (config.value.unwrap_or("null").to_owned(), config.config_source, synonyms)
    };
    result.configs.iter().map(config).collect()
}

fn alter(world: &mut World, kind: i8, name: &str, changes: &[(&str, i8, Option<&str>)]) -> (i16, Option<String>) {
    alter_or_validate(world, kind, name, changes, false)
}

fn alter_or_validate(
    world: &mut World,
    kind: i8,
    name: &str,
    changes: &[(&str, i8, Option<&str>)],
    validate_only: bool,
) -> (i16, Option<String>) {
    let change = |&(name, config_operation, value): &(&'static str, i8, Option<&'static str>)| AlterableConfig {
        name,
        config_operation,
        value,
        ..Default::default()
    };
    let leak = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
    let changes: Vec<_> =
        changes.iter().map(|(name, operation, value)| (leak(name), *operation, value.map(leak))).collect();
    let resource = AlterConfigsResource {
        resource_type: kind,
        resource_name: name,
        configs: changes.iter().map(change).collect(),
        ..Default::default()
    };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], validate_only, ..Default::default() };
    let answer = world.call(1, &request, 1);
    (answer.responses[0].error_code, answer.responses[0].error_message.map(str::to_owned))
}

#[test]
fn topics_are_created_with_numbers_assignments_and_defaults() {
    let mut world = World::with(3, &[("num.partitions", "4"), ("default.replication.factor", "2")]);
    let topics = vec![
        topic("a", 3, 2),
        topic("b", -1, -1),
        assigned("c", &[(1, &[2, 3]), (0, &[3, 1])]),
        configured("d", &[("retention.ms", Some(" 7 "))]),
    ];
    let answer = world.call(2, &CreateTopicsRequest { topics, ..Default::default() }, 7);
    let told: Vec<_> = answer.topics.iter().map(|t| (t.error_code, t.num_partitions, t.replication_factor)).collect();
    assert_eq!(told, [(0, 3, 2), (0, 4, 2), (0, 2, 2), (0, 1, 1)]);
    assert!(answer.topics.iter().all(|topic| !topic.topic_id.is_zero()));
    let configs = answer.topics[3].configs.as_ref().unwrap();
    assert_eq!(configs.len(), 33);
    let retention = configs.iter().find(|config| config.name == "retention.ms").unwrap();
    assert_eq!((retention.value, retention.config_source), (Some("7"), 1));
    let replicas = |world: &mut World| -> Vec<Vec<i32>> {
        support::topic(world, 1, "c").partitions.into_iter().map(|partition| partition.replica_nodes).collect()
    };
    assert_eq!(replicas(&mut world), [[3, 1], [2, 3]]);
}

#[test]
fn validating_only_creates_nothing() {
    let mut world = World::default();
    let request = CreateTopicsRequest { topics: vec![topic("a", 2, 1)], validate_only: true, ..Default::default() };
    for _ in 0..2 {
        let answer = world.call(1, &request, 7);
        assert_eq!((answer.topics[0].error_code, answer.topics[0].num_partitions), (0, 2));
    }
    assert_eq!(support::topic(&mut world, 1, "a").error_code, ErrorCode::UnknownTopicOrPartition.code());
}

#[test]
fn topics_that_cannot_be_are_refused_in_kafkas_words() {
    use ErrorCode::{
        InvalidConfig, InvalidPartitions, InvalidReplicationFactor, InvalidRequest, InvalidTopicException,
        PolicyViolation, TopicAlreadyExists,
    };
    let mut world = World::default();
    assert_eq!(create(&mut world, vec![topic("a.b", 1, 1)]), [(0, None)]);
    let start = "Topic name is invalid: ";
    let long = "x".repeat(250);
    for (name, words) in [
        ("bad name", "'bad name' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        (&long, &format!("the length of '{long}' is longer than the max allowed length 249")),
    ] {
        refused(&mut world, topic(name, 1, 1), InvalidTopicException, &format!("{start}{words}"));
    }
    refused(&mut world, topic("a.b", 1, 1), TopicAlreadyExists, "Topic 'a.b' already exists.");
    let words = "Topic 'a_b' collides with existing topic: a.b";
    refused(&mut world, topic("a_b", 1, 1), InvalidTopicException, words);
    let words = "Creation of internal topic __cluster_metadata is prohibited.";
    refused(&mut world, topic("__cluster_metadata", 1, 1), InvalidRequest, words);
    for partitions in [0, -2] {
        let words = "Number of partitions was set to an invalid non-positive value.";
        refused(&mut world, topic("p", partitions, 1), InvalidPartitions, words);
        let words = "Replication factor must be larger than 0, or -1 to use the default value.";
        refused(&mut world, topic("r", 1, partitions as i16), InvalidReplicationFactor, words);
    }
    let words = "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached because \
                 only 1 broker(s) are registered or some brokers have all their log directories cordoned.";
    refused(&mut world, topic("r", 1, 2), InvalidReplicationFactor, words);
    refused(&mut world, topic("p", 10_001, 1), PolicyViolation, "Excessively large number of partitions per request.");
    let words = "Null value not supported for topic configs: retention.ms";
    refused(&mut world, configured("c", &[("retention.ms", None)]), InvalidConfig, words);
    refused(&mut world, configured("c", &[("foo", Some("1"))]), InvalidConfig, "Unknown topic config name: foo");
    let words = "Invalid value x for configuration retention.ms: Not a number of type LONG";
    refused(&mut world, configured("c", &[("retention.ms", Some("x"))]), InvalidConfig, words);
}

#[test]
fn assignments_that_cannot_be_are_refused_in_kafkas_words() {
    use ErrorCode::{InvalidReplicaAssignment, InvalidRequest};
    let mut world = World::with(2, &[]);
    let start = "The manual partition assignment includes";
    let cases: [(CreatableTopic<'_>, String); 8] = [
        (assigned("a", &[(1, &[1])]), "partitions should be a consecutive 0-based integer sequence".into()),
        (assigned("a", &[(0, &[9])]), format!("{start} broker 9, but no such broker is registered.")),
        (assigned("a", &[(0, &[-1])]), format!("{start} broker -1, but no such broker is registered.")),
        (assigned("a", &[(0, &[])]), format!("{start} an empty replica list.")),
        (assigned("a", &[(0, &[1, 1])]), format!("{start} the broker 1 more than once.")),
        (assigned("a", &[(0, &[1]), (0, &[1])]), "Found multiple manual partition assignments for partition 0".into()),
        (assigned("a", &[(0, &[1]), (2, &[1])]), "partitions should be a consecutive 0-based integer sequence".into()),
        (
            assigned("a", &[(0, &[1]), (1, &[1, 2])]),
            format!(
                "{start} a partition with 2 replica(s), but this is not consistent with previous partitions, which \
                 have 1 replica(s)."
            ),
        ),
    ];
    for (topic, words) in cases {
        refused(&mut world, topic, InvalidReplicaAssignment, &words);
    }
    let start = "A manual partition assignment was specified, but";
    let both = CreatableTopic { replication_factor: 1, ..assigned("a", &[(0, &[1])]) };
    refused(&mut world, both, InvalidRequest, &format!("{start} replication factor was not set to -1."));
    let both = CreatableTopic { num_partitions: 1, ..assigned("a", &[(0, &[1])]) };
    refused(&mut world, both, InvalidRequest, &format!("{start} numPartitions was not set to -1."));
}

#[test]
fn a_name_that_comes_twice_is_refused_and_the_others_are_created() {
    let mut world = World::default();
    let words = Some("Duplicate topic name.".to_owned());
    let outcome = create(&mut world, vec![topic("a", 1, 1), topic("a", 3, 1), topic("b", 1, 1)]);
    assert_eq!(outcome, [(ErrorCode::InvalidRequest.code(), words), (0, None)]);
    // New ones do not collide with each other.
    assert_eq!(create(&mut world, vec![topic("c.d_e", 1, 1), topic("c_d.e", 1, 1)]), [(0, None), (0, None)]);
}

#[test]
fn topics_are_deleted_by_name_and_by_id() {
    use ErrorCode::{InvalidRequest, UnknownTopicId, UnknownTopicOrPartition};
    let mut world = World::default();
    create(&mut world, ["a", "b", "c"].map(|name| topic(name, 1, 1)).to_vec());
    let id = support::topic(&mut world, 1, "b").topic_id;
    let by = |name, topic_id| DeleteTopicState { name, topic_id, ..Default::default() };
    let unknown = Uuid([7; 16]);
    let topics = vec![
        by(Some("a"), Uuid::ZERO),
        by(None, id),
        by(None, unknown),
        by(None, Uuid::ZERO),
        by(Some("c"), unknown),
        by(Some("d"), Uuid::ZERO),
        by(Some("c"), Uuid::ZERO),
        by(Some("c"), Uuid::ZERO),
    ];
    let answer = world.call(1, &DeleteTopicsRequest { topics, ..Default::default() }, 6);
    let told: Vec<_> =
        answer.responses.iter().map(|topic| (topic.name, topic.error_code, topic.error_message)).collect();
    assert_eq!(
        told,
        [
            (Some("a"), 0, None),
            (Some("b"), 0, None),
            (None, UnknownTopicId.code(), Some("This server does not host this topic ID.")),
            (None, InvalidRequest.code(), Some("Neither topic name nor id were specified.")),
            (Some("c"), InvalidRequest.code(), Some("You may not specify both topic name and topic id.")),
            (Some("d"), UnknownTopicOrPartition.code(), Some("This server does not host this topic-partition.")),
            (Some("c"), InvalidRequest.code(), Some("Duplicate topic name.")),
        ]
    );
    assert_eq!(answer.responses[1].topic_id, id);
    assert_eq!(support::topic(&mut world, 1, "b").error_code, UnknownTopicOrPartition.code());
    let answer = world.call(1, &DeleteTopicsRequest { topic_names: vec!["c"], ..Default::default() }, 1);
    assert_eq!(answer.responses[0].error_code, 0);
    assert_eq!(support::topic(&mut world, 1, "c").error_code, UnknownTopicOrPartition.code());
}

#[test]
fn deletion_can_be_forbidden() {
    let mut world = World::with(1, &[("delete.topic.enable", "false")]);
    create(&mut world, vec![topic("a", 1, 1)]);
    for (version, error) in [(2, ErrorCode::InvalidRequest), (3, ErrorCode::TopicDeletionDisabled)] {
        let answer = world.call(1, &DeleteTopicsRequest { topic_names: vec!["a"], ..Default::default() }, version);
        assert_eq!(answer.responses[0].error_code, error.code());
    }
}

#[test]
fn partitions_are_added_and_never_taken_away() {
    use ErrorCode::{InvalidPartitions, InvalidReplicaAssignment, UnknownTopicOrPartition};
    let mut world = World::with(2, &[]);
    create(&mut world, vec![topic("a", 2, 1)]);
    let mut add = |name: &str, count: i32, assignments: Option<&[&[i32]]>, validate_only: bool| {
        let assignment = |ids: &&[i32]| CreatePartitionsAssignment { broker_ids: ids.to_vec(), ..Default::default() };
        let assignments = assignments.map(|assignments| assignments.iter().map(assignment).collect());
        let topics = vec![CreatePartitionsTopic { name, count, assignments, ..Default::default() }];
        let request = CreatePartitionsRequest { topics, validate_only, ..Default::default() };
        let answer = world.call(1, &request, 3);
        (answer.results[0].error_code, answer.results[0].error_message.unwrap_or_default().to_owned())
    };
    assert_eq!(add("a", 3, None, true), (0, String::new()));
    assert_eq!(add("a", 3, Some(&[&[2]]), false), (0, String::new()));
    let words = "Topic already has 3 partition(s).".to_owned();
    assert_eq!(add("a", 3, None, false), (InvalidPartitions.code(), words));
    let words = "The topic a currently has 3 partition(s); 2 would not be an increase.".to_owned();
    assert_eq!(add("a", 2, None, false), (InvalidPartitions.code(), words));
    assert_eq!(add("b", 2, None, false), (UnknownTopicOrPartition.code(), String::new()));
    let words = "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.".to_owned();
    assert_eq!(add("a", 5, Some(&[&[1]]), false), (InvalidReplicaAssignment.code(), words));
    let words = "The manual partition assignment includes broker 9, but no such broker is registered.".to_owned();
    assert_eq!(add("a", 4, Some(&[&[9]]), false), (InvalidReplicaAssignment.code(), words));
    let leaders: Vec<i32> = support::topic(&mut world, 1, "a").partitions.iter().map(|p| p.leader_id).collect();
    assert_eq!(leaders, [1, 2, 2]);
}

#[test]
fn a_topics_configs_are_described_with_where_they_come_from() {
    let mut world = World::with(1, &[("log.retention.bytes", "5")]);
    create(&mut world, vec![configured("a", &[("retention.ms", Some("7")), ("max.message.bytes", Some("9"))])]);
    let keys = ["retention.ms", "max.message.bytes", "retention.bytes", "min.insync.replicas", "flush.ms", "nothing"];
    let result = describe(&mut world, TOPIC, "a", &keys);
    let synonyms =
        |all: &[(&str, i8)]| all.iter().map(|(name, source)| ((*name).to_owned(), *source)).collect::<Vec<_>>();
    let expected = [
        ("flush.ms", ("9223372036854775807".to_owned(), 5, vec![])),
        ("max.message.bytes", ("9".to_owned(), 1, synonyms(&[("max.message.bytes", 1), ("message.max.bytes", 5)]))),
        (
            "min.insync.replicas",
            ("1".to_owned(), 3, synonyms(&[("min.insync.replicas", 3), ("min.insync.replicas", 5)])),
        ),
        ("retention.bytes", ("5".to_owned(), 4, synonyms(&[("log.retention.bytes", 4), ("log.retention.bytes", 5)]))),
        ("retention.ms", ("7".to_owned(), 1, synonyms(&[("retention.ms", 1)]))),
    ];
    let names: Vec<&str> = result.configs.iter().map(|config| config.name).collect();
    assert_eq!(names, expected.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    assert_eq!(described(&result), expected.map(|(_, described)| described));
    assert_eq!(result.configs.iter().map(|config| config.config_type).collect::<Vec<_>>(), [5, 3, 3, 5, 5]);
    assert_eq!(describe(&mut world, TOPIC, "a", &[]).configs.len(), 33);
    let error = |result: DescribeConfigsResult<'_>| (result.error_code, result.error_message.map(str::to_owned));
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    assert_eq!(error(describe(&mut world, TOPIC, "b", &[])), (unknown, Some(String::new())));
    assert_eq!(error(describe(&mut world, TOPIC, "b c", &[])).0, ErrorCode::InvalidTopicException.code());
}

#[test]
fn a_topics_configs_change_one_by_one() {
    use ErrorCode::{InvalidConfig, InvalidRequest, UnknownServerError, UnknownTopicOrPartition};
    let mut world = World::default();
    create(&mut world, vec![topic("a", 1, 1)]);
    let value = |world: &mut World, name: &'static str| described(&describe(world, TOPIC, "a", &[name]))[0].0.clone();
    assert_eq!(alter(&mut world, TOPIC, "a", &[("retention.ms", 0, Some("5"))]), (0, None));
    assert_eq!(value(&mut world, "retention.ms"), "5");
    assert_eq!(
        alter(&mut world, TOPIC, "a", &[("retention.ms", 1, None), ("cleanup.policy", 2, Some("compact"))]),
        (0, None)
    );
    assert_eq!(value(&mut world, "retention.ms"), "604800000");
    assert_eq!(value(&mut world, "cleanup.policy"), "delete,compact");
    assert_eq!(alter(&mut world, TOPIC, "a", &[("cleanup.policy", 3, Some("delete"))]), (0, None));
    assert_eq!(value(&mut world, "cleanup.policy"), "compact");
    assert_eq!(alter_or_validate(&mut world, TOPIC, "a", &[("retention.ms", 0, Some("5"))], true), (0, None));
    assert_eq!(value(&mut world, "retention.ms"), "604800000");
    let refusals: [(&str, &[Change<'_>], ErrorCode, &str); 9] = [
        (
            "a",
            &[("retention.ms", 2, Some("5"))],
            InvalidConfig,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        ("a", &[("foo", 3, Some("5"))], InvalidConfig, "Can't SUBTRACT to key foo because its type is not LIST."),
        (
            "a",
            &[("retention.ms", 0, Some("5")), ("retention.ms", 1, None)],
            InvalidRequest,
            "Error due to duplicate config keys",
        ),
        ("a", &[("retention.ms", 0, None)], InvalidRequest, "Null value not supported for : retention.ms"),
        (
            "a",
            &[("cleanup.policy", 2, Some("bogus"))],
            InvalidConfig,
            "Invalid value bogus for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        ("a", &[("foo", 0, Some("5"))], InvalidConfig, "Unknown topic config name: foo"),
        ("b", &[("retention.ms", 0, Some("5"))], UnknownTopicOrPartition, "The topic 'b' does not exist."),
        ("", &[("retention.ms", 0, Some("5"))], InvalidRequest, "Default topic resources are not allowed."),
        ("a", &[("retention.ms", 7, Some("5"))], UnknownServerError, ""),
    ];
    for (name, changes, error, words) in refusals {
        let words = Some(words.to_owned()).filter(|words| !words.is_empty());
        assert_eq!(alter(&mut world, TOPIC, name, changes), (error.code(), words), "{name} {changes:?}");
    }
    assert_eq!(alter(&mut world, 99, "a", &[]), (InvalidRequest.code(), Some("Unknown resource type 99".to_owned())));
}

#[test]
fn brokers_settings_change_while_they_run_if_they_may() {
    use ErrorCode::{InvalidConfig, InvalidRequest};
    let mut world = World::with(2, &[]);
    create(&mut world, vec![topic("a", 1, 1)]);
    assert_eq!(alter(&mut world, BROKER, "", &[("log.retention.bytes", 0, Some("1000"))]), (0, None));
    assert_eq!(alter(&mut world, BROKER, "1", &[("log.retention.ms", 0, Some("7000"))]), (0, None));
    let bytes = describe(&mut world, TOPIC, "a", &["retention.bytes"]);
    let synonyms = vec![("log.retention.bytes".to_owned(), 3), ("log.retention.bytes".to_owned(), 5)];
    assert_eq!(described(&bytes), [("1000".to_owned(), 3, synonyms)]);
    let own = describe(&mut world, BROKER, "1", &["log.retention.ms", "num.partitions"]);
    assert_eq!(
        described(&own),
        [
            ("7000".to_owned(), 2, vec![("log.retention.ms".to_owned(), 2)]),
            ("1".to_owned(), 5, vec![("num.partitions".to_owned(), 5)]),
        ]
    );
    assert_eq!(own.configs.iter().map(|config| config.read_only).collect::<Vec<_>>(), [false, true]);
    let names =
        |result: &DescribeConfigsResult<'_>| result.configs.iter().map(|c| c.name.to_owned()).collect::<Vec<_>>();
    assert_eq!(names(&describe(&mut world, BROKER, "", &[])), ["log.retention.bytes", "min.insync.replicas"]);
    assert_eq!(alter(&mut world, BROKER, "1", &[("log.retention.ms", 1, None)]), (0, None));
    assert_eq!(described(&describe(&mut world, BROKER, "1", &["log.retention.ms"]))[0].0, "null");
    let refusals: [(&str, Change<'_>, ErrorCode, &str); 8] = [
        (
            "1",
            ("num.partitions", 0, Some("7")),
            InvalidRequest,
            "Cannot update these configs dynamically: [num.partitions]",
        ),
        (
            "",
            ("num.partitions", 0, Some("7")),
            InvalidRequest,
            "Cannot update these configs dynamically: [num.partitions]",
        ),
        (
            "1",
            ("log.retention.ms", 0, Some("x")),
            InvalidRequest,
            "Invalid value x for configuration log.retention.ms: Not a number of type LONG",
        ),
        (
            "1",
            ("message.max.bytes", 0, Some("-1")),
            InvalidRequest,
            "Invalid value -1 for configuration message.max.bytes: Value must be at least 0",
        ),
        ("2", ("log.retention.ms", 0, Some("1")), InvalidRequest, "Unexpected broker id, expected 1, but received 2"),
        ("x", ("log.retention.ms", 0, Some("1")), InvalidRequest, "Node id must be an integer, but it is: x"),
        (
            "",
            ("min.insync.replicas", 1, None),
            InvalidConfig,
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
        ),
        (
            "1",
            ("min.insync.replicas", 0, Some("1")),
            InvalidConfig,
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        ),
    ];
    for (node, change, error, words) in refusals {
        let outcome = alter(&mut world, BROKER, node, &[change]);
        assert_eq!(outcome, (error.code(), Some(words.to_owned())), "{node} {change:?}");
    }
    let other = describe(&mut world, BROKER, "2", &[]);
    let words = "Unexpected broker id, expected 1 or empty string, but received 2";
    assert_eq!((other.error_code, other.error_message), (InvalidRequest.code(), Some(words)));
}

#[test]
fn groups_have_configs_within_the_brokers_limits() {
    let mut world = World::default();
    assert_eq!(alter(&mut world, GROUP, "g", &[("consumer.session.timeout.ms", 0, Some("50000"))]), (0, None));
    let session = describe(&mut world, GROUP, "g", &["consumer.session.timeout.ms"]);
    let synonyms =
        vec![("consumer.session.timeout.ms".to_owned(), 8), ("group.consumer.session.timeout.ms".to_owned(), 5)];
    assert_eq!(described(&session), [("50000".to_owned(), 8, synonyms)]);
    let least = "must be greater than or equal to group.consumer.min";
    let most = "must be less than or equal to group.consumer.max";
    for (name, value, words) in [
        ("consumer.session.timeout.ms", "100", format!("consumer.session.timeout.ms {least}.session.timeout.ms")),
        ("consumer.session.timeout.ms", "70000", format!("consumer.session.timeout.ms {most}.session.timeout.ms")),
        (
            "consumer.heartbeat.interval.ms",
            "100",
            format!("consumer.heartbeat.interval.ms {least}.heartbeat.interval.ms"),
        ),
        ("foo", "100", "Unknown group config name: foo".to_owned()),
    ] {
        let outcome = alter(&mut world, GROUP, "g", &[(name, 0, Some(value))]);
        assert_eq!(outcome, (ErrorCode::InvalidConfig.code(), Some(words)));
    }
    let words = "Default group resources are not allowed.".to_owned();
    let outcome = alter(&mut world, GROUP, "", &[("consumer.session.timeout.ms", 0, Some("50000"))]);
    assert_eq!(outcome, (ErrorCode::InvalidRequest.code(), Some(words)));
}

#[test]
fn the_cluster_is_described() {
    let mut world = World::with(3, &[]);
    let request = DescribeClusterRequest { include_cluster_authorized_operations: true, ..Default::default() };
    let answer = world.call(3, &request, 2);
    assert_eq!(answer.brokers.iter().map(|broker| broker.broker_id).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!((answer.error_code, answer.cluster_authorized_operations), (0, 8096));
    for (endpoint_type, error) in [(2, ErrorCode::MismatchedEndpointType), (3, ErrorCode::UnsupportedEndpointType)] {
        let answer = world.call(1, &DescribeClusterRequest { endpoint_type, ..Default::default() }, 1);
        assert_eq!(answer.error_code, error.code());
    }
}

#[test]
fn each_node_has_a_directory_with_its_replicas() {
    let mut world = World::with(2, &[]);
    create(&mut world, vec![assigned("a", &[(0, &[1, 2])]), assigned("b", &[(0, &[1]), (1, &[2])])]);
    world.control(json!({"command": "append", "topic": "a", "partition": 0, "records": [{"value": "v"}]}));
    let mut held = |node, topics: Option<&[(&str, &[i32])]>| {
        let topic = |&(topic, partitions): &(_, &[i32])| DescribableLogDirTopic {
            topic,
            partitions: partitions.to_vec(),
            ..Default::default()
        };
        let topics = topics.map(|topics| topics.iter().map(topic).collect());
        let answer = world.call(node, &DescribeLogDirsRequest { topics, ..Default::default() }, 5);
        assert_eq!((answer.error_code, answer.results.len(), answer.results[0].log_dir), (0, 1, "/memory"));
        let partitions = answer.results[0].topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(|at| (format!("{}-{}", topic.name, at.partition_index), at.partition_size > 0))
        });
        partitions.collect::<Vec<_>>()
    };
    let told = |name: &str, filled| (name.to_owned(), filled);
    assert_eq!(held(1, None), [told("a-0", true), told("b-0", false)]);
    assert_eq!(held(2, None), [told("a-0", true), told("b-1", false)]);
    assert_eq!(held(1, Some(&[("a", &[0, 7]), ("b", &[1]), ("missing", &[0])])), [told("a-0", true)]);
    assert_eq!(held(2, Some(&[])), []);
}

#[test]
fn features_tell_clients_what_they_may_do() {
    let mut world = World::default();
    let request = ApiVersionsRequest { client_software_name: "x", client_software_version: "1", ..Default::default() };
    let answer = world.call(1, &request, 4);
    let supported: Vec<_> = answer.supported_features.iter().map(|f| (f.name, f.min_version, f.max_version)).collect();
    assert_eq!(supported, [("metadata.version", 7, 30), ("group.version", 0, 1), ("transaction.version", 0, 2)]);
    let finalized: Vec<_> =
        answer.finalized_features.iter().map(|f| (f.name, f.min_version_level, f.max_version_level)).collect();
    assert_eq!(finalized, [("metadata.version", 30, 30), ("group.version", 1, 1), ("transaction.version", 2, 2)]);
    assert!(answer.finalized_features_epoch >= 0);
    // Version 3 cannot carry a lowest version of 0.
    let names: Vec<_> = world.call(1, &request, 3).supported_features.iter().map(|f| f.name).collect();
    assert_eq!(names, ["metadata.version"]);
    // librdkafka takes this for a sign of compression.
    let produce = answer.api_keys.iter().find(|api| api.api_key == 0).unwrap();
    assert_eq!((produce.min_version, produce.max_version), (0, 13));
}

fn metadata(
    world: &mut World,
    topics: &[(Option<&'static str>, Uuid)],
    version: i16,
    operations: bool,
) -> MetadataResponse<'static> {
    let topic = |&(name, topic_id): &(Option<&'static str>, Uuid)| MetadataRequestTopic {
        name,
        topic_id,
        ..Default::default()
    };
    let request = MetadataRequest {
        topics: Some(topics.iter().map(topic).collect()),
        allow_auto_topic_creation: version < 4,
        include_topic_authorized_operations: operations,
        ..Default::default()
    };
    world.call(1, &request, version)
}

#[test]
fn metadata_looks_topics_up_by_name_and_by_id() {
    use ErrorCode::{
        InvalidRequest, InvalidTopicException, UnknownServerError, UnknownTopicId, UnknownTopicOrPartition,
    };
    let mut world = World::with(1, &[("auto.create.topics.enable", "false")]);
    create(&mut world, vec![topic("a", 2, 1)]);
    let id = support::topic(&mut world, 1, "a").topic_id;
    let unknown = Uuid([7; 16]);
    let told = |answer: &MetadataResponse<'_>| {
        answer.topics.iter().map(|t| (t.error_code, t.name.map(str::to_owned))).collect::<Vec<_>>()
    };
    let name = |name: &str| Some(name.to_owned());
    let by_name =
        [(Some("a"), Uuid::ZERO), (Some("b"), Uuid::ZERO), (Some("a"), Uuid::ZERO), (Some("b c"), Uuid::ZERO)];
    for version in [1, 9, 13] {
        let by_name = &by_name;
        let expected =
            [(0, name("a")), (UnknownTopicOrPartition.code(), name("b")), (InvalidTopicException.code(), name("b c"))];
        assert_eq!(told(&metadata(&mut world, by_name, version, false)), expected, "version {version}");
    }
    // An id leaves those that go by name unanswered.
    let mixed = [(None, id), (None, unknown), (Some("a"), Uuid::ZERO)];
    assert_eq!(told(&metadata(&mut world, &mixed, 13, false)), [(0, name("a")), (UnknownTopicId.code(), None)]);
    let answer = metadata(&mut world, &[(Some("a"), id)], 10, false);
    assert_eq!((told(&answer), answer.brokers.len()), (vec![(InvalidRequest.code(), name("a"))], 0));
    let answer = metadata(&mut world, &[(None, Uuid::ZERO)], 12, false);
    assert_eq!(answer.topics[0].error_code, UnknownServerError.code());
    let operations: Vec<_> = metadata(&mut world, &[(Some("a"), Uuid::ZERO), (Some("b"), Uuid::ZERO)], 13, true)
        .topics
        .iter()
        .map(|topic| topic.topic_authorized_operations)
        .collect();
    assert_eq!(operations, [3576, 3576]);
}

#[test]
fn partitions_of_nodes_that_are_down_are_told() {
    let mut world = World::with(2, &[]);
    create(&mut world, vec![assigned("a", &[(0, &[2])]), assigned("b", &[(0, &[2, 1])])]);
    world.control(json!({"command": "stop_node", "node": 2}));
    let both = [(Some("a"), Uuid::ZERO), (Some("b"), Uuid::ZERO)];
    let answer = metadata(&mut world, &both, 9, false);
    let partitions = |answer: &MetadataResponse<'static>| {
        answer.topics.iter().map(|topic| topic.partitions[0].clone()).collect::<Vec<_>>()
    };
    let told: Vec<_> = partitions(&answer)
        .into_iter()
        .map(|p| (p.error_code, p.leader_id, p.leader_epoch, p.replica_nodes, p.isr_nodes, p.offline_replicas))
        .collect();
    let leaderless = ErrorCode::LeaderNotAvailable.code();
    assert_eq!(told, [(leaderless, -1, 1, vec![2], vec![2], vec![2]), (0, 1, 1, vec![2, 1], vec![1], vec![2])]);
    // The oldest clients hear only of replicas that they can connect to.
    let answer = metadata(&mut world, &both, 0, false);
    let told: Vec<_> = partitions(&answer).into_iter().map(|p| (p.error_code, p.replica_nodes)).collect();
    assert_eq!(told, [(leaderless, vec![]), (ErrorCode::ReplicaNotAvailable.code(), vec![1])]);
}

/// Code and words of one partition's election.
fn elect(world: &mut World, election_type: i8, name: &str, partition: i32) -> (i16, String) {
    let topic_partitions =
        Some(vec![TopicPartitions { topic: name, partitions: vec![partition], ..Default::default() }]);
    let request = ElectLeadersRequest { election_type, topic_partitions, ..Default::default() };
    let result = &world.call(1, &request, 2).replica_election_results[0].partition_result[0];
    (result.error_code, result.error_message.unwrap_or_default().to_owned())
}

#[test]
fn leaders_are_elected() {
    use ErrorCode::{
        ElectionNotNeeded, EligibleLeadersNotAvailable, InvalidRequest, PreferredLeaderNotAvailable,
        UnknownTopicOrPartition,
    };
    let mut world = World::with(3, &[]);
    create(&mut world, vec![assigned("a", &[(0, &[2, 3])]), assigned("b", &[(0, &[3])])]);
    let not_needed = (ElectionNotNeeded.code(), "Leader election not needed for topic partition.".to_owned());
    let nothing = UnknownTopicOrPartition.code();
    assert_eq!(elect(&mut world, 0, "a", 0), not_needed);
    assert_eq!(elect(&mut world, 1, "a", 0), not_needed);
    assert_eq!(elect(&mut world, 0, "a", 9), (nothing, "No such partition as a-9".to_owned()));
    assert_eq!(elect(&mut world, 0, "c", 0), (nothing, "No such topic as c".to_owned()));
    assert_eq!(elect(&mut world, 2, "a", 0), (InvalidRequest.code(), "Unknown election type 2".to_owned()));
    world.control(json!({"command": "stop_node", "node": 2}));
    assert_eq!(elect(&mut world, 0, "a", 0).0, PreferredLeaderNotAvailable.code());
    world.control(json!({"command": "start_node", "node": 2}));
    // It is back and in sync, and leads again when that is asked for: here for all partitions.
    let leader = |world: &mut World| support::topic(world, 1, "a").partitions[0].leader_id;
    assert_eq!(leader(&mut world), 3);
    let answer = world.call(1, &ElectLeadersRequest { topic_partitions: None, ..Default::default() }, 2);
    let results = &answer.replica_election_results[0].partition_result;
    assert_eq!((results.len(), results[0].partition_id, results[0].error_code), (1, 0, 0));
    assert_eq!(leader(&mut world), 2);
    // Only node 2 is in sync, and goes: nobody leads before someone may who is not.
    world.control(json!({"command": "set_isr", "topic": "a", "partition": 0, "isr": [2]}));
    world.control(json!({"command": "stop_node", "node": 2}));
    assert_eq!(leader(&mut world), -1);
    assert_eq!(elect(&mut world, 0, "a", 0).0, PreferredLeaderNotAvailable.code());
    assert_eq!(elect(&mut world, 1, "a", 0), (0, String::new()));
    assert_eq!(leader(&mut world), 3);
    world.control(json!({"command": "stop_node", "node": 3}));
    assert_eq!(elect(&mut world, 1, "b", 0).0, EligibleLeadersNotAvailable.code());
}

/// Topics with their error and partitions, and where the next page begins.
type Page = (Vec<(String, i16, Vec<i32>)>, Option<(String, i32)>);

fn page(world: &mut World, names: &[&'static str], limit: i32, cursor: Option<(&'static str, i32)>) -> Page {
    let topics = names.iter().map(|name| TopicRequest { name, ..Default::default() }).collect();
    let cursor =
        cursor.map(|(topic_name, partition_index)| Cursor { topic_name, partition_index, ..Default::default() });
    let request =
        DescribeTopicPartitionsRequest { topics, response_partition_limit: limit, cursor, ..Default::default() };
    let answer = world.call(1, &request, 0);
    let topic =
        |topic: &monedula_protocol::messages::describe_topic_partitions::DescribeTopicPartitionsResponseTopic<'_>| {
            let partitions = topic.partitions.iter().map(|partition| partition.partition_index).collect();
            (topic.name.unwrap().to_owned(), topic.error_code, partitions)
        };
    let next = answer.next_cursor.map(|cursor| (cursor.topic_name.to_owned(), cursor.partition_index));
    (answer.topics.iter().map(topic).collect(), next)
}

#[test]
fn topics_are_described_a_page_at_a_time() {
    let mut world = World::default();
    create(&mut world, vec![topic("b", 3, 1), topic("a", 2, 1)]);
    let one = |name: &str, error: ErrorCode, partitions: &[i32]| (name.to_owned(), error.code(), partitions.to_vec());
    let (a, b) = (one("a", ErrorCode::None, &[0, 1]), one("b", ErrorCode::None, &[0, 1, 2]));
    assert_eq!(page(&mut world, &[], 2000, None), (vec![a.clone(), b.clone()], None));
    let next = Some(("b".to_owned(), 0));
    assert_eq!(page(&mut world, &["b", "a"], 2, None), (vec![a.clone()], next));
    let first = one("b", ErrorCode::None, &[0]);
    assert_eq!(page(&mut world, &[], 3, None), (vec![a.clone(), first], Some(("b".to_owned(), 1))));
    let rest = one("b", ErrorCode::None, &[1, 2]);
    assert_eq!(page(&mut world, &["a", "b"], 3, Some(("b", 1))), (vec![rest], None));
    assert_eq!(page(&mut world, &["b"], 0, None).1, Some(("b".to_owned(), 1)));
    let missing = one("c", ErrorCode::UnknownTopicOrPartition, &[]);
    assert_eq!(page(&mut world, &["c", "a", "a"], 9, None), (vec![a, missing], None));
    for cursor in [("b", -1), ("z", 0)] {
        let refused = one("b", ErrorCode::InvalidRequest, &[]);
        assert_eq!(page(&mut world, &["b"], 9, Some(cursor)), (vec![refused], None));
    }
    assert_eq!(page(&mut world, &["b c"], 9, None).0, [one("b c", ErrorCode::InvalidTopicException, &[])]);
    assert_eq!(page(&mut world, &[""], 9, None).0, [one("", ErrorCode::UnknownServerError, &[])]);
}
