//! Log events: kept, counted and lost ones.

use std::time::Duration;

use super::repeats::WINDOW;
use super::*;

const FAILED: EventKind = EventKind { name: "failed", part: "network", level: Level::Warning, is_limited: true };

fn failed(log: &Log, now: Instant, broker: &str, attempt: u32) {
    let fields = Fields { broker: Some(broker.into()), ..Fields::default() };
    let message = format!("{broker}: refused, attempt {attempt}");
    let event = Event { kind: FAILED, level: FAILED.level, message, fields, repeated: 0, at: SystemTime::now() };
    log.take(now, event);
}

fn texts(drained: &Drained) -> Vec<&str> {
    drained.events.iter().map(|event| event.message.as_str()).collect()
}

#[test]
fn the_first_event_is_passed_on_at_once_and_repetitions_once_in_ten_seconds() {
    let (log, start) = (Log::default(), Instant::now());
    for attempt in 1..=4 {
        failed(&log, start + Duration::from_secs(attempt), "a:1", attempt as u32);
    }
    let first = log.drain_at(start + Duration::from_secs(5), false);
    assert_eq!(texts(&first), ["a:1: refused, attempt 1"]);
    let due_at = start + Duration::from_secs(1) + WINDOW;
    assert_eq!(first.due_at, Some(due_at));
    let second = log.drain_at(due_at, false);
    assert_eq!(texts(&second), ["a:1: refused, attempt 4 (repeated 3 times in 10 s)"]);
    assert_eq!(second.events[0].repeated, 3);
}

#[test]
fn an_event_that_was_not_repeated_is_a_first_one_again() {
    let (log, start) = (Log::default(), Instant::now());
    failed(&log, start, "a:1", 1);
    failed(&log, start + WINDOW * 2, "a:1", 2);
    assert_eq!(texts(&log.drain_at(start + WINDOW * 2, false)), ["a:1: refused, attempt 1", "a:1: refused, attempt 2"]);
}

#[test]
fn events_about_different_brokers_are_not_repetitions() {
    let (log, start) = (Log::default(), Instant::now());
    failed(&log, start, "a:1", 1);
    failed(&log, start, "b:1", 1);
    assert_eq!(log.drain_at(start, false).events.len(), 2);
}

#[test]
fn a_window_that_is_over_is_told_of_by_the_next_event_even_if_nobody_drained() {
    let (log, start) = (Log::default(), Instant::now());
    failed(&log, start, "a:1", 1);
    failed(&log, start + Duration::from_secs(1), "a:1", 2);
    failed(&log, start + WINDOW, "a:1", 3);
    assert_eq!(
        texts(&log.drain_at(start + WINDOW, false)),
        ["a:1: refused, attempt 1", "a:1: refused, attempt 2 (repeated once in 10 s)"]
    );
}

#[test]
fn a_log_for_debugging_has_every_event() {
    let (log, start) = (Log::default(), Instant::now());
    log.set_threshold(Level::Debug as u8);
    failed(&log, start, "a:1", 1);
    failed(&log, start, "a:1", 2);
    assert_eq!(log.drain_at(start, false).events.len(), 2);
}

#[test]
fn the_end_of_a_log_does_not_wait_for_repetitions() {
    let (log, start) = (Log::default(), Instant::now());
    failed(&log, start, "a:1", 1);
    failed(&log, start, "a:1", 2);
    assert_eq!(
        texts(&log.drain_at(start + Duration::from_millis(2_900), true)),
        ["a:1: refused, attempt 1", "a:1: refused, attempt 2 (repeated once in 3 s)"]
    );
    failed(&log, start + Duration::from_millis(3_000), "a:1", 3);
    assert_eq!(
        texts(&log.drain_at(start + Duration::from_millis(3_100), true)),
        ["a:1: refused, attempt 3 (repeated once in less than 1 s)"]
    );
}

#[test]
fn a_full_log_drops_the_oldest_events_and_counts_them() {
    let log = Log::default();
    for number in 0..1010 {
        log.record(&kinds::CONFIG_WARNING, || format!("{number}"));
    }
    let drained = log.drain(false);
    assert_eq!((drained.lost, drained.events.len(), &*drained.events[0].message), (10, 1000, "10"));
}

#[test]
fn an_entry_below_the_threshold_is_not_built() {
    let log = Log::default();
    log.record(&kinds::REQUEST_SENT, || -> String { panic!("built") });
    assert!(log.is_empty());
}

#[test]
fn the_hook_is_called_for_what_can_be_drained_and_not_for_repetitions() {
    static CALLS: AtomicU8 = AtomicU8::new(0);
    let (log, start) = (Log::default(), Instant::now());
    log.on_event(|| _ = CALLS.fetch_add(1, Ordering::Relaxed));
    failed(&log, start, "a:1", 1);
    failed(&log, start, "a:1", 2);
    assert_eq!(CALLS.load(Ordering::Relaxed), 1);
}

#[test]
fn each_kind_has_a_name_of_its_own() {
    let names: std::collections::BTreeSet<&str> = kinds::ALL.iter().map(|kind| kind.name).collect();
    assert_eq!(names.len(), kinds::ALL.len());
}
