//! The rows in hand: what was decided of each, and when their locks are renewed.

use std::ops::Range;

use monedula_engine::Now;
use monedula_engine::share::AcknowledgeType::{Accept, Gap, Reject, Release, Renew};
use monedula_engine::share::{
    AcknowledgeError, AcknowledgeType, AcknowledgedRange, Acknowledgement, Acquired, Decided, HeldPart, HeldRows,
    RowRun, SessionId,
};

use crate::world::{ID, LOCK, range, secs, t};

const SESSION: SessionId = SessionId { node: 1, generation: 0 };
const LONGEST: Now = Now::from_secs(300);
const BEGIN: Now = Now::from_secs(1000);

fn part(partition: i32, runs: &[(usize, i64, usize)]) -> HeldPart {
    HeldPart {
        session: SESSION,
        partition: t(partition),
        topic_id: ID,
        runs: runs.iter().map(|&(row, offset, rows)| RowRun { row, offset, rows }).collect(),
        gaps: Vec::new(),
        deadline: BEGIN + LOCK,
        lock_timeout: LOCK,
    }
}

fn hand_out(held: &mut HeldRows, holder: u64, parts: Vec<HeldPart>) -> u64 {
    let (id, gaps) = held.hand_out(holder, parts, BEGIN);
    assert_eq!(gaps, []);
    id.unwrap_or_default()
}

/// Rows 0 to 9, offsets 100 to 109 of t-0, in the hands of holder 7.
fn ten() -> (HeldRows, u64) {
    let mut held = HeldRows::new(LONGEST);
    let id = hand_out(&mut held, 7, vec![part(0, &[(0, 100, 10)])]);
    (held, id)
}

fn ranges(taken: &[(Acknowledgement, Option<AcknowledgeError>)]) -> Vec<AcknowledgedRange> {
    taken.iter().flat_map(|(taken, _)| taken.ranges.clone()).collect()
}

fn one(rows: Range<usize>) -> [Range<usize>; 1] {
    [rows]
}

fn decide(held: &mut HeldRows, id: u64, rows: &[Range<usize>], kind: AcknowledgeType) {
    assert_eq!(held.decide(id, rows, kind), Decided::Taken);
}

#[test]
fn decisions_become_ranges_of_offsets_and_are_taken_once() {
    let (mut held, id) = ten();
    decide(&mut held, id, &[0..3, 5..6], Accept);
    decide(&mut held, id, &one(3..5), Release);
    let taken = held.take_decided(None, BEGIN);
    assert_eq!(ranges(&taken), [range(100, 102, Accept), range(103, 104, Release), range(105, 105, Accept)]);
    assert!(held.take_decided(None, BEGIN).is_empty());
    assert_eq!(held.undecided(BEGIN), 4);
    decide(&mut held, id, &one(6..10), Reject);
    assert_eq!(ranges(&held.take_decided(None, BEGIN)), [range(106, 109, Reject)]);
    assert_eq!(held.decide(id, &one(0..1), Accept), Decided::Unknown, "all was decided and told");
}

#[test]
fn the_first_decision_counts_and_another_changes_nothing_at_all() {
    let (mut held, id) = ten();
    decide(&mut held, id, &one(4..5), Release);
    decide(&mut held, id, &one(4..5), Release);
    let conflict = held.decide(id, &one(0..10), Accept);
    assert_eq!(conflict, Decided::Conflict { row: 4, before: Some(Release) });
    assert_eq!(held.undecided(BEGIN), 9);
    held.take_decided(None, BEGIN);
    assert_eq!(held.decide(id, &one(4..5), Reject), Decided::Conflict { row: 4, before: None });
}

#[test]
fn who_asks_for_the_next_batch_accepts_what_it_holds_and_nobody_elses() {
    let (mut held, _) = ten();
    let other = hand_out(&mut held, 8, vec![part(1, &[(0, 0, 2)])]);
    held.accept_rest(7);
    assert_eq!(held.release_rest_of(7), 0, "nothing is left undecided");
    assert_eq!(ranges(&held.take_decided(None, BEGIN)), [range(100, 109, Accept)]);
    assert_eq!((held.rows(other), held.undecided(BEGIN)), (Some(2), 2));
    held.release_rest();
    assert_eq!(ranges(&held.take_decided(None, BEGIN)), [range(0, 1, Release)]);
}

