use std::sync::mpsc::{Sender, channel};

use super::*;

#[tokio::test]
async fn work_that_blocks_comes_to_its_end_and_a_panic_of_it_is_told() {
    assert_eq!(run(|| 7).await, Ok(7));
    let panicked: Result<(), NotRun> = run(|| panic!("at {}", 7)).await;
    assert_eq!(panicked, Err(NotRun::Ended("it panicked: at 7".into())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_blocks_in_place_may_block() {
    assert_eq!(tokio::spawn(async { in_place(|| 7) }).await.expect("no panic"), 7);
}

#[test]
fn threads_that_are_asked_for_are_there_at_once_and_end() {
    assert_eq!(check_threads(4), Ok(()));
}

#[test]
fn a_panic_that_becomes_an_error_is_silent_in_its_thread_alone() {
    let (said, asked): (Sender<bool>, _) = channel();
    let outcome: Result<(), String> = silently(|| {
        said.send(is_silent()).expect("asked");
        std::thread::spawn(is_silent).join().map(|silent| said.send(silent)).expect("no panic").expect("asked");
        panic!("no thread")
    });
    assert_eq!(outcome, Err("it panicked: no thread".into()));
    assert_eq!(asked.iter().take(2).collect::<Vec<_>>(), [true, false]);
    assert!(!is_silent());
}
