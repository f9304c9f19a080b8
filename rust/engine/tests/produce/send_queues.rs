//! Queues of waiting records: in order, and each record in its own transaction.

use monedula_engine::produce::SendQueues;

fn aborted(queues: &mut SendQueues<u32>, transaction: u64) -> Vec<u32> {
    let mut failed = queues.abort(transaction);
    failed.sort_unstable();
    failed
}

#[test]
fn the_first_is_served_until_it_is_done() {
    let mut queues = SendQueues::default();
    assert!(queues.push("room", 1, 10) && !queues.push("room", 1, 11) && queues.push("topic", 1, 20));
    assert!(queues.has_queue("room") && queues.has_queue("topic") && !queues.has_queue("another"));
    for expected in [10, 11] {
        for _ in 0..2 {
            assert_eq!(queues.front("room").map(|(_, record)| *record), Some(expected));
        }
        assert_eq!(queues.pop("room"), Some(expected));
    }
    assert!(!queues.has_queue("room") && queues.front("room").is_none() && queues.pop("room").is_none());
    assert_eq!(queues.len(), 1);
}

#[test]
fn an_abort_takes_back_what_waits_and_not_what_comes_later() {
    let mut queues = SendQueues::default();
    for record in 0..3 {
        queues.push("room", 1, record);
        queues.push("topic", 1, 10 + record);
    }
    let (being_sent, _) = queues.front("room").expect("one is served");
    assert!(queues.may_send(being_sent));
    assert_eq!(aborted(&mut queues, 1), [0, 1, 2, 10, 11, 12]);
    assert!(!queues.may_send(being_sent), "somebody has it in hands, and finds out");
    queues.push("room", 2, 3);
    assert_eq!(queues.len(), 3, "who is served stays until it is done");
    assert!(queues.is_done_up_to(queues.last_number() - 1), "though nobody waits for it");
    assert_eq!(queues.pop("room"), Some(0));
    let (next, record) = queues.front("room").expect("it stood behind");
    assert!(*record == 3 && queues.may_send(next));
    // The first of the other queue is still there; the records behind it failed above, and do not fail twice.
    assert_eq!(aborted(&mut queues, 1), [10]);
}

#[test]
fn one_that_comes_late_belongs_to_the_transaction_that_is_over() {
    let mut queues = SendQueues::default();
    assert_eq!(aborted(&mut queues, 7), [0_u32; 0]);
    queues.push("room", 7, 1);
    let (late, _) = queues.front("room").expect("it stands there");
    assert!(!queues.may_send(late));
}

#[test]
fn a_goal_is_passed_when_all_that_came_before_are_done() {
    let mut queues = SendQueues::default();
    queues.push("room", 1, 1);
    queues.push("topic", 1, 2);
    let goal = queues.last_number();
    queues.push("room", 1, 3);
    assert!(!queues.is_done_up_to(goal) && !queues.is_queue_done_up_to("room", goal));
    assert!(queues.is_queue_done_up_to("another", goal));
    queues.pop("topic");
    assert!(queues.is_queue_done_up_to("topic", goal));
    assert!(!queues.is_done_up_to(goal));
    queues.pop("room");
    assert!(queues.is_done_up_to(goal) && !queues.is_done_up_to(queues.last_number()));
    queues.pop("room");
    assert!(queues.is_done_up_to(queues.last_number()) && queues.is_empty());
}
