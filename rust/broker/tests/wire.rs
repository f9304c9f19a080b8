//! Rules for all requests: correlation ids, versions, unknown APIs, topic creation.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::path::Path;

use bytes::Bytes;
use monedula_protocol::messages::api_versions::ApiVersionsRequest;
use monedula_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use monedula_protocol::messages::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use monedula_protocol::wire::json::Json;
use serde_json::Value;
use support::{Outcome, World};

#[test]
fn an_answer_carries_the_correlation_id_of_its_request() {
    let mut world = World::default();
    let request = ApiVersionsRequest { client_software_name: "x", client_software_version: "1", ..Default::default() };
    for version in 0..=4 {
        // `call` compares the correlation ids.
        let answer = world.call(1, &request, version);
        assert_eq!(answer.error_code, 0);
        assert!(!answer.api_keys.is_empty());
    }
}

// req: S105
#[test]
fn an_unknown_version_is_told_to_api_versions_and_closes_with_the_rest() {
    let mut world = World::default();
    let connection = world.connect(1);
    let frame = |key: i16, version: i16| {
        let mut frame = [key.to_be_bytes(), version.to_be_bytes()].concat();
        frame.extend(77i32.to_be_bytes());
        // No client id, no tagged fields.
        frame.extend([0xff, 0xff, 0]);
        Bytes::from(frame)
    };
    world.send_frame(connection, frame(18, 99));
    let Some(Outcome::Frame(answer)) = world.outcome(connection) else { panic!("no answer") };
    // The answer is in version 0: correlation id, error code, one API with its versions.
    assert_eq!(answer[..6], [0, 0, 0, 77, 0, 35]);
    assert_eq!(answer[6..], [0, 0, 0, 1, 0, 18, 0, 0, 0, 5]);
    for (key, version) in [(3, 99), (3, -1), (999, 0), (-1, 0)] {
        let connection = world.connect(1);
        world.send_frame(connection, frame(key, version));
        let outcome = world.outcome(connection);
        assert!(matches!(outcome, Some(Outcome::Closed(_))), "{key} v{version}: {outcome:?}");
    }
    // The first connection still works.
    assert_eq!(world.call_on(connection, &ApiVersionsRequest::default(), 0).error_code, 0);
}

/// The lines of a golden file, which Apache Kafka's own classes wrote.
fn golden(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(file).with_extension("jsonl");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Kafka's smallest request of an API, as a frame without its length field.
fn minimal(name: &str, key: i64, version: i64, flexible_from: i64) -> Option<Bytes> {
    let lines = golden(&format!("{name}Request"));
    let line = lines.iter().find(|line| line["version"] == version && line["case"] == "minimal")?;
    let mut frame = [(key as i16).to_be_bytes(), (version as i16).to_be_bytes()].concat();
    frame.extend([0, 0, 0, 9, 0xff, 0xff]);
    if version >= flexible_from {
        frame.push(0);
    }
    frame.extend(<&[u8]>::from_json(&line["bytes"], 0).unwrap());
    Some(frame.into())
}

// req: S091
#[test]
fn what_is_listed_is_answered_and_what_is_not_closes() {
    let listed = World::default().call(1, &ApiVersionsRequest::default(), 0).api_keys;
    let mut tried = 0;
    for api in golden("api_versions") {
        let (key, name) = (api["code"].as_i64().unwrap(), api["name"].as_str().unwrap());
        let flexible_from = api["flexible_from"].as_i64().unwrap_or(i64::MAX);
        let range = listed.iter().find(|listed| i64::from(listed.api_key) == key);
        for version in 0..=api["max"].as_i64().unwrap() + 1 {
            let listed =
                range.is_some_and(|api| (i64::from(api.min_version)..=i64::from(api.max_version)).contains(&version));
            // Unsupported APIs have no golden file.
            let known = range.and_then(|_| minimal(name, key, version, flexible_from));
            let frame = known.clone().unwrap_or_else(|| {
                let head = [(key as i16).to_be_bytes(), (version as i16).to_be_bytes()].concat();
                [head.as_slice(), &[0, 0, 0, 9, 0xff, 0xff, 0]].concat().into()
            });
            let mut world = World::default();
            let connection = world.connect(1);
            world.send_frame(connection, frame);
            let closed = matches!(world.outcome(connection), Some(Outcome::Closed(_)));
            // Produce lists removed versions, because librdkafka needs that. ApiVersions answers a version from the
            // future. The smallest DescribeAcls has codes of 0, which stand for what Kafka does not know.
            let smallest_is_invalid = name == "DescribeAcls" && listed;
            if (name == "Produce" && version < 3) || (name == "ApiVersions" && version == 6) || smallest_is_invalid {
                continue;
            }
            assert_eq!(closed, !listed, "{name} version {version}");
            assert!(known.is_some() || !listed, "{name} version {version} is listed, but Kafka has none");
            tried += 1;
        }
    }
    assert!(tried > 200, "{tried}");
}

// req: S092
#[test]
fn a_topic_is_created_by_metadata_if_it_may_and_never_by_produce() {
    let topic = MetadataRequestTopic { name: Some("orders"), ..Default::default() };
    let topics = Some(vec![topic]);
    let mut request = MetadataRequest { topics, allow_auto_topic_creation: false, ..Default::default() };
    let mut world = World::with(1, &[("num.partitions", "3")]);
    // Twice, because the first answer would be the same if the topic had been created.
    for _ in 0..2 {
        assert_eq!(world.call(1, &request, 9).topics[0].error_code, 3);
    }
    request.allow_auto_topic_creation = true;
    // The request that creates a topic does not find it yet, as in Kafka.
    let creating = world.call(1, &request, 9);
    assert_eq!((creating.topics[0].error_code, creating.topics[0].partitions.len()), (3, 0));
    let found = world.call(1, &request, 9);
    assert_eq!((found.topics[0].error_code, found.topics[0].partitions.len()), (0, 3));
    let partition_data = vec![PartitionProduceData { records: Some(&[]), ..Default::default() }];
    let topic_data = vec![TopicProduceData { name: "invoices", partition_data, ..Default::default() }];
    let produce = ProduceRequest { acks: 1, topic_data, ..Default::default() };
    for _ in 0..2 {
        let answer = world.call(1, &produce, 9);
        assert_eq!(answer.responses[0].partition_responses[0].error_code, 3);
    }
}
