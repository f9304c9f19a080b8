//! The encoders: encoded columns decode to themselves, and errors name the place and the reason.

mod common;

use std::sync::Arc;

use arrow_array::builder::{Int32Builder, StringDictionaryBuilder};
use arrow_array::types::Int8Type;
use arrow_array::{
    Array, ArrayRef, DurationSecondArray, Float64Array, Int32Array, Int64Array, ListArray, StringArray, StructArray,
    UInt64Array, new_null_array,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, Fields};
use common::{every_type, field, rows, structs};
use monedula_columns::BufferPool;
use monedula_formats::{
    AvroEncoder, AvroOptions, AvroSchema, Framing, JsonEncoder, JsonOptions, ProtobufDecoder, ProtobufEncoder,
    ProtobufOptions, ProtobufPlan, ProtobufSchema, Unwritable, WriterKey,
};

fn json(fields: Option<&Fields>, column: &ArrayRef) -> Result<Vec<String>, Unwritable> {
    let encoder = JsonEncoder::new(fields, WriterKey::Only, JsonOptions::default()).expect("known types");
    let values = encoder.encode(column)?;
    Ok(values.iter().flatten().map(|value| String::from_utf8(value.to_vec()).expect("UTF-8")).collect())
}

fn a(column: impl Array + 'static) -> ArrayRef {
    let fields = vec![field("a", column.data_type().clone())];
    Arc::new(StructArray::new(fields.into(), vec![Arc::new(column)], None))
}

fn schema(text: &str) -> ProtobufSchema {
    let text = format!("syntax = \"proto3\"; message M {{ {text} }}");
    ProtobufSchema::from_texts(&[("test.proto".to_owned(), text)], Some("M")).expect("a schema")
}

fn avro(schema: &str, column: &ArrayRef) -> Result<Vec<Vec<u8>>, Unwritable> {
    let schema = AvroSchema::parse(schema).expect("a schema");
    let values = AvroEncoder::new(schema, WriterKey::Only, AvroOptions::default()).encode(column)?;
    Ok(values.iter().flatten().map(<[u8]>::to_vec).collect())
}

#[test]
fn columns_of_every_type_are_written_as_the_json_that_they_are_read_from() {
    let fields = every_type();
    let texts = [
        concat!(
            r#"{"boolean":true,"int8":-128,"int16":1,"int32":-2,"int64":9223372036854775807,"float32":0.1,"#,
            r#""float64":-1.25E-7,"decimal":-0.0005,"text":"a\"\u0001","binary":"aGk=","date":"-0001-12-31","#,
            r#""timestamp":"2026-11-27T12:00:00.000Z","local":"1969-12-31T23:59:59.999999","#,
            r#""items":[{"price":1.50,"tags":[]},null,{"tags":["x",null]}],"matrix":[[1],[],null],"#,
            r#""attributes":{"k":{"on":false,"names":{"":null}},"l":null}}"#
        ),
        "{}",
        r#"{"float64":"NaN"}"#,
    ];
    let column: ArrayRef = Arc::new(rows(&fields, &texts));
    assert_eq!(json(None, &column), Ok(texts.map(str::to_owned).to_vec()));
    assert_eq!(
        json(Some(&fields), &column.slice(1, 2)),
        Ok(texts[1..].iter().map(|text| (*text).to_owned()).collect())
    );
}

#[test]
fn a_bad_row_is_named_with_its_place() {
    let mut lists = Int32Builder::new();
    lists.append_slice(&[1, 300]);
    let element = Arc::new(Field::new("element", DataType::Int32, true));
    let list = ListArray::new(element, OffsetBuffer::from_lengths([1, 1]), Arc::new(lists.finish()), None);
    let fields = Fields::from(vec![field("a", common::list(DataType::Int8))]);
    let path = "a[0]".to_owned();
    let reason = "300 is beyond the range of the schema's int8".to_owned();
    assert_eq!(json(Some(&fields), &a(list)), Err(Unwritable::Row { row: 1, path, reason }));
}

#[test]
fn a_dictionary_without_values_is_null() {
    let mut empty = StringDictionaryBuilder::<Int8Type>::new();
    empty.append_null();
    let column = a(empty.finish());
    assert_eq!(json(None, &column), Ok(vec!["{}".to_owned()]));
    let written = ProtobufEncoder::new(schema("string a = 1;"), WriterKey::Only).encode(&column).expect("a row");
    assert_eq!(written.value(0), b"");
    let record = r#"{"type":"record","name":"R","fields":[{"name":"a","type":["null","string"]}]}"#;
    assert_eq!(avro(record, &column), Ok(vec![vec![0]]));
}

#[test]
fn messages_are_written_in_the_order_of_their_numbers() {
    let schema = schema("int32 late = 200; optional int32 early = 1; repeated int32 zeros = 2; string text = 3;");
    let element = Arc::new(Field::new("element", DataType::Int64, true));
    let zeros = ListArray::new(
        Arc::clone(&element),
        OffsetBuffer::from_lengths([2]),
        Arc::new(Int64Array::from(vec![0, -1])),
        None,
    );
    let fields = vec![
        field("late", DataType::Int32),
        field("zeros", DataType::List(element)),
        field("early", DataType::Int64),
        field("text", DataType::Utf8),
    ];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![5])),
        Arc::new(zeros),
        Arc::new(Int64Array::from(vec![0])),
        Arc::new(StringArray::from(vec![""])),
    ];
    let column: ArrayRef = Arc::new(StructArray::new(fields.into(), columns, None));
    let written = ProtobufEncoder::new(schema, WriterKey::Id(7)).encode(&column).expect("a row");
    let ten = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    let expected = [&[0, 0, 0, 0, 7, 0, 8, 0, 18, 11, 0][..], &ten, &[0xc0, 12, 5]].concat();
    assert_eq!(written.value(0), expected);
}

