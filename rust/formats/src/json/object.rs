//! Decoding of one JSON value into the columns of a row.
//!
//! Faults rise to the nearest struct field: that field becomes null, and the struct's other fields stay. So a bad
//! element makes its whole list null, as in Spark.

use monedula_columns::Texts;

use super::base64;
use super::cursor::{Cursor, Fault, Quoted, Value, unescape};
use super::number::{DecimalFault, MAX_NUMBER_BYTES, decimal, integer, not_finite};
use super::options::{JsonOptions, Mode};
use super::path::Path;
use super::time;
use crate::column::Column;
use crate::error::{Reason, ValueFault};
use crate::fixed::Fixed;
use crate::names::Names;
use crate::nested::{Lists, Maps, Structs};

/// State shared by all rows of a decoder.
pub(crate) struct Objects {
    pub(crate) options: JsonOptions,
    /// Positions of invalid UTF-8 bytes in the value, ascending; mostly none. Only texts that are decoded must have
    /// none.
    pub(crate) invalid_utf8: Vec<usize>,
    text: String,
    bytes: Vec<u8>,
}

impl Objects {
    pub(crate) fn new(options: JsonOptions) -> Self {
        Self { options, invalid_utf8: Vec::new(), text: String::new(), bytes: Vec::new() }
    }

    /// Unescapes a text; returned with the options, since `self` is borrowed.
    #[inline(always)]
    fn plain<'t>(&'t mut self, quoted: Quoted<'t>) -> Result<(&'t str, &'t JsonOptions), Fault> {
        self.check(quoted.position, quoted.raw.len() + 1)?;
        let text = if quoted.has_escapes { unescape(quoted, &mut self.text)? } else { quoted.raw };
        Ok((text, &self.options))
    }

    /// Returns a fault if the text at `position` has invalid UTF-8.
    #[inline(always)]
    fn check(&self, position: usize, length: usize) -> Result<(), Fault> {
        if self.invalid_utf8.is_empty() { Ok(()) } else { self.check_foreign(position, length) }
    }

    #[cold]
    fn check_foreign(&self, position: usize, length: usize) -> Result<(), Fault> {
        let next = self.invalid_utf8.partition_point(|at| *at < position);
        match self.invalid_utf8.get(next).filter(|at| **at < position + length) {
            Some(at) => Err(Fault { reason: Reason::NotUtf8, position: *at }),
            None => Ok(()),
        }
    }
}

pub(crate) struct Row<'o> {
    objects: &'o mut Objects,
    corrupt_record: Option<usize>,
    bytes_left: usize,
    text_bytes: usize,
    /// True if a field came twice, so that its bytes were counted twice.
    has_again: bool,
    first: Option<ValueFault>,
    /// True if Spark's parser would end the row here, whatever text follows.
    ended: bool,
}

pub(crate) struct RowOutcome {
    pub(crate) first: Option<ValueFault>,
    /// True if the row ended before its text did.
    pub(crate) ended: bool,
    /// Bytes of its texts, elements and entries, if they were counted.
    pub(crate) bytes: Option<usize>,
}

type DecodeResult = Result<(), Fault>;

impl<'o> Row<'o> {
    pub(crate) fn new(corrupt_record: Option<usize>, objects: &'o mut Objects) -> Self {
        let bytes_left = objects.options.max_row_bytes;
        Self { objects, corrupt_record, bytes_left, text_bytes: 0, has_again: false, first: None, ended: false }
    }

    pub(crate) fn outcome(self) -> RowOutcome {
        let charged = self.objects.options.max_row_bytes - self.bytes_left;
        let counted = self.first.is_none() && !self.has_again;
        let bytes = counted.then_some(charged + self.text_bytes);
        RowOutcome { first: self.first, ended: self.ended, bytes }
    }

