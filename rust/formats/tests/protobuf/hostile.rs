//! Cost of hostile values: an error or a bounded row, whatever the bytes are.

use monedula_columns::BufferPool;
use monedula_formats::{
    Framing, Mode, ProtobufAppended, ProtobufDecoder, ProtobufOptions, ProtobufPlan, ProtobufReason, ProtobufSchema,
};

use crate::allocations::allocated_by;
use crate::support::{decoder, field, finished, plan, refused, varint};

const ROW_BYTES: usize = 1 << 20;

/// One field for every kind of column.
const EVERY: &str = r#"syntax = "proto3"; import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
    message M { int32 a = 1; optional string b = 2; repeated sint64 c = 3; Item d = 4; repeated Item e = 5;
        map<string, Item> f = 6; oneof g { Item h = 7; bytes i = 8; bool j = 9; } repeated Kind k = 10;
        google.protobuf.Timestamp l = 11; google.protobuf.Int64Value m = 12; map<int32, string> n = 13; double o = 14;
        fixed32 p = 15; repeated string q = 16; uint64 r = 2000; }
    message Item { string x = 1; repeated fixed64 y = 2; Part z = 3; } message Part { Kind w = 1; }
    enum Kind { NONE = 0; ONE = 1; }"#;

fn good(number: u8) -> Vec<u8> {
    let item = [field(1, "é".as_bytes()), field(2, &[number; 16]), field(3, &[8, number % 3])].concat();
    let entry = [field(1, &[b'k', b'0' + number]), field(2, &item)].concat();
    [
        vec![8, number],
        field(2, b"text"),
        field(3, &[1, 2, 0x80, 1]),
        field(4, &item),
        field(5, &item),
        field(5, b""),
        field(6, &entry),
        field(6, &entry),
        if number.is_multiple_of(2) { field(7, &item) } else { vec![0x48, 1] },
        field(10, &[0, 1, number]),
        field(11, &[8, number, 16, 1]),
        field(12, &[8, number]),
        field(13, &[8, number, 0x12, 1, b'v']),
        [vec![0x71], vec![number; 8], vec![0x7d], vec![number; 4]].concat(),
        field(16, b"q"),
        [varint(2000 << 3), varint(u64::MAX)].concat(),
        // Further parts of a message that occurred before, and unknown fields.
        field(4, &field(3, &[8, 1])),
        [varint(99 << 3 | 3), field(1, b"in a group"), varint(99 << 3 | 4)].concat(),
    ]
    .concat()
}

#[test]
fn a_bad_row_at_any_place_leaves_nothing() {
    let mut values = Vec::new();
    for number in 0..3 {
        let value = good(number);
        values.extend((0..value.len()).map(|end| value[..end].to_vec()));
        values.extend((0..value.len()).map(|at| {
            let mut other = value.clone();
            other[at] = 0xff;
            other
        }));
    }
    values.retain(|value| decoder(EVERY, Mode::FailFast).append(Some(value)).is_err());
    assert!(values.len() > 250, "{}", values.len());
    let mut alone = decoder(EVERY, Mode::FailFast);
    for number in 0..3 {
        alone.append(Some(&good(number))).expect("good");
    }
    let expected = finished(&mut alone);
    let mut among = decoder(EVERY, Mode::FailFast);
    for position in 0..4 {
        for bad in &values {
            for number in 0..4 {
                if number == position {
                    among.append(Some(bad)).expect_err("bad");
                }
                if number < 3 {
                    among.append(Some(&good(number))).expect("good");
                }
            }
            assert_eq!(finished(&mut among), expected);
        }
    }
}

#[test]
fn any_bytes_become_rows_or_errors() {
    bolero::check!().with_iterations(2_000).for_each(|bytes: &[u8]| {
        let mut decoder = decoder(EVERY, Mode::Permissive);
        decoder.append(Some(bytes)).expect("permissive");
        let mut changed = good(bytes.len() as u8 % 3);
        for pair in bytes.chunks_exact(2) {
            let at = usize::from(pair[0]) % changed.len();
            changed[at] = pair[1];
        }
        decoder.append(Some(&changed)).expect("permissive");
        assert_eq!(decoder.rows(), 2);
        finished(&mut decoder);
        // Schemas come from users, but descriptors are bytes, too.
        let _ = ProtobufSchema::from_descriptor_set(bytes, None);
        let _ = ProtobufSchema::from_texts(&[("f".to_owned(), String::from_utf8_lossy(bytes).into())], None);
    });
}

