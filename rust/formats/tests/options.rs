//! Options of a decoder: their names, patterns, zones, and the permitted extensions of JSON.

mod common;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Int32Type, TimestampMicrosecondType};
use arrow_schema::{DataType, TimeUnit};
use common::{every_type, field, structs, timestamp};
use monedula_columns::BufferPool;
use monedula_formats::{Appended, JsonDecoder, JsonOptions, Pattern, TimeZone};

fn options(set: &[(&str, &str)]) -> JsonOptions {
    let mut options = JsonOptions::default();
    set.iter().for_each(|(name, value)| options.set(name, value).expect("a known option"));
    options
}

fn decoder(data_type: DataType, set: &[(&str, &str)]) -> JsonDecoder {
    let fields = vec![field("a", data_type), field("b", DataType::Int32)];
    JsonDecoder::new(&fields.into(), options(set), BufferPool::new(0)).expect("known types")
}

/// Microseconds of timestamp `a`; `None` if it is bad.
fn micros(text: &str, set: &[(&str, &str)]) -> Option<i64> {
    let mut decoder = decoder(timestamp(), set);
    decoder.append(Some(format!("{{\"a\":\"{text}\"}}").as_bytes())).expect("permissive");
    let column = decoder.finish().0.column(0).clone();
    column.is_valid(0).then(|| column.as_primitive::<TimestampMicrosecondType>().value(0))
}

fn days(text: &str, pattern: &str) -> Option<i32> {
    let mut decoder = decoder(DataType::Date32, &[("dateFormat", pattern)]);
    decoder.append(Some(format!("{{\"a\":\"{text}\"}}").as_bytes())).expect("permissive");
    let column = decoder.finish().0.column(0).clone();
    column.is_valid(0).then(|| column.as_primitive::<Date32Type>().value(0))
}

#[test]
fn dates_are_read_by_their_pattern_alone() {
    let cases = [
        ("02.01.2020", "dd.MM.yyyy", Some(18_263)),
        ("2.1.2020", "dd.MM.yyyy", None),
        ("2020-01-02", "dd.MM.yyyy", None),
        ("20200102", "yyyyMMdd", Some(18_263)),
        ("2 jan 20", "d MMM yy", Some(18_263)),
        ("January 2, 2020", "MMMM d, yyyy", Some(18_263)),
        ("2020-002", "yyyy-DDD", Some(18_263)),
        ("30.02.2020", "dd.MM.yyyy", None),
        ("2020", "yyyy[-MM]", Some(18_262)),
        ("2020-01-02 ", "yyyy-MM-dd", None),
        ("", "[yyyy]", None),
        ("254", "DDD", Some(253)),
        ("2020-01-02 10.", "yyyy-MM-dd HH.SSS", None),
        ("2020-01-02 10.+", "yyyy-MM-dd HH.SSS'+'", None),
        ("2020-01-02 +18:30", "yyyy-MM-dd XXX", None),
    ];
    for (text, pattern, expected) in cases {
        assert_eq!(days(text, pattern), expected, "{text} by {pattern}");
    }
}

