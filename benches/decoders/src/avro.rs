//! Avro values in Confluent's framing, with fields that cannot be null and with unions with null.
//!
//! arrow-avro makes the same columns; a bad record ends its batch, and so does another schema.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_avro::reader::ReaderBuilder;
use arrow_avro::schema::{AvroSchema as PeerSchema, Fingerprint, FingerprintAlgorithm, SchemaStore};
use monedula_columns::BufferPool;
use monedula_formats::{AvroDecoder, AvroOptions, AvroPlan, AvroSchema, Framing, Mode, WriterKey};

use crate::event::{Event, varint};
use crate::measure::Measure;

const ID: u32 = 7;

pub(crate) fn measure(measure: &Measure) {
    for is_nullable in [false, true] {
        let writer = schema(is_nullable, &Event::NAMES);
        let values: Vec<_> = (0..measure.records).map(|offset| value(offset, is_nullable)).collect();
        for wanted in [&Event::NAMES[..], &["id", "user"], &["id"]] {
            let nullable = if is_nullable { ", each of them nullable" } else { "" };
            let reader = schema(is_nullable, wanted);
            measure.show(&format!("{}{nullable}", wanted.join(", ")), with_monedula(&reader, &writer, &values));
        }
        measure.show("arrow-avro, all five", with_arrow(writer, &values));
    }
}

/// A round that decodes all values into columns.
fn with_monedula<'v>(reader: &str, writer: &str, values: &'v [Vec<u8>]) -> impl FnMut() + use<'v> {
    let reader = AvroSchema::parse(reader).expect("a schema");
    let writers = vec![(WriterKey::Id(ID), AvroSchema::parse(writer).expect("a schema"))];
    let options = AvroOptions { mode: Mode::FailFast, ..AvroOptions::default() };
    let plan = AvroPlan::new(reader, writers, Framing::Confluent, options).expect("compatible");
    let mut decoder = AvroDecoder::new(Arc::new(plan), BufferPool::new(256 << 20));
    move || {
        for value in values {
            decoder.append(Some(value)).expect("a sound value");
        }
        drop(decoder.finish());
    }
}

/// The same by arrow-avro.
fn with_arrow(writer: String, values: &[Vec<u8>]) -> impl FnMut() {
    let mut store = SchemaStore::new_with_type(FingerprintAlgorithm::Id);
    store.set(Fingerprint::Id(ID), PeerSchema::new(writer)).expect("a schema");
    let builder = ReaderBuilder::new().with_writer_schema_store(store).with_batch_size(values.len());
    let mut decoder = builder.build_decoder().expect("a decoder");
    move || {
        for value in values {
            decoder.decode(value).expect("a sound value");
        }
        drop(decoder.flush().expect("columns"));
    }
}

/// The schema of these fields.
fn schema(is_nullable: bool, names: &[&str]) -> String {
    let kinds = HashMap::from([("id", "long"), ("amount", "double")]);
    let field = |name: &&str| {
        let kind = kinds.get(name).unwrap_or(&"string");
        let kind = if is_nullable { format!("[\"null\",\"{kind}\"]") } else { format!("\"{kind}\"") };
        format!("{{\"name\":\"{name}\",\"type\":{kind}}}")
    };
    let fields: Vec<_> = names.iter().map(field).collect();
    format!("{{\"type\":\"record\",\"name\":\"Event\",\"fields\":[{}]}}", fields.join(","))
}

fn value(offset: u64, is_nullable: bool) -> Vec<u8> {
    let event = Event::new(offset);
    let text = |text: &str| [long(text.len() as i64), text.as_bytes().to_vec()].concat();
    let fields = [
        long(event.id),
        text(&event.user),
        event.amount().to_le_bytes().to_vec(),
        text(event.city),
        text(&event.session),
    ];
    let mut value = [vec![0], ID.to_be_bytes().to_vec()].concat();
    for field in fields {
        if is_nullable {
            value.extend(long(1));
        }
        value.extend(field);
    }
    value
}

fn long(value: i64) -> Vec<u8> {
    varint((value as u64) << 1 ^ (value >> 63) as u64)
}
