//! Conditions on records: which rows are left, and where the walk stands after them.

mod common;

use std::sync::Arc;

use bytes::Bytes;
use common::{encode, header, offsets, plain_batch, rows, walker};
use monedula_columns::{
    BatchBuilder, BatchColumns, BufferPool, BytesTest, ColumnSet, Operator, RecordFilter, Scratch, WalkErrorKind,
    WalkOptions, Walked,
};
use monedula_protocol::compression::Compression;
use monedula_protocol::records::{BatchEncoder, NewRecord, RecordFault, RecordsError};

fn builder(set: ColumnSet, filter: RecordFilter, max_rows: usize) -> BatchBuilder {
    let columns = BatchColumns { filter: Some(Arc::new(filter)), ..set.into() };
    BatchBuilder::new(columns, BufferPool::new(1 << 20), max_rows, 64 << 20)
}

fn is_in(values: &[&str]) -> BytesTest {
    BytesTest::new(Operator::In, values.iter().map(|value| value.as_bytes().to_vec()).collect(), false)
}

fn found(filter: RecordFilter) -> Vec<i64> {
    let mut builder = builder(ColumnSet::ALL, filter, 1000);
    let mut walker = walker(0, WalkOptions::default());
    walker.feed(Bytes::from(plain_batch(0, 20, Compression::Lz4)), vec![]);
    assert_eq!(walker.walk(&mut builder, &mut Scratch::new()), Ok(Walked::Drained));
    assert_eq!(walker.position(), 20);
    let batch = builder.finish();
    assert_eq!(batch.filtered + batch.record_batch.num_rows(), 20);
    offsets(&batch)
}

#[test]
fn each_condition_is_about_its_part_of_the_record() {
    let timestamp_us = 1_700_000_000_000_000;
    assert_eq!(found(RecordFilter::Key(is_in(&["k3", "k11", "k99"]))), [3, 11]);
    assert_eq!(found(RecordFilter::Offset(vec![(2, 3), (19, 40)])), [2, 3, 19]);
    assert_eq!(found(RecordFilter::Timestamp(vec![(timestamp_us + 4001, timestamp_us + 6000)])), [5, 6]);
    assert_eq!(found(RecordFilter::Partition(vec![(0, 2)])), [0i64; 0]);
    assert_eq!(found(RecordFilter::Topic(is_in(&["orders"]))).len(), 20);
    let some = [RecordFilter::Key(is_in(&["k3", "k4"])), RecordFilter::Offset(vec![(4, 7)])];
    assert_eq!(found(RecordFilter::All(some.to_vec())), [4]);
    assert_eq!(found(RecordFilter::Any(some.to_vec())), [3, 4, 5, 6, 7]);
    assert_eq!(found(RecordFilter::All(vec![])).len(), 20);
    assert_eq!(found(RecordFilter::Any(vec![])), [0i64; 0]);
}

fn with_headers() -> Vec<u8> {
    let mut encoder = BatchEncoder::new();
    let some: [&[_]; 4] = [
        &[header(b"type", Some(b"a")), header(b"type", Some(b"b"))],
        &[header(b"type", Some(b"b")), header(b"type", None)],
        &[],
        &[header(b"other", Some(b"b"))],
    ];
    for headers in some {
        encoder.append(NewRecord { headers, ..NewRecord::default() });
    }
    encode(&encoder)
}

#[test]
fn of_several_headers_with_a_name_the_last_one_counts() {
    let find = |test: BytesTest| {
        let filter = RecordFilter::Header(b"type".to_vec(), test);
        let mut builder = builder(ColumnSet::OFFSET, filter, 10);
        let mut walker = walker(0, WalkOptions::default());
        walker.feed(Bytes::from(with_headers()), vec![]);
        assert_eq!(walker.walk(&mut builder, &mut Scratch::new()), Ok(Walked::Drained));
        offsets(&builder.finish())
    };
    assert_eq!(find(is_in(&["b"])), [0]);
    assert_eq!(find(BytesTest::new(Operator::In, vec![b"a".to_vec()], true)), [0]);
    assert_eq!(find(BytesTest::new(Operator::IsNull, vec![], false)), [1, 2, 3]);
}

#[test]
fn headers_that_cannot_be_read_are_an_error_of_a_condition_on_them_alone() {
    let mut data = with_headers();
    // The name's length, of the only header of the last record.
    let at = data.len() - 8;
    assert_eq!(data[at - 1..], [2, 10, b'o', b't', b'h', b'e', b'r', 2, b'b']);
    data[at] = 80;
    let unchecked = WalkOptions { check_crcs: false, ..WalkOptions::default() };
    let walk = |filter| {
        let mut walker = walker(0, unchecked);
        walker.feed(Bytes::from(data.clone()), vec![]);
        walker.walk(&mut builder(ColumnSet::OFFSET, filter, 10), &mut Scratch::new())
    };
    assert_eq!(walk(RecordFilter::Offset(vec![(0, 9)])), Ok(Walked::Drained));
    let error = walk(RecordFilter::Header(b"type".to_vec(), is_in(&["b"]))).unwrap_err();
    assert_eq!(error.offset, 3);
    let WalkErrorKind::Records(RecordsError::Record { fault, .. }) = error.kind else { panic!("{error}") };
    assert_eq!(fault, RecordFault::HeaderLength);
}

#[test]
fn limits_cut_at_any_row_and_spans_say_where() {
    let mut data = plain_batch(0, 50, Compression::Lz4);
    data.extend(plain_batch(50, 50, Compression::None));
    for max_rows in 1..=30 {
        let filter = RecordFilter::Key(is_in(&["k0", "k7", "k8", "k49", "k50", "k97"]));
        let mut builder = builder(ColumnSet::ALL, filter, max_rows);
        let (mut walker, mut scratch) = (walker(0, WalkOptions::default()), Scratch::new());
        walker.feed(Bytes::from(data.clone()), vec![]);
        let mut seen = Vec::new();
        loop {
            let walked = walker.walk(&mut builder, &mut scratch).unwrap();
            let batch = builder.finish();
            for span in &batch.spans {
                assert_eq!((span.rows, span.first_offset), (batch.record_batch.num_rows(), offsets(&batch)[0]));
                assert_eq!(span.next_offset, walker.position());
            }
            assert!(batch.record_batch.num_rows() <= max_rows);
            seen.extend(rows(&batch.record_batch).into_iter().map(|row| row.offset));
            if walked == Walked::Drained {
                break;
            }
        }
        assert_eq!(seen, [0, 7, 8, 49, 50, 97]);
    }
}

#[test]
#[cfg_attr(miri, ignore = "300,000 records")]
fn a_walk_that_finds_nothing_pauses() {
    let mut builder = builder(ColumnSet::ALL, RecordFilter::Any(vec![]), 10);
    let (mut walker, mut scratch) = (walker(0, WalkOptions::default()), Scratch::new());
    walker.feed(Bytes::from(plain_batch(0, 300_000, Compression::None)), vec![]);
    assert_eq!(walker.walk(&mut builder, &mut scratch), Ok(Walked::Full));
    let (paused, batch) = (walker.position(), builder.finish());
    assert_eq!((batch.record_batch.num_rows(), batch.filtered as i64), (0, paused));
    assert!((1..300_000).contains(&paused));
    assert_eq!(walker.walk(&mut builder, &mut scratch), Ok(Walked::Drained));
    assert_eq!(walker.position(), 300_000);
}
