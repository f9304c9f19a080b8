//! Decoders of Avro for tests, and builders of values.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use monedula_columns::BufferPool;
use monedula_formats::{
    AvroAppended, AvroDecoder, AvroOptions, AvroPlan, AvroReason, AvroSchema, BadAvro, BadSchema, Framing, Mode,
    WriterKey,
};

pub(crate) fn schema(text: &str) -> AvroSchema {
    AvroSchema::parse(text).expect(text)
}

pub(crate) fn plan(reader: &str, writer: &str, options: AvroOptions) -> Result<Arc<AvroPlan>, BadSchema> {
    let writers = vec![(WriterKey::Only, schema(writer))];
    AvroPlan::new(schema(reader), writers, Framing::Bare, options).map(Arc::new)
}

pub(crate) fn decoder(reader: &str, writer: &str, mode: Mode) -> AvroDecoder {
    let plan = plan(reader, writer, AvroOptions { mode, ..AvroOptions::default() }).expect(writer);
    AvroDecoder::new(plan, BufferPool::new(1 << 20))
}

/// Fault of a value that is refused.
pub(crate) fn refused(reader: &str, writer: &str, value: &[u8]) -> BadAvro {
    match decoder(reader, writer, Mode::Permissive).append(Some(value)) {
        Ok(AvroAppended::Bad(bad)) => bad,
        other => panic!("{other:?}"),
    }
}

/// Only value of a column, as Debug shows it.
pub(crate) fn one(reader: &str, writer: &str, value: &[u8]) -> Result<String, AvroReason> {
    let mut decoder = decoder(reader, writer, Mode::FailFast);
    decoder.append(Some(value)).map_err(|bad| bad.reason)?;
    let (array, _) = decoder.finish();
    array.to_data().validate_full().expect("a valid array");
    Ok(shown(&array))
}

pub(crate) fn shown(array: &ArrayRef) -> String {
    let shown = format!("{array:?}");
    let lines: Vec<_> = shown.lines().skip(2).filter(|line| *line != "]").map(str::trim).collect();
    lines.join(" ").trim_end_matches(',').to_owned()
}

/// A number in zigzag.
pub(crate) fn long(value: i64) -> Vec<u8> {
    let mut zigzag = (value as u64) << 1 ^ (value >> 63) as u64;
    let mut bytes = Vec::new();
    while zigzag >= 0x80 {
        bytes.push(zigzag as u8 | 0x80);
        zigzag >>= 7;
    }
    bytes.push(zigzag as u8);
    bytes
}

pub(crate) fn text(text: &str) -> Vec<u8> {
    [long(text.len() as i64), text.as_bytes().to_vec()].concat()
}

/// JSON of a record with these fields.
pub(crate) fn record(fields: &str) -> String {
    format!(r#"{{"type":"record","name":"R","fields":[{fields}]}}"#)
}

/// JSON of a field with this type, which is JSON itself.
pub(crate) fn field(name: &str, kind: &str) -> String {
    format!(r#"{{"name":"{name}","type":{kind}}}"#)
}
