//! Lanes of a run: which rows may begin, which are finished, and what a run reports; then runs drawn from seeds.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod model;
mod random;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use monedula_engine::TopicPartition;
use monedula_engine::lanes::{Lanes, Limits, Order, Reading, Report, RoundPart, RowPermission};

const NOW: Duration = Duration::from_secs(100);

type Keys = &'static [Option<&'static str>];

fn lanes(order: Order, task_rows: usize, is_transactional: bool) -> Lanes<u32> {
    Lanes::new(order, Limits { task_rows, rows: 100, bytes: 1000, rows_at_once: 50 }, is_transactional)
}

fn partition(index: i32) -> TopicPartition {
    TopicPartition::new("orders", index)
}

fn add(lanes: &mut Lanes<u32>, payload: u32, keys: Keys) -> usize {
    lanes.add(&partition(0), payload, keys.len(), 10, |row| keys[row].map(str::as_bytes))
}

/// The payload and the rows of a worker's next task.
fn take(lanes: &mut Lanes<u32>, worker: usize) -> Option<(u32, Vec<usize>)> {
    lanes.take(worker, NOW, |_| RowPermission::Now).then(|| {
        let (task, payload) = lanes.task(worker).unwrap();
        (*payload, task.rows().collect())
    })
}

fn report(payload: u32, rows: usize, total: usize, is_last: bool) -> Report<u32> {
    Report { payload, rows, total, is_last }
}

/// The next transaction of a run in which nobody sought.
fn round(lanes: &mut Lanes<u32>) -> Vec<RoundPart<u32>> {
    round_of(lanes, false, None, |_| Reading::Current)
}

/// The next transaction: the first row of part 7 has the offset 70.
fn round_of(
    lanes: &mut Lanes<u32>,
    is_last: bool,
    position: Option<i64>,
    reading: impl Fn(&u32) -> Reading,
) -> Vec<RoundPart<u32>> {
    let positions: BTreeMap<_, _> = position.map(|position| (partition(0), position)).into_iter().collect();
    lanes.round(is_last, &positions, reading, |part, row| Some(i64::from(*part) * 10 + row as i64))
}

/// The offset that a part of a transaction has after a seek, and the last rows of its calls.
fn sought(part: &RoundPart<u32>) -> (Option<i64>, Vec<usize>) {
    (part.sought, (0..10).filter(|row| part.has_call(*row)).collect())
}

/// The user sought away from the parts before this one.
fn sought_before(part: u32) -> impl Fn(&u32) -> Reading {
    move |payload| if *payload < part { Reading::Sought } else { Reading::Current }
}

#[test]
fn rows_with_the_same_key_come_one_after_the_other_and_others_side_by_side() {
    let mut lanes = lanes(Order::Key, 1, false);
    assert_eq!(add(&mut lanes, 7, &[Some("a"), Some("a"), None, Some("b"), None]), 4);
    assert!(lanes.is_ready_for(4, NOW) && !lanes.is_ready_for(5, NOW));
    let taken: Vec<_> = (0..5).map(|worker| take(&mut lanes, worker)).collect();
    let begun = taken.iter().flatten().map(|(_, rows)| rows[0]).collect::<BTreeSet<_>>();
    assert_eq!(begun, BTreeSet::from([0, 2, 3, 4]));
    assert_eq!(taken[4], None, "the second row of a key waits for the first");
    assert!(!lanes.is_ready_for(1, NOW));
    assert_eq!(lanes.finish(0), 1);
    assert!(lanes.is_ready_for(1, NOW) && !lanes.is_ready_for(2, NOW));
    assert_eq!(take(&mut lanes, 4), Some((7, vec![1])));
}

#[test]
fn an_empty_key_is_a_key() {
    let mut lanes = lanes(Order::Key, 1, false);
    add(&mut lanes, 0, &[Some(""), Some(""), None]);
    assert_eq!(take(&mut lanes, 0), Some((0, vec![0])));
    assert_eq!(take(&mut lanes, 1), Some((0, vec![2])));
    assert_eq!(take(&mut lanes, 2), None);
}

