//! Decoding of one value into the columns of a row, along a plan.

use super::cursor::Cursor;
use super::error::{AvroReason, BadAvro, DecodeResult};
use super::plan::{FieldStep, ItemStep, RecordStep, Step, Symbol, TimeStep};
use super::schema::AvroSchema;
use crate::column::Column;
use crate::nested::{Lists, Maps, Structs};

/// Bytes that an item without bytes in the value is charged, so that a few bytes cannot ask for endless rows.
const EMPTY_ITEM_BYTES: usize = 64;

pub(crate) struct Row<'s> {
    /// Schema of the values that are skipped.
    pub(crate) writer: &'s AvroSchema,
    /// Schema of the defaults.
    pub(crate) reader: &'s AvroSchema,
    pub(crate) bytes_left: usize,
    pub(crate) max_row_bytes: usize,
}

impl Row<'_> {
    /// Decodes one value as a row of the column. After an error the column's children may hold part of that row.
    #[inline(always)]
    pub(crate) fn value(&mut self, step: &Step, column: &mut Column, cursor: &mut Cursor<'_>) -> DecodeResult {
        let step = match step {
            Step::Branches(steps) => {
                let start = cursor.at;
                let branch = cursor.index()?;
                match usize::try_from(branch).ok().and_then(|branch| steps.get(branch)) {
                    Some(Step::Null) => {
                        column.push_null();
                        return Ok(());
                    }
                    // A branch is never a union itself, so one lookup is enough.
                    Some(step) => step,
                    None => return Err(BadAvro::new(AvroReason::NoBranch(branch), start)),
                }
            }
            step => step,
        };
        match (step, column) {
            (Step::Long, Column::Int64(values) | Column::Timestamp { values, .. }) => {
                values.push(cursor.long()?.to_ne_bytes());
            }
            (Step::Int, Column::Int32(values) | Column::Date(values)) => values.push(cursor.int()?.to_ne_bytes()),
            (Step::Text, Column::Utf8(texts)) => {
                let start = cursor.at;
                if !texts.push(cursor.text()?) {
                    return Err(BadAvro::new(AvroReason::OutOfRange("utf8"), start));
                }
            }
            (Step::Double, Column::Float64(values)) => {
                values.push(f64::from_le_bytes(cursor.array()?).to_ne_bytes());
            }
            (Step::Boolean, Column::Boolean(bits)) => bits.push(cursor.boolean()?),
            (step, column) => return self.any(step, column, cursor),
        }
        Ok(())
    }

    #[inline(never)]
    fn any(&mut self, step: &Step, column: &mut Column, cursor: &mut Cursor<'_>) -> DecodeResult {
        match (step, column) {
            (Step::Record(record), Column::Struct(structs)) => return self.record(record, structs, cursor),
            (Step::List(items), Column::List(lists)) => return self.list(items, lists, cursor),
            (Step::Map(values), Column::Map(maps)) => return self.map(values, maps, cursor),
            (Step::Member(index, step), Column::Struct(structs)) => {
                let Structs { fields, children, .. } = structs;
                self.value(step, &mut children[*index], cursor)
                    .map_err(|fault| fault.in_field(fields[*index].name()))?;
                structs.end_row();
            }
            (Step::Enum(symbols), Column::Utf8(texts)) => {
                let start = cursor.at;
                let number = cursor.index()?;
                match usize::try_from(number).ok().and_then(|number| symbols.get(number)) {
                    Some(Symbol::Known(symbol)) => {
                        self.charge(symbol.len() as u64, 1, cursor)?;
                        if !texts.push(symbol) {
                            return Err(BadAvro::new(AvroReason::OutOfRange("utf8"), start));
                        }
                    }
                    Some(Symbol::Unknown(symbol)) => {
                        return Err(BadAvro::new(AvroReason::UnknownSymbol(symbol.clone()), start));
                    }
                    None => return Err(BadAvro::new(AvroReason::NoSymbol(number), start)),
                }
            }
            (Step::Null, column) => column.push_null(),
            (Step::Cut(id), column) => {
                cursor.skip(self.writer, *id, 0)?;
                column.push_null();
            }
            (Step::Unresolvable(why), _) => return Err(cursor.fault(AvroReason::Unresolvable(why.clone()))),
            (step, column) => return scalar(step, column, cursor),
        }
        Ok(())
    }

    fn record(&mut self, record: &RecordStep, structs: &mut Structs, cursor: &mut Cursor<'_>) -> DecodeResult {
        for field in &record.fields {
            match field {
                FieldStep::Column(index, step) => {
                    if let Err(fault) = self.value(step, &mut structs.children[*index], cursor) {
                        return Err(fault.in_field(structs.fields[*index].name()));
                    }
                }
                FieldStep::Skip(id, name) => {
                    cursor.skip(self.writer, *id, 0).map_err(|fault| fault.in_field(name))?;
                }
            }
        }
        for default in &record.defaults {
            self.charge(default.bytes.len() as u64, 1, cursor)?;
            let own = &mut Row { writer: self.reader, ..*self };
            let column = &mut structs.children[default.column];
            own.value(&default.step, column, &mut Cursor::new(&default.bytes, 0))
                .map_err(|bad| bad.at(cursor.at).in_field(structs.fields[default.column].name()))?;
            self.bytes_left = own.bytes_left;
        }
        structs.end_full_row();
        Ok(())
    }

    fn list(&mut self, items: &ItemStep, lists: &mut Lists, cursor: &mut Cursor<'_>) -> DecodeResult {
        let item_bytes = lists.child.row_bytes().max(if items.min_bytes == 0 { EMPTY_ITEM_BYTES } else { 1 });
        let mut index = 0_u64;
        loop {
            let (count, _) = cursor.block(items.min_bytes)?;
            if count == 0 {
                break;
            }
            self.charge(count, item_bytes, cursor)?;
            for _ in 0..count {
                self.value(&items.step, &mut lists.child, cursor).map_err(|fault| fault.in_brackets(index))?;
                index += 1;
            }
        }
        if lists.end_row() { Ok(()) } else { Err(cursor.fault(AvroReason::OutOfRange("list"))) }
    }

    fn map(&mut self, values: &ItemStep, maps: &mut Maps, cursor: &mut Cursor<'_>) -> DecodeResult {
        let entry_bytes = 4 + maps.values.row_bytes();
        loop {
            let (count, _) = cursor.block(values.min_bytes)?;
            if count == 0 {
                break;
            }
            self.charge(count, entry_bytes, cursor)?;
            for _ in 0..count {
                let key = cursor.text()?;
                if !maps.push_key(key) {
                    return Err(cursor.fault(AvroReason::OutOfRange("map")));
                }
                self.value(&values.step, &mut maps.values, cursor).map_err(|fault| fault.in_brackets(key))?;
            }
        }
        if maps.end_row() { Ok(()) } else { Err(cursor.fault(AvroReason::OutOfRange("map"))) }
    }

    /// Counts the bytes of `count` items before they are decoded.
    fn charge(&mut self, count: u64, bytes: usize, cursor: &Cursor<'_>) -> DecodeResult {
        let bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(bytes));
        match bytes.and_then(|bytes| self.bytes_left.checked_sub(bytes)) {
            Some(left) => {
                self.bytes_left = left;
                Ok(())
            }
            None => Err(cursor.fault(AvroReason::RowTooLarge(self.max_row_bytes))),
        }
    }
}

