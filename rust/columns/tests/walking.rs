//! Behaviour of the walker, one behaviour per test.

mod common;

use bytes::Bytes;
use common::{
    ZSTD, builder, codecs, encode, header, offsets, plain_batch, rows, transactional_batch, walk_all, walker,
    with_append_time,
};
use monedula_columns::{
    AbortedTransaction, BatchBuilder, BufferPool, ColumnSet, Scratch, WalkErrorKind, WalkOptions, Walked, inflate,
    segments,
};
use monedula_protocol::compression::Compression;
use monedula_protocol::records::{BatchEncoder, ControlRecordType, NewRecord, RecordsError};

const COMMITTED: WalkOptions = WalkOptions { check_crcs: true, read_committed: true, max_decompressed_bytes: 1 << 26 };

fn control(base_offset: i64, producer_id: i64, marker: ControlRecordType) -> Vec<u8> {
    encode(&BatchEncoder::new().base_offset(base_offset).producer(producer_id, 0, -1).control_marker(marker, 0, 1))
}

fn aborted(producer_id: i64, first_offset: i64) -> AbortedTransaction {
    AbortedTransaction { producer_id, first_offset }
}

#[test]
fn every_codec_gives_the_same_rows() {
    // Shortened under Miri, which is a thousand times slower.
    let count = if cfg!(miri) { 10 } else { 1000 };
    let end = 5 + count as i64;
    let (expected, _) = walk_all(plain_batch(5, count, Compression::None), 5, WalkOptions::default(), vec![]);
    let expected = rows(&expected.record_batch);
    assert_eq!(expected.len(), count);
    assert_eq!(expected[count - 1].value, Some(format!("value-{}", end - 1).into_bytes()));
    assert_eq!(expected[count - 1].timestamp_us, (1_700_000_000_000 + end - 1) * 1000);
    for codec in codecs() {
        let (batch, position) = walk_all(plain_batch(5, count, codec), 5, WalkOptions::default(), vec![]);
        assert_eq!(rows(&batch.record_batch), expected, "{codec}");
        assert_eq!(position, end, "{codec}");
    }
}

#[test]
fn schema_is_sparks_in_every_batch() {
    let mut builder = builder(ColumnSet::ALL);
    let described: Vec<_> = builder
        .schema()
        .fields()
        .iter()
        .map(|f| (f.name().clone(), f.data_type().to_string(), f.is_nullable()))
        .collect();
    let expected = [
        ("key", "Binary"),
        ("value", "Binary"),
        ("topic", "Utf8"),
        ("partition", "Int32"),
        ("offset", "Int64"),
        ("timestamp", "Timestamp(µs, \"UTC\")"),
        ("timestampType", "Int32"),
        ("headers", "List(Struct(\"key\": Utf8, \"value\": Binary), field: 'element')"),
    ];
    assert_eq!(described, expected.map(|(name, data_type)| (name.to_owned(), data_type.to_owned(), true)));
    let empty = builder.finish();
    assert_eq!(empty.record_batch.schema(), builder.schema());
    assert_eq!(rows(&empty.record_batch), []);
    for (array, field) in empty.record_batch.columns().iter().zip(builder.schema().fields()) {
        assert_eq!(array.data_type(), field.data_type());
    }
}

#[test]
fn nulls_and_empty_fields_differ() {
    let mut encoder = BatchEncoder::new();
    for (key, value) in
        [(None, Some(&b"v"[..])), (Some(&b""[..]), None), (Some(&b"k"[..]), Some(&b""[..])), (None, None)]
    {
        encoder.append(NewRecord { timestamp_ms: 1, key, value, headers: &[] });
    }
    let (batch, _) = walk_all(encode(&encoder), 0, WalkOptions::default(), vec![]);
    let fields: Vec<_> = rows(&batch.record_batch).into_iter().map(|row| (row.key, row.value)).collect();
    let some = |text: &str| Some(text.as_bytes().to_vec());
    assert_eq!(fields, [(None, some("v")), (some(""), None), (some("k"), some("")), (None, None)]);
}

