//! Arrow's extension types: columns with another meaning than their storage.
//!
//! Types with a plain equivalent become that (`arrow.bool8`, and DuckDB's types that Arrow lacks). UUIDs and JSON keep
//! their types, which the encoders know. All others are refused: the meaning of their bytes is not known.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int8Type;
use arrow_array::{Array, ArrayRef, BooleanArray, Decimal128Array, FixedSizeBinaryArray, StringArray};
use arrow_schema::{DataType, Field};
use monedula_formats::Meaning;
use serde_json::Value;

/// A type with another meaning than its storage, and a plain type that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extension {
    /// `arrow.bool8`: bytes, of which all but zero are true.
    Bool8,
    /// DuckDB's `HUGEINT`, whole numbers of 128 bits.
    HugeInt,
    /// DuckDB's `UHUGEINT`.
    UnsignedHugeInt,
    /// DuckDB's `BIGNUM`, whole numbers of any size.
    BigNum,
    /// DuckDB's `BIT`, texts of zeros and ones.
    Bit,
    /// DuckDB's `TIMETZ`, times of a day with an offset.
    TimeOfZone,
}

/// Whole numbers of as many digits as a decimal has.
const WHOLE: DataType = DataType::Decimal128(38, 0);

/// The seconds that DuckDB subtracts an offset from.
const MAX_OFFSET_SECONDS: i64 = 16 * 3600 - 1;

impl Extension {
    /// The extension type of a field, if it has one that becomes another type.
    ///
    /// # Errors
    /// One that is not known.
    pub(crate) fn of(field: &Field) -> Result<Option<Self>, String> {
        let Some(name) = field.extension_type_name() else { return Ok(None) };
        if Meaning::of(field) != Meaning::Storage {
            return Ok(None);
        }
        let stored = field.data_type();
        let metadata = field.extension_type_metadata().unwrap_or_default();
        let opaque = || -> Option<(String, String)> {
            let metadata: Value = serde_json::from_str(metadata).ok()?;
            let text = |key: &str| metadata.get(key)?.as_str().map(str::to_owned);
            Some((text("type_name")?, text("vendor_name")?))
        };
        let (called, found) = match (name, opaque()) {
            ("arrow.bool8", _) => (name.to_owned(), Some(Self::Bool8)),
            ("arrow.opaque", Some((own, vendor))) => {
                let found = match (vendor.as_str(), own.as_str()) {
                    ("DuckDB", "hugeint") => Some(Self::HugeInt),
                    ("DuckDB", "uhugeint") => Some(Self::UnsignedHugeInt),
                    ("DuckDB", "bignum" | "varint") => Some(Self::BigNum),
                    ("DuckDB", "bit") => Some(Self::Bit),
                    ("DuckDB", "time_tz") => Some(Self::TimeOfZone),
                    _ => None,
                };
                (format!("{own} of {vendor} ({name})"), found)
            }
            _ => (name.to_owned(), None),
        };
        match found.filter(|found| found.is_stored_as(stored)) {
            Some(found) => Ok(Some(found)),
            None => Err(format!(
                "the column is of the extension type {called}, stored as {stored}, and what it means is not known here: cast \
                 it to a type of Arrow's, in SQL to VARCHAR for example; the storage itself is .storage of pyarrow's arrays"
            )),
        }
    }

    fn is_stored_as(self, stored: &DataType) -> bool {
        match self {
            Self::Bool8 => *stored == DataType::Int8,
            Self::HugeInt | Self::UnsignedHugeInt => *stored == DataType::FixedSizeBinary(16),
            Self::BigNum | Self::Bit => {
                matches!(stored, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
            }
            Self::TimeOfZone => *stored == DataType::FixedSizeBinary(8),
        }
    }

    /// The plain type that means the same.
    pub(crate) fn plain(self) -> DataType {
        match self {
            Self::Bool8 => DataType::Boolean,
            Self::HugeInt | Self::UnsignedHugeInt | Self::BigNum => WHOLE,
            Self::Bit | Self::TimeOfZone => DataType::Utf8,
        }
    }

    /// The same values in the plain type.
    ///
    /// # Errors
    /// A value that the plain type does not have, or whose bytes are not of the extension type.
    pub(crate) fn values(self, stored: &ArrayRef) -> Result<ArrayRef, String> {
        Ok(match self {
            Self::Bool8 => {
                let bytes = stored.as_primitive::<Int8Type>();
                Arc::new(bytes.iter().map(|byte| byte.map(|byte| byte != 0)).collect::<BooleanArray>())
            }
            Self::HugeInt => numbers(
                fixed(stored)
                    .map(|bytes| bytes.map(|bytes| sixteen(bytes).map(i128::from_le_bytes).ok_or_else(too_large))),
            )?,
            Self::UnsignedHugeInt => numbers(fixed(stored).map(|bytes| {
                bytes.map(|bytes| {
                    let number = sixteen(bytes).map(u128::from_le_bytes);
                    number.and_then(|number| number.try_into().ok()).ok_or_else(too_large)
                })
            }))?,
            Self::BigNum => numbers(binary(stored).map(|bytes| bytes.map(big_number)))?,
            Self::Bit => texts(binary(stored), bits)?,
            Self::TimeOfZone => texts(fixed(stored), time_of_zone)?,
        })
    }
}

fn fixed(stored: &ArrayRef) -> Box<dyn Iterator<Item = Option<&[u8]>> + '_> {
    let array: &FixedSizeBinaryArray = stored.as_fixed_size_binary();
    Box::new(array.iter())
}

