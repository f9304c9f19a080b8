//! Paused partitions, and the part of the byte budget that they hold.

use crate::support::{Reader, World, append_batch, cluster, partition, until};

const SMALL: [(&str, &str); 3] =
    [("queued.max.bytes", "1048576"), ("max.partition.fetch.bytes", "100000"), ("fetch.max.wait.ms", "50")];

/// Waits until the budget is full of responses with records of all partitions, before anything is read.
fn filled(nodes: u16, partitions_of_each: u16) -> (World, Reader, i32) {
    let world = cluster(nodes, partitions_of_each);
    let partitions = i32::from(nodes * partitions_of_each);
    for index in 0..partitions {
        for _ in 0..40 {
            append_batch(&world, index, 10, 2000);
        }
    }
    let reader = Reader::of(&world, partitions, &SMALL);
    until("the budget is full", || reader.counter("budget_waits") > 0);
    (world, reader, partitions)
}

#[test]
fn a_partition_goes_on_though_those_that_shared_its_answers_are_paused() {
    for (nodes, partitions_of_each) in [(1, 2), (1, 5), (3, 2), (9, 3)] {
        let (_world, mut reader, partitions) = filled(nodes, partitions_of_each);
        for index in 1..partitions {
            reader.consumer.set_paused(&partition(index), true).expect("pauses");
        }
        reader.read_until("the one that is not paused is read", 25, |reader| reader.rows.get(&0) == Some(&400));
        assert_eq!(reader.rows.len(), 1, "{:?}", reader.rows);
        for index in 1..partitions {
            reader.consumer.set_paused(&partition(index), false).expect("resumes");
        }
        let all = i64::from(partitions) * 400;
        reader.read_until("all is read", 1000, |reader| reader.total() == all);
    }
}

#[test]
fn partitions_paused_in_turn_are_all_read() {
    let (_world, mut reader, partitions) = filled(1, 4);
    for round in 1..=8 {
        for only in 0..partitions {
            for index in 0..partitions {
                reader.consumer.set_paused(&partition(index), index != only).expect("pauses");
            }
            let target = round * 50;
            reader.read_until("its part is read", 25, |reader| reader.rows.get(&only).is_some_and(|&at| at >= target));
        }
    }
    assert!(reader.rows.values().all(|&rows| rows == 400), "{:?}", reader.rows);
}
