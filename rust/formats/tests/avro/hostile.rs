//! Cost of hostile values: a bounded row, whatever the bytes are, and time for no more items than there are bytes.

use monedula_columns::BufferPool;
use monedula_formats::{AvroAppended, AvroDecoder, AvroOptions, AvroReason};

use crate::allocations::allocated_by;
use crate::support::{field, long, plan, record, text};

const ROW_BYTES: usize = 1 << 20;

/// Fault of the value, if it is refused, and the bytes allocated and held for it.
fn cost(reader: &str, writer: &str, value: &[u8]) -> (Option<AvroReason>, usize) {
    let options = AvroOptions { max_row_bytes: ROW_BYTES, recursive_field_max_depth: 1, ..AvroOptions::default() };
    let pool = BufferPool::new(0);
    let mut decoder = AvroDecoder::new(plan(reader, writer, options).expect(writer), pool.clone());
    let (appended, allocated) = allocated_by(|| decoder.append(Some(value)).expect("permissive"));
    let reason = match appended {
        AvroAppended::Good => None,
        AvroAppended::Bad(bad) => Some(bad.reason),
    };
    (reason, allocated + pool.outstanding_bytes())
}

fn array(items: &str) -> String {
    record(&field("a", &format!(r#"{{"type":"array","items":{items}}}"#)))
}

const SMALL: usize = 64 << 10;

#[test]
fn items_without_bytes_are_counted_and_not_walked() {
    let empty = r#"{"type":"record","name":"Empty","fields":[]}"#;
    let many = [long(i64::MAX), long(0)].concat();
    // Skipped at once, however many there are.
    for items in ["\"null\"", empty, r#"{"type":"fixed","name":"F","size":0}"#] {
        let (reason, bytes) = cost(&record(r#"{"name":"b","type":"int","default":1}"#), &array(items), &many);
        assert!(reason.is_none() && bytes < SMALL, "{reason:?}, {bytes} bytes");
    }
    // Decoded as rows only up to the limit of a row.
    for count in [i64::MAX, 1 << 32, 1 << 20, i64::MIN] {
        let size = if count < 0 { long(0) } else { vec![] };
        let (reason, bytes) = cost(&array(empty), &array(empty), &[long(count), size, long(0)].concat());
        assert_eq!(reason, Some(AvroReason::RowTooLarge(ROW_BYTES)));
        assert!(bytes < SMALL, "{bytes} bytes");
    }
}

#[test]
fn items_are_no_more_than_there_are_bytes_for() {
    for count in [i64::MAX, 1 << 40, 3, i64::MIN, -3] {
        let size = if count < 0 { long(1) } else { vec![] };
        let value = [long(count), size, vec![2]].concat();
        for (reader, writer) in [(array("\"int\""), array("\"int\"")), (record(""), array("\"int\""))] {
            let (reason, bytes) = cost(&reader, &writer, &value);
            assert!(reason.is_some() && bytes < SMALL, "{reason:?}, {bytes} bytes");
        }
    }
}

#[test]
fn rows_do_not_grow_beyond_their_limit() {
    let wide: Vec<_> = (0..100).map(|index| format!(r#"{{"name":"c{index}","type":"double","default":0}}"#)).collect();
    let wide = format!(r#"{{"type":"record","name":"Wide","fields":[{}]}}"#, wide.join(","));
    let nulls = [long(200_000), vec![0; 200_000], long(0)].concat();
    let maybe = format!(r#"["null",{wide}]"#);
    let map = |values: &str| record(&field("a", &format!(r#"{{"type":"map","values":{values}}}"#)));
    let entries = [long(200_000), vec![0; 400_000], long(0)].concat();
    for (kind, value) in [(array(&maybe), &nulls), (map(&maybe), &entries)] {
        let (reason, bytes) = cost(&kind, &kind, value);
        assert_eq!(reason, Some(AvroReason::RowTooLarge(ROW_BYTES)));
        assert!(bytes < SMALL, "{bytes} bytes");
    }

    // Long symbols and defaults, which take one byte or none in a value.
    let symbol = "s".repeat(10_000);
    let symbols = format!(r#"{{"type":"enum","name":"E","symbols":["{symbol}"]}}"#);
    let (reason, bytes) = cost(&array(&symbols), &array(&symbols), &nulls);
    assert_eq!(reason, Some(AvroReason::RowTooLarge(ROW_BYTES)));
    assert!(bytes < 8 * ROW_BYTES, "{bytes} bytes");
    let of = |fields: &str| array(&format!(r#"{{"type":"record","name":"I","fields":[{fields}]}}"#));
    let reader = of(&format!(r#"{{"name":"t","type":"string","default":"{symbol}"}}"#));
    let (reason, bytes) = cost(&reader, &of(&field("x", r#""int""#)), &nulls);
    assert_eq!(reason, Some(AvroReason::RowTooLarge(ROW_BYTES)));
    assert!(bytes < 8 * ROW_BYTES, "{bytes} bytes");
}

#[test]
fn lengths_beyond_the_value_allocate_nothing() {
    for kind in ["string", "bytes"] {
        for length in [i64::MAX, i64::MIN, -1, 1 << 31, 2] {
            let kind = format!("\"{kind}\"");
            let (reason, bytes) = cost(&kind, &kind, &[long(length), vec![b'x']].concat());
            assert_eq!(reason, Some(AvroReason::BadLength(length)));
            assert!(bytes < SMALL, "{bytes} bytes");
        }
    }
}

#[test]
fn overlong_numbers_are_refused() {
    let all = |length: usize, last: u8| [vec![0xff; length - 1], vec![last]].concat();
    for (kind, value, is_good) in [
        ("long", all(10, 1), true),
        ("long", all(10, 2), false),
        ("long", all(11, 0), false),
        ("long", vec![0x80; 1 << 20], false),
        ("int", all(5, 0x0f), true),
        ("int", all(5, 0x10), false),
        ("int", all(6, 0), false),
        ("int", vec![0x80, 0], true),
    ] {
        let kind = format!("\"{kind}\"");
        let (reason, _) = cost(&kind, &kind, &value);
        assert_eq!(reason.is_none(), is_good, "{kind} {value:?}");
    }
}

#[test]
fn nested_values_end_at_a_depth() {
    let list =
        r#"{"type":"record","name":"L","fields":[{"name":"next","type":["null","L"]},{"name":"x","type":"int"}]}"#;
    let deep = |depth: usize| [vec![2; depth], vec![0], vec![2; depth + 1]].concat();
    let (reason, _) = cost(list, list, &deep(400));
    assert_eq!(reason, None);
    let (reason, bytes) = cost(list, list, &deep(1 << 20));
    assert_eq!(reason, Some(AvroReason::TooDeep));
    assert!(bytes < 1 << 20, "{bytes} bytes");
    // A record that directly contains itself has no finite value.
    let endless = r#"{"type":"record","name":"S","fields":[{"name":"a","type":"S"},{"name":"b","type":"S"}]}"#;
    let (reason, _) = cost(r#"{"type":"record","name":"S","fields":[]}"#, endless, &[]);
    assert_eq!(reason, Some(AvroReason::TooDeep));
}

#[test]
fn any_bytes_cost_a_bounded_row() {
    let item =
        r#"{"type":"record","name":"I","fields":[{"name":"d","type":["null","double"]},{"name":"n","type":"null"}]}"#;
    let kind = |extra: &str| {
        let fields = [
            field("a", &format!(r#"{{"type":"array","items":{item}}}"#)),
            field("m", r#"{"type":"map","values":["null","string",{"type":"array","items":"null"}]}"#),
            field("l", r#"{"type":"record","name":"L","fields":[{"name":"next","type":["null","L"]}]}"#),
        ];
        record(&format!("{}{extra}", fields.join(",")))
    };
    let reader = record(
        &[
            field("a", r#"{"type":"array","items":{"type":"record","name":"I","fields":[{"name":"d","type":["null","double"]}]}}"#),
            r#"{"name":"z","type":"string","default":"z"}"#.to_owned(),
        ]
        .join(","),
    );
    let writer = kind("");
    bolero::check!().with_type::<(Vec<u8>, u8)>().for_each(|(bytes, repeat)| {
        let value = [bytes.repeat(1 + usize::from(repeat % 64)), text("end")].concat();
        let options = AvroOptions { max_row_bytes: 1 << 12, ..AvroOptions::default() };
        let pool = BufferPool::new(0);
        let mut decoder = AvroDecoder::new(plan(&reader, &writer, options).expect("compatible"), pool.clone());
        let (_, allocated) = allocated_by(|| decoder.append(Some(&value)).expect("permissive"));
        let bound = (64 << 10) + 32 * value.len();
        assert!(allocated < bound && pool.outstanding_bytes() < bound, "{allocated} bytes for {}", value.len());
    });
}
