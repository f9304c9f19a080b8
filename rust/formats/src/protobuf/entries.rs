//! Decoding of map entries: of several with one key, the last one counts.

use std::ops::Range;

use super::error::{BadProtobuf, DecodeResult, ProtobufReason};
use super::plan::{FieldStep, MapPlan};
use super::row::{Row, is_known};
use super::scalar::{scalar, zero};
use super::wire::Cursor;
use crate::column::Column;
use crate::nested::Maps;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key<'v> {
    Number(u64),
    Text(&'v str),
}

/// An entry whose fields were located.
struct Entry<'v> {
    key: Key<'v>,
    /// Position of the key behind its tag; `None` if the entry has none.
    key_at: Option<usize>,
    values: Option<Values>,
    whole: (usize, usize),
}

/// Position of an entry's last value, and true if there are others, which have to be merged if they are messages.
#[derive(Clone, Copy)]
struct Values {
    at: usize,
    end: usize,
    are_several: bool,
}

impl Row<'_> {
    /// Decodes a map from these parts, each an entry.
    pub(super) fn entries(
        &mut self,
        plan: &MapPlan,
        maps: &mut Maps,
        cursor: &Cursor<'_>,
        parts: Range<usize>,
    ) -> DecodeResult {
        self.charge(parts.len(), plan.bytes, cursor)?;
        if let [part] = &self.parts[parts.clone()] {
            let (start, end) = (part.start, part.end.unwrap_or(part.start));
            return match entry(plan, cursor.part(start, end))? {
                Some(entry) => self.entry(plan, maps, cursor, &entry),
                None => Ok(()),
            };
        }
        self.charge(parts.len(), size_of::<Entry<'_>>() + size_of::<usize>(), cursor)?;
        let mut entries = Vec::with_capacity(parts.len());
        for part in &self.parts[parts] {
            entries.extend(entry(plan, cursor.part(part.start, part.end.unwrap_or(part.start)))?);
        }
        let mut order: Vec<_> = (0..entries.len()).collect();
        order.sort_by_key(|index| entries[*index].key);
        let again: Vec<_> =
            order.windows(2).filter(|pair| entries[pair[0]].key == entries[pair[1]].key).map(|pair| pair[0]).collect();
        let mut is_dropped = vec![false; if again.is_empty() { 0 } else { entries.len() }];
        again.into_iter().for_each(|index| is_dropped[index] = true);
        for (index, entry) in entries.iter().enumerate() {
            if !is_dropped.get(index).copied().unwrap_or_default() {
                self.entry(plan, maps, cursor, entry)?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, plan: &MapPlan, maps: &mut Maps, cursor: &Cursor<'_>, entry: &Entry<'_>) -> DecodeResult {
        let (start, end) = entry.whole;
        let is_pushed = match entry.key_at {
            Some(at) => scalar(&plan.key, &mut maps.keys, &mut cursor.part(at, end)).map(|()| true)?,
            None => zero(&plan.key, &mut maps.keys),
        };
        if !is_pushed {
            return Err(BadProtobuf::new(ProtobufReason::OutOfRange("map"), start));
        }
        self.entry_value(plan, &mut maps.values, cursor, entry).map_err(|fault| match entry.key {
            Key::Text(text) => fault.in_brackets(text),
            Key::Number(number) => fault.in_brackets(format_args!("{}", shown(&plan.key, &maps.keys, number))),
        })
    }

    fn entry_value(
        &mut self,
        plan: &MapPlan,
        column: &mut Column,
        cursor: &Cursor<'_>,
        entry: &Entry<'_>,
    ) -> DecodeResult {
        let (start, end) = entry.whole;
        match (&plan.value, entry.values) {
            (step, Some(Values { are_several: true, .. })) if step.is_message() => {
                let bytes = merged(plan, cursor.part(start, end))?;
                self.charge(1, bytes.len(), cursor)?;
                self.part(step, column, &mut Cursor::new(&bytes, 0)).map_err(|fault| fault.at(end))
            }
            (step, Some(Values { at, end, .. })) if step.is_message() => {
                self.part(step, column, &mut cursor.part(at, end))
            }
            // A missing value is an empty message.
            (step, None) if step.is_message() => self.part(step, column, &mut cursor.part(end, end)),
            (FieldStep::Enum(of), Some(Values { at, .. })) => self.enum_name(of, column, &mut cursor.part(at, end)),
            (step, Some(Values { at, .. })) => scalar(step, column, &mut cursor.part(at, end)),
            (step, None) if zero(step, column) => Ok(()),
            (_, None) => Err(BadProtobuf::new(ProtobufReason::OutOfRange("map"), start)),
        }
    }
}

/// Locates key and value of an entry; `None` if the value is an unknown number of a closed enum.
fn entry<'v>(plan: &MapPlan, mut cursor: Cursor<'v>) -> DecodeResult<Option<Entry<'v>>> {
    let whole = (cursor.at, cursor.bytes.len());
    let empty = if matches!(plan.key, FieldStep::Text) { Key::Text("") } else { Key::Number(0) };
    let mut entry = Entry { key: empty, key_at: None, values: None, whole };
    while !cursor.is_at_end() {
        let start = cursor.at;
        let (number, found) = cursor.tag()?;
        let expected = match number {
            1 => plan.key_wire,
            2 => plan.value_wire,
            _ => found,
        };
        if found != expected {
            return Err(BadProtobuf::new(ProtobufReason::WireType { found, expected }, start));
        }
        match number {
            1 => (entry.key_at, entry.key) = (Some(cursor.at), key(&plan.key, &mut cursor)?),
            2 => {
                if let FieldStep::Enum(of) | FieldStep::EnumNumber(Some(of)) = &plan.value
                    && of.is_closed
                    && !is_known(of, &cursor)?
                {
                    return Ok(None);
                }
                let are_several = entry.values.is_some();
                let (at, end) = if plan.value.is_message() {
                    cursor.message(number, found)?
                } else {
                    let at = cursor.at;
                    cursor.skip(number, found)?;
                    (at, cursor.at)
                };
                entry.values = Some(Values { at, end, are_several });
            }
            _ => cursor.skip(number, found)?,
        }
    }
    Ok(Some(entry))
}

