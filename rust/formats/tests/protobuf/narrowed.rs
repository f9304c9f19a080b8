//! Selections of a message's fields: the values of a selected field do not depend on the selection.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StructArray};
use monedula_columns::BufferPool;
use monedula_formats::{Framing, Mode, ProtobufDecoder, ProtobufOptions, ProtobufPlan, ProtobufSchema};

use super::support::{field, plan};

fn decoded(text: &str, fields: &[&str], values: &[Vec<u8>]) -> StructArray {
    with(text, ProtobufOptions { fields: fields.iter().map(ToString::to_string).collect(), ..fail_fast() }, values)
}

fn fail_fast() -> ProtobufOptions {
    ProtobufOptions { mode: Mode::FailFast, ..ProtobufOptions::default() }
}

fn with(text: &str, options: ProtobufOptions, values: &[Vec<u8>]) -> StructArray {
    let mut decoder = ProtobufDecoder::new(plan(text, options), BufferPool::new(1 << 20));
    for value in values {
        decoder.append(Some(value)).expect(text);
    }
    let (array, _) = decoder.finish();
    array.to_data().validate_full().expect("a valid array");
    array.as_struct().clone()
}

fn refused(text: &str, options: ProtobufOptions) -> String {
    let texts = [("test.proto".to_owned(), text.to_owned())];
    let schema = ProtobufSchema::from_texts(&texts, Some("M")).expect(text);
    ProtobufPlan::new(schema, Vec::new(), Framing::Bare, options).expect_err("no plan").to_string()
}

const ORDER: &str =
    "syntax = \"proto3\"; message M { int32 a = 1; repeated I b = 2; map<string, I> c = 3; string d = 20; }
                     message I { int32 x = 1; string y = 2; J z = 3; } message J { bool p = 1; bool q = 2; }";

fn order() -> Vec<u8> {
    let item = [&[8, 5][..], &field(2, b"y"), &field(3, &[8, 1, 16, 1])].concat();
    [
        &[8, 7][..],
        &field(2, &item),
        &field(2, b""),
        &field(3, &[field(1, b"k"), field(2, &item)].concat()),
        &field(20, b"d"),
    ]
    .concat()
}

#[test]
fn fields_stand_in_the_order_in_which_they_are_named() {
    let all = decoded(ORDER, &[], &[order()]);
    let some = decoded(ORDER, &["d", "c.z.q", "b.y", "b.x", "a"], &[order()]);
    assert_eq!(some.column_names(), ["d", "c", "b", "a"]);
    for name in ["a", "d"] {
        assert_eq!(some.column_by_name(name), all.column_by_name(name));
    }
    let items =
        |array: &StructArray| array.column_by_name("b").expect("b").as_list::<i32>().values().as_struct().clone();
    assert_eq!(items(&some).column_names(), ["y", "x"]);
    for name in ["x", "y"] {
        assert_eq!(items(&some).column_by_name(name), items(&all).column_by_name(name));
    }
    let values = |array: &StructArray| array.column_by_name("c").expect("c").as_map().values().as_struct().clone();
    let inner = |array: &StructArray| values(array).column_by_name("z").expect("z").as_struct().clone();
    assert_eq!(values(&some).column_names(), ["z"]);
    assert_eq!(inner(&some).column_by_name("q"), inner(&all).column_by_name("q"));
    assert_eq!(inner(&some).column_names(), ["q"]);
}

#[test]
fn a_oneof_ends_with_a_member_that_has_no_column() {
    let text =
        "syntax = \"proto3\"; message M { int32 before = 1; oneof f { int32 a = 2; string b = 3; I c = 4; I d = 50; } }
                message I { int32 x = 1; }";
    let members = [vec![16, 1], field(3, b"b"), field(4, &[8, 1]), field(50, &[8, 2])];
    let mut values = vec![Vec::new()];
    for first in &members {
        values.push(first.clone());
        for second in &members {
            values.push([&first[..], second].concat());
            values.extend(members.iter().map(|third| [&first[..], second, third].concat()));
        }
    }
    assert_eq!(values.len(), 1 + 4 + 16 + 64);
    let all = decoded(text, &[], &values);
    let names = ["a", "b", "c", "d"];
    for chosen in 1..16_u8 {
        let fields: Vec<_> = (0..4).filter(|bit| chosen >> bit & 1 != 0).map(|bit| names[bit]).collect();
        let some = decoded(text, &fields, &values);
        for name in fields {
            assert_eq!(some.column_by_name(name), all.column_by_name(name), "{name} of {chosen:04b}");
        }
    }
}

#[test]
fn a_field_that_there_is_not_is_named() {
    let of = |path: &str| refused(ORDER, ProtobufOptions { fields: vec![path.to_owned()], ..fail_fast() });
    assert_eq!(of("e"), "the message M has no field \"e\"; it has a, b, c, d");
    assert_eq!(of("b.z.r"), "b.z: the message J has no field \"r\"; it has p, q");
    assert_eq!(of("a.x"), "a: it has no fields");
    assert_eq!(of("c.k"), "c{}: the message I has no field \"k\"; it has x, y, z");
}

#[test]
fn unsigned_numbers_may_be_signed_ones_of_the_same_bits() {
    let text = "syntax = \"proto3\"; message M { uint32 a = 1; uint64 b = 2; fixed32 c = 3; repeated fixed64 d = 4; }";
    let bits = [0xff; 9];
    let value = [&[8][..], &bits[..4], &[15, 16], &bits, &[1, 29], &bits[..4], &[33], &bits[..8]].concat();
    let options = |name: &str| {
        let mut options = fail_fast();
        options.set(&[("unsigned.as.signed".to_owned(), "true".to_owned()), (name.to_owned(), "true".to_owned())])?;
        Ok::<_, monedula_formats::BadOption>(options)
    };
    let signed = format!("{:?}", with(text, options("enums.as.ints").expect("options"), std::slice::from_ref(&value)));
    assert_eq!(signed.matches("-1,").count(), 4, "{signed}");
    let upcast = format!("{:?}", with(text, options("upcast.unsigned.ints").expect("options"), &[value]));
    assert!(upcast.contains("4294967295") && upcast.contains("18446744073709551615"), "{upcast}");
}

#[test]
fn messages_without_fields_may_have_no_column() {
    let text = "syntax = \"proto3\"; message M { int32 a = 1; E b = 2; repeated E c = 3; map<int32, E> d = 4; F e = 5; G f = 6; }
                message E {} message F { E x = 1; } message G { E x = 1; int32 y = 2; }";
    let options = ProtobufOptions { retain_empty_message_types: false, ..fail_fast() };
    let value = [&[8, 1][..], &field(2, b""), &field(3, b""), &field(4, &[8, 1]), &field(6, &[16, 3])].concat();
    let array = with(text, options.clone(), &[value]);
    assert_eq!(array.column_names(), ["a", "f"]);
    let of_f: &ArrayRef = array.column_by_name("f").expect("f");
    assert_eq!(of_f.as_struct().column_names(), ["y"]);
    assert!(refused("syntax = \"proto3\"; message M {}", options).contains("nothing is left of the schema"));
    let _: Arc<ProtobufPlan> = plan("syntax = \"proto3\"; message M {}", fail_fast());
}