    /// Decodes an object, with the cursor behind its opening bracket, as a row of a struct. `depth` counts the open
    /// objects and arrays, including this one.
    pub(crate) fn object(
        &mut self,
        structs: &mut Structs,
        cursor: &mut Cursor<'_>,
        path: &Path<'_>,
        depth: usize,
    ) -> DecodeResult {
        let hidden = if depth == 1 { self.corrupt_record } else { None };
        if !cursor.take(b'}') {
            let mut place = Names::START;
            loop {
                cursor.peek();
                place = match structs.names.expected(place, cursor.rest()) {
                    // Substituted bytes must not match a field name, so the shortcut needs valid UTF-8.
                    Some((next, length)) if self.objects.invalid_utf8.is_empty() => {
                        cursor.at += length;
                        next
                    }
                    _ => self.look_up(structs, cursor.name()?, place),
                };
                let found = structs.names.field(place);
                match found {
                    Some(index) if found != hidden => self.field(structs, index, cursor, path, depth)?,
                    _ => cursor.skip_value(depth)?,
                }
                if !cursor.more(b'}')? {
                    break;
                }
            }
        }
        structs.end_row();
        Ok(())
    }

    /// Looks a name up, first behind the index `before`, where the last record had it.
    fn look_up(&mut self, structs: &mut Structs, name: Quoted<'_>, before: usize) -> usize {
        match self.plain(name) {
            Ok(name) => structs.names.look_up(before, name.as_bytes()),
            Err(_) => Names::ELSEWHERE,
        }
    }

    #[inline(always)]
    fn field(
        &mut self,
        structs: &mut Structs,
        index: usize,
        cursor: &mut Cursor<'_>,
        path: &Path<'_>,
        depth: usize,
    ) -> DecodeResult {
        let (start, row) = (cursor.at, structs.rows());
        let path = Path::Field(path, structs.fields[index].name());
        let child = &mut structs.children[index];
        if child.rows() > row {
            return match self.field_again(child, row, cursor, &path, depth)? {
                Some(fault) => self.continue_after(structs, cursor, start, &fault, depth),
                None => Ok(()),
            };
        }
        match self.value(child, cursor, &path, depth) {
            Ok(()) => {
                structs.filled_one();
                Ok(())
            }
            Err(fault) => {
                self.note(&fault, &path)?;
                child.truncate(row);
                self.continue_after(structs, cursor, start, &fault, depth)
            }
        }
    }

    /// Continues after a field with a fault, whose value starts at `start`.
    #[cold]
    fn continue_after(
        &mut self,
        structs: &mut Structs,
        cursor: &mut Cursor<'_>,
        start: usize,
        fault: &Fault,
        depth: usize,
    ) -> DecodeResult {
        cursor.at = start;
        if self.objects.options.partial_results {
            return cursor.skip_value(depth);
        }
        if depth > 1 {
            return Err(*fault);
        }
        // Spark continues where its parser stopped: in the innermost object or array. It reads the fields there as
        // fields of the row, and takes that object's end for the end of the row.
        let mut open = open_at(cursor, fault.position)?;
        while let Some(is_object) = open.last() {
            if !is_object {
                match cursor.more(b']')? {
                    true => cursor.skip_value(open.len())?,
                    false => drop(open.pop()),
                }
                continue;
            }
            if !cursor.more(b'}')? {
                self.ended = true;
                return Err(*fault);
            }
            let name = cursor.name()?;
            let place = self.look_up(structs, name, Names::ELSEWHERE);
            let found = structs.names.field(place).filter(|found| Some(*found) != self.corrupt_record);
            match found {
                Some(index) => self.field(structs, index, cursor, &Path::Root, 1)?,
                None => cursor.skip_value(open.len())?,
            }
        }
        Ok(())
    }

    /// Decodes a repeated field: the last value counts, unless it is bad. So it is first decoded into a row of its
    /// own. Returns the fault of a bad value.
    #[cold]
    fn field_again(
        &mut self,
        child: &mut Column,
        row: usize,
        cursor: &mut Cursor<'_>,
        path: &Path<'_>,
        depth: usize,
    ) -> Result<Option<Fault>, Fault> {
        self.has_again = true;
        let start = cursor.at;
        let tried = self.value(child, cursor, path, depth);
        child.truncate(row + 1);
        match tried {
            Ok(()) => {
                cursor.at = start;
                child.truncate(row);
                self.value(child, cursor, path, depth).map(|()| None)
            }
            Err(fault) => {
                self.note(&fault, path)?;
                Ok(Some(fault))
            }
        }
    }

    /// Keeps the first fault. Returns it as an error if the value cannot be decoded further.
    #[cold]
    fn note(&mut self, fault: &Fault, path: &Path<'_>) -> DecodeResult {
        self.first.get_or_insert_with(|| ValueFault {
            path: path.text(),
            reason: fault.reason,
            position: fault.position,
        });
        if fault.ends_the_value() || self.objects.options.mode == Mode::FailFast { Err(*fault) } else { Ok(()) }
    }

