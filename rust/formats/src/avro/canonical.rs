//! Fingerprint of a schema, by which single-object encoding names the writer's schema.

use std::fmt::Write;

use super::schema::{AvroSchema, Kind, TypeId};

impl AvroSchema {
    /// CRC-64-AVRO of the schema's canonical form.
    pub fn fingerprint(&self) -> u64 {
        const EMPTY: u64 = 0xc15d_213a_a4d7_a795;
        self.canonical_form().bytes().fold(EMPTY, |crc, byte| {
            let mut step = (crc ^ u64::from(byte)) & 0xff;
            for _ in 0..8 {
                step = (step >> 1) ^ (EMPTY & (step & 1).wrapping_neg());
            }
            (crc >> 8) ^ step
        })
    }

    /// Parsing canonical form: only what affects decoding.
    pub fn canonical_form(&self) -> String {
        let mut text = String::new();
        self.write_canonical(self.root, &mut vec![false; self.types.len()], &mut text);
        text
    }

    fn write_canonical(&self, id: TypeId, is_written: &mut [bool], text: &mut String) {
        let kind = self.kind(id);
        if let Some(name) = kind.name() {
            if std::mem::replace(&mut is_written[id], true) {
                text.push_str(&quoted(&name.full));
                return;
            }
            // Writing to a `String` cannot fail.
            let _ = write!(text, "{{\"name\":{},\"type\":\"{}\"", quoted(&name.full), kind.text());
        }
        match kind {
            Kind::Record { fields, .. } => {
                text.push_str(",\"fields\":[");
                for (index, field) in fields.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    let _ = write!(text, "{comma}{{\"name\":{},\"type\":", quoted(&field.name));
                    self.write_canonical(field.type_id, is_written, text);
                    text.push('}');
                }
                text.push_str("]}");
            }
            Kind::Enum { symbols, .. } => {
                let symbols: Vec<_> = symbols.iter().map(|symbol| quoted(symbol)).collect();
                let _ = write!(text, ",\"symbols\":[{}]}}", symbols.join(","));
            }
            Kind::Fixed { size, .. } => {
                let _ = write!(text, ",\"size\":{size}}}");
            }
            Kind::Array(child) | Kind::Map(child) => {
                let key = if matches!(kind, Kind::Array(_)) { "items" } else { "values" };
                let _ = write!(text, "{{\"type\":\"{}\",\"{key}\":", kind.text());
                self.write_canonical(*child, is_written, text);
                text.push('}');
            }
            Kind::Union(branches) => {
                text.push('[');
                for (index, branch) in branches.iter().enumerate() {
                    text.push_str(if index == 0 { "" } else { "," });
                    self.write_canonical(*branch, is_written, text);
                }
                text.push(']');
            }
            primitive => {
                let _ = write!(text, "\"{}\"", primitive.text());
            }
        }
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
