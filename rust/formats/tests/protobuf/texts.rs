//! Schemas as texts: what Protobuf's compilers accept is accepted, and what they refuse is refused.

use monedula_formats::{Mode, ParsedProtobuf, ProtobufSchema};

use crate::support::{decoder, field, finished, refused};

fn refusal(texts: &[(&str, &str)]) -> String {
    let texts: Vec<_> = texts.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    ProtobufSchema::from_texts(&texts, None).expect_err("a schema that is none").to_string()
}

/// Type and row that a value is decoded to.
fn row(text: &str, value: &[u8]) -> String {
    let mut decoder = decoder(text, Mode::FailFast);
    decoder.append(Some(value)).expect(text);
    finished(&mut decoder)
}

#[test]
fn names_may_be_broken_at_their_dots() {
    let broken = "syntax = \"proto3\"; package a\n.b; message M { a.b.Outer\n .Inner c = 1; a.b.\nOuter.Inner d = 2;
                  map<int32, .a.b.Outer\n .Inner> e = 3; oneof f { Outer // A comment.\n .Inner g = 4; } }
                  message Outer { message Inner { int32 x = 1; } }";
    let texts = [("f.proto".to_owned(), broken.to_owned())];
    ProtobufSchema::from_texts(&texts, Some("a.b.M")).expect(broken);
}

#[test]
fn a_comment_ends_behind_its_beginning() {
    let text = "syntax = \"proto3\"; /*/ one */ message M { /*//////\n two\n //////*/ int32 a = 1; /**/ }";
    row(text, &[8, 1]);
}

#[test]
fn features_of_languages_are_stepped_over() {
    let text = "edition = \"2023\"; import \"google/protobuf/go_features.proto\";
                option features.(pb.go).api_level = API_OPAQUE;
                message M { string a = 1 [features.(pb.java).utf8_validation = VERIFY, deprecated = true]; }";
    row(text, &field(1, b"text"));
}

#[test]
fn features_may_be_set_at_once() {
    let of = |option: &str| row(&format!("edition = \"2023\"; {option} message M {{ int32 a = 1; }}"), b"");
    let apart = of("option features.field_presence = IMPLICIT;");
    let at_once = "option features = { [pb.go] { api_level: API_OPEN } field_presence: IMPLICIT, enum_type: OPEN };";
    assert_eq!(of(at_once), apart);
    assert_ne!(of(""), apart);
}

#[test]
fn who_may_name_a_type_is_stepped_over() {
    let text =
        "edition = \"2024\"; export message M { local message I { int32 a = 1; } export enum E { Z = 0; } I b = 1;
                local c = 2; } local message local { string d = 1; } local enum F { Y = 0; }";
    row(text, &field(2, &field(1, b"text")));
}

#[test]
fn values_of_maps_are_not_delimited() {
    let text = "edition = \"2023\"; option features.message_encoding = DELIMITED;
                message M { map<int32, I> a = 1; I b = 2; } message I { int32 c = 1; }";
    row(text, &[&field(1, &[8, 1, 0x12, 2, 8, 5])[..], &[0x13, 8, 1, 0x14]].concat());
}

#[test]
fn a_field_of_proto2_has_a_label() {
    let reason = refusal(&[("f.proto", "// No syntax.\nmessage M {\n int32 a = 1; }")]);
    assert!(reason.contains("line 3: the field a of proto2 is neither optional"), "{reason}");
    row(
        "message M { optional int32 a = 1; oneof b { int32 c = 2; } map<int32, int32> d = 3; repeated group E = 4 {} }",
        b"",
    );
}

#[test]
fn an_edition_must_be_known() {
    let reason = refusal(&[("f.proto", "edition = \"2026\"; message M { int32 a = 1; }")]);
    assert!(reason.contains("line 1: the edition \"2026\" is not known"), "{reason}");
}

#[test]
fn two_fields_have_not_one_name() {
    let reason = refusal(&[("f.proto", "syntax = \"proto3\"; message M { int32 a = 1; oneof b { string a = 2; } }")]);
    assert!(reason.contains("two fields have the name a"), "{reason}");
}

