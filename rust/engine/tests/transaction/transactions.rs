//! Transactions from begin to end: the order of calls and their brokers, under both transaction versions.

use monedula_engine::produce::SendFault;
use monedula_engine::transaction::{Call, Ending, Input, SessionState, Target, TransactionError, TransactionResponse};
use monedula_protocol::error_code::ErrorCode;

use crate::world::{BACKOFF, COORDINATOR, World, good, identity, ms, secs, t};

fn fault() -> SendFault {
    SendFault::UnknownTopicOrPartition { partition: t(0) }
}

#[test]
fn partitions_are_added_before_their_first_records_and_together() {
    let mut world = World::ready(false);
    let begun = world.begin();
    world.succeeded(begun);
    world.no_call();
    for partition in [0, 1, 2] {
        world.put(Input::AddPartition(t(partition)));
    }
    // Partitions that were added while the first call was in flight share the next call.
    world.answer("AddPartitionsToTxn", good(&[0]));
    let (_, target, call) = world.calls[0].clone();
    assert_eq!(target, Target::Coordinator { node_id: COORDINATOR });
    let Call::AddPartitionsToTxn { identity: who, partitions } = call else { panic!("{call:?}") };
    assert_eq!((who, partitions), (identity(9, 0), [t(1), t(2)].into()));
    world.answer("AddPartitionsToTxn", good(&[1, 2]));
    assert_eq!(world.joined, [t(0), t(1), t(2)]);
    // The partition is in the transaction already.
    world.put(Input::AddPartition(t(1)));
    assert_eq!(world.joined.len(), 4);
    world.no_call();
}

#[test]
fn under_version_2_records_take_their_partitions_in() {
    let mut world = World::ready(true);
    world.begin();
    world.put(Input::AddPartition(t(0)));
    assert_eq!(world.joined, [t(0)]);
    world.no_call();
}

#[test]
fn the_version_counts_from_the_next_transaction_on() {
    let mut world = World::open(false);
    world.put(Input::TransactionVersion2(true));
    world.put(Input::AddPartition(t(1)));
    world.answer("AddPartitionsToTxn", good(&[1]));
    world.end(Ending::Commit);
    let call = world.answer("EndTxn", TransactionResponse::Ok);
    assert!(matches!(call, Call::EndTxn { version2: false, .. }));
    world.begin();
    assert!(world.session.version2());
}

#[test]
fn a_commit_ends_at_the_coordinator_and_the_identity_stays() {
    let mut world = World::open(false);
    let ticket = world.end(Ending::Commit);
    assert_eq!(world.outcome(ticket), None);
    let call = world.answer("EndTxn", TransactionResponse::Ok);
    assert_eq!(call, Call::EndTxn { identity: identity(9, 0), ending: Ending::Commit, version2: false });
    world.succeeded(ticket);
    assert_eq!((world.ended, world.identities.as_slice()), (1, &[identity(9, 0)][..]));
    // The next transaction adds its partitions anew.
    world.begin();
    world.put(Input::AddPartition(t(0)));
    world.answer("AddPartitionsToTxn", good(&[0]));
}

#[test]
fn under_version_2_each_end_brings_the_next_epoch() {
    let mut world = World::open(true);
    let ticket = world.end(Ending::Commit);
    let call = world.answer("EndTxn", TransactionResponse::Identity(identity(9, 1)));
    assert_eq!(call, Call::EndTxn { identity: identity(9, 0), ending: Ending::Commit, version2: true });
    world.succeeded(ticket);
    assert_eq!(world.identities, [identity(9, 0), identity(9, 1)]);
    world.begin();
    world.join(0);
    world.end(Ending::Abort);
    let call = world.answer("EndTxn", TransactionResponse::Identity(identity(10, 0)));
    assert_eq!(call, Call::EndTxn { identity: identity(9, 1), ending: Ending::Abort, version2: true });
    assert_eq!(world.session.identity(), Some(identity(10, 0)));
}

#[test]
fn a_transaction_without_contents_ends_without_a_call() {
    for (version2, ending) in [(false, Ending::Commit), (true, Ending::Commit), (false, Ending::Abort)] {
        let mut world = World::ready(version2);
        world.begin();
        let ticket = world.end(ending);
        world.succeeded(ticket);
        world.no_call();
        assert_eq!((world.ended, world.session.state()), (1, SessionState::Ready));
    }
}

