//! Measures nanoseconds per record from JSON texts to typed columns, on one thread.
//!
//! `cargo run --release -p monedula-formats --example decode_throughput [records] [rounds]`
//!
//! The records are those of the project's benchmarks, about 99 bytes with five fields. Each figure is the best of the
//! rounds, since other processes can only make a round slower.

use std::time::Instant;

use arrow_schema::{DataType, Field, Fields};
use monedula_columns::BufferPool;
use monedula_formats::{JsonDecoder, JsonOptions, Mode};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let records: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(75_000);
    let rounds: usize = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(100);
    let texts: Vec<String> = (0..records).map(json).collect();
    let all = [
        Field::new("id", DataType::Int64, true),
        Field::new("user", DataType::Utf8, true),
        Field::new("amount", DataType::Float64, true),
        Field::new("city", DataType::Utf8, true),
        Field::new("session", DataType::Utf8, true),
    ];
    println!("{:>32} {:>10} {:>12}", "fields", "ns/record", "M records/s");
    for count in [5, 2, 1] {
        let fields: Fields = all.iter().take(count).cloned().collect();
        let options = JsonOptions { mode: Mode::FailFast, ..JsonOptions::default() };
        let decoder = JsonDecoder::new(&fields, options, BufferPool::new(256 << 20));
        let mut decoder = decoder.expect("these types are decoded");
        let best = (0..rounds).map(|_| round(&mut decoder, &texts)).fold(f64::INFINITY, f64::min);
        let names: Vec<_> = fields.iter().map(|field| field.name().as_str()).collect();
        println!("{:>32} {:>10.1} {:>12.2}", names.join(", "), best / records as f64, records as f64 * 1e3 / best);
    }
}

/// Nanoseconds to decode all texts into one batch.
fn round(decoder: &mut JsonDecoder, texts: &[String]) -> f64 {
    let start = Instant::now();
    for text in texts {
        decoder.append(Some(text.as_bytes())).expect("sound JSON");
    }
    drop(decoder.finish());
    start.elapsed().as_nanos() as f64
}

fn json(offset: u64) -> String {
    let noise = offset.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!(
        "{{\"id\":{},\"user\":\"user-{:05}\",\"amount\":{}.{:02},\"city\":\"{}\",\"session\":\"{:016x}\"}}",
        10_000_000 + offset,
        noise >> 47,
        noise >> 20 & 0xfffff,
        noise % 100,
        ["Praha", "Brno", "Ostrava", "Plzen"][(noise >> 8 & 3) as usize],
        noise.rotate_left(17)
    )
}
