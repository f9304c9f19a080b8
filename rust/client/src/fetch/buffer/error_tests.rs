//! Errors of partitions: each comes after the rows before it, wherever those are, so that a seek beyond it skips none.

use monedula_engine::fetch::Fault;
use monedula_engine::ledger::Holder;

use super::tests::{World, p, want};
use super::*;
use crate::fetch::polled::{HandedBatch, Polled};

const FIRST: Holder = 1;
const SECOND: Holder = 2;

/// Result of a call that does not wait.
fn next(world: &World, holder: Holder) -> Result<Polled, ClientError> {
    world.buffer.next(&want(100), Instant::now(), holder)
}

fn batch(step: Result<Polled, ClientError>) -> HandedBatch {
    match step {
        Ok(Polled::Batch(batch)) => batch,
        other => panic!("{other:?}"),
    }
}

fn hand_over(world: &World, batch: &HandedBatch) -> Result<Vec<HandedBatch>, ClientError> {
    world.buffer.finishing(|handed_out, partitions| handed_out.hand_over(partitions, batch, FIRST))
}

fn offsets(batch: &HandedBatch) -> Vec<i64> {
    (0..batch.columns.record_batch.num_rows()).filter_map(|row| batch.columns.offset_of(row)).collect()
}

fn stop(world: &World, index: i32, reading_id: u64) {
    let partition = p(index);
    let fault = Fault::OffsetOutOfRange { partition, offset: 5, log_start: 9, log_end: 9 };
    world.buffer.driver().stopped(&p(index), reading_id, fault.into());
}

/// Five rows and then a batch that cannot be read.
fn with_bad_batch() -> World {
    let world = World::new(1);
    let reading_id = world.reading_id(0);
    let mut frame = World::frame(0);
    let mut bad = World::frame(5);
    *bad.last_mut().expect("bytes") ^= 1;
    frame.extend(bad);
    world.push_frame(0, reading_id, frame);
    world
}

/// Five rows, after which the partition stopped.
fn with_stop() -> World {
    let world = World::new(1);
    let reading_id = world.reading_id(0);
    world.push_frame(0, reading_id, World::frame(0));
    stop(&world, 0, reading_id);
    world
}

#[test]
fn an_error_comes_after_rows_that_were_given_back() {
    for world in [with_bad_batch(), with_stop()] {
        let first = batch(next(&world, FIRST));
        assert_eq!(offsets(&first), [0, 1, 2, 3, 4]);
        let cursor = world.buffer.by_rows(&first, FIRST);
        assert_eq!((cursor.take(), cursor.take()), (Some(0), Some(1)));
        world.buffer.give_back(first.id, Some(FIRST));
        assert!(world.buffer.poll_callbacks(Instant::now(), FIRST).is_ok());
        world.buffer.assignment().set_paused(&p(0), true);
        assert!(matches!(next(&world, FIRST), Ok(Polled::Nothing)), "the rows come once it is resumed");
        world.buffer.assignment().set_paused(&p(0), false);
        assert_eq!(offsets(&batch(next(&world, FIRST))), [2, 3, 4]);
        next(&world, FIRST).expect_err("the error");
        assert_eq!(world.buffer.status()[&p(0)].position, Some(5));
    }
}

#[test]
fn an_error_comes_after_rows_that_another_thread_has_not_taken() {
    for world in [with_bad_batch(), with_stop()] {
        let first = batch(next(&world, FIRST));
        let cursor = world.buffer.by_rows(&first, FIRST);
        assert_eq!(cursor.take(), Some(0));
        assert_eq!(offsets(&batch(next(&world, SECOND))), [1, 2, 3, 4]);
        assert_eq!(cursor.take(), None, "no row comes twice");
        assert!(matches!(next(&world, SECOND), Ok(Polled::Nothing)), "the other has a row in hand");
        next(&world, FIRST).expect_err("the error");
    }
}

