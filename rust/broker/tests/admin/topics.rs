//! Topics and partitions, created and deleted.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::create_partitions::{
    CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic,
};
use monedula_protocol::messages::create_topics::{CreatableTopic, CreateTopicsRequest};
use monedula_protocol::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use monedula_protocol::types::Uuid;

use crate::helpers::{assigned, configured, create, refused, topic};
use crate::support::World;

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
    assert_eq!(configs.len(), 37);
    let retention = configs.iter().find(|config| config.name == "retention.ms").unwrap();
    assert_eq!((retention.value, retention.config_source), (Some("7"), 1));
    let replicas = |world: &mut World| -> Vec<Vec<i32>> {
        crate::support::topic(world, 1, "c").partitions.into_iter().map(|partition| partition.replica_nodes).collect()
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
    assert_eq!(crate::support::topic(&mut world, 1, "a").error_code, ErrorCode::UnknownTopicOrPartition.code());
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
    // The topics of one request do not collide with each other.
    assert_eq!(create(&mut world, vec![topic("c.d_e", 1, 1), topic("c_d.e", 1, 1)]), [(0, None), (0, None)]);
}

#[test]
fn topics_are_deleted_by_name_and_by_id() {
    use ErrorCode::{InvalidRequest, UnknownTopicId, UnknownTopicOrPartition};
    let mut world = World::default();
    create(&mut world, ["a", "b", "c"].map(|name| topic(name, 1, 1)).to_vec());
    let id = crate::support::topic(&mut world, 1, "b").topic_id;
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
    let answer = world.call(1, &DeleteTopicsRequest { topics, timeout_ms: 1000, ..Default::default() }, 6);
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
    assert_eq!(crate::support::topic(&mut world, 1, "b").error_code, UnknownTopicOrPartition.code());
    let answer =
        world.call(1, &DeleteTopicsRequest { topic_names: vec!["c"], timeout_ms: 1000, ..Default::default() }, 1);
    assert_eq!(answer.responses[0].error_code, 0);
    assert_eq!(crate::support::topic(&mut world, 1, "c").error_code, UnknownTopicOrPartition.code());
}

#[test]
fn deletion_can_be_forbidden() {
    let mut world = World::with(1, &[("delete.topic.enable", "false")]);
    create(&mut world, vec![topic("a", 1, 1)]);
    for (version, error) in [(2, ErrorCode::InvalidRequest), (3, ErrorCode::TopicDeletionDisabled)] {
        let request = DeleteTopicsRequest { topic_names: vec!["a"], timeout_ms: 1000, ..Default::default() };
        let answer = world.call(1, &request, version);
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
        let request = CreatePartitionsRequest { topics, validate_only, timeout_ms: 1000, ..Default::default() };
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
    let leaders: Vec<i32> = crate::support::topic(&mut world, 1, "a").partitions.iter().map(|p| p.leader_id).collect();
    assert_eq!(leaders, [1, 2, 2]);
}
