//! Debezium's envelopes, in the shape that its connectors write.

mod common;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_schema::{DataType, Field};
use common::field;
use monedula_columns::BufferPool;
use monedula_formats::{Appended, Envelope, JsonDecoder, JsonOptions, Mode, Reason};

const SOURCE: &str = r#""source":{"version":"3.0.0.Final","connector":"postgresql","name":"shop","ts_ms":1700000000000,
    "snapshot":"false","db":"shop","sequence":"[null,\"34498320\"]","schema":"public","table":"orders","txId":743,"lsn":34498320}"#;

fn envelope(op: &str, before: &str, after: &str) -> String {
    format!(
        r#"{{"before":{before},"after":{after},{SOURCE},"transaction":null,"op":"{op}","ts_ms":1700000000123,"ts_us":1700000000123456}}"#
    )
}

fn with_schema(payload: &str) -> String {
    let schema = r#"{"type":"struct","fields":[{"type":"struct","optional":true,"field":"before"}],"optional":false,
        "name":"shop.public.orders.Envelope","version":2}"#;
    format!(r#"{{"schema":{schema},"payload":{payload}}}"#)
}

fn decoder(fields: Vec<Field>, mode: Mode) -> JsonDecoder {
    let options = JsonOptions { mode, envelope: Envelope::Debezium, ..JsonOptions::default() };
    JsonDecoder::new(&fields.into(), options, BufferPool::new(0)).expect("known types")
}

fn fields() -> Vec<Field> {
    vec![
        field("id", DataType::Int32),
        field("name", DataType::Utf8),
        field("__op", DataType::Utf8),
        field("__deleted", DataType::Boolean),
        field("__ts_ms", DataType::Int64),
    ]
}

/// Each row as a text: id, name, __op, __deleted, __ts_ms.
fn rows(texts: &[Option<String>]) -> Vec<String> {
    let mut decoder = decoder(fields(), Mode::FailFast);
    for text in texts {
        assert_eq!(decoder.append(text.as_deref().map(str::as_bytes)), Ok(Appended::Good), "{text:?}");
    }
    let rows = decoder.finish().0;
    rows.to_data().validate_full().expect("a valid array");
    let shown = |row: usize| {
        let id = rows.column(0).as_primitive::<Int32Type>();
        let id = id.is_valid(row).then(|| id.value(row));
        let texts = [1, 2].map(|column| rows.column(column).as_string::<i32>());
        let [name, op] = texts.map(|texts| texts.is_valid(row).then(|| texts.value(row)));
        let deleted = rows.column(3).as_boolean();
        let deleted = deleted.is_valid(row).then(|| deleted.value(row));
        let ts_ms = rows.column(4).as_primitive::<Int64Type>();
        let ts_ms = ts_ms.is_valid(row).then(|| ts_ms.value(row));
        format!("{id:?} {name:?} {op:?} {deleted:?} {ts_ms:?}").replace("Some(", "").replace(')', "")
    };
    (0..rows.len()).map(|row| if rows.is_null(row) { "null".to_owned() } else { shown(row) }).collect()
}