// Their locks ended while the rows were in hand, which alone are renewed; they were acquired again, and acknowledged twice.
#[test]
fn offsets_without_a_record_are_acknowledged_when_the_rows_beside_them_are_handed_out() {
    let mut held = HeldRows::new(LONGEST);
    let first = HeldPart { gaps: vec![(12, 13)], ..part(0, &[(0, 10, 2), (2, 14, 1)]) };
    let (id, gaps) = held.hand_out(7, vec![first, part(1, &[(3, 10, 1)])], BEGIN);
    let told: Vec<_> = gaps.iter().map(|gaps| (gaps.partition.clone(), gaps.ranges.clone())).collect();
    assert_eq!(told, [(t(0), vec![range(12, 13, Gap)])]);
    decide(&mut held, id.unwrap_or_default(), &one(0..4), Accept);
    let taken = held.take_decided(None, BEGIN);
    assert_eq!(ranges(&taken), [range(10, 11, Accept), range(14, 14, Accept), range(10, 10, Accept)]);
    assert!(taken.iter().all(|(taken, _)| taken.ticket != gaps[0].ticket), "each has its own outcome");
    let markers = HeldPart { gaps: vec![(15, 15)], ..part(0, &[]) };
    let (id, gaps) = held.hand_out(7, vec![markers], BEGIN);
    assert_eq!((id, gaps[0].ranges.clone()), (None, vec![range(15, 15, Gap)]), "nobody will decide anything of it");
}

#[test]
fn a_record_is_found_by_its_place_in_its_last_delivery() {
    let (mut held, first) = ten();
    assert_eq!(held.find(&t(0), 104), Some((first, 4)));
    assert_eq!((held.find(&t(0), 110), held.find(&t(1), 104)), (None, None));
    let again = hand_out(&mut held, 7, vec![part(0, &[(0, 104, 1)])]);
    assert_eq!(held.find(&t(0), 104), Some((again, 0)));
}

#[test]
fn locks_of_undecided_rows_are_renewed_at_three_fifths_of_their_time() {
    let (mut held, id) = ten();
    decide(&mut held, id, &[0..4, 9..10], Accept);
    let due = BEGIN + LOCK.mul_f64(0.6);
    assert_eq!(held.due(), Some(due));
    assert!(held.due_renewals(due - secs(1)).is_empty());
    assert_eq!(ranges(&held.take_decided(None, due)).len(), 2);
    let renewals = held.due_renewals(due);
    assert_eq!(renewals[0].ranges, [range(104, 108, Renew)]);
    assert!(held.due_renewals(due).is_empty(), "it is under way");
    held.renewed(renewals[0].ticket, &Ok(due + LOCK));
    assert_eq!((held.deadline(id), held.due()), (Some(due + LOCK), Some(due + LOCK.mul_f64(0.6))));
}

// Their locks are not renewed with the others', so they must not wait for the user's next call.
#[test]
fn decisions_are_due_before_their_locks_end() {
    let (mut held, id) = ten();
    decide(&mut held, id, &one(0..10), Accept);
    assert_eq!(held.due(), Some(BEGIN + LOCK.mul_f64(0.6)));
    held.take_decided(None, BEGIN);
    assert_eq!(held.due(), None);
}

#[test]
fn renewals_end_after_the_longest_time_in_hand() {
    let mut held = HeldRows::new(secs(40));
    let id = hand_out(&mut held, 7, vec![part(0, &[(0, 100, 10)])]);
    let mut now = BEGIN;
    let mut renewals = 0;
    while let Some(due) = held.due() {
        now = due;
        let due = held.due_renewals(now);
        assert_eq!(due.len(), 1);
        held.renewed(due[0].ticket, &Ok(now + LOCK));
        renewals += 1;
    }
    assert_eq!((renewals, now), (2, BEGIN + LOCK.mul_f64(0.6) * 2));
    assert_eq!(held.renew(id, &one(0..1), now).len(), 1, "the user may go on");
    let mut never = HeldRows::new(secs(0));
    never.hand_out(7, vec![part(0, &[(0, 100, 10)])], BEGIN);
    assert_eq!(never.due(), None);
}

