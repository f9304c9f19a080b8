//! Memory that hostile values may cost: a bounded row, whatever the bytes are.

#[path = "../../protocol/tests/support/allocations.rs"]
mod allocations;
mod common;

use allocations::allocated_by;
use arrow_schema::{DataType, Fields};
use common::{field, list, map, structs};
use monedula_columns::BufferPool;
use monedula_formats::{Appended, JsonDecoder, JsonOptions, Reason};

const ROW_BYTES: usize = 1 << 20;

/// Cost of appending the text: its result, the bytes allocated, and the bytes that the columns keep.
fn cost(text: &str) -> (Appended, usize, usize) {
    let wide = (0..100).map(|index| field(&format!("c{index}"), DataType::Decimal128(38, 0))).collect();
    let fields = Fields::from(vec![
        field("wide", list(structs(wide))),
        field("map", map(DataType::Decimal128(38, 0))),
        field("text", DataType::Utf8),
        field("number", DataType::Decimal128(38, 0)),
    ]);
    let pool = BufferPool::new(0);
    let options = JsonOptions { max_row_bytes: ROW_BYTES, ..JsonOptions::default() };
    let mut decoder = JsonDecoder::new(&fields, options, pool.clone()).expect("known types");
    let (appended, allocated) = allocated_by(|| decoder.append(Some(text.as_bytes())).expect("permissive"));
    (appended, allocated, pool.outstanding_bytes())
}

fn reason(appended: Appended) -> Option<Reason> {
    match appended {
        Appended::Good => None,
        Appended::Bad(bad) => Some(bad.reason),
    }
}

#[test]
fn a_row_that_grows_far_beyond_its_text_is_refused_before_it_does() {
    let empties = format!("{{\"wide\":[{}{{}}]}}", "{},".repeat(1 << 20));
    let nulls = format!("{{\"wide\":[{}null]}}", "null,".repeat(1 << 20));
    let entries = format!("{{\"map\":{{{}\"\":1}}}}", "\"\":1,".repeat(1 << 20));
    for text in [empties, nulls, entries] {
        let (appended, allocated, held) = cost(&text);
        assert_eq!(reason(appended), Some(Reason::RowTooLarge(ROW_BYTES)));
        // Buffers double: twice the row, and the smaller buffers before.
        assert!(allocated < 8 * ROW_BYTES && held < 4 * ROW_BYTES, "{allocated} bytes allocated, {held} held");
    }
}

#[test]
fn refused_values_cost_no_more_than_a_message() {
    let long = 1 << 20;
    let texts = [
        "[".repeat(long),
        format!("{{\"x\":{}", "[".repeat(long)),
        format!("{{\"x\":{}", "{\"a\":".repeat(long)),
        format!("{{\"number\":{}}}", "9".repeat(long)),
        format!("{{\"number\":\"1e{}\"}}", "9".repeat(900)),
        format!("{{\"wide\":{}", "[".repeat(long)),
        format!("{{\"{}\":1}}]", "k".repeat(long)),
        format!("{{\"text\":\"{}", "x".repeat(long)),
    ];
    for text in texts {
        let (appended, allocated, held) = cost(&text);
        assert!(reason(appended).is_some());
        assert!(allocated < 64 << 10 && held < 64 << 10, "{allocated} bytes allocated, {held} held");
    }
}

#[test]
fn a_text_with_escapes_costs_its_own_size() {
    let text = format!("{{\"text\":\"{}\"}}", "\\u0041".repeat(1 << 20));
    let (appended, allocated, held) = cost(&text);
    assert_eq!(reason(appended), None);
    assert!(allocated + held < 8 << 20, "{allocated} bytes allocated, {held} held");
}

#[test]
fn any_bytes_cost_a_bounded_row_under_all_options() {
    const GOOD: &str = r#"{/**/'wide':[{"c0":"1e30"}],map:{"k":007},"text":"\q\u0041 // ","number":NaN}"#;
    let fields = Fields::from(vec![
        field("wide", list(structs(vec![field("c0", DataType::Decimal128(38, 0)), field("c1", DataType::Date32)]))),
        field("map", map(list(DataType::Utf8))),
        field("text", DataType::Utf8),
        field("number", DataType::Float64),
    ]);
    let mut options = JsonOptions { max_row_bytes: 1 << 12, ..JsonOptions::default() };
    let lenient = ["Comments", "UnquotedFieldNames", "NumericLeadingZeros", "BackslashEscapingAnyCharacter"];
    for name in [&lenient[..], &["UnquotedControlChars"]].concat() {
        options.set(&format!("allow{name}"), "true").expect("a known option");
    }
    bolero::check!().with_type::<(Vec<u8>, u16, u8)>().for_each(|(bytes, at, partial)| {
        let at = usize::from(*at) % GOOD.len();
        let value =
            [&GOOD.as_bytes()[..at], &bytes.repeat(1 + usize::from(partial % 64)), &GOOD.as_bytes()[at..]].concat();
        let pool = BufferPool::new(0);
        let options = JsonOptions { partial_results: partial % 2 == 0, ..options.clone() };
        let mut decoder = JsonDecoder::new(&fields, options, pool.clone()).expect("known types");
        let (_, allocated) = allocated_by(|| decoder.append(Some(&value)).expect("permissive"));
        let bound = (64 << 10) + 16 * value.len();
        assert!(allocated < bound && pool.outstanding_bytes() < bound, "{allocated} bytes for {}", value.len());
    });
}
