//! Decoders of Protobuf for tests, and builders of messages.

use std::sync::Arc;

use arrow_array::Array;
use monedula_columns::BufferPool;
use monedula_formats::{
    Framing, Mode, ProtobufAppended, ProtobufDecoder, ProtobufOptions, ProtobufPlan, ProtobufReason, ProtobufSchema,
};

pub(crate) fn plan(text: &str, options: ProtobufOptions) -> Arc<ProtobufPlan> {
    let texts = [("test.proto".to_owned(), text.to_owned())];
    let schema = ProtobufSchema::from_texts(&texts, Some("M")).expect(text);
    Arc::new(ProtobufPlan::new(schema, Vec::new(), Framing::Bare, options).expect(text))
}

pub(crate) fn decoder(text: &str, mode: Mode) -> ProtobufDecoder {
    ProtobufDecoder::new(plan(text, ProtobufOptions { mode, ..ProtobufOptions::default() }), BufferPool::new(1 << 20))
}

/// Fault of a value that is refused, and the path of the field.
pub(crate) fn refused(text: &str, value: &[u8]) -> (String, ProtobufReason) {
    let mut decoder = decoder(text, Mode::Permissive);
    match decoder.append(Some(value)) {
        Ok(ProtobufAppended::Bad(bad)) => (bad.path, bad.reason),
        other => panic!("{other:?}"),
    }
}

/// Rows of a column; checked by Arrow. Leaves the decoder empty.
pub(crate) fn finished(decoder: &mut ProtobufDecoder) -> String {
    let (array, _) = decoder.finish();
    array.to_data().validate_full().expect("a valid array");
    format!("{array:?}")
}

pub(crate) fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A field of bytes, text or a message.
pub(crate) fn field(number: u64, content: &[u8]) -> Vec<u8> {
    [varint(number << 3 | 2), varint(content.len() as u64), content.to_vec()].concat()
}
