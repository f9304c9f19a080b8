//! Columns bound to the fields of a message, and the encoding of their rows.

use std::sync::Arc;

use arrow_buffer::{BooleanBuffer, NullBuffer};

use crate::protobuf::schema::Enum;
use crate::varint::{put_varint, put_zigzag, zigzag};
use crate::writing::{
    Bounds, Decimals, Entries, Fault, Floats, Ints, Texts, Times, UUID_TEXT_BYTES, Written, beyond, uuid_text,
};

/// A whole column of messages.
#[derive(Debug)]
pub(super) enum Root<'a> {
    Message(Message<'a>),
    /// Dictionary or run-end encoded: the index of each row's message, and the messages.
    Indexed(Vec<usize>, Box<Self>),
}

#[derive(Debug)]
pub(super) struct Message<'a> {
    /// Fields, ascending by number.
    pub(super) members: Vec<MessageField<'a>>,
    /// Members of each oneof, at most one of which has a value in a row.
    pub(super) oneofs: Vec<Vec<usize>>,
}

#[derive(Debug)]
pub(super) struct MessageField<'a> {
    pub(super) name: Box<str>,
    pub(super) tag: Vec<u8>,
    pub(super) nulls: Option<NullBuffer>,
    pub(super) is_required: bool,
    pub(super) form: Form<'a>,
}

/// Number of values of a field in a row.
#[derive(Debug)]
pub(super) enum Form<'a> {
    Nothing,
    /// One value, and true if a zero is omitted.
    One(Node<'a>, bool),
    /// List with a tag before each element.
    Each(Bounds<'a>, Node<'a>),
    /// List with one tag and the length of all elements.
    Packed(Bounds<'a>, Node<'a>),
    Map(Box<Map<'a>>),
    /// Dictionary or run-end encoded: the index of each row's values, and the values.
    Indexed(Vec<usize>, Box<Self>),
}

/// Entries of a map, each a message of a key and a value.
#[derive(Debug)]
pub(super) struct Map<'a> {
    pub(super) entries: Entries<'a>,
    pub(super) key_tag: Vec<u8>,
    pub(super) keys: Node<'a>,
    pub(super) value_tag: Vec<u8>,
    pub(super) values: Node<'a>,
}

#[derive(Debug)]
pub(super) struct Node<'a> {
    pub(super) nulls: Option<NullBuffer>,
    pub(super) values: Values<'a>,
}

