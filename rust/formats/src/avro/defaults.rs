//! Defaults of a reader's fields: JSON is encoded into the bytes that a writer with the reader's schema would have
//! written.

use serde_json::Value;

use super::schema::{AvroSchema, Kind, TypeId};
use crate::varint::put_zigzag;

/// Limit on the nesting of a default: a record that contains itself has an endless one.
const MAX_DEPTH: usize = 64;
const MAX_BYTES: usize = 1 << 20;

/// Appends the value to `out`. Each nested value takes one of `steps_left`: trying the branches of recursive unions
/// could be endless. An error is the reason why it is no value of the type.
pub(crate) fn encode(
    schema: &AvroSchema,
    id: TypeId,
    json: &Value,
    out: &mut Vec<u8>,
    steps_left: &mut usize,
    depth: usize,
) -> Result<(), String> {
    if depth > MAX_DEPTH || out.len() > MAX_BYTES || *steps_left == 0 {
        return Err("the default is nested too deep, or too large".to_owned());
    }
    *steps_left -= 1;
    let kind = schema.kind(id);
    let unfit = || format!("the default {json} is no {}", kind.text());
    match (kind, json) {
        (Kind::Null, Value::Null) => {}
        (Kind::Boolean, Value::Bool(value)) => out.push(u8::from(*value)),
        (Kind::Int, Value::Number(number)) => {
            let value = number.as_i64().and_then(|value| i32::try_from(value).ok()).ok_or_else(unfit)?;
            put_zigzag(i64::from(value), out);
        }
        (Kind::Long, Value::Number(number)) => put_zigzag(number.as_i64().ok_or_else(unfit)?, out),
        (Kind::Float, json) => out.extend((float(json).ok_or_else(unfit)? as f32).to_le_bytes()),
        (Kind::Double, json) => out.extend(float(json).ok_or_else(unfit)?.to_le_bytes()),
        (Kind::String, Value::String(text)) => bytes(text.as_bytes(), out),
        (Kind::Bytes, Value::String(text)) => bytes(&latin(text).ok_or_else(unfit)?, out),
        (Kind::Fixed { size, .. }, Value::String(text)) => {
            out.extend(latin(text).filter(|bytes| bytes.len() == *size).ok_or_else(unfit)?);
        }
        (Kind::Enum { symbols, .. }, Value::String(text)) => {
            put_zigzag(symbols.iter().position(|symbol| **symbol == **text).ok_or_else(unfit)? as i64, out);
        }
        (Kind::Array(items), Value::Array(values)) => {
            if !values.is_empty() {
                put_zigzag(values.len() as i64, out);
            }
            values.iter().try_for_each(|value| encode(schema, *items, value, out, steps_left, depth + 1))?;
            out.push(0);
        }
        (Kind::Map(values), Value::Object(entries)) => {
            if !entries.is_empty() {
                put_zigzag(entries.len() as i64, out);
            }
            for (key, value) in entries {
                bytes(key.as_bytes(), out);
                encode(schema, *values, value, out, steps_left, depth + 1)?;
            }
            out.push(0);
        }
        (Kind::Record { fields, .. }, Value::Object(given)) => {
            for field in fields {
                let value = given.get(&*field.name).or(field.default.as_ref());
                let value = value.ok_or_else(|| format!("the default lacks {}, which has none", field.name))?;
                encode(schema, field.type_id, value, out, steps_left, depth + 1)?;
            }
        }
        // Older versions of the specification permitted only the first branch, later ones any.
        (Kind::Union(branches), json) => {
            let start = out.len();
            for (number, branch) in branches.iter().enumerate() {
                put_zigzag(number as i64, out);
                if encode(schema, *branch, json, out, steps_left, depth + 1).is_ok() {
                    return Ok(());
                }
                out.truncate(start);
            }
            return Err(unfit());
        }
        _ => return Err(unfit()),
    }
    Ok(())
}

/// Checks a default as Java's library does when it reads a schema: texts are not looked into, and any branch of a union
/// may have it.
pub(crate) fn is_default(schema: &AvroSchema, id: TypeId, json: &Value) -> bool {
    match (schema.kind(id), json) {
        (Kind::Null, Value::Null) | (Kind::Boolean, Value::Bool(_)) => true,
        (Kind::Int, Value::Number(number)) => number.as_i64().is_some_and(|value| i32::try_from(value).is_ok()),
        (Kind::Long, Value::Number(number)) => number.is_i64(),
        (Kind::Float | Kind::Double, json) => json.is_number(),
        (Kind::String | Kind::Bytes | Kind::Enum { .. } | Kind::Fixed { .. }, json) => json.is_string(),
        (Kind::Array(items), Value::Array(values)) => values.iter().all(|value| is_default(schema, *items, value)),
        (Kind::Map(values), Value::Object(entries)) => entries.values().all(|value| is_default(schema, *values, value)),
        (Kind::Record { fields, .. }, Value::Object(given)) => {
            fields.iter().all(|field| match given.get(&*field.name) {
                Some(value) => is_default(schema, field.type_id, value),
                None => field.default.is_some(),
            })
        }
        (Kind::Union(branches), json) => branches.iter().any(|branch| is_default(schema, *branch, json)),
        _ => false,
    }
}

fn float(json: &Value) -> Option<f64> {
    match json {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" | "INF" => Some(f64::INFINITY),
            "-Infinity" | "-INF" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// Bytes in their JSON form: characters up to U+00FF.
fn latin(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|character| u8::try_from(u32::from(character)).ok()).collect()
}

fn bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_zigzag(bytes.len() as i64, out);
    out.extend(bytes);
}