#[test]
fn headers_keep_order_duplicates_and_nulls() {
    let mut encoder = BatchEncoder::new();
    let headers =
        [header(b"a", Some(b"1")), header(b"a", None), header(b"\xff!", Some(b"")), header("č".as_bytes(), Some(b"2"))];
    encoder.append(NewRecord { headers: &headers, ..NewRecord::default() });
    encoder.append(NewRecord::default());
    let (batch, _) = walk_all(encode(&encoder), 0, WalkOptions::default(), vec![]);
    let rows = rows(&batch.record_batch);
    let expected = [("a", Some("1")), ("a", None), ("\u{fffd}!", Some("")), ("č", Some("2"))];
    let expected = expected.map(|(key, value)| (key.to_owned(), value.map(|text| text.as_bytes().to_vec())));
    assert_eq!(rows[0].headers.as_deref(), Some(&expected[..]));
    assert_eq!(rows[1].headers, None);
}

#[test]
fn log_append_time_replaces_the_producers_timestamps() {
    let mut encoder = BatchEncoder::new();
    encoder.append(NewRecord { timestamp_ms: 1000, ..NewRecord::default() });
    let mut data = with_append_time(&encode(&encoder), 2000);
    data.extend(plain_batch(1, 1, Compression::None));
    let (batch, _) = walk_all(data, 0, WalkOptions::default(), vec![]);
    let times: Vec<_> = rows(&batch.record_batch).iter().map(|row| (row.timestamp_us, row.timestamp_type)).collect();
    assert_eq!(times, [(2_000_000, 1), (1_700_000_000_001_000, 0)]);
}

#[test]
fn timestamps_that_do_not_fit_saturate() {
    let mut encoder = BatchEncoder::new();
    for timestamp_ms in [-1, i64::MAX / 2, i64::MIN] {
        encoder.append(NewRecord { timestamp_ms, ..NewRecord::default() });
    }
    let (batch, _) = walk_all(encode(&encoder), 0, WalkOptions::default(), vec![]);
    let times: Vec<_> = rows(&batch.record_batch).iter().map(|row| row.timestamp_us).collect();
    assert_eq!(times, [-1000, i64::MAX, i64::MIN]);
}

#[test]
fn records_below_the_start_are_skipped() {
    for codec in [Compression::None, ZSTD] {
        let (batch, position) = walk_all(plain_batch(10, 10, codec), 14, WalkOptions::default(), vec![]);
        assert_eq!(offsets(&batch), [14, 15, 16, 17, 18, 19]);
        assert_eq!(position, 20);
    }
}

#[test]
fn compacted_gaps_and_empty_batches_move_the_position() {
    let mut gaps = BatchEncoder::new().base_offset(100).last_offset_delta(9);
    gaps.append_at(2, NewRecord::default());
    gaps.append_at(5, NewRecord::default());
    let mut data = encode(&gaps);
    data.extend(encode(&BatchEncoder::new().base_offset(110).last_offset_delta(89)));
    let (batch, position) = walk_all(data, 100, WalkOptions::default(), vec![]);
    assert_eq!(offsets(&batch), [102, 105]);
    assert_eq!(position, 200);
    assert_eq!((batch.spans[0].first_offset, batch.spans[0].next_offset), (102, 200));
}

#[test]
fn control_batches_are_never_shown() {
    let mut data = transactional_batch(0, 2, 9);
    data.extend(control(2, 9, ControlRecordType::Commit));
    data.extend(plain_batch(3, 1, Compression::None));
    for options in [WalkOptions::default(), COMMITTED] {
        let (batch, position) = walk_all(data.clone(), 0, options, vec![]);
        assert_eq!(offsets(&batch), [0, 1, 3]);
        assert_eq!(position, 4);
    }
}

#[test]
fn aborted_records_are_hidden_until_the_marker() {
    let mut data = transactional_batch(0, 2, 9);
    data.extend(transactional_batch(2, 1, 8));
    data.extend(plain_batch(3, 1, Compression::None));
    data.extend(control(4, 9, ControlRecordType::Abort));
    data.extend(transactional_batch(5, 1, 9));
    let (batch, position) = walk_all(data.clone(), 0, COMMITTED, vec![aborted(8, 50), aborted(9, 0)]);
    assert_eq!(offsets(&batch), [2, 3, 5]);
    assert_eq!(position, 6);
    let (batch, _) = walk_all(data, 0, WalkOptions::default(), vec![aborted(9, 0)]);
    assert_eq!(offsets(&batch), [0, 1, 2, 3, 5]);
}

