//! Sessions: when records are fetched and acknowledgements sent, and what becomes of these when something goes wrong.

use monedula_engine::share::AcknowledgeType::{Accept, Release, Renew};
use monedula_engine::share::{AcknowledgeError as E, AcknowledgementBatch, SessionId, ShareOutput, ShareSettings};
use monedula_protocol::error_code::ErrorCode;

use crate::world::{BACKOFF, ID, LOCK, World, fetched, ms, range, secs, settings, t};

fn batch(first: i64, last: i64, types: &[i8]) -> AcknowledgementBatch {
    AcknowledgementBatch { first, last, types: types.to_vec() }
}

// kafka#21206: what is acquired and not handed out ages, and uses up deliveries.
#[test]
fn nothing_is_fetched_while_nobody_waits() {
    let mut world = World::new(settings(), &[(0, Some(1))]);
    world.sessions.set_wanted(false);
    assert!(world.ready().is_empty());
    world.sessions.set_wanted(true);
    assert_eq!(world.ready(), [1]);
}

#[test]
fn the_first_fetch_opens_the_session_with_all_partitions_and_the_next_names_none() {
    let mut world = World::new(settings(), &[(0, Some(1)), (1, Some(1)), (2, Some(2))]);
    let plan = world.fetch(1);
    assert_eq!((plan.session_epoch, plan.max_records, plan.max_wait), (0, 500, ms(5000)));
    assert_eq!(plan.partitions.iter().map(|planned| planned.partition).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(world.ready(), [2], "one request of a session is in flight at a time");
    world.answer(1, vec![]);
    let plan = world.fetch(1);
    assert_eq!((plan.session_epoch, plan.partitions, plan.forgotten), (1, vec![], vec![]));
}

// confluentinc/kafka#1109: the epoch was raised twice for a fetch with acknowledgements.
#[test]
fn each_request_raises_the_epoch_by_one_whatever_it_has() {
    let (mut world, session) = World::with_records();
    world.acknowledge(1, session, &[range(0, 9, Accept)]);
    let plan = world.fetch(1);
    assert_eq!((plan.session_epoch, plan.partitions[0].batches.clone()), (1, vec![batch(0, 9, &[1])]));
    world.answer(1, vec![fetched(0, &[(10, 19)])]);
    assert_eq!(world.outcomes(), [(1, Ok(()))]);
    world.acknowledge(2, session, &[range(10, 19, Release)]);
    world.sessions.set_wanted(false);
    let (node, plan) = world.acknowledge_next().expect("nothing else takes it along");
    assert_eq!((node, plan.session_epoch, plan.is_renewal), (1, 2, false));
    world.answer(1, vec![fetched(0, &[])]);
    assert_eq!(world.outcomes(), [(2, Ok(()))]);
    world.sessions.set_wanted(true);
    assert_eq!(world.fetch(1).session_epoch, 3);
}

#[test]
fn the_locks_of_an_answer_count_from_when_it_was_asked_for() {
    let mut world = World::new(settings(), &[(0, Some(1))]);
    let asked = world.now;
    world.fetch(1);
    world.pass(secs(4));
    world.answer(1, vec![fetched(0, &[(0, 9)])]);
    let Some(ShareOutput::Acquired { deadline, lock_timeout, .. }) = world.outputs.pop_front() else { panic!() };
    assert_eq!((deadline, lock_timeout), (asked + LOCK, LOCK));
}

// A commit beside another thread that waits took up to a second, and what was released was delivered again after one: Kafka
// 4.4 ends no wait for records that the same fetch releases.
#[test]
fn a_fetch_with_acknowledgements_takes_what_there_is_and_the_next_one_waits() {
    for kind in [Accept, Release] {
        let (mut world, session) = World::with_records();
        world.acknowledge(1, session, &[range(0, 9, kind)]);
        assert_eq!(world.fetch(1).max_wait, ms(0));
        world.answer(1, vec![fetched(0, &[])]);
        assert_eq!(world.fetch(1).max_wait, ms(5000));
    }
}

#[test]
fn there_are_more_records_until_a_fetch_has_waited_for_them_or_found_fewer() {
    let (mut world, session) = World::with_records();
    world.fetch(1);
    world.answer(1, vec![fetched(0, &[(10, 509)])]);
    assert!(world.sessions.has_more());
    world.acknowledge(1, session, &[range(10, 509, Accept)]);
    world.fetch(1);
    world.answer(1, vec![fetched(0, &[])]);
    assert!(world.sessions.has_more(), "it took what there was at once");
    world.fetch(1);
    world.answer(1, vec![fetched(0, &[])]);
    assert!(!world.sessions.has_more());
    world.fetch(1);
    world.answer(1, vec![fetched(0, &[(510, 1008)])]);
    assert!(!world.sessions.has_more(), "499 are fewer than were asked for");
}

// One request of a session is in flight, and a renewal waits for its answer.
#[test]
fn no_fetch_waits_so_long_that_locks_end_before_they_are_renewed() {
    let mut world = World::new(ShareSettings { max_wait: secs(20), ..settings() }, &[(0, Some(1))]);
    assert_eq!(world.fetch(1).max_wait, secs(20), "nothing is locked yet");
    world.answer(1, vec![fetched(0, &[(0, 9)])]);
    assert_eq!(world.fetch(1).max_wait, LOCK.mul_f64(0.3));
}

// franz-go 1.21.5: the partition stayed in the session, and was delivered for ever.
#[test]
fn a_partition_named_for_its_acknowledgements_alone_is_forgotten_in_the_same_request() {
    let (mut world, session) = World::with_records();
    world.lead(&[(0, Some(1)), (1, Some(1))]);
    world.assign(&[1]);
    world.acknowledge(1, session, &[range(0, 9, Accept)]);
    let plan = world.fetch(1);
    assert_eq!(plan.partitions.iter().map(|planned| planned.partition).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(plan.forgotten, [(ID, 0)], "acknowledgements are applied before (librdkafka#5393)");
    world.answer(1, vec![fetched(0, &[])]);
    world.acknowledge(2, session, &[range(0, 0, Accept)]);
    assert_eq!(world.fetch(1).forgotten, [(ID, 0)], "it is named, and forgotten, again");
}

#[test]
fn a_session_whose_partitions_are_all_gone_is_told_to_forget_them_without_a_wait() {
    let (mut world, _) = World::with_records();
    world.assign(&[]);
    let plan = world.fetch(1);
    assert_eq!((plan.max_wait, plan.forgotten), (ms(0), vec![(ID, 0)]));
    world.answer(1, vec![]);
    assert!(world.ready().is_empty());
}

// KAFKA-18164, KAFKA-19485: they were sent with epoch 0, or waited for ever.
#[test]
fn acknowledgements_of_a_session_that_ended_fail_and_are_not_sent_in_the_next() {
    for code in [ErrorCode::ShareSessionNotFound, ErrorCode::InvalidShareSessionEpoch] {
        let (mut world, session) = World::with_records();
        world.acknowledge(1, session, &[range(0, 4, Accept)]);
        world.fetch(1);
        world.acknowledge(2, session, &[range(5, 9, Accept)]);
        world.refuse(1, code);
        assert_eq!(world.outcomes(), [(1, Err(E::SessionLost)), (2, Err(E::SessionLost))], "in flight, and waiting");
        assert_eq!(world.lost(), [None]);
        world.acknowledge(3, session, &[range(5, 9, Accept)]);
        assert_eq!(world.outcomes(), [(3, Err(E::SessionLost))]);
        let plan = world.fetch(1);
        assert_eq!((plan.session_epoch, plan.partitions[0].batches.len()), (0, 0));
        world.answer(1, vec![fetched(0, &[(0, 9)])]);
        world.acknowledge(4, session, &[range(0, 9, Accept)]);
        assert_eq!(world.outcomes(), [(4, Err(E::SessionLost))], "the records of the new session are others");
    }
}

#[test]
fn a_session_that_is_lost_again_and_again_is_opened_with_a_pause() {
    let mut world = World::new(settings(), &[(0, Some(1))]);
    world.fetch(1);
    world.refuse(1, ErrorCode::ShareSessionNotFound);
    world.fetch(1);
    world.refuse(1, ErrorCode::ShareSessionNotFound);
    assert!(world.ready().is_empty());
    assert!(world.sessions.wake_at(world.now).is_some_and(|at| at > world.now && at <= world.now + BACKOFF));
    world.pass(BACKOFF);
    assert_eq!(world.ready(), [1]);
}

#[test]
fn a_broker_without_room_for_sessions_is_asked_again_after_a_backoff() {
    let mut world = World::new(settings(), &[(0, Some(1))]);
    world.fetch(1);
    world.refuse(1, ErrorCode::ShareSessionLimitReached);
    assert!(world.ready().is_empty());
    world.pass(BACKOFF);
    assert_eq!(world.fetch(1).session_epoch, 0);
}

#[test]
fn what_a_group_may_not_is_told_once_until_it_succeeds() {
    let mut world = World::new(settings(), &[(0, Some(1))]);
    let denied = ShareOutput::Denied { partition: None, code: ErrorCode::GroupAuthorizationFailed };
    for times in [1, 1] {
        world.fetch(1);
        world.refuse(1, ErrorCode::GroupAuthorizationFailed);
        assert_eq!(world.outputs.iter().filter(|output| **output == denied).count(), times);
        world.pass(BACKOFF);
    }
    world.fetch(1);
    world.answer(1, vec![]);
    world.fetch(1);
    world.refuse(1, ErrorCode::GroupAuthorizationFailed);
    assert_eq!(world.outputs.iter().filter(|output| **output == denied).count(), 2);
}

// It may have been applied: the repetition would be INVALID_RECORD_STATE.
#[test]
fn an_acknowledgement_whose_answer_was_lost_is_unknown_and_not_sent_again() {
    let (mut world, session) = World::with_records();
    world.acknowledge(1, session, &[range(0, 4, Accept)]);
    world.fetch(1);
    world.acknowledge(2, session, &[range(5, 9, Accept)]);
    world.lose(1);
    let reason = "the connection was lost".to_owned();
    assert_eq!(world.outcomes(), [(1, Err(E::Unknown { reason })), (2, Err(E::SessionLost))]);
    assert_eq!(world.lost(), [None], "the broker releases what a connection that broke had");
    world.pass(BACKOFF);
    assert!(world.acknowledge_next().is_none());
    let plan = world.fetch(1);
    assert_eq!((plan.session_epoch, plan.partitions[0].batches.len()), (0, 0));
}

// A loop over records went on with what other members had by then, for as long as no request told of it.
#[test]
fn a_session_ends_with_its_connection_before_any_request_tells() {
    let (mut world, session) = World::with_records();
    world.acknowledge(1, session, &[range(0, 4, Accept)]);
    world.disconnect(session);
    assert_eq!((world.lost(), world.outcomes()), (vec![None], vec![(1, Err(E::SessionLost))]));
    assert_eq!(world.fetch(1).session_epoch, 0);
    world.answer(1, vec![fetched(0, &[(0, 9)])]);
    world.outputs.clear();
    world.disconnect(session);
    assert!(world.outputs.is_empty(), "the next session has another connection");
    let session = world.sessions.session(1);
    world.acknowledge(2, session, &[range(0, 9, Accept)]);
    world.fetch(1);
    world.disconnect(session);
    assert_eq!(world.lost(), [None]);
    world.answer(1, vec![fetched(0, &[(10, 19)])]);
    assert_eq!(world.outcomes(), [(2, Ok(()))], "the answer had come");
    assert!(!world.outputs.iter().any(|output| matches!(output, ShareOutput::Acquired { .. })));
    assert_eq!(world.fetch(1).session_epoch, 0);
}

#[test]
fn a_partition_that_an_answer_leaves_out_is_not_acknowledged() {
    let (mut world, session) = World::with_records();
    world.acknowledge(1, session, &[range(0, 9, Accept)]);
    world.fetch(1);
    world.answer(1, vec![]);
    assert!(matches!(&world.outcomes()[..], [(1, Err(E::Unknown { .. }))]));
}

#[test]
fn errors_of_acknowledgements_are_those_of_their_partition() {
    let cases = [
        (ErrorCode::InvalidRecordState, E::LockLost),
        (ErrorCode::NotLeaderOrFollower, E::LeaderMoved),
        (ErrorCode::FencedLeaderEpoch, E::LeaderMoved),
        (ErrorCode::InvalidRequest, E::Refused { code: ErrorCode::InvalidRequest }),
    ];
    for (code, error) in cases {
        let (mut world, session) = World::with_records();
        world.acknowledge(1, session, &[range(0, 9, Accept)]);
        world.fetch(1);
        let mut partition = fetched(0, &[(10, 12)]);
        partition.acknowledge_code = code;
        world.answer(1, vec![partition]);
        assert_eq!(world.outcomes(), [(1, Err(error))]);
        assert!(matches!(world.outputs[0], ShareOutput::Acquired { .. }), "what is new is not affected");
    }
}

#[test]
fn when_the_leader_moves_locks_are_gone_and_the_new_one_gets_no_acknowledgements_of_the_old() {
    let (mut world, session) = World::with_records();
    world.fetch(1);
    let mut moved = fetched(0, &[]);
    (moved.code, moved.leader) = (ErrorCode::NotLeaderOrFollower, (2, 5));
    world.answer(1, vec![moved]);
    assert_eq!(world.lost(), [Some(t(0))]);
    assert!(world.outputs.contains(&ShareOutput::LeaderHint { partition: t(0), leader: 2, leader_epoch: 5 }));
    assert_eq!(world.refreshes(), 1);
    let plan = world.fetch(1);
    assert_eq!(plan.forgotten, [(ID, 0)], "the old leader is asked for it no more");
    world.answer(1, vec![]);
    world.lead(&[(0, Some(2))]);
    world.pass(BACKOFF);
    world.acknowledge(1, session, &[range(0, 9, Accept)]);
    let plan = world.fetch(2);
    assert_eq!((plan.session_epoch, plan.partitions[0].batches.len()), (0, 0));
    assert_eq!(world.acknowledge_next().map(|(node, _)| node), Some(1), "only the old one knows what it is about");
}

#[test]
fn an_answer_without_a_leader_is_no_hint() {
    for leader in [(-1, -1), (0, -1)] {
        let (mut world, _) = World::with_records();
        world.fetch(1);
        let mut moved = fetched(0, &[]);
        (moved.code, moved.leader) = (ErrorCode::FencedLeaderEpoch, leader);
        world.answer(1, vec![moved]);
        assert!(!world.outputs.iter().any(|output| matches!(output, ShareOutput::LeaderHint { .. })), "{leader:?}");
    }
    let (mut world, _) = World::with_records();
    world.fetch(1);
    let mut zeros = fetched(0, &[(10, 10)]);
    zeros.leader = (0, 0);
    world.answer(1, vec![zeros]);
    assert!(!world.outputs.iter().any(|output| matches!(output, ShareOutput::LeaderHint { .. })), "nothing moved");
}

#[test]
fn a_partition_with_an_error_waits_while_others_go_on() {
    let mut world = World::new(settings(), &[(0, Some(1)), (1, Some(1))]);
    world.fetch(1);
    let mut failed = fetched(0, &[]);
    failed.code = ErrorCode::UnknownTopicId;
    world.answer(1, vec![failed, fetched(1, &[(0, 0)])]);
    let plan = world.fetch(1);
    assert_eq!(plan.forgotten, [(ID, 0)]);
    world.answer(1, vec![]);
    world.pass(BACKOFF);
    assert_eq!(world.fetch(1).partitions.iter().map(|planned| planned.partition).collect::<Vec<_>>(), [0]);
}

// The lock had ended at the broker before the decision was sent: sent now, it would take effect on the new lock, and stand
// twice in a request with the decision about that.
#[test]
fn a_decision_that_waits_is_not_sent_once_its_records_are_acquired_again() {
    let (mut world, session) = World::with_records();
    world.fetch(1);
    world.acknowledge(1, session, &[range(0, 4, Accept)]);
    world.acknowledge(2, session, &[range(5, 9, Accept)]);
    world.renew(3, session, 0, 2);
    world.answer(1, vec![fetched(0, &[(2, 3)])]);
    assert_eq!(world.outcomes(), [(1, Err(E::LockLost)), (3, Err(E::LockLost))]);
    assert_eq!(world.fetch(1).partitions[0].batches, [batch(5, 9, &[1])]);
}

// An answer of the old leader, which was long on its way, ended the new one's locks for the client: what was decided of those
// rows was never sent, and the user was given them again.
#[test]
fn what_an_old_leader_gave_is_dropped_once_the_partition_has_another() {
    let mut world = World::new(settings(), &[(0, Some(1)), (1, Some(1))]);
    world.fetch(1);
    world.lead(&[(0, Some(2)), (1, Some(1))]);
    world.fetch(2);
    world.answer(2, vec![fetched(0, &[(0, 9)])]);
    let Some(ShareOutput::Acquired { session, .. }) = world.outputs.pop_front() else { panic!("nothing acquired") };
    world.acknowledge(1, session, &[range(0, 9, Accept)]);
    world.lead(&[(0, Some(1)), (1, Some(1))]);
    world.answer(1, vec![fetched(0, &[(0, 4)]), fetched(1, &[(0, 4)])]);
    let acquired = world.outputs.iter().map(|output| match output {
        ShareOutput::Acquired { partition, .. } => partition.clone(),
        output => panic!("{output:?}"),
    });
    assert_eq!(acquired.collect::<Vec<_>>(), [t(1)]);
    let sent = world.acknowledge_next().map(|(node, plan)| (node, plan.partitions[0].batches.clone()));
    assert_eq!(sent, Some((2, vec![batch(0, 9, &[1])])));
}

// A time that has passed would wake the driver again at once, for as long as the broker holds the fetch.
#[test]
fn what_was_waited_for_wakes_nobody_once_it_was_asked_for_again() {
    let mut world = World::new(settings(), &[(0, Some(1)), (1, None)]);
    world.fetch(1);
    world.lose(1);
    world.pass(secs(2));
    world.fetch(1);
    assert!(world.sessions.wake_at(world.now).is_none_or(|at| at > world.now), "the retry is in flight");
    let mut failed = fetched(0, &[]);
    failed.code = ErrorCode::UnknownTopicId;
    world.answer(1, vec![failed]);
    world.lead(&[(0, Some(1)), (1, Some(1))]);
    world.pass(secs(2));
    world.fetch(1);
    assert_eq!(world.sessions.wake_at(world.now), None, "the partition's pause is over, and it has no records");
}

// kafka#20135: after a restart of the whole cluster metadata had no leaders.
#[test]
fn without_a_leader_metadata_is_asked_for_with_a_backoff() {
    let mut world = World::new(settings(), &[(0, None)]);
    assert!(world.ready().is_empty() && world.ready().is_empty());
    assert_eq!(world.refreshes(), 1);
    world.now = world.sessions.wake_at(world.now).expect("it asks again");
    world.ready();
    assert_eq!(world.refreshes(), 2);
    world.lead(&[(0, Some(3))]);
    assert_eq!(world.ready(), [3]);
}

#[test]
fn a_topic_that_was_recreated_is_not_fetched_under_its_old_id() {
    let mut world = World::new(settings(), &[(0, Some(1))]);
    world.sessions.assign([(t(0), monedula_protocol::types::Uuid([9; 16]))].into());
    assert!(world.ready().is_empty());
}

// kafka#20855: with several brokers the limit would hold for each.
#[test]
fn a_strict_limit_asks_one_broker_at_a_time_in_turn() {
    let settings = ShareSettings { is_strict: true, ..settings() };
    let mut world = World::new(settings, &[(0, Some(1)), (1, Some(2))]);
    assert!(world.fetch(1).is_strict);
    assert!(world.ready().is_empty());
    world.answer(1, vec![]);
    assert_eq!(world.ready(), [2]);
    world.fetch(2);
    world.answer(2, vec![]);
    assert_eq!(world.ready(), [1]);
}

// Of 9 brokers of which one had records each call waited for 4 s: 500 ms for each of the others.
#[test]
fn under_a_strict_limit_a_fetch_waits_only_where_each_broker_was_found_empty() {
    let settings = ShareSettings { is_strict: true, ..settings() };
    let mut world = World::new(settings, &[(0, Some(1)), (1, Some(2))]);
    assert_eq!(world.fetch(1).max_wait, ms(0));
    world.answer(1, vec![]);
    assert_eq!(world.fetch(2).max_wait, ms(0), "nobody knows what it has");
    world.answer(2, vec![]);
    for node in [1, 2, 1] {
        assert_eq!(world.fetch(node).max_wait, ms(2500));
        world.pass(ms(2500));
        world.answer(node, vec![]);
    }
    world.fetch(2);
    world.answer(2, vec![fetched(1, &[(0, 9)])]);
    assert_eq!(world.fetch(1).max_wait, ms(0), "the other one has some");
    world.answer(1, vec![]);
    assert_eq!(world.fetch(2).max_wait, ms(0));
    world.answer(2, vec![]);
    world.fetch(1);
    world.answer(1, vec![fetched(0, &[(0, 9)])]);
    let session = world.sessions.session(1);
    world.acknowledge(1, session, &[range(0, 9, Accept)]);
    world.acknowledge_next().expect("it is not the turn of 1");
    assert_eq!(world.fetch(2).max_wait, ms(0), "the first has some");
    world.answer(2, vec![]);
    world.pass(ms(5001));
    assert_eq!(world.fetch(2).max_wait, ms(5000), "the first does not answer");
    world.answer(2, vec![]);
    world.answer(1, vec![fetched(0, &[])]);
    world.pass(ms(10_001));
    assert_eq!(world.fetch(1).max_wait, ms(0), "they were empty long ago");
    world.lose(1);
    assert_eq!(world.fetch(2).max_wait, ms(5000), "the first cannot be asked");
}

#[test]
fn renewals_go_alone_by_share_acknowledge_before_anything_else() {
    let (mut world, session) = World::with_records();
    world.renew(1, session, 0, 4);
    world.acknowledge(2, session, &[range(5, 9, Accept)]);
    assert!(world.ready().is_empty(), "a fetch would come before it");
    let (_, plan) = world.acknowledge_next().expect("it is due");
    assert_eq!((plan.is_renewal, plan.first_version()), (true, 2));
    assert_eq!(plan.partitions[0].batches, [batch(0, 4, &[Renew.id()])]);
    let sent = world.now;
    world.pass(secs(1));
    world.answer(1, vec![fetched(0, &[])]);
    let Some(ShareOutput::Acknowledged { outcome, .. }) = world.outputs.pop_back() else { panic!() };
    assert_eq!(outcome, Ok(sent + LOCK));
    assert_eq!(world.fetch(1).partitions[0].batches, [batch(5, 9, &[1])]);
}

// An offset that stands twice in a request fails all of its partition.
#[test]
fn a_decision_takes_its_offsets_out_of_a_renewal_that_was_not_sent() {
    let (mut world, session) = World::with_records();
    world.renew(1, session, 0, 9);
    world.acknowledge(2, session, &[range(3, 9, Accept)]);
    let (_, plan) = world.acknowledge_next().expect("a part is left");
    assert_eq!(plan.partitions[0].batches, [batch(0, 2, &[4])]);
    let (mut world, session) = World::with_records();
    world.renew(1, session, 3, 5);
    world.acknowledge(2, session, &[range(0, 9, Accept)]);
    assert_eq!(world.outcomes(), [(1, Ok(()))], "there is nothing to renew any more");
    assert!(!world.acknowledge_next().expect("the decision").1.is_renewal);
}

#[test]
fn a_renewal_that_the_broker_cannot_take_leaves_the_session_as_it_is() {
    let (mut world, session) = World::with_records();
    world.renew(1, session, 0, 9);
    world.acknowledge_next().expect("it is due");
    world.sessions.unsupported(1);
    world.pass(ms(0));
    assert_eq!(world.outcomes(), [(1, Err(E::NoRenewals))]);
    assert!(world.lost().is_empty());
    assert_eq!(world.fetch(1).session_epoch, 1);
}

#[test]
fn closing_sends_what_was_decided_with_the_epoch_that_closes_and_releases_the_rest() {
    let (mut world, session) = World::with_records();
    world.acknowledge(1, session, &[range(0, 4, Accept)]);
    world.renew(2, session, 5, 9);
    world.sessions.close(world.now + secs(5));
    world.pass(ms(0));
    assert_eq!(world.outcomes(), [(2, Err(E::Closed))]);
    assert!(world.ready().is_empty());
    let (_, plan) = world.acknowledge_next().expect("the end of the session");
    assert_eq!((plan.session_epoch, plan.partitions[0].batches.clone()), (-1, vec![batch(0, 4, &[1])]));
    world.answer(1, vec![fetched(0, &[])]);
    assert_eq!(world.outcomes(), [(1, Ok(()))]);
    assert_eq!(world.outputs.back(), Some(&ShareOutput::Closed));
    world.acknowledge(3, session, &[range(5, 9, Accept)]);
    assert_eq!(world.outcomes(), [(3, Err(E::Closed))]);
}

#[test]
fn closing_waits_for_the_request_in_flight_and_ends_at_its_deadline() {
    let (mut world, session) = World::with_records();
    world.acknowledge(1, session, &[range(0, 4, Accept)]);
    world.fetch(1);
    world.sessions.close(world.now + secs(5));
    assert!(world.acknowledge_next().is_none());
    assert_eq!(world.sessions.wake_at(world.now), Some(world.now + secs(5)));
    world.pass(secs(5));
    assert!(matches!(&world.outcomes()[..], [(1, Err(E::Unknown { .. }))]));
    assert_eq!(world.outputs.back(), Some(&ShareOutput::Closed));
    assert_eq!(world.sessions.wake_at(world.now), None);
}

#[test]
fn without_a_session_closing_ends_at_once() {
    let mut world = World::new(settings(), &[(0, Some(1))]);
    world.sessions.close(world.now + secs(5));
    world.pass(ms(0));
    assert_eq!(world.outputs.back(), Some(&ShareOutput::Closed));
}

#[test]
fn an_answer_that_nobody_waits_for_changes_nothing() {
    let (mut world, session) = World::with_records();
    world.answer(1, vec![fetched(0, &[(10, 19)])]);
    world.lose(1);
    assert!(world.outputs.is_empty());
    world.acknowledge(1, SessionId { node: 9, ..session }, &[range(0, 0, Accept)]);
    assert_eq!(world.outcomes(), [(1, Err(E::SessionLost))], "no such broker gave records");
}
