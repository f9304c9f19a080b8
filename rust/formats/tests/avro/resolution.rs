//! Resolution of a writer's schema to a reader's.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use monedula_columns::BufferPool;
use monedula_formats::{AvroDecoder, AvroOptions, AvroReason, Mode};

use crate::support::{decoder, field, long, one, plan, record, shown, text};

#[test]
fn every_promotion_of_the_specification() {
    for (writer, reader, value, expected) in [
        ("int", "long", long(-3), Ok("-3")),
        ("int", "float", long(3), Ok("3.0")),
        ("int", "double", long(3), Ok("3.0")),
        ("long", "float", long(1 << 40), Ok("1099511600000.0")),
        ("long", "double", long(1 << 40), Ok("1099511627776.0")),
        ("float", "double", 1.5_f32.to_le_bytes().to_vec(), Ok("1.5")),
        ("string", "bytes", text("ab"), Ok("[97, 98]")),
        ("bytes", "string", text("ab"), Ok("\"ab\"")),
        ("bytes", "string", vec![2, 0xff], Err(AvroReason::NotUtf8)),
    ] {
        let found = one(&format!("\"{reader}\""), &format!("\"{writer}\""), &value);
        assert_eq!(found, expected.map(str::to_owned), "{writer} as {reader}");
    }
}

