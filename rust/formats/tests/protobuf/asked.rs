//! Writers' schemas: which of them the reader's can resolve, and those that are requested while values are decoded.

use std::sync::{Arc, Mutex};

use monedula_columns::{Awaited, BadValue, BufferPool, Decoded, Lookup, RecordContext, TypedColumn};
use monedula_formats::{
    BadSchema, Framing, Mode, NoSchema, ProtobufDecoder, ProtobufOptions, ProtobufPlan, ProtobufSchema, SchemaSource,
    WriterKey,
};

fn schema(text: &str) -> Result<ProtobufSchema, BadSchema> {
    let text = format!("syntax = \"proto3\"; {text}");
    ProtobufSchema::from_texts(&[("f.proto".to_owned(), text)], Some("M"))
}

/// Reason why the reader's schema cannot decode values of the writer's.
fn refused(writer: &str, reader: &str) -> Option<String> {
    let writers = vec![(WriterKey::Id(7), schema(writer).expect(writer))];
    let options = ProtobufOptions { recursive_fields_max_depth: 3, ..ProtobufOptions::default() };
    let plan = ProtobufPlan::new(schema(reader).expect(reader), writers, Framing::Confluent, options);
    plan.err().map(|bad| bad.to_string())
}

#[test]
fn types_that_are_written_alike_are_read_as_each_other() {
    const ALIKE: [&[&str]; 8] = [
        &["int32", "int64", "uint32", "uint64", "bool", "E"],
        &["sint32", "sint64"],
        &["fixed32", "sfixed32"],
        &["fixed64", "sfixed64"],
        &["float"],
        &["double"],
        &["string", "bytes"],
        &["bytes", "I", "J"],
    ];
    let all: Vec<&str> = ALIKE.concat();
    let of = |label: &str, kind: &str| {
        format!("message M {{ {label} {kind} a = 3; }} enum E {{ Z = 0; }} message I {{}} message J {{}}")
    };
    for writer in &all {
        for reader in &all {
            let are_alike = ALIKE.iter().any(|alike| alike.contains(writer) && alike.contains(reader));
            for labels in [("", ""), ("", "repeated"), ("repeated", "repeated"), ("optional", "")] {
                let found = refused(&of(labels.0, writer), &of(labels.1, reader));
                assert_eq!(found.is_none(), are_alike, "{writer} to {reader}: {found:?}");
            }
            // A singular field reads repeated texts (the last one) and messages (merged), but no repeated numbers,
            // which may be packed.
            let is_read = are_alike && ["string", "bytes", "I", "J"].contains(writer);
            assert_eq!(refused(&of("repeated", writer), &of("", reader)).is_none(), is_read, "{writer} to {reader}");
        }
    }
}

#[test]
fn a_field_that_is_written_in_another_way_is_named_with_both_types() {
    let reader =
        "message M { repeated I b = 2; map<string, I> c = 3; string d = 4; } message I { double x = 1; M y = 2; }";
    assert_eq!(refused(reader, reader), None);
    let of = |writer: &str| refused(writer, reader).expect("a mismatch");
    assert_eq!(
        of("message M { repeated P b = 2; } message P { string x = 1; }"),
        "the schema of id 7 cannot be read: b.x: number 1 is string there, and double here"
    );
    let map = "message M { map<string, P> c = 3; } message P { M y = 2; fixed32 x = 1; }";
    assert_eq!(of(map), "the schema of id 7 cannot be read: c.value.x: number 1 is fixed32 there, and double here");
    let message = "message M { repeated I b = 2; P d = 4; } message I { double x = 1; } message P {}";
    assert_eq!(of(message), "the schema of id 7 cannot be read: d: number 4 is the message P there, and string here");
    assert!(of("message M { repeated int32 c = 3; }").ends_with("is repeated int32 there, and a map here"));
}

#[test]
fn a_writers_messages_may_be_as_deep_in_each_other_as_they_like() {
    let mut writer = "message M { N0 a = 1; }".to_owned();
    for number in 0..5_000 {
        writer += &format!(" message N{number} {{ N{} a = 1; }}", number + 1);
    }
    writer += " message N5000 { string a = 1; }";
    assert!(
        refused(&writer, "message M { M a = 1; }").is_some_and(|why| why.ends_with("there, and the message M here"))
    );
}

/// Source with given answers: ids from 10 on are unknown, those from 20 on unavailable.
#[derive(Debug, Default)]
struct Source {
    is_there: Mutex<bool>,
    asked: Mutex<Vec<WriterKey>>,
}

