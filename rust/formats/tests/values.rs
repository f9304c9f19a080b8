//! Single values: types, corner cases of JSON, faults with their path and position.

mod common;

use arrow_array::cast::AsArray;
use arrow_array::{Array, StructArray};
use arrow_schema::{DataType, Field, Fields, TimeUnit};
use common::{decoder, every_type, field, list, map, nulls, one, structs, timestamp};
use monedula_columns::BufferPool;
use monedula_formats::{Appended, JsonDecoder, JsonOptions, Mode, Reason, ValueFault};

fn reason(data_type: &DataType, json: &str) -> Reason {
    one(data_type, json).expect_err(json).reason
}

fn value(data_type: &DataType, json: &str) -> String {
    one(data_type, json).expect(json)
}

/// Fault of a whole text, with fields `a` int32 and `b` int32.
fn fault(text: &str) -> ValueFault {
    match pair(text) {
        (Appended::Bad(bad), _) => bad,
        (Appended::Good, row) => panic!("{text} is good: {row:?}"),
    }
}

fn pair(text: &str) -> (Appended, StructArray) {
    let mut decoder = decoder(vec![field("a", DataType::Int32), field("b", DataType::Int32)], Mode::Permissive);
    let appended = decoder.append(Some(text.as_bytes())).expect("permissive");
    (appended, decoder.finish().0)
}

#[test]
fn integers_are_integer_tokens_within_range() {
    assert_eq!(value(&DataType::Int8, "-128"), "-128");
    assert_eq!(reason(&DataType::Int8, "200"), Reason::OutOfRange("int8"));
    assert_eq!(value(&DataType::Int16, "32767"), "32767");
    assert_eq!(reason(&DataType::Int32, "2147483648"), Reason::OutOfRange("int32"));
    assert_eq!(value(&DataType::Int64, "-9223372036854775808"), "-9223372036854775808");
    assert_eq!(reason(&DataType::Int64, "123456789012345678901234567890"), Reason::OutOfRange("int64"));
    for other in ["1.0", "1e2", "\"1\"", "\"\"", "true", "{}", "[1]"] {
        assert_eq!(reason(&DataType::Int64, other), Reason::WrongKind("int64"), "{other}");
    }
}

#[test]
fn floats_go_to_infinity_and_to_zero_beyond_their_range() {
    let cases = [
        ("1e400", "inf"),
        ("-1e400", "-inf"),
        ("4.9e-325", "0.0"),
        ("-0", "0.0"),
        ("-0.0", "-0.0"),
        ("NaN", "NaN"),
        ("\"NaN\"", "NaN"),
        ("-INF", "-inf"),
        ("\"+Infinity\"", "inf"),
        ("123456789012345678901234567890", "1.2345678901234568e29"),
    ];
    for (json, expected) in cases {
        assert_eq!(value(&DataType::Float64, json), expected, "{json}");
    }
    assert_eq!(value(&DataType::Float32, "3.4028236e38"), "inf");
    assert_eq!(reason(&DataType::Float64, "\"1.5\""), Reason::Unreadable("float64"));
    assert_eq!(reason(&DataType::Float64, &"1".repeat(1001)), Reason::OutOfRange("float64"));
}

