//! Record batches walked into typed columns: wherever bad records are, every column has the rows of the good ones.

mod common;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Fields};
use bytes::Bytes;
use common::{field, list, structs};
use monedula_columns::{
    BatchBuilder, BatchColumns, BufferPool, ColumnBatch, ColumnSet, FlattenError, OnBadValue, PartitionWalker,
    RecordFilter, Scratch, TypedColumn, TypedSpec, WalkErrorKind, WalkOptions, Walked,
};
use monedula_formats::{JsonDecoder, JsonOptions, Mode};
use monedula_protocol::compression::Compressor;
use monedula_protocol::records::{BatchEncoder, Header, NewRecord};

fn fields() -> Fields {
    let item = structs(vec![field("n", DataType::Int64)]);
    Fields::from(vec![field("id", DataType::Int64), field("name", DataType::Utf8), field("items", list(item))])
}

fn spec(on_bad: OnBadValue, mode: Mode, flatten: bool) -> TypedSpec {
    let make = move |pool: &BufferPool| -> Box<dyn TypedColumn> {
        let options = JsonOptions { mode, ..JsonOptions::default() };
        Box::new(JsonDecoder::new(&fields(), options, pool.clone()).expect("fields"))
    };
    TypedSpec { make: Arc::new(make), on_bad, flatten }
}

