//! Topics that are deleted and recreated under the same name, with as many partitions as before. Assignments name
//! topics by name, so only metadata shows it; commits name them by id, so the coordinator shows it too.

use monedula_engine::TopicPartition;
use monedula_engine::assign::Protocol;
use monedula_engine::group::classic::ClassicState;
use monedula_engine::group::{Call, CommitError, GroupResponse};
use monedula_protocol::error_code::ErrorCode;

use crate::world::{BACKOFF, Owed, World, assignment, at, commit_codes, config, offsets, secs, subscription, t};

const OLD: u8 = 1;
const NEW: u8 = 2;

fn u(partition: i32) -> TopicPartition {
    TopicPartition::new("u", partition)
}

/// A stable member with t-0, t-1 and u-0, whose topics have ids.
fn owner(protocol: Protocol) -> World {
    let mut world = World::new(config(protocol));
    world.subscribe(&["t", "u"]);
    world.topics_by_id(&[("t", OLD, 2), ("u", 7, 1)]);
    world.find(1);
    assigned(&mut world, 1, &[t(0), t(1), u(0)]);
    world.look_up(10);
    world.starts.clear();
    world.beating = true;
    world.trace();
    world
}

fn assigned(world: &mut World, generation: i32, partitions: &[TopicPartition]) {
    let (id, _) = world.call("JoinGroup");
    world.join(id, generation);
    let (id, _) = world.call("SyncGroup");
    let assignment = assignment(partitions);
    world.answer(
        id,
        GroupResponse::SyncGroup { code: ErrorCode::None, protocol_type: None, protocol: None, assignment },
    );
}

fn recreate(world: &mut World) {
    world.topics_by_id(&[("t", NEW, 2), ("u", 7, 1)]);
}

/// These partitions have no committed offset; returns where each starts.
fn nothing_committed(world: &mut World) {
    let (id, call) = world.call("OffsetFetch");
    let Call::OffsetFetch { partitions, .. } = call else { panic!("{call:?}") };
    let offsets = partitions.into_iter().map(|partition| (partition, Ok(None))).collect();
    world.answer(id, GroupResponse::OffsetFetch { code: ErrorCode::None, offsets });
}

#[test]
fn what_is_owned_of_a_topic_that_was_made_anew_is_lost_and_gained_anew() {
    let mut world = owner(Protocol::Cooperative);
    world.finished = offsets(&[(0, 500)]);
    recreate(&mut world);
    assert_eq!(world.trace(), ["dropped t-0 t-1", "Lost t-0 t-1", "JoinGroup"], "nothing of the old one is committed");
    assert_eq!(world.owned().len(), 1, "u goes on");
    let (id, call) = world.call("JoinGroup");
    assert_eq!(subscription(&call).owned, [u(0)]);
    world.join(id, 2);
    let (id, _) = world.call("SyncGroup");
    let given = assignment(&[t(0), t(1), u(0)]);
    world.answer(
        id,
        GroupResponse::SyncGroup { code: ErrorCode::None, protocol_type: None, protocol: None, assignment: given },
    );
    assert_eq!(world.trace()[1..3], ["assigned t-0 t-1", "Assigned t-0 t-1"]);
    nothing_committed(&mut world);
    // Records that were written before the member noticed are not skipped, whatever the reset policy.
    assert_eq!(world.starts, [(t(0), None, true), (t(1), None, true)]);
    recreate(&mut world);
    world.pass(secs(30));
    world.no_call();
}

#[test]
fn a_broker_that_tells_no_id_or_knows_no_topic_yet_takes_nothing_away() {
    let mut world = owner(Protocol::Cooperative);
    for topics in [&[("t", 0, 2), ("u", 0, 1)][..], &[("u", 7, 1)], &[], &[("t", OLD, 2), ("u", 7, 1)]] {
        world.topics_by_id(topics);
        world.pass(secs(1));
    }
    assert_eq!(world.trace(), [""; 0]);
    assert_eq!(world.owned().len(), 3);
}