#[test]
fn timestamps_are_read_by_their_pattern_in_their_zone() {
    let noon = 1_577_966_400_000_000;
    let cases = [
        ("2020-01-02T12:00:00.5+01:00", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX", noon + 500_000 - 3_600_000_000),
        ("2020-01-02 12:00 Europe/Prague", "yyyy-MM-dd HH:mm VV", noon - 3_600_000_000),
        ("2020-01-02 12:00:00 pm", "yyyy-MM-dd hh:mm:ss a", noon),
        ("20200102120000", "yyyyMMddHHmmss", noon),
    ];
    for (text, pattern, expected) in cases {
        assert_eq!(micros(text, &[("timestampFormat", pattern)]), Some(expected), "{text} by {pattern}");
    }
    let fallback = [("timestampFormat", "dd.MM.yyyy"), ("enableDateTimeParsingFallback", "true")];
    assert_eq!(micros("2020-01-02T12:00:00", &fallback[..1]), None);
    assert_eq!(micros("2020-01-02T12:00:00", &fallback), Some(noon));
    let local = DataType::Timestamp(TimeUnit::Microsecond, None);
    let mut local = decoder(local, &[("timestampNTZFormat", "d.M.yyyy H[ XXX]")]);
    for (text, good) in [("2.1.2020 12", true), ("2.1.2020 12 +01:00", false)] {
        let appended = local.append(Some(format!("{{\"a\":\"{text}\"}}").as_bytes())).expect("permissive");
        assert_eq!(appended == Appended::Good, good, "{text}");
    }
}

#[test]
fn a_zone_moves_what_its_clocks_skip_and_takes_the_first_of_what_they_repeat() {
    let prague = [("timeZone", "Europe/Prague")];
    let hour = 3_600_000_000;
    let at = |text: &str| micros(text, &prague).expect(text);
    let utc = |text: &str| micros(text, &[]).expect(text);
    assert_eq!(at("2024-01-01 12:00:00"), utc("2024-01-01 11:00:00"));
    assert_eq!(at("2024-07-01 12:00:00"), utc("2024-07-01 10:00:00"));
    assert_eq!(at("2024-03-31 02:30:00"), at("2024-03-31 03:30:00"));
    assert_eq!(at("2024-10-27 03:00:00") - at("2024-10-27 02:59:59"), hour + 1_000_000);
    assert_eq!(at("12024-07-01 12:00:00"), utc("12024-07-01 10:00:00"));
    assert_eq!(at("2024-07-01 12:00:00 America/New_York"), utc("2024-07-01 16:00:00"));
    assert_eq!(micros("2024-07-01 12:00:00 america/new_york", &prague), None);
    assert_eq!(TimeZone::named("EST").expect("Java has it").to_string(), "-05:00:00");
    assert_eq!(TimeZone::named("Nowhere/Here"), None);
    assert_eq!(TimeZone::named("../etc/passwd"), None);
}

#[test]
fn mistakes_are_refused_with_the_option_and_the_reason() {
    let refused = |name: &str, value: &str| JsonOptions::default().set(name, value).expect_err("refused").to_string();
    assert!(
        refused("timestampFormat", "YYYY").starts_with("option timestampFormat: pattern \"YYYY\": YYYY is not supp")
    );
    assert_eq!(refused("dateFormat", "'x"), "option dateFormat: pattern \"'x\": a quote is not closed");
    assert_eq!(refused("dateformat", "y]"), "option dateformat: pattern \"y]\": a bracket was not opened");
    assert!(refused("multiLine", "true").starts_with("option multiLine: is an option for files"));
    assert_eq!(refused("nothing", ""), "option nothing: there is no such option of from_json");
    assert_eq!(refused("envelope", "x"), "option envelope: \"x\" is not supported; use none or debezium");
    assert_eq!(Pattern::new("yyyy").expect("known").as_str(), "yyyy");
}

#[test]
fn without_partial_results_a_fault_takes_the_field_at_the_top_with_it() {
    let nested = structs(vec![field("x", DataType::Int32), field("y", DataType::Int32)]);
    let b_of = |text: &str| {
        let mut decoder = decoder(nested.clone(), &[("enablePartialResults", "false")]);
        decoder.append(Some(text.as_bytes())).expect("permissive");
        let row = decoder.finish().0;
        assert!(row.column(0).is_null(0), "{text}");
        let b = row.column(1).as_primitive::<Int32Type>();
        b.is_valid(0).then(|| b.value(0))
    };
    // Spark's parser continues in the nested object, and takes its end for the end of the row.
    assert_eq!(b_of(r#"{"a":{"x":"bad","b":1},"b":2}"#), Some(1));
    assert_eq!(b_of(r#"{"a":{"x":"bad","y":1},"b":2}"#), None);
    assert_eq!(b_of(r#"{"b":3,"a":{"x":"bad"}, no JSON"#), Some(3));
    assert_eq!(b_of(r#"{"a":[1,{"b":1}],"b":2}"#), Some(2));
}

#[test]
fn any_text_is_read_by_any_pattern_without_a_panic() {
    const LETTERS: &[u8] = b"yMLdDHhkKmsSaVXxZ'[]-/:. T";
    bolero::check!().with_type::<(Vec<u8>, String)>().for_each(|(pattern, text)| {
        let pattern: String =
            pattern.iter().map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()])).collect();
        let mut made = JsonOptions::default();
        for name in ["dateFormat", "timestampFormat", "timestampNTZFormat"] {
            if made.set(name, &pattern).is_err() {
                return;
            }
        }
        let mut decoder = JsonDecoder::new(&every_type(), made, BufferPool::new(0)).expect("known types");
        let text: String = text.chars().filter(|character| !matches!(character, '"' | '\\' | '\0'..=' ')).collect();
        for text in [&*text, "2020-01-02T10:20:30.123+01:00", "0", "99999999999999999999", "-1", "é"] {
            let value = format!(r#"{{"date":"{text}","timestamp":"{text}","local":"{text}"}}"#);
            decoder.append(Some(value.as_bytes())).expect("permissive");
        }
        decoder.finish().0.to_data().validate_full().expect("a valid array");
    });
}