/// Reads a key, truncated to the bits of its type.
fn key<'v>(step: &FieldStep, cursor: &mut Cursor<'v>) -> DecodeResult<Key<'v>> {
    Ok(match step {
        FieldStep::Text => Key::Text(cursor.text()?),
        FieldStep::Fixed32 | FieldStep::Fixed32AsLong => Key::Number(u64::from(u32::from_le_bytes(cursor.array()?))),
        FieldStep::Fixed64 | FieldStep::Fixed64AsDecimal => Key::Number(u64::from_le_bytes(cursor.array()?)),
        FieldStep::Varint32 | FieldStep::SInt32 | FieldStep::UInt32AsLong => {
            Key::Number(cursor.varint()? & u64::from(u32::MAX))
        }
        FieldStep::Bool => Key::Number(u64::from(cursor.varint()? != 0)),
        _ => Key::Number(cursor.varint()?),
    })
}

/// Text of a key, in the type of its column.
#[cold]
fn shown(step: &FieldStep, column: &Column, number: u64) -> String {
    match (step, column) {
        (FieldStep::Bool, _) => (number != 0).to_string(),
        (FieldStep::SInt32 | FieldStep::SInt64, _) => ((number >> 1) as i64 ^ -((number & 1) as i64)).to_string(),
        (_, Column::Int32(_)) => (number as i32).to_string(),
        (_, Column::Int64(_)) => (number as i64).to_string(),
        _ => number.to_string(),
    }
}

/// Joins all values of an entry, so that they decode as one merged message.
fn merged(plan: &MapPlan, mut cursor: Cursor<'_>) -> DecodeResult<Vec<u8>> {
    let mut all = Vec::new();
    while !cursor.is_at_end() {
        match cursor.tag()? {
            (2, wire) if wire == plan.value_wire => {
                let (start, end) = cursor.message(2, wire)?;
                all.extend_from_slice(cursor.bytes.get(start..end).unwrap_or_default());
            }
            (number, wire) => cursor.skip(number, wire)?,
        }
    }
    Ok(all)
}
