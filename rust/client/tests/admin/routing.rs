//! Which broker gets a request (the controller, leaders, coordinators, single brokers), and what is retried.

use std::collections::BTreeMap;

use monedula_broker::control::Command;
use monedula_broker::{Effect, NodeId, Options};
use monedula_client::admin::{GroupFilter, OffsetSpec, Which};
use monedula_client::error::ClientError;
use monedula_engine::TopicPartition;

use crate::support::{PATIENCE, World, hits, only, refuse, topic};

#[test]
fn changes_of_the_cluster_go_to_the_controller() {
    let world = World::new(&[], 3);
    let admin = world.admin(&[]);
    let watched = world.watched("CreateTopics");
    let cluster = world.run(admin.describe_cluster(PATIENCE)).expect("describes");
    assert_eq!(cluster.nodes.iter().map(|node| node.id).collect::<Vec<_>>(), [1, 2, 3]);
    for name in ["a", "b", "c"] {
        only(world.run(admin.create_topics(vec![topic(name)], false, PATIENCE)).expect("creates")).expect("creates");
    }
    let mut expected = vec![0; 3];
    expected[cluster.controller.expect("there is one") as usize - 1] = 3;
    assert_eq!(hits(&watched), expected);
}

#[test]
fn each_partition_is_asked_about_at_its_leader() {
    let world = World::new(&["events:3"], 3);
    let admin = world.admin(&[]);
    let lead = |partition, node| {
        let node = NodeId(node);
        world.control(Command::MoveLeader { topic: "events".into(), partition, node });
    };
    let list = || {
        let latest = |partition| (TopicPartition::new("events", partition), OffsetSpec::Latest);
        let listed = world.run(admin.list_offsets((0..3).map(latest).collect(), false, PATIENCE)).expect("lists");
        let offset =
            |(_, found): (_, Result<monedula_client::admin::ListedOffset, ClientError>)| found.expect("one").offset;
        listed.into_iter().map(offset).collect::<Vec<_>>()
    };
    (0..3).for_each(|partition| lead(partition, partition + 1));
    world.append("events", 1, 5);
    let watched = world.watched("ListOffsets");
    assert_eq!(list(), [Some(0), Some(5), Some(0)]);
    assert_eq!(hits(&watched), [1, 1, 1], "one request to each leader");
    lead(0, 3);
    lead(1, 3);
    assert_eq!(list(), [Some(0), Some(5), Some(0)]);
    assert_eq!(hits(&watched), [1, 1, 2], "one request for the three partitions of a leader");
}

#[test]
fn a_group_is_asked_about_at_its_coordinator_wherever_that_goes() {
    let world = World::new(&["events:1"], 3);
    let admin = world.admin(&[]);
    world.move_coordinator("etl", 2);
    let commits = world.watched("OffsetCommit");
    world.make_group(&admin, "etl");
    assert_eq!(hits(&commits), [0, 1, 0]);
    world.move_coordinator("etl", 3);
    let described = world.watched("DescribeGroups");
    let group = only(world.run(admin.describe_groups(vec!["etl".into()], PATIENCE)).expect("describes"));
    let group = group.expect("describes");
    assert_eq!((group.state.as_str(), group.coordinator.expect("is known").id), ("Empty", 3));
    assert_eq!(hits(&described)[0], 0, "node 1 never had the group");
    let deleted = world.watched("DeleteGroups");
    only(world.run(admin.delete_groups(vec!["etl".into()], PATIENCE)).expect("deletes")).expect("deletes");
    assert_eq!(hits(&deleted), [0, 0, 1], "where the group went is kept");
}

#[test]
fn a_controller_that_moves_is_asked_for_again() {
    let world = World::new(&[], 3);
    let admin = world.admin(&[]);
    let refused = world.fault("CreateTopics", &[], refuse("NOT_CONTROLLER"), Some(3));
    only(world.run(admin.create_topics(vec![topic("a")], false, PATIENCE)).expect("creates")).expect("creates");
    assert_eq!(refused.hits().expect("is set"), 3);
}

