//! Tables are sent row by row without an object for each row, and the report covers every row.

use std::sync::Arc;
use std::time::Instant;

use arrow_array::builder::{BinaryBuilder, ListBuilder, StringBuilder, StructBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BinaryArray, BinaryViewArray, DictionaryArray, Int32Array, Int64Array, LargeStringArray, ListArray,
    RecordBatch, StringArray, StringViewArray, StructArray, TimestampMicrosecondArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Fields};
use monedula_client::error::ClientError;
use monedula_client::producer::{Columns, Producer, Report, Summary};
use monedula_engine::TopicPartition;

use crate::support::{PATIENCE, World, delivered, send};

fn table(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).expect("a batch")
}

/// Sends all rows and waits for their outcomes.
fn sent(producer: &Producer, batch: &RecordBatch, topic: Option<&str>) -> Summary {
    let columns = Columns::of(&batch.schema(), topic.is_some()).expect("columns");
    let report = Report::new();
    let (mut row, deadline) = (0, Instant::now() + PATIENCE);
    while row < batch.num_rows() {
        assert!(Instant::now() < deadline, "{row} rows were taken");
        row += producer.send_batch(batch, &columns, topic, &report, row, deadline).expect("open");
    }
    report.seal();
    assert!(report.wait(deadline), "{:?}", report.summary());
    report.summary()
}

fn offsets(summary: &Summary, topic: &str, partition: i32) -> Vec<(i64, i64)> {
    summary.offsets.get(&TopicPartition::new(topic, partition)).cloned().unwrap_or_default()
}

#[test]
fn every_row_arrives_in_order_whatever_type_holds_it() {
    let world = World::new(&["t:1"], 1);
    let producer = world.producer(&[("batch.size", "2000")]);
    let texts: Vec<Option<String>> = (0..10_000).map(|row| (row % 7 != 3).then(|| format!("value {row}"))).collect();
    let refs = || texts.iter().map(|text| text.as_deref());
    let dictionary: DictionaryArray<Int32Type> = refs().collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(BinaryArray::from_iter(refs().map(|text| text.map(str::as_bytes)))),
        Arc::new(StringArray::from_iter(refs())),
        Arc::new(LargeStringArray::from_iter(refs())),
        Arc::new(StringViewArray::from_iter(refs())),
        Arc::new(BinaryViewArray::from_iter(refs().map(|text| text.map(str::as_bytes)))),
        Arc::new(dictionary),
    ];
    for (number, values) in columns.into_iter().enumerate() {
        let first = number as i64 * 10_000;
        let summary = sent(&producer, &table(vec![("value", values)]), Some("t"));
        assert_eq!((summary.acknowledged, summary.failed), (10_000, 0));
        assert_eq!(offsets(&summary, "t", 0), [(first, first + 9999)], "column {number}");
    }
    let rows = world.read("t", 0, 60_000);
    assert!(rows.iter().enumerate().all(|(row, read)| read.1 == texts[row % 10_000] && read.0.is_none()));
}

#[test]
fn a_slice_of_a_table_is_sent_as_what_it_shows() {
    let world = World::new(&["t:1"], 1);
    let producer = world.producer(&[]);
    let values: ArrayRef = Arc::new(StringArray::from_iter_values((0..100).map(|row| row.to_string())));
    let summary = sent(&producer, &table(vec![("value", values)]).slice(40, 5), Some("t"));
    assert_eq!(summary.acknowledged, 5);
    let rows: Vec<_> = world.read("t", 0, 5).into_iter().map(|(_, value)| value.expect("a value")).collect();
    assert_eq!(rows, ["40", "41", "42", "43", "44"]);
}

