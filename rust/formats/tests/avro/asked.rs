//! Writers' schemas that are requested while values are decoded.

use std::sync::{Arc, Mutex};

use monedula_columns::{Awaited, BadValue, BufferPool, Decoded, Lookup, RecordContext, TypedColumn};
use monedula_formats::{
    AvroDecoder, AvroOptions, AvroPlan, AvroSchema, Framing, Mode, NoSchema, SchemaSource, WriterKey,
};

use super::support::schema;

/// Source with given answers: ids from 10 on are unknown, those from 20 on unavailable.
#[derive(Debug, Default)]
struct Source {
    is_there: Mutex<bool>,
    asked: Mutex<Vec<WriterKey>>,
}

impl SchemaSource<AvroSchema> for Source {
    fn ask(&self, key: WriterKey) -> Lookup<Result<AvroSchema, NoSchema>> {
        self.asked.lock().expect("no test panics").push(key);
        match key {
            WriterKey::Id(20..) => Lookup::Unavailable("down".into()),
            WriterKey::Id(10..) => Lookup::Ready(Err(NoSchema::Missing("unknown".into()))),
            WriterKey::Id(9) => Lookup::Ready(Ok(schema(r#""string""#))),
            WriterKey::Id(8) => Lookup::Ready(AvroSchema::parse("{").map_err(NoSchema::Unreadable)),
            _ if *self.is_there.lock().expect("no test panics") => Lookup::Ready(Ok(schema(r#""int""#))),
            _ => Lookup::Pending(Arc::new(Awaited::default())),
        }
    }
}

fn decoder(source: &Arc<Source>, mode: Mode) -> AvroDecoder {
    let options = AvroOptions { mode, ..AvroOptions::default() };
    let given = vec![(WriterKey::Id(5), schema(r#""long""#))];
    let plan = AvroPlan::new(schema(r#""long""#), given, Framing::Confluent, options).expect("a plan");
    AvroDecoder::new(Arc::new(plan.asking(Arc::<Source>::clone(source))), BufferPool::new(1 << 20))
}

/// The number 1, written with this schema.
fn append(decoder: &mut AvroDecoder, id: u8) -> Result<Decoded, Lookup<BadValue>> {
    TypedColumn::append(decoder, Some(&[0, 0, 0, 0, id, 2]), RecordContext::NOTHING)
}

#[test]
fn a_value_whose_schema_is_awaited_gets_no_row_and_is_decoded_later() {
    for mode in [Mode::FailFast, Mode::Permissive] {
        let source = Arc::new(Source::default());
        let mut decoder = decoder(&source, mode);
        assert!(matches!(append(&mut decoder, 5), Ok(Decoded::Whole)));
        assert!(matches!(append(&mut decoder, 3), Err(Lookup::Pending(_))));
        assert!(matches!(append(&mut decoder, 20), Err(Lookup::Unavailable(why)) if why == "down"));
        assert_eq!(decoder.rows(), 1);
        *source.is_there.lock().expect("no test panics") = true;
        for id in [3, 5, 7, 3, 1, 5, 7] {
            assert!(matches!(append(&mut decoder, id), Ok(Decoded::Whole)), "{id}");
        }
        assert_eq!(decoder.rows(), 8);
        // Never for the given schema, twice for the awaited one, once for the others.
        let asked = source.asked.lock().expect("no test panics");
        assert_eq!(*asked, [3, 20, 3, 7, 1].map(WriterKey::Id));
    }
}

#[test]
fn a_schema_that_there_is_not_or_that_cannot_be_read_makes_a_bad_value() {
    let unreadable = |id| format!("the schema of id {id} cannot be read: ");
    for (id, why, asked) in [(10, "unknown".into(), 3), (9, unreadable(9), 2), (8, unreadable(8), 2)] {
        let source = Arc::new(Source::default());
        let mut failing = decoder(&source, Mode::FailFast);
        assert!(matches!(append(&mut failing, id), Err(Lookup::Ready(bad)) if bad.reason.starts_with(&why)));
        assert!(append(&mut failing, id).is_err());
        assert_eq!(failing.rows(), 0);
        let mut permissive = decoder(&source, Mode::Permissive);
        assert!(matches!(append(&mut permissive, id), Ok(Decoded::WithNulls)));
        assert_eq!(permissive.rows(), 1);
        // Unresolvable schemas are requested once per plan; unknown ones may be known later, so they are requested
        // again.
        assert_eq!(source.asked.lock().expect("no test panics").len(), asked);
    }
}