    /// Decodes any value as a row of the column. After an error the column's children may hold part of that row.
    #[inline(always)]
    fn value(&mut self, column: &mut Column, cursor: &mut Cursor<'_>, path: &Path<'_>, depth: usize) -> DecodeResult {
        // Shortcut for the most frequent types, without a token between cursor and column.
        match (&mut *column, cursor.peek()) {
            (Column::Utf8(texts), Some(b'"')) => {
                let start = cursor.at;
                let quoted = cursor.quoted(b'"')?;
                return self.text(texts, quoted, start);
            }
            (Column::Int64(values), Some(b'-' | b'0'..=b'9')) => {
                if let Some(value) = cursor.short_integer() {
                    values.push(value.to_ne_bytes());
                    return Ok(());
                }
            }
            (Column::Float64(values), Some(b'-' | b'0'..=b'9')) => {
                if let Some(value) = cursor.short_float() {
                    values.push(value.to_ne_bytes());
                    return Ok(());
                }
            }
            (Column::Struct(structs), Some(b'{')) => {
                cursor.at += 1;
                return self.object(structs, cursor, path, depth + 1);
            }
            _ => {}
        }
        self.other_value(column, cursor, path, depth)
    }

    #[inline(always)]
    fn text(&mut self, texts: &mut Texts, quoted: Quoted<'_>, start: usize) -> DecodeResult {
        let text = self.plain(quoted)?;
        let bytes = text.len();
        if !texts.push(text) {
            return Err(Fault { reason: Reason::OutOfRange("utf8"), position: start });
        }
        self.text_bytes += bytes;
        Ok(())
    }

    #[inline(never)]
    fn other_value(
        &mut self,
        column: &mut Column,
        cursor: &mut Cursor<'_>,
        path: &Path<'_>,
        depth: usize,
    ) -> DecodeResult {
        // Move to the value, for its position and source text.
        cursor.peek();
        let start = cursor.at;
        let value = cursor.value()?;
        let name = column.type_name();
        let fault = |reason| Fault { reason, position: start };
        let out_of_range = fault(Reason::OutOfRange(name));
        match (column, value) {
            (column, Value::Null) => column.push_null(),
            (Column::Utf8(texts), Value::Text(quoted)) => return self.text(texts, quoted, start),
            (Column::Int64(values), Value::Number(text, true)) => {
                values.push(integer(text).ok_or(out_of_range)?.to_ne_bytes());
            }
            (Column::Int32(values), Value::Number(text, true)) => {
                narrow::<i32, 4>(values, text, i32::to_ne_bytes).ok_or(out_of_range)?;
            }
            (Column::Int16(values), Value::Number(text, true)) => {
                narrow::<i16, 2>(values, text, i16::to_ne_bytes).ok_or(out_of_range)?;
            }
            (Column::Int8(values), Value::Number(text, true)) => {
                narrow::<i8, 1>(values, text, i8::to_ne_bytes).ok_or(out_of_range)?;
            }
            (Column::Float64(values), Value::Number(text, is_integer)) => {
                let value: f64 = float(text, is_integer).ok_or(out_of_range)?;
                values.push(value.to_ne_bytes());
            }
            (Column::Float32(values), Value::Number(text, is_integer)) => {
                let value: f32 = float(text, is_integer).ok_or(out_of_range)?;
                values.push(value.to_ne_bytes());
            }
            (Column::Boolean(bits), Value::Boolean(value)) => bits.push(value),
            (Column::Struct(structs), Value::Object) => return self.object(structs, cursor, path, depth + 1),
            (Column::List(lists), Value::Array) => return self.array(lists, cursor, path, depth + 1),
            (Column::Map(maps), Value::Object) => return self.map(maps, cursor, path, depth + 1),
            (column, value) => return self.rare(column, value, cursor, (start, depth)),
        }
        Ok(())
    }

