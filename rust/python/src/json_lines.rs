//! Rows as JSON, one object per line: the output of `monedula consume --format json`.

use std::io::Write;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, BinaryArray, Int32Array, Int64Array, ListArray, RecordBatch, StringArray};
use arrow_array::{StructArray, TimestampMicrosecondArray};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::de::IgnoredAny;

use crate::batch::Batch;
use crate::capsule;
use crate::error::argument_error;

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const HEX: &[u8; 16] = b"0123456789abcdef";

/// The range of timestamps that are written as dates: from the start of year 1 to the end of year 9999, in seconds
/// since the epoch. Their years have four digits.
const WRITTEN_SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// The form in which a key or a value is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Text; base64 if it is not UTF-8.
    Auto,
    /// Text, with invalid UTF-8 replaced.
    Text,
    /// Unchanged if it is JSON, and can be read back as the same bytes; else like `Auto`.
    Json,
    /// JSON that was made of a decoded value; unchanged.
    Decoded,
    Base64,
    Hex,
}

impl Form {
    fn named(py: Python<'_>, name: &str) -> PyResult<Self> {
        Ok(match name {
            "auto" => Self::Auto,
            "string" => Self::Text,
            "json" => Self::Json,
            "decoded" => Self::Decoded,
            "base64" => Self::Base64,
            "hex" => Self::Hex,
            other => return Err(argument_error(py, format!("no such form: {other}"))),
        })
    }
}

/// The first `rows` rows of a batch, or of Arrow data with its columns, as JSON, one object per line, in UTF-8.
#[pyfunction]
pub(crate) fn json_lines<'py>(
    py: Python<'py>,
    batch: &Bound<'py, PyAny>,
    rows: usize,
    key_form: &str,
    value_form: &str,
) -> PyResult<Bound<'py, PyBytes>> {
    let forms = (Form::named(py, key_form)?, Form::named(py, value_form)?);
    let batches = match batch.cast::<Batch>() {
        Ok(batch) => vec![batch.get().0.columns.record_batch.clone()],
        Err(_) => {
            let imported: Result<_, _> = capsule::import(batch)?.collect();
            imported.map_err(|error| capsule::unreadable(py, &error))?
        }
    };
    let lines = py.detach(|| {
        let mut left = rows;
        let mut lines = Vec::new();
        for batch in &batches {
            lines.extend(Columns::of(batch, forms).lines(left));
            left -= left.min(batch.num_rows());
        }
        lines
    });
    Ok(PyBytes::new(py, &lines))
}

