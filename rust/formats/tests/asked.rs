//! Writers' schemas that are requested while values are decoded.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use monedula_columns::{Awaited, BadValue, BufferPool, Decoded, Lookup, RecordContext, TypedColumn};
use monedula_formats::{
    AvroDecoder, AvroOptions, AvroPlan, AvroSchema, BadSchema, Framing, Mode, NoSchema, ProtobufDecoder,
    ProtobufOptions, ProtobufPlan, ProtobufSchema, SchemaSource, WriterKey,
};

/// Source with given answers: ids from 10 on are unknown, those from 20 on unavailable.
#[derive(Debug)]
struct Source<S> {
    schema: fn(u32) -> Result<S, BadSchema>,
    is_there: Mutex<bool>,
    asked: Mutex<Vec<WriterKey>>,
}

impl<S: Debug> SchemaSource<S> for Source<S> {
    fn ask(&self, key: WriterKey) -> Lookup<Result<S, NoSchema>> {
        self.asked.lock().expect("no test panics").push(key);
        match key {
            WriterKey::Id(20..) => Lookup::Unavailable("down".into()),
            WriterKey::Id(10..) => Lookup::Ready(Err(NoSchema::Missing("unknown".into()))),
            WriterKey::Id(id) if matches!(id, 6 | 8 | 9) || *self.is_there.lock().expect("no test panics") => {
                Lookup::Ready((self.schema)(id).map_err(NoSchema::Unreadable))
            }
            _ => Lookup::Pending(Arc::new(Awaited::default())),
        }
    }
}

/// A format: its source, a decoder that asks it, and a value of 1 behind a frame with an id.
struct Format<S> {
    schema: fn(u32) -> Result<S, BadSchema>,
    decoder: fn(&Arc<Source<S>>, Mode) -> Box<dyn TypedColumn>,
    value: fn(u8) -> Vec<u8>,
}

