//! Protobuf messages, bare and in Confluent's framing.
//!
//! prost makes a Rust struct of each record, with texts of its own, and no columns.

use std::hint::black_box;
use std::sync::Arc;

use monedula_columns::BufferPool;
use monedula_formats::{Framing, Mode, ProtobufDecoder, ProtobufOptions, ProtobufPlan, ProtobufSchema};
use prost::Message;

use crate::event::{Event, varint};
use crate::measure::Measure;

const FIELDS: [&str; 5] =
    ["int64 id = 1;", "string user = 2;", "double amount = 3;", "string city = 4;", "string session = 5;"];

/// A record as a struct.
#[derive(Clone, PartialEq, Message)]
struct Owned {
    #[prost(int64, tag = "1")]
    id: i64,
    #[prost(string, tag = "2")]
    user: String,
    #[prost(double, tag = "3")]
    amount: f64,
    #[prost(string, tag = "4")]
    city: String,
    #[prost(string, tag = "5")]
    session: String,
}

pub(crate) fn measure(measure: &Measure) {
    let bare: Vec<_> = (0..measure.records).map(value).collect();
    let framed: Vec<_> = bare.iter().map(|value| [&[0, 0, 0, 0, 7, 0], &value[..]].concat()).collect();
    for count in [5, 2, 1] {
        measure.show(&Event::NAMES[..count].join(", "), with_monedula(count, Framing::Bare, &bare));
    }
    measure.show("all five, in Confluent's framing", with_monedula(5, Framing::Confluent, &framed));
    measure.show("prost, a struct", || {
        for value in &bare {
            black_box(Owned::decode(&value[..]).expect("a sound value"));
        }
    });
}

/// A round that decodes the first fields of all values into columns.
fn with_monedula(count: usize, framing: Framing, values: &[Vec<u8>]) -> impl FnMut() {
    let text = format!("syntax = \"proto3\"; message Event {{ {} }}", FIELDS[..count].join(" "));
    let schema = ProtobufSchema::from_texts(&[("event.proto".to_owned(), text)], None).expect("a schema");
    let options = ProtobufOptions { mode: Mode::FailFast, ..ProtobufOptions::default() };
    let plan = ProtobufPlan::new(schema, Vec::new(), framing, options).expect("columns");
    let mut decoder = ProtobufDecoder::new(Arc::new(plan), BufferPool::new(256 << 20));
    move || {
        for value in values {
            decoder.append(Some(value)).expect("a sound value");
        }
        drop(decoder.finish());
    }
}

fn value(offset: u64) -> Vec<u8> {
    let event = Event::new(offset);
    let text = |tag: u8, text: &str| [&[tag, text.len() as u8], text.as_bytes()].concat();
    [
        [vec![0x08], varint(event.id as u64)].concat(),
        text(0x12, &event.user),
        [&[0x19], &event.amount().to_le_bytes()[..]].concat(),
        text(0x22, event.city),
        text(0x2a, &event.session),
    ]
    .concat()
}