#[test]
fn a_topic_that_was_gone_in_between_is_another_one() {
    let mut world = owner(Protocol::Cooperative);
    world.topics_by_id(&[("u", 7, 1)]);
    world.no_call();
    recreate(&mut world);
    assert_eq!(world.trace(), ["dropped t-0 t-1", "Lost t-0 t-1", "JoinGroup"]);
}

#[test]
fn partitions_of_a_topic_that_is_made_anew_are_new_however_many_it_has() {
    for (ids, count) in [([OLD, NEW], 2), ([OLD, NEW], 1), ([OLD, NEW], 4), ([0, 0], 2)] {
        let mut world = World::new(config(Protocol::Cooperative));
        world.subscribe(&["t"]);
        world.topics_by_id(&[("t", ids[0], 2)]);
        world.find(1);
        world.rebalance(1, &[]);
        world.topics_by_id(&[]);
        world.topics_by_id(&[("t", ids[1], count)]);
        world.rejoin();
        world.rebalance(2, &[0]);
        nothing_committed(&mut world);
        assert_eq!(world.starts, [(t(0), None, true)], "{ids:?} {count}");
    }
    // Without ids, a topic that has fewer partitions than before is a new one, too.
    let mut world = World::new(config(Protocol::Cooperative));
    world.subscribe(&["t"]);
    world.topics(&[("t", 2)]);
    world.find(1);
    world.rebalance(1, &[]);
    world.topics(&[("t", 1)]);
    world.rejoin();
    world.rebalance(2, &[0]);
    nothing_committed(&mut world);
    assert_eq!(world.starts, [(t(0), None, true)]);
}

#[test]
fn what_is_given_up_of_it_is_not_committed_and_the_rest_is() {
    let mut world = owner(Protocol::Eager);
    world.busy = true;
    world.rejoin();
    assert_eq!(world.trace(), ["settle t-0 t-1 u-0"]);
    world.finished = offsets(&[(0, 500)]);
    world.finished.insert(u(0), at(20));
    recreate(&mut world);
    assert_eq!(world.trace(), ["dropped t-0 t-1", "Lost t-0 t-1"]);
    world.user_returns();
    assert_eq!(world.commit_answered(ErrorCode::None), [(u(0), at(20))].into());
    assert_eq!(world.trace(), ["OffsetCommit", "Revoked u-0", "dropped u-0", "JoinGroup"]);
}

#[test]
fn where_nothing_else_is_given_up_the_join_follows_at_once() {
    for step in ["settling", "committing", "calling back"] {
        let mut world = World::new(config(Protocol::Eager));
        world.subscribe(&["t"]);
        world.topics_by_id(&[("t", OLD, 2)]);
        world.find(1);
        world.rebalance(1, &[0, 1]);
        world.look_up(10);
        (world.beating, world.busy) = (true, true);
        world.rejoin();
        world.finished = offsets(&[(0, 500)]);
        if step != "settling" {
            world.pay_one();
            assert_eq!(world.apis(), ["OffsetCommit"]);
        }
        if step == "calling back" {
            world.commit_answered(ErrorCode::None);
            assert!(matches!(world.owed.front(), Some(Owed::Callback(..))));
        }
        world.trace();
        world.topics_by_id(&[("t", NEW, 2)]);
        let told = if step == "calling back" { &[][..] } else { &["Lost t-0 t-1".to_owned()] };
        let trace = world.trace();
        assert_eq!(trace[0], "dropped t-0 t-1", "{step}");
        assert_eq!(
            &trace[1..trace.len() - 1],
            told,
            "{step}: a partition that was reported as revoked is not reported again"
        );
        assert_eq!(trace.last().map(String::as_str), Some("JoinGroup"), "{step}");
        world.user_returns();
        while world.apis().first() == Some(&"OffsetCommit") {
            world.call("OffsetCommit");
        }
        world.rebalance(2, &[0, 1]);
        nothing_committed(&mut world);
        assert_eq!(world.state(), ClassicState::Stable, "{step}");
        assert_eq!(world.starts[2..], [(t(0), None, true), (t(1), None, true)], "{step}");
    }
}