#[test]
fn aborted_list_may_come_with_every_segment() {
    let mut data = transactional_batch(0, 2, 9);
    data.extend(control(2, 9, ControlRecordType::Abort));
    data.extend(transactional_batch(3, 2, 9));
    data.extend(transactional_batch(5, 1, 9));
    let data = Bytes::from(data);
    let mut walker = walker(0, COMMITTED);
    let mut builder = builder(ColumnSet::default());
    let pieces = segments(&data, 1);
    assert_eq!(pieces.len(), 4);
    for piece in pieces {
        walker.feed(piece, vec![aborted(9, 0)]);
        assert_eq!(walker.walk(&mut builder, &mut Scratch::new()), Ok(Walked::Drained));
    }
    assert_eq!(offsets(&builder.finish()), [3, 4, 5]);
}

#[test]
fn inflated_segments_walk_like_raw_ones() {
    let pool = BufferPool::new(1 << 20);
    let mut scratch = Scratch::new();
    let mut data = Vec::new();
    for (index, codec) in codecs().into_iter().enumerate() {
        data.extend(plain_batch(index as i64 * 100, 100, codec));
    }
    let (expected, _) = walk_all(data.clone(), 7, WalkOptions::default(), vec![]);
    data.extend_from_slice(&plain_batch(500, 1, Compression::None)[..40]);
    for max_segment_bytes in [1, 3000, 1 << 20] {
        let mut walker = walker(7, WalkOptions::default());
        let mut builder = builder(ColumnSet::ALL);
        for piece in segments(&Bytes::from(data.clone()), max_segment_bytes) {
            let inflated = inflate(&piece, &WalkOptions::default(), &pool, &mut scratch, &mut |bytes| bytes);
            assert!(inflated.bytes() > 1000);
            walker.feed_inflated(inflated, vec![]);
        }
        assert_eq!(walker.walk(&mut builder, &mut scratch), Ok(Walked::Drained));
        assert_eq!(rows(&builder.finish().record_batch), rows(&expected.record_batch));
        assert_eq!(walker.position(), 500);
        assert_eq!(walker.pending_bytes(), 0);
    }
}

/// Batches of zeros, each of this many bytes.
fn bombs(codec: Compression, batches: usize, batch_bytes: usize) -> Bytes {
    let value = vec![0; batch_bytes];
    let mut data = Vec::new();
    for index in 0..batches {
        let mut encoder = BatchEncoder::new().base_offset(index as i64).compression(codec, None);
        encoder.append(NewRecord { value: Some(&value), ..NewRecord::default() });
        data.extend(encode(&encoder));
    }
    Bytes::from(data)
}

#[test]
#[cfg_attr(miri, ignore = "it inflates gigabytes, and one of the codecs is C")]
fn batches_are_inflated_as_far_as_there_is_room_and_the_rest_is_walked_all_the_same() {
    for codec in [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
        let data = bombs(codec, 30, 1 << 20);
        for room in [0, 100_000, 1 << 20, 5 << 20, 20 << 20, usize::MAX] {
            let pool = BufferPool::new(1 << 20);
            let mut scratch = Scratch::new();
            let mut most_asked = 0;
            let inflated = inflate(&data, &WalkOptions::default(), &pool, &mut scratch, &mut |bytes| {
                most_asked = most_asked.max(bytes);
                bytes.min(room)
            });
            // A buffer is rounded up to its size class, which is at most a quarter larger.
            assert!(inflated.bytes() <= room.saturating_add(room / 4), "{codec:?}: {} of {room}", inflated.bytes());
            assert_eq!(inflated.bytes(), pool.outstanding_bytes());
            assert_eq!(inflated.rest().is_empty(), room == usize::MAX, "{codec:?} {room}");
            assert!(room < 5 << 20 || inflated.bytes() > 2 << 20, "{codec:?}: {} of {room}", inflated.bytes());
            assert!(most_asked <= 64 << 20, "{codec:?} asked for {most_asked}");
            let mut walker = walker(0, WalkOptions::default());
            walker.feed_inflated(inflated, vec![]);
            let mut builder = BatchBuilder::new(ColumnSet::default(), pool, 4, 64 << 20);
            let mut offsets_seen = Vec::new();
            while let Ok(Walked::Full) = walker.walk(&mut builder, &mut scratch) {
                offsets_seen.extend(offsets(&builder.finish()));
            }
            offsets_seen.extend(offsets(&builder.finish()));
            assert_eq!(offsets_seen, (0..30).collect::<Vec<i64>>());
        }
    }
}

