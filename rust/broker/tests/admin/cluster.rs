//! The description of the cluster: ApiVersions, Metadata, DescribeCluster, DescribeLogDirs, DescribeTopicPartitions;
//! and ElectLeaders.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::api_versions::ApiVersionsRequest;
use monedula_protocol::messages::describe_cluster::DescribeClusterRequest;
use monedula_protocol::messages::describe_log_dirs::{DescribableLogDirTopic, DescribeLogDirsRequest};
use monedula_protocol::messages::describe_topic_partitions::{Cursor, DescribeTopicPartitionsRequest, TopicRequest};
use monedula_protocol::messages::elect_leaders::{ElectLeadersRequest, TopicPartitions};
use monedula_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};
use monedula_protocol::types::Uuid;
use serde_json::json;

use crate::helpers::{assigned, create, topic};
use crate::support::World;

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
    let (elr, share, kraft) = ("eligible.leader.replicas.version", "share.version", "kraft.version");
    let of_groups = [("metadata.version", 7, 33), ("group.version", 0, 1), ("transaction.version", 0, 2)];
    assert_eq!(supported[..3], of_groups);
    assert_eq!(supported[3..], [(share, 0, 2), (elr, 0, 1), (kraft, 0, 1)]);
    let finalized: Vec<_> =
        answer.finalized_features.iter().map(|f| (f.name, f.min_version_level, f.max_version_level)).collect();
    let of_groups = [("metadata.version", 33, 33), ("group.version", 1, 1), ("transaction.version", 2, 2)];
    assert_eq!(finalized[..3], of_groups);
    assert_eq!(finalized[3..], [(share, 2, 2), (elr, 1, 1)], "a feature at level 0 is not finalized");
    assert!(answer.finalized_features_epoch >= 0);
    // Before version 4 a feature with the lowest version 0 is left out, because older clients refuse it.
    let names: Vec<_> = world.call(1, &request, 3).supported_features.iter().map(|f| f.name).collect();
    assert_eq!(names, ["metadata.version"]);
    // librdkafka derives support of compression codecs from Produce version 0.
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
    let id = crate::support::topic(&mut world, 1, "a").topic_id;
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
    // If a request has topic ids, its topics by name are not answered.
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
    // Version 0 lists only replicas that are alive.
    let answer = metadata(&mut world, &both, 0, false);
    let told: Vec<_> = partitions(&answer).into_iter().map(|p| (p.error_code, p.replica_nodes)).collect();
    assert_eq!(told, [(leaderless, vec![]), (ErrorCode::ReplicaNotAvailable.code(), vec![1])]);
}

/// Elects a partition's leader. Returns the error code and message.
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
    // Node 2 is back in sync, and becomes leader by a preferred election, here of all partitions.
    let leader = |world: &mut World| crate::support::topic(world, 1, "a").partitions[0].leader_id;
    assert_eq!(leader(&mut world), 3);
    let answer = world.call(1, &ElectLeadersRequest { topic_partitions: None, ..Default::default() }, 2);
    let results = &answer.replica_election_results[0].partition_result;
    assert_eq!((results.len(), results[0].partition_id, results[0].error_code), (1, 0, 0));
    assert_eq!(leader(&mut world), 2);
    // Only node 2 is in sync, and stops: the partition has no leader before an unclean election.
    world.control(json!({"command": "set_isr", "topic": "a", "partition": 0, "isr": [2]}));
    world.control(json!({"command": "stop_node", "node": 2}));
    assert_eq!(leader(&mut world), -1);
    assert_eq!(elect(&mut world, 0, "a", 0).0, PreferredLeaderNotAvailable.code());
    assert_eq!(elect(&mut world, 1, "a", 0), (0, String::new()));
    assert_eq!(leader(&mut world), 3);
    world.control(json!({"command": "stop_node", "node": 3}));
    assert_eq!(elect(&mut world, 1, "b", 0).0, EligibleLeadersNotAvailable.code());
}

#[test]
fn replicas_that_came_back_before_their_leader_are_in_sync_once_it_leads() {
    let mut world = World::with(3, &[]);
    create(&mut world, vec![assigned("a", &[(0, &[2, 3])])]);
    for (command, node) in [("stop", 3), ("stop", 2), ("start", 3), ("start", 2)] {
        world.control(json!({"command": format!("{command}_node"), "node": node}));
    }
    let described = crate::support::topic(&mut world, 1, "a");
    let mut in_sync = described.partitions[0].isr_nodes.clone();
    in_sync.sort_unstable();
    assert_eq!((described.partitions[0].leader_id, in_sync), (2, vec![2, 3]));
}

/// Topics with their error codes and partitions, and the cursor of the next page.
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

#[test]
fn a_client_that_means_another_broker_shall_bootstrap_again() {
    let mut world = World::default();
    let own = world.call(1, &DescribeClusterRequest::default(), 0).cluster_id.to_owned();
    let mut ask = |version, cluster_id, node_id| {
        let request = ApiVersionsRequest {
            client_software_name: "x",
            client_software_version: "1",
            cluster_id,
            node_id,
            ..Default::default()
        };
        let answer = world.call(1, &request, version);
        (ErrorCode::from_code(answer.error_code), answer.api_keys.is_empty())
    };
    for (cluster_id, node_id, expected) in [
        (None, -1, ErrorCode::None),
        (Some(&*own), 1, ErrorCode::None),
        (Some(&*own), 2, ErrorCode::RebootstrapRequired),
        (Some(&*own), 4711, ErrorCode::RebootstrapRequired),
        (Some("other"), 1, ErrorCode::RebootstrapRequired),
        (Some(""), 1, ErrorCode::RebootstrapRequired),
        // A request must have both cluster id and node id, or neither.
        (None, 1, ErrorCode::InvalidRequest),
        (Some(&*own), -1, ErrorCode::InvalidRequest),
    ] {
        assert_eq!(ask(5, cluster_id, node_id), (expected, expected != ErrorCode::None), "{cluster_id:?} {node_id}");
    }
    // Requests below version 5 do not have these fields.
    assert_eq!(ask(4, Some("other"), 7), (ErrorCode::None, false));
}