#[test]
fn what_is_no_message_is_refused() {
    let of = |value: &[u8]| refused(EVERY, value).1;
    assert_eq!(of(&[8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]), ProtobufReason::BadNumber);
    assert_eq!(of(&[8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]), ProtobufReason::BadNumber);
    assert_eq!(of(&[8, 0xff]), ProtobufReason::Truncated);
    assert_eq!(of(&[0, 0]), ProtobufReason::BadTag(0));
    assert_eq!(of(&[15, 0]), ProtobufReason::BadTag(15));
    assert_eq!(of(&[18, 0xff, 0xff, 0xff, 0xff, 7]), ProtobufReason::BadLength(u64::from(u32::MAX >> 1)));
    assert_eq!(of(&[18, 1, 0xff]), ProtobufReason::NotUtf8);
    assert_eq!(of(&[9, 0, 0, 0, 0, 0, 0, 0, 0]), ProtobufReason::WireType { found: 1, expected: 0 });
    assert_eq!(of(&varint(99 << 3 | 4)), ProtobufReason::UnexpectedEnd(99));
    let deep = varint(99 << 3 | 3).repeat(101);
    assert_eq!(of(&deep), ProtobufReason::TooDeep);
    assert_eq!(refused(EVERY, &field(5, &field(3, &field(1, b"")))).0, "e.z.w");
}

/// Fault of the value, if it is refused, and the bytes allocated and held for it.
fn cost(text: &str, value: &[u8]) -> (Option<ProtobufReason>, usize) {
    let options = ProtobufOptions { max_row_bytes: ROW_BYTES, ..ProtobufOptions::default() };
    let pool = BufferPool::new(0);
    let mut decoder = ProtobufDecoder::new(plan(text, options), pool.clone());
    let (appended, allocated) = allocated_by(|| decoder.append(Some(value)).expect("permissive"));
    let reason = match appended {
        ProtobufAppended::Good => None,
        ProtobufAppended::Bad(bad) => Some(bad.reason),
    };
    (reason, allocated + pool.outstanding_bytes())
}

#[test]
fn rows_do_not_grow_beyond_their_limit() {
    let wide: String = (1..100).map(|number| format!("double c{number} = {number};")).collect();
    let long = "N".repeat(10_000);
    for (text, part) in [
        (format!("message M {{ repeated W a = 1; }} message W {{ {wide} }}"), field(1, b"")),
        (format!("message M {{ map<int32, W> a = 1; }} message W {{ {wide} }}"), field(1, b"")),
        (format!("message M {{ repeated E a = 1; }} enum E {{ {long} = 0; }}"), field(1, &[0; 100])),
        ("message M { oneof a { M2 b = 1; bool c = 2; } } message M2 {}".to_owned(), vec![0x10, 1, 0x0a, 0]),
    ] {
        let (reason, bytes) = cost(&format!("syntax = \"proto3\"; {text}"), &part.repeat(100_000));
        assert_eq!(reason, Some(ProtobufReason::RowTooLarge(ROW_BYTES)), "{text:.60}");
        assert!(bytes < 8 * ROW_BYTES, "{bytes} bytes: {text:.60}");
    }
}

#[test]
fn messages_in_several_parts_are_decoded_once_at_each_level() {
    // Decoding each part where it occurs would decode the innermost ones 2^60 times.
    let levels: String =
        (1..60).map(|level| format!("message L{level} {{ optional L{} a = 1; }}", level + 1)).collect();
    let text = format!("message M {{ optional L1 a = 1; }} {levels} message L60 {{ optional int32 b = 1; }}");
    let mut value = vec![8, 1];
    for _ in 0..60 {
        value = [field(1, &value), field(1, b"")].concat();
    }
    decoder(&text, Mode::FailFast).append(Some(&value)).expect("good");
}

#[test]
fn fields_of_an_enum_share_its_names() {
    let values: String = (0..2_000).map(|number| format!("A_LONG_NAME_{number} = {number};")).collect();
    let of = |count: usize| {
        let fields: String = (1..=count).map(|number| format!("repeated E f{number} = {number};")).collect();
        let text = format!("syntax = \"proto3\"; message M {{ {fields} }} enum E {{ {values} }}");
        let schema = ProtobufSchema::from_texts(&[("f".to_owned(), text)], Some("M")).expect("a schema");
        let plan = || ProtobufPlan::new(schema, Vec::new(), Framing::Bare, ProtobufOptions::default()).expect("a plan");
        allocated_by(plan).1
    };
    assert!(of(1_000) < 4 << 20, "{} bytes", of(1_000));
}
