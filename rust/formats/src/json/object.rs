//! The walk of one value into the columns of a row.
//!
//! Faults go up to the nearest field of a struct: that field is null, and the struct's other fields stay. So a bad element
//! makes its whole list null, as it does in Spark.

use super::base64;
use super::cursor::{Cursor, Fault, Quoted, Value, unescape};
use super::decoder::{JsonOptions, Mode};
use super::number::{DecimalFault, MAX_NUMBER_BYTES, decimal, integer, not_finite};
use super::path::Path;
use super::time;
use crate::column::Column;
use crate::error::{BadValue, Reason};
use crate::fixed::Fixed;
use crate::nested::{Lists, Maps, Structs};

/// What the rows of a decoder share.
pub(crate) struct Objects {
    offset_seconds: i32,
    max_row_bytes: usize,
    text: String,
    bytes: Vec<u8>,
}

impl Objects {
    pub(crate) fn new(options: &JsonOptions) -> Self {
        let (offset_seconds, max_row_bytes) = (options.offset_seconds, options.max_row_bytes);
        Self { offset_seconds, max_row_bytes, text: String::new(), bytes: Vec::new() }
    }
}

/// One row while it is decoded.
pub(crate) struct Row<'o> {
    objects: &'o mut Objects,
    corrupt_record: Option<usize>,
    mode: Mode,
    bytes_left: usize,
    first: Option<BadValue>,
}

type Decoded = Result<(), Fault>;

impl<'o> Row<'o> {
    pub(crate) fn new(corrupt_record: Option<usize>, mode: Mode, objects: &'o mut Objects) -> Self {
        let bytes_left = objects.max_row_bytes;
        Self { objects, corrupt_record, mode, bytes_left, first: None }
    }

    pub(crate) fn first_fault(self) -> Option<BadValue> {
        self.first
    }

