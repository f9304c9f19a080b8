//! Messages that a frame may name.

use std::sync::Arc;

use monedula_columns::{BadValue, BufferPool};
use monedula_formats::{Framing, Mode, ProtobufDecoder, ProtobufOptions, ProtobufPlan, ProtobufSchema};

/// Reads the message of this name behind a frame with these indexes; an error is its text.
fn read(message: &str, numbers: &[u8]) -> Result<(), String> {
    let zigzag: Vec<u8> = numbers.iter().map(|number| number * 2).collect();
    read_value(message, &[&[0, 0, 0, 0, 7, numbers.len() as u8 * 2], &*zigzag].concat())
}

fn read_value(message: &str, value: &[u8]) -> Result<(), String> {
    read_framed(Framing::Confluent, message, value)
}

fn read_framed(framing: Framing, message: &str, value: &[u8]) -> Result<(), String> {
    let text = "syntax = \"proto3\"; message M { map<int32, int32> a = 1; message First { int32 b = 1; }
                message Second { map<int32, int32> c = 1; message Third { int32 d = 1; } } }";
    let schema = ProtobufSchema::from_texts(&[("f.proto".to_owned(), text.to_owned())], Some(message)).expect(text);
    let options = ProtobufOptions { mode: Mode::FailFast, ..ProtobufOptions::default() };
    let plan = ProtobufPlan::new(schema, Vec::new(), framing, options).expect(text);
    let mut decoder = ProtobufDecoder::new(Arc::new(plan), BufferPool::new(0));
    decoder.append(Some(value)).map(|_| ()).map_err(|bad| BadValue::from(bad).reason_and_hint())
}

#[test]
fn entries_of_maps_may_be_left_out_of_the_count() {
    // Indexes by descriptors, as C++, Go and Python count.
    assert_eq!(read("M.First", &[0, 1]), Ok(()));
    assert_eq!(read("M.Second", &[0, 2]), Ok(()));
    assert_eq!(read("M.Second.Third", &[0, 2, 1]), Ok(()));
    // Indexes by text, as Java counts.
    assert_eq!(read("M.First", &[0, 0]), Ok(()));
    // Ambiguous indexes are refused if they name another message by descriptors.
    let reason = read("M.Second", &[0, 1]).expect_err("another message");
    assert!(reason.contains("names message [0, 1], which in the given schema is M.First"), "{reason}");
    assert_eq!(read("M.Second.Third", &[0, 1, 0]), Ok(()));
    // Map entries are not messages of the schema.
    let reason = read("M.Second", &[0, 0]).expect_err("another message");
    assert!(reason.contains("names message [0, 0]; the column is of M.Second"), "{reason}");
}

#[test]
fn an_error_says_where_a_value_has_no_frame() {
    let reason = read_value("M.First", &[8, 1]).expect_err("no frame");
    assert!(reason.contains("it can be read without; give framing='bare'"), "{reason}");
    for value in [&b""[..], &[8], &[0, 0, 0, 0, 7]] {
        let reason = read_value("M.First", value).expect_err("no frame");
        assert!(!reason.contains("bare"), "{reason}");
    }
}

#[test]
fn a_frame_of_apicurio_names_the_message_whole() {
    let apicurio =
        |named: &[u8]| read_framed(Framing::Apicurio, "M.First", &[&[0, 0, 0, 0, 7], named, &[8, 1]].concat());
    assert_eq!(apicurio(b"\x07\x0a\x05First"), Ok(()));
    // An unknown field, and the name twice, of which the last counts.
    assert_eq!(apicurio(b"\x0c\x10\x01\x0a\x01M\x0a\x05First"), Ok(()));
    let reason = apicurio(b"\x03\x0a\x01M").expect_err("another message");
    assert!(reason.contains("names message M; the column is of M.First"), "{reason}");
    let no_name = ["", "\x00", "\x02\x0a\x00", "\x7f\x0a", "\x03\x0a\x05F", "\x07\x0a\x05Firs\u{7f}\u{7f}", "\x01\x0b"];
    for named in no_name {
        let reason = apicurio(named.as_bytes()).expect_err(named);
        assert!(
            reason.contains("the name of the message does not follow") || reason.contains("names message"),
            "{reason}"
        );
    }
    let huge = [&[0xff; 9][..], &[1]].concat();
    assert!(
        apicurio(&huge).expect_err("a length beyond the value").contains("the name of the message does not follow")
    );
}

#[test]
fn a_frame_of_glue_has_the_number_of_the_message_by_name() {
    let glue = |body: &[u8]| read_framed(Framing::Glue, "M.First", &[&[3, 0][..], &[7; 16], body].concat());
    // Sorted: M, M.AEntry, M.First, M.Second, M.Second.CEntry, M.Second.Third.
    assert_eq!(glue(&[2, 8, 1]), Ok(()));
    let reason = glue(&[4, 8, 1]).expect_err("another message");
    assert!(reason.contains("names message 4, which in the given schema is M.Second.CEntry"), "{reason}");
    for body in [&[6, 8, 1][..], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]] {
        let reason = glue(body).expect_err("no message");
        assert!(reason.contains("the column is of M.First, which is 2"), "{reason}");
    }
    for body in [&[][..], &[0x80], &[0xff; 11]] {
        let reason = glue(body).expect_err("no number");
        assert!(reason.contains("the number of the message does not follow"), "{reason}");
    }
}
