//! Messages of every few kinds of fields: ending the rows of one kind must not depend on the presence of another.

use monedula_formats::Mode;

use crate::support::{decoder, field, finished};

/// Kinds of fields by their declarations, with a value of each, for the field with this number.
type Kind = (&'static str, fn(u64) -> Vec<u8>);

const KINDS: [Kind; 8] = [
    ("int32 {}", |number| vec![number as u8 * 8, 1]),
    ("optional string {}", |number| field(number, b"text")),
    ("repeated int32 {}", |number| field(number, &[1, 2])),
    ("repeated I {}", |number| field(number, &[8, 1])),
    ("map<int32, string> {}", |number| field(number, &[8, 1, 0x12, 1, b'v'])),
    ("I {}", |number| field(number, &[8, 1])),
    ("E {}", |number| vec![number as u8 * 8, 1]),
    ("oneof of{number} { bool {} }", |number| vec![number as u8 * 8, 1]),
];

/// A message of these kinds, with a value for those whose bits are set.
fn message(kinds: &[usize], present: usize) -> (String, Vec<u8>) {
    let (mut fields, mut value) = (String::new(), Vec::new());
    for (place, kind) in kinds.iter().enumerate() {
        let number = place as u64 + 1;
        let (declared, written) = KINDS[*kind];
        let declared = declared.replace("{number}", &number.to_string());
        match declared.strip_suffix("{} }") {
            Some(oneof) => fields += &format!("{oneof}f{number} = {number}; }}"),
            None => fields += &format!("{} = {number};", declared.replace("{}", &format!("f{number}"))),
        }
        if present >> place & 1 != 0 {
            value.extend(written(number));
        }
    }
    (
        format!(
            "syntax = \"proto3\"; message M {{ {fields} }} message I {{ int32 a = 1; }} enum E {{ Z = 0; O = 1; }}"
        ),
        value,
    )
}

#[test]
fn a_message_has_a_row_in_each_field_whichever_fields_it_is_of() {
    for first in 0..KINDS.len() {
        for second in 0..KINDS.len() {
            for present in 0..4 {
                let (text, value) = message(&[first, second], present);
                let mut decoder = decoder(&text, Mode::FailFast);
                for _ in 0..2 {
                    decoder.append(Some(&value)).expect(&text);
                    decoder.append(Some(b"")).expect(&text);
                }
                assert_eq!(decoder.rows(), 4, "{text}");
                finished(&mut decoder);
            }
        }
    }
}
