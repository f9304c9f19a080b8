//! Writers' schemas that the reader's can resolve.

use monedula_formats::{BadSchema, Framing, ProtobufOptions, ProtobufPlan, ProtobufSchema, WriterKey};

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

#[test]
fn a_registry_may_have_descriptors_in_base64() {
    // `name = "x.proto"`, `message M { int32 a = 1; }`, proto3, as protoc writes them.
    let text = "Cgd4LnByb3RvIg4KAU0SCQoBYRgBIAEoBWIGcHJvdG8z";
    let schema = ProtobufSchema::from_texts(&[("f.proto".to_owned(), text.to_owned())], None).expect("descriptors");
    assert_eq!(schema.message(), "M");
}
