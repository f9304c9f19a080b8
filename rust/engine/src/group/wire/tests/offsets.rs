//! Tests of `wire`: topics by their ids in OffsetCommit and OffsetFetch, and which of several answers counts.

use std::collections::BTreeMap;

use monedula_protocol::messages::offset_commit::{
    OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use monedula_protocol::messages::offset_fetch::{
    OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};

use super::*;

/// A commit of `orders` and `audit`, with these topic ids.
fn commit_by_ids(topic_ids: &[(&str, u8)]) -> Call {
    let ids: TopicIds = topic_ids.iter().map(|&(topic, id)| (topic.into(), Uuid([id; 16]))).collect();
    let mut call = calls(None).swap_remove(5);
    if let Call::OffsetCommit { topic_ids, .. } = &mut call {
        *topic_ids = ids;
    }
    call
}

#[test]
fn a_commit_goes_by_ids_if_all_of_its_topics_have_one() {
    assert_eq!(calls(None)[5].versions(), 2..=9);
    assert_eq!(calls(Some("static"))[5].versions(), 7..=9);
    assert_eq!(commit_by_ids(&[("orders", 1)]).versions(), 2..=9, "one of them is known by its name only");
    let call = commit_by_ids(&[("orders", 1), ("audit", 2), ("stranger", 3)]);
    assert_eq!(call.versions(), 2..=10);
    for version in [9, 10] {
        let frame = call.encode(version, 9, Some("c")).unwrap();
        let request: OffsetCommitRequest<'_> = sent(&frame, version);
        let topics: Vec<_> = request.topics.iter().map(|topic| (topic.name, topic.topic_id.0[0])).collect();
        assert_eq!(topics, if version == 9 { [("audit", 0), ("orders", 0)] } else { [("", 2), ("", 1)] });
    }
}

#[test]
fn what_is_answered_by_ids_is_told_by_names() {
    let call = commit_by_ids(&[("orders", 1), ("audit", 2)]);
    let topic = |id, partition_index, error_code| OffsetCommitResponseTopic {
        topic_id: Uuid([id; 16]),
        partitions: vec![OffsetCommitResponsePartition { partition_index, error_code, ..Default::default() }],
        ..Default::default()
    };
    // The second and the third topic are not in the request. The last two answer for the same partition: the first of
    // them counts.
    let topics = vec![topic(1, 0, 100), topic(0, 1, 0), topic(9, 1, 0), topic(2, 0, 0), topic(2, 0, 3)];
    let response = OffsetCommitResponse { topics, ..Default::default() };
    let codes = [(orders(0), ErrorCode::UnknownTopicId), (TopicPartition::new("audit", 0), ErrorCode::None)];
    assert_eq!(
        taken::<OffsetCommitRequest<'_>>(&call, &response, 10),
        GroupResponse::OffsetCommit { codes: codes.into() }
    );
}

#[test]
fn a_lookup_goes_by_ids_if_all_of_its_topics_have_one() {
    assert_eq!(calls(None)[6].versions(), 2..=9);
    let ids = |topics: &[&str]| topics.iter().map(|&topic| (topic.into(), Uuid([1; 16]))).collect::<TopicIds>();
    let lookup = |topics: &[&str]| Call::OffsetFetch {
        member: None,
        group_id: GROUP_ID.to_owned(),
        partitions: vec![orders(1), orders(0)],
        topic_ids: ids(topics),
    };
    assert_eq!(lookup(&["audit"]).versions(), 2..=9);
    let call = lookup(&["orders"]);
    assert_eq!(call.versions(), 2..=10);
    let frame = call.encode(10, 9, Some("c")).unwrap();
    let request: OffsetFetchRequest<'_> = sent(&frame, 10);
    assert_eq!((request.groups[0].member_id, request.groups[0].member_epoch), (None, -1), "as before: nobody's epoch");
    let topics = request.groups[0].topics.as_deref().unwrap();
    assert_eq!(
        (topics[0].name, topics[0].topic_id, &topics[0].partition_indexes[..]),
        ("", Uuid([1; 16]), &[1, 0][..])
    );
    let at = |partition_index, committed_offset, error_code| OffsetFetchResponsePartitions {
        partition_index,
        committed_offset,
        error_code,
        ..Default::default()
    };
    let topic =
        |id, partitions| OffsetFetchResponseTopics { topic_id: Uuid([id; 16]), partitions, ..Default::default() };
    // The first topic is not in the request.
    let topics = vec![topic(2, vec![at(0, 9, 0)]), topic(1, vec![at(0, 5, 0), at(1, -1, 100)])];
    let groups = vec![OffsetFetchResponseGroup { group_id: GROUP_ID, topics, ..Default::default() }];
    let response = OffsetFetchResponse { groups, ..Default::default() };
    let GroupResponse::OffsetFetch { code, offsets } = taken::<OffsetFetchRequest<'_>>(&call, &response, 10) else {
        panic!()
    };
    let offsets: Vec<_> =
        offsets.into_iter().map(|(partition, found)| (partition, found.map(|at| at.map(|at| at.offset)))).collect();
    assert_eq!(code, ErrorCode::None);
    assert_eq!(offsets, [(orders(0), Ok(Some(5))), (orders(1), Err(ErrorCode::UnknownTopicId))]);
}

