//! A single value, as a program has it: what one record is written from, without a column.

mod columns;

use std::fmt;

use arrow_array::{Array, LargeBinaryArray};

pub(crate) use self::columns::{column, no_such_field};
use crate::writing::{Fault, Unwritable, Written};

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Datum {
    /// No value.
    Null,
    /// True or false.
    Boolean(bool),
    /// A whole number.
    Int(i128),
    /// A floating number.
    Float(f64),
    /// A text.
    Text(Box<str>),
    /// Bytes.
    Bytes(Box<[u8]>),
    /// A decimal number: the digits as a whole number, and how many of them are behind the point.
    Decimal(i128, i32),
    /// Days since 1970.
    Date(i32),
    /// Microseconds since midnight.
    Time(i64),
    /// Microseconds since 1970, in UTC.
    Timestamp(i64),
    /// Microseconds since 1970 of a time without a zone.
    LocalTimestamp(i64),
    /// Microseconds.
    Duration(i64),
    /// Bytes of a UUID.
    Uuid([u8; 16]),
    /// A member of an enumeration: its name, and its value.
    Enum(Box<str>, Box<Self>),
    /// Items in their order.
    List(Vec<Self>),
    /// Values by their names.
    Fields(Vec<(Box<str>, Self)>),
    /// Values by keys that are no texts.
    Entries(Vec<(Self, Self)>),
}

/// Fault of a value that cannot be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadDatum {
    /// Path of the field with the fault, like `items[3].price`; empty if the value as a whole is bad.
    pub path: String,
    /// What is there, and what is expected.
    pub reason: String,
}

impl From<Box<Fault>> for BadDatum {
    fn from(fault: Box<Fault>) -> Self {
        Self { path: fault.path, reason: fault.reason }
    }
}

impl From<Unwritable> for BadDatum {
    fn from(unwritable: Unwritable) -> Self {
        match unwritable {
            Unwritable::Column(bad) => Self { path: bad.path, reason: bad.reason },
            Unwritable::Row { path, reason, .. } => Self { path, reason },
        }
    }
}

/// The one value that was written.
pub(crate) fn first(values: LargeBinaryArray) -> Result<Vec<u8>, BadDatum> {
    if values.is_empty() || values.is_null(0) {
        return Err(BadDatum { path: String::new(), reason: "is null".to_owned() });
    }
    Ok(values.value(0).to_vec())
}

impl fmt::Display for Datum {
    /// The kind of the value, by the name of Python's type; never the value.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Null => "None",
            Self::Boolean(_) => "a bool",
            Self::Int(_) => "an int",
            Self::Float(_) => "a float",
            Self::Text(_) => "a str",
            Self::Bytes(_) => "bytes",
            Self::Decimal(..) => "a Decimal",
            Self::Date(_) => "a date",
            Self::Time(_) => "a time",
            Self::Timestamp(_) => "a datetime with a zone",
            Self::LocalTimestamp(_) => "a datetime without a zone",
            Self::Duration(_) => "a timedelta",
            Self::Uuid(_) => "a UUID",
            Self::Enum(..) => "a member of an Enum",
            Self::List(_) => "a list",
            Self::Fields(_) => "a dict or an object with fields",
            Self::Entries(_) => "a dict with other keys than texts",
        })
    }
}

impl Datum {
    /// The value itself: that of an enumeration's member.
    pub(crate) fn plain(&self) -> &Self {
        match self {
            Self::Enum(_, value) => value.plain(),
            other => other,
        }
    }

    /// Fault: another kind of value is expected.
    #[cold]
    pub(crate) fn unfit(&self, kind: &str, expected: &str) -> Box<Fault> {
        Fault::new(format!("{self}, and the schema has {kind} there; expected {expected}"))
    }

    /// The number for a field of 64 bits; `None` if it is no number.
    pub(crate) fn double(&self) -> Option<Written<f64>> {
        match self.plain() {
            Self::Float(number) => Some(Ok(*number)),
            Self::Int(number) => {
                let double = *number as f64;
                let is_exact = double as i128 == *number;
                Some(if is_exact {
                    Ok(double)
                } else {
                    Err(Fault::new("a number that a double does not hold exactly"))
                })
            }
            _ => None,
        }
    }

    /// The nearest number of 32 bits; `None` if it is no number.
    pub(crate) fn float(&self) -> Option<Written<f32>> {
        let narrow = |double: f64| {
            let float = double as f32;
            let is_beyond = float.is_infinite() && double.is_finite();
            if is_beyond { Err(Fault::new("a number that a float of 32 bits cannot hold")) } else { Ok(float) }
        };
        self.double().map(|double| double.and_then(narrow))
    }

    pub(crate) fn decimal(&self, precision: usize, scale: usize) -> Option<Written<i128>> {
        let (digits, places) = match self.plain() {
            Self::Decimal(digits, places) => (*digits, *places),
            Self::Int(number) => (*number, 0),
            _ => return None,
        };
        Some(rescaled(digits, places, precision, scale))
    }
}

/// The digits with as many of them behind the point as the schema has.
fn rescaled(digits: i128, places: i32, precision: usize, scale: usize) -> Written<i128> {
    let beyond = || Fault::new(format!("a number of more digits than the schema's decimal({precision}, {scale})"));
    let shift = i64::try_from(scale).unwrap_or(i64::MAX) - i64::from(places);
    let power = u32::try_from(shift.unsigned_abs()).ok().and_then(|shift| 10_i128.checked_pow(shift));
    let value = match power {
        _ if digits == 0 => 0,
        Some(power) if shift >= 0 => digits.checked_mul(power).ok_or_else(beyond)?,
        Some(power) if digits % power == 0 => digits / power,
        None if shift > 0 => return Err(beyond()),
        _ => {
            return Err(Fault::new(format!(
                "a number with more decimal places than the schema's decimal({precision}, {scale}); round it first"
            )));
        }
    };
    let is_within = 10_u128.checked_pow(precision as u32).is_none_or(|limit| value.unsigned_abs() < limit);
    if is_within { Ok(value) } else { Err(beyond()) }
}

/// Microseconds in this many units per second.
pub(crate) fn converted(micros: i64, units: i64, kind: &str) -> Written<i64> {
    let out_of_range = || Fault::new(format!("a time that the schema's {kind} cannot hold"));
    if units >= 1_000_000 {
        return micros.checked_mul(units / 1_000_000).ok_or_else(out_of_range);
    }
    let divisor = 1_000_000 / units;
    if micros % divisor != 0 {
        return Err(Fault::new(format!("is more precise than the schema's {kind}; round it first")));
    }
    Ok(micros / divisor)
}
