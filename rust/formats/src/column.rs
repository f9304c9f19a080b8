//! Growing typed columns of all types that decoders fill, and their construction from Arrow types.
//!
//! Every column knows its own number of rows, and bad rows are undone by it: `truncate` cuts a column to a number of
//! rows, and with it the part of its children that belongs to later rows.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, DurationMicrosecondType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time32MillisecondType, Time64MicrosecondType, TimestampMicrosecondType, TimestampNanosecondType,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;
use arrow_schema::{DataType, Field, FieldRef, Fields, TimeUnit};
use monedula_columns::{BufferPool, Bytes, Growing, Texts};

use crate::error::{UnsupportedField, below};
use crate::fixed::{Bits, Fixed};
use crate::nested::{Lists, Maps, Structs};

/// Limit on the nesting of field types, since decoding recurses as deep.
const MAX_TYPE_DEPTH: usize = 64;

pub(crate) enum Column {
    Boolean(Bits),
    Int8(Fixed<1>),
    Int16(Fixed<2>),
    Int32(Fixed<4>),
    Int64(Fixed<8>),
    UInt32(Fixed<4>),
    UInt64(Fixed<8>),
    Float32(Fixed<4>),
    Float64(Fixed<8>),
    Decimal {
        values: Fixed<16>,
        precision: u8,
        scale: i8,
    },
    Utf8(Texts),
    Binary(Bytes),
    Date(Fixed<4>),
    /// Milliseconds since midnight.
    Time32(Fixed<4>),
    /// Microseconds since midnight.
    Time64(Fixed<8>),
    /// Microseconds or nanoseconds since 1970: in UTC if there is a zone, else local.
    Timestamp {
        values: Fixed<8>,
        unit: TimeUnit,
        zone: Option<Arc<str>>,
    },
    /// Microseconds.
    Duration(Fixed<8>),
    Struct(Structs),
    List(Lists),
    Map(Maps),
}

/// State shared by columns that are being finished: the pool, and the memory that the finished ones hold.
pub(crate) struct Finishing<'p> {
    pub(crate) pool: &'p BufferPool,
    pub(crate) memory_bytes: usize,
}

impl Finishing<'_> {
    /// Takes the first `used` bytes of a growing buffer, which is empty afterwards.
    pub(crate) fn buffer(&mut self, growing: &mut Growing, used: usize) -> Buffer {
        let buffer = growing.finish(used, self.pool);
        self.memory_bytes += buffer.capacity();
        buffer.into_buffer()
    }

    /// Returns a finished array, and counts its memory.
    pub(crate) fn counted<T>(&mut self, (finished, memory_bytes): (T, usize)) -> T {
        self.memory_bytes += memory_bytes;
        finished
    }
}

macro_rules! each_column {
    ($self:expr, $column:ident => $result:expr) => {
        match $self {
            Column::Boolean($column) => $result,
            Column::Int8($column) => $result,
            Column::Int16($column) => $result,
            Column::Int32($column) | Column::Float32($column) => $result,
            Column::Date($column) | Column::Time32($column) | Column::UInt32($column) => $result,
            Column::UInt64($column) | Column::Duration($column) => $result,
            Column::Int64($column) | Column::Float64($column) | Column::Time64($column) => $result,
            Column::Decimal { values: $column, .. } => $result,
            Column::Timestamp { values: $column, .. } => $result,
            Column::Utf8($column) => $result,
            Column::Binary($column) => $result,
            Column::Struct($column) => $result,
            Column::List($column) => $result,
            Column::Map($column) => $result,
        }
    };
}

impl Column {
    #[inline(always)]
    pub(crate) fn rows(&self) -> usize {
        each_column!(self, column => column.rows())
    }

    pub(crate) fn push_null(&mut self) {
        each_column!(self, column => column.push_null());
    }

    /// Appends rows of an array that a column of the same type has finished.
    pub(crate) fn extend(&mut self, array: &dyn Array, rows: Range<usize>) {
        match self {
            Self::Boolean(bits) => bits.extend(array, rows),
            Self::Int8(column) => column.extend(array, rows),
            Self::Int16(column) => column.extend(array, rows),
            Self::Int32(column) | Self::Float32(column) | Self::UInt32(column) => column.extend(array, rows),
            Self::Date(column) | Self::Time32(column) => column.extend(array, rows),
            Self::Int64(column) | Self::Float64(column) | Self::Time64(column) => column.extend(array, rows),
            Self::UInt64(column) | Self::Duration(column) => column.extend(array, rows),
            Self::Timestamp { values, .. } => values.extend(array, rows),
            Self::Decimal { values, .. } => values.extend(array, rows),
            Self::Utf8(texts) => texts.extend(array.as_string(), rows),
            Self::Binary(bytes) => bytes.extend(array.as_binary::<i32>(), rows),
            Self::Struct(structs) => structs.extend(array, rows),
            Self::List(lists) => lists.extend(array, rows),
            Self::Map(maps) => maps.extend(array, rows),
        }
    }

