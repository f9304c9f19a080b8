//! The form in which a key or a value is written, and the digits of those that are no text.

use pyo3::prelude::*;

use crate::error::argument_error;

const HEX: &[u8; 16] = b"0123456789abcdef";

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Text; base64 in JSON, and hex after `0x` in CSV, if it is not UTF-8.
    Auto,
    /// Text, with invalid UTF-8 replaced.
    Text,
    /// Unchanged in JSON if it is JSON, and can be read back as the same bytes; else like `Auto`.
    Json,
    /// JSON that was made of a decoded value; unchanged.
    Decoded,
    Base64,
    Hex,
}

impl Form {
    pub(super) fn named(py: Python<'_>, name: &str) -> PyResult<Self> {
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

pub(super) fn write_hex(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend(bytes.iter().flat_map(|byte| [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]));
}
