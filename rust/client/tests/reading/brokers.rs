//! Many brokers share the byte budget: none is starved by what others hold of it.

use std::time::Duration;

use crate::support::{Reader, World, append_batch, partition, standing_still};

/// Appends one record to each partition and reads until all have arrived. The cluster's clock stands still,
/// so each record arrives in a fetch of its own or never: no long poll of another node can end by time.
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
    // All thirty are caught up when one gets a backlog. Its fetches are large nevertheless, so that
    // few of them suffice.
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
    // The 32 MB arrive in fetches of up to 4 MiB (max.partition.fetch.bytes). Only the first is smaller, since it was
    // sent to wait for new records.
    assert!(fetches <= 15, "{fetches} fetches");
}

const BATCH_ROWS: usize = 10;

/// Waits as a user does who is slower than every broker: until each partition has records to hand out. Where the budget has no
/// room for that, until brokers have had time to answer.
fn be_slow(reader: &Reader, records_of_each: i64, most: Duration) {
    let has_records =
        |index: i32, queued: u64| queued > 0 || reader.rows.get(&index).is_some_and(|read| *read == records_of_each);
    for _ in 0..most.as_micros() / 200 {
        std::thread::sleep(Duration::from_micros(200));
        let statuses = reader.consumer.statuses();
        if statuses.iter().all(|(of, status)| has_records(of.partition, status.queued_records)) {
            return;
        }
    }
}

/// Reads slowly, so that the budget is always full. Each time one of these `parts` of all records is read, compares the
/// positions of the partitions.
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
    // A stall of one broker of three shows at once; one of many partitions does not.
    let slowness = Duration::from_micros(if partitions < 10 { 5000 } else { 200 });
    for (part, of) in parts {
        let target = all * part / of;
        reader.read_until("a part is read", BATCH_ROWS, |reader| {
            be_slow(reader, (batches * BATCH_ROWS) as i64, slowness);
            reader.total() >= target
        });
        let positions = (0..partitions).map(|index| reader.rows.get(&index).copied().unwrap_or(0));
        let (least, most) = positions.fold((i64::MAX, 0), |(least, most), at| (least.min(at), most.max(at)));
        assert!(most <= 2 * least, "{nodes} brokers, {part}/{of} read: from {least} to {most}: {:?}", reader.rows);
    }
    assert!(reader.counter("budget_waits") > 0, "the budget was never full");
    reader.read_until("all is read", 1000, |reader| reader.total() == all);
}

/// Fractions after which each partition has been handed out several times.
const SOON: [(i64, i64); 4] = [(1, 5), (1, 4), (1, 3), (1, 2)];

#[test]
fn a_slow_reader_reads_equal_backlogs_of_three_nine_and_thirty_brokers_evenly() {
    for nodes in [3, 9, 30] {
        positions_stay_together(nodes, 1, &[("queued.max.bytes", "1048576")], 40, &SOON);
    }
}

#[test]
fn a_slow_reader_reads_several_partitions_of_each_broker_evenly() {
    // The broker chooses which partition it puts first into a response; in a new session that is the same one twice.
    for nodes in [1, 3, 10] {
        positions_stay_together(nodes, 4, &[("queued.max.bytes", "1048576")], 120, &[(1, 2), (3, 4)]);
    }
}

#[test]
fn partitions_larger_than_the_budget_are_read_evenly() {
    // Each response is one batch that is larger than the fetch's cap (KIP-74).
    positions_stay_together(30, 1, &[("queued.max.bytes", "1048576"), ("fetch.max.bytes", "1024")], 40, &SOON);
}