#[test]
fn only_rows_before_the_first_unfinished_one_are_reported_and_parts_in_their_order() {
    let mut lanes = lanes(Order::None, 1, false);
    add(&mut lanes, 1, &[None, None, None]);
    add(&mut lanes, 2, &[None]);
    for worker in 0..4 {
        take(&mut lanes, worker).unwrap();
    }
    lanes.finish(2);
    lanes.finish(3);
    // A complete part is reported at once: its consumer knows which are before it.
    assert_eq!(lanes.reports(), [report(2, 1, 1, true)]);
    lanes.finish(0);
    assert_eq!(lanes.reports(), [report(1, 1, 3, false)]);
    assert_eq!(lanes.reports(), [], "nothing is new");
    lanes.finish(1);
    assert_eq!(lanes.reports(), [report(1, 3, 3, true)]);
    assert_eq!((lanes.part_count(), lanes.queued_bytes()), (0, 0));
    assert_eq!(lanes.take_removed(), [2, 1]);
}

#[test]
fn a_task_has_several_rows_of_one_lane_and_one_part() {
    let mut lanes = lanes(Order::Key, 3, false);
    add(&mut lanes, 1, &[Some("a"), Some("b"), Some("a"), Some("a"), Some("a")]);
    add(&mut lanes, 2, &[Some("b")]);
    assert_eq!(take(&mut lanes, 0), Some((1, vec![0, 2, 3])));
    assert_eq!(take(&mut lanes, 1), Some((1, vec![1])));
    assert_eq!(lanes.finish(0), 3);
    lanes.finish(1);
    assert_eq!(take(&mut lanes, 0), Some((1, vec![4])));
    assert_eq!(take(&mut lanes, 1), Some((2, vec![0])));
}

#[test]
fn a_retry_keeps_its_lane_waiting_and_the_end_gives_it_one_more_attempt() {
    let mut lanes = lanes(Order::Partition, 1, false);
    add(&mut lanes, 1, &[Some("a"), Some("b")]);
    take(&mut lanes, 0).unwrap();
    assert!(lanes.retry(0, NOW, NOW + Duration::from_secs(9)));
    assert_eq!(take(&mut lanes, 0), None);
    assert_eq!(lanes.next_due(NOW), Some(Duration::from_secs(9)));
    lanes.end_gracefully(NOW);
    assert_eq!(take(&mut lanes, 0), Some((1, vec![0])));
    assert_eq!(lanes.task(0).unwrap().0.attempts(), 2);
    assert!(!lanes.retry(0, NOW, NOW), "that was the last one");
    assert!(lanes.is_idle(), "nor is the row behind it handled");
    assert_eq!(lanes.reports(), [report(1, 0, 2, true)]);
}

#[test]
fn a_frozen_partition_begins_what_comes_before_the_last_row_begun() {
    let mut lanes = lanes(Order::Key, 1, false);
    add(&mut lanes, 1, &[Some("a"), Some("a"), Some("b"), Some("c")]);
    take(&mut lanes, 0).unwrap();
    assert_eq!(take(&mut lanes, 1), Some((1, vec![2])));
    lanes.freeze(&partition(0));
    assert_eq!(take(&mut lanes, 2), None, "c is after b");
    lanes.finish(0);
    assert_eq!(take(&mut lanes, 0), Some((1, vec![1])), "the second a is before b");
    lanes.finish(0);
    lanes.finish(1);
    assert_eq!(lanes.reports(), [report(1, 3, 4, true)]);
    assert!(lanes.is_idle());
    lanes.thaw(&BTreeSet::new());
    add(&mut lanes, 2, &[Some("c")]);
    assert_eq!(take(&mut lanes, 0), Some((2, vec![0])));
}

#[test]
fn a_partition_that_is_lost_begins_nothing_and_a_lease_that_is_over_waits() {
    let mut lanes = lanes(Order::Partition, 1, false);
    add(&mut lanes, 1, &[None, None]);
    assert!(!lanes.take(0, NOW, |_| RowPermission::Later));
    assert_eq!(lanes.waiting(), 2);
    let later = NOW + lanes.next_due(NOW).unwrap();
    assert!(later > NOW && !lanes.is_ready_for(1, NOW) && lanes.is_ready_for(1, later));
    assert!(!lanes.take(0, later, |_| RowPermission::Never));
    assert!(lanes.is_idle());
    assert_eq!(lanes.reports(), [report(1, 0, 2, true)]);
}

#[test]
fn a_failure_begins_nothing_and_after_the_end_nothing_counts() {
    let mut lanes = lanes(Order::None, 1, false);
    add(&mut lanes, 1, &[None, None, None]);
    take(&mut lanes, 0).unwrap();
    take(&mut lanes, 1).unwrap();
    lanes.fail();
    assert_eq!((lanes.waiting(), lanes.in_flight()), (0, 2));
    add(&mut lanes, 2, &[None]);
    assert!(!lanes.is_ready_for(1, NOW) && take(&mut lanes, 2).is_none());
    lanes.finish(0);
    assert_eq!(lanes.end(), [partition(0)], "the second handler is waited for no longer");
    lanes.finish(1);
    let reports = lanes.reports();
    assert_eq!(reports, [report(1, 1, 3, true), report(2, 0, 1, true)]);
    assert!(reports.iter().all(Report::is_left_behind));
    assert_eq!(lanes.part_count(), 0);
}