#[test]
fn the_last_file_is_not_imported_by_another() {
    let order = ("order.proto", "syntax = \"proto3\"; import \"common.proto\"; message Order { Money a = 1; }");
    let common = ("common.proto", "syntax = \"proto3\"; message Money { int64 units = 1; }");
    let reason = refusal(&[order, common]);
    assert!(reason.contains("common.proto is the last file, and order.proto imports it"), "{reason}");
}

#[test]
fn an_error_names_the_key_of_a_map_as_it_is() {
    let text = "syntax = \"proto3\"; message M { map<int32, I> a = 1; map<sint64, I> b = 2; map<bool, I> c = 3;
                map<fixed64, I> d = 4; map<sfixed32, I> e = 5; } message I { string f = 1; }";
    let of = |number: u64, key: &[u8]| refused(text, &field(number, &[key, &field(2, &field(1, b"\xff"))].concat())).0;
    assert_eq!(of(1, &[8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]), "a[-1].f");
    assert_eq!(of(2, &[8, 3]), "b[-2].f");
    assert_eq!(of(3, &[8, 1]), "c[true].f");
    assert_eq!(of(4, &[9, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), "d[18446744073709551615].f");
    assert_eq!(of(5, &[13, 0xfe, 0xff, 0xff, 0xff]), "e[-2].f");
}

#[test]
fn names_of_fields_have_letters_and_digits() {
    let of = |name: &[u8]| {
        let declared = [field(1, name), vec![0x18, 1, 0x20, 1, 0x28, 5]].concat();
        let file = [field(1, b"f.proto"), field(4, &[field(1, b"M"), field(2, &declared)].concat())].concat();
        ProtobufSchema::from_descriptor_set(&field(1, &file), None)
    };
    of(b"a_1").expect("a name");
    // C strings of Arrow's C data interface end at a zero byte.
    for name in [&b"a\0b"[..], b"", b"a.b"] {
        let reason = of(name).expect_err("no name").to_string();
        assert!(reason.contains("is not the name of a field"), "{reason}");
    }
}

#[test]
fn one_file_is_no_set_of_files() {
    let file = [field(1, b"order.proto"), field(4, &field(1, b"Order")), field(12, b"proto3")].concat();
    let reason = ProtobufSchema::from_descriptor_set(&file, None).expect_err("no set").to_string();
    assert!(reason.contains("are of one file, and not of a FileDescriptorSet"), "{reason}");
    ProtobufSchema::from_descriptor_set(&field(1, &file), None).expect("a set");
}

#[test]
fn groups_of_an_extension_count_where_they_are_declared() {
    let text = "message B { extensions 100 to 200; } extend B { optional group G = 100 { optional int32 x = 1; }
                repeated int32 y = 101 [packed = true]; ; optional .B z = 102; } message After {}
                message M { message First {} extend B { repeated group H = 103 {} } message Second {} optional int32 a = 1; }";
    let indexes = |message: &str| {
        let texts = [("f.proto".to_owned(), text.to_owned())];
        ProtobufSchema::from_texts(&texts, Some(message)).expect(text).indexes().to_vec()
    };
    // Numbered by protoc.
    let expected = [("B", vec![0]), ("G", vec![1]), ("After", vec![2]), ("M", vec![3]), ("M.H", vec![3, 1])];
    for (message, places) in expected {
        assert_eq!(indexes(message), places, "{message}");
    }
    assert_eq!(indexes("M.Second"), [3, 2]);
}

#[test]
fn messages_in_each_other_without_end_are_compared_as_far_as_the_stack_allows() {
    let of = |number: usize| if number == 0 { "int32".to_owned() } else { format!("M{}", number - 1) };
    let messages = (0..3_000).map(|number| format!("message M{number} {{ {} a = 1; }}", of(number)));
    let file = format!("syntax = \"proto3\"; {}", messages.collect::<String>());
    let text = r#"syntax = "proto3"; import "chain.proto"; message Root { M2999 a = 1; }"#;
    let schema = ParsedProtobuf::parse(text, &[("chain.proto".to_owned(), file)]).unwrap();
    let told = schema.cannot_read(&schema);
    assert!(told[0].contains("messages are nested too deep"), "{told:?}");
}
