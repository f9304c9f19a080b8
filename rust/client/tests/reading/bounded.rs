//! Bounded reads, which end by position.

use std::time::{Duration, Instant};

use arrow_array::Int32Array;
use monedula_client::config::ClientConfig;
use monedula_client::consumer::BatchLimits;
use monedula_client::reader::{Ranges, Reader, Spans};
use monedula_columns::ColumnSet;

use crate::support::{PATIENCE, World, append_batch, cluster, partition};

#[test]
fn the_last_rows_of_a_read_do_not_wait_for_more() {
    let world = cluster(1, 1);
    append_batch(&world, 0, 100, 10);
    let config = ClientConfig::parse([("bootstrap.servers", world.servers().as_str())]).expect("settings");
    let mut reader = Reader::new(config, ColumnSet::default(), world.runtime.handle(), 7);
    reader.begin(Ranges::from([(partition(0), (5, 9))]), None).expect("begins");
    // A batch that waited for company would not come before the end of PATIENCE.
    let want = BatchLimits { max_rows: 100, max_bytes: 16 << 20, max_wait: Duration::from_secs(3600), deadline: None };
    let batch = reader.next_batch(&want, Instant::now() + PATIENCE).expect("reads").expect("not at its end");
    let batch = batch.expect("in time");
    assert_eq!((batch.offset_of(0), batch.record_batch.num_rows()), (Some(5), 4));
    assert!(reader.next_batch(&want, Instant::now() + PATIENCE).expect("reads").is_none());
}

/// Rows of a read in order, as partition and offset, with a budget and a batch size.
fn in_order(world: &World, settings: &[(&str, &str)], spans: Spans, max_rows: usize) -> Vec<(i32, i64)> {
    let servers = world.servers();
    let settings = settings.iter().copied().chain([("bootstrap.servers", servers.as_str())]);
    let mut reader =
        Reader::new(ClientConfig::parse(settings).expect("settings"), ColumnSet::default(), world.runtime.handle(), 7);
    reader.read_in_order();
    reader.begin_spans(spans, None).expect("begins");
    // A batch that waited for company would not come before the end of PATIENCE.
    let want = BatchLimits { max_rows, max_bytes: 16 << 20, max_wait: Duration::from_secs(3600), deadline: None };
    let mut rows = Vec::new();
    while let Some(batch) = reader.next_batch(&want, Instant::now() + PATIENCE).expect("reads") {
        let batch = batch.expect("in time");
        for row in 0..batch.record_batch.num_rows() {
            let partitions = batch.record_batch.column_by_name("partition").expect("a column").clone();
            let partitions = partitions.as_any().downcast_ref::<Int32Array>().expect("of numbers").clone();
            rows.push((partitions.value(row), batch.offset_of(row).expect("a row")));
        }
    }
    rows
}

fn expected(spans: &Spans) -> Vec<(i32, i64)> {
    let spans = spans.iter().flat_map(|(partition, spans)| spans.iter().map(move |span| (partition.partition, span)));
    spans.flat_map(|(index, &(start, end))| (start..end).map(move |offset| (index, offset))).collect()
}

#[test]
fn a_read_in_order_has_its_partitions_one_after_another_also_with_less_memory_than_they_are_read_ahead() {
    let world = cluster(3, 10);
    let mut spans = Spans::new();
    for index in 0..30 {
        (0..3).for_each(|_| append_batch(&world, index, 10, 30_000));
        spans.insert(partition(index), vec![(i64::from(index % 4), 30 - i64::from(index % 3))]);
    }
    let small = [("queued.max.bytes", "1048576"), ("fetch.max.bytes", "524288")];
    for settings in [&[][..], &small[..]] {
        for max_rows in [7, 100, 100_000] {
            assert_eq!(
                in_order(&world, settings, spans.clone(), max_rows),
                expected(&spans),
                "{settings:?} {max_rows}"
            );
        }
    }
}

#[test]
fn several_spans_of_a_partition_come_before_the_next_partition() {
    let world = cluster(1, 3);
    (0..3).for_each(|index| append_batch(&world, index, 30, 10));
    let spans = Spans::from([
        (partition(0), vec![(1, 3), (9, 12)]),
        (partition(1), vec![(0, 30)]),
        (partition(2), vec![(2, 4), (5, 5), (6, 9)]),
    ]);
    assert_eq!(in_order(&world, &[], spans.clone(), 100), expected(&spans));
}
