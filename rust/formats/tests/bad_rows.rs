//! The rule for bad rows: wherever a bad row is in a batch, and wherever its fault is, every column and every child
//! looks as if the row had never been there.

mod common;

use arrow_array::Array;
use common::{decoder, every_type, rows};
use monedula_formats::Mode;

const GOOD: [&str; 3] = [
    r#"{"boolean":true,"int8":1,"int16":2,"int32":3,"int64":4,"float32":1.5,"float64":2.5,"decimal":"12.3456",
        "text":"one","binary":"aGk=","date":"2020-01-02","timestamp":"2020-01-02T03:04:05Z","local":"2020-01-02",
        "items":[{"price":1,"tags":["a","b"]},null,{"price":2.5,"tags":[]}],"matrix":[[1,2],[],null,[3]],
        "attributes":{"x":{"on":true,"names":{"k":"v"}},"y":null}}"#,
    r#"{"text":null,"matrix":[],"attributes":{}}"#,
    r#"{"boolean":false,"items":[{}],"matrix":[[null]],"attributes":{"z":{"names":{"k":null,"l":"w"}}},"text":"","int64":-1}"#,
];

/// Rows that are good up to a fault, which is in a different column or child each time.
fn bad() -> Vec<String> {
    let full = GOOD[0];
    let mut texts: Vec<String> = [
        (r#""boolean":true"#, r#""boolean":1"#),
        (r#""int64":4"#, r#""int64":4.5"#),
        (r#""decimal":"12.3456""#, r#""decimal":"x""#),
        (r#""binary":"aGk=""#, r#""binary":"aGk""#),
        (r#""date":"2020-01-02""#, r#""date":"no""#),
        (r#""tags":["a","b"]"#, r#""tags":["a","\ud800"]"#),
        (r#""tags":[]"#, r#""tags":7"#),
        ("[[1,2],[],null,[3]]", r#"[[1,2],[],null,[3,"x"]]"#),
        (r#""names":{"k":"v"}"#, r#""names":{"k":"v","l":"\udc00"}"#),
        (r#""y":null"#, r#""y":[]"#),
    ]
    .map(|(sound, broken)| full.replace(sound, broken))
    .to_vec();
    // Truncate anywhere: the columns then hold what was decoded before.
    texts.extend((1..full.len()).step_by(7).map(|end| full[..end].to_owned()));
    texts
}

#[test]
fn a_refused_row_leaves_every_column_as_it_was() {
    let fields = every_type();
    let expected = rows(&fields, &GOOD);
    for bad in bad() {
        for position in 0..=GOOD.len() {
            let mut decoder = decoder(fields.clone(), Mode::FailFast);
            for row in 0..=GOOD.len() {
                if row == position {
                    let (rows, bytes) = (decoder.rows(), decoder.bytes());
                    decoder.append(Some(bad.as_bytes())).expect_err(&bad);
                    assert_eq!((decoder.rows(), decoder.bytes()), (rows, bytes), "{bad}");
                }
                if let Some(good) = GOOD.get(row) {
                    decoder.append(Some(good.as_bytes())).expect("a good row");
                }
            }
            assert_eq!(decoder.finish().0, expected, "{bad} at {position}");
        }
    }
}

#[test]
fn a_row_that_stays_changes_no_other_row() {
    let fields = every_type();
    let expected = rows(&fields, &GOOD);
    for bad in bad() {
        for position in 0..=GOOD.len() {
            let mut texts = GOOD.to_vec();
            texts.insert(position, &bad);
            let found = rows(&fields, &texts);
            found.to_data().validate_full().expect("a valid array");
            let behind = GOOD.len() - position;
            assert_eq!(found.slice(0, position), expected.slice(0, position), "{bad} at {position}");
            assert_eq!(found.slice(position + 1, behind), expected.slice(position, behind), "{bad} at {position}");
        }
    }
}

#[test]
fn a_decoder_starts_anew_after_each_batch() {
    let fields = every_type();
    let mut decoder = decoder(fields.clone(), Mode::Permissive);
    for _ in 0..3 {
        for text in GOOD.iter().map(|text| text.to_string()).chain(bad()) {
            decoder.append(Some(text.as_bytes())).expect("permissive");
        }
        let texts: Vec<String> = GOOD.iter().map(|text| text.to_string()).chain(bad()).collect();
        assert_eq!(decoder.finish().0, rows(&fields, &texts));
        assert_eq!((decoder.rows(), decoder.bytes()), (0, 0));
    }
}

#[test]
fn any_bytes_make_one_valid_row_each() {
    bolero::check!().with_type::<Vec<Vec<u8>>>().for_each(|values: &Vec<Vec<u8>>| {
        let mut decoder = decoder(every_type(), Mode::Permissive);
        let mutated = values.iter().enumerate().map(|(index, bytes)| {
            // Insert these bytes into a good row: so they get further into the decoder than alone.
            let (text, at) =
                (GOOD[0].as_bytes(), bytes.first().map_or(0, |byte| usize::from(*byte) * 2 % GOOD[0].len()));
            if index % 2 == 0 { bytes.clone() } else { [&text[..at], bytes, &text[at..]].concat() }
        });
        let mutated: Vec<_> = mutated.collect();
        mutated.iter().for_each(|value| drop(decoder.append(Some(value))));
        let (array, _) = decoder.finish();
        assert_eq!(array.len(), values.len());
        array.to_data().validate_full().expect("a valid array");
    });
}
