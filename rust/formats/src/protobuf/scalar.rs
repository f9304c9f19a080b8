//! Decoding of scalars, and of Google's messages that become scalars.

use super::error::{BadProtobuf, DecodeResult, ProtobufReason};
use super::plan::FieldStep;
use super::wire::{BYTES, Cursor, FIXED32, FIXED64, VARINT};
use crate::column::Column;

/// Decodes one value behind its tag as a row of the column.
#[inline(always)]
pub(crate) fn scalar(step: &FieldStep, column: &mut Column, cursor: &mut Cursor<'_>) -> DecodeResult {
    match (step, column) {
        (FieldStep::Varint64, Column::Int64(values) | Column::UInt64(values)) => {
            values.push(cursor.varint()?.to_ne_bytes());
        }
        (FieldStep::Text, Column::Utf8(texts)) => {
            let start = cursor.at;
            if !texts.push(cursor.text()?) {
                return Err(BadProtobuf::new(ProtobufReason::OutOfRange("utf8"), start));
            }
        }
        (FieldStep::Fixed64, Column::Float64(values) | Column::Int64(values) | Column::UInt64(values)) => {
            values.push(u64::from_le_bytes(cursor.array()?).to_ne_bytes());
        }
        // Excess bits are cut off, as in Google's parsers.
        (FieldStep::Varint32 | FieldStep::EnumNumber(_), Column::Int32(values) | Column::UInt32(values)) => {
            values.push((cursor.varint()? as u32).to_ne_bytes());
        }
        (FieldStep::Bool, Column::Boolean(bits)) => bits.push(cursor.varint()? != 0),
        (step, column) => return rarer(step, column, cursor),
    }
    Ok(())
}

#[inline(never)]
fn rarer(step: &FieldStep, column: &mut Column, cursor: &mut Cursor<'_>) -> DecodeResult {
    match (step, column) {
        (FieldStep::Fixed32, Column::Float32(values) | Column::Int32(values) | Column::UInt32(values)) => {
            values.push(u32::from_le_bytes(cursor.array()?).to_ne_bytes());
        }
        (FieldStep::SInt32, Column::Int32(values)) => {
            let zigzag = cursor.varint()? as u32;
            values.push(((zigzag >> 1) as i32 ^ -((zigzag & 1) as i32)).to_ne_bytes());
        }
        (FieldStep::SInt64, Column::Int64(values)) => values.push(cursor.zigzag()?.to_ne_bytes()),
        (FieldStep::Bytes, Column::Binary(bytes)) => {
            let start = cursor.at;
            if !bytes.push(cursor.take()?) {
                return Err(BadProtobuf::new(ProtobufReason::OutOfRange("binary"), start));
            }
        }
        (FieldStep::UInt32AsLong, Column::Int64(values)) => {
            values.push(i64::from(cursor.varint()? as u32).to_ne_bytes());
        }
        (FieldStep::Fixed32AsLong, Column::Int64(values)) => {
            values.push(i64::from(u32::from_le_bytes(cursor.array()?)).to_ne_bytes());
        }
        (FieldStep::UInt64AsDecimal, Column::Decimal { values, .. }) => {
            values.push(i128::from(cursor.varint()?).to_ne_bytes());
        }
        (FieldStep::Fixed64AsDecimal, Column::Decimal { values, .. }) => {
            values.push(i128::from(u64::from_le_bytes(cursor.array()?)).to_ne_bytes());
        }
        // Unreachable: the plan was made for these columns.
        (_, column) => return Err(cursor.fault(ProtobufReason::OutOfRange(column.type_name()))),
    }
    Ok(())
}

/// Appends the zero of a type, for a field that is missing. Returns false if there are too many for 32-bit offsets.
#[must_use]
pub(crate) fn zero(step: &FieldStep, column: &mut Column) -> bool {
    match (step, column) {
        (FieldStep::Enum(of), Column::Utf8(texts)) => return texts.push(of.values.get(&0).map_or("0", |name| name)),
        (_, Column::Utf8(texts)) => return texts.push(""),
        (_, Column::Binary(bytes)) => return bytes.push(b""),
        (_, Column::Boolean(bits)) => bits.push(false),
        (_, Column::Int32(values) | Column::UInt32(values) | Column::Float32(values)) => values.push([0; 4]),
        (_, Column::Int64(values) | Column::UInt64(values) | Column::Float64(values)) => values.push([0; 8]),
        (_, Column::Decimal { values, .. }) => values.push([0; 16]),
        (_, column) => column.push_null(),
    }
    true
}

/// Decodes a wrapper's only field, number 1.
pub(crate) fn wrapper(step: &FieldStep, column: &mut Column, cursor: &mut Cursor<'_>) -> DecodeResult {
    let expected = match step {
        FieldStep::Fixed64 | FieldStep::Fixed64AsDecimal => FIXED64,
        FieldStep::Fixed32 | FieldStep::Fixed32AsLong => FIXED32,
        FieldStep::Text | FieldStep::Bytes => BYTES,
        _ => VARINT,
    };
    let rows = column.rows();
    while !cursor.is_at_end() {
        if field_of(cursor, 1, expected)? {
            column.truncate(rows);
            scalar(step, column, cursor)?;
        }
    }
    if column.rows() > rows || zero(step, column) {
        Ok(())
    } else {
        Err(cursor.fault(ProtobufReason::OutOfRange(column.type_name())))
    }
}

/// Reads the next tag, and returns true if its field has this number; other fields are skipped.
fn field_of(cursor: &mut Cursor<'_>, wanted: u32, expected: u8) -> DecodeResult<bool> {
    let start = cursor.at;
    match cursor.tag()? {
        (number, found) if number == wanted && found != expected => {
            Err(BadProtobuf::new(ProtobufReason::WireType { found, expected }, start))
        }
        (number, _) if number == wanted => Ok(true),
        (number, wire) => cursor.skip(number, wire).map(|()| false),
    }
}

/// Microseconds of a `Timestamp` or `Duration`: seconds are field 1, nanoseconds field 2.
pub(crate) fn micros(cursor: &mut Cursor<'_>, name: &'static str) -> DecodeResult<i64> {
    let start = cursor.at;
    let (mut seconds, mut nanos) = (0_i64, 0_i32);
    while !cursor.is_at_end() {
        let at = cursor.at;
        match cursor.tag()? {
            (1, VARINT) => seconds = cursor.varint()? as i64,
            (2, VARINT) => nanos = cursor.varint()? as i32,
            (1 | 2, found) => return Err(BadProtobuf::new(ProtobufReason::WireType { found, expected: VARINT }, at)),
            (number, wire) => cursor.skip(number, wire)?,
        }
    }
    // Timestamps are rounded down, to the microsecond that they are in. Durations are cut towards zero, as both of
    // their parts are.
    let micros = if name == "timestamp" { nanos.div_euclid(1_000) } else { nanos / 1_000 };
    let all = seconds.checked_mul(1_000_000).and_then(|all| all.checked_add(i64::from(micros)));
    all.ok_or_else(|| BadProtobuf::new(ProtobufReason::OutOfRange(name), start))
}
