//! JSON, one object per line.

use std::io::Write;

use arrow_array::StructArray;
use arrow_schema::Schema;
use monedula_formats::encode_base64;
use serde::de::IgnoredAny;

use super::Format;
use super::column::{Cell, Column, headers};
use super::form::{Form, write_hex};
use super::second_text::SecondText;

/// Topic, partition and offset first.
const NAMES: [&str; 8] = ["topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers"];

#[derive(Default)]
pub(super) struct Json {
    second: SecondText,
}

impl Format for Json {
    fn names(_: &Schema) -> impl Iterator<Item = &str> {
        NAMES.into_iter()
    }

    fn write_row(&mut self, columns: &[Column<'_>], row: usize, out: &mut Vec<u8>) {
        let before = out.len();
        for column in columns {
            self.write_field(column.name, &column.cell(row), out);
        }
        // Each field has a comma before it.
        match out.get_mut(before) {
            Some(comma) => *comma = b'{',
            None => out.push(b'{'),
        }
        out.extend_from_slice(b"}\n");
    }
}

impl Json {
    fn write_field(&mut self, name: &str, cell: &Cell<'_>, out: &mut Vec<u8>) {
        match cell {
            Cell::Bytes(bytes, form) => return write_bytes(name, Some(bytes), *form, out),
            Cell::Null if name == "headers" => return,
            _ => write_name(name, "", out),
        }
        match cell {
            Cell::Text(text) => write_text(text, out),
            Cell::Number(number) => write_number(*number, out),
            Cell::Time(milliseconds) => self.write_time(*milliseconds, out),
            Cell::Headers(entries) => write_headers(entries, out),
            Cell::Null | Cell::Bytes(..) => out.extend_from_slice(b"null"),
        }
    }

    /// Writes a time in ISO 8601, UTC, with milliseconds; outside the years 1 to 9999, the milliseconds since 1970.
    fn write_time(&mut self, milliseconds: i64, out: &mut Vec<u8>) {
        match self.second.of(milliseconds.div_euclid(1000)) {
            Some(text) => drop(write!(out, "\"{text}.{:03}Z\"", milliseconds.rem_euclid(1000))),
            None => write_number(milliseconds, out),
        }
    }
}

fn write_name(name: &str, kind: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\":");
}

pub(super) fn write_text(text: &str, out: &mut Vec<u8>) {
    // Writing into memory does not fail.
    let _ = serde_json::to_writer(out, text);
}

fn write_number(number: i64, out: &mut Vec<u8>) {
    let _ = write!(out, "{number}");
}

/// Writes a key or value. If it is not written as text, its name has a suffix, such as `value_base64`.
fn write_bytes(name: &str, bytes: Option<&[u8]>, form: Form, out: &mut Vec<u8>) {
    let Some(bytes) = bytes else {
        write_name(name, "", out);
        return out.extend_from_slice(b"null");
    };
    match (form, std::str::from_utf8(bytes)) {
        (Form::Hex, _) => {
            write_name(name, "_hex", out);
            out.push(b'"');
            write_hex(bytes, out);
            out.push(b'"');
        }
        (Form::Json, Ok(text)) if is_unambiguous(text) && serde_json::from_str::<IgnoredAny>(text).is_ok() => {
            write_name(name, "", out);
            out.extend_from_slice(bytes);
        }
        (Form::Decoded, Ok(_)) => {
            write_name(name, "", out);
            out.extend_from_slice(bytes);
        }
        (Form::Auto | Form::Text | Form::Json, Ok(text)) => {
            write_name(name, "", out);
            write_text(text, out);
        }
        (Form::Text, Err(_)) => {
            write_name(name, "", out);
            write_text(&String::from_utf8_lossy(bytes), out);
        }
        (Form::Base64, _) | (Form::Auto | Form::Json | Form::Decoded, Err(_)) => {
            write_name(name, "_base64", out);
            out.push(b'"');
            encode_base64(bytes, out);
            out.push(b'"');
        }
    }
}

fn write_headers(entries: &StructArray, out: &mut Vec<u8>) {
    out.push(b'[');
    for (index, (key, value)) in headers(entries).enumerate() {
        out.extend_from_slice(if index == 0 { b"{\"key\":" } else { b",{\"key\":" });
        write_text(key, out);
        write_bytes("value", value, Form::Auto, out);
        out.push(b'}');
    }
    out.push(b']');
}

/// True if JSON that stands in a line as it is means these bytes and nothing else. `null` would be no value, a text in
/// quotes the text without them, and a line has neither line breaks nor the spaces around a value.
fn is_unambiguous(text: &str) -> bool {
    let is_padded = text.trim_matches([' ', '\t', '\r', '\n']).len() < text.len();
    !is_padded && text != "null" && !text.starts_with('"') && !text.contains(['\n', '\r'])
}