#[test]
fn an_end_whose_answer_is_lost_is_asked_for_again_wherever_the_coordinator_is() {
    let mut world = World::open(true);
    let ticket = world.end(Ending::Commit);
    let first = world.calls[0].2.clone();
    world.lose("EndTxn");
    world.no_call();
    world.pass(BACKOFF);
    world.find();
    let (_, _, again) = world.calls[0].clone();
    assert_eq!(again, first);
    world.refuse("EndTxn", ErrorCode::ConcurrentTransactions);
    world.pass(BACKOFF);
    world.answer("EndTxn", TransactionResponse::Identity(identity(9, 1)));
    world.succeeded(ticket);
}

#[test]
fn a_commit_goes_on_after_its_time_and_is_heard_of_by_calling_it_again() {
    let mut world = World::open(false);
    let first = world.end(Ending::Commit);
    world.pass(secs(61));
    assert!(matches!(world.error(first), TransactionError::TimedOut { what: "commit_transaction", .. }));
    let abort = world.end(Ending::Abort);
    assert!(world.error(abort).to_string().contains("call commit_transaction() again"));
    world.answer("EndTxn", TransactionResponse::Ok);
    // The commit was carried out, but its answer was lost: the next transaction must not begin before it is known.
    let begin = world.begin();
    assert!(world.error(begin).to_string().contains("call it again"), "{}", world.error(begin));
    let again = world.end(Ending::Commit);
    world.succeeded(again);
    let begin = world.begin();
    world.succeeded(begin);
}

#[test]
fn a_commit_waits_for_the_partitions_that_are_being_added() {
    let mut world = World::ready(false);
    world.begin();
    world.put(Input::AddPartition(t(0)));
    let ticket = world.end(Ending::Commit);
    world.refuse("AddPartitionsToTxn", ErrorCode::CoordinatorLoadInProgress);
    world.pass(BACKOFF);
    world.answer("AddPartitionsToTxn", good(&[0]));
    world.answer("EndTxn", TransactionResponse::Ok);
    world.succeeded(ticket);
}

#[test]
fn an_abort_whose_transaction_may_never_have_begun() {
    let mut world = World::ready(false);
    world.begin();
    world.put(Input::AddPartition(t(0)));
    world.lose("AddPartitionsToTxn");
    let ticket = world.end(Ending::Abort);
    // The call may have been carried out, so the transaction has to be ended.
    world.find();
    world.refuse("EndTxn", ErrorCode::InvalidTxnState);
    // The call was not carried out, and will not be: a late answer changes nothing.
    world.answer("InitProducerId", TransactionResponse::Identity(identity(9, 1)));
    world.succeeded(ticket);
    assert_eq!(world.session.state(), SessionState::Ready);
}

#[test]
fn an_abort_of_a_known_transaction_is_not_taken_for_nothing() {
    let mut world = World::open(false);
    let ticket = world.end(Ending::Abort);
    world.refuse("EndTxn", ErrorCode::InvalidTxnState);
    assert!(matches!(world.error(ticket), TransactionError::Refused { code: ErrorCode::InvalidTxnState, .. }));
    assert_eq!(world.session.state(), SessionState::Fatal);
}

#[test]
fn what_was_given_up_spoils_the_transaction_and_nothing_else() {
    let mut world = World::open(false);
    world.put(Input::DeliveryFailed(fault()));
    assert!(matches!(world.failed_unsent[..], [SendFault::TransactionFailed { .. }]));
    assert!(matches!(world.session.refusal(), Some(TransactionError::MustAbort { .. })));
    let commit = world.end(Ending::Commit);
    assert!(matches!(world.error(commit), TransactionError::MustAbort { .. }));
    let abort = world.end(Ending::Abort);
    world.answer("EndTxn", TransactionResponse::Ok);
    // Sequence numbers have gaps now, so the next transaction needs a new epoch (KIP-360).
    assert_eq!(world.outcome(abort), None);
    let call = world.answer("InitProducerId", TransactionResponse::Identity(identity(9, 1)));
    assert_eq!(call, Call::InitProducerId { current: Some(identity(9, 0)) });
    world.succeeded(abort);
    assert_eq!(world.identities.last(), Some(&identity(9, 1)));
    let begin = world.begin();
    world.succeeded(begin);
    assert_eq!(world.session.refusal(), None);
}

