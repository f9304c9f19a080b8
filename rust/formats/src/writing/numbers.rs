//! Columns of numbers and times. Every conversion is exact, or an error: no value is rounded or cut.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DurationMicrosecondType,
    DurationMillisecondType, DurationNanosecondType, DurationSecondType, Float16Type, Float32Type, Float64Type,
    Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_buffer::i256;
use arrow_schema::{DataType, TimeUnit};

use super::{Fault, Written};

#[derive(Debug)]
pub(crate) enum Ints<'a> {
    I8(&'a [i8]),
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
    /// Decimals of scale 0, such as the sums of DuckDB.
    Decimals32(&'a [i32]),
    Decimals64(&'a [i64]),
    Decimals128(&'a [i128]),
}

impl<'a> Ints<'a> {
    pub(crate) fn of(array: &'a ArrayRef) -> Option<Self> {
        Some(match array.data_type() {
            DataType::Int8 => Self::I8(array.as_primitive::<Int8Type>().values()),
            DataType::Int16 => Self::I16(array.as_primitive::<Int16Type>().values()),
            DataType::Int32 => Self::I32(array.as_primitive::<Int32Type>().values()),
            DataType::Int64 => Self::I64(array.as_primitive::<Int64Type>().values()),
            DataType::UInt8 => Self::U8(array.as_primitive::<UInt8Type>().values()),
            DataType::UInt16 => Self::U16(array.as_primitive::<UInt16Type>().values()),
            DataType::UInt32 => Self::U32(array.as_primitive::<UInt32Type>().values()),
            DataType::UInt64 => Self::U64(array.as_primitive::<UInt64Type>().values()),
            DataType::Decimal32(_, 0) => Self::Decimals32(array.as_primitive::<Decimal32Type>().values()),
            DataType::Decimal64(_, 0) => Self::Decimals64(array.as_primitive::<Decimal64Type>().values()),
            DataType::Decimal128(_, 0) => Self::Decimals128(array.as_primitive::<Decimal128Type>().values()),
            _ => return None,
        })
    }

    #[inline]
    pub(crate) fn long(&self, row: usize) -> Written<i64> {
        Ok(match self {
            Self::I32(values) => i64::from(values[row]),
            Self::I64(values) => values[row],
            Self::I8(values) => i64::from(values[row]),
            Self::I16(values) => i64::from(values[row]),
            Self::U8(values) => i64::from(values[row]),
            Self::U16(values) => i64::from(values[row]),
            Self::U32(values) => i64::from(values[row]),
            Self::U64(values) => i64::try_from(values[row]).map_err(|_| beyond(values[row], "long"))?,
            Self::Decimals32(values) => i64::from(values[row]),
            Self::Decimals64(values) => values[row],
            Self::Decimals128(values) => i64::try_from(values[row]).map_err(|_| beyond(values[row], "long"))?,
        })
    }

    /// Integer of any width, signed or not.
    #[inline]
    pub(crate) fn wide(&self, row: usize) -> i128 {
        match self {
            Self::U64(values) => i128::from(values[row]),
            Self::I32(values) => i128::from(values[row]),
            Self::I64(values) => i128::from(values[row]),
            Self::I8(values) => i128::from(values[row]),
            Self::I16(values) => i128::from(values[row]),
            Self::U8(values) => i128::from(values[row]),
            Self::U16(values) => i128::from(values[row]),
            Self::U32(values) => i128::from(values[row]),
            Self::Decimals32(values) => i128::from(values[row]),
            Self::Decimals64(values) => i128::from(values[row]),
            Self::Decimals128(values) => values[row],
        }
    }

    #[inline]
    pub(crate) fn int(&self, row: usize) -> Written<i32> {
        if let Self::U64(_) | Self::Decimals128(_) = self {
            let value = self.wide(row);
            return i32::try_from(value).map_err(|_| beyond(value, "int"));
        }
        let value = self.long(row)?;
        i32::try_from(value).map_err(|_| beyond(value, "int"))
    }

    pub(crate) fn double(&self, row: usize) -> Written<f64> {
        let value = self.wide(row);
        let double = value as f64;
        // Casts saturate: a float beyond the range would compare equal to i128::MAX.
        if double as i128 == value && value != i128::MAX { Ok(double) } else { Err(inexact(value, "double")) }
    }

    pub(crate) fn float(&self, row: usize) -> Written<f32> {
        let value = self.wide(row);
        let float = value as f32;
        if float as i128 == value && value != i128::MAX { Ok(float) } else { Err(inexact(value, "float")) }
    }
}

#[cold]
pub(crate) fn beyond(value: impl std::fmt::Display, kind: &str) -> Box<Fault> {
    Fault::new(format!("{value} is beyond the range of the schema's {kind}"))
}

#[cold]
fn inexact(value: impl std::fmt::Display, kind: &str) -> Box<Fault> {
    Fault::new(format!("{value} is no {kind}: it would be rounded; cast the column first, or make the field wider"))
}

#[derive(Debug)]
pub(crate) enum Floats<'a> {
    F16(&'a PrimitiveArray<Float16Type>),
    F32(&'a [f32]),
    F64(&'a [f64]),
}

impl<'a> Floats<'a> {
    pub(crate) fn of(array: &'a ArrayRef) -> Option<Self> {
        Some(match array.data_type() {
            DataType::Float16 => Self::F16(array.as_primitive()),
            DataType::Float32 => Self::F32(array.as_primitive::<Float32Type>().values()),
            DataType::Float64 => Self::F64(array.as_primitive::<Float64Type>().values()),
            _ => return None,
        })
    }

    #[inline]
    pub(crate) fn double(&self, row: usize) -> f64 {
        match self {
            Self::F64(values) => values[row],
            Self::F32(values) => f64::from(values[row]),
            Self::F16(values) => values.value(row).to_f64(),
        }
    }

    #[inline]
    pub(crate) fn float(&self, row: usize) -> Written<f32> {
        Ok(match self {
            Self::F32(values) => values[row],
            Self::F16(values) => values.value(row).to_f32(),
            Self::F64(values) => {
                let (value, float) = (values[row], values[row] as f32);
                if f64::from(float) != value && !value.is_nan() {
                    // Formatted with an exponent: 1e308 would be 309 digits.
                    return Err(inexact(format_args!("{value:?}"), "float"));
                }
                float
            }
        })
    }
}

/// Dates, times and timestamps, converted to another unit if necessary.
#[derive(Debug)]
pub(crate) struct Times<'a> {
    ticks: Ticks<'a>,
    factor: i64,
    divisor: i64,
    is_int: bool,
    /// Type in the schema, for errors.
    kind: &'static str,
}

#[derive(Debug)]
enum Ticks<'a> {
    I32(&'a [i32]),
    I64(&'a [i64]),
}

/// Units per second.
pub(crate) fn units(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

impl<'a> Times<'a> {
    pub(crate) fn date(array: &'a ArrayRef) -> Option<Self> {
        let (ticks, divisor) = match array.data_type() {
            DataType::Date32 => (Ticks::I32(array.as_primitive::<Date32Type>().values()), 1),
            DataType::Date64 => (Ticks::I64(array.as_primitive::<Date64Type>().values()), 86_400_000),
            _ => return None,
        };
        Some(Self { ticks, factor: 1, divisor, is_int: true, kind: "date" })
    }

    /// Time of day in this many units per second.
    pub(crate) fn time(array: &'a ArrayRef, wanted: i64) -> Option<Self> {
        let (ticks, has) = match array.data_type() {
            DataType::Time32(TimeUnit::Second) => (Ticks::I32(array.as_primitive::<Time32SecondType>().values()), 1),
            DataType::Time32(_) => (Ticks::I32(array.as_primitive::<Time32MillisecondType>().values()), 1_000),
            DataType::Time64(TimeUnit::Microsecond) => {
                (Ticks::I64(array.as_primitive::<Time64MicrosecondType>().values()), 1_000_000)
            }
            DataType::Time64(_) => (Ticks::I64(array.as_primitive::<Time64NanosecondType>().values()), 1_000_000_000),
            _ => return None,
        };
        let kind = if wanted == 1_000 { "time-millis" } else { "time-micros" };
        Some(Self::converted(ticks, has, wanted, wanted == 1_000, kind))
    }

    /// Timestamp in this many units per second, with or without a zone.
    pub(crate) fn timestamp(array: &'a ArrayRef, wanted: i64, is_zoned: bool) -> Option<Self> {
        let DataType::Timestamp(unit, zone) = array.data_type() else { return None };
        if zone.is_some() != is_zoned {
            return None;
        }
        let ticks: &[i64] = match unit {
            TimeUnit::Second => array.as_primitive::<TimestampSecondType>().values(),
            TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().values(),
            TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().values(),
            TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().values(),
        };
        let kind = match wanted {
            1_000 => "timestamp-millis",
            1_000_000 => "timestamp-micros",
            _ => "timestamp-nanos",
        };
        Some(Self::converted(Ticks::I64(ticks), units(*unit), wanted, false, kind))
    }

    /// Duration in this many units per second.
    pub(crate) fn duration(array: &'a ArrayRef, wanted: i64) -> Option<Self> {
        let DataType::Duration(unit) = array.data_type() else { return None };
        let ticks: &[i64] = match unit {
            TimeUnit::Second => array.as_primitive::<DurationSecondType>().values(),
            TimeUnit::Millisecond => array.as_primitive::<DurationMillisecondType>().values(),
            TimeUnit::Microsecond => array.as_primitive::<DurationMicrosecondType>().values(),
            TimeUnit::Nanosecond => array.as_primitive::<DurationNanosecondType>().values(),
        };
        Some(Self::converted(Ticks::I64(ticks), units(*unit), wanted, false, "duration"))
    }

    fn converted(ticks: Ticks<'a>, has: i64, wanted: i64, is_int: bool, kind: &'static str) -> Self {
        Self { ticks, factor: (wanted / has).max(1), divisor: (has / wanted).max(1), is_int, kind }
    }

    #[inline]
    pub(crate) fn get(&self, row: usize) -> Written<i64> {
        let given = match &self.ticks {
            Ticks::I32(values) => i64::from(values[row]),
            Ticks::I64(values) => values[row],
        };
        if self.factor == 1 && self.divisor == 1 && !self.is_int {
            return Ok(given);
        }
        if given % self.divisor != 0 {
            let kind = self.kind;
            return Err(Fault::new(format!(
                "{given} is not a whole number of the schema's {kind}: {} of the column's units are one; round it first",
                self.divisor
            )));
        }
        let value = (given / self.divisor).checked_mul(self.factor);
        value.filter(|value| !self.is_int || i32::try_from(*value).is_ok()).ok_or_else(|| beyond(given, self.kind))
    }
}

/// Decimals and integers as decimals, rescaled if necessary.
#[derive(Debug)]
pub(crate) struct Decimals<'a> {
    array: &'a ArrayRef,
    scale: i8,
    wanted_scale: i8,
    precision: usize,
}

impl<'a> Decimals<'a> {
    pub(crate) fn of(array: &'a ArrayRef, precision: usize, wanted_scale: usize) -> Option<Self> {
        let scale = match array.data_type() {
            DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) => *scale,
            DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => *scale,
            _ if array.data_type().is_integer() => 0,
            _ => return None,
        };
        Some(Self { array, scale, wanted_scale: i8::try_from(wanted_scale).ok()?, precision })
    }

    fn unscaled(&self, row: usize) -> i256 {
        match self.array.data_type() {
            DataType::Decimal32(..) => i256::from_i128(self.array.as_primitive::<Decimal32Type>().value(row).into()),
            DataType::Decimal64(..) => i256::from_i128(self.array.as_primitive::<Decimal64Type>().value(row).into()),
            DataType::Decimal128(..) => i256::from_i128(self.array.as_primitive::<Decimal128Type>().value(row)),
            DataType::Decimal256(..) => self.array.as_primitive::<Decimal256Type>().value(row),
            _ => i256::from_i128(Ints::of(self.array).map_or(0, |ints| ints.wide(row))),
        }
    }

    /// Unscaled value of a row, in the wanted scale.
    pub(crate) fn get(&self, row: usize) -> Written<i128> {
        let (precision, scale) = (self.precision, self.wanted_scale);
        let beyond = || Fault::new(format!("a number of more digits than the schema's decimal({precision}, {scale})"));
        let shift = i32::from(self.wanted_scale) - i32::from(self.scale);
        if shift == 0
            && let DataType::Decimal128(..) = self.array.data_type()
        {
            let value = self.array.as_primitive::<Decimal128Type>().value(row);
            return if self.is_within(value) { Ok(value) } else { Err(beyond()) };
        }
        let given = self.unscaled(row);
        let value = match i256::from_i128(10).checked_pow(shift.unsigned_abs()) {
            Some(power) if shift >= 0 => given.checked_mul(power).ok_or_else(beyond)?,
            Some(power) if given.checked_rem(power) == Some(i256::ZERO) => {
                given.checked_div(power).ok_or_else(beyond)?
            }
            None if given == i256::ZERO => i256::ZERO,
            None if shift > 0 => return Err(beyond()),
            _ => {
                let has = self.scale;
                return Err(Fault::new(format!(
                    "{given}e{} has more decimal places than the schema's decimal({precision}, {scale}); round it first",
                    -i32::from(has)
                )));
            }
        };
        value.to_i128().filter(|value| self.is_within(*value)).ok_or_else(beyond)
    }

    /// Returns true if the precision permits the value. 128 bits have less than 39 digits, so larger precisions permit
    /// all.
    fn is_within(&self, value: i128) -> bool {
        10_u128.checked_pow(self.precision as u32).is_none_or(|limit| value.unsigned_abs() < limit)
    }
}
