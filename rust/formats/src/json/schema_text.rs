//! JSON Schema of columns, for the registry.

use std::fmt::Write;

use arrow_schema::{DataType, Field, Fields};

/// Text of a JSON Schema for objects with these fields, which come from [`nullable`](crate::column::nullable) or from
/// the encoder's own types. Equal fields have equal texts.
///
/// Types without an equivalent in JSON Schema are written as by Kafka Connect's converters.
pub(crate) fn schema_text(fields: &Fields) -> String {
    let mut text = r#"{"$schema":"http://json-schema.org/draft-07/schema#","#.to_owned();
    object(fields, &mut text);
    text.push('}');
    text
}

fn object(fields: &Fields, text: &mut String) {
    text.push_str(r#""type":"object","properties":{"#);
    for (index, field) in fields.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        name(field.name(), text);
        text.push(':');
        value(field, text);
    }
    text.push('}');
}

/// Appends the schema of a value that may be null.
fn value(field: &Field, text: &mut String) {
    // A null must match exactly one branch of `oneOf`.
    let is_either = field.is_nullable() && !matches!(field.data_type(), DataType::Null);
    if is_either {
        text.push_str(r#"{"oneOf":[{"type":"null"},{"#);
    } else {
        text.push('{');
    }
    kind(field.data_type(), text);
    text.push_str(if is_either { "}]}" } else { "}" });
}

fn kind(data_type: &DataType, text: &mut String) {
    text.push_str(match data_type {
        DataType::Boolean => r#""type":"boolean""#,
        DataType::Int8 => r#""type":"integer","connect.type":"int8""#,
        DataType::Int16 => r#""type":"integer","connect.type":"int16""#,
        DataType::Int32 => r#""type":"integer","connect.type":"int32""#,
        DataType::Int64 => r#""type":"integer","connect.type":"int64""#,
        // The range lets readers choose an unsigned 64-bit type.
        DataType::UInt64 => r#""type":"integer","minimum":0,"maximum":18446744073709551615"#,
        DataType::Float32 => r#""type":"number","connect.type":"float32""#,
        DataType::Float64 => r#""type":"number","connect.type":"float64""#,
        DataType::Binary => r#""type":"string","contentEncoding":"base64","connect.type":"bytes""#,
        DataType::Date32 => r#""type":"string","format":"date""#,
        DataType::Timestamp(_, Some(_)) => r#""type":"string","format":"date-time""#,
        DataType::Null => r#""type":"null""#,
        DataType::Struct(fields) => return object(fields, text),
        DataType::Decimal128(precision, scale) => {
            // Writing to a `String` cannot fail.
            let _ = write!(
                text,
                r#""type":"number","title":"org.apache.kafka.connect.data.Decimal","connect.type":"bytes","connect.parameters":{{"scale":"{scale}","connect.decimal.precision":"{precision}"}}"#
            );
            return;
        }
        DataType::List(element) => {
            text.push_str(r#""type":"array","items":"#);
            return value(element, text);
        }
        DataType::Map(entries, _) => {
            text.push_str(r#""type":"object","additionalProperties":"#);
            return match entries.data_type() {
                DataType::Struct(fields) if fields.len() == 2 => value(&fields[1], text),
                _ => text.push_str("true"),
            };
        }
        _ => r#""type":"string""#,
    });
}

fn name(name: &str, text: &mut String) {
    let mut out = Vec::new();
    super::encoder::text(name.as_bytes(), &mut out);
    text.push_str(&String::from_utf8_lossy(&out));
}