fn two_batches() -> Bytes {
    Bytes::from([plain_batch(0, 10, ZSTD), plain_batch(10, 10, Compression::Lz4)].concat())
}

#[test]
fn a_batch_that_was_let_go_is_decompressed_again_and_goes_on_where_it_was() {
    let mut walker = walker(0, WalkOptions::default());
    walker.feed(two_batches(), vec![]);
    let mut scratch = Scratch::new();
    let mut builder = BatchBuilder::new(ColumnSet::default(), BufferPool::new(1 << 20), 3, 1 << 20);
    let mut seen = Vec::new();
    for _ in 0..7 {
        let walked = walker.walk(&mut builder, &mut scratch).expect("sound");
        assert_eq!(walker.holds_payload(), walked == Walked::Full);
        walker.shelve();
        assert!(!walker.holds_payload());
        assert_eq!(walker.pending_bytes() > 0, walked == Walked::Full);
        seen.extend(offsets(&builder.finish()));
    }
    assert_eq!(seen, (0..20).collect::<Vec<i64>>());
}

#[test]
fn the_open_batch_can_be_walked_to_its_end_alone() {
    let mut walker = walker(0, WalkOptions::default());
    walker.feed(two_batches(), vec![]);
    let mut scratch = Scratch::new();
    let mut builder = BatchBuilder::new(ColumnSet::default(), BufferPool::new(1 << 20), 3, 1 << 20);
    assert_eq!(walker.walk_open(&mut builder, &mut scratch), Ok(Walked::Drained), "none is open");
    assert_eq!(walker.walk(&mut builder, &mut scratch), Ok(Walked::Full));
    assert_eq!(offsets(&builder.finish()), [0, 1, 2]);
    let mut builder = BatchBuilder::new(ColumnSet::default(), BufferPool::new(1 << 20), 100, 1 << 20);
    assert_eq!(walker.walk_open(&mut builder, &mut scratch), Ok(Walked::Drained));
    assert_eq!(offsets(&builder.finish()), [3, 4, 5, 6, 7, 8, 9]);
    assert_eq!((walker.position(), walker.holds_payload()), (10, false));
    assert!(walker.pending_bytes() > 0);
}

#[test]
fn a_partial_last_batch_is_no_error() {
    let mut data = plain_batch(0, 3, Compression::None);
    let whole = data.len();
    data.extend(plain_batch(3, 3, Compression::None));
    for cut in [whole, whole + 1, whole + 11, whole + 12, whole + 30, data.len() - 1] {
        let (batch, position) = walk_all(data[..cut].to_vec(), 0, WalkOptions::default(), vec![]);
        assert_eq!(offsets(&batch), [0, 1, 2]);
        assert_eq!(position, 3);
    }
}

#[test]
fn a_fetch_without_a_whole_batch_says_what_is_needed() {
    let data = plain_batch(0, 3, Compression::None);
    let mut walker = walker(0, WalkOptions::default());
    walker.feed(Bytes::copy_from_slice(&data[..50]), vec![]);
    let error = walker.walk(&mut builder(ColumnSet::default()), &mut Scratch::new()).unwrap_err();
    assert_eq!(error.kind, WalkErrorKind::FetchTooSmall { fetched_bytes: 50, batch_bytes: Some(data.len()) });
    assert!(error.to_string().starts_with("orders [3] at offset 0: the fetch returned 50 bytes"), "{error}");
    walker.discard_pending();
    walker.feed(Bytes::from(data), vec![]);
    assert_eq!(walker.walk(&mut builder(ColumnSet::default()), &mut Scratch::new()), Ok(Walked::Drained));
}

