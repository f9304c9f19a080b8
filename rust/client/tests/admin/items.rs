//! Each item of an admin call has its own outcome.

use std::time::Duration;

use monedula_broker::control::Command;
use monedula_broker::{Direction, Effect, NodeId};
use monedula_client::admin::OffsetSpec;
use monedula_client::error::ClientError;
use monedula_engine::TopicPartition;

use crate::support::{PATIENCE, World, topic};

#[test]
fn topics_that_cannot_be_made_do_not_keep_others_from_it() {
    let world = World::new(&["events:1"], 1);
    let admin = world.admin(&[]);
    let wanted = vec![topic("a"), topic("events"), topic("no/topic"), topic("z")];
    let made = world.run(admin.create_topics(wanted, false, PATIENCE)).expect("asks");
    let failed: Vec<(&str, String)> =
        made.iter().filter_map(|(name, outcome)| Some((name.as_str(), outcome.as_ref().err()?.to_string()))).collect();
    let [("events", exists), ("no/topic", invalid)] = &failed[..] else { panic!("{failed:?}") };
    assert!(exists.contains("TOPIC_ALREADY_EXISTS"), "{exists}");
    assert!(invalid.contains("INVALID_TOPIC_EXCEPTION"), "{invalid}");
    let described = world.run(admin.describe_topics(vec!["a".into(), "z".into()], PATIENCE)).expect("asks");
    assert!(described.iter().all(|(_, outcome)| outcome.is_ok()));
}

#[test]
fn partitions_of_a_node_that_is_silent_do_not_keep_others_from_their_answer() {
    let world = World::new(&["events:3"], 3);
    let admin = world.admin(&[]);
    for partition in 0..3 {
        let node = NodeId(partition + 1);
        world.control(Command::MoveLeader { topic: "events".into(), partition, node });
    }
    world.run(admin.describe_cluster(PATIENCE)).expect("is reached");
    let _hole = world.fault("ListOffsets", &[2], Effect::BlackHole { way: Direction::Answers }, None);
    let latest = |partition| (TopicPartition::new("events", partition), OffsetSpec::Latest);
    let specs = (0..3).map(latest).collect();
    let listed = world.run(admin.list_offsets(specs, false, Duration::from_secs(3))).expect("asks");
    let outcomes: Vec<bool> = listed.iter().map(|(_, outcome)| outcome.is_ok()).collect();
    assert_eq!(outcomes, [true, false, true]);
    let Err(ClientError::TimedOut { what, .. }) = &listed[1].1 else { panic!("{:?}", listed[1]) };
    assert_eq!(what, "listing an offset of events-1");
}

#[test]
fn a_partition_that_is_not_there_is_told_apart_from_its_topic() {
    let world = World::new(&["events:2"], 1);
    let admin = world.admin(&[]);
    let earliest = |topic, partition| (TopicPartition::new(topic, partition), OffsetSpec::Earliest);
    let specs = vec![earliest("events", 1), earliest("events", 7), earliest("evnets", 0)];
    let listed = world.run(admin.list_offsets(specs, false, PATIENCE)).expect("asks");
    let told: Vec<String> =
        listed.iter().map(|(_, outcome)| outcome.as_ref().err().map_or(String::new(), ToString::to_string)).collect();
    assert_eq!(told[0], "");
    assert!(told[1].contains("events-7") && told[1].contains("the topic has 2 partitions"), "{}", told[1]);
    assert!(told[2].contains("evnets-0") && told[2].contains("UNKNOWN_TOPIC_OR_PARTITION"), "{}", told[2]);
}

#[test]
fn what_nobody_answers_for_is_not_asked_again() {
    let world = World::new(&["events:1"], 1);
    let admin = world.admin(&[]);
    let refused = world.fault("ElectLeaders", &[], crate::support::refuse("PREFERRED_LEADER_NOT_AVAILABLE"), None);
    let wanted = Some(vec![TopicPartition::new("events", 0)]);
    let elected = world.run(admin.elect_leaders(wanted, false, PATIENCE)).expect("asks");
    assert!(elected[0].1.as_ref().expect_err("refused").to_string().contains("PREFERRED_LEADER_NOT_AVAILABLE"));
    assert_eq!(refused.hits().expect("is set"), 1);
}
