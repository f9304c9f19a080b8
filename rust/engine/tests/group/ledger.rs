//! The ledger of rows that were handed out and finished (contract 1).

use monedula_engine::TopicPartition;
use monedula_engine::group::CommitOffset;
use monedula_engine::ledger::{Finisher, Ledger, OffsetAndEpoch};

use crate::world::t;

fn place(offset: i64) -> OffsetAndEpoch {
    OffsetAndEpoch { offset, leader_epoch: 2 }
}

/// Reads partitions 0 and 1 as reading 1, from offset 10.
fn reading() -> Ledger {
    let mut ledger = Ledger::default();
    for partition in [0, 1] {
        ledger.restart(&t(partition), 1, None);
        ledger.start(&t(partition), 1, place(10), true);
    }
    ledger
}

fn snapshot(ledger: &mut Ledger) -> Vec<(i32, i64)> {
    let brought = ledger.snapshot(None).into_iter();
    brought.map(|(partition, CommitOffset { offset, .. })| (partition.partition, offset)).collect()
}

fn hand_out(ledger: &mut Ledger, batch: u64, holder: u64, parts: &[(i32, i64)]) {
    let places: Vec<(TopicPartition, u64, OffsetAndEpoch)> =
        parts.iter().map(|&(partition, next)| (t(partition), 1, place(next))).collect();
    ledger.hand_out(batch, holder, &places);
}

// 6. revoke_commits_only_delivered_and_acknowledged_rows
#[test]
fn only_what_is_finished_is_brought_and_only_once() {
    let mut ledger = reading();
    hand_out(&mut ledger, 1, 7, &[(0, 20), (1, 15)]);
    assert_eq!(snapshot(&mut ledger), []);
    ledger.finish_held(7);
    assert_eq!(snapshot(&mut ledger), [(0, 20), (1, 15)]);
    assert_eq!(snapshot(&mut ledger), []);
    ledger.not_committed(&t(0), 20);
    assert_eq!(snapshot(&mut ledger), [(0, 20)], "a commit that failed is brought again");
    ledger.not_committed(&t(0), 10);
    assert_eq!(snapshot(&mut ledger), [], "one of an older place is not");
}

#[test]
fn several_holders_that_finish_out_of_order_move_the_frontier_up_to_the_first_gap() {
    let mut ledger = reading();
    for (batch, next) in [(1, 20), (2, 30), (3, 40)] {
        hand_out(&mut ledger, batch, 100 + batch, &[(0, next)]);
    }
    ledger.finish_held(103);
    assert_eq!(ledger.finished(&t(0)), Some(place(10)));
    ledger.finish_held(101);
    assert_eq!(snapshot(&mut ledger), [(0, 20)]);
    assert!(!ledger.is_quiet([&t(0)]) && ledger.is_quiet([&t(1)]));
    ledger.finish(2);
    assert_eq!(snapshot(&mut ledger), [(0, 40)], "the third was finished before");
    assert!(ledger.is_quiet([&t(0), &t(1)]));
}

// req: S083
#[test]
fn a_seek_is_never_overwritten_by_what_was_finished_or_failed_before_it() {
    let mut ledger = reading();
    hand_out(&mut ledger, 1, 7, &[(0, 20)]);
    ledger.finish(1);
    assert_eq!(snapshot(&mut ledger), [(0, 20)], "an auto-commit is under way");
    hand_out(&mut ledger, 2, 7, &[(0, 30)]);
    ledger.restart(&t(0), 2, Some(place(5)));
    assert!(ledger.is_quiet([&t(0)]), "what is out of it counts for nothing");
    ledger.finish_held(7);
    ledger.not_committed(&t(0), 20);
    assert_eq!(ledger.finished(&t(0)), Some(place(5)));
    assert_eq!(snapshot(&mut ledger), [(0, 5)], "the seek itself is committed, after the other");
    // A seek to an offset that is not known yet: nothing is committed until it is known.
    ledger.restart(&t(0), 3, None);
    assert_eq!(snapshot(&mut ledger), []);
    ledger.start(&t(0), 2, place(99), false);
    assert_eq!(ledger.finished(&t(0)), None, "a lookup of before the seek");
    ledger.start(&t(0), 3, place(0), false);
    assert_eq!(snapshot(&mut ledger), [(0, 0)]);
}

