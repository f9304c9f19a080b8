//! Measures nanoseconds per record from JSON texts to typed columns, on one thread, beside other decoders on the same bytes.
//!
//! `cargo run --release --manifest-path benches/json_decoders/Cargo.toml [records] [rounds]`
//!
//! The records are those of the project's benchmarks, about 99 bytes with five fields; the last two figures are of records
//! with 45 fields more, which nobody asks for. Each figure is the best of the rounds, since other processes can only make a
//! round slower. arrow-json makes the same columns; it takes texts that are no JSON, and a bad record ends its batch.
//! serde_json and sonic-rs make a Rust struct with borrowed texts of each record, and no columns.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use arrow_schema::{DataType, Field, Fields, Schema};
use monedula_columns::BufferPool;
use monedula_formats::{JsonDecoder, JsonOptions, Mode};

/// A record as a struct. Texts are borrowed: the records have no escapes.
#[derive(serde::Deserialize)]
struct Event<'t> {
    id: i64,
    user: &'t str,
    amount: f64,
    city: &'t str,
    session: &'t str,
}

impl Event<'_> {
    fn bytes(&self) -> usize {
        black_box((self.id, self.amount));
        self.user.len() + self.city.len() + self.session.len()
    }
}

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
    for wanted in [&all[..], &all[..2], &all[..1], &all[4..]] {
        let names: Vec<_> = wanted.iter().map(|field| field.name().as_str()).collect();
        shown(&names.join(", "), best(&mut with_monedula(wanted, &texts)));
    }
    shown("arrow-json, the same columns", best(&mut with_arrow(&all, &texts)));
    let nanos = best(&mut || {
        for text in &texts {
            black_box(serde_json::from_str::<Event<'_>>(text).expect("sound JSON").bytes());
        }
    });
    shown("serde_json, a struct", nanos);
    let nanos = best(&mut || {
        for text in &texts {
            black_box(sonic_rs::from_str::<Event<'_>>(text).expect("sound JSON").bytes());
        }
    });
    shown("sonic-rs, a struct", nanos);
    let wide: Vec<String> = texts.iter().map(|text| among_others(text)).collect();
    shown("the five among 50 fields", best(&mut with_monedula(&all, &wide)));
    shown("arrow-json, the five among 50 fields", best(&mut with_arrow(&all, &wide)));
}

/// A round that decodes all texts into columns.
fn with_monedula<'t>(fields: &[Field], texts: &'t [String]) -> impl FnMut() + use<'t> {
    let fields: Fields = fields.iter().cloned().collect();
    let options = JsonOptions { mode: Mode::FailFast, ..JsonOptions::default() };
    let decoder = JsonDecoder::new(&fields, options, BufferPool::new(256 << 20));
    let mut decoder = decoder.expect("these types are decoded");
    move || {
        for text in texts {
            decoder.append(Some(text.as_bytes())).expect("sound JSON");
        }
        drop(decoder.finish());
    }
}

/// The same by arrow-json.
fn with_arrow<'t>(fields: &[Field], texts: &'t [String]) -> impl FnMut() + use<'t> {
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let decoder = arrow_json::ReaderBuilder::new(schema).with_batch_size(texts.len()).build_decoder();
    let mut decoder = decoder.expect("known types");
    move || {
        for text in texts {
            decoder.decode(text.as_bytes()).expect("sound JSON");
        }
        drop(decoder.flush().expect("columns"));
    }
}

/// A record whose fields stand among 45 others: texts, numbers, objects and arrays by turns.
fn among_others(text: &str) -> String {
    let others = |from: usize| {
        let other = |number: usize| match number % 4 {
            0 => format!("\"other_{number}\":\"some text that is not asked for\""),
            1 => format!("\"other_{number}\":{}", number * 1_234_567),
            2 => format!("\"other_{number}\":{{\"x\":1.5,\"y\":null}}"),
            _ => format!("\"other_{number}\":[1,2,3]"),
        };
        (from..from + 9).map(other).collect::<Vec<_>>().join(",")
    };
    let fields = text.trim_matches(['{', '}']).split(',').enumerate();
    let mixed: Vec<_> = fields.map(|(index, field)| format!("{field},{}", others(index * 9))).collect();
    format!("{{{}}}", mixed.join(","))
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