#[test]
fn what_cannot_be_resolved_is_refused_where_it_is() {
    let fixed = |size: usize| format!(r#"{{"type":"fixed","name":"F","size":{size}}}"#);
    let decimal = |scale: usize| format!(r#"{{"type":"bytes","logicalType":"decimal","precision":9,"scale":{scale}}}"#);
    let array = |items: &str| format!(r#"{{"type":"array","items":{items}}}"#);
    for (writer, reader, expected) in [
        (r#""long""#, r#""int""#, "a: long of the writer's cannot be read as int"),
        (r#""string""#, r#""int""#, "a: string of the writer's cannot be read as int"),
        (&array(r#""string""#), &array(r#""int""#), "a[]: string of the writer's cannot be read as int"),
        (&fixed(3), &fixed(4), "a: a fixed of 3 bytes cannot be read as one of 4"),
        (&decimal(1), &decimal(2), "a: a decimal of scale 1 cannot be read as one of scale 2"),
        (r#"["null","string"]"#, r#""int""#, "a: string of the writer's cannot be read as int"),
        (r#""string""#, r#"["null","int","boolean"]"#, "a: string is in no branch of the reader's union"),
        (
            r#"{"type":"enum","name":"E","symbols":["x"]}"#,
            r#""string""#,
            "a: enum of the writer's cannot be read as string",
        ),
    ] {
        let (writer, reader) = (record(&field("a", writer)), record(&field("a", reader)));
        let bad = plan(&reader, &writer, AvroOptions::default()).expect_err(&reader);
        assert_eq!(bad.to_string(), format!("the writer's schema cannot be read: {expected}"));
    }
    let (writer, reader) = (record(""), record(&field("a", r#""int""#)));
    let bad = plan(&reader, &writer, AvroOptions::default()).expect_err("no default");
    assert!(bad.to_string().ends_with("a: the writer has no such field, and the reader's has no default"), "{bad}");
}

#[test]
fn fields_are_found_by_name_and_alias_and_others_are_stepped_over() {
    let skipped = [
        r#"{"type":"map","values":["null",{"type":"array","items":"long"}]}"#,
        r#"{"type":"record","name":"S","fields":[{"name":"x","type":"float"},{"name":"self","type":["null","S"]}]}"#,
    ];
    let fields =
        [field("old", r#""int""#), field("gone", skipped[0]), field("rest", skipped[1]), field("b", r#""string""#)];
    let writer = record(&fields.join(","));
    let reader = record(r#"{"name":"b","type":"string"},{"name":"new","aliases":["x","old"],"type":"int"}"#);
    let map = [long(2), text("k"), vec![2], long(-2), long(2), long(5), long(6), long(0), text("l"), vec![0], long(0)];
    let nested = [1_f32.to_le_bytes().to_vec(), vec![2], 2_f32.to_le_bytes().to_vec(), vec![0]];
    let value = [long(7), map.concat(), nested.concat(), text("end")].concat();
    let found = one(&reader, &writer, &value).expect("a value");
    assert!(found.contains("\"end\"") && found.contains('7'), "{found}");
}

#[test]
fn defaults_stand_for_fields_that_the_writer_lacks() {
    for (kind, default, expected) in [
        (r#""int""#, "-5", "-5"),
        (r#""string""#, r#""é""#, "\"é\""),
        (r#""bytes""#, r#""\u00ff\u0001""#, "[255, 1]"),
        (r#""double""#, "2", "2.0"),
        (r#"["null","int"]"#, "null", "null"),
        (r#"["null","int"]"#, "4", "4"),
        (r#"{"type":"array","items":"int"}"#, "[1,2]", "PrimitiveArray<Int32> [ 1, 2, ]"),
        (r#"{"type":"enum","name":"E","symbols":["p","q"]}"#, r#""q""#, "\"q\""),
        (r#"{"type":"fixed","name":"F","size":1}"#, r#""a""#, "[97]"),
        (r#"{"type":"int","logicalType":"date"}"#, "1", "1970-01-02"),
    ] {
        let inner = format!(r#"{{"name":"a","type":{kind},"default":{default}}}"#);
        let found = one(&record(&inner), &record(""), &[]).expect(kind);
        assert!(found.ends_with(&format!("{expected}, ] ]")) || found.contains(expected), "{kind}: {found}");
    }
    for (kind, default) in
        [(r#""int""#, "\"x\""), (r#""int""#, "4294967296"), (r#"["null","int"]"#, "true"), (r#"["null","R"]"#, "{}")]
    {
        let inner = format!(r#"{{"name":"a","type":{kind},"default":{default}}}"#);
        let options = AvroOptions { recursive_field_max_depth: 2, ..AvroOptions::default() };
        let bad = plan(&record(&inner), r#"{"type":"record","name":"W","fields":[]}"#, options).expect_err(kind);
        assert!(bad.to_string().contains("a: the default"), "{bad}");
    }
}

#[test]
fn a_default_is_read_by_the_readers_schema() {
    let node = r#"{"type":"record","name":"Node","fields":[
        {"name":"next","type":["null","Node"]},{"name":"value","type":"int"}]}"#;
    let default = r#"{"next":{"next":null,"value":1},"value":5}"#;
    let reader = record(&format!(r#"{{"name":"n","type":{node},"default":{default}}}"#));
    let options = AvroOptions { recursive_field_max_depth: 1, mode: Mode::FailFast, ..AvroOptions::default() };
    let plan = plan(&reader, &record(""), options).expect("compatible");
    let mut decoder = AvroDecoder::new(plan, BufferPool::new(0));
    decoder.append(Some(&[])).expect("a row");
    assert!(shown(&decoder.finish().0).ends_with('5'));
}

#[test]
fn branches_of_unions_are_resolved_one_by_one() {
    let reader = r#"["null","string","long"]"#;
    let (writer, value) = (r#"["int","null","string"]"#, |branch, rest: Vec<u8>| [long(branch), rest].concat());
    let found = |bytes: Vec<u8>| one(reader, writer, &bytes);
    assert!(found(value(0, long(5))).expect("int as long").contains('5'));
    assert!(found(value(1, vec![])).expect("null").starts_with("[ null,"));
    assert!(found(value(2, text("t"))).expect("string").contains("\"t\""));
    assert_eq!(found(value(3, vec![])), Err(AvroReason::NoBranch(3)));
    assert_eq!(found(long(-1)), Err(AvroReason::NoBranch(-1)));
    let refused = one(r#""int""#, r#"["null","int"]"#, &long(0));
    assert_eq!(refused, Err(AvroReason::Unresolvable("null of the writer's cannot be read as int".into())));
}

#[test]
fn records_in_unions_are_told_apart_by_name_and_else_by_their_fields() {
    let record = |name: &str, field: &str| {
        format!(r#"{{"type":"record","name":"{name}","fields":[{{"name":"{field}","type":"int"}}]}}"#)
    };
    let reader = format!("[{},{}]", record("n.A", "x"), record("n.B", "y"));
    let member = |writer: &str| {
        let mut decoder = decoder(&reader, writer, Mode::FailFast);
        decoder.append(Some(&long(7))).expect("a record");
        let (array, _) = decoder.finish();
        let members = array.as_struct();
        (0..2).find(|number| members.column(*number).is_valid(0)).expect("one of both")
    };
    assert_eq!(member(&record("other.B", "y")), 1);
    assert_eq!(member(&record("Unknown", "y")), 1);
    assert_eq!(member(&record("Unknown", "x")), 0);
}

#[test]
fn symbols_are_the_readers() {
    let of = |symbols: &str, default: &str| format!(r#"{{"type":"enum","name":"E","symbols":{symbols}{default}}}"#);
    let writer = of(r#"["new","b","a"]"#, "");
    let (strict, lenient) = (of(r#"["a","b"]"#, ""), of(r#"["a","b"]"#, r#","default":"a""#));
    assert_eq!(one(&strict, &writer, &long(1)), Ok("\"b\"".to_owned()));
    assert_eq!(one(&strict, &writer, &long(0)), Err(AvroReason::UnknownSymbol("new".into())));
    assert_eq!(one(&lenient, &writer, &long(0)), Ok("\"a\"".to_owned()));
    assert_eq!(one(&lenient, &writer, &long(3)), Err(AvroReason::NoSymbol(3)));
}

#[test]
fn times_keep_their_moment_in_another_unit() {
    let of = |kind: &str, logical: &str| format!(r#"{{"type":"{kind}","logicalType":"{logical}"}}"#);
    let (millis, micros, nanos) =
        (of("long", "timestamp-millis"), of("long", "timestamp-micros"), of("long", "timestamp-nanos"));
    for (writer, reader, value, expected) in [
        (&millis, &millis, 1_500, Ok("1970-01-01T00:00:01.500")),
        (&millis, &micros, -1, Ok("1969-12-31T23:59:59.999")),
        (&nanos, &micros, -1, Ok("1969-12-31T23:59:59.999999")),
        (&micros, &nanos, 5, Ok("1970-01-01T00:00:00.000005")),
        (&r#""long""#.to_owned(), &millis, 1_000, Ok("1970-01-01T00:00:01")),
        (&r#""int""#.to_owned(), &millis, 1_000, Ok("1970-01-01T00:00:01")),
        (&millis, &millis, i64::MAX, Err(AvroReason::OutOfRange("timestamp"))),
        (
            &of("long", "local-timestamp-micros"),
            &of("long", "local-timestamp-micros"),
            1,
            Ok("1970-01-01T00:00:00.000001"),
        ),
        (&of("int", "time-millis"), &of("long", "time-micros"), 1_500, Ok("00:00:01.500")),
        (&of("int", "time-millis"), &of("int", "time-millis"), 86_400_000, Err(AvroReason::OutOfRange("time32"))),
        (&of("long", "time-micros"), &of("long", "time-micros"), -1, Err(AvroReason::OutOfRange("time64"))),
        (&of("int", "date"), &of("int", "date"), -1, Ok("1969-12-31")),
    ] {
        // Drop the zone, since this environment has no time zone database.
        let found =
            one(reader, writer, &long(value)).map(|shown| shown.split(' ').next().unwrap_or_default().to_owned());
        assert_eq!(found, expected.map(str::to_owned), "{writer} as {reader}");
    }
}

#[test]
fn decimals_of_bytes_and_fixed() {
    let bytes = r#"{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}"#;
    let fixed = r#"{"type":"fixed","name":"F","size":20,"logicalType":"decimal","precision":4,"scale":2}"#;
    let out_of_range = Err(AvroReason::OutOfRange("decimal128"));
    assert_eq!(one(bytes, bytes, &[2, 0x80]), Ok("-128".to_owned()));
    assert_eq!(one(bytes, bytes, &[0]), Ok("0".to_owned()));
    assert_eq!(one(bytes, bytes, &[4, 0x27, 0x0f]), Ok("9999".to_owned()));
    assert_eq!(one(bytes, bytes, &[4, 0x27, 0x10]), out_of_range);
    let extended = |fill: u8, last: u8| [vec![fill; 19], vec![last]].concat();
    assert_eq!(one(fixed, fixed, &extended(0xff, 0xff)), Ok("-1".to_owned()));
    assert_eq!(one(fixed, fixed, &extended(0, 5)), Ok("5".to_owned()));
    assert_eq!(one(fixed, fixed, &extended(1, 5)), out_of_range);
    assert_eq!(one(fixed, fixed, &[vec![0; 4], vec![0x80], vec![0; 15]].concat()), out_of_range);
}