#[test]
fn what_is_finished_of_a_partition_that_is_gone_or_gained_anew_counts_for_nothing() {
    let mut ledger = reading();
    hand_out(&mut ledger, 1, 7, &[(0, 20)]);
    ledger.release(&t(0));
    ledger.finish(1);
    assert_eq!(snapshot(&mut ledger), []);
    ledger.restart(&t(0), 9, None);
    hand_out(&mut ledger, 2, 7, &[(0, 50)]);
    ledger.finish_held(7);
    assert_eq!((ledger.finished(&t(0)), snapshot(&mut ledger)), (None, vec![]), "an old reading");
}

#[test]
fn an_offset_of_the_users_choice_stands_until_more_is_finished() {
    let mut ledger = reading();
    hand_out(&mut ledger, 1, 7, &[(0, 20)]);
    ledger.finish(1);
    assert_eq!(snapshot(&mut ledger), [(0, 20)]);
    ledger.chosen(&t(0));
    ledger.not_committed(&t(0), 20);
    assert_eq!(snapshot(&mut ledger), [], "the auto-commit that failed does not come after it");
    hand_out(&mut ledger, 2, 7, &[(0, 30)]);
    ledger.finish(2);
    assert_eq!(snapshot(&mut ledger), [(0, 30)]);
}

#[test]
fn rows_of_a_batch_are_finished_one_by_one_in_order() {
    let mut ledger = reading();
    hand_out(&mut ledger, 1, 7, &[(0, 20)]);
    hand_out(&mut ledger, 2, 7, &[(0, 30)]);
    ledger.finish_up_to(2, &t(0), place(25));
    assert_eq!(snapshot(&mut ledger), [], "the batch before is not finished");
    ledger.finish_up_to(1, &t(0), place(13));
    assert_eq!(snapshot(&mut ledger), [(0, 13)]);
    ledger.finish_up_to(1, &t(0), place(12));
    ledger.finish_up_to(1, &t(0), place(99));
    assert_eq!(snapshot(&mut ledger), [], "neither back nor beyond the batch");
    ledger.finish_held(7);
    assert_eq!(snapshot(&mut ledger), [(0, 30)]);
}

#[test]
fn a_position_that_the_log_lost_moves_the_frontier_when_what_is_out_is_finished() {
    let mut ledger = reading();
    ledger.moved(&t(1), 1, place(100));
    assert_eq!(snapshot(&mut ledger), [(1, 100)]);
    hand_out(&mut ledger, 1, 7, &[(0, 20)]);
    ledger.moved(&t(0), 1, place(500));
    assert_eq!(snapshot(&mut ledger), []);
    ledger.moved(&t(0), 8, place(900));
    ledger.finish(1);
    assert_eq!(snapshot(&mut ledger), [(0, 500)]);
}

#[test]
fn a_start_that_is_not_committed_is_worth_a_commit() {
    let mut ledger = Ledger::default();
    ledger.restart(&t(0), 1, None);
    ledger.start(&t(0), 1, place(42), false);
    ledger.start(&t(0), 1, place(43), false);
    assert_eq!(snapshot(&mut ledger), [(0, 42)]);
}

#[test]
fn reading_begins_again_where_the_last_commit_is() {
    let mut ledger = reading();
    assert_eq!(ledger.bases(), []);
    hand_out(&mut ledger, 1, 7, &[(0, 20)]);
    assert!(ledger.is_ahead(&t(0)) && !ledger.is_ahead(&t(1)));
    ledger.finish(1);
    // Offsets that were taken for a commit are not committed yet.
    assert_eq!(snapshot(&mut ledger), [(0, 20)]);
    assert_eq!(ledger.bases(), [(t(0), Some(place(10)))]);
    ledger.committed(&t(0), place(20));
    assert_eq!(ledger.bases(), []);
    hand_out(&mut ledger, 2, 7, &[(0, 30)]);
    assert_eq!(ledger.bases(), [(t(0), Some(place(20)))]);
    // Reading begins at the offset of the seek, whatever was committed before.
    ledger.restart(&t(0), 2, Some(place(5)));
    assert_eq!(ledger.bases(), []);
    ledger.committed(&t(0), place(30));
    assert!(!ledger.is_ahead(&t(0)), "a commit of before the seek");
}