#[test]
fn of_a_commit_the_first_answer_counts_and_what_nobody_asked_is_dropped() {
    let call = &calls(None)[5];
    let at = |partition_index, error_code| OffsetCommitResponsePartition {
        partition_index,
        error_code,
        ..Default::default()
    };
    for version in call.versions() {
        let response = OffsetCommitResponse {
            topics: vec![
                OffsetCommitResponseTopic {
                    name: "orders",
                    partitions: vec![at(0, 22), at(0, 0), at(99, 0), at(-1, 0)],
                    ..Default::default()
                },
                OffsetCommitResponseTopic { name: "stranger", partitions: vec![at(0, 0)], ..Default::default() },
                OffsetCommitResponseTopic { name: "orders", partitions: vec![at(0, 3)], ..Default::default() },
                OffsetCommitResponseTopic { name: "audit", partitions: vec![at(0, 0)], ..Default::default() },
            ],
            ..Default::default()
        };
        // The answer leaves out orders-1.
        let codes = [(orders(0), ErrorCode::IllegalGeneration), (TopicPartition::new("audit", 0), ErrorCode::None)];
        assert_eq!(
            taken::<OffsetCommitRequest<'_>>(call, &response, version),
            GroupResponse::OffsetCommit { codes: codes.into() }
        );
    }
}

#[test]
fn of_committed_offsets_the_first_answer_counts_and_what_nobody_asked_is_dropped() {
    let call = &calls(None)[6];
    // Partition, offset, error.
    let rows = [(0, 5, 0), (0, 6, 0), (99, 7, 0), (1, -1, 88)];
    for version in call.versions() {
        let response = match version {
            ..=7 => {
                let partition = |(partition_index, committed_offset, error_code)| OffsetFetchResponsePartition {
                    partition_index,
                    committed_offset,
                    error_code,
                    committed_leader_epoch: if version >= 5 { 3 } else { -1 },
                    metadata: Some("m"),
                    ..Default::default()
                };
                let partitions = rows.map(partition).to_vec();
                let audit = vec![partition((0, -1, 0))];
                OffsetFetchResponse {
                    topics: vec![
                        OffsetFetchResponseTopic { name: "orders", partitions, ..Default::default() },
                        OffsetFetchResponseTopic { name: "audit", partitions: audit, ..Default::default() },
                    ],
                    ..Default::default()
                }
            }
            _ => {
                let partition = |(partition_index, committed_offset, error_code)| OffsetFetchResponsePartitions {
                    partition_index,
                    committed_offset,
                    error_code,
                    committed_leader_epoch: 3,
                    metadata: Some("m"),
                    ..Default::default()
                };
                let partitions = rows.map(partition).to_vec();
                let audit = vec![partition((0, -1, 0))];
                let topics = vec![
                    OffsetFetchResponseTopics { name: "orders", partitions, ..Default::default() },
                    OffsetFetchResponseTopics { name: "audit", partitions: audit, ..Default::default() },
                ];
                let group = |group_id, topics| OffsetFetchResponseGroup { group_id, topics, ..Default::default() };
                OffsetFetchResponse {
                    groups: vec![group("other", vec![]), group(GROUP_ID, topics), group(GROUP_ID, vec![])],
                    ..Default::default()
                }
            }
        };
        let leader_epoch = if version >= 5 { 3 } else { -1 };
        let expected = [
            (orders(0), Ok(Some(CommitOffset { offset: 5, leader_epoch, metadata: "m".into() }))),
            (orders(1), Err(ErrorCode::UnstableOffsetCommit)),
            (TopicPartition::new("audit", 0), Ok(None)),
        ];
        assert_eq!(
            taken::<OffsetFetchRequest<'_>>(call, &response, version),
            GroupResponse::OffsetFetch { code: ErrorCode::None, offsets: expected.into() }
        );
    }
}

#[test]
fn a_group_that_is_not_answered_is_an_error() {
    let call = &calls(None)[6];
    let silent = taken::<OffsetFetchRequest<'_>>(call, &OffsetFetchResponse::default(), 9);
    assert_eq!(silent, GroupResponse::OffsetFetch { code: ErrorCode::UnknownServerError, offsets: BTreeMap::new() });
    let moved = OffsetFetchResponse { error_code: 16, ..Default::default() };
    let expected = GroupResponse::OffsetFetch { code: ErrorCode::NotCoordinator, offsets: BTreeMap::new() };
    assert_eq!(taken::<OffsetFetchRequest<'_>>(call, &moved, 5), expected);
}