/// A column of a batch, with its type.
enum Column<'b> {
    Topic(&'b StringArray),
    Whole(&'static str, &'b Int32Array),
    Offset(&'b Int64Array),
    Time(&'b TimestampMicrosecondArray),
    Bytes(&'static str, &'b BinaryArray, Form),
    Headers(&'b ListArray),
}

struct Columns<'b> {
    rows: usize,
    columns: Vec<Column<'b>>,
}

impl<'b> Columns<'b> {
    /// The columns in the order in which they are written: topic, partition and offset first.
    fn of(batch: &'b RecordBatch, (key_form, value_form): (Form, Form)) -> Self {
        let of = |name| batch.column_by_name(name);
        let bytes = |name, form| of(name).map(|column: &ArrayRef| Column::Bytes(name, column.as_binary::<i32>(), form));
        let whole = |name| of(name).map(|column: &ArrayRef| Column::Whole(name, column.as_primitive::<Int32Type>()));
        let columns = [
            of("topic").map(|column| Column::Topic(column.as_string::<i32>())),
            whole("partition"),
            of("offset").map(|column| Column::Offset(column.as_primitive::<Int64Type>())),
            of("timestamp").map(|column| Column::Time(column.as_primitive::<TimestampMicrosecondType>())),
            whole("timestampType"),
            bytes("key", key_form),
            bytes("value", value_form),
            of("headers").map(|column| Column::Headers(column.as_list::<i32>())),
        ];
        Self { rows: batch.num_rows(), columns: columns.into_iter().flatten().collect() }
    }

    fn lines(&self, rows: usize) -> Vec<u8> {
        let rows = rows.min(self.rows);
        let mut line = Line { out: Vec::with_capacity(rows * 160), second: None };
        for row in 0..rows {
            let before = line.out.len();
            for column in &self.columns {
                line.field(column, row);
            }
            match line.out.get_mut(before) {
                Some(comma) => *comma = b'{',
                None => line.out.push(b'{'),
            }
            line.out.extend_from_slice(b"}\n");
        }
        line.out
    }
}

/// The output so far. Each field is written with a comma before it.
struct Line {
    out: Vec<u8>,
    /// The last formatted second and its text, since consecutive records often have the same second.
    second: Option<(i64, String)>,
}

impl Line {
    fn field(&mut self, column: &Column<'_>, row: usize) {
        match column {
            Column::Topic(topics) => {
                self.name("topic", "");
                self.text(if topics.is_valid(row) { topics.value(row) } else { "" });
            }
            Column::Whole(name, numbers) => {
                self.name(name, "");
                self.number(numbers.is_valid(row).then(|| i64::from(numbers.value(row))));
            }
            Column::Offset(offsets) => {
                self.name("offset", "");
                self.number(offsets.is_valid(row).then(|| offsets.value(row)));
            }
            Column::Time(times) => {
                self.name("timestamp", "");
                match times.is_valid(row) {
                    true => self.time(times.value(row).div_euclid(1000)),
                    false => self.number(None),
                }
            }
            Column::Bytes(name, bytes, form) => self.bytes(name, bytes.is_valid(row).then(|| bytes.value(row)), *form),
            Column::Headers(headers) if headers.is_valid(row) => self.headers(headers.value(row).as_struct()),
            Column::Headers(_) => {}
        }
    }

    fn name(&mut self, name: &str, kind: &str) {
        self.out.extend_from_slice(b",\"");
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(kind.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    fn text(&mut self, text: &str) {
        // Writing into memory does not fail.
        let _ = serde_json::to_writer(&mut self.out, text);
    }

    fn number(&mut self, number: Option<i64>) {
        let _ = match number {
            Some(number) => write!(self.out, "{number}"),
            None => self.out.write_all(b"null"),
        };
    }

    /// Writes a key or value. If it is not written as text, its name has a suffix, such as `value_base64`.
    fn bytes(&mut self, name: &str, bytes: Option<&[u8]>, form: Form) {
        let Some(bytes) = bytes else {
            self.name(name, "");
            return self.number(None);
        };
        match (form, std::str::from_utf8(bytes)) {
            (Form::Hex, _) => {
                self.name(name, "_hex");
                self.hex(bytes);
            }
            (Form::Json, Ok(text)) if is_unambiguous(text) && serde_json::from_str::<IgnoredAny>(text).is_ok() => {
                self.name(name, "");
                self.out.extend_from_slice(bytes);
            }
            (Form::Decoded, Ok(_)) => {
                self.name(name, "");
                self.out.extend_from_slice(bytes);
            }
            (Form::Auto | Form::Text | Form::Json, Ok(text)) => {
                self.name(name, "");
                self.text(text);
            }
            (Form::Text, Err(_)) => {
                self.name(name, "");
                self.text(&String::from_utf8_lossy(bytes));
            }
            (Form::Base64, _) | (Form::Auto | Form::Json | Form::Decoded, Err(_)) => {
                self.name(name, "_base64");
                self.base64(bytes);
            }
        }
    }

    fn headers(&mut self, entries: &StructArray) {
        let (keys, values) = (entries.column(0).as_string::<i32>(), entries.column(1).as_binary::<i32>());
        self.name("headers", "");
        self.out.push(b'[');
        for index in 0..entries.len() {
            self.out.extend_from_slice(if index == 0 { b"{\"key\":" } else { b",{\"key\":" });
            self.text(keys.value(index));
            self.bytes("value", values.is_valid(index).then(|| values.value(index)), Form::Auto);
            self.out.push(b'}');
        }
        self.out.push(b']');
    }

    /// Writes a time in ISO 8601, UTC, with milliseconds; outside the years 1 to 9999, the milliseconds since 1970.
    fn time(&mut self, milliseconds: i64) {
        if !WRITTEN_SECONDS.contains(&milliseconds.div_euclid(1000)) {
            return self.number(Some(milliseconds));
        }
        let (second, rest) = (milliseconds.div_euclid(1000), milliseconds.rem_euclid(1000));
        if self.second.as_ref().is_none_or(|(known, _)| *known != second) {
            self.second = Some((second, second_text(second)));
        }
        let text = self.second.as_ref().map_or("", |(_, text)| text);
        let _ = write!(self.out, "\"{text}.{rest:03}Z\"");
    }

    fn hex(&mut self, bytes: &[u8]) {
        self.out.push(b'"');
        let digits = bytes.iter().flat_map(|byte| [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        self.out.extend(digits);
        self.out.push(b'"');
    }

    fn base64(&mut self, bytes: &[u8]) {
        self.out.push(b'"');
        for chunk in bytes.chunks(3) {
            let mut group = [0; 4];
            group[1..=chunk.len()].copy_from_slice(chunk);
            let bits = u32::from_be_bytes(group);
            for index in 0..4 {
                let sextet = (bits >> (18 - 6 * index)) & 0x3f;
                self.out.push(if index > chunk.len() { b'=' } else { BASE64[sextet as usize] });
            }
        }
        self.out.push(b'"');
    }
}

/// Whether JSON that stands in a line as it is means these bytes and nothing else. `null` would be no value, a text in
/// quotes the text without them, and a line has neither line breaks nor the spaces around a value.
fn is_unambiguous(text: &str) -> bool {
    let is_padded = text.trim_matches([' ', '\t', '\r', '\n']).len() < text.len();
    !is_padded && text != "null" && !text.starts_with('"') && !text.contains(['\n', '\r'])
}

/// The date and time of a second since the epoch, as text.
fn second_text(second: i64) -> String {
    let (days, time) = (second.div_euclid(86_400), second.rem_euclid(86_400));
    // Years begin in March here, so that the leap day is the last day of a year. A cycle of 400 years has 146097 days;
    // one began 719468 days before 1970.
    let (cycle, day) = ((days + 719_468).div_euclid(146_097), (days + 719_468).rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = cycle * 400 + year + next_year;
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}
