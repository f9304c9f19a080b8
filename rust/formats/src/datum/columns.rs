//! Values as a column of a given type, which an encoder of columns takes.

use std::sync::Arc;

use arrow_array::builder::BooleanBuilder;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, DurationMicrosecondType, DurationMillisecondType,
    DurationNanosecondType, DurationSecondType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, ListArray, MapArray, NullArray, PrimitiveArray, StringArray, StructArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, FieldRef, Fields, TimeUnit};

use super::{Datum, converted};
use crate::writing::{Fault, Written, units, uuid_text};

/// A column of these values, each of which may be null.
pub(crate) fn column(data_type: &DataType, values: &[&Datum]) -> Written<ArrayRef> {
    Ok(match data_type {
        DataType::Null => Arc::new(NullArray::new(values.len())),
        DataType::Boolean => {
            let mut builder = BooleanBuilder::with_capacity(values.len());
            for value in values {
                builder.append_option(match value.plain() {
                    Datum::Null => None,
                    Datum::Boolean(value) => Some(*value),
                    other => return Err(other.unfit("boolean", "a bool")),
                });
            }
            Arc::new(builder.finish())
        }
        DataType::Int8 => ints::<Int8Type>(values, "int8")?,
        DataType::Int16 => ints::<Int16Type>(values, "int16")?,
        DataType::Int32 => ints::<Int32Type>(values, "int32")?,
        DataType::Int64 => ints::<Int64Type>(values, "int64")?,
        DataType::UInt8 => ints::<UInt8Type>(values, "uint8")?,
        DataType::UInt16 => ints::<UInt16Type>(values, "uint16")?,
        DataType::UInt32 => ints::<UInt32Type>(values, "uint32")?,
        DataType::UInt64 => ints::<UInt64Type>(values, "uint64")?,
        DataType::Float32 => {
            primitives::<Float32Type>(values, |value| value.float().unwrap_or_else(|| Err(no_float(value))))?
        }
        DataType::Float64 => {
            primitives::<Float64Type>(values, |value| value.double().unwrap_or_else(|| Err(no_float(value))))?
        }
        DataType::Utf8 => Arc::new(texts(values)?),
        DataType::Binary => Arc::new(bytes(values)?),
        DataType::Decimal128(precision, scale) => {
            let (digits, places) = (usize::from(*precision), usize::try_from(*scale).unwrap_or_default());
            let array = primitive::<Decimal128Type>(values, |value| {
                value.decimal(digits, places).unwrap_or_else(|| Err(value.unfit("a decimal", "a Decimal or an int")))
            })?;
            Arc::new(array.with_data_type(data_type.clone()))
        }
        DataType::Date32 => primitives::<Date32Type>(values, |value| match value {
            Datum::Date(days) => Ok(*days),
            other => Err(other.unfit("a date", "a date")),
        })?,
        DataType::Time32(_) | DataType::Time64(_) | DataType::Timestamp(..) | DataType::Duration(_) => {
            times(data_type, values)?
        }
        DataType::List(field) => list(field, values)?,
        DataType::Map(field, _) => map(field, values)?,
        DataType::Struct(fields) => structs(fields, values)?,
        other => return Err(Fault::new(format!("the schema has {other} there, which is written from columns alone"))),
    })
}

fn primitives<T: ArrowPrimitiveType>(
    values: &[&Datum],
    read: impl Fn(&Datum) -> Written<T::Native>,
) -> Written<ArrayRef> {
    Ok(Arc::new(primitive::<T>(values, read)?))
}

fn primitive<T: ArrowPrimitiveType>(
    values: &[&Datum],
    read: impl Fn(&Datum) -> Written<T::Native>,
) -> Written<PrimitiveArray<T>> {
    let (mut numbers, mut present) = (Vec::with_capacity(values.len()), Vec::with_capacity(values.len()));
    for value in values.iter().map(|value| value.plain()) {
        let is_null = matches!(value, Datum::Null);
        numbers.push(if is_null { T::Native::default() } else { read(value)? });
        present.push(!is_null);
    }
    Ok(PrimitiveArray::new(numbers.into(), Some(NullBuffer::from(present))))
}

fn ints<T: ArrowPrimitiveType>(values: &[&Datum], kind: &str) -> Written<ArrayRef>
where
    T::Native: TryFrom<i128>,
{
    primitives::<T>(values, |value| match value {
        Datum::Int(number) => T::Native::try_from(*number)
            .map_err(|_| Fault::new(format!("a number that the schema's {kind} cannot hold"))),
        other => Err(other.unfit(kind, "an int")),
    })
}

fn no_float(value: &Datum) -> Box<Fault> {
    value.unfit("a floating number", "a float or an int")
}