#[test]
fn a_connection_that_breaks_costs_another_attempt() {
    let world = World::new(&["events:1"], 1);
    let admin = world.admin(&[]);
    world.append("events", 0, 2);
    let broken = world.fault("ListOffsets", &[], Effect::Reset, Some(2));
    let latest = vec![(TopicPartition::new("events", 0), OffsetSpec::Latest)];
    let found = only(world.run(admin.list_offsets(latest, false, PATIENCE)).expect("lists")).expect("lists");
    assert_eq!((found.offset, broken.hits().expect("is set")), (Some(2), 2));
}

#[test]
fn a_deletion_whose_answer_is_lost_is_none_the_less_done() {
    let world = World::new(&["events:1"], 1);
    let admin = world.admin(&[]);
    world.make_group(&admin, "etl");
    for api in ["DeleteTopics", "DeleteGroups"] {
        let lost = world.lose_answer(api);
        let outcome = match api {
            "DeleteGroups" => only(world.run(admin.delete_groups(vec!["etl".into()], PATIENCE)).expect("deletes")),
            _ => only(world.run(admin.delete_topics(vec!["events".into()], PATIENCE)).expect("deletes")),
        };
        outcome.unwrap_or_else(|error| panic!("{api}: {error}"));
        assert_eq!(lost.hits().expect("is set"), 1);
    }
    // If no answer was lost, deleting what does not exist is an error.
    assert!(only(world.run(admin.delete_groups(vec!["etl".into()], PATIENCE)).expect("asks")).is_err());
    assert!(only(world.run(admin.delete_topics(vec!["events".into()], PATIENCE)).expect("asks")).is_err());
}

#[test]
fn what_is_kept_on_disk_is_asked_of_each_broker() {
    let world = World::new(&["events:2"], 3);
    let admin = world.admin(&[]);
    world.append("events", 1, 100);
    let described = world.run(admin.describe_topics(vec!["events".into()], PATIENCE)).expect("describes");
    let replicas: BTreeMap<i32, Vec<i32>> = only(described)
        .expect("describes")
        .partitions
        .into_iter()
        .map(|partition| (partition.partition, partition.replicas))
        .collect();
    let watched = world.watched("DescribeLogDirs");
    let found = world.run(admin.describe_log_dirs(None, Which::All, PATIENCE)).expect("asks");
    assert_eq!(hits(&watched), [1, 1, 1]);
    let mut held: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for (node, directories) in found {
        let directories = directories.expect("describes");
        assert_eq!(directories.len(), 1, "a directory a node");
        for (at, replica) in &directories[0].replicas {
            held.entry(at.partition).or_default().push(node);
            assert_eq!((replica.size > 0, replica.offset_lag, replica.is_future), (at.partition == 1, 0, false));
        }
    }
    for (partition, nodes) in replicas {
        let mut nodes = nodes;
        nodes.sort_unstable();
        assert_eq!(held[&partition], nodes);
    }
    let one = Which::Partitions(vec![TopicPartition::new("events", 0)]);
    let found = world.run(admin.describe_log_dirs(Some(vec![1, 9]), one, PATIENCE)).expect("asks");
    let [(1, Ok(known)), (9, Err(unknown))] = &found[..] else { panic!("{found:?}") };
    assert!(known[0].replicas.iter().all(|(at, _)| at.partition == 0));
    assert!(unknown.to_string().contains("there is no broker 9; those that are reached: 1, 2, 3"), "{unknown}");
}

#[test]
fn an_api_that_a_broker_lacks_is_named() {
    let max_versions = BTreeMap::from([("DescribeLogDirs".to_owned(), -1), ("ListGroups".to_owned(), 3)]);
    let world = World::of(Options { max_versions, ..Options::default() });
    let admin = world.admin(&[]);
    let error = world.run(admin.describe_log_dirs(None, Which::All, PATIENCE)).expect_err("is not there");
    assert!(matches!(error, ClientError::UnsupportedVersion { api: "DescribeLogDirs", .. }), "{error}");
    let filter = GroupFilter { states: vec!["Stable".into()], types: Vec::new() };
    let error = world.run(admin.list_groups(filter, PATIENCE)).expect_err("cannot filter");
    assert!(matches!(error, ClientError::UnsupportedVersion { api: "ListGroups", .. }), "{error}");
    assert!(world.run(admin.list_groups(GroupFilter::default(), PATIENCE)).expect("lists").items.is_empty());
}
