//! Calls to several brokers of which one is silent: what the others answer is there, and the one that is missing is named.

use std::time::Duration;

use monedula_broker::control::Command;
use monedula_broker::{Effect, NodeId};
use monedula_client::admin::{GroupFilter, OffsetSpec, ResetTarget, Which};
use monedula_client::error::ClientError;
use monedula_engine::TopicPartition;

use crate::support::World;

/// The time of a call that one broker does not answer.
const SHORT: Duration = Duration::from_secs(3);
/// The broker that is silent.
const SILENT: i32 = 2;

/// Three nodes, each with a group and a partition of its own, `etl-N` and `events-(N - 1)`.
fn world() -> World {
    let world = World::new(&["events:3"], 3);
    let admin = world.admin(&[]);
    for node in 1..=3_u16 {
        let group = format!("etl-{node}");
        world.move_coordinator(&group, node);
        world.make_group(&admin, &group);
        let (partition, node) = (i32::from(node) - 1, NodeId(i32::from(node)));
        world.control(Command::MoveLeader { topic: "events".into(), partition, node });
        world.append("events", partition, 5);
    }
    world
}

fn is_timed_out<T>(outcome: &Result<T, ClientError>) -> bool {
    matches!(outcome, Err(ClientError::TimedOut { .. }))
}

#[test]
fn groups_of_a_silent_broker_are_missing_and_the_broker_is_named() {
    let world = world();
    let _held = world.fault("ListGroups", &[SILENT], Effect::Hold, None);
    let listed = world.run(world.admin(&[]).list_groups(GroupFilter::default(), SHORT)).expect("lists");
    assert_eq!(listed.items.keys().collect::<Vec<_>>(), ["etl-1", "etl-3"]);
    assert_eq!(listed.missing.keys().collect::<Vec<_>>(), [&SILENT]);
    let error = listed.missing[&SILENT].to_string();
    assert!(error.contains("listing the groups of broker 2"), "{error}");
}

#[test]
fn a_list_of_groups_that_no_broker_answers_is_an_error() {
    let world = world();
    let _held = world.fault("ListGroups", &[], Effect::Hold, None);
    assert!(is_timed_out(&world.run(world.admin(&[]).list_groups(GroupFilter::default(), SHORT))));
}

#[test]
fn groups_are_described_whose_coordinators_answer() {
    let world = world();
    for api in ["ConsumerGroupDescribe", "DescribeGroups"] {
        let _held = world.fault(api, &[SILENT], Effect::Hold, None);
        let groups = (1..=3).map(|node| format!("etl-{node}")).collect();
        let described = world.run(world.admin(&[]).describe_groups(groups, SHORT)).expect("describes");
        let outcomes = described.iter().map(|(_, outcome)| outcome.is_ok()).collect::<Vec<_>>();
        assert_eq!(outcomes, [true, false, true], "{api}: {described:?}");
        assert!(is_timed_out(&described[1].1), "{described:?}");
        world.broker.control(Command::RemoveFaults {}).expect("removes");
    }
}

#[test]
fn the_lag_and_the_reset_of_partitions_whose_leaders_answer_are_there() {
    let world = world();
    let _held = world.fault("ListOffsets", &[SILENT], Effect::Hold, None);
    let admin = world.admin(&[]);
    let partitions = || Which::Partitions((0..3).map(|index| TopicPartition::new("events", index)).collect());
    let lag = world.run(admin.group_lag("etl-1".into(), partitions(), SHORT)).expect("the group is there").partitions;
    assert_eq!(lag.iter().map(|(_, outcome)| outcome.is_ok()).collect::<Vec<_>>(), [true, false, true], "{lag:?}");
    let target = ResetTarget::At(OffsetSpec::Earliest);
    let reset =
        world.run(admin.reset_group_offsets("etl-1".into(), partitions(), target, true, SHORT)).expect("resets");
    assert_eq!(reset.iter().map(|(_, outcome)| outcome.is_ok()).collect::<Vec<_>>(), [true, false, true], "{reset:?}");
}

#[test]
fn an_item_is_asked_about_again_while_another_broker_is_silent() {
    let world = world();
    let held = world.fault("ListOffsets", &[SILENT], Effect::Hold, None);
    let refused = world.fault("ListOffsets", &[3], crate::support::refuse("NOT_LEADER_OR_FOLLOWER"), Some(3));
    let specs = (0..3).map(|index| (TopicPartition::new("events", index), OffsetSpec::Latest)).collect();
    let listed = world.run(world.admin(&[]).list_offsets(specs, false, SHORT)).expect("lists");
    assert_eq!(
        listed.iter().map(|(_, outcome)| outcome.is_ok()).collect::<Vec<_>>(),
        [true, false, true],
        "{listed:?}"
    );
    assert_eq!((held.hits().expect("is set"), refused.hits().expect("is set")), (1, 3));
}

#[test]
fn a_broker_that_is_silent_at_lookups_is_not_waited_for() {
    for api in ["Metadata", "FindCoordinator", "ApiVersions"] {
        for node in 1..=3 {
            let world = world();
            let _held = world.fault(api, &[node], Effect::Hold, None);
            let admin = world.admin(&[("request.timeout.ms", "3600000")]);
            let others = (1..=3).filter(|other| *other != node).map(|other| format!("etl-{other}")).collect();
            let described = world.run(admin.describe_groups(others, Duration::from_secs(50))).expect("describes");
            assert!(described.iter().all(|(_, outcome)| outcome.is_ok()), "{api} at {node}: {described:?}");
        }
    }
}