#[test]
fn a_renewal_that_was_refused_is_not_tried_again() {
    let (mut held, id) = ten();
    let due = BEGIN + LOCK.mul_f64(0.6);
    let ticket = held.due_renewals(due)[0].ticket;
    held.renewed(ticket, &Err(AcknowledgeError::LockLost));
    assert!(held.due_renewals(due).is_empty() && held.renew(id, &one(0..10), due).is_empty());
    let told = |held: &mut HeldRows, now: Now| {
        let refused = held.not_renewable(id, &one(2..4), now);
        refused.into_iter().map(|(refused, error)| (refused.ranges, error)).collect::<Vec<_>>()
    };
    let rows = vec![range(102, 103, Renew)];
    assert_eq!(told(&mut held, due), [(rows.clone(), AcknowledgeError::NotRenewed)], "whoever asked the broker first");
    assert_eq!(told(&mut held, BEGIN + LOCK + LONGEST), [(rows, AcknowledgeError::LockLost)]);
    assert_eq!(held.due(), None);
}

#[test]
fn rows_that_were_acquired_together_are_renewed_together() {
    let mut held = HeldRows::new(LONGEST);
    let id = hand_out(&mut held, 7, vec![part(0, &[(0, 100, 5)]), part(1, &[(5, 0, 5)])]);
    let renewals = held.renew(id, &one(2..3), BEGIN + secs(1));
    assert_eq!(renewals.len(), 1);
    assert_eq!(renewals[0].ranges, [range(100, 104, Renew)], "they have one deadline");
    held.renewed(renewals[0].ticket, &Ok(BEGIN + secs(60)));
    assert_eq!(held.deadline(id), Some(BEGIN + LOCK), "the other part ends first");
}

// One such offset would fail all of its partition, innocent ones included.
#[test]
fn a_decision_whose_lock_is_over_is_not_sent() {
    let (mut held, id) = ten();
    decide(&mut held, id, &one(0..10), Accept);
    let taken = held.take_decided(None, BEGIN + LOCK);
    assert_eq!(taken[0].1, Some(AcknowledgeError::LockLost));
}

#[test]
fn nothing_is_renewed_of_a_session_that_ended() {
    let (mut held, id) = ten();
    held.locks_lost(SessionId { generation: 3, ..SESSION }, None);
    held.locks_lost(SESSION, Some(&t(1)));
    assert_eq!(held.deadline(id), Some(BEGIN + LOCK), "others'");
    held.locks_lost(SESSION, None);
    assert!(held.deadline(id).is_some_and(|deadline| deadline < BEGIN));
    assert!(held.due_renewals(BEGIN + LOCK).is_empty());
    assert_eq!(held.due(), None);
}

#[test]
fn undecided_rows_are_decided_without_changing_what_was_decided() {
    let (mut held, id) = ten();
    decide(&mut held, id, &one(1..2), Reject);
    held.decide_undecided(id, 0..3, Accept);
    let taken = held.take_decided(Some(id), BEGIN);
    assert_eq!(ranges(&taken), [range(100, 100, Accept), range(101, 101, Reject), range(102, 102, Accept)]);
    assert!(held.take_decided(Some(id + 1), BEGIN).is_empty());
}

#[test]
fn rows_that_are_acquired_again_are_locked_no_more_where_they_are_in_hand() {
    let again = |first, last| [Acquired { first, last, delivery_count: 2 }];
    let (mut held, id) = ten();
    decide(&mut held, id, &one(0..2), Release);
    held.take_decided(None, BEGIN);
    held.acquired_again(&t(0), &again(100, 101));
    assert!(held.deadline(id).is_some_and(|at| at > BEGIN), "those were released, and are nobody's here");
    held.acquired_again(&t(1), &again(100, 109));
    held.acquired_again(&t(0), &again(110, 119));
    assert!(held.deadline(id).is_some_and(|at| at > BEGIN), "those are others");
    held.acquired_again(&t(0), &again(101, 102));
    decide(&mut held, id, &one(2..10), Accept);
    assert_eq!(held.take_decided(None, BEGIN)[0].1, Some(AcknowledgeError::LockLost));
}