// req: S162
#[test]
fn rows_of_a_key_share_a_partition_with_single_records_of_that_key() {
    let world = World::new(&["t:5"], 1);
    let producer = world.producer(&[]);
    let keys: Vec<String> = (0..3000).map(|row| format!("key {}", row % 50)).collect();
    let keys: ArrayRef = Arc::new(StringArray::from(keys));
    let values: ArrayRef = Arc::new(StringArray::from_iter_values((0..3000).map(|row| row.to_string())));
    let summary = sent(&producer, &table(vec![("key", keys), ("value", values)]), Some("t"));
    assert_eq!(summary.acknowledged, 3000);
    let mut seen = 0;
    for partition in 0..5 {
        let count = offsets(&summary, "t", partition).last().map_or(0, |(_, last)| last + 1) as usize;
        seen += count;
        let rows = world.read("t", partition, count);
        let numbers: Vec<u32> =
            rows.iter().map(|row| row.1.as_deref().expect("a value").parse().expect("a number")).collect();
        assert!(numbers.is_sorted(), "partition {partition}");
        for key in rows.iter().filter_map(|row| row.0.as_deref()).take(20) {
            assert_eq!(delivered(&send(&producer, "t", Some(key), "single")).partition, partition);
        }
    }
    assert_eq!(seen, 3000);
}

#[test]
fn rows_say_their_topic_partition_time_and_headers() {
    let world = World::new(&["a:2", "b:2"], 1);
    let producer = world.producer(&[]);
    let pair =
        Fields::from(vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Binary, true)]);
    let pairs = StructBuilder::new(pair, vec![Box::new(StringBuilder::new()), Box::new(BinaryBuilder::new())]);
    let mut headers = ListBuilder::new(pairs);
    for row in 0..4 {
        for _ in 0..row {
            headers.values().field_builder::<StringBuilder>(0).expect("keys").append_value("same");
            headers.values().field_builder::<BinaryBuilder>(1).expect("values").append_value(row.to_string());
            headers.values().append(true);
        }
        headers.append(true);
    }
    let batch = table(vec![
        ("topic", Arc::new(StringArray::from(vec!["b", "a", "b", "b"])) as ArrayRef),
        ("partition", Arc::new(Int32Array::from(vec![1, 0, 1, 1]))),
        (
            "timestamp",
            Arc::new(
                TimestampMicrosecondArray::from(vec![Some(1_000_999), Some(2_000_000), None, Some(0)])
                    .with_timezone("UTC"),
            ),
        ),
        ("headers", Arc::new(headers.finish())),
        ("value", Arc::new(StringArray::from(vec!["0", "1", "2", "3"]))),
        ("offset", Arc::new(Int64Array::from(vec![7; 4]))),
    ]);
    let summary = sent(&producer, &batch, None);
    assert_eq!((summary.acknowledged, summary.failed), (4, 0));
    assert_eq!(offsets(&summary, "b", 1), [(0, 2)]);
    assert_eq!(offsets(&summary, "a", 0), [(0, 0)]);
    let values: Vec<_> = world.read("b", 1, 3).into_iter().map(|row| row.1.expect("a value")).collect();
    assert_eq!(values, ["0", "2", "3"]);
    let summary = sent(&producer, &batch, Some("b"));
    assert_eq!((offsets(&summary, "b", 0), offsets(&summary, "b", 1)), (vec![(0, 0)], vec![(3, 5)]), "overruled");
}

/// A column of headers with these field names: for each row its pairs. Null pairs keep the values below the null.
fn headers(names: [&str; 2], rows: &[usize], pairs: &[(bool, Option<&str>, Option<&str>)]) -> ArrayRef {
    let first: ArrayRef = Arc::new(StringArray::from_iter(pairs.iter().map(|pair| pair.1)));
    let second: ArrayRef = Arc::new(StringArray::from_iter(pairs.iter().map(|pair| pair.2)));
    let fields = Fields::from(names.map(|name| Field::new(name, DataType::Utf8, true)).to_vec());
    let nulls = NullBuffer::from_iter(pairs.iter().map(|pair| pair.0));
    let structs = StructArray::new(fields.clone(), vec![first, second], Some(nulls));
    let item = Arc::new(Field::new("item", DataType::Struct(fields), true));
    Arc::new(ListArray::new(item, OffsetBuffer::from_lengths(rows.iter().copied()), Arc::new(structs), None))
}