impl SchemaSource<ProtobufSchema> for Source {
    fn ask(&self, key: WriterKey) -> Lookup<Result<ProtobufSchema, NoSchema>> {
        self.asked.lock().expect("no test panics").push(key);
        match key {
            WriterKey::Id(20..) => Lookup::Unavailable("down".into()),
            WriterKey::Id(10..) => Lookup::Ready(Err(NoSchema::Missing("unknown".into()))),
            WriterKey::Id(9) => Lookup::Ready(schema("message M { string a = 1; }").map_err(NoSchema::Unreadable)),
            WriterKey::Id(8) => Lookup::Ready(schema("message N { int64 a = 1; }").map_err(NoSchema::Unreadable)),
            WriterKey::Id(6) => Lookup::Ready(
                schema("message N {} message M { int64 a = 1; bytes b = 2; }").map_err(NoSchema::Unreadable),
            ),
            _ if *self.is_there.lock().expect("no test panics") => {
                Lookup::Ready(schema("message M { int64 a = 1; }").map_err(NoSchema::Unreadable))
            }
            _ => Lookup::Pending(Arc::new(Awaited::default())),
        }
    }
}

fn decoder(source: &Arc<Source>, mode: Mode) -> ProtobufDecoder {
    let options = ProtobufOptions { mode, ..ProtobufOptions::default() };
    let given = vec![(WriterKey::Id(5), schema("message M { int32 a = 1; }").expect("a schema"))];
    let reader = schema("message M { int64 a = 1; } message Other {}").expect("a schema");
    let plan = ProtobufPlan::new(reader, given, Framing::Confluent, options).expect("a plan");
    ProtobufDecoder::new(Arc::new(plan.asking(Arc::<Source>::clone(source))), BufferPool::new(1 << 20))
}

/// The number 1 behind a frame with this id and these indexes.
fn append(decoder: &mut ProtobufDecoder, id: u8, indexes: &[u8]) -> Result<Decoded, Lookup<BadValue>> {
    TypedColumn::append(decoder, Some(&[&[0, 0, 0, 0, id], indexes, &[8, 1]].concat()), RecordContext::NOTHING)
}

#[test]
fn a_value_whose_schema_is_awaited_gets_no_row_and_is_decoded_later() {
    for mode in [Mode::FailFast, Mode::Permissive] {
        let source = Arc::new(Source::default());
        let mut decoder = decoder(&source, mode);
        assert!(matches!(append(&mut decoder, 5, &[0]), Ok(Decoded::Whole)));
        assert!(matches!(append(&mut decoder, 3, &[0]), Err(Lookup::Pending(_))));
        assert!(matches!(append(&mut decoder, 20, &[0]), Err(Lookup::Unavailable(why)) if why == "down"));
        assert_eq!(decoder.rows(), 1);
        *source.is_there.lock().expect("no test panics") = true;
        for id in [3, 5, 7, 3, 1, 5, 7] {
            assert!(matches!(append(&mut decoder, id, &[0]), Ok(Decoded::Whole)), "{id}");
        }
        assert_eq!(decoder.rows(), 8);
        // Never for the given schema, twice for the awaited one, once for the others.
        let asked = source.asked.lock().expect("no test panics");
        assert_eq!(*asked, [3, 20, 3, 7, 1].map(WriterKey::Id));
    }
}

#[test]
fn a_frame_names_the_message_by_its_place_in_the_writers_schema() {
    let source = Arc::new(Source::default());
    let mut decoder = decoder(&source, Mode::FailFast);
    for _ in 0..2 {
        assert!(matches!(append(&mut decoder, 6, &[2, 2]), Ok(Decoded::Whole)));
        let Err(Lookup::Ready(bad)) = append(&mut decoder, 6, &[0]) else { panic!("another message") };
        assert_eq!(
            bad.reason,
            "the frame of id 6 names message [0], which in its schema is N; the column is of M, which is [1]"
        );
    }
}

#[test]
fn a_schema_that_there_is_not_or_that_cannot_be_read_makes_a_bad_value() {
    let unreadable = |id, why: &str| format!("the schema of id {id} cannot be read: {why}");
    let other_type = unreadable(9, "a: number 1 is string there, and int64 here");
    let no_message = unreadable(8, "there is no message M; there are N");
    for (id, why, asked) in [(10, "unknown".to_owned(), 3), (9, other_type, 2), (8, no_message, 2)] {
        let source = Arc::new(Source::default());
        let mut failing = decoder(&source, Mode::FailFast);
        assert!(matches!(append(&mut failing, id, &[0]), Err(Lookup::Ready(bad)) if bad.reason == why));
        assert!(append(&mut failing, id, &[0]).is_err());
        assert_eq!(failing.rows(), 0);
        let mut permissive = decoder(&source, Mode::Permissive);
        assert!(matches!(append(&mut permissive, id, &[0]), Ok(Decoded::WithNulls)));
        assert_eq!(permissive.rows(), 1);
        // Unresolvable schemas are requested once per plan; unknown ones may be known later, so they are requested
        // again.
        assert_eq!(source.asked.lock().expect("no test panics").len(), asked);
    }
}

#[test]
fn a_registry_may_have_descriptors_in_base64() {
    // `name = "x.proto"`, `message M { int32 a = 1; }`, proto3, as protoc writes them.
    let text = "Cgd4LnByb3RvIg4KAU0SCQoBYRgBIAEoBWIGcHJvdG8z";
    let schema = ProtobufSchema::from_texts(&[("f.proto".to_owned(), text.to_owned())], None).expect("descriptors");
    assert_eq!(schema.message(), "M");
}
