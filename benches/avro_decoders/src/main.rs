//! Measures nanoseconds per record from Avro values to typed columns, on one thread, beside arrow-avro on the same bytes.
//!
//! `cargo run --release --manifest-path benches/avro_decoders/Cargo.toml [records] [rounds]`
//!
//! The records are those of the project's benchmarks, with five fields, in Confluent's framing. Each figure is the best of
//! the rounds, since other processes can only make a round slower. arrow-avro makes the same columns; a bad record ends its
//! batch, and so does another schema.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use arrow_avro::reader::ReaderBuilder;
use arrow_avro::schema::{AvroSchema as PeerSchema, Fingerprint, FingerprintAlgorithm, SchemaStore};
use monedula_columns::BufferPool;
use monedula_formats::{AvroDecoder, AvroOptions, AvroPlan, AvroSchema, Framing, Mode, WriterKey};

const ID: u32 = 7;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let records: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(75_000);
    let rounds: usize = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(100);
    let best = |round: &mut dyn FnMut()| {
        let nanos = (0..rounds).map(|_| {
            let start = Instant::now();
            round();
            start.elapsed().as_nanos() as f64
        });
        nanos.fold(f64::INFINITY, f64::min) / records as f64
    };
    let shown = |name: &str, nanos: f64| println!("{name:>48} {nanos:>10.1} {:>12.2}", 1e3 / nanos);
    println!("{:>48} {:>10} {:>12}", "", "ns/record", "M records/s");
    for is_nullable in [false, true] {
        let writer = schema(is_nullable, &["id", "user", "amount", "city", "session"]);
        let values: Vec<_> = (0..records).map(|offset| value(offset, is_nullable)).collect();
        for wanted in [&["id", "user", "amount", "city", "session"][..], &["id", "user"], &["id"]] {
            let reader = AvroSchema::parse(&schema(is_nullable, wanted)).expect("a schema");
            let writers = vec![(WriterKey::Id(ID), AvroSchema::parse(&writer).expect("a schema"))];
            let options = AvroOptions { mode: Mode::FailFast, ..AvroOptions::default() };
            let plan = AvroPlan::new(reader, writers, Framing::Confluent, options).expect("compatible");
            let mut decoder = AvroDecoder::new(Arc::new(plan), BufferPool::new(256 << 20));
            let nanos = best(&mut || {
                for value in &values {
                    decoder.append(Some(value)).expect("a sound value");
                }
                drop(decoder.finish());
            });
            let nullable = if is_nullable { ", each of them nullable" } else { "" };
            shown(&format!("{}{nullable}", wanted.join(", ")), nanos);
        }
        let mut store = SchemaStore::new_with_type(FingerprintAlgorithm::Id);
        store.set(Fingerprint::Id(ID), PeerSchema::new(writer)).expect("a schema");
        let mut decoder = ReaderBuilder::new()
            .with_writer_schema_store(store)
            .with_batch_size(values.len())
            .build_decoder()
            .expect("a decoder");
        let nanos = best(&mut || {
            for value in &values {
                decoder.decode(value).expect("a sound value");
            }
            drop(decoder.flush().expect("columns"));
        });
        shown("arrow-avro, all five", nanos);
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
    let noise = offset.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let text = |text: String| [long(text.len() as i64), text.into_bytes()].concat();
    let amount = (noise >> 20 & 0xfffff) as f64 + (noise % 100) as f64 / 100.0;
    let fields = [
        long(10_000_000 + offset as i64),
        text(format!("user-{:05}", noise >> 47)),
        amount.to_le_bytes().to_vec(),
        text(["Praha", "Brno", "Ostrava", "Plzen"][(noise >> 8 & 3) as usize].to_owned()),
        text(format!("{:016x}", noise.rotate_left(17))),
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
    let mut zigzag = (value as u64) << 1 ^ (value >> 63) as u64;
    let mut bytes = Vec::new();
    while zigzag >= 0x80 {
        bytes.push(zigzag as u8 | 0x80);
        zigzag >>= 7;
    }
    bytes.push(zigzag as u8);
    bytes
}