    /// Cuts the column and its children back to `rows` rows. A column with fewer rows keeps them, and loses only the
    /// values that an unfinished row has left in its children.
    pub(crate) fn truncate(&mut self, rows: usize) {
        let rows = rows.min(self.rows());
        each_column!(self, column => column.truncate(rows));
    }

    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Boolean(_) => "boolean",
            Self::Int8(_) => "int8",
            Self::Int16(_) => "int16",
            Self::Int32(_) => "int32",
            Self::Int64(_) => "int64",
            Self::UInt32(_) => "uint32",
            Self::UInt64(_) => "uint64",
            Self::Float32(_) => "float32",
            Self::Float64(_) => "float64",
            Self::Decimal { .. } => "decimal128",
            Self::Utf8(_) => "utf8",
            Self::Binary(_) => "binary",
            Self::Date(_) => "date32",
            Self::Time32(_) => "time32",
            Self::Time64(_) => "time64",
            Self::Timestamp { .. } => "timestamp",
            Self::Duration(_) => "duration",
            Self::Struct(_) => "struct",
            Self::List(_) => "list",
            Self::Map(_) => "map",
        }
    }

    /// Bytes that one more row takes, without texts, elements of lists and entries of maps.
    pub(crate) fn row_bytes(&self) -> usize {
        match self {
            Self::Boolean(_) | Self::Int8(_) => 1,
            Self::Int16(_) => 2,
            Self::Int32(_) | Self::UInt32(_) | Self::Float32(_) | Self::Date(_) | Self::Time32(_) => 4,
            Self::Utf8(_) | Self::Binary(_) | Self::List(_) | Self::Map(_) => 4,
            Self::Int64(_) | Self::Float64(_) | Self::Time64(_) | Self::Timestamp { .. } => 8,
            Self::UInt64(_) | Self::Duration(_) => 8,
            Self::Decimal { .. } => 16,
            Self::Struct(structs) => 1 + structs.children.iter().map(Self::row_bytes).sum::<usize>(),
        }
    }

    /// Bytes of all rows so far in Arrow's layout. Null bits are counted only for structs, as a byte for each.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Utf8(texts) => texts.rows() * 4 + texts.data_len(),
            Self::Binary(bytes) => bytes.rows() * 4 + bytes.data_len(),
            Self::Struct(structs) => structs.rows() + structs.children.iter().map(Self::bytes).sum::<usize>(),
            Self::List(lists) => lists.rows() * 4 + lists.child.bytes(),
            Self::Map(maps) => maps.rows() * 4 + maps.keys.bytes() + maps.values.bytes(),
            fixed => fixed.rows() * fixed.row_bytes(),
        }
    }

    pub(crate) fn finish(&mut self, finishing: &mut Finishing<'_>) -> ArrayRef {
        match self {
            Self::Boolean(column) => column.finish(finishing),
            Self::Int8(column) => Arc::new(column.finish::<Int8Type>(finishing)),
            Self::Int16(column) => Arc::new(column.finish::<Int16Type>(finishing)),
            Self::Int32(column) => Arc::new(column.finish::<Int32Type>(finishing)),
            Self::Int64(column) => Arc::new(column.finish::<Int64Type>(finishing)),
            Self::UInt32(column) => Arc::new(column.finish::<UInt32Type>(finishing)),
            Self::UInt64(column) => Arc::new(column.finish::<UInt64Type>(finishing)),
            Self::Float32(column) => Arc::new(column.finish::<Float32Type>(finishing)),
            Self::Float64(column) => Arc::new(column.finish::<Float64Type>(finishing)),
            Self::Decimal { values, precision, scale } => {
                let decimals = values.finish::<Decimal128Type>(finishing);
                Arc::new(decimals.with_data_type(DataType::Decimal128(*precision, *scale)))
            }
            Self::Utf8(column) => Arc::new(finishing.counted(column.finish(finishing.pool))),
            Self::Binary(column) => Arc::new(finishing.counted(column.finish(finishing.pool))),
            Self::Date(column) => Arc::new(column.finish::<Date32Type>(finishing)),
            Self::Time32(column) => Arc::new(column.finish::<Time32MillisecondType>(finishing)),
            Self::Time64(column) => Arc::new(column.finish::<Time64MicrosecondType>(finishing)),
            Self::Timestamp { values, unit: TimeUnit::Nanosecond, zone } => {
                Arc::new(values.finish::<TimestampNanosecondType>(finishing).with_timezone_opt(zone.clone()))
            }
            Self::Timestamp { values, zone, .. } => {
                Arc::new(values.finish::<TimestampMicrosecondType>(finishing).with_timezone_opt(zone.clone()))
            }
            Self::Duration(column) => Arc::new(column.finish::<DurationMicrosecondType>(finishing)),
            Self::Struct(column) => Arc::new(column.finish(finishing)),
            Self::List(column) => column.finish(finishing),
            Self::Map(column) => column.finish(finishing),
        }
    }

    /// Makes a column of this type, whose fields come from [`nullable`] or from an Avro or Protobuf schema.
    pub(crate) fn new(data_type: &DataType, pool: &BufferPool) -> Self {
        match data_type {
            DataType::Boolean => Self::Boolean(Bits::new(pool)),
            DataType::Int8 => Self::Int8(Fixed::new(pool)),
            DataType::Int16 => Self::Int16(Fixed::new(pool)),
            DataType::Int32 => Self::Int32(Fixed::new(pool)),
            DataType::Int64 => Self::Int64(Fixed::new(pool)),
            DataType::UInt32 => Self::UInt32(Fixed::new(pool)),
            DataType::UInt64 => Self::UInt64(Fixed::new(pool)),
            DataType::Float32 => Self::Float32(Fixed::new(pool)),
            DataType::Float64 => Self::Float64(Fixed::new(pool)),
            DataType::Binary => Self::Binary(Bytes::new(pool)),
            DataType::Date32 => Self::Date(Fixed::new(pool)),
            DataType::Time32(_) => Self::Time32(Fixed::new(pool)),
            DataType::Time64(_) => Self::Time64(Fixed::new(pool)),
            DataType::Duration(_) => Self::Duration(Fixed::new(pool)),
            DataType::Timestamp(unit, zone) => {
                Self::Timestamp { values: Fixed::new(pool), unit: *unit, zone: zone.clone() }
            }
            DataType::Decimal128(precision, scale) => {
                Self::Decimal { values: Fixed::new(pool), precision: *precision, scale: *scale }
            }
            DataType::Struct(fields) => Self::Struct(structs(fields, pool)),
            DataType::List(element) => {
                Self::List(Lists::new(Arc::clone(element), Self::new(element.data_type(), pool), pool))
            }
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(fields) if fields.len() == 2 => {
                    let (keys, values) =
                        (Self::new(fields[0].data_type(), pool), Self::new(fields[1].data_type(), pool));
                    Self::Map(Maps::new(Arc::clone(entries), fields.clone(), (keys, values), pool))
                }
                _ => unreachable!("`nullable` refuses such a map"),
            },
            // Utf8 is the only type left of those that `nullable` accepts.
            _ => Self::Utf8(Texts::new(pool)),
        }
    }
}

