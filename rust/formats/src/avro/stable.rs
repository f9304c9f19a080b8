//! The text that a schema is registered by: the same for the same schema, however its JSON is written.

use serde_json::{Map, Value};

use super::error::BadSchema;
use super::schema::AvroSchema;

/// The order in which Avro's own libraries write what a type or a field has; the rest follows by name.
const ORDER: [&str; 11] =
    ["type", "name", "namespace", "doc", "fields", "symbols", "items", "values", "size", "default", "order"];

/// The schema's text without blanks, with what each object has in one order. Nothing is left out, as defaults, aliases,
/// documentation and logical types: a registry compares schemas by them, or hands them on.
///
/// # Errors
/// Text that is no schema.
pub fn stable_text(text: &str) -> Result<String, BadSchema> {
    AvroSchema::parse(text)?;
    let json = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.trim()));
    let mut stable = String::with_capacity(text.len());
    write(&json, true, &mut stable);
    Ok(stable)
}

fn write(json: &Value, is_schema: bool, out: &mut String) {
    match json {
        Value::Object(object) => write_object(object, is_schema, out),
        Value::Array(values) => {
            out.push('[');
            for (index, value) in values.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                write(value, is_schema, out);
            }
            out.push(']');
        }
        other => out.push_str(&other.to_string()),
    }
}

fn write_object(object: &Map<String, Value>, is_schema: bool, out: &mut String) {
    let mut entries: Vec<_> = object.iter().collect();
    let place = |key: &str| ORDER.iter().position(|known| *known == key).filter(|_| is_schema).unwrap_or(ORDER.len());
    // A default is a value, and no type.
    entries.sort_by(|(one, _), (two, _)| place(one).cmp(&place(two)).then_with(|| one.cmp(two)));
    out.push('{');
    for (index, (key, value)) in entries.into_iter().enumerate() {
        out.push_str(if index == 0 { "" } else { "," });
        out.push_str(&Value::from(key.as_str()).to_string());
        out.push(':');
        write(value, is_schema && key != "default", out);
    }
    out.push('}');
}
