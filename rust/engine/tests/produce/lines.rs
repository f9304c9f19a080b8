//! Lines of records that wait: in order, each of its own transaction.

use monedula_engine::produce::Lines;

fn taken_back(lines: &mut Lines<u32>, transaction: u64) -> Vec<u32> {
    let mut failed = lines.take_back(transaction);
    failed.sort_unstable();
    failed
}

#[test]
fn the_first_is_served_until_it_is_done() {
    let mut lines = Lines::default();
    assert!(lines.join("room", 1, 10) && !lines.join("room", 1, 11) && lines.join("topic", 1, 20));
    assert!(lines.stands("room") && lines.stands("topic") && !lines.stands("another"));
    for expected in [10, 11] {
        for _ in 0..2 {
            assert_eq!(lines.first("room").map(|(_, record)| *record), Some(expected));
        }
        assert_eq!(lines.done("room"), Some(expected));
    }
    assert!(!lines.stands("room") && lines.first("room").is_none() && lines.done("room").is_none());
    assert_eq!(lines.len(), 1);
}

#[test]
fn an_abort_takes_back_what_waits_and_not_what_comes_later() {
    let mut lines = Lines::default();
    for record in 0..3 {
        lines.join("room", 1, record);
        lines.join("topic", 1, 10 + record);
    }
    let (in_hands, _) = lines.first("room").expect("one is served");
    assert!(lines.goes(in_hands));
    assert_eq!(taken_back(&mut lines, 1), [0, 1, 2, 10, 11, 12]);
    assert!(!lines.goes(in_hands), "somebody has it in hands, and finds out");
    lines.join("room", 2, 3);
    assert_eq!(lines.len(), 3, "who is served stays until it is done");
    assert!(lines.passed(lines.last() - 1), "though nobody waits for it");
    assert_eq!(lines.done("room"), Some(0));
    let (next, record) = lines.first("room").expect("it stood behind");
    assert!(*record == 3 && lines.goes(next));
    // Told only once.
    assert_eq!(taken_back(&mut lines, 1), [10]);
}

#[test]
fn one_that_comes_late_belongs_to_the_transaction_that_is_over() {
    let mut lines = Lines::default();
    assert_eq!(taken_back(&mut lines, 7), [0_u32; 0]);
    lines.join("room", 7, 1);
    let (place, _) = lines.first("room").expect("it stands there");
    assert!(!lines.goes(place));
}

#[test]
fn a_goal_is_passed_when_all_that_came_before_are_done() {
    let mut lines = Lines::default();
    lines.join("room", 1, 1);
    lines.join("topic", 1, 2);
    let goal = lines.last();
    lines.join("room", 1, 3);
    assert!(!lines.passed(goal));
    lines.done("topic");
    assert!(!lines.passed(goal));
    lines.done("room");
    assert!(lines.passed(goal) && !lines.passed(lines.last()));
    lines.done("room");
    assert!(lines.passed(lines.last()) && lines.is_empty());
}