#[test]
fn texts_have_their_escapes_resolved_and_other_values_keep_their_source() {
    let text = DataType::Utf8;
    let cases = [
        (r#""a\nb\/\"\u00e9\ud83d\ude00""#, r#""a\nb/\"é😀""#),
        ("'it\\'s \"q\"'", r#""it's \"q\"""#),
        ("\"\"", "\"\""),
        (r#""\u0000""#, r#""\0""#),
        ("1.50", "\"1.50\""),
        ("{ \"x\" : [1, 2] }", r#""{ \"x\" : [1, 2] }""#),
        ("true", "\"true\""),
        ("null", "null"),
    ];
    for (json, expected) in cases {
        assert_eq!(value(&text, json), expected, "{json}");
    }
    for lone in [r#""\ud800""#, r#""\ud800x""#, r#""\udc00""#, r#""\ud800\n""#, r#""\ud800\ud800""#] {
        assert_eq!(reason(&text, lone), Reason::LoneSurrogate, "{lone}");
    }
    for broken in [r#""\q""#, r#""\u12""#, "\"\t\"", "\"", "tru", "01", "1.", ".5", "+1", "1e", "- 1"] {
        assert!(matches!(reason(&text, broken), Reason::NotJson(_)), "{broken}");
    }
}

#[test]
fn decimals_dates_and_timestamps_are_read_as_spark_casts_them() {
    let micros = |json: &str| {
        let rows = common::rows(&Fields::from(vec![field("a", timestamp())]), &[format!("{{\"a\":{json}}}")]);
        rows.column(0).as_primitive::<arrow_array::types::TimestampMicrosecondType>().value(0)
    };
    assert_eq!(value(&DataType::Decimal128(10, 2), "-1.005"), "-101");
    assert_eq!(reason(&DataType::Decimal128(10, 2), "99999999.995"), Reason::OutOfRange("decimal128"));
    assert_eq!(value(&DataType::Date32, "\"2020-1-2T10:20\""), "2020-01-02");
    assert_eq!(value(&DataType::Date32, "\"100\""), "1970-04-11");
    assert_eq!(reason(&DataType::Date32, "\"2021-02-29\""), Reason::Unreadable("date32"));
    assert_eq!(micros("\"2020-01-02T10:20:30.123456789+01:00\""), 1_577_956_830_123_456);
    assert_eq!(micros("\"2020-01-02 10:20:30\""), 1_577_960_430_000_000);
    assert_eq!(micros("-5"), -5_000_000);
    assert_eq!(reason(&timestamp(), "9300000000000"), Reason::OutOfRange("timestamp"));
    assert_eq!(reason(&timestamp(), "\"12:30\""), Reason::Unreadable("timestamp"));
    let local = DataType::Timestamp(TimeUnit::Microsecond, None);
    assert_eq!(value(&local, "\"2020-01-02T10:20:30\""), "2020-01-02T10:20:30");
    assert_eq!(reason(&local, "\"2020-01-02T10:20:30Z\""), Reason::Unreadable("timestamp"));
}

#[test]
fn a_text_that_is_no_json_object_is_bad_as_a_whole() {
    let texts = [
        "null",
        "[]",
        "1",
        "\u{feff}{}",
        "{\"a\":1",
        "{\"a\":1,}",
        "{,\"a\":1}",
        "{a:1}",
        "{\"a\":1 \"b\":2}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":/**/1}",
        "\u{b}{\"a\":1}",
        "{\"a\":1,\"c\":[tru]}",
        "{\"a\":1,\"c\":[1}}",
    ];
    for text in texts {
        let (appended, row) = pair(text);
        assert!(matches!(appended, Appended::Bad(_)), "{text}");
        assert!(row.is_valid(0) && row.columns().iter().all(|column| column.is_null(0)), "{text}: {row:?}");
    }
    assert_eq!(fault("{\"a\":1} x").reason, Reason::TrailingText);
    assert_eq!(pair("{\"a\":1} x").1.column(0).as_primitive::<arrow_array::types::Int32Type>().value(0), 1);
}

#[test]
fn a_tombstone_and_a_blank_value_are_null_rows() {
    let mut decoder = decoder(every_type(), Mode::FailFast);
    for value in [None, Some(&b""[..]), Some(b" \n")] {
        assert_eq!(decoder.append(value), Ok(Appended::Good));
    }
    assert_eq!(nulls(&decoder.finish().0), [true; 3]);
}

#[test]
fn the_last_of_two_values_counts_unless_it_is_bad() {
    let rows = common::rows(
        &Fields::from(vec![field("a", DataType::Int32)]),
        &[
            "{\"a\":1,\"a\":2}",
            "{\"a\":1,\"a\":\"x\"}",
            "{\"a\":\"x\",\"a\":1}",
            "{\"a\":1,\"a\":null}",
            "{\"\\u0061\":7}",
        ],
    );
    let values: Vec<_> = rows.column(0).as_primitive::<arrow_array::types::Int32Type>().iter().collect();
    assert_eq!(values, [Some(2), Some(1), Some(1), None, Some(7)]);
}

#[test]
fn a_fault_names_its_path_and_its_place() {
    let fields =
        vec![field("items", list(structs(vec![field("price", DataType::Int32)]))), field("m", map(DataType::Int32))];
    let mut decoder = decoder(fields, Mode::FailFast);
    let mut bad = |text: &str| {
        let bad = decoder.append(Some(text.as_bytes())).expect_err(text);
        (bad.to_string(), bad.position)
    };
    assert_eq!(
        bad(r#"{"items":[{"price":1},{"price":"x"}]}"#),
        ("items[1].price: no JSON value for a field of type int32 (byte 31)".to_owned(), 31)
    );
    assert_eq!(bad(r#"{"m":{"k":true}}"#).0, "m[\"k\"]: no JSON value for a field of type int32 (byte 10)");
    assert_eq!(bad(r#"{"items":[{]}"#).0, "items[0]: the value is not JSON: expected a field name in quotes (byte 11)");
    assert_eq!(decoder.append(Some(b"\"\xff\"")).expect_err("bytes").reason, Reason::NotUtf8);
}

#[test]
fn bytes_that_are_not_utf_8_spoil_only_what_is_read() {
    let fields = vec![field("a", DataType::Int32), field("t", DataType::Utf8), field("m", map(DataType::Int32))];
    let mut decoder = decoder(fields, Mode::FailFast);
    for value in [
        &b"{\"x\":\"caf\xe9\",\"a\":1}"[..],
        b"{\"a\":1,\"x\":\"\xff\xfe \xed\xa0\x80\"}",
        b"{\"x\":{\"y\":[\"\xc3\"]},\"a\":1,\"t\":\"\xc3\xa9\"}",
        b"{\"\xff\":2,\"a\":1}",
        b"{\"a\xff\":2,\"a\":1}",
        b"{\"x\":\"\\\"\xff\",\"a\":1}",
    ] {
        assert_eq!(decoder.append(Some(value)), Ok(Appended::Good), "{}", value.escape_ascii());
    }
    for (value, path, position) in [
        (&b"{\"a\":1,\"t\":\"ab\xff\"}"[..], "t", 14),
        (b"{\"x\":\"\xff\",\"t\":{\"y\":\"\xff\"}}", "t", 19),
        (b"{\"m\":{\"k\xff\":1}}", "m", 8),
        (b"{\"a\":\xff}", "a", 5),
        (b"{\"x\":\"\xff\"", "", 6),
        (b"\xff", "", 0),
    ] {
        let bad = decoder.append(Some(value)).expect_err("not UTF-8");
        let shown = value.escape_ascii().to_string();
        assert_eq!((bad.reason, bad.path.as_str(), bad.position), (Reason::NotUtf8, path, position), "{shown}");
    }
    assert_eq!(decoder.append(Some(b"{\"a\":2}")), Ok(Appended::Good));
}

#[test]
fn a_bad_value_keeps_its_text_and_its_good_fields() {
    let fields =
        vec![field("a", DataType::Int32), field("_corrupt_record", DataType::Utf8), field("b", DataType::Int32)];
    let texts = ["{\"a\":\"x\",\"b\":2}", "{\"a\":1,\"b\":2,\"_corrupt_record\":\"mine\"}", "no"];
    let rows = common::rows(&Fields::from(fields), &texts);
    let texts: Vec<_> = rows.column(1).as_string::<i32>().iter().collect();
    assert_eq!(texts, [Some("{\"a\":\"x\",\"b\":2}"), None, Some("no")]);
    assert_eq!(nulls(rows.column(0)), [true, false, true]);
    assert_eq!(nulls(rows.column(2)), [false, false, true]);
}

#[test]
fn nesting_is_capped_where_jackson_caps_it() {
    let nested = |depth: usize| format!("{{\"c\":{}{},\"b\":1}}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(pair(&nested(999)).0, Appended::Good);
    assert_eq!(fault(&nested(1000)).reason, Reason::TooDeep);
    assert_eq!(fault(&format!("{{\"c\":{}", "{\"c\":".repeat(1 << 20))).reason, Reason::TooDeep);
}

#[test]
fn fields_that_no_column_holds_are_refused_by_name() {
    let new = |fields: Vec<Field>| {
        let made = JsonDecoder::new(&Fields::from(fields), JsonOptions::default(), BufferPool::new(0));
        made.map(|_| ()).expect_err("refused").to_string()
    };
    let inner = structs(vec![field("price", DataType::UInt8)]);
    assert!(new(vec![field("items", list(inner))]).starts_with("field items[].price: no values of type UInt8"));
    assert_eq!(new(vec![field("a", DataType::Int8), field("a", DataType::Utf8)]), "field a: two fields have this name");
    let deep = (0..100).fold(DataType::Int8, |below, _| list(below));
    assert!(new(vec![field("a", deep)]).ends_with("types are nested deeper than 64"));
}
