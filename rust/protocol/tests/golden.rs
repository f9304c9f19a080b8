//! Every message in every version, against the bytes and the JSON of Apache Kafka's own classes.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use monedula_protocol::api::{ApiKey, Message, supported};
use monedula_protocol::error::WireError;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages;
use monedula_protocol::wire::json::Json;
use monedula_protocol::wire::{Reader, Writer};
use support::GoldenCase;

// Linked since `cargo bolero` instruments every test of the crate, and only bolero defines the functions that it calls.
use bolero as _;

fn encode<'a, M: Message<'a>>(message: &M, version: i16) -> Vec<u8> {
    let mut writer = Writer::new();
    message.encode(&mut writer, version).unwrap_or_else(|error| panic!("version {version}: {error}"));
    writer.into_bytes()
}

fn decode<'a, M: Message<'a>>(bytes: &'a [u8], version: i16) -> M {
    let mut reader = Reader::new(bytes);
    let message = M::decode(&mut reader, version).unwrap_or_else(|error| panic!("version {version}: {error}"));
    assert_eq!(reader.finish(), Ok(()));
    message
}

/// Both directions of one case, and its relation to our defaults.
fn check<'a, M: Message<'a> + Json<'a>>(case: &'a GoldenCase) {
    let (version, place) = (case.version, format!("{} version {}, {}", M::NAME, case.version, case.name));
    let decoded: M = decode(case.bytes, version);
    assert_eq!(encode(&decoded, version), case.bytes, "bytes of {place}");
    if case.name != "explicit defaults" {
        assert_eq!(decoded.to_json(version), case.json, "json of {place}");
    }
    let read = M::from_json(&case.json, version).unwrap();
    match case.name.as_str() {
        // Kafka's JSON has no unknown tagged fields.
        "tagged" => assert_ne!(read, decoded, "{place}"),
        _ => assert_eq!(encode(&read, version), case.bytes, "bytes from the json of {place}"),
    }
    match case.name.as_str() {
        "minimal" => assert_eq!(encode(&M::default(), version), case.bytes, "{place}"),
        "specimen" => assert_eq!(M::specimen().to_json(version), case.json, "{place}"),
        _ => {}
    }
}

/// A field or a null that the version lacks must be refused or dropped, as Kafka does.
fn check_beyond<'a, M: Message<'a> + Json<'a>>(line: &'a serde_json::Value) {
    let version = support::number(line, "version");
    let message = M::from_json(&line["json"], support::number(line, "json_version")).unwrap();
    let place = format!("{} version {version}, {}", M::NAME, line["case"]);
    let mut writer = Writer::new();
    match (message.encode(&mut writer, version), support::bytes(line)) {
        (Ok(()), Some(bytes)) => assert_eq!(writer.into_bytes(), bytes, "{place}"),
        (Err(WireError::FieldNotInVersion { .. } | WireError::NullNotAllowed { .. }), None) => {}
        (result, bytes) => panic!("{place}: {result:?}, but Kafka {bytes:?}"),
    }
}

/// Every truncation of a message must be an error.
fn check_prefixes<'a, M: Message<'a>>(case: &'a GoldenCase) {
    for length in 0..case.bytes.len() {
        let result = M::decode(&mut Reader::new(&case.bytes[..length]), case.version);
        assert!(result.is_err(), "{} version {}, {}: {length} bytes read", M::NAME, case.version, case.name);
    }
}

/// Every supported version must have cases, and no case may have an unsupported version.
fn check_coverage(cases: &[GoldenCase], versions: RangeInclusive<i16>, flexible_from: i16) {
    let mut found: BTreeMap<i16, BTreeSet<&str>> = BTreeMap::new();
    for case in cases {
        found.entry(case.version).or_default().insert(&case.name);
    }
    let expected: Vec<i16> = versions.collect();
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), expected);
    for (version, names) in found {
        for name in ["populated", "minimal", "specimen", "empty", "empty leaves"] {
            assert!(names.contains(name), "version {version} lacks {name}");
        }
        assert_eq!(names.contains("tagged"), version >= flexible_from, "version {version}, tagged");
    }
}

macro_rules! golden_tests {
    ($($test:ident: $module:ident::$message:ident, $versions:expr, $flexible:expr;)*) => {
        $(
            #[test]
            fn $test() {
                let cases = support::cases(stringify!($message));
                check_coverage(&cases, $versions, $flexible);
                for case in &cases {
                    check::<messages::$module::$message<'_>>(case);
                    check_prefixes::<messages::$module::$message<'_>>(case);
                }
                for line in &support::lines(concat!("beyond/", stringify!($message))) {
                    check_beyond::<messages::$module::$message<'_>>(line);
                }
            }
        )*

        /// Message, versions and first flexible version, as tested above.
        const TESTED: &[(&str, RangeInclusive<i16>, i16)] = &[
            $((stringify!($message), $versions, $flexible),)*
        ];
    };
}

for_each_message!(golden_tests);

/// Kafka's own table of APIs by code: name, versions, first flexible version.
fn kafka_apis() -> BTreeMap<i16, (String, RangeInclusive<i16>, i16)> {
    let entry = |line: &serde_json::Value| {
        let name = line["name"].as_str().unwrap().to_owned();
        let versions = support::number(line, "min")..=support::number(line, "max");
        let flexible_from = line.get("flexible_from").map_or(i16::MAX, |_| support::number(line, "flexible_from"));
        (support::number(line, "code"), (name, versions, flexible_from))
    };
    support::lines("api_versions").iter().map(entry).collect()
}

#[test]
fn the_versions_spoken_are_those_of_kafka() {
    let kafka = kafka_apis();
    for &(key, min, max) in supported() {
        let (name, versions, flexible_from) = &kafka[&key.code()];
        assert_eq!((key.name(), min..=max), (name.as_str(), versions.clone()));
        for kind in ["Request", "Response"] {
            let message = format!("{name}{kind}");
            let tested = (message.as_str(), versions.clone(), *flexible_from);
            assert!(TESTED.contains(&tested), "{tested:?} has no golden test");
        }
    }
}

#[test]
fn error_codes_are_those_of_kafka() {
    let lines = support::lines("error_codes");
    assert!(lines.len() > 130);
    for line in &lines {
        let error = ErrorCode::from_code(support::number(line, "code"));
        assert_eq!(Some(error.name()), line["name"].as_str());
        assert_eq!(Some(error.is_retriable()), line["retriable"].as_bool(), "{error}");
    }
    let known = (i16::MIN..=i16::MAX).filter(|code| !matches!(ErrorCode::from_code(*code), ErrorCode::Unknown(_)));
    assert_eq!(known.count(), lines.len());
}

#[test]
fn an_api_key_that_kafka_lacks_is_none() {
    let kafka = kafka_apis();
    for code in (i16::MIN..=i16::MAX).filter(|code| !kafka.contains_key(code)) {
        assert_eq!(ApiKey::from_code(code), None);
    }
}