#[test]
fn there_is_room_once_a_quarter_of_the_queue_is_free() {
    let mut lanes = lanes(Order::None, 1, true);
    assert_eq!(lanes.room(), 50);
    lanes.add(&partition(0), 1, 50, 10, |_| None);
    lanes.add(&partition(1), 2, 26, 10, |_| None);
    assert_eq!(lanes.room(), 0);
    take(&mut lanes, 0).unwrap();
    lanes.finish(0);
    assert_eq!(lanes.room(), 0, "what is not committed is in the way too");
    let round = round(&mut lanes);
    lanes.commit(&round);
    assert_eq!(lanes.room(), 25);
    lanes.add(&partition(1), 3, 1, 980, |_| None);
    assert_eq!(lanes.room(), 0, "that is too many bytes");
}

#[test]
fn a_transaction_has_whole_tasks_without_a_gap() {
    let mut lanes = lanes(Order::Key, 2, true);
    add(&mut lanes, 1, &[Some("a"), Some("b"), Some("a"), Some("b")]);
    take(&mut lanes, 0).unwrap();
    take(&mut lanes, 1).unwrap();
    lanes.finish(0);
    assert!(round(&mut lanes).is_empty(), "the task with rows 0 and 2 is around row 1");
    assert_eq!(lanes.uncommitted(), 2);
    lanes.finish(1);
    let round = round(&mut lanes);
    assert_eq!(round.iter().map(|part| (part.begin, part.end)).collect::<Vec<_>>(), [(0, 4)]);
    assert!(lanes.settled_rounds(|_| Reading::Current).is_empty(), "it is not committed");
    assert_eq!(lanes.commit(&round), [report(1, 4, 4, false)]);
    assert_eq!(lanes.settled_rounds(|_| Reading::Current), [report(1, 4, 4, true)]);
    assert_eq!((lanes.uncommitted(), lanes.part_count()), (0, 0));
}

#[test]
fn nothing_behind_a_gap_is_committed_while_the_partition_stays() {
    let mut lanes = lanes(Order::None, 1, true);
    add(&mut lanes, 1, &[None]);
    add(&mut lanes, 2, &[None]);
    take(&mut lanes, 0).unwrap();
    take(&mut lanes, 1).unwrap();
    lanes.forget(0);
    lanes.finish(1);
    assert_eq!(lanes.settled_rounds(|_| Reading::Current), [report(1, 0, 1, true), report(2, 0, 1, true)]);
    add(&mut lanes, 3, &[None]);
    take(&mut lanes, 0).unwrap();
    lanes.finish(0);
    assert!(round(&mut lanes).is_empty());
    // Assigned anew: the part with the gap is of the time before.
    let reading = |payload: &u32| if *payload < 3 { Reading::Lost } else { Reading::Current };
    assert_eq!(round_of(&mut lanes, false, None, reading).len(), 1);
    assert!(!lanes.has_lost(reading));
}

#[test]
fn a_gap_counts_no_longer_once_the_partition_is_sought() {
    let mut lanes = lanes(Order::None, 1, true);
    add(&mut lanes, 1, &[None]);
    take(&mut lanes, 0).unwrap();
    lanes.forget(0);
    assert_eq!(lanes.settled_rounds(|_| Reading::Current), [report(1, 0, 1, true)]);
    add(&mut lanes, 2, &[None]);
    take(&mut lanes, 0).unwrap();
    lanes.finish(0);
    assert!(round(&mut lanes).is_empty());
    assert_eq!(round_of(&mut lanes, false, None, sought_before(2)).len(), 1);
}