    /// Decodes values of a kind that is unusual for the column's type.
    #[inline(never)]
    fn rare(
        &mut self,
        column: &mut Column,
        value: Value<'_>,
        cursor: &mut Cursor<'_>,
        (start, depth): (usize, usize),
    ) -> DecodeResult {
        let name = column.type_name();
        let fault = |reason| Fault { reason, position: start };
        let unreadable = fault(Reason::Unreadable(name));
        let out_of_range = fault(Reason::OutOfRange(name));
        let taken = self.objects.options.syntax.non_numeric_numbers;
        match (column, value) {
            (Column::Utf8(texts), _) => {
                // Other values become their source text.
                cursor.at = start;
                cursor.skip_value(depth)?;
                let text = cursor.text_from(start);
                self.objects.check(start, text.len())?;
                if !texts.push(text) {
                    return Err(out_of_range);
                }
                self.text_bytes += text.len();
            }
            (Column::Binary(bytes), Value::Text(quoted)) => {
                let text = if quoted.has_escapes { unescape(quoted, &mut self.objects.text)? } else { quoted.raw };
                self.objects.bytes.clear();
                base64::decode(text, &mut self.objects.bytes).ok_or(unreadable)?;
                if !bytes.push(&self.objects.bytes) {
                    return Err(out_of_range);
                }
                self.text_bytes += self.objects.bytes.len();
            }
            (Column::Float64(values), Value::NotFinite(value)) => values.push(value.to_ne_bytes()),
            (Column::Float32(values), Value::NotFinite(value)) => values.push((value as f32).to_ne_bytes()),
            (Column::Float64(values), Value::Text(quoted)) if taken => {
                values.push(not_finite(self.plain(quoted)?).ok_or(unreadable)?.to_ne_bytes());
            }
            (Column::Float32(values), Value::Text(quoted)) if taken => {
                values.push((not_finite(self.plain(quoted)?).ok_or(unreadable)? as f32).to_ne_bytes());
            }
            (Column::Decimal { values, precision, scale }, value @ (Value::Number(..) | Value::Text(_))) => {
                let text = match value {
                    Value::Number(text, _) => text,
                    Value::Text(quoted) => self.plain(quoted)?,
                    _ => "",
                };
                let sized = if text.len() > MAX_NUMBER_BYTES { Err(DecimalFault::OutOfRange) } else { Ok(text) };
                match sized.and_then(|text| decimal(text, *precision, *scale)) {
                    Ok(unscaled) => values.push(unscaled.to_ne_bytes()),
                    Err(DecimalFault::Unreadable) => return Err(unreadable),
                    Err(DecimalFault::OutOfRange) => return Err(out_of_range),
                }
            }
            (Column::Date(days), Value::Text(quoted)) => {
                let (text, options) = self.objects.plain(quoted)?;
                days.push(date(text, options).ok_or(unreadable)?.to_ne_bytes());
            }
            (Column::Timestamp { values, zone, .. }, Value::Text(quoted)) => {
                let (text, options) = self.objects.plain(quoted)?;
                values.push(timestamp(text, zone.is_some(), options).ok_or(unreadable)?.to_ne_bytes());
            }
            (Column::Timestamp { values, zone: Some(_), .. }, Value::Number(text, true)) => {
                let micros = integer(text).and_then(|seconds| seconds.checked_mul(1_000_000));
                values.push(micros.ok_or(out_of_range)?.to_ne_bytes());
            }
            _ => return Err(fault(Reason::WrongKind(name))),
        }
        Ok(())
    }

    #[inline(always)]
    fn plain<'t>(&'t mut self, quoted: Quoted<'t>) -> Result<&'t str, Fault> {
        self.objects.plain(quoted).map(|(text, _)| text)
    }

    fn array(&mut self, lists: &mut Lists, cursor: &mut Cursor<'_>, path: &Path<'_>, depth: usize) -> DecodeResult {
        if !cursor.take(b']') {
            let element_bytes = lists.child.row_bytes();
            let mut index = 0;
            loop {
                self.charge(element_bytes, cursor)?;
                let path = Path::Element(path, index);
                if let Err(fault) = self.value(&mut lists.child, cursor, &path, depth) {
                    // After this fault the list is null, so no further element is decoded.
                    self.note(&fault, &path)?;
                    return Err(fault);
                }
                index += 1;
                if !cursor.more(b']')? {
                    break;
                }
            }
        }
        if lists.end_row() { Ok(()) } else { Err(cursor.fault(Reason::RowTooLarge(i32::MAX as usize))) }
    }