    /// An object, behind whose opening bracket the cursor is, as a row of a struct. `depth` counts the objects and arrays
    /// that are open, this one too.
    pub(crate) fn object(
        &mut self,
        structs: &mut Structs,
        cursor: &mut Cursor<'_>,
        path: &Path<'_>,
        depth: usize,
    ) -> Decoded {
        let hidden = if depth == 1 { self.corrupt_record } else { None };
        if !cursor.take(b'}') {
            let mut expected = 0;
            loop {
                let name = cursor.name()?;
                let found = if name.has_escapes {
                    let name = unescape(name, &mut self.objects.text).ok();
                    name.and_then(|name| structs.find(name.as_bytes(), expected))
                } else {
                    structs.find(name.raw.as_bytes(), expected)
                };
                match found {
                    Some(index) if found != hidden => {
                        expected = index + 1;
                        self.field(structs, index, cursor, path, depth)?;
                    }
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

    #[inline(always)]
    fn field(
        &mut self,
        structs: &mut Structs,
        index: usize,
        cursor: &mut Cursor<'_>,
        path: &Path<'_>,
        depth: usize,
    ) -> Decoded {
        let (start, row) = (cursor.at, structs.rows());
        let path = Path::Field(path, structs.fields[index].name());
        let child = &mut structs.children[index];
        if child.rows() > row {
            return self.field_again(child, row, cursor, &path, depth);
        }
        match self.value(child, cursor, &path, depth) {
            Ok(()) => Ok(()),
            Err(fault) => {
                self.note(&fault, &path)?;
                child.truncate(row);
                cursor.at = start;
                cursor.skip_value(depth)
            }
        }
    }

    /// A field that the object has had before: the last value counts, unless it is bad. So it is tried as another row first.
    #[cold]
    fn field_again(
        &mut self,
        child: &mut Column,
        row: usize,
        cursor: &mut Cursor<'_>,
        path: &Path<'_>,
        depth: usize,
    ) -> Decoded {
        let start = cursor.at;
        let tried = self.value(child, cursor, path, depth);
        child.truncate(row + 1);
        cursor.at = start;
        match tried {
            Ok(()) => {
                child.truncate(row);
                self.value(child, cursor, path, depth)
            }
            Err(fault) => {
                self.note(&fault, path)?;
                cursor.skip_value(depth)
            }
        }
    }

    /// Remembers the first fault. An error if the value cannot be decoded further.
    #[cold]
    fn note(&mut self, fault: &Fault, path: &Path<'_>) -> Decoded {
        self.first.get_or_insert_with(|| BadValue {
            path: path.text(),
            reason: fault.reason,
            position: fault.position,
        });
        if fault.ends_the_value() || self.mode == Mode::FailFast { Err(*fault) } else { Ok(()) }
    }

    /// Any value, as a row of the column. After an error the column may have begun that row in its children.
    #[inline(always)]
    fn value(&mut self, column: &mut Column, cursor: &mut Cursor<'_>, path: &Path<'_>, depth: usize) -> Decoded {
        // Up to the value, for its position and source text.
        cursor.peek();
        let start = cursor.at;
        let value = cursor.value()?;
        let name = column.type_name();
        let fault = |reason| Fault { reason, position: start };
        let out_of_range = fault(Reason::OutOfRange(name));
        match (column, value) {
            (column, Value::Null) => column.push_null(),
            (Column::Utf8(texts), Value::Text(quoted)) => {
                let text = self.plain(quoted)?;
                if !texts.push(text.as_bytes()) {
                    return Err(out_of_range);
                }
            }
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

    /// Values that are not of the kind that the column's type is mostly written as.
    #[inline(never)]
    fn rare(
        &mut self,
        column: &mut Column,
        value: Value<'_>,
        cursor: &mut Cursor<'_>,
        (start, depth): (usize, usize),
    ) -> Decoded {
        let name = column.type_name();
        let fault = |reason| Fault { reason, position: start };
        let unreadable = fault(Reason::Unreadable(name));
        let out_of_range = fault(Reason::OutOfRange(name));
        match (column, value) {
            (Column::Utf8(texts), _) => {
                // The source text of any other value.
                cursor.at = start;
                cursor.skip_value(depth)?;
                if !texts.push(cursor.text_from(start).as_bytes()) {
                    return Err(out_of_range);
                }
            }
            (Column::Binary(bytes), Value::Text(quoted)) => {
                let text = if quoted.has_escapes { unescape(quoted, &mut self.objects.text)? } else { quoted.raw };
                self.objects.bytes.clear();
                base64::decode(text, &mut self.objects.bytes).ok_or(unreadable)?;
                if !bytes.push(&self.objects.bytes) {
                    return Err(out_of_range);
                }
            }
            (Column::Float64(values), Value::NotFinite(value)) => values.push(value.to_ne_bytes()),
            (Column::Float32(values), Value::NotFinite(value)) => values.push((value as f32).to_ne_bytes()),
            (Column::Float64(values), Value::Text(quoted)) => {
                values.push(not_finite(self.plain(quoted)?).ok_or(unreadable)?.to_ne_bytes());
            }
            (Column::Float32(values), Value::Text(quoted)) => {
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
                days.push(time::date(self.plain(quoted)?).ok_or(unreadable)?.to_ne_bytes());
            }
            (Column::Timestamp { values, zone }, Value::Text(quoted)) => {
                let offset_seconds = self.objects.offset_seconds;
                let micros = time::timestamp(self.plain(quoted)?, zone.is_some(), offset_seconds);
                values.push(micros.ok_or(unreadable)?.to_ne_bytes());
            }
            (Column::Timestamp { values, zone: Some(_) }, Value::Number(text, true)) => {
                let micros = integer(text).and_then(|seconds| seconds.checked_mul(1_000_000));
                values.push(micros.ok_or(out_of_range)?.to_ne_bytes());
            }
            _ => return Err(fault(Reason::WrongKind(name))),
        }
        Ok(())
    }

    #[inline(always)]
    fn plain<'t>(&'t mut self, quoted: Quoted<'t>) -> Result<&'t str, Fault> {
        if quoted.has_escapes { unescape(quoted, &mut self.objects.text) } else { Ok(quoted.raw) }
    }

    fn array(&mut self, lists: &mut Lists, cursor: &mut Cursor<'_>, path: &Path<'_>, depth: usize) -> Decoded {
        if !cursor.take(b']') {
            let element_bytes = lists.child.row_bytes();
            let mut index = 0;
            loop {
                self.charge(element_bytes, cursor)?;
                let path = Path::Element(path, index);
                if let Err(fault) = self.value(&mut lists.child, cursor, &path, depth) {
                    // The list is null as a whole, so nothing is decoded after this.
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

    fn map(&mut self, maps: &mut Maps, cursor: &mut Cursor<'_>, path: &Path<'_>, depth: usize) -> Decoded {
        if !cursor.take(b'}') {
            let entry_bytes = 4 + maps.values.row_bytes();
            loop {
                self.charge(entry_bytes, cursor)?;
                let key = cursor.name()?;
                if !maps.keys.push(self.plain(key)?.as_bytes()) {
                    return Err(cursor.fault(Reason::RowTooLarge(i32::MAX as usize)));
                }
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

    /// Counts what an element or entry takes before it is decoded.
    fn charge(&mut self, bytes: usize, cursor: &Cursor<'_>) -> Decoded {
        match self.bytes_left.checked_sub(bytes) {
            Some(left) => {
                self.bytes_left = left;
                Ok(())
            }
            None => Err(cursor.fault(Reason::RowTooLarge(self.objects.max_row_bytes))),
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

/// A float; beyond its range an infinity or zero. An integer -0 is 0, as in Java.
#[inline(always)]
fn float<T: std::str::FromStr + Default>(text: &str, is_integer: bool) -> Option<T> {
    if text.len() > MAX_NUMBER_BYTES {
        return None;
    }
    if is_integer && text == "-0" {
        return Some(T::default());
    }
    text.parse().ok()
}