#[test]
fn what_fails_once_the_end_is_asked_for_does_not_belong_to_what_ends() {
    for version2 in [false, true] {
        let mut world = World::open(version2);
        if version2 {
            world.put(Input::AddPartition(t(0)));
        }
        let commit = world.end(Ending::Commit);
        world.put(Input::DeliveryFailed(fault()));
        world.answer(
            "EndTxn",
            if version2 { TransactionResponse::Identity(identity(9, 1)) } else { TransactionResponse::Ok },
        );
        world.succeeded(commit);
        let begin = world.begin();
        world.succeeded(begin);
    }
}

#[test]
fn under_version_2_the_end_itself_raises_the_epoch() {
    let mut world = World::open(true);
    world.put(Input::NeedIdentity { old: Some(identity(9, 0)) });
    assert_eq!(world.session.state(), SessionState::AbortableError);
    let abort = world.end(Ending::Abort);
    world.answer("EndTxn", TransactionResponse::Identity(identity(9, 1)));
    world.succeeded(abort);
    world.no_call();
    assert_eq!(world.session.state(), SessionState::Ready);
}

/// Otherwise the user would send the records again, or learn that an abort succeeded.
#[test]
fn a_commit_that_may_be_through_is_not_called_off() {
    let mut world = World::open(false);
    let commit = world.end(Ending::Commit);
    world.put(Input::NeedIdentity { old: Some(identity(9, 0)) });
    assert_eq!((world.session.state(), world.outcome(commit)), (SessionState::Committing, None));
    world.lose("EndTxn");
    world.pass(BACKOFF);
    world.refuse("FindCoordinator", ErrorCode::TransactionAbortable);
    assert_eq!((world.session.state(), world.outcome(commit)), (SessionState::Committing, None));
    world.pass(BACKOFF);
    world.find();
    world.answer("EndTxn", TransactionResponse::Ok);
    // The unknown outcome is resolved before the next transaction.
    assert_eq!(world.outcome(commit), None);
    let call = world.answer("InitProducerId", TransactionResponse::Identity(identity(9, 1)));
    assert_eq!(call, Call::InitProducerId { current: Some(identity(9, 0)) });
    world.succeeded(commit);
}

/// A late EndTxn would end the next transaction with whatever it has by then (KIP-890).
#[test]
fn where_all_transactions_have_one_epoch_a_lost_call_raises_it() {
    for ending in [Ending::Commit, Ending::Abort] {
        let mut world = World::open(false);
        let ticket = world.end(ending);
        world.lose("EndTxn");
        world.pass(BACKOFF);
        world.find();
        world.answer("EndTxn", TransactionResponse::Ok);
        assert_eq!((world.outcome(ticket), world.session.state()), (None, SessionState::Initializing));
        let call = world.answer("InitProducerId", TransactionResponse::Identity(identity(9, 1)));
        assert_eq!(call, Call::InitProducerId { current: Some(identity(9, 0)) });
        world.succeeded(ticket);
        // Only this time.
        world.begin();
        world.join(0);
        let next = world.end(ending);
        world.answer("EndTxn", TransactionResponse::Ok);
        world.succeeded(next);
    }
}

/// The caller of the first end was cancelled. It asks again, to learn when the next transaction may begin.
#[test]
fn an_end_that_is_asked_for_again_waits_for_the_next_epoch() {
    for (ending, other) in [(Ending::Commit, Ending::Abort), (Ending::Abort, Ending::Commit)] {
        let mut world = World::open(false);
        world.end(ending);
        world.lose("EndTxn");
        world.pass(BACKOFF);
        world.find();
        world.answer("EndTxn", TransactionResponse::Ok);
        let (again, wrong) = (world.end(ending), world.end(other));
        assert!(world.error(wrong).to_string().contains("no transaction is open"));
        assert_eq!((world.outcome(again), world.session.state()), (None, SessionState::Initializing));
        world.answer("InitProducerId", TransactionResponse::Identity(identity(9, 1)));
        world.succeeded(again);
        let begin = world.begin();
        world.succeeded(begin);
    }
}

