//! Tests of the code that the macros generate, with a made-up message.

use crate::api::Message;
use crate::error::WireError;
use crate::types::Uuid;
use crate::wire::{Reader, Writer, message, structure};

message! {
    /// A message with all kinds of rows.
    Sample<'a>, versions 1..=4, flexible 3..;

    /// Field that version 4 lacks, not ignorable.
    old: i32 = -1, 1..=3;
    /// Field that version 1 lacks, ignorable.
    extra: &'a str, 2.., ignorable;
    /// Nullable from version 3.
    names: Option<Vec<&'a str>>, 1.., nullable 3..;
    /// A structure that may be null.
    part: Option<Part<'a>> = None, 2.., nullable 2.., ignorable;
    /// A tag that is not in the order of the rows.
    last: &'a [u8], 3.., tag 5;
    first: Part<'a>, 3.., tag 1;
    /// A tag that only version 4 has.
    newer: Uuid, 4.., tag 2;
    parts: Vec<Part<'a>>, 1..;
}

structure! {
    Part<'a> {
        number: i16 = 7, 1..;
    }
}

fn encode(sample: &Sample<'_>, version: i16) -> Result<Vec<u8>, WireError> {
    let mut writer = Writer::new();
    sample.encode(&mut writer, version)?;
    Ok(writer.into_bytes())
}

fn decode(bytes: &[u8], version: i16) -> Result<Sample<'_>, WireError> {
    let mut reader = Reader::new(bytes);
    let sample = Sample::decode(&mut reader, version)?;
    reader.finish()?;
    Ok(sample)
}

fn part(number: i16) -> Part<'static> {
    Part { number, ..Default::default() }
}

#[test]
fn defaults_are_those_of_the_table() {
    let sample = Sample::default();
    assert_eq!((sample.old, sample.extra, sample.part), (-1, "", None));
    assert_eq!(sample.names, Some(Vec::new()));
    assert_eq!(sample.first.number, 7);
}

#[test]
fn tags_are_written_in_order_among_unknown_ones() {
    let sample = Sample {
        last: b"x",
        first: part(9),
        unknown_tagged_fields: vec![(0, b"a"), (3, b""), (9, b"bc")],
        ..Default::default()
    };
    let bytes = encode(&sample, 3).unwrap();
    let body = [0xff, 0xff, 0xff, 0xff, 1, 1, 0xff, 1];
    let tags = [5, 0, 1, b'a', 1, 3, 0, 9, 0, 3, 0, 5, 2, 2, b'x', 9, 2, b'b', b'c'];
    assert_eq!(bytes, [&body[..], &tags].concat());
    assert_eq!(decode(&bytes, 3), Ok(sample));
}

#[test]
fn a_tag_of_a_newer_version_is_kept() {
    let sample = Sample { newer: Uuid([7; 16]), old: -1, ..Default::default() };
    let bytes = encode(&sample, 4).unwrap();
    // Version 3 starts with `old`, and is otherwise the same as version 4.
    let bytes = [&[0xff; 4][..], &bytes].concat();
    let decoded = decode(&bytes, 3).unwrap();
    assert_eq!(decoded.newer, Uuid::ZERO);
    assert_eq!(decoded.unknown_tagged_fields, [(2, &[7; 16][..])]);
    assert_eq!(encode(&decoded, 3), Ok(bytes));
}

#[test]
fn a_structure_may_be_null() {
    for part in [None, Some(part(3))] {
        let sample = Sample { part, ..Default::default() };
        for version in 2..=4 {
            let bytes = encode(&sample, version).unwrap();
            assert_eq!(decode(&bytes, version).as_ref(), Ok(&sample));
        }
    }
}

#[test]
fn a_field_is_dropped_only_where_the_table_says_so() {
    let sample = Sample { extra: "dropped", part: Some(part(1)), ..Default::default() };
    assert_eq!(decode(&encode(&sample, 1).unwrap(), 1), Ok(Sample::default()));
    let sample = Sample { old: 3, ..Default::default() };
    assert!(encode(&sample, 3).is_ok());
    let message = "Sample.old: set, but version 4 cannot carry it: leave it at its default";
    assert_eq!(encode(&sample, 4).unwrap_err().to_string(), message);
    let sample = Sample { last: b"x", ..Default::default() };
    assert!(matches!(encode(&sample, 2), Err(WireError::FieldNotInVersion { version: 2, .. })));
    let sample = Sample { unknown_tagged_fields: vec![(9, b"")], ..Default::default() };
    assert!(matches!(encode(&sample, 2), Err(WireError::FieldNotInVersion { version: 2, .. })));
}

#[test]
fn null_is_refused_where_the_version_has_none() {
    let sample = Sample { names: None, ..Default::default() };
    assert!(encode(&sample, 3).is_ok());
    assert!(matches!(encode(&sample, 2), Err(WireError::NullNotAllowed { version: 2, .. })));
    let null_names = [0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    let message = "Sample.names: null at offset 4, but this version does not allow null";
    assert_eq!(decode(&null_names, 1).unwrap_err().to_string(), message);
}

#[test]
fn a_count_beyond_the_frame_is_refused_where_it_stands() {
    let hostile = [0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 1, 2, 3];
    let message = "Sample.parts: length 2147483647 at offset 8 cannot fit in the 3 bytes that remain: \
                   corrupt or hostile frame";
    assert_eq!(decode(&hostile, 1).unwrap_err().to_string(), message);
    // Two parts of two bytes each cannot be in three bytes either.
    let hostile = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 2, 3];
    assert!(matches!(decode(&hostile, 1), Err(WireError::LengthBeyondFrame { length: 2, .. })));
}

#[test]
fn tags_that_repeat_or_fall_are_refused() {
    let body = [0xff, 0xff, 0xff, 0xff, 1, 1, 0xff, 1];
    for tags in [[2, 8, 0, 8, 0], [2, 8, 0, 7, 0]] {
        let error = decode(&[&body[..], &tags].concat(), 3).unwrap_err();
        assert!(matches!(error, WireError::TagOrder { previous: 8, .. }), "{error}");
        assert!(error.to_string().starts_with("Sample.tagged fields: tag "), "{error}");
    }
    let sample = Sample { unknown_tagged_fields: vec![(8, b""), (8, b"")], ..Default::default() };
    assert!(matches!(encode(&sample, 3), Err(WireError::TagOrder { tag: 8, previous: 8, .. })));
}

#[test]
fn a_tagged_field_must_fill_its_size() {
    let body = [0xff, 0xff, 0xff, 0xff, 1, 1, 0xff, 1];
    let error = decode(&[&body[..], &[1, 1, 4, 0, 9, 0, 0]].concat(), 3).unwrap_err();
    assert_eq!(error.to_string(), "Sample.first: 1 bytes left over at offset 14: wrong version or corrupt frame");
    let error = decode(&[&body[..], &[1, 1, 2, 0, 9, 0]].concat(), 3).unwrap_err();
    assert!(matches!(error, WireError::Truncated { offset: 13, .. }), "{error}");
}

#[test]
fn text_must_be_utf8_and_short() {
    let error = decode(&[0, 0, 0, 0, 0, 2, 0xc3, 0x28], 2).unwrap_err();
    assert_eq!(error.to_string(), "Sample.extra: string at offset 6 is not valid UTF-8");
    let long = "x".repeat(40_000);
    let error = encode(&Sample { extra: &long, ..Default::default() }, 4).unwrap_err();
    assert_eq!(error.to_string(), "Sample.extra: length 40000 is above the limit of 32767");
}
