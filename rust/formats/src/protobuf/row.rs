//! Decoding of one message into the columns of a row, along a plan.
//!
//! The fields of a message come in any order, and may repeat. A repeated scalar replaces the one before. Sub-messages
//! and map entries are only noted where they occur, and are decoded at the end of the message: only then it is known
//! which of them are parts of one message, and each part is decoded once.

use super::error::{BadProtobuf, DecodeResult, ProtobufReason};
use super::plan::{Absent, FieldPlan, FieldStep, ItemPlan, MessagePlan};
use super::scalar::{micros, scalar, wrapper, zero};
use super::schema::Enum;
use super::wire::{BYTES, Cursor, FIXED32, FIXED64, VARINT};
use crate::column::Column;
use crate::nested::{Lists, Structs};

/// Digits of the longest enum number, and its sign.
const MAX_DIGITS: usize = 11;

/// Noted sub-message, map entry or oneof scalar of the message in progress.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    /// Index of the field, or the group number of its oneof.
    pub(super) group: usize,
    pub(super) index: usize,
    pub(super) start: usize,
    /// End of the content; `None` for a scalar of a oneof.
    pub(super) end: Option<usize>,
}

pub(crate) struct Row<'s> {
    /// Parts of the open messages, the innermost message's last.
    pub(crate) parts: &'s mut Vec<Part>,
    pub(crate) bytes_left: usize,
    pub(crate) max_row_bytes: usize,
}

/// Fields of the open message that have a value.
struct Seen(u64);

impl Seen {
    fn has(&self, index: usize, child: &Column, rows: usize) -> bool {
        if index < 64 { self.0 >> index & 1 != 0 } else { child.rows() > rows }
    }

    fn set(&mut self, index: usize) {
        if index < 64 {
            self.0 |= 1 << index;
        }
    }

    fn unset(&mut self, index: usize) {
        if index < 64 {
            self.0 &= !(1 << index);
        }
    }
}

