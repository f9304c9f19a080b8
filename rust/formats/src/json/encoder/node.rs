//! Columns bound to the type that they are decoded as, and the writing of their rows.

use arrow_buffer::{BooleanBuffer, NullBuffer};

use super::scalar;
use super::shown::Time;
use crate::json::time::{Pattern, TimeZone, write_date, write_timestamp};
use crate::writing::{Bounds, Decimals, Entries, Fault, Floats, Ints, Keys, Texts, Times, Written, uuid_text};

/// A bound column, or a child of one.
#[derive(Debug)]
pub(super) struct Node<'a> {
    pub(super) nulls: Option<NullBuffer>,
    pub(super) values: Values<'a>,
}

#[derive(Debug)]
pub(super) struct ObjectMember<'a> {
    pub(super) name: Box<str>,
    /// Name as JSON, with the colon.
    pub(super) label: Vec<u8>,
    pub(super) node: Node<'a>,
}

#[derive(Debug)]
pub(super) enum Values<'a> {
    Nulls,
    Booleans(BooleanBuffer),
    /// Integers within the range of the type that they are decoded as.
    Ints {
        ints: Ints<'a>,
        kind: &'static str,
        least: i64,
        most: i64,
    },
    Unsigned(&'a [u64]),
    Float(Floats<'a>),
    Double(Floats<'a>),
    /// Integers as floats; true for f64.
    IntsAsFloats(Ints<'a>, bool),
    Text(Texts<'a>),
    Binary(Texts<'a>),
    /// UUIDs, written as texts.
    Uuid(Texts<'a>),
    /// Values that already are JSON.
    Json(Texts<'a>),
    Date(Times<'a>, Option<&'a Pattern>),
    /// Timestamps in a zone, or local ones.
    Timestamp(Times<'a>, Option<&'a TimeZone>, Option<&'a Pattern>),
    Decimals(Decimals<'a>, usize),
    /// Dates, times and durations for a screen.
    Shown(Time<'a>),
    /// Object, and true if null fields are omitted.
    Object(Vec<ObjectMember<'a>>, bool),
    List(Bounds<'a>, Box<Node<'a>>),
    Map(Entries<'a>, Box<Node<'a>>),
    /// Dictionary or run-end encoded: the index of each row's value, and the values.
    Indexed(Vec<usize>, Box<Node<'a>>),
}

impl Node<'_> {
    fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    pub(super) fn write(&self, row: usize, out: &mut Vec<u8>) -> Written {
        if self.is_null(row) {
            out.extend_from_slice(b"null");
            return Ok(());
        }
        self.values.write(row, out)
    }
}

impl Values<'_> {
    fn write(&self, row: usize, out: &mut Vec<u8>) -> Written {
        match self {
            Self::Nulls => out.extend_from_slice(b"null"),
            Self::Booleans(values) => out.extend_from_slice(scalar::boolean(values.value(row))),
            Self::Ints { ints, kind, least, most } => {
                let value = ints.long(row)?;
                if value < *least || value > *most {
                    return Err(Fault::new(format!("{value} is beyond the range of the schema's {kind}")));
                }
                scalar::int(value, out);
            }
            Self::Unsigned(values) => scalar::int(values[row], out),
            Self::Float(floats) => scalar::float(floats.float(row)?, out),
            Self::Double(floats) => scalar::double(floats.double(row), out),
            Self::IntsAsFloats(ints, true) => scalar::double(ints.double(row)?, out),
            Self::IntsAsFloats(ints, false) => scalar::float(ints.float(row)?, out),
            Self::Text(texts) => scalar::text(texts.get(row)?, out),
            Self::Binary(texts) => scalar::base64(texts.get(row)?, out),
            Self::Uuid(bytes) => {
                let bytes = bytes.get(row)?;
                scalar::quoted(|out| uuid_text(bytes, out), out);
            }
            Self::Json(texts) => {
                let text = texts.get(row)?;
                if let Err(error) = serde_json::from_slice::<serde_json::Value>(text) {
                    return Err(Fault::new(format!("the column's type is JSON, and this text is none: {error}")));
                }
                out.extend_from_slice(text);
            }
            Self::Date(days, pattern) => date(days.get(row)?, *pattern, out)?,
            Self::Timestamp(times, zone, pattern) => timestamp(times.get(row)?, *zone, *pattern, out)?,
            Self::Shown(time) => time.write(row, out)?,
            Self::Decimals(decimals, scale) => scalar::decimal(decimals.get(row)?, *scale, out),
            Self::Object(members, leaves_nulls_out) => {
                let first = out.len() + 1;
                out.push(b'{');
                for member in members {
                    if *leaves_nulls_out && member.node.is_null(row) {
                        continue;
                    }
                    separated(first, out);
                    out.extend_from_slice(&member.label);
                    member.node.write(row, out).map_err(|fault| fault.within(&member.name))?;
                }
                out.push(b'}');
            }
            Self::List(bounds, items) => {
                let (range, first) = (bounds.get(row), out.len() + 1);
                let start = range.start;
                out.push(b'[');
                for item in range {
                    separated(first, out);
                    items.write(item, out).map_err(|fault| fault.at(item - start))?;
                }
                out.push(b']');
            }
            Self::Map(entries, values) => {
                let first = out.len() + 1;
                out.push(b'{');
                for entry in entries.get(row)? {
                    separated(first, out);
                    let key = out.len();
                    write_key(&entries.keys, entry, out);
                    let key = key..out.len();
                    out.push(b':');
                    if let Err(fault) = values.write(entry, out) {
                        return Err(fault.within(&format!("[{}]", String::from_utf8_lossy(&out[key]))));
                    }
                }
                out.push(b'}');
            }
            Self::Indexed(indices, values) => values.write(indices[row], out)?,
        }
        Ok(())
    }
}

/// Writes the key of an entry, which is a text in JSON.
fn write_key(keys: &Keys<'_>, entry: usize, out: &mut Vec<u8>) {
    match keys {
        Keys::Texts(texts) => scalar::text(texts.bytes(entry), out),
        Keys::Ints(ints) => scalar::quoted(|out| scalar::int(ints.wide(entry), out), out),
        Keys::Booleans(values) => {
            scalar::quoted(|out| out.extend_from_slice(scalar::boolean(values.value(entry))), out);
        }
        Keys::Indexed(indices, keys) => write_key(keys, indices[entry], out),
        // Binding refuses columns with such keys.
        Keys::Others => {}
    }
}

/// Writes a comma, unless nothing was written since position `first`.
#[inline]
fn separated(first: usize, out: &mut Vec<u8>) {
    if out.len() > first {
        out.push(b',');
    }
}

fn date(days: i64, pattern: Option<&Pattern>, out: &mut Vec<u8>) -> Written {
    let Some(pattern) = pattern else {
        scalar::quoted(|out| write_date(days, out), out);
        return Ok(());
    };
    by_pattern(out, |text| pattern.write_date(days, text))
}

fn timestamp(micros: i64, zone: Option<&TimeZone>, pattern: Option<&Pattern>, out: &mut Vec<u8>) -> Written {
    let Some(pattern) = pattern else {
        scalar::quoted(|out| write_timestamp(micros, zone, out), out);
        return Ok(());
    };
    by_pattern(out, |text| pattern.write_timestamp(micros, zone, text))
}

/// Writes a text formatted by a pattern, whose literals may need an escape.
fn by_pattern(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Result<(), &'static str>) -> Written {
    let mut text = Vec::new();
    write(&mut text).map_err(Fault::new)?;
    scalar::text(&text, out);
    Ok(())
}