fn texts(values: &[&Datum]) -> Written<StringArray> {
    let text = |value: &&Datum| match value {
        Datum::Null => Ok(None),
        Datum::Text(text) => Ok(Some(text.to_string())),
        Datum::Enum(name, value) => Ok(Some(match &**value {
            Datum::Text(text) => text.to_string(),
            _ => name.to_string(),
        })),
        Datum::Uuid(bytes) => {
            let mut text = Vec::new();
            uuid_text(bytes, &mut text);
            Ok(Some(String::from_utf8_lossy(&text).into_owned()))
        }
        other => Err(other.unfit("a string", "a str")),
    };
    values.iter().map(text).collect()
}

fn bytes(values: &[&Datum]) -> Written<BinaryArray> {
    let bytes = |value: &&Datum| match value.plain() {
        Datum::Null => Ok(None),
        Datum::Bytes(bytes) => Ok(Some(bytes.to_vec())),
        Datum::Uuid(bytes) => Ok(Some(bytes.to_vec())),
        other => Err(other.unfit("binary", "bytes")),
    };
    values.iter().map(bytes).collect()
}

fn times(data_type: &DataType, values: &[&Datum]) -> Written<ArrayRef> {
    let (units, kind) = match data_type {
        DataType::Timestamp(unit, _) => (units(*unit), "timestamp"),
        DataType::Duration(unit) => (units(*unit), "duration"),
        DataType::Time32(unit) | DataType::Time64(unit) => (units(*unit), "time"),
        _ => (1, ""),
    };
    let ticks = |value: &Datum| match (data_type, value) {
        (DataType::Timestamp(_, Some(_)), Datum::Timestamp(micros))
        | (DataType::Timestamp(_, None), Datum::LocalTimestamp(micros))
        | (DataType::Duration(_), Datum::Duration(micros))
        | (DataType::Time32(_) | DataType::Time64(_), Datum::Time(micros)) => converted(*micros, units, kind),
        (DataType::Timestamp(_, Some(_)), other) => Err(other.unfit("a timestamp", "a datetime with a zone")),
        (DataType::Timestamp(..), other) => Err(other.unfit("a local timestamp", "a datetime without a zone")),
        (DataType::Duration(_), other) => Err(other.unfit("a duration", "a timedelta")),
        (_, other) => Err(other.unfit("a time", "a time")),
    };
    let narrow = |value: &Datum| {
        let ticks = ticks(value)?;
        i32::try_from(ticks).map_err(|_| Fault::new("a time that the schema's time cannot hold"))
    };
    let found = match data_type {
        DataType::Time32(TimeUnit::Second) => primitives::<Time32SecondType>(values, narrow),
        DataType::Time32(_) => primitives::<Time32MillisecondType>(values, narrow),
        DataType::Time64(TimeUnit::Nanosecond) => primitives::<Time64NanosecondType>(values, ticks),
        DataType::Time64(_) => primitives::<Time64MicrosecondType>(values, ticks),
        DataType::Duration(TimeUnit::Second) => primitives::<DurationSecondType>(values, ticks),
        DataType::Duration(TimeUnit::Millisecond) => primitives::<DurationMillisecondType>(values, ticks),
        DataType::Duration(TimeUnit::Nanosecond) => primitives::<DurationNanosecondType>(values, ticks),
        DataType::Duration(_) => primitives::<DurationMicrosecondType>(values, ticks),
        DataType::Timestamp(TimeUnit::Second, _) => primitives::<TimestampSecondType>(values, ticks),
        DataType::Timestamp(TimeUnit::Millisecond, _) => primitives::<TimestampMillisecondType>(values, ticks),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => primitives::<TimestampNanosecondType>(values, ticks),
        _ => primitives::<TimestampMicrosecondType>(values, ticks),
    }?;
    // The zone is no part of the values.
    let data = found.to_data().into_builder().data_type(data_type.clone()).build();
    data.map(arrow_array::make_array).map_err(|error| Fault::new(error.to_string()))
}

fn list(field: &FieldRef, values: &[&Datum]) -> Written<ArrayRef> {
    let (mut items, mut lengths, mut present) = (Vec::new(), Vec::new(), Vec::new());
    for value in values {
        let own: &[Datum] = match value.plain() {
            Datum::Null => &[],
            Datum::List(items) => items,
            other => return Err(other.unfit("a list", "a list")),
        };
        present.push(!matches!(value.plain(), Datum::Null));
        lengths.push(own.len());
        items.extend(own);
    }
    let children = column(field.data_type(), &items).map_err(|fault| {
        // Written one by one, for the place of the item in its own list.
        let lists = values.iter().filter_map(|value| match value.plain() {
            Datum::List(items) => Some(items),
            _ => None,
        });
        let mut places = lists.flat_map(|items| items.iter().enumerate());
        let found = places.find_map(|(index, item)| Some(column(field.data_type(), &[item]).err()?.at(index)));
        found.unwrap_or(fault)
    })?;
    let field = nullable(field);
    let made =
        ListArray::try_new(field, OffsetBuffer::from_lengths(lengths), children, Some(NullBuffer::from(present)));
    made.map(|array| Arc::new(array) as ArrayRef).map_err(|error| Fault::new(error.to_string()))
}