#[test]
fn a_commit_of_before_that_waits_is_not_sent_for_the_new_topic() {
    let mut world = owner(Protocol::Cooperative);
    world.commit(1, offsets(&[(0, 500)]));
    let (first, _) = world.call("OffsetCommit");
    world.commit(2, offsets(&[(0, 510)]));
    recreate(&mut world);
    assert_eq!(world.commit_error(2), CommitError::NotOwned);
    world.lose(first);
    world.pass(BACKOFF);
    assert!(!world.apis().contains(&"OffsetCommit"), "{:?}", world.apis());
}

#[test]
fn a_join_that_is_under_way_gains_it_anew() {
    let mut world = owner(Protocol::Cooperative);
    world.rejoin();
    let (id, _) = world.call_past_heartbeats("JoinGroup");
    recreate(&mut world);
    world.join(id, 2);
    let (id, _) = world.call("SyncGroup");
    let given = assignment(&[t(0), u(0)]);
    world.trace();
    world.answer(
        id,
        GroupResponse::SyncGroup { code: ErrorCode::None, protocol_type: None, protocol: None, assignment: given },
    );
    assert!(world.trace().contains(&"assigned t-0".to_owned()));
    nothing_committed(&mut world);
    assert_eq!(world.starts, [(t(0), None, true)]);
}

/// The topic ids in the next commit, and the highest version of OffsetCommit that can carry it.
fn commit_ids(world: &mut World) -> (Vec<(String, u8)>, i16) {
    let mut of = offsets(&[(0, 500)]);
    of.insert(u(0), at(20));
    world.commit(1, of);
    let (id, call) = world.call_past_heartbeats("OffsetCommit");
    let highest = *call.versions().end();
    let Call::OffsetCommit { offsets, topic_ids, .. } = call else { panic!("{call:?}") };
    world.answer(id, commit_codes(&offsets, ErrorCode::None));
    (topic_ids.into_iter().map(|(topic, id)| (topic.to_string(), id.0[0])).collect(), highest)
}

#[test]
fn a_commit_names_the_topics_that_were_gained_by_their_ids() {
    let mut world = owner(Protocol::Cooperative);
    let known = (vec![("t".to_owned(), OLD), ("u".to_owned(), 7)], 10);
    assert_eq!(commit_ids(&mut world), known);
    // A broker that sends no ids, or does not know the topic, takes no partition away.
    for topics in [&[("t", 0, 2), ("u", 0, 1)][..], &[]] {
        world.topics_by_id(topics);
        assert_eq!(commit_ids(&mut world), known);
    }
    recreate(&mut world);
    let (id, _) = world.call_past_heartbeats("JoinGroup");
    world.join(id, 2);
    let (id, _) = world.call("SyncGroup");
    let given = assignment(&[t(0), t(1), u(0)]);
    world.answer(
        id,
        GroupResponse::SyncGroup { code: ErrorCode::None, protocol_type: None, protocol: None, assignment: given },
    );
    nothing_committed(&mut world);
    assert_eq!(commit_ids(&mut world), (vec![("t".to_owned(), NEW), ("u".to_owned(), 7)], 10));
}

#[test]
fn a_commit_goes_by_names_while_an_id_is_not_known() {
    let mut world = World::new(config(Protocol::Cooperative));
    world.subscribe(&["t", "u"]);
    // The leader has metadata of u already.
    world.topics_by_id(&[("t", OLD, 2)]);
    world.find(1);
    assigned(&mut world, 1, &[t(0), u(0)]);
    world.look_up(10);
    world.beating = true;
    assert_eq!(commit_ids(&mut world), (vec![("t".to_owned(), OLD)], 9));
    world.topics_by_id(&[("t", OLD, 2), ("u", 7, 1)]);
    assert_eq!(world.owned().len(), 2);
    world.look_up(20);
    assert_eq!(commit_ids(&mut world), (vec![("t".to_owned(), OLD), ("u".to_owned(), 7)], 10));
    world.topics_by_id(&[("t", OLD, 2), ("u", 8, 1)]);
    assert!(world.trace().contains(&"Lost u-0".to_owned()));
}