#[test]
fn rows_that_were_handed_over_are_not_accepted_by_asking_for_the_next_batch() {
    let mut held = HeldRows::new(LONGEST);
    let id = hand_out(&mut held, 7, vec![part(0, &[(0, 100, 4)]), part(1, &[(4, 0, 2), (6, 9, 1)])]);
    assert_eq!(held.hand_over(id), [(t(0), 0..4), (t(1), 4..7)]);
    let other = hand_out(&mut held, 8, vec![part(2, &[(0, 50, 1)])]);
    held.accept_rest(7);
    assert_eq!(held.undecided(BEGIN), 8);
    held.decide_undecided(id, 0..1, Accept);
    assert_eq!(held.release_rest_of(7), 0, "handlers have them");
    let taken = held.take_decided(None, BEGIN);
    let released = [range(100, 100, Accept), range(101, 103, Release), range(0, 1, Release), range(9, 9, Release)];
    assert_eq!(ranges(&taken), released);
    assert_eq!(held.rows(other), Some(1));
    assert!(held.hand_over(id).is_empty(), "all of it was told");
}

#[test]
fn a_handler_begins_while_the_lock_holds_and_then_has_the_whole_time_of_renewals() {
    let (mut held, id) = ten();
    let renew = |held: &mut HeldRows, now: Now| {
        let renewals = held.due_renewals(now);
        for renewal in &renewals {
            held.renewed(renewal.ticket, &Ok(now + LOCK));
        }
        renewals.len()
    };
    let mut now = BEGIN;
    while renew(&mut held, now) > 0 || now < BEGIN + LONGEST {
        now += LOCK / 4;
    }
    assert!(held.due().is_none(), "the time is over");
    let last = held.deadline(id).unwrap_or_default();
    assert!(held.begin(id, 4, last - secs(1)));
    assert!(renew(&mut held, last - secs(1)) > 0, "from now on it is renewed again");
    assert!(!held.begin(id, 4, last + LOCK + LOCK), "nobody renewed it");
    assert!(!held.begin(id + 1, 0, BEGIN), "no such batch");
}

#[test]
fn a_loop_over_records_has_its_rows_accepted_one_by_one_and_none_that_it_did_not_come_to() {
    let (mut held, id) = ten();
    assert!(held.read(id, 0, true, BEGIN));
    assert!(held.read(id, 1, true, BEGIN));
    assert_eq!(ranges(&held.take_decided(None, BEGIN)), [range(100, 100, Accept)]);
    held.accept_rest(7);
    assert_eq!(ranges(&held.take_decided(None, BEGIN)), [range(101, 101, Accept)]);
    assert!(held.read(id, 2, false, BEGIN));
    assert!(held.read(id, 3, false, BEGIN));
    assert!(!held.read(id, 4, false, BEGIN + LOCK), "its lock is over");
    assert_eq!(ranges(&held.take_decided(None, BEGIN)), [range(104, 104, Release)]);
    held.accept_rest(7);
    assert_eq!(ranges(&held.take_decided(None, BEGIN)), [range(102, 103, Accept)]);
    held.release_rest_of(7);
    assert_eq!(ranges(&held.take_decided(None, BEGIN)), [range(105, 109, Release)]);
    assert!(!held.read(id, 5, true, BEGIN), "all was told");
}

#[test]
fn a_loop_over_records_ends_with_its_last_row() {
    let (mut held, id) = ten();
    assert!((0..10).all(|row| held.read(id, row, true, BEGIN)));
    assert!(!held.read(id, 10, true, BEGIN));
    assert_eq!(ranges(&held.take_decided(None, BEGIN)), [range(100, 109, Accept)]);
}

// Of a program that decides explicitly, and forgets some.
#[test]
fn rows_whose_locks_are_over_are_not_in_hand_and_are_forgotten_some_time_after() {
    let (mut held, id) = ten();
    decide(&mut held, id, &one(0..2), Accept);
    held.take_decided(None, BEGIN);
    assert_eq!((held.undecided(BEGIN), held.undecided(BEGIN + LOCK)), (8, 0));
    let later = |held: &mut HeldRows, now: Now| held.hand_out(8, vec![part(1, &[(0, 0, 1)])], now);
    later(&mut held, BEGIN + LONGEST + secs(299));
    decide(&mut held, id, &one(2..3), Accept);
    later(&mut held, BEGIN + LONGEST + secs(301));
    let told = held.take_decided(Some(id), BEGIN + LONGEST + secs(301));
    assert_eq!(told[0].1, Some(AcknowledgeError::LockLost), "what was decided is told of");
    later(&mut held, BEGIN + LONGEST + secs(301));
    assert_eq!(held.rows(id), None);
}