fn good(offset: i64) -> String {
    let items = (0..offset % 3).map(|n| format!(r#"{{"n":{n}}}"#)).collect::<Vec<_>>().join(",");
    format!(r#"{{"id":{offset},"name":"n{offset}","items":[{items}]}}"#)
}

/// Record whose last field is bad, after the others have been decoded.
fn bad(offset: i64) -> String {
    format!(r#"{{"id":{offset},"name":"bad","items":[{{"n":1}},{{"n":"x"}}]}}"#)
}

/// Batch of records at these offsets, each good or bad.
fn encode(records: &[(i64, bool)]) -> Bytes {
    let mut encoder = BatchEncoder::new().base_offset(records[0].0);
    for (offset, is_good) in records {
        let value = if *is_good { good(*offset) } else { bad(*offset) };
        encoder.append(NewRecord {
            timestamp_ms: 1_000 + offset,
            key: Some(format!("k{offset}").as_bytes()),
            value: Some(value.as_bytes()),
            headers: &[Header { key: "h".as_bytes(), value: Some(&[1]) }],
        });
    }
    let mut bytes = Vec::new();
    encoder.encode(&mut Compressor::new(), &mut bytes).expect("encodes");
    Bytes::from(bytes)
}

fn walker(fetches: &[Bytes], from: i64) -> PartitionWalker {
    let mut walker = PartitionWalker::new("t".into(), 0, from, WalkOptions::default());
    for fetch in fetches {
        walker.feed(fetch.clone(), vec![]);
    }
    walker
}

/// Offsets of the rows, each of which must match its offset in every column.
fn offsets_of(batch: &RecordBatch) -> Vec<i64> {
    let offsets = batch.column_by_name("offset").expect("offsets").as_primitive::<Int64Type>();
    let value = batch.column_by_name("value").expect("values").as_struct();
    let (ids, names) = (value.column(0).as_primitive::<Int64Type>(), value.column(1).as_string::<i32>());
    let keys = batch.column_by_name("key").expect("keys").as_binary::<i32>();
    for (row, offset) in offsets.values().iter().enumerate() {
        assert_eq!(ids.value(row), *offset);
        assert_eq!(names.value(row), format!("n{offset}"));
        assert_eq!(keys.value(row), format!("k{offset}").as_bytes());
        let items = value.column(2).as_list::<i32>().value(row);
        let numbers = items.as_struct().column(0).as_primitive::<Int64Type>().values().to_vec();
        assert_eq!(numbers, (0..offset % 3).collect::<Vec<_>>());
        let headers = batch.column_by_name("headers").expect("headers").as_list::<i32>();
        assert_eq!(headers.value_length(row), 1);
    }
    offsets.values().to_vec()
}

fn drain(walker: &mut PartitionWalker, builder: &mut BatchBuilder) -> Vec<ColumnBatch> {
    let (mut batches, mut scratch) = (Vec::new(), Scratch::new());
    loop {
        let walked = walker.walk(builder, &mut scratch).expect("nothing stops the walk");
        batches.push(builder.finish());
        if walked == Walked::Drained {
            return batches;
        }
    }
}

#[test]
fn bad_records_at_every_place_leave_every_column_right() {
    const COUNT: usize = 7;
    let pool = BufferPool::new(1 << 20);
    for pattern in 0..1_u32 << COUNT {
        let records: Vec<_> = (0..COUNT).map(|index| (index as i64, pattern >> index & 1 == 0)).collect();
        // Two batches, so that bad records are at both ends of each.
        let fetches = [encode(&records[..4]), encode(&records[4..])];
        let expected: Vec<i64> = records.iter().filter(|(_, is_good)| *is_good).map(|(offset, _)| *offset).collect();
        let refused: Vec<i64> = records.iter().filter(|(_, is_good)| !is_good).map(|(offset, _)| *offset).collect();
        for (on_bad, max_rows) in
            [(OnBadValue::Drop, 100), (OnBadValue::Drop, 2), (OnBadValue::Refuse, 100), (OnBadValue::Refuse, 1)]
        {
            let value = Some(spec(on_bad, Mode::FailFast, false));
            let columns = BatchColumns { set: ColumnSet::ALL, key: None, value, filter: None };
            let mut builder = BatchBuilder::new(columns, pool.clone(), max_rows, 1 << 20);
            let mut walker = walker(&fetches, 0);
            let batches = drain(&mut walker, &mut builder);
            assert_eq!(walker.position(), COUNT as i64);
            let rows: Vec<i64> = batches.iter().flat_map(|batch| offsets_of(&batch.record_batch)).collect();
            assert_eq!(rows, expected, "pattern {pattern:b}");
            for batch in &batches {
                check_spans(batch);
            }
            let dropped: usize = batches.iter().map(|batch| batch.dropped).sum();
            let kept: Vec<i64> = batches
                .iter()
                .filter_map(|batch| batch.refused.as_ref())
                .flat_map(|refused| {
                    assert_eq!(refused.causes.len(), refused.rows.record_batch.num_rows());
                    assert!(
                        refused.causes.iter().all(|cause| cause.bad.path == "items[1].n" && cause.column == "value")
                    );
                    let rows = &refused.rows.record_batch;
                    let offsets = rows.column_by_name("offset").expect("offsets").as_primitive::<Int64Type>();
                    let values = rows.column_by_name("value").expect("values").as_binary::<i32>();
                    for (row, offset) in offsets.values().iter().enumerate() {
                        assert_eq!(values.value(row), bad(*offset).as_bytes());
                    }
                    offsets.values().to_vec()
                })
                .collect();
            match on_bad {
                OnBadValue::Drop => assert_eq!((dropped, kept.len()), (refused.len(), 0)),
                _ => assert_eq!((dropped, kept), (0, refused.clone())),
            }
        }
    }
}

fn check_spans(batch: &ColumnBatch) {
    let mut row = 0;
    for span in &batch.spans {
        assert_eq!(batch.offset_of(row), Some(span.first_offset));
        row += span.rows;
        assert!(batch.offset_of(row - 1).is_some_and(|last| last < span.next_offset));
    }
    assert_eq!(row, batch.record_batch.num_rows());
}

#[test]
fn bad_records_that_a_condition_leaves_out_are_not_decoded() {
    for on_bad in [OnBadValue::Fail, OnBadValue::Drop, OnBadValue::Refuse] {
        let fetch = encode(&[(0, true), (1, false), (2, true), (3, false)]);
        let columns = BatchColumns {
            set: ColumnSet::ALL,
            key: None,
            value: Some(spec(on_bad, Mode::FailFast, false)),
            filter: Some(Arc::new(RecordFilter::Offset(vec![(0, 0), (2, 2)]))),
        };
        let mut builder = BatchBuilder::new(columns, BufferPool::new(0), 100, 1 << 20);
        let mut walker = walker(&[fetch], 0);
        let batches = drain(&mut walker, &mut builder);
        assert_eq!(walker.position(), 4);
        assert_eq!(batches.iter().flat_map(|batch| offsets_of(&batch.record_batch)).collect::<Vec<_>>(), [0, 2]);
        let counts = batches.iter().map(|batch| (batch.filtered, batch.dropped, batch.refused.is_some()));
        assert_eq!(counts.collect::<Vec<_>>(), [(2, 0, false)]);
        batches.iter().for_each(check_spans);
    }
}

#[test]
fn a_walk_that_fails_stops_at_the_bad_record_after_the_rows_before_it() {
    for at in 0..5_i64 {
        let records: Vec<_> = (0..5).map(|offset| (offset, offset != at)).collect();
        let columns = BatchColumns {
            set: ColumnSet::ALL,
            key: None,
            value: Some(spec(OnBadValue::Fail, Mode::FailFast, false)),
            filter: None,
        };
        let mut builder = BatchBuilder::new(columns, BufferPool::new(0), 100, 1 << 20);
        let fetch = encode(&records);
        let mut first = walker(std::slice::from_ref(&fetch), 0);
        let error = first.walk(&mut builder, &mut Scratch::new()).expect_err("a bad record");
        assert_eq!((error.offset, error.next_offset, first.position()), (at, Some(at + 1), at));
        let WalkErrorKind::BadValue { column: "value", bad } = &error.kind else { panic!("{error}") };
        assert_eq!(bad.path, "items[1].n");
        assert_eq!(offsets_of(&builder.finish().record_batch), (0..at).collect::<Vec<_>>());
        // Continue behind the bad record.
        let rest = drain(&mut walker(&[fetch], at + 1), &mut builder);
        let rows: Vec<i64> = rest.iter().flat_map(|batch| offsets_of(&batch.record_batch)).collect();
        assert_eq!(rows, (at + 1..5).collect::<Vec<_>>());
    }
}

#[test]
fn a_batch_ends_by_the_bytes_of_its_typed_columns() {
    let records: Vec<_> = (0..300).map(|offset| (offset, true)).collect();
    let columns = BatchColumns {
        set: ColumnSet::ALL,
        key: None,
        value: Some(spec(OnBadValue::Fail, Mode::FailFast, false)),
        filter: None,
    };
    let max_bytes = 4_000;
    let mut builder = BatchBuilder::new(columns, BufferPool::new(0), 1_000, max_bytes);
    let batches = drain(&mut walker(&[encode(&records)], 0), &mut builder);
    assert!(batches.len() > 3);
    for batch in &batches {
        let value = batch.record_batch.column_by_name("value").expect("values").to_data();
        assert!(value.get_slice_memory_size().expect("a size") <= max_bytes + 64);
    }
    let rows: Vec<i64> = batches.iter().flat_map(|batch| offsets_of(&batch.record_batch)).collect();
    assert_eq!(rows, (0..300).collect::<Vec<_>>());
}

#[test]
fn records_that_are_refused_count_as_bytes_of_the_batch() {
    let records: Vec<_> = (0..300).map(|offset| (offset, false)).collect();
    let columns = BatchColumns {
        set: ColumnSet::ALL,
        key: None,
        value: Some(spec(OnBadValue::Refuse, Mode::FailFast, false)),
        filter: None,
    };
    let mut builder = BatchBuilder::new(columns, BufferPool::new(0), 1_000, 4_000);
    let batches = drain(&mut walker(&[encode(&records)], 0), &mut builder);
    let kept: Vec<usize> = batches.iter().filter_map(|batch| Some(batch.refused.as_ref()?.causes.len())).collect();
    assert!(kept.len() > 3 && kept.iter().sum::<usize>() == 300, "{kept:?}");
}

#[test]
fn rows_and_records_that_are_refused_are_bounded_together() {
    let kinds: [fn(i64) -> bool; 3] = [|_| false, |offset| offset % 2 == 0, |offset| offset % 7 == 0];
    for is_good in kinds {
        let records: Vec<_> = (0..100).map(|offset| (offset, is_good(offset))).collect();
        let value = Some(spec(OnBadValue::Refuse, Mode::FailFast, false));
        for max_rows in [1, 2, 3, 99, 100] {
            let columns = BatchColumns { set: ColumnSet::ALL, key: None, value: value.clone(), filter: None };
            let mut builder = BatchBuilder::new(columns, BufferPool::new(0), max_rows, 1 << 20);
            let batches = drain(&mut walker(&[encode(&records)], 0), &mut builder);
            let refused = |batch: &ColumnBatch| batch.refused.as_ref().map_or(0, |refused| refused.causes.len());
            let counts: Vec<_> = batches.iter().map(|batch| batch.record_batch.num_rows() + refused(batch)).collect();
            assert!(counts.iter().all(|&count| count <= max_rows), "{counts:?} of {max_rows}");
            assert_eq!(counts.iter().sum::<usize>(), 100, "{counts:?}");
        }
    }
}

#[test]
fn rows_with_nulls_count_once_wherever_the_batches_end() {
    let records: Vec<_> = (0..100).map(|offset| (offset, false)).collect();
    let value = Some(spec(OnBadValue::Fail, Mode::Permissive, false));
    for max_bytes in [1, 1_000, 4_000, 1 << 20] {
        let columns = BatchColumns { set: ColumnSet::ALL, key: None, value: value.clone(), filter: None };
        let mut builder = BatchBuilder::new(columns, BufferPool::new(0), 1_000, max_bytes);
        let batches = drain(&mut walker(&[encode(&records)], 0), &mut builder);
        for batch in &batches {
            assert_eq!(batch.with_nulls, batch.record_batch.num_rows(), "{max_bytes} bytes");
        }
        assert_eq!(batches.iter().map(|batch| batch.with_nulls).sum::<usize>(), 100);
    }
}

#[test]
fn a_struct_is_flattened_beside_kafkas_columns() {
    let columns = BatchColumns {
        set: ColumnSet::default(),
        key: None,
        value: Some(spec(OnBadValue::Fail, Mode::FailFast, true)),
        filter: None,
    };
    assert_eq!(columns.check(&BufferPool::new(0)), Ok(()));
    let mut builder = BatchBuilder::new(columns, BufferPool::new(0), 10, 1 << 20);
    let batches = drain(&mut walker(&[encode(&[(0, true), (1, true)])], 0), &mut builder);
    let schema = batches[0].record_batch.schema();
    let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["key", "id", "name", "items", "topic", "partition", "offset", "timestamp", "timestampType"]);
    // Unchecked construction left no damage: Arrow's checks accept the batch.
    let batch = &batches[0].record_batch;
    assert!(RecordBatch::try_new(schema.clone(), batch.columns().to_vec()).is_ok());
}

#[test]
fn a_flattened_field_must_not_have_the_name_of_another_column() {
    let both = Some(spec(OnBadValue::Fail, Mode::FailFast, true));
    let columns = BatchColumns { set: ColumnSet::default(), key: both.clone(), value: both, filter: None };
    let Err(FlattenError::Collision { column, name, other }) = columns.check(&BufferPool::new(0)) else {
        panic!("they collide")
    };
    assert_eq!((column, name.as_str(), other), ("value", "id", "key"));
}
