//! Values as JSON without a schema: each by its own kind.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{DataType, TimeUnit};

use super::bind::Binder;
use super::scalar;
use crate::datum::{Datum, column};
use crate::json::options::JsonOptions;
use crate::writing::{Fault, Written, uuid_text};

/// Limit on the nesting of values.
const MAX_DEPTH: usize = 64;

/// Digits of a decimal of 128 bits.
const MAX_DIGITS: u8 = 38;

pub(super) fn write(options: &JsonOptions, datum: &Datum, out: &mut Vec<u8>, depth: usize) -> Written {
    if depth > MAX_DEPTH {
        return Err(Fault::new(format!("values are nested deeper than {MAX_DEPTH}")));
    }
    match datum.plain() {
        Datum::Null => out.extend_from_slice(b"null"),
        Datum::Boolean(value) => out.extend_from_slice(scalar::boolean(*value)),
        Datum::Int(number) => scalar::int(*number, out),
        Datum::Float(number) => scalar::double(*number, out),
        Datum::Text(text) => scalar::text(text.as_bytes(), out),
        Datum::Bytes(bytes) => scalar::base64(bytes, out),
        Datum::Uuid(uuid) => scalar::quoted(|out| uuid_text(uuid, out), out),
        Datum::List(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write(options, item, out, depth + 1).map_err(|fault| fault.at(index))?;
            }
            out.push(b']');
        }
        Datum::Fields(fields) => {
            out.push(b'{');
            let first = out.len();
            for (name, value) in fields {
                if options.ignore_null_fields && *value == Datum::Null {
                    continue;
                }
                if out.len() > first {
                    out.push(b',');
                }
                scalar::text(name.as_bytes(), out);
                out.push(b':');
                write(options, value, out, depth + 1).map_err(|fault| fault.within(name))?;
            }
            out.push(b'}');
        }
        Datum::Entries(_) => return Err(datum.unfit("JSON", "a dict whose keys are texts")),
        other => return leaf(options, other, out),
    }
    Ok(())
}

/// Writes a value as a column of its type is, by the options.
fn leaf(options: &JsonOptions, datum: &Datum, out: &mut Vec<u8>) -> Written {
    let data_type = match datum {
        Datum::Decimal(_, places) => {
            let scale = i8::try_from(*places).ok().filter(|scale| (0..=MAX_DIGITS as i8).contains(scale));
            let scale = scale.ok_or_else(|| Fault::new("a decimal with more places than 38"))?;
            DataType::Decimal128(MAX_DIGITS, scale)
        }
        Datum::Date(_) => DataType::Date32,
        Datum::Timestamp(_) => DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from("UTC"))),
        Datum::LocalTimestamp(_) => DataType::Timestamp(TimeUnit::Microsecond, None),
        other => return Err(other.unfit("JSON", "a text or a number of it, for which JSON has a form")),
    };
    let array: ArrayRef = column(&data_type, &[datum])?;
    let binder = Binder { options, embeds_json: false, is_shown: false };
    let node = binder.leaf(&array).map_err(|bad| Fault::new(bad.reason))?;
    node.write(0, out)
}
