//! The rule for bad rows, as for JSON: wherever a bad row is in a batch, and wherever its fault is, every column and
//! every child looks as if the row had never been there.

use std::sync::Arc;

use arrow_array::Array;
use monedula_columns::BufferPool;
use monedula_formats::{AvroAppended, AvroDecoder, AvroOptions, AvroPlan, AvroReason, Framing, Mode, WriterKey};

use crate::support::{decoder, field, long, record, refused, schema, text};

/// One field for every kind of column.
fn every_kind() -> String {
    let item = r#"{"type":"record","name":"Item","fields":[
        {"name":"price","type":{"type":"bytes","logicalType":"decimal","precision":10,"scale":2}},
        {"name":"tags","type":{"type":"array","items":"string"}}]}"#;
    record(
        &[
            field("boolean", r#""boolean""#),
            field("number", r#"["null","long"]"#),
            field("double", r#""double""#),
            field("text", r#""string""#),
            field("fixed", r#"{"type":"fixed","name":"F","size":2}"#),
            field("enum", r#"{"type":"enum","name":"E","symbols":["p","q"]}"#),
            field("either", r#"["int","string",{"type":"array","items":"int"}]"#),
            field("items", &format!(r#"{{"type":"array","items":{item}}}"#)),
            field("map", r#"{"type":"map","values":{"type":"map","values":["null","int"]}}"#),
        ]
        .join(","),
    )
}

fn good(number: u8) -> Vec<u8> {
    let either = match number % 3 {
        0 => [long(0), long(7)].concat(),
        1 => [long(1), text("either")].concat(),
        _ => [long(2), long(2), long(1), long(2), long(0)].concat(),
    };
    let item = [vec![2, number], long(-1), long(3), text("ab"), long(0)].concat();
    let entries = [long(1), text("k"), long(2), text("x"), long(0), text("y"), long(1), long(-9), long(0), long(0)];
    [
        vec![number % 2],
        if number.is_multiple_of(2) { vec![0] } else { [long(1), long(1 << 50)].concat() },
        1.5_f64.to_le_bytes().to_vec(),
        text("é"),
        vec![1, 2],
        vec![2 * (number % 2)],
        either,
        [long(2), item.clone(), item, long(0)].concat(),
        entries.concat(),
    ]
    .concat()
}

/// Values that are good up to a fault: truncated anywhere, and with any byte changed.
fn bad() -> Vec<Vec<u8>> {
    let mut values = Vec::new();
    for number in 0..3 {
        let value = good(number);
        values.extend((0..value.len()).map(|end| value[..end].to_vec()));
        values.extend((0..value.len()).map(|at| {
            let mut other = value.clone();
            other[at] = 0xff;
            other
        }));
        values.push([value, vec![0]].concat());
    }
    let kind = every_kind();
    values.retain(|value| decoder(&kind, &kind, Mode::FailFast).append(Some(value)).is_err());
    assert!(values.len() > 250, "{}", values.len());
    values
}

#[test]
fn a_refused_row_leaves_every_column_as_it_was() {
    let kind = every_kind();
    let rows = |values: &[Vec<u8>]| {
        let mut decoder = decoder(&kind, &kind, Mode::FailFast);
        values.iter().for_each(|value| assert_eq!(decoder.append(Some(value)), Ok(AvroAppended::Good)));
        decoder.finish().0
    };
    let values: Vec<_> = (0..3).map(good).collect();
    let expected = rows(&values);
    expected.to_data().validate_full().expect("a valid array");
    for bad in bad() {
        for position in 0..=values.len() {
            let mut decoder = decoder(&kind, &kind, Mode::FailFast);
            for row in 0..=values.len() {
                if row == position {
                    let (rows, bytes) = (decoder.rows(), decoder.bytes());
                    decoder.append(Some(&bad)).expect_err("bad");
                    assert_eq!((decoder.rows(), decoder.bytes()), (rows, bytes));
                }
                if let Some(value) = values.get(row) {
                    decoder.append(Some(value)).expect("a good row");
                }
            }
            assert_eq!(*decoder.finish().0, *expected, "{bad:?} at {position}");
        }
    }
}

#[test]
fn a_row_that_stays_changes_no_other_row() {
    let kind = every_kind();
    let mut decoder = decoder(&kind, &kind, Mode::Permissive);
    let (value, bad) = (good(1), bad());
    for bad in &bad {
        assert_eq!(decoder.append(Some(&value)), Ok(AvroAppended::Good));
        assert!(matches!(decoder.append(Some(bad)), Ok(AvroAppended::Bad(_))));
    }
    let (array, _) = decoder.finish();
    array.to_data().validate_full().expect("a valid array");
    for row in 0..bad.len() {
        assert_eq!(array.slice(2 * row, 1).to_data(), array.slice(0, 1).to_data());
    }
}

#[test]
fn a_fault_says_where_it_is() {
    let kind = every_kind();
    let bad = |from: &[u8], to: &[u8]| {
        let value = good(1);
        let at = value.windows(from.len()).position(|bytes| bytes == from).expect("there");
        let bad = refused(&kind, &kind, &[&value[..at], to, &value[at + from.len()..]].concat());
        (bad.path, bad.reason, bad.position)
    };
    assert_eq!(bad(b"\x04\xc3\xa9", b"\x04\xc3\x28"), ("text".to_owned(), AvroReason::NotUtf8, 18));
    assert_eq!(bad(b"\x04ab", b"\x04\xffb"), ("items[0].tags[0]".to_owned(), AvroReason::NotUtf8, 37));
    let (path, reason, _) = bad(b"\x02y\x02", b"\x02y\x04");
    assert_eq!((path.as_str(), reason), ("map[\"k\"][\"y\"]", AvroReason::NoBranch(2)));
    assert_eq!(refused(&kind, &kind, &[2]).to_string(), "boolean: a boolean is 0 or 1, and not 2 (byte 0)");
}

#[test]
fn values_of_several_writers_are_in_one_column() {
    let (old, new) = (
        record(&field("a", r#""int""#)),
        record(r#"{"name":"a","type":"long"},{"name":"b","type":"string","default":"none"}"#),
    );
    for framing in [Framing::Confluent, Framing::SingleObject] {
        let key = |id: u32, text: &str| match framing {
            Framing::Confluent => WriterKey::Id(id),
            _ => WriterKey::Fingerprint(schema(text).fingerprint()),
        };
        let framed = |id: u32, text: &str, rest: Vec<u8>| match framing {
            Framing::Confluent => [vec![0], id.to_be_bytes().to_vec(), rest].concat(),
            _ => [vec![0xc3, 1], schema(text).fingerprint().to_le_bytes().to_vec(), rest].concat(),
        };
        let writers = vec![(key(70_000, &new), schema(&new)), (key(3, &old), schema(&old))];
        let plan = AvroPlan::new(schema(&new), writers, framing, AvroOptions::default()).expect("compatible");
        let mut decoder = AvroDecoder::new(Arc::new(plan), BufferPool::new(0));
        let mut append = |value: Vec<u8>| match decoder.append(Some(&value)).expect("permissive") {
            AvroAppended::Good => None,
            AvroAppended::Bad(bad) => Some(bad.reason.to_string()),
        };
        let (one, two) = (framed(3, &old, long(1)), framed(70_000, &new, [long(2), text("b")].concat()));
        for value in [&one, &two, &one, &two] {
            assert_eq!(append(value.clone()), None);
        }
        let unknown = append(framed(9, "\"int\"", long(1))).expect("unknown");
        let expected = match framing {
            Framing::Confluent => "no schema was given for id 9".to_owned(),
            _ => format!("no schema was given for fingerprint {:016x}", schema("\"int\"").fingerprint()),
        };
        assert_eq!(unknown, expected);
        for short in [vec![], one[..4].to_vec(), vec![2; 20]] {
            assert!(append(short).expect("not framed").starts_with("the value does not begin with"));
        }
        let (array, _) = decoder.finish();
        let shown = format!("{array:?}");
        assert!(shown.matches("\"none\"").count() == 2 && shown.matches("\"b\"").count() >= 2, "{shown}");
        array.to_data().validate_full().expect("a valid array");
    }
}

#[test]
fn a_header_names_the_schema_of_a_value_without_a_frame() {
    let (id, guid) = (WriterKey::Id(7), WriterKey::Guid(0x0102 << 112));
    let writers = vec![(id, schema("\"int\"")), (guid, schema("\"long\""))];
    let options = AvroOptions { mode: Mode::FailFast, ..AvroOptions::default() };
    let plan = AvroPlan::new(schema("\"long\""), writers, Framing::Confluent, options).expect("compatible");
    let mut decoder = AvroDecoder::new(Arc::new(plan), BufferPool::new(0));
    let guid = [vec![1, 1, 2], vec![0; 14]].concat();
    let long_value = long(1 << 40);
    for (value, header) in [
        (&long_value, Some(&guid)),
        (&[&guid[..], &long_value].concat(), None),
        (&[&[0, 0, 0, 0, 7][..], &long(3)].concat(), None),
        (&long(4), Some(&vec![0, 0, 0, 0, 7])),
    ] {
        assert_eq!(decoder.append_framed(Some(value), header.map(|header| &header[..])), Ok(AvroAppended::Good));
    }
    for header in [&guid[..16], &[&guid[..], &[0]].concat(), &[], &[0, 0, 0, 7], &[2; 17]] {
        let bad = decoder.append_framed(Some(&long_value), Some(header)).expect_err("no key");
        assert!(matches!(bad.reason, AvroReason::NotFramed(_)), "{bad}");
    }
    let unknown = [vec![1], vec![9; 16]].concat();
    let bad = decoder.append_framed(Some(&long_value), Some(&unknown)).expect_err("unknown");
    assert_eq!(bad.to_string(), "no schema was given for GUID 09090909-0909-0909-0909-090909090909 (byte 0)");
    assert!(format!("{:?}", decoder.finish().0).contains("1099511627776,\n  1099511627776,\n  3,\n  4,"));
}

#[test]
fn any_bytes_make_one_valid_row_each() {
    let kind = every_kind();
    bolero::check!().with_type::<(Vec<Vec<u8>>, u8)>().for_each(|(values, number): &(Vec<Vec<u8>>, u8)| {
        let mut decoder = decoder(&kind, &kind, Mode::Permissive);
        for (index, bytes) in values.iter().enumerate() {
            // Insert these bytes into a good value: so they get further into the decoder than alone.
            let value = good(*number);
            let at = usize::from(*number) * 2 % value.len();
            let mutated = if index % 2 == 0 { bytes.clone() } else { [&value[..at], bytes, &value[at..]].concat() };
            decoder.append(Some(&mutated)).expect("permissive");
        }
        let (array, _) = decoder.finish();
        assert_eq!(array.len(), values.len());
        array.to_data().validate_full().expect("a valid array");
    });
}