#[test]
fn every_call_that_writes_in_a_transaction_raises_the_epoch_when_it_is_lost() {
    let mut world = World::ready(false);
    world.begin();
    world.put(Input::AddPartition(t(0)));
    world.lose("AddPartitionsToTxn");
    world.pass(BACKOFF);
    world.find();
    world.answer("AddPartitionsToTxn", good(&[0]));
    let ticket = world.end(Ending::Commit);
    world.answer("EndTxn", TransactionResponse::Ok);
    world.answer("InitProducerId", TransactionResponse::Identity(identity(9, 1)));
    world.succeeded(ticket);

    let mut world = World::open(false);
    world.send_offsets(&[(0, 5)]);
    world.lose("AddOffsetsToTxn");
    world.pass(BACKOFF);
    world.find();
    world.answer("AddOffsetsToTxn", TransactionResponse::Ok);
    world.find();
    world.answer("TxnOffsetCommit", good(&[0]));
    world.end(Ending::Commit);
    world.answer("EndTxn", TransactionResponse::Ok);
    world.answer("InitProducerId", TransactionResponse::Identity(identity(9, 1)));

    let mut world = World::open(false);
    world.send_offsets(&[(0, 5)]);
    world.answer("AddOffsetsToTxn", TransactionResponse::Ok);
    world.find();
    world.lose("TxnOffsetCommit");
    world.pass(BACKOFF);
    world.find();
    world.answer("TxnOffsetCommit", good(&[0]));
    world.end(Ending::Commit);
    world.answer("EndTxn", TransactionResponse::Ok);
    world.answer("InitProducerId", TransactionResponse::Identity(identity(9, 1)));
}

#[test]
fn a_commit_is_through_whatever_becomes_of_the_epoch_for_the_next_transaction() {
    let mut world = World::open(false);
    let commit = world.end(Ending::Commit);
    world.lose("EndTxn");
    world.pass(BACKOFF);
    world.find();
    world.answer("EndTxn", TransactionResponse::Ok);
    world.refuse("InitProducerId", ErrorCode::ProducerFenced);
    world.succeeded(commit);
    let begin = world.begin();
    assert!(matches!(world.error(begin), TransactionError::Fenced { .. }));
}

#[test]
fn a_commit_whose_new_epoch_takes_too_long_is_heard_of_by_calling_it_again() {
    let mut world = World::open(false);
    let first = world.end(Ending::Commit);
    world.lose("EndTxn");
    world.pass(BACKOFF);
    world.find();
    world.answer("EndTxn", TransactionResponse::Ok);
    world.pass(secs(61));
    assert!(matches!(world.error(first), TransactionError::TimedOut { what: "commit_transaction", .. }));
    let abort = world.end(Ending::Abort);
    assert!(matches!(world.error(abort), TransactionError::State(_)));
    let again = world.end(Ending::Commit);
    assert_eq!(world.outcome(again), None);
    world.answer("InitProducerId", TransactionResponse::Identity(identity(9, 1)));
    world.succeeded(again);
}

#[test]
fn an_id_that_the_coordinator_forgot_is_replaced_without_an_end() {
    let mut world = World::ready(false);
    world.begin();
    world.put(Input::AddPartition(t(0)));
    world.refuse("AddPartitionsToTxn", ErrorCode::InvalidProducerIdMapping);
    assert_eq!(world.session.state(), SessionState::AbortableError);
    let abort = world.end(Ending::Abort);
    world.answer("InitProducerId", TransactionResponse::Identity(identity(11, 0)));
    world.succeeded(abort);
    assert_eq!(world.session.identity(), Some(identity(11, 0)));
    // Only that once.
    world.begin();
    world.join(0);
    world.end(Ending::Abort);
    world.answer("EndTxn", TransactionResponse::Ok);
}

#[test]
fn an_end_that_is_refused_is_reached_by_a_new_epoch() {
    let mut world = World::open(true);
    let commit = world.end(Ending::Commit);
    world.refuse("EndTxn", ErrorCode::TransactionAbortable);
    assert!(matches!(world.error(commit), TransactionError::MustAbort { .. }));
    let abort = world.end(Ending::Abort);
    world.refuse("EndTxn", ErrorCode::TransactionAbortable);
    world.answer("InitProducerId", TransactionResponse::Identity(identity(9, 2)));
    world.succeeded(abort);
}

