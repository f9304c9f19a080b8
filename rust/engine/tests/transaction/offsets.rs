//! Offsets of a group in a transaction (KIP-447).

use monedula_engine::transaction::{Call, Ending, Input, Target, TransactionError, TransactionResponse};
use monedula_protocol::error_code::ErrorCode;

use crate::world::{BACKOFF, COORDINATOR, GROUPS, World, good, group, identity, offsets, secs, t};

#[test]
fn the_group_is_added_once_and_its_coordinator_gets_the_offsets() {
    let mut world = World::ready(false);
    world.begin();
    let ticket = world.send_offsets(&[(0, 5), (1, 7)]);
    let (_, target, call) = world.calls[0].clone();
    assert_eq!(target, Target::Coordinator { node_id: COORDINATOR });
    assert_eq!(call, Call::AddOffsetsToTxn { identity: identity(9, 0), group: "g".into() });
    world.answer("AddOffsetsToTxn", TransactionResponse::Ok);
    world.find();
    let (_, target, call) = world.calls[0].clone();
    assert_eq!(target, Target::Coordinator { node_id: GROUPS });
    let expected = Call::TxnOffsetCommit {
        identity: identity(9, 0),
        group: group(),
        offsets: offsets(&[(0, 5), (1, 7)]),
        version2: false,
    };
    assert_eq!(call, expected);
    assert_eq!(world.outcome(ticket), None);
    world.answer("TxnOffsetCommit", good(&[0, 1]));
    world.succeeded(ticket);
    // The second time, the group is in the transaction already.
    let ticket = world.send_offsets(&[(0, 6)]);
    world.answer("TxnOffsetCommit", good(&[0]));
    world.succeeded(ticket);
    world.end(Ending::Commit);
    world.answer("EndTxn", TransactionResponse::Ok);
    // Each transaction adds it anew.
    world.begin();
    world.send_offsets(&[(0, 9)]);
    world.answer("AddOffsetsToTxn", TransactionResponse::Ok);
}

#[test]
fn under_version_2_the_offsets_take_their_group_in() {
    let mut world = World::ready(true);
    world.begin();
    let ticket = world.send_offsets(&[(0, 5)]);
    world.find();
    let call = world.answer("TxnOffsetCommit", good(&[0]));
    assert!(matches!(call, Call::TxnOffsetCommit { version2: true, .. }));
    world.succeeded(ticket);
    world.end(Ending::Commit);
    // Although it has no records.
    world.answer("EndTxn", TransactionResponse::Identity(identity(9, 1)));
}

#[test]
fn only_what_failed_is_sent_again() {
    let mut world = World::open(true);
    let ticket = world.send_offsets(&[(0, 5), (1, 7)]);
    world.find();
    let codes = [(t(0), ErrorCode::None), (t(1), ErrorCode::UnknownTopicOrPartition)];
    world.answer("TxnOffsetCommit", TransactionResponse::Partitions(codes.into()));
    world.pass(BACKOFF);
    let Call::TxnOffsetCommit { offsets: again, .. } = world.answer("TxnOffsetCommit", good(&[1])) else { panic!() };
    assert_eq!(again, offsets(&[(1, 7)]));
    world.succeeded(ticket);
}

#[test]
fn a_group_whose_coordinator_moved_is_looked_for() {
    let mut world = World::open(true);
    let ticket = world.send_offsets(&[(0, 5)]);
    world.find();
    world.refuse("TxnOffsetCommit", ErrorCode::NotCoordinator);
    world.pass(BACKOFF);
    world.find();
    world.lose("TxnOffsetCommit");
    world.pass(BACKOFF);
    world.find();
    world.answer("TxnOffsetCommit", good(&[0]));
    world.succeeded(ticket);
    // The transaction's coordinator stays known.
    world.end(Ending::Commit);
    world.answer("EndTxn", TransactionResponse::Identity(identity(9, 1)));
}

