//! Which message a frame of Confluent's may name.

use std::sync::Arc;

use monedula_columns::BufferPool;
use monedula_formats::{Framing, Mode, ProtobufDecoder, ProtobufOptions, ProtobufPlan, ProtobufSchema};

/// Reads the message of this name behind a frame with these numbers, and says what is wrong.
fn read(message: &str, numbers: &[u8]) -> Result<(), String> {
    let zigzag: Vec<u8> = numbers.iter().map(|number| number * 2).collect();
    read_value(message, &[&[0, 0, 0, 0, 7, numbers.len() as u8 * 2], &*zigzag].concat())
}

fn read_value(message: &str, value: &[u8]) -> Result<(), String> {
    let text = "syntax = \"proto3\"; message M { map<int32, int32> a = 1; message First { int32 b = 1; }
                message Second { map<int32, int32> c = 1; message Third { int32 d = 1; } } }";
    let schema = ProtobufSchema::from_texts(&[("f.proto".to_owned(), text.to_owned())], Some(message)).expect(text);
    let options = ProtobufOptions { mode: Mode::FailFast, ..ProtobufOptions::default() };
    let plan = ProtobufPlan::new(schema, Vec::new(), Framing::Confluent, options).expect(text);
    let mut decoder = ProtobufDecoder::new(Arc::new(plan), BufferPool::new(0));
    decoder.append(Some(value)).map(|_| ()).map_err(|bad| bad.to_string())
}

#[test]
fn entries_of_maps_may_be_left_out_of_the_count() {
    // By descriptors, as C++, Go and Python count.
    assert_eq!(read("M.First", &[0, 1]), Ok(()));
    assert_eq!(read("M.Second", &[0, 2]), Ok(()));
    assert_eq!(read("M.Second.Third", &[0, 2, 1]), Ok(()));
    // By text, as Java counts.
    assert_eq!(read("M.First", &[0, 0]), Ok(()));
    // Which of the two it is cannot be told where it is another message by descriptors.
    let reason = read("M.Second", &[0, 1]).expect_err("another message");
    assert!(reason.contains("names message [0, 1], which in the given schema is M.First"), "{reason}");
    assert_eq!(read("M.Second.Third", &[0, 1, 0]), Ok(()));
    // A map's entry is no message of the schema's.
    let reason = read("M.Second", &[0, 0]).expect_err("another message");
    assert!(reason.contains("names message [0, 0]; the column is of M.Second"), "{reason}");
}

#[test]
fn an_error_says_where_a_value_has_no_frame() {
    let reason = read_value("M.First", &[8, 1]).expect_err("no frame");
    assert!(reason.contains("it can be read without: give framing='bare'"), "{reason}");
    for value in [&b""[..], &[8], &[0, 0, 0, 0, 7]] {
        let reason = read_value("M.First", value).expect_err("no frame");
        assert!(!reason.contains("bare"), "{reason}");
    }
}