#[test]
fn a_damaged_batch_stops_the_walk_at_its_offset_and_keeps_what_was_before() {
    let mut data = plain_batch(0, 3, Compression::None);
    let second = data.len();
    data.extend(plain_batch(3, 3, Compression::None));
    data[second + 70] ^= 1;
    let mut walker = walker(0, WalkOptions::default());
    let mut builder = builder(ColumnSet::ALL);
    walker.feed(Bytes::from(data), vec![]);
    for _ in 0..3 {
        let error = walker.walk(&mut builder, &mut Scratch::new()).unwrap_err();
        assert!(matches!(error.kind, WalkErrorKind::Records(RecordsError::Crc { base_offset: 3, last_offset: 5, .. })));
        assert_eq!((error.offset, error.next_offset), (3, Some(6)));
    }
    assert_eq!(walker.position(), 3);
    assert_eq!(offsets(&builder.finish()), [0, 1, 2]);
}

/// Regression: an error of a batch in the buffer of earlier ones also lost their payload.
#[test]
fn a_batch_that_cannot_be_inflated_leaves_those_before_it() {
    for codec in codecs().into_iter().filter(|codec| *codec != Compression::None) {
        let mut data = plain_batch(0, 100, codec);
        let second = data.len();
        data.extend(plain_batch(100, 3, codec));
        data[second + 61..].fill(0xff);
        let (options, pool) = (WalkOptions { check_crcs: false, ..WalkOptions::default() }, BufferPool::new(1 << 20));
        let (mut walker, mut builder, mut scratch) = (walker(0, options), builder(ColumnSet::ALL), Scratch::new());
        let inflated = inflate(&Bytes::from(data), &options, &pool, &mut scratch, &mut |bytes| bytes);
        walker.feed_inflated(inflated, vec![]);
        let error = walker.walk(&mut builder, &mut scratch).unwrap_err();
        assert_eq!((error.offset, error.next_offset), (100, Some(103)), "{codec}");
        assert_eq!(offsets(&builder.finish()), (0..100).collect::<Vec<_>>(), "{codec}");
    }
}

#[test]
fn unknown_formats_are_named() {
    for magic in [3, 0xff] {
        let mut data = plain_batch(41, 1, Compression::None);
        data[16] = magic;
        let mut walker = walker(41, WalkOptions::default());
        walker.feed(Bytes::from(data), vec![]);
        let error = walker.walk(&mut builder(ColumnSet::default()), &mut Scratch::new()).unwrap_err();
        assert!(error.to_string().contains("orders [3] at offset 41"), "{error}");
        assert!(error.to_string().contains(&format!("message format {}", magic as i8)), "{error}");
    }
}

#[test]
fn limits_cut_at_any_row_and_nothing_is_lost() {
    let mut data = plain_batch(0, 50, Compression::Lz4);
    data.extend(plain_batch(50, 50, Compression::None));
    for max_rows in (1..=101).step_by(if cfg!(miri) { 25 } else { 1 }) {
        let mut walker = walker(0, WalkOptions::default());
        let mut builder = BatchBuilder::new(ColumnSet::default(), BufferPool::new(1 << 20), max_rows, 1 << 20);
        let mut scratch = Scratch::new();
        walker.feed(Bytes::from(data.clone()), vec![]);
        let mut seen = Vec::new();
        loop {
            let walked = walker.walk(&mut builder, &mut scratch).unwrap();
            let batch = builder.finish();
            assert!(batch.record_batch.num_rows() <= max_rows);
            assert_eq!(batch.spans.iter().map(|span| span.rows).sum::<usize>(), batch.record_batch.num_rows());
            seen.extend(offsets(&batch));
            if walked == Walked::Drained {
                break;
            }
        }
        assert_eq!(seen, (0..100).collect::<Vec<i64>>());
    }
}

#[test]
fn a_record_beyond_the_limit_gets_a_batch_of_its_own() {
    let large = vec![7u8; 10_000];
    let mut encoder = BatchEncoder::new();
    for value in [&b"a"[..], &large, b"b"] {
        encoder.append(NewRecord { value: Some(value), ..NewRecord::default() });
    }
    let mut walker = walker(0, WalkOptions::default());
    let mut builder = BatchBuilder::new(ColumnSet::default(), BufferPool::new(1 << 20), 100, 1000);
    walker.feed(Bytes::from(encode(&encoder)), vec![]);
    let mut scratch = Scratch::new();
    for (expected, end) in [(0, Walked::Full), (1, Walked::Full), (2, Walked::Drained)] {
        assert_eq!(walker.walk(&mut builder, &mut scratch), Ok(end.clone()));
        assert_eq!(builder.is_full(), end == Walked::Full);
        assert_eq!(offsets(&builder.finish()), [expected]);
    }
}

