//! The encoded requests and decoded answers, checked field by field with the protocol's codec.

use std::collections::BTreeMap;

use monedula_engine::group::{Call, ConnectionPurpose, GroupProtocol, GroupResponse, HeartbeatCall, TopicIds};
use monedula_protocol::api::{ApiKey, Request};
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame::{decode_request_body, decode_request_header, encode_response};
use monedula_protocol::messages::consumer_group_heartbeat::{
    Assignment, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, TopicPartitions,
};
use monedula_protocol::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use monedula_protocol::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
};

use crate::world::{MAX_POLL, MEMBER, id, ids, ms, names, of, offsets, t};

const CORRELATION: i32 = 9;

fn full() -> HeartbeatCall {
    HeartbeatCall {
        group_id: "g".into(),
        member_id: MEMBER.into(),
        epoch: 0,
        instance_id: Some("i".into()),
        rack: Some("r".into()),
        rebalance_timeout: Some(MAX_POLL),
        topics: Some(names(&["t", "u"])),
        regex: Some("t.*".into()),
        assignor: Some("uniform".into()),
        owned: Some(ids(&[2, 0]).union(&of("u", &[1])).copied().collect()),
    }
}

fn bare(epoch: i32) -> HeartbeatCall {
    HeartbeatCall {
        instance_id: None,
        rack: None,
        rebalance_timeout: None,
        topics: None,
        regex: None,
        assignor: None,
        owned: None,
        epoch,
        ..full()
    }
}

/// Checks the header, and returns the request.
fn frame(call: &Call, version: i16) -> Vec<u8> {
    assert!(call.versions().contains(&version));
    let frame = call.encode(version, CORRELATION, Some("c")).expect("it encodes");
    let (header, _) = decode_request_header(&frame[4..]).expect("it has a header");
    assert_eq!((header.request_api_key, header.request_api_version), (call.api_key().code(), version));
    assert_eq!(header.correlation_id, CORRELATION);
    frame
}

fn read<'a, R: Request<'a>>(frame: &'a [u8], version: i16) -> R {
    let (_, body) = decode_request_header(&frame[4..]).expect("it has a header");
    decode_request_body(body, version).expect("it decodes")
}

#[test]
fn a_heartbeat_says_everything_in_its_fields() {
    let call = Call::ConsumerGroupHeartbeat(full());
    assert_eq!(
        (call.api_key(), call.versions(), call.purpose()),
        (ApiKey::ConsumerGroupHeartbeat, 1..=1, ConnectionPurpose::Heartbeat)
    );
    let frame = frame(&call, 1);
    let request = read::<ConsumerGroupHeartbeatRequest<'_>>(&frame, 1);
    let topics = |topic, partitions| TopicPartitions { topic_id: id(topic), partitions, ..Default::default() };
    let expected = ConsumerGroupHeartbeatRequest {
        group_id: "g",
        member_id: MEMBER,
        member_epoch: 0,
        instance_id: Some("i"),
        rack_id: Some("r"),
        rebalance_timeout_ms: 300_000,
        subscribed_topic_names: Some(vec!["t", "u"]),
        subscribed_topic_regex: Some("t.*"),
        server_assignor: Some("uniform"),
        topic_partitions: Some(vec![topics("t", vec![0, 2]), topics("u", vec![1])]),
        ..Default::default()
    };
    assert_eq!(request, expected);
}

#[test]
fn what_is_not_said_is_null() {
    for epoch in [7, -1, -2] {
        let frame = frame(&Call::ConsumerGroupHeartbeat(bare(epoch)), 1);
        let request = read::<ConsumerGroupHeartbeatRequest<'_>>(&frame, 1);
        let expected = ConsumerGroupHeartbeatRequest {
            group_id: "g",
            member_id: MEMBER,
            member_epoch: epoch,
            rebalance_timeout_ms: -1,
            ..Default::default()
        };
        assert_eq!(request, expected);
    }
    // An empty list differs from an absent one.
    let frame = frame(&Call::ConsumerGroupHeartbeat(HeartbeatCall { owned: Some(ids(&[])), ..bare(7) }), 1);
    let request = read::<ConsumerGroupHeartbeatRequest<'_>>(&frame, 1);
    assert_eq!(request.topic_partitions, Some(vec![]));
}

#[test]
fn an_answer_says_what_to_own() {
    let assignment = Assignment {
        topic_partitions: vec![
            TopicPartitions { topic_id: id("t"), partitions: vec![1, 0], ..Default::default() },
            TopicPartitions { topic_id: id("u"), partitions: vec![], ..Default::default() },
        ],
        ..Default::default()
    };
    for (assignment, expected) in [(Some(assignment), Some(ids(&[0, 1]))), (None, None)] {
        let response = ConsumerGroupHeartbeatResponse {
            member_id: Some(MEMBER),
            member_epoch: 4,
            heartbeat_interval_ms: 5000,
            assignment,
            ..Default::default()
        };
        let frame =
            encode_response::<ConsumerGroupHeartbeatRequest<'_>>(&response, 1, CORRELATION).expect("it encodes");
        let answer = Call::ConsumerGroupHeartbeat(full()).decode(&frame[4..], 1).expect("it decodes");
        let (code, message) = (ErrorCode::None, String::new());
        assert_eq!(
            answer,
            GroupResponse::ConsumerGroupHeartbeat { code, message, epoch: 4, interval: ms(5000), assignment: expected }
        );
    }
}

