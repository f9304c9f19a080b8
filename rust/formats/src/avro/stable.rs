//! Text by which a schema is registered: the same for the same schema, however its JSON is written.

use serde_json::{Map, Value};

use super::error::BadSchema;
use super::schema::AvroSchema;

/// Keys of a type and of a field, in the order of Avro's own libraries; other keys follow by name.
const OF_TYPES: [&str; 9] = ["type", "name", "namespace", "doc", "fields", "symbols", "items", "values", "size"];
const OF_FIELDS: [&str; 5] = ["name", "type", "doc", "default", "order"];

/// Text of the schema without white space, with the keys of each object in a fixed order. Defaults, aliases,
/// documentation and logical types stay: a registry compares schemas by them, or hands them on.
///
/// # Errors
/// Text that is no schema.
pub fn stable_text(text: &str) -> Result<String, BadSchema> {
    AvroSchema::parse(text)?;
    let json = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.trim()));
    let mut stable = String::with_capacity(text.len());
    write(&json, &OF_TYPES, &mut stable);
    Ok(stable)
}

fn write(json: &Value, order: &[&str], out: &mut String) {
    match json {
        Value::Object(object) => write_object(object, order, out),
        Value::Array(values) => {
            out.push('[');
            for (index, value) in values.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                write(value, order, out);
            }
            out.push(']');
        }
        other => out.push_str(&other.to_string()),
    }
}

fn write_object(object: &Map<String, Value>, order: &[&str], out: &mut String) {
    let mut entries: Vec<_> = object.iter().collect();
    let place = |key: &str| order.iter().position(|known| *known == key).unwrap_or(order.len());
    entries.sort_by(|(one, _), (two, _)| place(one).cmp(&place(two)).then_with(|| one.cmp(two)));
    out.push('{');
    for (index, (key, value)) in entries.into_iter().enumerate() {
        out.push_str(if index == 0 { "" } else { "," });
        out.push_str(&Value::from(key.as_str()).to_string());
        out.push(':');
        let below: &[&str] = match key.as_str() {
            // Defaults are values, not types, so their keys are not ordered.
            "default" => &[],
            _ if order.is_empty() => &[],
            "fields" => &OF_FIELDS,
            _ => &OF_TYPES,
        };
        write(value, below, out);
    }
    out.push('}');
}