const AVRO: Format<AvroSchema> = Format {
    schema: |id| {
        AvroSchema::parse(match id {
            9 => r#""string""#,
            8 => "{",
            _ => r#""int""#,
        })
    },
    decoder: |source, mode| {
        let long = || AvroSchema::parse(r#""long""#).expect("a schema");
        let (given, options) = (vec![(WriterKey::Id(5), long())], AvroOptions { mode, ..AvroOptions::default() });
        let plan = AvroPlan::new(long(), given, Framing::Confluent, options).expect("a plan");
        Box::new(AvroDecoder::new(Arc::new(plan.asking(Arc::<Source<_>>::clone(source))), BufferPool::new(1 << 20)))
    },
    value: |id| vec![0, 0, 0, 0, id, 2],
};

const PROTOBUF: Format<ProtobufSchema> = Format {
    schema: |id| {
        protobuf(match id {
            9 => "message M { string a = 1; }",
            8 => "message N { int64 a = 1; }",
            6 => "message N {} message M { int64 a = 1; bytes b = 2; }",
            _ => "message M { int64 a = 1; }",
        })
    },
    decoder: |source, mode| {
        let given = vec![(WriterKey::Id(5), protobuf("message M { int32 a = 1; }").expect("a schema"))];
        let reader = protobuf("message M { int64 a = 1; } message Other {}").expect("a schema");
        let options = ProtobufOptions { mode, ..ProtobufOptions::default() };
        let plan = ProtobufPlan::new(reader, given, Framing::Confluent, options).expect("a plan");
        Box::new(ProtobufDecoder::new(Arc::new(plan.asking(Arc::<Source<_>>::clone(source))), BufferPool::new(1 << 20)))
    },
    value: |id| vec![0, 0, 0, 0, id, 0, 8, 1],
};

fn protobuf(text: &str) -> Result<ProtobufSchema, BadSchema> {
    let text = format!("syntax = \"proto3\"; {text}");
    ProtobufSchema::from_texts(&[("f.proto".to_owned(), text)], Some("M"))
}

fn append(decoder: &mut Box<dyn TypedColumn>, value: &[u8]) -> Result<Decoded, Lookup<BadValue>> {
    decoder.append(Some(value), RecordContext::NOTHING)
}

impl<S> Format<S> {
    fn source(&self) -> Arc<Source<S>> {
        Arc::new(Source { schema: self.schema, is_there: Mutex::default(), asked: Mutex::default() })
    }

    fn check_awaited(&self, mode: Mode) {
        let source = self.source();
        let mut decoder = (self.decoder)(&source, mode);
        assert!(matches!(append(&mut decoder, &(self.value)(5)), Ok(Decoded::Whole)));
        assert!(matches!(append(&mut decoder, &(self.value)(3)), Err(Lookup::Pending(_))));
        assert!(matches!(append(&mut decoder, &(self.value)(20)), Err(Lookup::Unavailable(why)) if why == "down"));
        assert_eq!(decoder.rows(), 1);
        *source.is_there.lock().expect("no test panics") = true;
        for id in [3, 5, 7, 3, 1, 5, 7] {
            assert!(matches!(append(&mut decoder, &(self.value)(id)), Ok(Decoded::Whole)), "{id}");
        }
        // One row for the first value, none for those without a schema.
        assert_eq!(decoder.rows(), 8);
        // Never for the given schema, twice for the awaited one, once for the others.
        let asked = source.asked.lock().expect("no test panics");
        assert_eq!(*asked, [3, 20, 3, 7, 1].map(WriterKey::Id));
    }

    fn check_bad(&self, id: u8, why: &str, asked: usize) {
        let source = self.source();
        let mut failing = (self.decoder)(&source, Mode::FailFast);
        let value = (self.value)(id);
        let Err(Lookup::Ready(bad)) = append(&mut failing, &value) else { panic!("a bad value") };
        // The end of a reason of Avro's is that of its parser.
        let reason = if why.ends_with(": ") { &bad.reason[..why.len()] } else { &bad.reason };
        assert_eq!(reason, why);
        assert!(append(&mut failing, &value).is_err());
        assert_eq!(failing.rows(), 0);
        let mut permissive = (self.decoder)(&source, Mode::Permissive);
        assert!(matches!(append(&mut permissive, &value), Ok(Decoded::WithNulls)));
        assert_eq!(permissive.rows(), 1);
        // Unresolvable schemas are requested once per plan; unknown ones may be known later, so they are requested
        // again.
        assert_eq!(source.asked.lock().expect("no test panics").len(), asked);
    }
}

#[test]
fn a_value_whose_schema_is_awaited_gets_no_row_and_is_decoded_later() {
    for mode in [Mode::FailFast, Mode::Permissive] {
        AVRO.check_awaited(mode);
        PROTOBUF.check_awaited(mode);
    }
}

#[test]
fn a_schema_that_there_is_not_or_that_cannot_be_read_makes_a_bad_value() {
    AVRO.check_bad(10, "unknown", 3);
    AVRO.check_bad(9, "the schema of id 9 cannot be read: ", 2);
    AVRO.check_bad(8, "the schema of id 8 cannot be read: ", 2);
    PROTOBUF.check_bad(10, "unknown", 3);
    PROTOBUF.check_bad(9, "the schema of id 9 cannot be read: a: number 1 is string there, and int64 here", 2);
    PROTOBUF.check_bad(8, "the schema of id 8 cannot be read: there is no message M; there are N", 2);
}

#[test]
fn a_frame_names_the_message_by_its_place_in_the_writers_schema() {
    let mut decoder = (PROTOBUF.decoder)(&PROTOBUF.source(), Mode::FailFast);
    for _ in 0..2 {
        assert!(matches!(append(&mut decoder, &[0, 0, 0, 0, 6, 2, 2, 8, 1]), Ok(Decoded::Whole)));
        let Err(Lookup::Ready(bad)) = append(&mut decoder, &[0, 0, 0, 0, 6, 0, 8, 1]) else {
            panic!("another message")
        };
        assert_eq!(
            bad.reason,
            "the frame of id 6 names message [0], which in its schema is N; the column is of M, which is [1]"
        );
    }
}
