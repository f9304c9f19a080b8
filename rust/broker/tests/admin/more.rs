//! The requests of old clients and tools: AlterConfigs, ListConfigResources, DescribeQuorum, AlterReplicaLogDirs and
//! UpdateFeatures; and the static broker configs.

use monedula_broker::settings::Settings;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::alter_configs::{AlterConfigsRequest, AlterConfigsResource, AlterableConfig};
use monedula_protocol::messages::alter_replica_log_dirs::{
    AlterReplicaLogDir, AlterReplicaLogDirTopic, AlterReplicaLogDirsRequest,
};
use monedula_protocol::messages::describe_quorum::{DescribeQuorumRequest, RequestedPartition, RequestedTopic};
use monedula_protocol::messages::list_config_resources::ListConfigResourcesRequest;
use monedula_protocol::messages::update_features::{FeatureUpdateKey, UpdateFeaturesRequest};
use serde_json::json;

use crate::helpers::{BROKER, GROUP, TOPIC, alter, assigned, configured, create, describe, described};
use crate::support::World;

/// Replaces a resource's configs with AlterConfigs. Returns the error code and message.
fn replace(
    world: &mut World,
    (resource_type, resource_name): (i8, &str),
    configs: &[(&str, Option<&str>)],
    version: i16,
) -> (ErrorCode, String) {
    let config = |&(name, value)| AlterableConfig { name, value, ..Default::default() };
    let configs = configs.iter().map(config).collect();
    let resource = AlterConfigsResource { resource_type, resource_name, configs, ..Default::default() };
    let request = AlterConfigsRequest { resources: vec![resource], ..Default::default() };
    let answer = world.call(1, &request, version);
    let outcome = &answer.responses[0];
    assert_eq!((outcome.resource_type, outcome.resource_name), (resource_type, resource_name));
    (ErrorCode::from_code(outcome.error_code), outcome.error_message.unwrap_or_default().to_owned())
}

const DONE: (ErrorCode, String) = (ErrorCode::None, String::new());

#[test]
fn configs_that_are_not_named_are_taken_back() {
    for version in 0..=2 {
        let mut world = World::default();
        create(&mut world, vec![configured("a", &[("retention.ms", Some("7")), ("cleanup.policy", Some("compact"))])]);
        assert_eq!(replace(&mut world, (TOPIC, "a"), &[("retention.ms", Some("9"))], version), DONE);
        let left = described(&describe(&mut world, TOPIC, "a", &["cleanup.policy", "retention.ms"]));
        assert_eq!((left[0].0.as_str(), left[0].1), ("delete", 5));
        assert_eq!((left[1].0.as_str(), left[1].1), ("9", 1));
        assert_eq!(replace(&mut world, (TOPIC, "a"), &[], version), DONE);
        assert_eq!(described(&describe(&mut world, TOPIC, "a", &["retention.ms"]))[0].1, 5);
        alter(&mut world, GROUP, "g", &[("consumer.session.timeout.ms", 0, Some("50000"))]);
        assert_eq!(replace(&mut world, (GROUP, "g"), &[], version), DONE);
        assert_eq!(described(&describe(&mut world, GROUP, "g", &["consumer.session.timeout.ms"]))[0].1, 5);
        assert_eq!(replace(&mut world, (BROKER, "1"), &[("log.retention.ms", Some("7"))], version), DONE);
        assert_eq!(described(&describe(&mut world, BROKER, "1", &["log.retention.ms"]))[0].0, "7");
    }
}

