//! Decoders for tests, and their rows as texts.

#![allow(dead_code, reason = "not every test needs all of it")]

use std::sync::Arc;

use arrow_array::{Array, StructArray};
use arrow_schema::{DataType, Field, Fields, TimeUnit};
use monedula_columns::BufferPool;
use monedula_formats::{Appended, JsonDecoder, JsonOptions, Mode, ValueFault};

pub(crate) fn field(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, true)
}

pub(crate) fn list(element: DataType) -> DataType {
    DataType::List(Arc::new(field("element", element)))
}

pub(crate) fn map(value: DataType) -> DataType {
    let entries = Fields::from(vec![Field::new("key", DataType::Utf8, false), field("value", value)]);
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries), false)), false)
}

pub(crate) fn structs(fields: Vec<Field>) -> DataType {
    DataType::Struct(Fields::from(fields))
}

pub(crate) fn timestamp() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// One field of every type, with each type in a list, a map and a struct, too.
pub(crate) fn every_type() -> Fields {
    let item = structs(vec![field("price", DataType::Decimal128(10, 2)), field("tags", list(DataType::Utf8))]);
    Fields::from(vec![
        field("boolean", DataType::Boolean),
        field("int8", DataType::Int8),
        field("int16", DataType::Int16),
        field("int32", DataType::Int32),
        field("int64", DataType::Int64),
        field("float32", DataType::Float32),
        field("float64", DataType::Float64),
        field("decimal", DataType::Decimal128(20, 4)),
        field("text", DataType::Utf8),
        field("binary", DataType::Binary),
        field("date", DataType::Date32),
        field("timestamp", timestamp()),
        field("local", DataType::Timestamp(TimeUnit::Microsecond, None)),
        field("items", list(item)),
        field("matrix", list(list(DataType::Int64))),
        field("attributes", map(structs(vec![field("on", DataType::Boolean), field("names", map(DataType::Utf8))]))),
    ])
}

pub(crate) fn decoder(fields: impl Into<Fields>, mode: Mode) -> JsonDecoder {
    let options = JsonOptions { mode, ..JsonOptions::default() };
    JsonDecoder::new(&fields.into(), options, BufferPool::new(1 << 20)).expect("known types")
}

/// Rows of these texts; bad ones stay, with nulls.
pub(crate) fn rows(fields: &Fields, texts: &[impl AsRef<[u8]>]) -> StructArray {
    let mut decoder = decoder(fields.clone(), Mode::Permissive);
    for text in texts {
        decoder.append(Some(text.as_ref())).expect("permissive");
    }
    decoder.finish().0
}

/// Field `a` of `{"a": <json>}` as Debug shows its only value, or the fault.
pub(crate) fn one(data_type: &DataType, json: &str) -> Result<String, ValueFault> {
    let mut decoder = decoder(vec![field("a", data_type.clone())], Mode::Permissive);
    let text = format!("{{\"a\":{json}}}");
    match decoder.append(Some(text.as_bytes())).expect("permissive") {
        Appended::Good => {}
        Appended::Bad(bad) => return Err(bad),
    }
    let column = decoder.finish().0.column(0).clone();
    let shown = format!("{column:?}");
    let lines: Vec<_> = shown.lines().skip(2).filter(|line| *line != "]").map(str::trim).collect();
    Ok(lines.join(" ").trim_end_matches(',').to_owned())
}

pub(crate) fn nulls(array: &dyn Array) -> Vec<bool> {
    (0..array.len()).map(|row| array.is_null(row)).collect()
}