#[test]
fn a_fenced_producer_is_of_no_use() {
    for code in [ErrorCode::ProducerFenced, ErrorCode::InvalidProducerEpoch] {
        let mut world = World::open(false);
        let commit = world.end(Ending::Commit);
        world.refuse("EndTxn", code);
        let error = world.error(commit);
        assert!(matches!(error, TransactionError::Fenced { .. }));
        assert!(error.to_string().contains("transactional.id=id was started"), "{error}");
        assert!(matches!(world.fatal, Some(SendFault::Fenced { .. })));
        let (begin, abort, init) = (world.begin(), world.end(Ending::Abort), world.init());
        for ticket in [begin, abort, init] {
            assert!(matches!(world.error(ticket), TransactionError::Fenced { .. }));
        }
        world.pass(secs(100));
        world.no_call();
    }
}

#[test]
fn a_fence_that_the_delivery_ran_into_counts_as_well() {
    let mut world = World::open(true);
    world.put(Input::DeliveryFailed(SendFault::Fenced { reason: "PRODUCER_FENCED".into() }));
    let commit = world.end(Ending::Commit);
    assert!(matches!(world.error(commit), TransactionError::Fenced { .. }));
}

#[test]
fn one_partition_that_is_denied_spoils_the_transaction_not_the_producer() {
    let mut world = World::ready(false);
    world.begin();
    world.put(Input::AddPartition(t(0)));
    let codes = [(t(0), ErrorCode::OperationNotAttempted)].into();
    world.answer("AddPartitionsToTxn", TransactionResponse::Partitions(codes));
    assert!(world.session.refusal().expect("one").to_string().contains("OPERATION_NOT_ATTEMPTED"));

    let mut world = World::ready(false);
    world.begin();
    world.put(Input::AddPartition(t(0)));
    world.answer("AddPartitionsToTxn", good(&[0]));
    world.put(Input::AddPartition(t(1)));
    world.put(Input::AddPartition(t(2)));
    world.answer("AddPartitionsToTxn", {
        let codes = [(t(1), ErrorCode::TopicAuthorizationFailed)];
        TransactionResponse::Partitions(codes.into())
    });
    let error = world.session.refusal().expect("one").to_string();
    assert!(error.contains("t-1") && error.contains("TOPIC_AUTHORIZATION_FAILED"), "{error}");
}

#[test]
fn a_partition_that_the_answer_leaves_out_is_added_again() {
    let mut world = World::ready(false);
    world.begin();
    world.put(Input::AddPartition(t(0)));
    world.answer("AddPartitionsToTxn", TransactionResponse::Partitions([].into()));
    assert_eq!(world.joined, []);
    world.pass(BACKOFF);
    world.answer("AddPartitionsToTxn", good(&[0]));
    assert_eq!(world.joined, [t(0)]);
}

#[test]
fn the_markers_of_the_last_transaction_are_waited_for_briefly() {
    let mut world = World::ready(false);
    world.begin();
    world.put(Input::AddPartition(t(0)));
    world.refuse("AddPartitionsToTxn", ErrorCode::ConcurrentTransactions);
    world.pass(ms(30));
    world.answer("AddPartitionsToTxn", good(&[0]));
}

#[test]
fn verbs_out_of_order_are_refused_and_change_nothing() {
    let mut world = World::new(Some("id"));
    let (begin, commit) = (world.begin(), world.end(Ending::Commit));
    assert!(world.error(begin).to_string().contains("comes after init_transactions()"));
    assert!(world.error(commit).to_string().contains("no transaction is open"));
    assert!(world.session.refusal().expect("one").to_string().contains("init_transactions() was not called yet"));

    let mut world = World::ready(true);
    assert!(world.session.refusal().expect("one").to_string().contains("call begin_transaction() first"));
    let (commit, abort, offsets) = (world.end(Ending::Commit), world.end(Ending::Abort), world.send_offsets(&[(0, 1)]));
    for ticket in [commit, abort, offsets] {
        assert!(matches!(world.error(ticket), TransactionError::State(_)));
    }
    world.begin();
    let (begin, init) = (world.begin(), world.init());
    assert!(world.error(begin).to_string().contains("open already"));
    assert!(matches!(world.error(init), TransactionError::State(_)));
    assert_eq!(world.session.state(), SessionState::InTransaction);
    world.end(Ending::Commit);
    assert_eq!(world.session.state(), SessionState::Ready);
}