#[test]
fn an_error_comes_with_the_brokers_words_and_odd_numbers_do_no_harm() {
    let response = ConsumerGroupHeartbeatResponse {
        error_code: 112,
        error_message: Some("no such assignor"),
        heartbeat_interval_ms: -5,
        ..Default::default()
    };
    let frame = encode_response::<ConsumerGroupHeartbeatRequest<'_>>(&response, 1, CORRELATION).expect("it encodes");
    let call = Call::ConsumerGroupHeartbeat(full());
    let answer = call.decode(&frame[4..], 1).expect("it decodes");
    let GroupResponse::ConsumerGroupHeartbeat { code, message, interval, .. } = answer else { panic!("{answer:?}") };
    assert_eq!((code, message.as_str(), interval), (ErrorCode::UnsupportedAssignor, "no such assignor", ms(0)));
    for end in 4..frame.len() {
        assert!(call.decode(&frame[4..end], 1).is_err(), "cut at {end}");
    }
}

#[test]
fn commits_and_lookups_carry_member_and_epoch() {
    let (group_id, member_id) = ("g".to_owned(), MEMBER.to_owned());
    let commit = Call::OffsetCommit {
        protocol: GroupProtocol::Consumer,
        group_id: group_id.clone(),
        member_id: member_id.clone(),
        instance_id: Some("i".into()),
        generation_or_epoch: 6,
        offsets: offsets(&[(0, 15)]),
        topic_ids: [("t".into(), id("t"))].into(),
    };
    assert_eq!(commit.versions(), 9..=10);
    let bytes = frame(&commit, 9);
    let request = read::<OffsetCommitRequest<'_>>(&bytes, 9);
    assert_eq!((request.group_id, request.member_id, request.group_instance_id), ("g", MEMBER, Some("i")));
    assert_eq!((request.generation_id_or_member_epoch, request.topics[0].name), (6, "t"));

    let topic_ids = [("t".into(), id("t"))].into();
    let fetch = Call::OffsetFetch { group_id, member: Some((member_id, 6)), partitions: vec![t(0), t(2)], topic_ids };
    assert_eq!(fetch.versions(), 9..=10);
    let bytes = frame(&fetch, 9);
    let request = read::<OffsetFetchRequest<'_>>(&bytes, 9);
    let group = &request.groups[0];
    assert_eq!(
        (group.group_id, group.member_id, group.member_epoch, request.require_stable),
        ("g", Some(MEMBER), 6, true)
    );
    let topics: BTreeMap<&str, &[i32]> =
        group.topics.iter().flatten().map(|topic| (topic.name, &topic.partition_indexes[..])).collect();
    assert_eq!(topics, [("t", &[0, 2][..])].into());
}

// franz-go#1426: offsets of a deleted topic were committed for the topic that was recreated under its name.
#[test]
fn where_the_broker_takes_them_topics_go_by_their_ids() {
    let topic_ids: TopicIds = [("t".into(), id("t"))].into();
    let commit = Call::OffsetCommit {
        protocol: GroupProtocol::Consumer,
        group_id: "g".into(),
        member_id: MEMBER.into(),
        instance_id: None,
        generation_or_epoch: 6,
        offsets: offsets(&[(0, 15)]),
        topic_ids: topic_ids.clone(),
    };
    let bytes = frame(&commit, 10);
    let request = read::<OffsetCommitRequest<'_>>(&bytes, 10);
    assert_eq!((request.topics[0].name, request.topics[0].topic_id), ("", id("t")));
    let partition = OffsetCommitResponsePartition { error_code: 100, ..Default::default() };
    let topic =
        |topic_id| OffsetCommitResponseTopic { topic_id, partitions: vec![partition.clone()], ..Default::default() };
    let response = OffsetCommitResponse { topics: vec![topic(id("t")), topic(id("u"))], ..Default::default() };
    let frame_of = encode_response::<OffsetCommitRequest<'_>>(&response, 10, CORRELATION).expect("it encodes");
    let answer = commit.decode(&frame_of[4..], 10).expect("it decodes");
    assert_eq!(answer, GroupResponse::OffsetCommit { codes: [(t(0), ErrorCode::UnknownTopicId)].into() });

    let fetch =
        Call::OffsetFetch { group_id: "g".into(), member: Some((MEMBER.into(), 6)), partitions: vec![t(0)], topic_ids };
    let bytes = frame(&fetch, 10);
    let request = read::<OffsetFetchRequest<'_>>(&bytes, 10);
    let topics = request.groups[0].topics.as_deref().expect("it asks for some");
    assert_eq!((topics[0].name, topics[0].topic_id), ("", id("t")));
    let partition = OffsetFetchResponsePartitions { committed_offset: 7, ..Default::default() };
    let topics =
        vec![OffsetFetchResponseTopics { topic_id: id("t"), partitions: vec![partition], ..Default::default() }];
    let groups = vec![OffsetFetchResponseGroup { group_id: "g", topics, ..Default::default() }];
    let response = OffsetFetchResponse { groups, ..Default::default() };
    let frame_of = encode_response::<OffsetFetchRequest<'_>>(&response, 10, CORRELATION).expect("it encodes");
    let answer = fetch.decode(&frame_of[4..], 10).expect("it decodes");
    let GroupResponse::OffsetFetch { offsets, .. } = answer else { panic!("{answer:?}") };
    assert_eq!(offsets[&t(0)].clone().map(|found| found.map(|at| at.offset)), Ok(Some(7)));
}
