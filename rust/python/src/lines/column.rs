//! The columns of a batch, and their cells, for any format of lines.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, BinaryArray, Int32Array, Int64Array, ListArray, StringArray};
use arrow_array::{StructArray, TimestampMicrosecondArray};
use arrow_schema::DataType;

use super::form::Form;

/// One of Kafka's columns.
pub(super) struct Column<'b> {
    pub(super) name: &'b str,
    cells: Cells<'b>,
}

enum Cells<'b> {
    Text(&'b StringArray),
    Int32(&'b Int32Array),
    Int64(&'b Int64Array),
    Time(&'b TimestampMicrosecondArray),
    Bytes(&'b BinaryArray, Form),
    Headers(&'b ListArray),
}

pub(super) enum Cell<'b> {
    Null,
    Text(&'b str),
    Number(i64),
    /// Milliseconds since 1970.
    Time(i64),
    Bytes(&'b [u8], Form),
    /// Pairs of keys and values.
    Headers(StructArray),
}

impl<'b> Column<'b> {
    /// A column whose bytes, if it has such, are written in `form`.
    pub(super) fn new(name: &'b str, array: &'b ArrayRef, form: Form) -> Self {
        let cells = match array.data_type() {
            DataType::Utf8 => Cells::Text(array.as_string()),
            DataType::Int32 => Cells::Int32(array.as_primitive::<Int32Type>()),
            DataType::Int64 => Cells::Int64(array.as_primitive::<Int64Type>()),
            DataType::Timestamp(..) => Cells::Time(array.as_primitive::<TimestampMicrosecondType>()),
            DataType::Binary => Cells::Bytes(array.as_binary(), form),
            _ => Cells::Headers(array.as_list()),
        };
        Self { name, cells }
    }

    pub(super) fn cell(&self, row: usize) -> Cell<'b> {
        match self.cells {
            Cells::Text(texts) if texts.is_valid(row) => Cell::Text(texts.value(row)),
            Cells::Int32(numbers) if numbers.is_valid(row) => Cell::Number(numbers.value(row).into()),
            Cells::Int64(numbers) if numbers.is_valid(row) => Cell::Number(numbers.value(row)),
            Cells::Time(micros) if micros.is_valid(row) => Cell::Time(micros.value(row).div_euclid(1000)),
            Cells::Bytes(bytes, form) if bytes.is_valid(row) => Cell::Bytes(bytes.value(row), form),
            Cells::Headers(lists) if lists.is_valid(row) => Cell::Headers(lists.value(row).as_struct().clone()),
            _ => Cell::Null,
        }
    }
}

/// The keys and values of a row's headers.
pub(super) fn headers(entries: &StructArray) -> impl Iterator<Item = (&str, Option<&[u8]>)> {
    entries.column(0).as_string::<i32>().iter().map(Option::unwrap_or_default).zip(entries.column(1).as_binary::<i32>())
}