#[test]
fn after_a_seek_the_finished_rows_before_the_new_position_are_committed() {
    let mut lanes = lanes(Order::None, 1, true);
    add(&mut lanes, 1, &[None, None, None, None, None]);
    for worker in 0..4 {
        take(&mut lanes, worker).unwrap();
    }
    assert!(lanes.retry(1, NOW, NOW + Duration::from_secs(9)));
    for worker in [0, 2, 3] {
        lanes.finish(worker);
    }
    assert!(lanes.sought_partitions(|_| Reading::Current).is_empty());
    assert_eq!(lanes.sought_partitions(sought_before(2)), [partition(0)]);
    assert!(round_of(&mut lanes, false, None, sought_before(2)).is_empty(), "the position is not known");
    let round = round_of(&mut lanes, false, Some(13), sought_before(2));
    assert_eq!(sought(&round[0]), (Some(13), vec![0, 2]), "row 1 is not finished, and row 3 is handled again");
    assert!(!lanes.has_lost(sought_before(2)) && lanes.settled_rounds(sought_before(2)).is_empty());
    assert_eq!(lanes.commit(&round), [report(1, 5, 5, false)]);
    assert_eq!(lanes.uncommitted(), 0);
    assert!(round_of(&mut lanes, false, Some(13), sought_before(2)).is_empty());
    assert_eq!(lanes.settled_rounds(sought_before(2)), [report(1, 5, 5, true)]);
    assert!(!lanes.take(0, NOW + Duration::from_secs(9), |_| RowPermission::Never));
    assert_eq!((lanes.part_count(), lanes.uncommitted(), lanes.is_idle()), (0, 0, true));
}

#[test]
fn a_part_that_was_sought_waits_for_its_running_handlers_but_not_at_the_end() {
    let mut lanes = lanes(Order::None, 1, true);
    add(&mut lanes, 1, &[None, None]);
    take(&mut lanes, 0).unwrap();
    take(&mut lanes, 1).unwrap();
    lanes.finish(1);
    assert!(round_of(&mut lanes, false, Some(90), sought_before(2)).is_empty());
    let last = round_of(&mut lanes, true, Some(90), sought_before(2));
    assert_eq!(sought(&last[0]), (Some(90), vec![1]));
    lanes.finish(0);
    let round = round_of(&mut lanes, false, Some(90), sought_before(2));
    assert_eq!(sought(&round[0]), (Some(90), vec![0, 1]));
}

#[test]
fn rows_that_were_handed_out_after_a_seek_say_where_it_went() {
    let mut lanes = lanes(Order::None, 1, true);
    add(&mut lanes, 5, &[None, None]);
    take(&mut lanes, 0).unwrap();
    lanes.finish(0);
    add(&mut lanes, 6, &[None]);
    // To the first row of part 6, and on from it: the position is not known, or behind that row.
    for position in [None, Some(61)] {
        let round = round_of(&mut lanes, false, position, sought_before(6));
        assert_eq!(sought(&round[0]), (Some(60), vec![0]));
    }
    // And back again, before all rows.
    let round = round_of(&mut lanes, false, Some(50), sought_before(7));
    assert_eq!(round.iter().map(sought).collect::<Vec<_>>(), [(Some(50), vec![]), (Some(50), vec![])]);
}

#[test]
fn a_call_with_several_rows_counts_as_before_a_position_if_its_first_row_is() {
    let mut lanes = lanes(Order::Key, 2, true);
    add(&mut lanes, 1, &[Some("a"), Some("b"), Some("a"), Some("b")]);
    for worker in [0, 1] {
        take(&mut lanes, worker).unwrap();
        lanes.finish(worker);
    }
    let round = round_of(&mut lanes, false, Some(11), sought_before(2));
    assert_eq!(sought(&round[0]), (Some(11), vec![0, 2]), "a's rows are 0 and 2, b's 1 and 3");
}

#[test]
fn nothing_of_a_lost_partition_is_committed_although_it_was_sought_before() {
    let mut lanes = lanes(Order::None, 1, true);
    add(&mut lanes, 1, &[None]);
    take(&mut lanes, 0).unwrap();
    lanes.finish(0);
    assert!(round_of(&mut lanes, true, Some(90), |_| Reading::Lost).is_empty());
    assert!(lanes.has_lost(|_| Reading::Lost));
    assert_eq!(lanes.settled_rounds(|_| Reading::Lost), [report(1, 0, 1, true)]);
}

#[test]
fn what_is_left_at_the_end_is_reported_as_far_as_it_is_committed() {
    let mut lanes = lanes(Order::None, 1, true);
    add(&mut lanes, 1, &[None, None]);
    take(&mut lanes, 0).unwrap();
    lanes.finish(0);
    let round = round(&mut lanes);
    take(&mut lanes, 0).unwrap();
    lanes.finish(0);
    lanes.commit(&round);
    assert_eq!(lanes.rest(), [report(1, 1, 2, true)]);
    assert_eq!((lanes.uncommitted(), lanes.part_count()), (0, 0));
}