fn map(field: &FieldRef, values: &[&Datum]) -> Written<ArrayRef> {
    let DataType::Struct(fields) = field.data_type() else { return Err(Fault::new("the schema's map has no entries")) };
    let [key_field, value_field] = &**fields else { return Err(Fault::new("the schema's map has no entries")) };
    let (mut keys, mut entries, mut lengths, mut present) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for value in values {
        let before = keys.len();
        match value.plain() {
            Datum::Null => {}
            Datum::Fields(fields) => {
                for (name, value) in fields {
                    keys.push(Datum::Text(name.clone()));
                    entries.push(value);
                }
            }
            Datum::Entries(pairs) => {
                for (key, value) in pairs {
                    keys.push(key.clone());
                    entries.push(value);
                }
            }
            other => return Err(other.unfit("a map", "a dict")),
        }
        present.push(!matches!(value.plain(), Datum::Null));
        lengths.push(keys.len() - before);
    }
    let key_column =
        column(key_field.data_type(), &keys.iter().collect::<Vec<_>>()).map_err(|fault| fault.within("key"))?;
    let value_column = column(value_field.data_type(), &entries).map_err(|fault| {
        let mut places = keys.iter().zip(&entries);
        let found = places.find_map(|(key, entry)| {
            let fault = column(value_field.data_type(), &[*entry]).err()?;
            Some(match key {
                Datum::Text(key) => fault.under(key.as_bytes()),
                _ => fault.within("[...]"),
            })
        });
        found.unwrap_or(fault)
    })?;
    let of_entries = Fields::from(vec![Arc::clone(key_field), nullable(value_field)]);
    let entries = StructArray::try_new(of_entries.clone(), vec![key_column, value_column], None);
    let entries = entries.map_err(|error| Fault::new(error.to_string()))?;
    let field = Arc::new(Field::new(field.name(), DataType::Struct(of_entries), false));
    let offsets = OffsetBuffer::from_lengths(lengths);
    let made = MapArray::try_new(field, offsets, entries, Some(NullBuffer::from(present)), false);
    made.map(|array| Arc::new(array) as ArrayRef).map_err(|error| Fault::new(error.to_string()))
}

fn structs(fields: &Fields, values: &[&Datum]) -> Written<ArrayRef> {
    const MISSING: &Datum = &Datum::Null;
    for value in values {
        match value.plain() {
            Datum::Null => {}
            Datum::Fields(given) => {
                if let Some((name, _)) = given.iter().find(|(name, _)| fields.find(name).is_none()) {
                    return Err(no_such_field(name, fields.iter().map(|field| &**field.name())));
                }
            }
            other => return Err(other.unfit("a struct", "a dict, or an object with fields")),
        }
    }
    let present: Vec<bool> = values.iter().map(|value| !matches!(value.plain(), Datum::Null)).collect();
    let mut columns = Vec::with_capacity(fields.len());
    for field in fields {
        let of_field = |value: &&'_ Datum| match value.plain() {
            Datum::Fields(given) => given.iter().position(|(name, _)| **name == **field.name()),
            _ => None,
        };
        let own: Vec<&Datum> = values
            .iter()
            .map(|value| match (of_field(value), value.plain()) {
                (Some(at), Datum::Fields(given)) => &given[at].1,
                _ => MISSING,
            })
            .collect();
        columns.push(column(field.data_type(), &own).map_err(|fault| fault.within(field.name()))?);
    }
    let nulls = Some(NullBuffer::from(present));
    if fields.is_empty() {
        return Ok(Arc::new(StructArray::new_empty_fields(values.len(), nulls)));
    }
    let fields = fields.iter().zip(&columns).map(|(field, column)| {
        Arc::new(Field::clone(field).with_data_type(column.data_type().clone()).with_nullable(true))
    });
    let made = StructArray::try_new(fields.collect(), columns, nulls);
    made.map(|array| Arc::new(array) as ArrayRef).map_err(|error| Fault::new(error.to_string()))
}

/// Fault: a field that the schema does not have.
pub(crate) fn no_such_field<'f>(name: &str, known: impl Iterator<Item = &'f str>) -> Box<Fault> {
    let known = known.collect::<Vec<_>>().join(", ");
    Fault::new(format!("the schema has no such field, only {known}")).within(name)
}

fn nullable(field: &FieldRef) -> FieldRef {
    Arc::new(Field::clone(field).with_nullable(true))
}