impl Row<'_> {
    /// Decodes one message as a row of the structs. After an error the columns may hold part of that row.
    pub(crate) fn message(
        &mut self,
        plan: &MessagePlan,
        structs: &mut Structs,
        cursor: &mut Cursor<'_>,
    ) -> DecodeResult {
        let (mark, rows) = (self.parts.len(), structs.rows());
        let mut seen = Seen(0);
        while let Some(byte) = cursor.peek() {
            let place = plan.by_tag.get(usize::from(byte)).copied().unwrap_or(0);
            let (index, wire) = if place == 0 {
                match self.long_tag(plan, structs, cursor, &mut seen)? {
                    Some(found) => found,
                    None => continue,
                }
            } else {
                cursor.at += 1;
                (usize::from(place - 1), byte & 7)
            };
            let field = &plan.fields[index];
            let decoded = if field.is_plain {
                let child = &mut structs.children[index];
                if seen.has(index, child, rows) {
                    child.truncate(rows);
                }
                seen.set(index);
                scalar(&field.step, child, cursor)
            } else {
                self.other(field, index, wire, structs, cursor, &mut seen)
            };
            decoded.map_err(|fault| fault.in_field(structs.fields[index].name()))?;
        }
        if self.parts.len() > mark {
            self.merge(plan, structs, cursor, mark, &mut seen)?;
        }
        if seen.0 != plan.all || plan.fields.len() > 64 {
            fill(plan, structs, cursor, &seen)?;
        }
        structs.end_full_row();
        Ok(())
    }

    /// Decodes a field that is not a plain scalar.
    #[inline(never)]
    fn other(
        &mut self,
        field: &FieldPlan,
        index: usize,
        wire: u8,
        structs: &mut Structs,
        cursor: &mut Cursor<'_>,
        seen: &mut Seen,
    ) -> DecodeResult {
        let (rows, child) = (structs.rows(), &mut structs.children[index]);
        let group = field.oneof.as_ref().map_or(index, |oneof| oneof.group);
        match (&field.step, child) {
            (FieldStep::List(items), Column::List(lists)) => self.elements(items, field.number, wire, lists, cursor),
            (step, _) if step.is_message() || matches!(step, FieldStep::Map(_)) => {
                let (start, end) = cursor.message(field.number, wire)?;
                self.charge(1, size_of::<Part>(), cursor)?;
                self.parts.push(Part { group, index, start, end: Some(end) });
                Ok(())
            }
            (FieldStep::Enum(of) | FieldStep::EnumNumber(Some(of)), _) if of.is_closed && !is_known(of, cursor)? => {
                // Unknown numbers of a closed enum are skipped, as if the field were missing.
                cursor.varint().map(|_| ())
            }
            (step, child) => {
                if seen.has(index, child, rows) {
                    child.truncate(rows);
                }
                seen.set(index);
                if let FieldStep::Enum(of) = step {
                    self.enum_name(of, child, cursor)?;
                } else {
                    scalar(step, child, cursor)?;
                }
                if let Some(oneof) = &field.oneof {
                    if oneof.has_messages {
                        self.charge(1, size_of::<Part>(), cursor)?;
                        self.parts.push(Part { group, index, start: 0, end: None });
                    }
                    clear(&oneof.others, structs, seen);
                }
                Ok(())
            }
        }
    }

    /// Looks up a tag outside the table of short tags. Returns the field and its wire type; `None`, with the field
    /// skipped, if it has no column.
    #[cold]
    fn long_tag(
        &mut self,
        plan: &MessagePlan,
        structs: &mut Structs,
        cursor: &mut Cursor<'_>,
        seen: &mut Seen,
    ) -> DecodeResult<Option<(usize, u8)>> {
        let start = cursor.at;
        let (number, wire) = cursor.tag()?;
        let Ok(place) = plan.by_number.binary_search_by_key(&number, |(number, _)| *number) else {
            cursor.skip(number, wire)?;
            if let Ok(place) = plan.hidden.binary_search_by_key(&number, |(number, _)| *number) {
                let oneof = &plan.hidden[place].1;
                if oneof.has_messages {
                    self.charge(1, size_of::<Part>(), cursor)?;
                    self.parts.push(Part { group: oneof.group, index: oneof.others[0], start: 0, end: None });
                }
                clear(&oneof.others, structs, seen);
            }
            return Ok(None);
        };
        let index = plan.by_number[place].1;
        let field = &plan.fields[index];
        let is_packed = wire == BYTES
            && matches!(field.step, FieldStep::List(_))
            && matches!(field.wire, VARINT | FIXED32 | FIXED64);
        if wire != field.wire && !is_packed {
            let fault = BadProtobuf::new(ProtobufReason::WireType { found: wire, expected: field.wire }, start);
            return Err(fault.in_field(structs.fields[index].name()));
        }
        Ok(Some((index, wire)))
    }

    /// Decodes one element of a list, or several packed ones.
    fn elements(
        &mut self,
        items: &ItemPlan,
        number: u32,
        wire: u8,
        lists: &mut Lists,
        cursor: &mut Cursor<'_>,
    ) -> DecodeResult {
        if wire != BYTES || items.wire == BYTES {
            self.charge(1, items.bytes, cursor)?;
            return self.element(items, number, wire, lists, cursor);
        }
        let (start, end) = cursor.message(number, wire)?;
        let mut packed = cursor.part(start, end);
        while !packed.is_at_end() {
            self.charge(1, items.bytes, cursor)?;
            self.element(items, number, items.wire, lists, &mut packed)?;
        }
        Ok(())
    }

    fn element(
        &mut self,
        items: &ItemPlan,
        number: u32,
        wire: u8,
        lists: &mut Lists,
        cursor: &mut Cursor<'_>,
    ) -> DecodeResult {
        match &items.step {
            FieldStep::Enum(of) | FieldStep::EnumNumber(Some(of)) if of.is_closed && !is_known(of, cursor)? => {
                cursor.varint().map(|_| ())
            }
            step if step.is_message() => {
                let (start, end) = cursor.message(number, wire)?;
                let child = &mut lists.child;
                self.part(step, child, &mut cursor.part(start, end))
            }
            FieldStep::Enum(of) => self.enum_name(of, &mut lists.child, cursor),
            step => scalar(step, &mut lists.child, cursor),
        }
    }

    /// Decodes the sub-messages and maps noted since the mark.
    fn merge(
        &mut self,
        plan: &MessagePlan,
        structs: &mut Structs,
        cursor: &Cursor<'_>,
        mark: usize,
        seen: &mut Seen,
    ) -> DecodeResult {
        let parts = self.parts.get_mut(mark..).unwrap_or_default();
        if !parts.is_sorted_by_key(|part| part.group) {
            parts.sort_by_key(|part| part.group);
        }
        let (mut from, end) = (mark, self.parts.len());
        while from < end {
            let last_of = |parts: &[Part]| parts.iter().take_while(|part| part.group == parts[0].group).count();
            let to = from + last_of(&self.parts[from..end]);
            let Part { index, end: ended, .. } = self.parts[to - 1];
            let field = &plan.fields[index];
            if ended.is_some() {
                if let Some(oneof) = &field.oneof {
                    clear(&oneof.others, structs, seen);
                }
                let name = structs.fields[index].name();
                let child = &mut structs.children[index];
                self.parts_of(field, child, cursor, from..to).map_err(|fault| fault.in_field(name))?;
                // Maps end their row like lists, in `fill`, which handles the fields that are not seen.
                if field.absent != Absent::Ended {
                    seen.set(index);
                }
            }
            from = to;
        }
        self.parts.truncate(mark);
        Ok(())
    }

    /// Decodes one sub-message, from its last uninterrupted parts, or the entries of a map.
    fn parts_of(
        &mut self,
        field: &FieldPlan,
        child: &mut Column,
        cursor: &Cursor<'_>,
        parts: std::ops::Range<usize>,
    ) -> DecodeResult {
        if let (FieldStep::Map(plan), Column::Map(maps)) = (&field.step, &mut *child) {
            return self.entries(plan, maps, cursor, parts);
        }
        let all = &self.parts[parts];
        let index = all.last().map(|part| part.index);
        // Another member in between clears what a oneof's member had before.
        let first = all.iter().rposition(|part| Some(part.index) != index || part.end.is_none()).map_or(0, |at| at + 1);
        match &all[first..] {
            [Part { start, end: Some(end), .. }] => {
                let mut part = cursor.part(*start, *end);
                self.part(&field.step, child, &mut part)
            }
            several => {
                let bytes: Vec<u8> = several.iter().flat_map(|part| content(cursor, part)).copied().collect();
                self.charge(1, bytes.len(), cursor)?;
                let at = cursor.at;
                self.part(&field.step, child, &mut Cursor::new(&bytes, 0)).map_err(|fault| fault.at(at))
            }
        }
    }

    /// Decodes the content of a sub-message.
    pub(super) fn part(&mut self, step: &FieldStep, column: &mut Column, cursor: &mut Cursor<'_>) -> DecodeResult {
        match (step, column) {
            (FieldStep::Message(plan), Column::Struct(structs)) => self.message(plan, structs, cursor),
            (FieldStep::Wrapper(step), column) => wrapper(step, column, cursor),
            (FieldStep::Timestamp, Column::Timestamp { values, .. }) => {
                values.push(micros(cursor, "timestamp")?.to_ne_bytes());
                Ok(())
            }
            (FieldStep::Duration, Column::Duration(values)) => {
                values.push(micros(cursor, "duration")?.to_ne_bytes());
                Ok(())
            }
            // Unreachable: the plan was made for these columns.
            (_, column) => Err(cursor.fault(ProtobufReason::OutOfRange(column.type_name()))),
        }
    }

    /// Appends the name of an enum's number, or the number itself if it has no name.
    pub(super) fn enum_name(&mut self, of: &Enum, column: &mut Column, cursor: &mut Cursor<'_>) -> DecodeResult {
        let start = cursor.at;
        // Excess bits are cut off, as in Google's parsers.
        let number = cursor.varint()? as i32;
        let Column::Utf8(texts) = column else { return Err(cursor.fault(ProtobufReason::OutOfRange("utf8"))) };
        let is_pushed = match of.values.get(&number) {
            Some(name) => {
                self.charge(1, name.len(), cursor)?;
                texts.push(name)
            }
            None => {
                self.charge(1, MAX_DIGITS, cursor)?;
                texts.push(&number.to_string())
            }
        };
        if is_pushed { Ok(()) } else { Err(BadProtobuf::new(ProtobufReason::OutOfRange("utf8"), start)) }
    }

    /// Counts the bytes of `count` items before they are decoded.
    #[inline(always)]
    pub(super) fn charge(&mut self, count: usize, bytes: usize, cursor: &Cursor<'_>) -> DecodeResult {
        match count.checked_mul(bytes).and_then(|bytes| self.bytes_left.checked_sub(bytes)) {
            Some(left) => {
                self.bytes_left = left;
                Ok(())
            }
            None => Err(cursor.fault(ProtobufReason::RowTooLarge(self.max_row_bytes))),
        }
    }
}