#[test]
fn headers_are_read_by_the_names_of_their_fields() {
    let world = World::new(&["t:1"], 1);
    let producer = world.producer(&[]);
    for names in [["key", "value"], ["value", "key"]] {
        let of = |key, value| if names[0] == "key" { (true, Some(key), value) } else { (true, value, Some(key)) };
        let column = headers(names, &[2, 0, 1], &[of("a", Some("1")), of("a", None), of("", Some(""))]);
        let values: ArrayRef = Arc::new(StringArray::from(vec!["0", "1", "2"]));
        let summary = sent(&producer, &table(vec![("headers", column), ("value", values)]), Some("t"));
        assert_eq!(summary.acknowledged, 3);
    }
    let pair = |key: &str, value: Option<&str>| (key.to_owned(), value.map(str::to_owned));
    let rows = [vec![pair("a", Some("1")), pair("a", None)], vec![], vec![pair("", Some(""))]];
    assert_eq!(world.headers("t", 6), [rows.clone(), rows].concat());
}

#[test]
fn rows_whose_headers_have_no_key_are_refused_alone() {
    let world = World::new(&["t:1"], 1);
    let producer = world.producer(&[]);
    for names in [["key", "value"], ["value", "key"]] {
        let of = |there, key, value| if names[0] == "key" { (there, key, value) } else { (there, value, key) };
        let pairs = [
            of(true, Some("fine"), None),
            of(true, None, Some("no key")),
            of(true, Some("first"), None),
            of(false, Some("below"), Some("the mask")),
        ];
        let column = headers(names, &[1, 1, 0, 2], &pairs);
        let values: ArrayRef = Arc::new(StringArray::from(vec!["0", "1", "2", "3"]));
        let summary = sent(&producer, &table(vec![("headers", column), ("value", values)]), Some("t"));
        let errors: Vec<_> = summary.errors.iter().map(|(row, _, error)| (*row, error.to_string())).collect();
        assert_eq!((summary.acknowledged, errors.len()), (2, 2), "{errors:?}");
        assert!(errors[0].0 == 1 && errors[0].1.contains("header 0 of the row has no key"), "{errors:?}");
        assert!(errors[1].0 == 3 && errors[1].1.contains("header 1 of the row is null"), "{errors:?}");
    }
}

#[test]
fn partitions_out_of_range_are_named_as_they_were_given() {
    let world = World::new(&["t:2"], 1);
    let producer = world.producer(&[]);
    let wrong = [1_i64 << 32, (1 << 32) + 1, i64::MAX, i64::MIN, -1, i64::from(i32::MAX) + 1];
    let given = wrong.into_iter().chain([1]);
    let values: ArrayRef = Arc::new(StringArray::from_iter_values((0..7).map(|row| row.to_string())));
    let partitions: ArrayRef = Arc::new(Int64Array::from_iter_values(given));
    // First while the topic is not known yet, then when it is.
    for _ in 0..2 {
        let batch = table(vec![("partition", partitions.clone()), ("value", values.clone())]);
        let summary = sent(&producer, &batch, Some("t"));
        assert_eq!((summary.acknowledged, summary.failed), (1, 6));
        for ((row, _, error), given) in summary.errors.iter().zip(wrong) {
            assert!(error.to_string().contains(&format!("partition={given}:")), "{row}: {error}");
        }
    }
}

#[test]
fn a_dictionary_without_values_is_a_column_of_nulls() {
    let world = World::new(&["t:1"], 1);
    let producer = world.producer(&[]);
    let nothing = || Arc::new(DictionaryArray::<Int32Type>::from_iter([None::<&str>; 3])) as ArrayRef;
    let summary = sent(&producer, &table(vec![("key", nothing()), ("value", nothing())]), Some("t"));
    assert_eq!(summary.acknowledged, 3);
    assert_eq!(world.read("t", 0, 3), vec![(None, None); 3]);
}

#[test]
fn rows_that_cannot_be_sent_fail_alone_and_say_why() {
    let world = World::new(&["t:2"], 1);
    let producer = world.producer(&[("max.request.size", "5000")]);
    let large = "x".repeat(6000);
    let batch = table(vec![
        ("topic", Arc::new(StringArray::from(vec![Some("t"), None, Some("t"), Some("t"), Some("t")])) as ArrayRef),
        ("partition", Arc::new(Int32Array::from(vec![Some(0), Some(0), Some(2), None, Some(-5)]))),
        ("value", Arc::new(StringArray::from(vec!["fine", "no topic", "no partition", &large, "negative"]))),
    ]);
    let summary = sent(&producer, &batch, None);
    assert_eq!((summary.acknowledged, summary.failed), (1, 4));
    let mut errors: Vec<_> =
        summary.errors.iter().map(|(row, count, error)| (*row, *count, error.to_string())).collect();
    errors.sort();
    assert!(errors.iter().zip(1..).all(|((row, count, _), wanted)| (*row, *count) == (wanted, 1)), "{errors:?}");
    assert!(errors[0].2.contains("no topic") && errors[1].2.contains("2 partitions"), "{errors:?}");
    assert!(errors[2].2.contains("max.request.size") && errors[3].2.contains("partition"), "{errors:?}");
}