#[test]
fn what_cannot_be_replaced_is_refused_in_kafkas_words() {
    use ErrorCode::{InvalidConfig, InvalidRequest, InvalidTopicException, UnknownTopicOrPartition};
    let mut world = World::default();
    create(&mut world, vec![configured("a", &[("retention.ms", Some("7"))])]);
    type Case<'a> = ((i8, &'a str), &'a [(&'a str, Option<&'a str>)], ErrorCode, &'a str);
    let cases: [Case<'_>; 11] = [
        ((TOPIC, "a"), &[("foo", Some("1"))], InvalidConfig, "Unknown topic config name: foo"),
        ((TOPIC, "a"), &[("retention.ms", None)], InvalidRequest, "Null value not supported for : retention.ms"),
        (
            (TOPIC, "a"),
            &[("retention.ms", Some("1")), ("retention.ms", Some("1"))],
            InvalidRequest,
            "Error due to duplicate config keys",
        ),
        (
            (TOPIC, "a"),
            &[("min.compaction.lag.ms", Some("9")), ("max.compaction.lag.ms", Some("8"))],
            InvalidConfig,
            "conflict topic config setting min.compaction.lag.ms (9) > max.compaction.lag.ms (8)",
        ),
        ((TOPIC, "b"), &[], UnknownTopicOrPartition, "The topic 'b' does not exist."),
        ((TOPIC, "b"), &[("foo", Some("1"))], InvalidConfig, "Unknown topic config name: foo"),
        ((TOPIC, ""), &[], InvalidRequest, "Default topic resources are not allowed."),
        (
            (BROKER, ""),
            &[("log.retention.ms", Some("1"))],
            InvalidConfig,
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
        ),
        (
            (BROKER, "1"),
            &[("listeners", Some("PLAINTEXT://:1")), ("num.partitions", Some("2"))],
            InvalidRequest,
            "Cannot update these configs dynamically: [listeners, num.partitions]",
        ),
        ((8, "1"), &[("root", Some("INFO"))], InvalidRequest, "Unknown resource type 8"),
        ((16, "m"), &[], InvalidRequest, "Unknown resource type 16"),
    ];
    for (resource, configs, error, words) in cases {
        assert_eq!(replace(&mut world, resource, configs, 2), (error, words.to_owned()), "{resource:?} {configs:?}");
    }
    assert_eq!(replace(&mut world, (TOPIC, "a b"), &[], 2).0, InvalidTopicException);
    // None of the changes was applied.
    assert_eq!(described(&describe(&mut world, TOPIC, "a", &["retention.ms"]))[0].0, "7");
    let twice = AlterConfigsResource { resource_type: TOPIC, resource_name: "a", ..Default::default() };
    let request = AlterConfigsRequest { resources: vec![twice.clone(), twice], ..Default::default() };
    let answer = world.call(1, &request, 2);
    assert!(answer.responses.iter().all(|outcome| outcome.error_code == InvalidRequest.code()), "{answer:?}");
}

/// The search for duplicates among 100,000 resources must not take quadratic time.
#[test]
fn many_resources_are_looked_at_once_each() {
    let mut world = World::default();
    let names: Vec<String> = (0..100_000).map(|number| number.to_string()).collect();
    let resource = |name| AlterConfigsResource { resource_type: TOPIC, resource_name: name, ..Default::default() };
    let resources = names.iter().map(|name| resource(name)).collect();
    let answer = world.call(1, &AlterConfigsRequest { resources, ..Default::default() }, 2);
    assert_eq!(answer.responses.len(), names.len());
}

#[test]
fn what_has_configs_is_listed_by_type() {
    let mut world = World::with(2, &[]);
    create(&mut world, vec![configured("a", &[])]);
    alter(&mut world, GROUP, "g", &[("consumer.session.timeout.ms", 0, Some("50000"))]);
    let mut list = |types: &[i8], version| {
        let request = ListConfigResourcesRequest { resource_types: types.to_vec(), ..Default::default() };
        let answer = world.call(1, &request, version);
        let resources = answer.config_resources.iter().map(|one| (one.resource_type, one.resource_name.to_owned()));
        (ErrorCode::from_code(answer.error_code), resources.collect::<Vec<_>>())
    };
    let expected = |all: &[(i8, &str)]| all.iter().map(|&(kind, name)| (kind, name.to_owned())).collect::<Vec<_>>();
    let all = [(32, "g"), (8, "1"), (8, "2"), (4, "1"), (4, "2"), (2, "a")];
    assert_eq!(list(&[], 1), (ErrorCode::None, expected(&all)));
    assert_eq!(list(&[2, 2], 1), (ErrorCode::None, expected(&[(2, "a")])));
    assert_eq!(list(&[16], 1), (ErrorCode::None, vec![]));
    assert_eq!(list(&[], 0), (ErrorCode::None, vec![]));
    assert_eq!(list(&[2, 77], 1), (ErrorCode::UnsupportedVersion, vec![]));
}