#[test]
fn a_group_that_refuses_the_member_spoils_the_transaction() {
    use ErrorCode::{FencedInstanceId, IllegalGeneration, StaleMemberEpoch, UnknownMemberId};
    for code in [IllegalGeneration, UnknownMemberId, FencedInstanceId, StaleMemberEpoch] {
        let mut world = World::open(true);
        let (first, second) = (world.send_offsets(&[(0, 5)]), world.send_offsets(&[(0, 6)]));
        world.find();
        world.refuse("TxnOffsetCommit", code);
        for ticket in [first, second] {
            let error = world.error(ticket).to_string();
            assert!(error.contains("must be aborted") && error.contains(code.name()), "{error}");
        }
        let commit = world.end(Ending::Commit);
        assert!(matches!(world.error(commit), TransactionError::MustAbort { .. }));
        let abort = world.end(Ending::Abort);
        world.answer("EndTxn", TransactionResponse::Identity(identity(9, 1)));
        world.succeeded(abort);
        let begin = world.begin();
        world.succeeded(begin);
    }
}

// A broker may not know a new topic yet; but a deleted topic never comes back under its id.
#[test]
fn offsets_of_a_topic_whose_id_nobody_knows_spoil_the_transaction_in_the_end() {
    let mut world = World::open(true);
    let ticket = world.send_offsets(&[(0, 5)]);
    world.find();
    for _ in 1..5 {
        world.refuse("TxnOffsetCommit", ErrorCode::UnknownTopicId);
        assert_eq!(world.outcome(ticket), None);
        world.pass(BACKOFF);
    }
    world.refuse("TxnOffsetCommit", ErrorCode::UnknownTopicId);
    let error = world.error(ticket).to_string();
    assert!(error.contains("must be aborted") && error.contains("UNKNOWN_TOPIC_ID"), "{error}");
    let abort = world.end(Ending::Abort);
    world.answer("EndTxn", TransactionResponse::Identity(identity(9, 1)));
    world.succeeded(abort);

    let mut world = World::open(true);
    let ticket = world.send_offsets(&[(0, 5)]);
    world.find();
    world.refuse("TxnOffsetCommit", ErrorCode::UnknownTopicId);
    world.pass(BACKOFF);
    world.answer("TxnOffsetCommit", good(&[0]));
    world.succeeded(ticket);
}

#[test]
fn offsets_that_took_too_long_are_in_the_transaction_or_spoil_it() {
    let mut world = World::open(true);
    let late = world.send_offsets(&[(0, 5)]);
    world.find();
    world.pass(secs(61));
    assert!(matches!(world.error(late), TransactionError::TimedOut { what: "send_offsets", .. }));
    let commit = world.end(Ending::Commit);
    // The end of the transaction waits for the offsets.
    assert!(matches!(world.calls[..], [(_, _, Call::TxnOffsetCommit { .. })]));
    world.answer("TxnOffsetCommit", good(&[0]));
    world.answer("EndTxn", TransactionResponse::Identity(identity(9, 1)));
    world.succeeded(commit);
}

#[test]
fn an_abort_does_not_wait_for_offsets() {
    let mut world = World::open(true);
    let ticket = world.send_offsets(&[(0, 5)]);
    world.find();
    let abort = world.end(Ending::Abort);
    assert!(matches!(world.error(ticket), TransactionError::MustAbort { .. }));
    world.refuse("TxnOffsetCommit", ErrorCode::CoordinatorLoadInProgress);
    world.pass(BACKOFF);
    world.answer("EndTxn", TransactionResponse::Identity(identity(9, 1)));
    world.succeeded(abort);
}

#[test]
fn no_offsets_are_no_call() {
    let mut world = World::ready(true);
    world.begin();
    let ticket = world.send_offsets(&[]);
    world.succeeded(ticket);
    world.no_call();
    world.put(Input::Tick);
    assert_eq!(world.session.wake_at(), None);
}