#[test]
fn what_is_committed_while_it_is_held_is_not_read_again() {
    let mut ledger = reading();
    hand_out(&mut ledger, 1, 7, &[(0, 20)]);
    // No holder has this batch, so it says nothing about rows that were handed out.
    ledger.committed(&t(0), place(99));
    assert_eq!(ledger.bases(), [(t(0), Some(place(10)))]);
    ledger.committed(&t(0), place(20));
    assert_eq!(ledger.bases(), [(t(0), Some(place(20)))]);
    ledger.finish(1);
    assert_eq!(ledger.bases(), []);
}

#[test]
fn what_is_given_back_is_passed_by_no_frontier_before_it_is_handed_out_again() {
    let mut ledger = reading();
    hand_out(&mut ledger, 1, 7, &[(0, 20)]);
    hand_out(&mut ledger, 2, 8, &[(0, 30)]);
    // The first holder took two rows and ended; the second goes on.
    assert!(ledger.divide(1, &t(0), &[(1, place(12)), (3, place(20))], Finisher::NextHolder));
    ledger.finish_held(8);
    ledger.finish_held(7);
    assert_eq!(snapshot(&mut ledger), [(0, 12)]);
    assert!(ledger.is_quiet([&t(0)]), "nobody has what is left: nobody is waited for");
    ledger.pass_on(3, Finisher::Holder(9));
    assert!(!ledger.is_quiet([&t(0)]));
    ledger.finish_held(9);
    assert_eq!(snapshot(&mut ledger), [(0, 30)]);
}

#[test]
fn what_was_given_back_whole_is_in_nobodys_hands() {
    let mut ledger = reading();
    hand_out(&mut ledger, 1, 7, &[(0, 20)]);
    assert!(ledger.divide(1, &t(0), &[(2, place(20))], Finisher::NextHolder));
    assert_eq!((ledger.finisher(1), ledger.finisher(2)), (None, Some(Finisher::NextHolder)));
    assert!(!ledger.is_ahead(&t(0)), "no transaction has records of it");
    ledger.restart(&t(0), 2, Some(place(5)));
    assert_eq!(ledger.finisher(2), None, "a seek forgets it");
    assert!(!ledger.divide(2, &t(0), &[(3, place(20))], Finisher::NextHolder));
}

#[test]
fn parts_that_were_handed_over_are_finished_in_any_order_and_the_frontier_goes_to_the_first_gap() {
    let mut ledger = reading();
    // A batch that returns to partition 0 after rows of the other partition. Its last markers belong to its last part.
    hand_out(&mut ledger, 1, 7, &[(0, 14), (1, 15), (0, 21)]);
    assert!(ledger.divide(1, &t(0), &[(2, place(14)), (3, place(20))], Finisher::ById));
    assert!(ledger.divide(1, &t(1), &[(4, place(15))], Finisher::ById));
    assert_eq!(ledger.finisher(1), None);
    ledger.finish_held(7);
    ledger.finish(3);
    assert_eq!(snapshot(&mut ledger), []);
    ledger.pass_on(4, Finisher::Nobody);
    assert!(ledger.is_quiet([&t(1)]) && !ledger.is_quiet([&t(0)]));
    assert_eq!(ledger.unfinished(4), [(t(1), place(15))]);
    ledger.committed(&t(1), place(15));
    assert_eq!(ledger.unfinished(4), [], "an offset of the user's own choice");
    ledger.finish(2);
    assert_eq!(snapshot(&mut ledger), [(0, 21)]);
    assert!(ledger.is_ahead(&t(1)), "what its holder left is not finished");
    ledger.finish(4);
    assert_eq!(snapshot(&mut ledger), [(1, 15)], "somebody says so after all");
}

#[test]
fn rows_one_by_one_of_a_batch_that_comes_back_to_a_partition_are_finished_beyond_its_first_part() {
    let mut ledger = reading();
    hand_out(&mut ledger, 1, 7, &[(0, 14), (1, 15), (0, 21)]);
    ledger.finish_up_to(1, &t(0), place(12));
    assert_eq!(snapshot(&mut ledger), [(0, 12)]);
    ledger.finish_up_to(1, &t(0), place(18));
    assert_eq!(snapshot(&mut ledger), [(0, 18)]);
    ledger.finish_held(7);
    assert_eq!(snapshot(&mut ledger), [(0, 21), (1, 15)]);
}