#[test]
fn a_missing_topic_fails_its_rows_and_no_others() {
    let world = World::new(&["there:1"], 1);
    let producer = world.producer(&[("retry.backoff.ms", "100")]);
    let topics: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..50_000).map(|row| if row % 2 == 0 { "there" } else { "missing" })));
    let batch = table(vec![("topic", topics.clone()), ("value", topics)]);
    let summary = sent(&producer, &batch, None);
    assert_eq!((summary.acknowledged, summary.failed), (25_000, 25_000));
    assert!(summary.errors.iter().all(|(row, ..)| row % 2 == 1));
    assert!(summary.errors.iter().all(|(.., error)| matches!(error, ClientError::UnknownTopic { .. })));
}

#[test]
fn memory_bounds_a_table_too_and_what_was_given_up_is_told() {
    let world = World::new(&["t:3"], 1);
    let producer =
        world.producer(&[("buffer.memory", "200000"), ("max.request.size", "50000"), ("batch.size", "10000")]);
    let keys: ArrayRef = Arc::new(StringArray::from_iter_values((0..20_000).map(|row| row.to_string())));
    let values: ArrayRef = Arc::new(StringArray::from_iter_values((0..20_000).map(|_| "x".repeat(100))));
    let batch = table(vec![("key", keys), ("value", values)]);
    let summary = sent(&producer, &batch, Some("t"));
    assert_eq!(summary.acknowledged, 20_000, "ten times the memory went through it");

    let held = world.fault(&["Produce"], monedula_broker::Effect::Hold, None);
    let columns = Columns::of(&batch.schema(), true).expect("columns");
    let report = Report::new();
    let taken = producer.send_batch(&batch, &columns, Some("t"), &report, 0, Instant::now()).expect("open");
    let rows = taken + producer.fail_rest(&report, &ClientError::WokenUp);
    assert!(rows < 20_000 && producer.health().memory.0 <= 200_000, "{rows}: {:?}", producer.health().memory);
    held.release().expect("releases");
    held.remove().expect("removes");
    report.seal();
    assert!(report.wait(Instant::now() + PATIENCE));
    let summary = report.summary();
    assert_eq!(summary.acknowledged + summary.failed, rows as u64);
    assert!(summary.acknowledged > 0 && summary.errors.iter().all(|(.., error)| matches!(error, ClientError::WokenUp)));
}

#[test]
fn columns_that_do_not_do_are_named_before_a_row_is_taken() {
    let error = |columns, topic| match Columns::of(&table(columns).schema(), topic) {
        Ok(_) => panic!("must be refused"),
        Err(error) => error.to_string(),
    };
    let texts = || Arc::new(StringArray::from(vec!["a"])) as ArrayRef;
    let numbers = || Arc::new(Int64Array::from(vec![1])) as ArrayRef;
    assert!(error(vec![("value", numbers())], true).contains("\"value\" is of type Int64; expected binary or string"));
    assert!(error(vec![("value", texts())], false).contains("topic="));
    assert!(error(vec![("name", texts())], true).contains("no column \"name\", only key, value,"));
    assert!(error(vec![("Value", texts())], true).contains("did you mean \"value\"?"));
    assert!(error(vec![("headers", texts()), ("value", texts())], true).contains("list<struct"));
    for names in [["foo", "bar"], ["key", "foo"], ["Key", "Value"], ["key", "key"]] {
        let message = error(vec![("headers", headers(names, &[0], &[])), ("value", texts())], true);
        assert!(message.contains("list<struct<key: string, value: binary>>"), "{message}");
        assert!(message.contains(names[1]), "what was given: {message}");
    }
    assert!(error(vec![("partition", texts()), ("value", texts())], true).contains("int32"));
    assert!(error(vec![("topic", texts())], true).contains("neither"));
}