/// Decodes scalars that [`Row::value`] does not handle itself.
fn scalar(step: &Step, column: &mut Column, cursor: &mut Cursor<'_>) -> DecodeResult {
    let start = cursor.at;
    let name = column.type_name();
    let out_of_range = || BadAvro::new(AvroReason::OutOfRange(name), start);
    match (step, column) {
        (Step::IntAsLong, Column::Int64(values)) => values.push(i64::from(cursor.int()?).to_ne_bytes()),
        (Step::Float, Column::Float32(values)) => values.push(f32::from_le_bytes(cursor.array()?).to_ne_bytes()),
        (Step::IntAsFloat, Column::Float32(values)) => values.push((cursor.int()? as f32).to_ne_bytes()),
        (Step::LongAsFloat, Column::Float32(values)) => values.push((cursor.long()? as f32).to_ne_bytes()),
        (Step::IntAsDouble, Column::Float64(values)) => values.push(f64::from(cursor.int()?).to_ne_bytes()),
        (Step::LongAsDouble, Column::Float64(values)) => values.push((cursor.long()? as f64).to_ne_bytes()),
        (Step::FloatAsDouble, Column::Float64(values)) => {
            values.push(f64::from(f32::from_le_bytes(cursor.array()?)).to_ne_bytes());
        }
        (Step::Bytes | Step::Fixed(_) | Step::Rest, Column::Binary(bytes)) => {
            let taken = match step {
                Step::Fixed(size) => cursor.take(*size)?,
                Step::Rest => cursor.take(cursor.left())?,
                _ => cursor.bytes()?,
            };
            if !bytes.push(taken) {
                return Err(out_of_range());
            }
        }
        (Step::Decimal | Step::DecimalFixed(_), Column::Decimal { values, precision, .. }) => {
            let bytes = match step {
                Step::DecimalFixed(size) => cursor.take(*size)?,
                _ => cursor.bytes()?,
            };
            let unscaled = decimal(bytes).filter(|value| value.unsigned_abs() < 10_u128.pow(u32::from(*precision)));
            values.push(unscaled.ok_or_else(out_of_range)?.to_ne_bytes());
        }
        (Step::Time(time), Column::Time32(values)) => {
            let value = moment(time, cursor)?.and_then(|value| i32::try_from(value).ok());
            values.push(value.ok_or_else(out_of_range)?.to_ne_bytes());
        }
        (Step::Time(time), Column::Time64(values) | Column::Timestamp { values, .. }) => {
            values.push(moment(time, cursor)?.ok_or_else(out_of_range)?.to_ne_bytes());
        }
        // Unreachable: the plan was made for these columns.
        _ => return Err(cursor.fault(AvroReason::OutOfRange(name))),
    }
    Ok(())
}

/// Time in the column's unit; `None` if it is out of range there.
#[inline]
fn moment(time: &TimeStep, cursor: &mut Cursor<'_>) -> DecodeResult<Option<i64>> {
    let value = if time.is_int { i64::from(cursor.int()?) } else { cursor.long()? };
    let value = value.checked_mul(time.multiply).map(|value| value.div_euclid(time.divide));
    Ok(value.filter(|value| time.day.is_none_or(|day| (0..day).contains(value))))
}

/// Number in two's complement, most significant byte first; `None` if it has more than 128 bits.
fn decimal(bytes: &[u8]) -> Option<i128> {
    let fill = if bytes.first().is_some_and(|first| first & 0x80 != 0) { 0xff } else { 0 };
    let (beyond, low) = bytes.split_at(bytes.len().saturating_sub(16));
    let mut all = [fill; 16];
    all[16 - low.len()..].copy_from_slice(low);
    let value = i128::from_be_bytes(all);
    let is_extended = beyond.iter().all(|byte| *byte == fill) && (value < 0) == (fill != 0);
    is_extended.then_some(value)
}