#[test]
fn a_long_message_in_a_message_has_its_length_before_it() {
    let text = "message In { repeated string texts = 1; } In in = 1; string last = 2;";
    let schema = schema(text);
    let plan = ProtobufPlan::new(schema.clone(), Vec::new(), Framing::Bare, ProtobufOptions::default()).expect(text);
    let mut decoder = ProtobufDecoder::new(Arc::new(plan), BufferPool::new(0));
    let long = "x".repeat(200);
    let element = Arc::new(Field::new("element", DataType::Utf8, true));
    let texts = StringArray::from(vec![&*long; 100]);
    let texts = ListArray::new(Arc::clone(&element), OffsetBuffer::from_lengths([100]), Arc::new(texts), None);
    let inner = StructArray::new(vec![field("texts", DataType::List(element))].into(), vec![Arc::new(texts)], None);
    let fields = vec![field("in", inner.data_type().clone()), field("last", DataType::Utf8)];
    let columns: Vec<ArrayRef> = vec![Arc::new(inner), Arc::new(StringArray::from(vec!["end"]))];
    let column: ArrayRef = Arc::new(StructArray::new(fields.into(), columns, None));
    let written = ProtobufEncoder::new(schema, WriterKey::Only).encode(&column).expect("a row");
    // 100 texts of 200 bytes, each behind a tag and a length of two bytes.
    assert_eq!(written.value(0)[..4], [10, 0xcc, 0x9e, 1]);
    decoder.append(Some(written.value(0))).expect("what was written");
    assert_eq!(format!("{:?}", decoder.finish().0), format!("{column:?}"));
}

#[test]
fn a_union_is_written_as_the_branch_that_has_a_value() {
    let fields = vec![field("member0", DataType::Int32), field("member1", DataType::Utf8)];
    let columns: Vec<ArrayRef> =
        vec![Arc::new(Int32Array::from(vec![Some(5), None])), Arc::new(StringArray::from(vec![None, Some("x")]))];
    let column: ArrayRef = Arc::new(StructArray::new(fields.into(), columns, None));
    assert_eq!(avro(r#"["int","string"]"#, &column), Ok(vec![vec![0, 10], vec![2, 2, b'x']]));
}

#[test]
fn a_type_that_does_not_fit_is_an_error_without_rows() {
    let column = new_null_array(&structs(vec![field("a", DataType::Utf8)]), 0);
    let bad = |result: Result<(), Unwritable>| matches!(result, Err(Unwritable::Column(bad)) if bad.path == "a");
    let fields = Fields::from(vec![field("a", DataType::Int32)]);
    let encoder = JsonEncoder::new(Some(&fields), WriterKey::Only, JsonOptions::default()).expect("known types");
    assert!(bad(encoder.check(column.data_type())));
    assert!(bad(ProtobufEncoder::new(schema("int32 a = 1;"), WriterKey::Only).check(column.data_type())));
}

#[test]
fn the_least_duration_is_out_of_range_and_no_panic() {
    let schema = ProtobufSchema::from_texts(
        &[(
            "test.proto".to_owned(),
            "syntax = \"proto3\"; import \"google/protobuf/duration.proto\"; message M { google.protobuf.Duration a = 1; }"
                .to_owned(),
        )],
        Some("M"),
    )
    .expect("a schema");
    let column = a(DurationSecondArray::from(vec![i64::MIN]));
    let error = ProtobufEncoder::new(schema, WriterKey::Only).encode(&column).expect_err("out of range");
    assert!(error.to_string().contains("beyond the range of the schema's google.protobuf.Duration"), "{error}");
}

#[test]
fn numbers_beyond_those_of_63_bits_are_doubles_if_they_are_exact() {
    let column: ArrayRef = Arc::new(UInt64Array::from(vec![1 << 63]));
    assert_eq!(avro("\"double\"", &column), Ok(vec![9_223_372_036_854_775_808_f64.to_le_bytes().to_vec()]));
    let column: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX]));
    let error = avro("\"double\"", &column).expect_err("it would be rounded");
    assert!(error.to_string().contains("18446744073709551615 is no double"), "{error}");
    let column: ArrayRef = Arc::new(Float64Array::from(vec![1e308]));
    let error = avro("\"float\"", &column).expect_err("it would be infinite");
    assert!(error.to_string().contains("1e308 is no float"), "{error}");
}

#[test]
fn a_column_that_is_nested_too_deep_for_a_schema_in_itself_is_refused() {
    let schema =
        r#"{"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "R"], "default": null}]}"#;
    let nested = |levels| (0..levels).fold(new_null_array(&DataType::Null, 1), |inner, _| a(inner));
    assert!(avro(schema, &nested(60)).is_ok());
    let error = avro(schema, &nested(70)).expect_err("too deep");
    assert!(error.to_string().contains("nested deeper than 64"), "{error}");
}

#[test]
fn a_column_of_nulls_alone_has_one_type_in_its_schema() {
    let encoder = JsonEncoder::new(None, WriterKey::Only, JsonOptions::default()).expect("known types");
    let text = encoder.schema_text(a(new_null_array(&DataType::Null, 1)).data_type()).expect("a schema");
    assert!(text.ends_with(r#""properties":{"a":{"type":"null"}}}"#), "{text}");
}