#[test]
fn envelopes_become_the_row_that_they_are_about() {
    let (one, two) = (r#"{"id":1,"name":"one"}"#, r#"{"id":1,"name":"two","__op":"mine"}"#);
    let changes =
        [envelope("c", "null", one), envelope("u", one, two), envelope("d", two, "null"), envelope("r", "null", one)];
    let expected = [
        r#"1 "one" "c" false 1700000000123"#,
        r#"1 "two" "u" false 1700000000123"#,
        r#"1 "two" "d" true 1700000000123"#,
        r#"1 "one" "r" false 1700000000123"#,
    ];
    let bare: Vec<_> = changes.iter().cloned().map(Some).collect();
    assert_eq!(rows(&bare), expected);
    let wrapped: Vec<_> = changes.iter().map(|change| Some(with_schema(change))).collect();
    assert_eq!(rows(&wrapped), expected);
}

#[test]
fn tombstones_are_null_and_changes_without_a_row_have_their_marks() {
    let deleted_without_before = r#"{"op":"d","before":null,"after":null,"ts_ms":null}"#.to_owned();
    let texts = [None, Some(with_schema("null")), Some(envelope("t", "null", "null")), Some(deleted_without_before)];
    let expected = ["null", "null", r#"None None "t" false 1700000000123"#, r#"None None "d" true None"#];
    assert_eq!(rows(&texts), expected);
}

#[test]
fn other_values_are_bad_and_leave_nothing() {
    let good = envelope("c", "null", r#"{"id":1}"#);
    let cases = [
        (r#"{"id":1}"#.to_owned(), Reason::NotAnEnvelope),
        (envelope("c", "null", "null"), Reason::NotAnEnvelope),
        (envelope("c", r#"{"id":1}"#, "3"), Reason::NotAnEnvelope),
        ("[]".to_owned(), Reason::NotAnObject),
        (format!("{good} x"), Reason::TrailingText),
        (good.replace("1}", "1,}"), Reason::NotJson("a field name in quotes")),
        (good.replace("1}", "\"x\"}"), Reason::WrongKind("int32")),
        (good[..good.len() - 1].to_owned(), Reason::NotJson("a comma or a closing bracket")),
    ];
    for (text, reason) in cases {
        let mut strict = decoder(fields(), Mode::FailFast);
        let bad = strict.append(Some(text.as_bytes())).expect_err(&text);
        assert_eq!((bad.reason, strict.rows()), (reason, 0), "{text}");
        let mut lenient = decoder(fields(), Mode::Permissive);
        assert!(matches!(lenient.append(Some(text.as_bytes())), Ok(Appended::Bad(_))));
        lenient.append(Some(good.as_bytes())).expect("permissive");
        let array = lenient.finish().0;
        array.to_data().validate_full().expect("a valid array");
        assert_eq!(array.column(0).as_primitive::<Int32Type>().value(1), 1, "{text}");
    }
}

#[test]
fn the_place_of_a_fault_is_that_in_the_whole_value() {
    let text = with_schema(&envelope("c", "null", r#"{"id":"x"}"#));
    let bad = decoder(fields(), Mode::FailFast).append(Some(text.as_bytes())).expect_err("no int32");
    assert_eq!((bad.path.as_str(), bad.position), ("id", text.find(r#""x""#).expect("there")));
}

#[test]
fn fields_of_the_envelope_have_their_types() {
    for (name, data_type) in [("__op", DataType::Int8), ("__deleted", DataType::Int32), ("__ts_ms", DataType::Utf8)] {
        let options = JsonOptions { envelope: Envelope::Debezium, ..JsonOptions::default() };
        let made = JsonDecoder::new(&vec![field(name, data_type)].into(), options, BufferPool::new(0));
        let message = made.map(|_| ()).expect_err("refused").to_string();
        assert!(message.starts_with(&format!("field {name}: Debezium's envelope has ")), "{message}");
    }
    let mut texts = decoder(vec![field("__deleted", DataType::Utf8)], Mode::FailFast);
    texts.append(Some(envelope("d", "{}", "null").as_bytes())).expect("a deletion");
    assert_eq!(texts.finish().0.column(0).as_string::<i32>().value(0), "true");
}

#[test]
fn any_bytes_make_one_valid_row_each() {
    let good = with_schema(&envelope("u", r#"{"id":1}"#, r#"{"id":2,"name":"x"}"#));
    bolero::check!().with_type::<(Vec<u8>, u16, bool)>().for_each(|(bytes, at, alone)| {
        let at = usize::from(*at) % good.len();
        let text =
            if *alone { bytes.clone() } else { [&good.as_bytes()[..at], bytes, &good.as_bytes()[at..]].concat() };
        let mut decoder = decoder(fields(), Mode::Permissive);
        for value in [good.as_bytes(), &text, good.as_bytes()] {
            decoder.append(Some(value)).expect("permissive");
        }
        let array = decoder.finish().0;
        array.to_data().validate_full().expect("a valid array");
        let ids = array.column(0).as_primitive::<Int32Type>();
        assert_eq!((ids.value(0), ids.value(2), array.len()), (2, 2, 3));
    });
}
