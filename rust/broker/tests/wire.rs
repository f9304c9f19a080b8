//! What holds for every request, whatever it asks.

mod support;

use bytes::Bytes;
use monedula_protocol::messages::api_versions::ApiVersionsRequest;
use monedula_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use support::{Outcome, World};

#[test]
fn an_answer_carries_the_correlation_id_of_its_request() {
    let mut world = World::default();
    let request = ApiVersionsRequest { client_software_name: "x", client_software_version: "1", ..Default::default() };
    for version in 0..=4 {
        // `call` compares the ids.
        let answer = world.call(1, &request, version);
        assert_eq!(answer.error_code, 0);
        assert!(!answer.api_keys.is_empty());
    }
}

// seed: S105
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
    // In the form of version 0: correlation id, error code, one API with its versions.
    assert_eq!(answer[..6], [0, 0, 0, 77, 0, 35]);
    assert_eq!(answer[6..], [0, 0, 0, 1, 0, 18, 0, 0, 0, 4]);
    for (key, version) in [(3, 99), (3, -1), (999, 0), (-1, 0)] {
        let connection = world.connect(1);
        world.send_frame(connection, frame(key, version));
        let outcome = world.outcome(connection);
        assert!(matches!(outcome, Some(Outcome::Closed(_))), "{key} v{version}: {outcome:?}");
    }
    // Others go on, and so does the first.
    assert_eq!(world.call_on(connection, &ApiVersionsRequest::default(), 0).error_code, 0);
}

#[test]
fn a_topic_is_created_by_metadata_if_it_may() {
    let topic = MetadataRequestTopic { name: Some("orders"), ..Default::default() };
    let topics = Some(vec![topic]);
    let mut request = MetadataRequest { topics, allow_auto_topic_creation: false, ..Default::default() };
    let mut world = World::with(1, &[("num.partitions", "3")]);
    assert_eq!(world.call(1, &request, 9).topics[0].error_code, 3);
    request.allow_auto_topic_creation = true;
    assert_eq!(world.call(1, &request, 9).topics[0].partitions.len(), 3);
}