/// Makes a struct column of fields that come from [`nullable`].
pub(crate) fn structs(fields: &Fields, pool: &BufferPool) -> Structs {
    let children = fields.iter().map(|field| Column::new(field.data_type(), pool)).collect();
    Structs::new(fields.clone(), children)
}

/// Makes fields nullable at every level, since any field may be missing from a value. Refuses types that decoders do
/// not support, and two fields of one name.
pub(crate) fn nullable(fields: &Fields, path: &str, depth: usize) -> Result<Fields, UnsupportedField> {
    let mut names: Vec<_> = fields.iter().map(|field| field.name()).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(UnsupportedField { path: below(path, twice[0]), reason: "two fields have this name".to_owned() });
    }
    let checked = fields.iter().map(|field| nullable_field(field, &below(path, field.name()), depth));
    Ok(Fields::from(checked.collect::<Result<Vec<_>, _>>()?))
}

fn nullable_field(field: &Field, path: &str, depth: usize) -> Result<FieldRef, UnsupportedField> {
    let unsupported = |reason: String| UnsupportedField { path: path.to_owned(), reason };
    if depth > MAX_TYPE_DEPTH {
        return Err(unsupported(format!("types are nested deeper than {MAX_TYPE_DEPTH}")));
    }
    let data_type = match field.data_type() {
        DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Float32
        | DataType::Float64
        | DataType::Utf8
        | DataType::Binary
        | DataType::Date32
        | DataType::Timestamp(TimeUnit::Microsecond, _) => field.data_type().clone(),
        DataType::Decimal128(precision, scale) if (0..=*precision as i16).contains(&i16::from(*scale)) => {
            field.data_type().clone()
        }
        DataType::Struct(fields) => DataType::Struct(nullable(fields, path, depth + 1)?),
        DataType::List(element) => DataType::List(nullable_field(element, &format!("{path}[]"), depth + 1)?),
        DataType::Map(entries, _) => {
            let (DataType::Struct(fields), path) = (entries.data_type(), format!("{path}{{}}")) else {
                return Err(unsupported("a map without entries".to_owned()));
            };
            let [key, value] = &fields[..] else { return Err(unsupported("a map without entries".to_owned())) };
            if *key.data_type() != DataType::Utf8 {
                return Err(unsupported("the keys of a map must be utf8, as those of JSON objects are".to_owned()));
            }
            let key = Arc::new(key.as_ref().clone().with_nullable(false));
            let fields = Fields::from(vec![key, nullable_field(value, &path, depth + 1)?]);
            let entries = entries.as_ref().clone().with_data_type(DataType::Struct(fields)).with_nullable(false);
            DataType::Map(Arc::new(entries), false)
        }
        other => {
            let reason = format!(
                "no values of type {other} are decoded; use boolean, int8 to int64, float32, float64, decimal128, utf8, \
                 binary, date32, timestamp in microseconds, struct, list or map"
            );
            return Err(unsupported(reason));
        }
    };
    Ok(Arc::new(field.clone().with_data_type(data_type).with_nullable(true)))
}
