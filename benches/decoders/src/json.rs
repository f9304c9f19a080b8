//! JSON texts of about 99 bytes; the last two figures are of records with 45 fields more, which nobody asks for.
//!
//! arrow-json makes the same columns; it takes texts that are no JSON, and a bad record ends its batch. serde_json and
//! sonic-rs make a Rust struct with borrowed texts of each record, and no columns.

use std::hint::black_box;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema};
use monedula_columns::BufferPool;
use monedula_formats::{JsonDecoder, JsonOptions, Mode};

use crate::event::Event;
use crate::measure::Measure;

/// A record as a struct. Texts are borrowed: the records have no escapes.
#[derive(serde::Deserialize)]
struct Borrowed<'t> {
    id: i64,
    user: &'t str,
    amount: f64,
    city: &'t str,
    session: &'t str,
}

impl Borrowed<'_> {
    fn bytes(&self) -> usize {
        black_box((self.id, self.amount));
        self.user.len() + self.city.len() + self.session.len()
    }
}

pub(crate) fn measure(measure: &Measure) {
    let texts: Vec<String> = (0..measure.records).map(json).collect();
    let all = [
        Field::new("id", DataType::Int64, true),
        Field::new("user", DataType::Utf8, true),
        Field::new("amount", DataType::Float64, true),
        Field::new("city", DataType::Utf8, true),
        Field::new("session", DataType::Utf8, true),
    ];
    for wanted in [&all[..], &all[..2], &all[..1], &all[4..]] {
        let names: Vec<_> = wanted.iter().map(|field| field.name().as_str()).collect();
        measure.show(&names.join(", "), with_monedula(wanted, &texts));
    }
    measure.show("arrow-json, the same columns", with_arrow(&all, &texts));
    measure.show("serde_json, a struct", || {
        for text in &texts {
            black_box(serde_json::from_str::<Borrowed<'_>>(text).expect("sound JSON").bytes());
        }
    });
    measure.show("sonic-rs, a struct", || {
        for text in &texts {
            black_box(sonic_rs::from_str::<Borrowed<'_>>(text).expect("sound JSON").bytes());
        }
    });
    let wide: Vec<String> = texts.iter().map(|text| among_others(text)).collect();
    measure.show("the five among 50 fields", with_monedula(&all, &wide));
    measure.show("arrow-json, the five among 50 fields", with_arrow(&all, &wide));
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
    let Event { id, user, amount: (whole, cents), city, session } = Event::new(offset);
    format!(
        "{{\"id\":{id},\"user\":\"{user}\",\"amount\":{whole}.{cents:02},\"city\":\"{city}\",\"session\":\"{session}\"}}"
    )
}