pub(super) fn content<'v>(cursor: &Cursor<'v>, part: &Part) -> &'v [u8] {
    cursor.bytes.get(part.start..part.end.unwrap_or(part.start)).unwrap_or_default()
}

/// Removes the values of a oneof's other members.
fn clear(others: &[usize], structs: &mut Structs, seen: &mut Seen) {
    let rows = structs.rows();
    for other in others {
        let child = &mut structs.children[*other];
        if seen.has(*other, child, rows) {
            child.truncate(rows);
            seen.unset(*other);
        }
    }
}

/// Returns true if the enum has the next number, which is not consumed.
pub(super) fn is_known(of: &Enum, cursor: &Cursor<'_>) -> DecodeResult<bool> {
    Ok(of.values.contains_key(&(cursor.clone().varint()? as i32)))
}

/// Ends the row of the fields that the message lacks.
#[inline(never)]
fn fill(plan: &MessagePlan, structs: &mut Structs, cursor: &Cursor<'_>, seen: &Seen) -> DecodeResult {
    let rows = structs.rows();
    for (index, (field, child)) in plan.fields.iter().zip(&mut structs.children).enumerate() {
        if field.absent != Absent::Ended && seen.has(index, child, rows) {
            continue;
        }
        let is_pushed = match (field.absent, &mut *child) {
            (Absent::Null, child) => {
                child.push_null();
                true
            }
            (Absent::Ended, Column::List(lists)) => lists.end_row(),
            (Absent::Ended, Column::Map(maps)) => maps.end_row(),
            (Absent::Zero, child) => zero(&field.step, child),
            (Absent::Refused | Absent::Ended, _) => {
                return Err(cursor.fault(ProtobufReason::Missing).in_field(structs.fields[index].name()));
            }
        };
        if !is_pushed {
            let reason = ProtobufReason::OutOfRange(child.type_name());
            return Err(cursor.fault(reason).in_field(structs.fields[index].name()));
        }
    }
    Ok(())
}