#[test]
fn the_quorum_is_led_by_the_controller_that_metadata_names() {
    let mut world = World::with(3, &[]);
    let ask = |world: &mut World, node, topic_name, indexes: &[i32]| {
        let partition = |&partition_index: &i32| RequestedPartition { partition_index, ..Default::default() };
        let partitions = indexes.iter().map(partition).collect();
        let topics = vec![RequestedTopic { topic_name, partitions, ..Default::default() }];
        world.call(node, &DescribeQuorumRequest { topics, ..Default::default() }, 2)
    };
    let before = ask(&mut world, 3, "__cluster_metadata", &[0]);
    let partition = &before.topics[0].partitions[0];
    assert_eq!((before.error_code, partition.error_code, partition.leader_id), (0, 0, 1));
    assert_eq!(partition.current_voters.iter().map(|voter| voter.replica_id).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(partition.observers.is_empty());
    assert_eq!(before.nodes.iter().map(|node| node.node_id).collect::<Vec<_>>(), [1, 2, 3]);
    create(&mut world, vec![configured("a", &[])]);
    world.control(json!({"command": "stop_node", "node": 1}));
    let after = ask(&mut world, 2, "__cluster_metadata", &[0]);
    let (old, new) = (partition, &after.topics[0].partitions[0]);
    assert_eq!((new.leader_id, new.leader_epoch), (2, old.leader_epoch + 1));
    assert!(new.high_watermark > old.high_watermark);
    assert_eq!(
        new.current_voters.iter().map(|voter| voter.log_end_offset >= 0).collect::<Vec<_>>(),
        [false, true, true]
    );
    for (topic, indexes) in [("other", &[0][..]), ("__cluster_metadata", &[1]), ("__cluster_metadata", &[0, 1])] {
        let answer = ask(&mut world, 2, topic, indexes);
        let errors: Vec<_> = answer.topics[0].partitions.iter().map(|partition| partition.error_code).collect();
        assert_eq!(errors, vec![ErrorCode::UnknownTopicOrPartition.code(); indexes.len()]);
    }
}

#[test]
fn replicas_can_be_moved_to_where_they_are() {
    use ErrorCode::{
        InvalidTopicException, LogDirNotFound, None as Done, ReplicaNotAvailable, UnknownTopicOrPartition,
    };
    let mut world = World::with(2, &[]);
    create(&mut world, vec![assigned("a", &[(0, &[1]), (1, &[2])])]);
    let long = "x".repeat(220);
    let mut moved = |dirs: &[(&str, &str, &[i32])]| {
        let dir = |&(path, name, partitions): &(&'static str, &str, &[i32])| {
            let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
            let topics = vec![AlterReplicaLogDirTopic { name, partitions: partitions.to_vec(), ..Default::default() }];
            AlterReplicaLogDir { path, topics, ..Default::default() }
        };
        let leaked: Vec<(&'static str, &str, &[i32])> = dirs
            .iter()
            .map(|(path, name, at)| (&*Box::leak((*path).to_owned().into_boxed_str()), *name, *at))
            .collect();
        let request = AlterReplicaLogDirsRequest { dirs: leaked.iter().map(dir).collect(), ..Default::default() };
        let answer = world.call(1, &request, 2);
        let outcomes = answer.results.iter().flat_map(|topic| &topic.partitions);
        outcomes.map(|one| (one.partition_index, ErrorCode::from_code(one.error_code))).collect::<Vec<_>>()
    };
    assert_eq!(moved(&[("/memory", "a", &[0])]), [(0, Done)]);
    assert_eq!(moved(&[("/memory", "a", &[1, 7])]), [(1, ReplicaNotAvailable), (7, UnknownTopicOrPartition)]);
    assert_eq!(moved(&[("/elsewhere", "a", &[0])]), [(0, LogDirNotFound)]);
    assert_eq!(moved(&[("/memory", "a", &[0]), ("/elsewhere", "a", &[0])]), [(0, LogDirNotFound)]);
    assert_eq!(moved(&[("/memory", &long, &[0])]), [(0, InvalidTopicException)]);
    assert_eq!(moved(&[]), []);
}

#[test]
fn features_stand_still() {
    let mut world = World::default();
    let mut update = |updates: &[(&'static str, i16, i8)], version| {
        let update = |&(feature, max_version_level, upgrade_type): &(&'static str, i16, i8)| FeatureUpdateKey {
            feature,
            max_version_level,
            upgrade_type,
            ..Default::default()
        };
        let feature_updates = updates.iter().map(update).collect();
        let answer = world.call(1, &UpdateFeaturesRequest { feature_updates, ..Default::default() }, version);
        (ErrorCode::from_code(answer.error_code), answer.results.len())
    };
    assert_eq!(update(&[("group.version", 1, 1), ("transaction.version", 2, 1)], 1), (ErrorCode::None, 2));
    assert_eq!(update(&[("group.version", 1, 1)], 2), (ErrorCode::None, 0));
    let refused = [("group.version", 99, 1), ("group.version", -1, 1), ("group.version", 0, 1), ("no.such", 1, 1)];
    for one in refused.into_iter().chain([("group.version", 0, 2), ("group.version", 1, 9), ("metadata.version", 1, 3)])
    {
        for version in 1..=2 {
            let outcome = update(&[("transaction.version", 2, 1), one], version);
            assert_eq!(outcome, (ErrorCode::InvalidUpdateVersion, 0), "{one:?}");
        }
    }
}

#[test]
fn a_broker_tells_where_it_is_and_what_it_is() {
    let settings =
        Settings { nodes: 2, first_node_id: 1, racks: vec![String::new(), "b".to_owned()], ..Settings::default() };
    let mut world = World::new(settings);
    let keys = ["broker.id", "broker.rack", "listeners", "log.cleaner.threads", "log.dirs", "node.id", "process.roles"];
    let told = describe(&mut world, BROKER, "1", &keys);
    let names: Vec<&str> = told.configs.iter().map(|config| config.name).collect();
    assert_eq!(names, keys);
    let values: Vec<_> = described(&told).into_iter().map(|(value, source, _)| (value, source)).collect();
    let expected = [
        ("1", 4),
        ("null", 5),
        ("PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0", 4),
        ("1", 5),
        ("/memory", 4),
        ("1", 4),
        ("broker,controller", 4),
    ];
    assert_eq!(values, expected.map(|(value, source)| (value.to_owned(), source)));
    let read_only: Vec<_> = told.configs.iter().map(|config| config.read_only).collect();
    assert_eq!(read_only, [true, true, true, false, true, true, true]);
    // Kafka lets this config be changed. This broker stores the value, which has no effect.
    assert_eq!(alter(&mut world, BROKER, "1", &[("log.cleaner.threads", 0, Some("2"))]), (0, None));
    assert_eq!(described(&describe(&mut world, BROKER, "1", &["log.cleaner.threads"]))[0].0, "2");
    let (code, words) = alter(&mut world, BROKER, "1", &[("log.cleaner.threads", 0, Some("many"))]);
    assert_eq!(code, ErrorCode::InvalidRequest.code(), "{words:?}");
    assert!(describe(&mut world, BROKER, "1", &[]).configs.len() > 100);
}

#[test]
fn nodes_have_ids_from_the_first_on() {
    let mut world = World::new(Settings { nodes: 2, first_node_id: 0, ..Settings::default() });
    create_on(&mut world, 0);
    let told = crate::support::topic(&mut world, 1, "a");
    let replicas: Vec<_> =
        told.partitions.iter().map(|partition| (partition.leader_id, &partition.isr_nodes[..])).collect();
    assert_eq!(replicas, [(0, &[0, 1][..]), (1, &[1, 0])]);
    for (nodes, first_node_id) in [(1, -1), (2, i32::MAX)] {
        let settings = Settings { nodes, first_node_id, ..Settings::default() };
        let error = monedula_broker::core::Core::new(settings, 0).unwrap_err().to_string();
        assert!(error.starts_with("first_node_id: "), "{error}");
    }
}

fn create_on(world: &mut World, node: i32) {
    let request = monedula_protocol::messages::create_topics::CreateTopicsRequest {
        topics: vec![crate::helpers::topic("a", 2, 2)],
        ..Default::default()
    };
    assert_eq!(world.call(node, &request, 7).topics[0].error_code, 0);
}
