//! Measures nanoseconds per record from values to typed columns, on one thread, beside other decoders on the same bytes.
//!
//! `cargo run --release --manifest-path benches/decoders/Cargo.toml [json|avro|protobuf|all] [records] [rounds]`
//!
//! The records are those of the project's benchmarks, with five fields. Each figure is the best of the rounds, since other
//! processes can only make a round slower.

mod avro;
mod event;
mod json;
mod measure;
mod protobuf;

use measure::Measure;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let format = arguments.next().unwrap_or_else(|| "all".to_owned());
    let records = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(75_000);
    let rounds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(100);
    let measure = Measure { records, rounds };
    let formats: [(&str, fn(&Measure)); 3] =
        [("json", json::measure), ("avro", avro::measure), ("protobuf", protobuf::measure)];
    let chosen: Vec<_> = formats.into_iter().filter(|(name, _)| format == "all" || *name == format).collect();
    assert!(!chosen.is_empty(), "{format}: no such format; there are json, avro, protobuf and all");
    for (name, run) in chosen {
        println!("{name:>48} {:>10} {:>12}", "ns/record", "M records/s");
        run(&measure);
    }
}