    fn map(&mut self, maps: &mut Maps, cursor: &mut Cursor<'_>, path: &Path<'_>, depth: usize) -> DecodeResult {
        if !cursor.take(b'}') {
            let entry_bytes = 4 + maps.values.row_bytes();
            loop {
                self.charge(entry_bytes, cursor)?;
                let key = cursor.name()?;
                let text = self.plain(key)?;
                let bytes = text.len();
                if !maps.push_key(text) {
                    return Err(cursor.fault(Reason::RowTooLarge(i32::MAX as usize)));
                }
                self.text_bytes += bytes;
                let path = Path::Entry(path, key.raw);
                if let Err(fault) = self.value(&mut maps.values, cursor, &path, depth) {
                    self.note(&fault, &path)?;
                    return Err(fault);
                }
                if !cursor.more(b'}')? {
                    break;
                }
            }
        }
        if maps.end_row() { Ok(()) } else { Err(cursor.fault(Reason::RowTooLarge(i32::MAX as usize))) }
    }

    /// Counts the bytes of an element or entry before it is decoded.
    fn charge(&mut self, bytes: usize, cursor: &Cursor<'_>) -> DecodeResult {
        match self.bytes_left.checked_sub(bytes) {
            Some(left) => {
                self.bytes_left = left;
                Ok(())
            }
            None => Err(cursor.fault(Reason::RowTooLarge(self.objects.options.max_row_bytes))),
        }
    }
}

#[inline(always)]
fn narrow<T: TryFrom<i64>, const WIDTH: usize>(
    values: &mut Fixed<WIDTH>,
    text: &str,
    bytes: impl Fn(T) -> [u8; WIDTH],
) -> Option<()> {
    let value = T::try_from(integer(text)?).ok()?;
    values.push(bytes(value));
    Some(())
}

/// Parses a float; numbers beyond its range become an infinity or zero. An integer -0 is 0, as in Java.
#[inline(always)]
fn float<T: std::str::FromStr + Default>(text: &str, is_integer: bool) -> Option<T> {
    if text.len() > MAX_NUMBER_BYTES {
        return None;
    }
    if is_integer && text.starts_with("-0") && text.bytes().skip(1).all(|digit| digit == b'0') {
        return Some(T::default());
    }
    text.parse().ok()
}

/// Days since 1970. An empty text is bad under every pattern.
fn date(text: &str, options: &JsonOptions) -> Option<i32> {
    let Some(pattern) = &options.date_format else { return time::date(text) };
    let read = pattern.date(text).filter(|_| !text.is_empty());
    read.or_else(|| if options.datetime_fallback { time::date(text) } else { None })
}

/// Microseconds since 1970.
fn timestamp(text: &str, zoned: bool, options: &JsonOptions) -> Option<i64> {
    let zone = Some(&options.time_zone).filter(|_| zoned);
    match (&options.timestamp_format, &options.timestamp_ntz_format) {
        _ if text.is_empty() => None,
        (Some(pattern), _) if zoned => {
            let read = pattern.timestamp(text, &options.time_zone);
            read.or_else(|| if options.datetime_fallback { time::timestamp(text, zone) } else { None })
        }
        (_, Some(pattern)) if !zoned => pattern.local_timestamp(text),
        _ => time::timestamp(text, zone),
    }
}

/// Moves behind the value at `position`, within the value at the cursor. Returns the objects and arrays that are open
/// there, outermost first; true for objects. If no value begins there, the result is empty and the cursor is behind the
/// whole value.
fn open_at(cursor: &mut Cursor<'_>, position: usize) -> Result<Vec<bool>, Fault> {
    let mut open = Vec::new();
    loop {
        cursor.peek();
        if cursor.at == position {
            cursor.skip_value(open.len() + 1)?;
            return Ok(open);
        }
        let is_object = match cursor.value()? {
            Value::Object => Some(true),
            Value::Array => Some(false),
            _ => None,
        };
        if let Some(is_object) = is_object
            && !cursor.take(if is_object { b'}' } else { b']' })
        {
            open.push(is_object);
            if is_object {
                cursor.name()?;
            }
            continue;
        }
        loop {
            let Some(is_object) = open.last() else { return Ok(open) };
            if cursor.more(if *is_object { b'}' } else { b']' })? {
                if *is_object {
                    cursor.name()?;
                }
                break;
            }
            open.pop();
        }
    }
}