// The coordinator learns of the new topic first: by name, it would store the offset for the new topic.
#[test]
fn a_commit_that_the_new_topic_refuses_asks_for_metadata_and_ends_with_it() {
    let mut world = owner(Protocol::Cooperative);
    world.commit(1, offsets(&[(0, 500)]));
    world.commit_answered(ErrorCode::UnknownTopicId);
    assert_eq!(world.trace(), ["OffsetCommit", "refresh"]);
    recreate(&mut world);
    assert_eq!(world.commit_error(1), CommitError::NotOwned);
    assert_eq!(world.trace(), ["dropped t-0 t-1", "Lost t-0 t-1", "JoinGroup"]);
    world.pass(BACKOFF);
    assert!(!world.apis().contains(&"OffsetCommit"), "{:?}", world.apis());
}

// The id of the owned partition counts: what metadata had for the name is forgotten with the subscription.
#[test]
fn a_topic_that_is_made_anew_while_it_is_not_subscribed_to_is_another_one() {
    let mut world = owner(Protocol::Cooperative);
    world.busy = true;
    world.subscribe(&["u"]);
    world.topics_by_id(&[("u", 7, 1)]);
    assert_eq!(world.trace(), ["settle t-0 t-1"]);
    world.subscribe(&["t", "u"]);
    recreate(&mut world);
    let trace = world.trace();
    assert_eq!(trace[..2], ["dropped t-0 t-1", "Lost t-0 t-1"], "{trace:?}");
}

// A coordinator that was loading while the topic was recreated still has the old topic's offsets under the same name.
#[test]
fn what_is_committed_is_looked_up_by_the_ids_with_which_partitions_were_gained() {
    let mut world = World::new(config(Protocol::Cooperative));
    world.subscribe(&["t", "u"]);
    world.topics_by_id(&[("t", OLD, 2), ("u", 7, 1)]);
    world.find(1);
    assigned(&mut world, 1, &[t(0), u(0)]);
    world.beating = true;
    let (id, call) = world.call("OffsetFetch");
    assert_eq!(*call.versions().end(), 10);
    let Call::OffsetFetch { topic_ids, .. } = call else { panic!("{call:?}") };
    let ids: Vec<_> = topic_ids.iter().map(|(topic, id)| (&**topic, id.0[0])).collect();
    assert_eq!(ids, [("t", OLD), ("u", 7)]);
    world.trace();
    let offsets = [(t(0), Err(ErrorCode::UnknownTopicId)), (u(0), Ok(None))];
    world.answer(id, GroupResponse::OffsetFetch { code: ErrorCode::None, offsets: offsets.into() });
    assert_eq!(world.starts, [(u(0), None, false)], "the other one starts");
    assert_eq!(world.trace().iter().filter(|line| *line == "refresh").count(), 1);
    recreate(&mut world);
    assert_eq!(world.trace(), ["dropped t-0", "Lost t-0", "JoinGroup"]);
    world.pass(BACKOFF);
    assert!(!world.apis().contains(&"OffsetFetch"), "{:?}", world.apis());
}

/// The topic ids in the next OffsetFetch, and the highest version that can carry it.
fn fetch_ids(world: &mut World) -> (Vec<(String, u8)>, i16) {
    let (_, call) = world.call_past_heartbeats("OffsetFetch");
    let highest = *call.versions().end();
    let Call::OffsetFetch { topic_ids, .. } = call else { panic!("{call:?}") };
    (topic_ids.into_iter().map(|(topic, id)| (topic.to_string(), id.0[0])).collect(), highest)
}