#[test]
fn spans_follow_the_partitions_of_the_rows() {
    let mut builder = builder(ColumnSet::ALL);
    let mut scratch = Scratch::new();
    let mut first = walker(0, WalkOptions::default());
    let mut second = monedula_columns::PartitionWalker::new("returns".into(), 0, 40, WalkOptions::default());
    first.feed(Bytes::from(plain_batch(0, 2, Compression::None)), vec![]);
    first.walk(&mut builder, &mut scratch).unwrap();
    first.feed(Bytes::from(plain_batch(2, 2, Compression::None)), vec![]);
    first.walk(&mut builder, &mut scratch).unwrap();
    second.feed(Bytes::from(plain_batch(40, 1, Compression::None)), vec![]);
    second.walk(&mut builder, &mut scratch).unwrap();
    let batch = builder.finish();
    let spans: Vec<_> = batch
        .spans
        .iter()
        .map(|s| (&*s.topic, s.partition, s.rows, s.first_offset, s.next_offset, s.leader_epoch))
        .collect();
    assert_eq!(spans, [("orders", 3, 4, 0, 4, 7), ("returns", 0, 1, 40, 41, 7)]);
    let places: Vec<_> = rows(&batch.record_batch).into_iter().map(|row| (row.topic, row.partition)).collect();
    let expected = [("orders", 3), ("orders", 3), ("orders", 3), ("orders", 3), ("returns", 0)];
    assert_eq!(places, expected.map(|(topic, partition)| (topic.to_owned(), partition)));
}

#[test]
fn projections_hold_only_what_was_asked_for() {
    for (index, name) in ColumnSet::NAMES.into_iter().enumerate() {
        let columns = ColumnSet::from_names([name]).unwrap();
        let mut builder = builder(columns);
        let mut walker = walker(0, WalkOptions::default());
        walker.feed(Bytes::from(plain_batch(0, 10, Compression::None)), vec![]);
        walker.walk(&mut builder, &mut Scratch::new()).unwrap();
        let batch = builder.finish().record_batch;
        let (full, _) = walk_all(plain_batch(0, 10, Compression::None), 0, WalkOptions::default(), vec![]);
        assert_eq!(batch.num_columns(), 1);
        assert_eq!(batch.column(0), full.record_batch.column(index), "{name}");
    }
}

#[test]
fn unknown_columns_are_named_with_the_nearest() {
    let error = ColumnSet::from_names(["key", "timestamptype"]).unwrap_err();
    assert!(
        error.to_string().starts_with("unknown column \"timestamptype\"; did you mean \"timestampType\"?"),
        "{error}"
    );
    assert!(ColumnSet::from_names(Vec::<String>::new()).is_err());
}

#[test]
fn a_bounded_walk_ends_before_its_end_and_passes_gaps_up_to_it() {
    let mut gaps = BatchEncoder::new().base_offset(10).last_offset_delta(9);
    gaps.append_at(2, NewRecord::default());
    gaps.append_at(8, NewRecord::default());
    let mut data = plain_batch(0, 10, Compression::Lz4);
    data.extend(encode(&gaps));
    data.extend(plain_batch(20, 5, Compression::None));
    for end in 0..30 {
        let mut walker = walker(0, WalkOptions::default());
        let mut builder = builder(ColumnSet::default());
        walker.set_end(Some(end));
        walker.feed(Bytes::from(data.clone()), vec![]);
        assert_eq!(walker.walk(&mut builder, &mut Scratch::new()), Ok(Walked::Drained));
        let expected: Vec<i64> = (0..10).chain([12, 18]).chain(20..25).filter(|offset| *offset < end).collect();
        assert_eq!(offsets(&builder.finish()), expected);
        // Compaction has removed offset 19 of the second batch, so no record is left there to stop at.
        let position = if end == 19 { 20 } else { end.min(25) };
        assert_eq!(walker.position(), position);
        assert_eq!(walker.pending_bytes(), 0);
    }
}