#[derive(Debug)]
pub(super) enum Values<'a> {
    Nulls,
    Bool(BooleanBuffer),
    Int32(Ints<'a>),
    Int64(Ints<'a>),
    UInt32(Ints<'a>),
    UInt64(Ints<'a>),
    UInt64OfDecimal(Decimals<'a>),
    SInt32(Ints<'a>),
    SInt64(Ints<'a>),
    Fixed32(Ints<'a>),
    Fixed64(Ints<'a>),
    Fixed64OfDecimal(Decimals<'a>),
    /// Signed numbers whose bits are encoded as unsigned; true for a fixed width.
    BitsOf32(Ints<'a>, bool),
    BitsOf64(Ints<'a>, bool),
    SFixed32(Ints<'a>),
    SFixed64(Ints<'a>),
    Float(Floats<'a>),
    Double(Floats<'a>),
    /// Integers as floats; true for f64.
    IntsAsFloats(Ints<'a>, bool),
    Bytes(Texts<'a>),
    /// UUIDs, written as texts.
    Uuid(Texts<'a>),
    EnumName(Texts<'a>, Arc<Enum>),
    EnumNumber(Ints<'a>, Arc<Enum>),
    Message(Message<'a>),
    /// Group, with its end tag.
    Group(Message<'a>, Vec<u8>),
    /// `google.protobuf.Timestamp`, and units per second.
    Timestamp(Times<'a>, i64),
    /// `google.protobuf.Duration`, and units per second.
    Duration(Times<'a>, i64),
    /// Message around one value, with the value's tag.
    Wrapper(Vec<u8>, Box<Self>),
    /// Dictionary or run-end encoded: the index of each row's value, and the values.
    Indexed(Vec<usize>, Box<Node<'a>>),
}

impl Root<'_> {
    pub(super) fn write(&self, row: usize, out: &mut Vec<u8>) -> Written {
        match self {
            Self::Message(message) => message.write(row, out),
            Self::Indexed(indices, root) => root.write(indices[row], out),
        }
    }
}

impl Message<'_> {
    pub(super) fn write(&self, row: usize, out: &mut Vec<u8>) -> Written {
        for members in &self.oneofs {
            let mut present = members.iter().map(|index| &self.members[*index]).filter(|member| !member.is_null(row));
            if let (Some(one), Some(other)) = (present.next(), present.next()) {
                let (one, other) = (&one.name, &other.name);
                return Err(Fault::new(format!("{one} and {other} both have a value, and are of one oneof")));
            }
        }
        for member in &self.members {
            member.write(row, out).map_err(|fault| fault.within(&member.name))?;
        }
        Ok(())
    }
}

impl MessageField<'_> {
    fn is_null(&self, row: usize) -> bool {
        matches!(self.form, Form::Nothing) || is_null(self.nulls.as_ref(), row)
    }

    fn write(&self, row: usize, out: &mut Vec<u8>) -> Written {
        if self.is_null(row) {
            return match self.is_required {
                true => Err(Fault::new("is null, and the schema's field is required")),
                false => Ok(()),
            };
        }
        self.form.write(&self.tag, row, out)
    }
}

impl Form<'_> {
    fn write(&self, tag: &[u8], row: usize, out: &mut Vec<u8>) -> Written {
        match self {
            Self::Nothing => {}
            Self::One(node, leaves_zero_out) => {
                let start = out.len();
                out.extend_from_slice(tag);
                let value = out.len();
                node.values.write(row, out)?;
                // Works for numbers, and for texts, whose length comes first.
                if *leaves_zero_out && out[value..].iter().all(|byte| *byte == 0) {
                    out.truncate(start);
                }
            }
            Self::Each(bounds, node) => {
                let range = bounds.get(row);
                let start = range.start;
                for item in range {
                    out.extend_from_slice(tag);
                    node.write(item, out).map_err(|fault| fault.at(item - start))?;
                }
            }
            Self::Packed(bounds, node) => {
                let range = bounds.get(row);
                if range.is_empty() {
                    return Ok(());
                }
                out.extend_from_slice(tag);
                let start = range.start;
                delimited(out, |out| {
                    range.into_iter().try_for_each(|item| node.write(item, out).map_err(|fault| fault.at(item - start)))
                })?;
            }
            Self::Map(map) => map.write(tag, row, out)?,
            Self::Indexed(indices, form) => form.write(tag, indices[row], out)?,
        }
        Ok(())
    }
}

impl Map<'_> {
    fn write(&self, tag: &[u8], row: usize, out: &mut Vec<u8>) -> Written {
        let range = self.entries.get(row)?;
        let (start, keys) = (range.start, &self.entries.keys);
        for entry in range {
            out.extend_from_slice(tag);
            delimited(out, |out| {
                out.extend_from_slice(&self.key_tag);
                self.keys.write(entry, out)?;
                out.extend_from_slice(&self.value_tag);
                self.values.write(entry, out)
            })
            .map_err(|fault| match keys.are_texts() {
                true => fault.under(keys.text(entry)),
                false => fault.at(entry - start),
            })?;
        }
        Ok(())
    }
}

impl Node<'_> {
    /// Appends an element, or the key or value of an entry; none of them is null.
    fn write(&self, row: usize, out: &mut Vec<u8>) -> Written {
        if matches!(self.values, Values::Nulls) || is_null(self.nulls.as_ref(), row) {
            return Err(Fault::new("is null, and neither lists nor maps of Protobuf have nulls"));
        }
        self.values.write(row, out)
    }
}

impl Values<'_> {
    fn write(&self, row: usize, out: &mut Vec<u8>) -> Written {
        match self {
            Self::Nulls => {}
            Self::Bool(values) => out.push(u8::from(values.value(row))),
            // Negative numbers take ten bytes, as with 64 bits.
            Self::Int32(ints) => put_varint(i64::from(within::<i32>(ints, row, "int32")?) as u64, out),
            Self::Int64(ints) => put_varint(within::<i64>(ints, row, "int64")? as u64, out),
            Self::UInt32(ints) => put_varint(within::<u32>(ints, row, "uint32")?.into(), out),
            Self::UInt64(ints) => put_varint(within(ints, row, "uint64")?, out),
            Self::UInt64OfDecimal(decimals) => put_varint(unsigned(decimals, row, "uint64")?, out),
            Self::SInt32(ints) => put_varint(u64::from(zigzag(within::<i32>(ints, row, "sint32")?.into()) as u32), out),
            Self::SInt64(ints) => put_zigzag(within(ints, row, "sint64")?, out),
            Self::Fixed32(ints) => out.extend_from_slice(&within::<u32>(ints, row, "fixed32")?.to_le_bytes()),
            Self::Fixed64(ints) => out.extend_from_slice(&within::<u64>(ints, row, "fixed64")?.to_le_bytes()),
            Self::Fixed64OfDecimal(decimals) => {
                out.extend_from_slice(&unsigned(decimals, row, "fixed64")?.to_le_bytes());
            }
            Self::BitsOf32(ints, is_fixed) => {
                let bits = within::<i32>(ints, row, "int32")? as u32;
                match is_fixed {
                    true => out.extend_from_slice(&bits.to_le_bytes()),
                    false => put_varint(bits.into(), out),
                }
            }
            Self::BitsOf64(ints, is_fixed) => {
                let bits = within::<i64>(ints, row, "int64")? as u64;
                match is_fixed {
                    true => out.extend_from_slice(&bits.to_le_bytes()),
                    false => put_varint(bits, out),
                }
            }
            Self::SFixed32(ints) => out.extend_from_slice(&within::<i32>(ints, row, "sfixed32")?.to_le_bytes()),
            Self::SFixed64(ints) => out.extend_from_slice(&within::<i64>(ints, row, "sfixed64")?.to_le_bytes()),
            Self::Float(floats) => out.extend_from_slice(&floats.float(row)?.to_le_bytes()),
            Self::Double(floats) => out.extend_from_slice(&floats.double(row).to_le_bytes()),
            Self::IntsAsFloats(ints, true) => out.extend_from_slice(&ints.double(row)?.to_le_bytes()),
            Self::IntsAsFloats(ints, false) => out.extend_from_slice(&ints.float(row)?.to_le_bytes()),
            Self::Bytes(texts) => {
                let bytes = texts.get(row)?;
                put_varint(bytes.len() as u64, out);
                out.extend_from_slice(bytes);
            }
            Self::Uuid(texts) => {
                put_varint(UUID_TEXT_BYTES as u64, out);
                uuid_text(texts.get(row)?, out);
            }
            Self::EnumName(texts, of) => put_varint(i64::from(number(texts.get(row)?, of)?) as u64, out),
            Self::EnumNumber(ints, of) => {
                let number = within::<i32>(ints, row, "enum")?;
                if of.is_closed && !of.values.contains_key(&number) {
                    return Err(Fault::new(format!("{number} is no number of the enum, which has {}", names(of))));
                }
                put_varint(i64::from(number) as u64, out);
            }
            Self::Message(message) => delimited(out, |out| message.write(row, out))?,
            Self::Group(message, end) => {
                message.write(row, out)?;
                out.extend_from_slice(end);
            }
            Self::Timestamp(times, units) => {
                let ticks = times.get(row)?;
                let (seconds, rest) = (ticks.div_euclid(*units), ticks.rem_euclid(*units));
                // Range of `google.protobuf.Timestamp`: years 1 to 9999.
                if !(-62_135_596_800..253_402_300_800).contains(&seconds) {
                    return Err(beyond(ticks, "google.protobuf.Timestamp"));
                }
                seconds_and_nanos(seconds, rest * (1_000_000_000 / units), out);
            }
            Self::Duration(times, units) => {
                let ticks = times.get(row)?;
                let (seconds, rest) = (ticks / units, ticks % units);
                // Range of `google.protobuf.Duration`: ten thousand years.
                if !(-315_576_000_000..=315_576_000_000).contains(&seconds) {
                    return Err(beyond(ticks, "google.protobuf.Duration"));
                }
                seconds_and_nanos(seconds, rest * (1_000_000_000 / units), out);
            }
            Self::Wrapper(tag, value) => delimited(out, |out| {
                let start = out.len();
                out.extend_from_slice(tag);
                value.write(row, out)?;
                if out[start + tag.len()..].iter().all(|byte| *byte == 0) {
                    out.truncate(start);
                }
                Ok(())
            })?,
            Self::Indexed(indices, node) => node.values.write(indices[row], out)?,
        }
        Ok(())
    }
}

fn is_null(nulls: Option<&NullBuffer>, row: usize) -> bool {
    nulls.is_some_and(|nulls| nulls.is_null(row))
}

/// An integer, checked against the range of a type.
#[inline]
fn within<T: TryFrom<i128>>(ints: &Ints<'_>, row: usize, kind: &str) -> Written<T> {
    let value = ints.wide(row);
    T::try_from(value).map_err(|_| beyond(value, kind))
}

fn unsigned(decimals: &Decimals<'_>, row: usize, kind: &str) -> Written<u64> {
    let value = decimals.get(row)?;
    u64::try_from(value).map_err(|_| beyond(value, kind))
}

/// Number of an enum's name, or of decimal digits, as unknown numbers are decoded.
fn number(name: &[u8], of: &Enum) -> Written<i32> {
    let name = std::str::from_utf8(name).unwrap_or_default();
    if let Some(number) = of.numbers.get(name) {
        return Ok(*number);
    }
    let digits = name.parse::<i32>().ok().filter(|number| !of.is_closed || of.values.contains_key(number));
    digits.ok_or_else(|| Fault::new(format!("{name:?} is no name of the enum, which has {}", names(of))))
}

fn names(of: &Enum) -> String {
    let known: Vec<&str> = of.values.values().take(8).map(|name| &**name).collect();
    let more = if of.values.len() > known.len() { ", ..." } else { "" };
    format!("{}{more}", known.join(", "))
}

/// Writes the message of a `Timestamp` or `Duration`.
fn seconds_and_nanos(seconds: i64, nanos: i64, out: &mut Vec<u8>) {
    let start = out.len();
    out.push(0);
    for (tag, value) in [(0x08, seconds), (0x10, nanos)] {
        if value != 0 {
            out.push(tag);
            put_varint(value as u64, out);
        }
    }
    // Two varints and their tags take at most 22 bytes.
    out[start] = (out.len() - start - 1) as u8;
}

/// Writes length-prefixed content.
fn delimited(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Written) -> Written {
    let start = out.len();
    // Reserve one byte for the length, enough for most contents; longer ones are moved.
    out.push(0);
    write(out)?;
    let length = out.len() - start - 1;
    if length < 0x80 {
        out[start] = length as u8;
        return Ok(());
    }
    let mut prefix = Vec::with_capacity(10);
    put_varint(length as u64, &mut prefix);
    out.splice(start..=start, prefix);
    Ok(())
}

/// Encoded tag of a field number and wire type.
pub(super) fn tag(number: u32, wire: u8) -> Vec<u8> {
    let mut tag = Vec::new();
    put_varint(u64::from(number) << 3 | u64::from(wire), &mut tag);
    tag
}