// The process has just started, and JoinGroup is answered before the first Metadata: under the name, the coordinator
// may have offsets of a topic that was deleted while the process was down.
#[test]
fn nothing_is_looked_up_by_a_name_before_metadata_tells_which_topic_has_it() {
    let mut world = World::new(config(Protocol::Cooperative));
    world.subscribe_to_unknown(&["t", "u"]);
    world.find(1);
    world.beating = true;
    assigned(&mut world, 1, &[t(0), u(0)]);
    assert!(!world.apis().contains(&"OffsetFetch"), "{:?}", world.apis());
    assert_eq!(world.trace().last().map(String::as_str), Some("refresh"));
    world.topics_by_id(&[("t", NEW, 2)]);
    assert_eq!(fetch_ids(&mut world), (vec![("t".to_owned(), NEW)], 10), "u waits for its own");
    // Old brokers send no ids: then only the name is known.
    let mut world = World::new(config(Protocol::Cooperative));
    world.subscribe_to_unknown(&["t", "u"]);
    world.find(1);
    world.beating = true;
    assigned(&mut world, 1, &[t(0), u(0)]);
    world.topics_by_id(&[("t", 0, 2), ("u", 0, 1)]);
    assert_eq!(fetch_ids(&mut world), (vec![], 9));
}

#[test]
fn metadata_is_asked_for_until_it_has_the_topic() {
    let mut world = World::new(config(Protocol::Cooperative));
    world.subscribe_to_unknown(&["t"]);
    world.topics_by_id(&[]);
    world.find(1);
    world.beating = true;
    assigned(&mut world, 1, &[t(0)]);
    world.trace();
    for _ in 0..20 {
        world.pass(BACKOFF);
        let trace = world.trace();
        assert!(!trace.is_empty() && trace.iter().all(|line| line == "refresh"), "{trace:?}");
        world.topics_by_id(&[]);
    }
    world.no_call();
    world.topics_by_id(&[("t", NEW, 1)]);
    nothing_committed(&mut world);
    assert_eq!(world.starts, [(t(0), None, true)], "made while it was subscribed to");
    world.pass(secs(30));
    assert!(!world.trace().contains(&"refresh".to_owned()));
    // A partition that is taken away does not wait for metadata any more.
    let mut world = World::new(config(Protocol::Cooperative));
    world.subscribe_to_unknown(&["t"]);
    world.find(1);
    world.beating = true;
    assigned(&mut world, 1, &[t(0)]);
    world.rejoin();
    assigned(&mut world, 2, &[]);
    world.trace();
    world.pass(BACKOFF);
    assert!(!world.trace().contains(&"refresh".to_owned()));
}

// A leader gets the metadata of all topics of its group, each once.
#[test]
fn what_was_told_of_a_topic_before_it_was_subscribed_to_counts() {
    let mut world = World::new(config(Protocol::Cooperative));
    world.subscribe_to_unknown(&["u"]);
    world.topics_by_id(&[("t", OLD, 2), ("u", 7, 1)]);
    world.subscribe_to_unknown(&["t", "u"]);
    world.find(1);
    world.beating = true;
    assigned(&mut world, 1, &[t(0), u(0)]);
    assert_eq!(fetch_ids(&mut world), (vec![("t".to_owned(), OLD), ("u".to_owned(), 7)], 10));
}

// Where other members use KIP-848, the coordinator assigns topics by id. What it assigned of the topic before says nothing about
// the one after, whose partitions may have other owners.
#[test]
fn what_the_coordinator_assigned_of_a_topic_before_it_was_made_anew_is_not_taken() {
    for (leader, is_taken) in [("", false), ("other", true)] {
        let mut world = World::new(config(Protocol::Cooperative));
        world.subscribe(&["t", "u"]);
        world.topics_by_id(&[("t", OLD, 2), ("u", 7, 1)]);
        world.find(1);
        let (join, _) = world.call("JoinGroup");
        let joined = world.joined(1, leader, Vec::new());
        world.answer(join, joined);
        let (sync, _) = world.call("SyncGroup");
        recreate(&mut world);
        world.no_call();
        world.trace();
        let assignment = assignment(&[t(0), u(0)]);
        world.answer(
            sync,
            GroupResponse::SyncGroup { code: ErrorCode::None, protocol_type: None, protocol: None, assignment },
        );
        let trace = world.trace();
        match is_taken {
            true => assert!(trace.contains(&"assigned t-0 u-0".to_owned()), "{trace:?}"),
            false => assert!(trace.contains(&"assigned u-0".to_owned()), "{trace:?}"),
        }
        assert_eq!(world.apis().contains(&"JoinGroup"), !is_taken, "it is assigned again, by the new id");
    }
}