fn binary(stored: &ArrayRef) -> Box<dyn Iterator<Item = Option<&[u8]>> + '_> {
    match stored.data_type() {
        DataType::Binary => Box::new(stored.as_binary::<i32>().iter()),
        DataType::LargeBinary => Box::new(stored.as_binary::<i64>().iter()),
        _ => Box::new(stored.as_binary_view().iter()),
    }
}

fn sixteen(bytes: &[u8]) -> Option<[u8; 16]> {
    bytes.try_into().ok()
}

fn too_large() -> String {
    "a whole number of more than 38 digits, which no decimal has: cast the column to VARCHAR".to_owned()
}

fn numbers(given: impl Iterator<Item = Option<Result<i128, String>>>) -> Result<ArrayRef, String> {
    const LEAST_TOO_LARGE: u128 = 10_u128.pow(38);
    let fits = |number: i128| if number.unsigned_abs() < LEAST_TOO_LARGE { Ok(number) } else { Err(too_large()) };
    let numbers = given.map(|number| number.map(|number| number.and_then(fits)).transpose());
    let numbers = numbers.collect::<Result<Decimal128Array, String>>()?;
    Ok(Arc::new(numbers.with_data_type(WHOLE)))
}

fn texts<'a>(
    given: impl Iterator<Item = Option<&'a [u8]>>,
    text: impl Fn(&[u8]) -> Option<String>,
) -> Result<ArrayRef, String> {
    let damaged = || "a value that is none of DuckDB's".to_owned();
    let texts = given.map(|bytes| bytes.map(|bytes| text(bytes).ok_or_else(damaged)).transpose());
    Ok(Arc::new(texts.collect::<Result<StringArray, String>>()?))
}

/// A sign and a length in three bytes, and the digits of base 256 in that order; of negative numbers, all inverted.
fn big_number(bytes: &[u8]) -> Result<i128, String> {
    let is_negative = bytes.first().is_some_and(|byte| byte & 0x80 == 0);
    let mut number: i128 = 0;
    for byte in bytes.get(3..).unwrap_or_default() {
        let digit = if is_negative { !byte } else { *byte };
        number = number.checked_mul(256).and_then(|number| number.checked_add(digit.into())).ok_or_else(too_large)?;
    }
    Ok(if is_negative { -number } else { number })
}

/// The number of bits that the first byte is filled up with, and the bits.
fn bits(bytes: &[u8]) -> Option<String> {
    let (spare, bits) = bytes.split_first()?;
    let digits = bits.iter().flat_map(|byte| (0..8).rev().map(move |bit| if byte >> bit & 1 == 1 { '1' } else { '0' }));
    Some(digits.skip(usize::from(*spare)).collect())
}

/// Microseconds of the day in 40 bits, and in 24 bits what is left of the largest offset; as DuckDB prints it.
fn time_of_zone(bytes: &[u8]) -> Option<String> {
    let packed = u64::from_le_bytes(bytes.try_into().ok()?);
    let (micros, offset) = (packed >> 24, MAX_OFFSET_SECONDS - i64::try_from(packed & 0xff_ffff).ok()?);
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    let mut text = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if fraction != 0 {
        text.push_str(format!(".{fraction:06}").trim_end_matches('0'));
    }
    let away = offset.unsigned_abs();
    text.push(if offset < 0 { '-' } else { '+' });
    text.push_str(&format!("{:02}", away / 3600));
    if away % 3600 != 0 {
        text.push_str(&format!(":{:02}", away / 60 % 60));
    }
    if away % 60 != 0 {
        text.push_str(&format!(":{:02}", away % 60));
    }
    Some(text)
}
