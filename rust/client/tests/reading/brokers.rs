//! Many brokers: none waits for what others hold of the budget.

use std::time::Duration;

use crate::support::{Reader, World, append_batch, partition, standing_still};

/// Appends one record to each partition, and reads until all came. The clock of the cluster stands still, so all of them come
/// within a fetch of their own, or never: no time passes in which a long poll of another node could end.
fn each_partition_brings_its_record(world: &World, partitions: i32, settings: &[(&str, &str)]) {
    for index in 0..partitions {
        append_batch(world, index, 1, 10);
    }
    let mut reader = Reader::of(world, partitions, settings);
    for round in 1..=3_i64 {
        let all = |reader: &Reader| reader.total() == round * i64::from(partitions);
        reader.read_until("each partition brings its record", 1000, all);
        for index in (0..partitions).rev() {
            append_batch(world, index, 1, 10);
        }
    }
}

#[test]
fn one_to_fifty_brokers_are_all_fetched_from_at_the_same_time() {
    for nodes in [1, 2, 3, 5, 6, 9, 17, 30, 50] {
        let world = standing_still(nodes, 2);
        each_partition_brings_its_record(&world, i32::from(nodes) * 2, &[]);
    }
}

#[test]
fn a_small_budget_is_enough_for_fifty_brokers() {
    let world = standing_still(50, 1);
    let small = [("queued.max.bytes", "1048576"), ("fetch.min.bytes", "1")];
    each_partition_brings_its_record(&world, 50, &small);
}

#[test]
fn brokers_that_have_nothing_leave_the_budget_to_those_that_have() {
    // All thirty are caught up when one gets a backlog: fetches of that are large nevertheless, so that few bring all of it.
    let world = standing_still(30, 1);
    for index in 0..30 {
        append_batch(&world, index, 1, 10);
    }
    let mut reader = Reader::of(&world, 30, &[]);
    reader.read_until("each has brought what it had", 1000, |reader| reader.total() == 30);
    reader.consumer.set_paused(&partition(29), true).expect("pauses");
    for _ in 0..64 {
        append_batch(&world, 29, 10, 50_000);
    }
    let before = reader.counter("fetches_sent");
    reader.consumer.set_paused(&partition(29), false).expect("resumes");
    reader.read_until("the backlog is read", 1000, |reader| reader.total() == 30 + 640);
    let fetches = reader.counter("fetches_sent") - before;
    // 32 MB in fetches of up to 4 MiB (max.partition.fetch.bytes), but for the first: it was to wait for news.
    assert!(fetches <= 15, "{fetches} fetches");
}

const BATCH_ROWS: usize = 10;

/// Reads slowly, so that the budget is always full, and holds the positions against each other on the way: once each of these
/// parts of `batches` of each partition is read.
fn positions_stay_together(
    nodes: u16,
    partitions_of_each: u16,
    settings: &[(&str, &str)],
    batches: usize,
    parts: &[(i64, i64)],
) {
    let world = standing_still(nodes, partitions_of_each);
    let partitions = i32::from(nodes * partitions_of_each);
    for index in 0..partitions {
        for _ in 0..batches {
            append_batch(&world, index, BATCH_ROWS, 2000);
        }
    }
    let mut reader = Reader::of(&world, partitions, settings);
    let all = i64::from(partitions) * (batches * BATCH_ROWS) as i64;
    for (part, of) in parts {
        let target = all * part / of;
        reader.read_until("a part is read", BATCH_ROWS, |reader| {
            // The work of a user that is slower than its brokers.
            std::thread::sleep(Duration::from_micros(200));
            reader.total() >= target
        });
        let positions = (0..partitions).map(|index| reader.rows.get(&index).copied().unwrap_or(0));
        let (least, most) = positions.fold((i64::MAX, 0), |(least, most), at| (least.min(at), most.max(at)));
        assert!(most <= 2 * least, "{nodes} brokers, {part}/{of} read: from {least} to {most}: {:?}", reader.rows);
    }
    assert!(reader.counter("budget_waits") > 0, "the budget was never full");
    reader.read_until("all is read", 1000, |reader| reader.total() == all);
}

/// From when each has been handed out several times over.
const SOON: [(i64, i64); 4] = [(1, 5), (1, 4), (1, 3), (1, 2)];

#[test]
fn a_slow_reader_reads_equal_backlogs_of_three_nine_and_thirty_brokers_evenly() {
    for nodes in [3, 9, 30] {
        positions_stay_together(nodes, 1, &[("queued.max.bytes", "1048576")], 40, &SOON);
    }
}

#[test]
fn a_slow_reader_reads_several_partitions_of_each_broker_evenly() {
    // Which partition an answer is filled with first is the broker's choice: in a new session it is twice the same one.
    for nodes in [1, 3, 10] {
        positions_stay_together(nodes, 4, &[("queued.max.bytes", "1048576")], 120, &[(1, 2), (3, 4)]);
    }
}

#[test]
fn partitions_larger_than_the_budget_are_read_evenly() {
    // Each answer is a batch that is larger than what it may take of the budget (KIP-74).
    positions_stay_together(30, 1, &[("queued.max.bytes", "1048576"), ("fetch.max.bytes", "1024")], 40, &SOON);
}