#[test]
fn a_marker_below_the_start_ends_its_transaction() {
    let mut data = transactional_batch(0, 2, 9);
    data.extend(control(2, 9, ControlRecordType::Abort));
    data.extend(transactional_batch(3, 2, 9));
    let (batch, position) = walk_all(data, 3, COMMITTED, vec![aborted(9, 0)]);
    assert_eq!(offsets(&batch), [3, 4]);
    assert_eq!(position, 5);
}

#[test]
fn an_offset_that_does_not_grow_stops_the_walk_behind_the_sound_rows() {
    for delta in [1, 0] {
        let mut encoder = BatchEncoder::new().base_offset(10).last_offset_delta(9);
        encoder.append_at(1, NewRecord::default());
        encoder.append_at(delta, NewRecord::default());
        let mut walker = walker(10, WalkOptions::default());
        let mut builder = builder(ColumnSet::default());
        walker.feed(Bytes::from(encode(&encoder)), vec![]);
        let error = walker.walk(&mut builder, &mut Scratch::new()).unwrap_err();
        assert!(error.to_string().contains("record 1 of the batch at offset 10"), "{error}");
        assert_eq!((error.offset, error.next_offset), (12, Some(20)));
        assert_eq!(offsets(&builder.finish()), [11]);
    }
}

#[test]
fn ranges_of_offsets_are_walked_one_after_the_other_and_what_lies_between_is_passed_over() {
    for codec in codecs() {
        let data = [plain_batch(0, 10, codec), plain_batch(10, 10, codec)].concat();
        let mut walker = walker(0, WalkOptions::default());
        walker.feed(Bytes::from(data), vec![]);
        let (mut builder, mut scratch, mut rows) = (builder(ColumnSet::default()), Scratch::new(), Vec::new());
        for range in [1..=2, 4..=4, 9..=11, 15..=30] {
            let before = builder.rows();
            assert_eq!(walker.walk_range(range, &mut builder, &mut scratch), Ok(Walked::Drained), "{codec}");
            rows.push(builder.rows() - before);
        }
        assert_eq!(offsets(&builder.finish()), [1, 2, 4, 9, 10, 11, 15, 16, 17, 18, 19], "{codec}");
        assert_eq!(rows, [2, 1, 3, 5], "{codec}");
    }
}

#[test]
fn a_range_that_a_full_batch_cut_short_goes_on_at_the_position() {
    let mut walker = walker(0, WalkOptions::default());
    walker.feed(Bytes::from(plain_batch(0, 10, Compression::None)), vec![]);
    let mut builder = BatchBuilder::new(ColumnSet::default(), BufferPool::new(1 << 20), 3, 1 << 20);
    let mut scratch = Scratch::new();
    assert_eq!(walker.walk_range(2..=7, &mut builder, &mut scratch), Ok(Walked::Full));
    assert_eq!((offsets(&builder.finish()), walker.position()), (vec![2, 3, 4], 5));
    assert_eq!(walker.walk_range(5..=7, &mut builder, &mut scratch), Ok(Walked::Drained));
    assert_eq!((offsets(&builder.finish()), walker.position()), (vec![5, 6, 7], 8));
}

#[test]
fn a_batch_that_cannot_be_read_is_passed_and_the_next_range_follows() {
    let mut damaged = plain_batch(0, 10, Compression::None);
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    let mut walker = walker(0, WalkOptions::default());
    walker.feed(Bytes::from([damaged, plain_batch(10, 10, Compression::None)].concat()), vec![]);
    let (mut builder, mut scratch) = (builder(ColumnSet::default()), Scratch::new());
    let error = walker.walk_range(3..=12, &mut builder, &mut scratch).expect_err("its checksum is wrong");
    assert_eq!((error.offset, error.next_offset), (3, Some(10)));
    walker.pass(10);
    assert_eq!(walker.walk_range(10..=12, &mut builder, &mut scratch), Ok(Walked::Drained));
    assert_eq!(offsets(&builder.finish()), [10, 11, 12]);
}
