//! CSV: a null cell is empty, an empty text is `""`.

use std::borrow::Cow;
use std::io::Write;

use arrow_array::StructArray;
use arrow_schema::Schema;
use monedula_formats::encode_base64;

use super::Format;
use super::column::{Cell, Column, headers};
use super::form::{Form, write_hex};
use super::json::write_text;
use super::second_text::SecondText;

#[derive(Default)]
pub(super) struct Csv {
    second: SecondText,
}

impl Format for Csv {
    fn names(schema: &Schema) -> impl Iterator<Item = &str> {
        schema.fields().iter().map(|field| field.name().as_str())
    }

    fn write_row(&mut self, columns: &[Column<'_>], row: usize, out: &mut Vec<u8>) {
        for (index, column) in columns.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            self.write_cell(&column.cell(row), out);
        }
        out.push(b'\n');
    }
}

impl Csv {
    fn write_cell(&mut self, cell: &Cell<'_>, out: &mut Vec<u8>) {
        match cell {
            Cell::Null => {}
            Cell::Text(text) => write_quoted(text.as_bytes(), out),
            // Writing into memory does not fail.
            Cell::Number(number) => drop(write!(out, "{number}")),
            Cell::Time(milliseconds) => self.write_time(*milliseconds, out),
            Cell::Bytes(bytes, form) => write_quoted(&text_of(bytes, *form), out),
            Cell::Headers(entries) => write_quoted(&headers_text(entries), out),
        }
    }

    /// Writes a time in ISO 8601, UTC, with milliseconds; outside the years 1 to 9999, as seconds since 1970.
    fn write_time(&mut self, milliseconds: i64, out: &mut Vec<u8>) {
        let (second, rest) = (milliseconds.div_euclid(1000), milliseconds.rem_euclid(1000));
        let _ = match self.second.of(second) {
            Some(text) => write!(out, "{text}.{rest:03}Z"),
            None => write!(out, "{second}s after 1970.{rest:03}Z"),
        };
    }
}

/// Writes a text, in quotes where it needs them.
fn write_quoted(text: &[u8], out: &mut Vec<u8>) {
    if !text.is_empty() && !text.iter().any(|byte| matches!(byte, b'"' | b',' | b'\r' | b'\n')) {
        return out.extend_from_slice(text);
    }
    out.push(b'"');
    for part in text.split_inclusive(|&byte| byte == b'"') {
        out.extend_from_slice(part);
        if part.ends_with(b"\"") {
            out.push(b'"');
        }
    }
    out.push(b'"');
}

/// A key or value as text; as hex after `0x` if it is not UTF-8 and no form is asked for.
fn text_of(bytes: &[u8], form: Form) -> Cow<'_, [u8]> {
    let mut digits = Vec::new();
    match (form, std::str::from_utf8(bytes)) {
        (Form::Hex, _) => write_hex(bytes, &mut digits),
        (Form::Base64, _) => encode_base64(bytes, &mut digits),
        (Form::Auto | Form::Text | Form::Json | Form::Decoded, Ok(_)) => return Cow::Borrowed(bytes),
        (Form::Text, Err(_)) => return String::from_utf8_lossy(bytes).into_owned().into_bytes().into(),
        (Form::Auto | Form::Json | Form::Decoded, Err(_)) => {
            digits.extend_from_slice(b"0x");
            write_hex(bytes, &mut digits);
        }
    }
    Cow::Owned(digits)
}

/// Headers as a list of objects in JSON.
fn headers_text(entries: &StructArray) -> Vec<u8> {
    let mut out = vec![b'['];
    for (index, (key, value)) in headers(entries).enumerate() {
        out.extend_from_slice(if index == 0 { b"{\"key\":" } else { b",{\"key\":" });
        write_text(key, &mut out);
        out.extend_from_slice(b",\"value\":");
        match value {
            Some(value) => write_text(&String::from_utf8_lossy(&text_of(value, Form::Auto)), &mut out),
            None => out.extend_from_slice(b"null"),
        }
        out.push(b'}');
    }
    out.push(b']');
    out
}
