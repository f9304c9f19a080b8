//! Numbers and texts as JSON, in the form that Jackson gives them for Spark.

use std::fmt::LowerExp;
use std::io::Write;

use crate::json::base64;

pub(super) fn boolean(value: bool) -> &'static [u8] {
    if value { b"true" } else { b"false" }
}

pub(super) fn int(value: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Writes a text that needs no escape, in quotes.
pub(super) fn quoted(write: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    out.push(b'"');
    write(out);
    out.push(b'"');
}

/// Letter of each byte's escape; 0 for none, `u` for bytes without a letter of their own.
const ESCAPES: [u8; 256] = {
    let mut escapes = [0; 256];
    let mut byte = 0;
    while byte < 0x20 {
        escapes[byte] = b'u';
        byte += 1;
    }
    escapes[0x08] = b'b';
    escapes[b'\t' as usize] = b't';
    escapes[b'\n' as usize] = b'n';
    escapes[0x0c] = b'f';
    escapes[b'\r' as usize] = b'r';
    escapes[b'"' as usize] = b'"';
    escapes[b'\\' as usize] = b'\\';
    escapes
};

/// Writes a text in quotes; its bytes are UTF-8.
pub(in crate::json) fn text(text: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    out.push(b'"');
    let mut rest = text;
    while let Some(plain) = rest.iter().position(|byte| ESCAPES[usize::from(*byte)] != 0) {
        let byte = rest[plain];
        out.extend_from_slice(&rest[..plain]);
        match ESCAPES[usize::from(byte)] {
            b'u' => {
                let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&digits);
            }
            letter => out.extend_from_slice(&[b'\\', letter]),
        }
        rest = &rest[plain + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// Writes bytes as base64 with padding, in quotes.
pub(super) fn base64(bytes: &[u8], out: &mut Vec<u8>) {
    quoted(|out| base64::encode(bytes, out), out);
}

pub(super) fn double(value: f64, out: &mut Vec<u8>) {
    if !not_finite(value, out) {
        finite(value, out);
    }
}

pub(super) fn float(value: f32, out: &mut Vec<u8>) {
    if !not_finite(value.into(), out) {
        finite(value, out);
    }
}

#[inline]
fn finite(value: impl LowerExp, out: &mut Vec<u8>) {
    let mut buffer = [0; 32];
    let mut rest = &mut buffer[..];
    // The shortest digits that parse to the same number take less than 25 bytes.
    let _ = write!(rest, "{value:e}");
    let left = rest.len();
    as_java(&buffer[..32 - left], out);
}

/// Writes NaN and infinities in quotes, since JSON has no literal for them.
fn not_finite(value: f64, out: &mut Vec<u8>) -> bool {
    let name: &[u8] = match value {
        value if value.is_nan() => b"\"NaN\"",
        f64::INFINITY => b"\"Infinity\"",
        f64::NEG_INFINITY => b"\"-Infinity\"",
        _ => return false,
    };
    out.extend_from_slice(name);
    true
}

/// Writes a number such as `-1.25e-7` as Java does: with a point, and with an exponent from 10^7 on and below 10^-3.
fn as_java(scientific: &[u8], out: &mut Vec<u8>) {
    let scientific = match scientific.strip_prefix(b"-") {
        Some(positive) => {
            out.push(b'-');
            positive
        }
        None => scientific,
    };
    let end = scientific.iter().position(|byte| *byte == b'e').unwrap_or(scientific.len());
    let exponent = scientific.get(end + 1..).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or("0");
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (first, behind) = (&scientific[..1], scientific.get(2..end).unwrap_or_default());
    match exponent {
        0..7 => {
            let whole = exponent as usize;
            let split = whole.min(behind.len());
            out.extend_from_slice(first);
            out.extend_from_slice(&behind[..split]);
            out.resize(out.len() + whole - split, b'0');
            out.push(b'.');
            fraction(&behind[split..], out);
        }
        -3..0 => {
            out.extend_from_slice(b"0.");
            out.resize(out.len() + (-exponent - 1) as usize, b'0');
            out.extend_from_slice(first);
            out.extend_from_slice(behind);
        }
        _ => {
            out.extend_from_slice(first);
            out.push(b'.');
            fraction(behind, out);
            out.push(b'E');
            int(exponent, out);
        }
    }
}

/// Writes at least one digit.
fn fraction(digits: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(if digits.is_empty() { b"0" } else { digits });
}

/// Writes a decimal with `scale` places behind the point like Java's `BigDecimal`: with an exponent below 10^-6.
pub(super) fn decimal(unscaled: i128, scale: usize, out: &mut Vec<u8>) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(unscaled.unsigned_abs()).as_bytes();
    if unscaled < 0 {
        out.push(b'-');
    }
    if scale == 0 {
        out.extend_from_slice(digits);
    } else if digits.len() > scale {
        let (whole, behind) = digits.split_at(digits.len() - scale);
        out.extend_from_slice(whole);
        out.push(b'.');
        out.extend_from_slice(behind);
    } else if scale - digits.len() < 6 {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + scale - digits.len(), b'0');
        out.extend_from_slice(digits);
    } else {
        out.push(digits[0]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        out.extend_from_slice(b"E-");
        int((scale - digits.len() + 1) as u64, out);
    }
}

#[cfg(test)]
mod tests {
    use super::{base64, decimal, double, float, text};

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn numbers_are_written_as_java_writes_them() {
        let cases = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (-123.25, "-123.25"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (1.25e10, "1.25E10"),
            (0.001, "0.001"),
            (0.000_25, "2.5E-4"),
            (1e23, "1.0E23"),
            (f64::MAX, "1.7976931348623157E308"),
            (5e-324, "5.0E-324"),
            (f64::NAN, "\"NaN\""),
            (f64::NEG_INFINITY, "\"-Infinity\""),
        ];
        for (value, expected) in cases {
            assert_eq!(written(|out| double(value, out)), expected);
        }
        assert_eq!(written(|out| float(0.1, out)), "0.1");
        assert_eq!(written(|out| float(16_777_216.0, out)), "1.6777216E7");
    }

    #[test]
    fn decimals_are_written_as_java_writes_them() {
        let cases = [
            (0, 0, "0"),
            (0, 2, "0.00"),
            (-5, 2, "-0.05"),
            (12_345, 2, "123.45"),
            (1, 6, "0.000001"),
            (1, 7, "1E-7"),
            (123, 9, "1.23E-7"),
            (0, 7, "0E-7"),
            (i128::MIN, 0, "-170141183460469231731687303715884105728"),
        ];
        for (unscaled, scale, expected) in cases {
            assert_eq!(written(|out| decimal(unscaled, scale, out)), expected);
        }
    }

    #[test]
    fn texts_have_the_escapes_that_they_need() {
        assert_eq!(written(|out| text("a\"\\/\u{1f}\n€\u{7f}".as_bytes(), out)), "\"a\\\"\\\\/\\u001F\\n€\u{7f}\"");
        for (bytes, expected) in [("", ""), ("h", "aA=="), ("hi", "aGk="), ("hi!", "aGkh")] {
            assert_eq!(written(|out| base64(bytes.as_bytes(), out)), format!("\"{expected}\""));
        }
    }
}