#[test]
fn an_error_comes_after_rows_that_another_thread_has_in_hand() {
    for world in [with_bad_batch(), with_stop()] {
        batch(next(&world, FIRST));
        for _ in 0..2 {
            assert!(matches!(next(&world, SECOND), Ok(Polled::Nothing)));
            assert!(matches!(world.buffer.poll_callbacks(Instant::now(), SECOND), Ok(Polled::Nothing)));
        }
        world.buffer.finishing(|handed_out, _| handed_out.finish_held(FIRST));
        next(&world, SECOND).expect_err("the error");
        let finished = world.buffer.handed_out(|handed_out| handed_out.snapshot(None));
        assert_eq!(finished.values().map(|at| at.offset).collect::<Vec<_>>(), [5]);
    }
}

#[test]
fn an_error_does_not_wait_for_a_thread_that_has_ended() {
    for world in [with_bad_batch(), with_stop()] {
        batch(next(&world, FIRST));
        assert!(matches!(next(&world, SECOND), Ok(Polled::Nothing)));
        world.buffer.holder_ended(FIRST);
        next(&world, SECOND).expect_err("the error");
    }
}

#[test]
fn an_error_waits_for_no_rows_of_other_partitions() {
    let world = World::new(2);
    world.push_frame(0, world.reading_id(0), World::frame(0));
    batch(next(&world, FIRST));
    stop(&world, 1, world.reading_id(1));
    next(&world, SECOND).expect_err("the error");
}

#[test]
fn an_error_comes_after_rows_that_a_run_works_on() {
    for world in [with_bad_batch(), with_stop()] {
        let first = batch(next(&world, FIRST));
        let parts = hand_over(&world, &first).expect("not finished yet");
        let [part] = parts.as_slice() else { panic!("one run of rows") };
        for finished in [0, 3] {
            world.buffer.finishing(|handed_out, _| handed_out.finish_rows(part, finished));
            assert!(matches!(world.buffer.poll_callbacks(Instant::now(), FIRST), Ok(Polled::Nothing)));
            assert!(matches!(next(&world, FIRST), Ok(Polled::Nothing)));
        }
        world.buffer.finishing(|handed_out, _| handed_out.finish_batch(part.id, 5));
        world.buffer.poll_callbacks(Instant::now(), FIRST).expect_err("the error");
        let finished = world.buffer.handed_out(|handed_out| handed_out.snapshot(None));
        assert_eq!(finished.values().map(|at| at.offset).collect::<Vec<_>>(), [5]);
    }
}

#[test]
fn an_error_comes_when_a_run_has_given_up_the_rows_before_it() {
    let world = with_stop();
    let parts = hand_over(&world, &batch(next(&world, FIRST))).expect("not finished yet");
    world.buffer.finishing(|handed_out, _| handed_out.abandon(&parts[0]));
    next(&world, FIRST).expect_err("the error");
}

#[test]
fn a_seek_forgets_an_error_that_waits_for_rows() {
    let world = with_stop();
    let first = batch(next(&world, FIRST));
    world.buffer.by_rows(&first, FIRST);
    world.buffer.give_back(first.id, Some(FIRST));
    world.buffer.assignment().restart(&p(0)).expect("assigned");
    assert!(matches!(next(&world, FIRST), Ok(Polled::Nothing)));
}

#[test]
fn partitions_that_are_read_to_their_end_do_not_hide_the_error_of_another() {
    let world = World::new(2);
    let reading_id = world.buffer.assignment().add(&p(1), Some(5));
    world.buffer.driver().positioned(&p(1), reading_id, 0);
    stop(&world, 0, world.reading_id(0));
    next(&world, FIRST).expect_err("the error");
    assert!(matches!(next(&world, FIRST), Ok(Polled::Nothing)), "rows of the other are waited for");
    world.push_frame(1, reading_id, World::frame(0));
    assert_eq!(offsets(&batch(next(&world, FIRST))), [0, 1, 2, 3, 4]);
    next(&world, FIRST).expect_err("nothing else is left");
    assert!(matches!(next(&world, FIRST), Ok(Polled::Nothing)), "it is not raised again at once");
}
