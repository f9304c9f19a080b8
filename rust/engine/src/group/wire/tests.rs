//! Tests of `wire`: every version of every request, and how answers are decoded.

mod offsets;

use monedula_protocol::frame::{decode_request_body, decode_request_header, encode_response};
use monedula_protocol::messages::find_coordinator::{Coordinator, FindCoordinatorResponse};
use monedula_protocol::messages::heartbeat::HeartbeatResponse;
use monedula_protocol::messages::join_group::{JoinGroupResponse, JoinGroupResponseMember};
use monedula_protocol::messages::leave_group::{LeaveGroupResponse, MemberResponse};
use monedula_protocol::messages::offset_commit::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use monedula_protocol::messages::sync_group::SyncGroupResponse;
use monedula_protocol::types::Uuid;

use super::*;
use crate::group::messages::CommitOffset;

const GROUP_ID: &str = "etl";

fn orders(partition: i32) -> TopicPartition {
    TopicPartition::new("orders", partition)
}

fn at(offset: i64) -> CommitOffset {
    CommitOffset { offset, leader_epoch: 3, metadata: "m".into() }
}

/// One request of each kind, of a dynamic or a static member.
fn calls(instance_id: Option<&str>) -> Vec<Call> {
    let (group_id, member_id) = (GROUP_ID.to_owned(), "me".to_owned());
    let instance_id = instance_id.map(str::to_owned);
    let (session_timeout, rebalance_timeout) = (Duration::from_secs(45), Duration::from_secs(300));
    vec![
        Call::FindCoordinator { group_id: group_id.clone() },
        Call::JoinGroup {
            group_id: group_id.clone(),
            member_id: member_id.clone(),
            instance_id: instance_id.clone(),
            session_timeout,
            rebalance_timeout,
            protocols: vec![("range".into(), vec![1, 2]), ("sticky".into(), vec![])],
            reason: "it is new".into(),
        },
        Call::SyncGroup {
            group_id: group_id.clone(),
            member_id: member_id.clone(),
            instance_id: instance_id.clone(),
            generation: 7,
            protocol: "range".into(),
            leader_timeout: session_timeout,
            assignments: vec![("me".into(), vec![5]), ("you".into(), vec![6, 7])],
        },
        Call::Heartbeat {
            group_id: group_id.clone(),
            member_id: member_id.clone(),
            instance_id: instance_id.clone(),
            generation: 7,
        },
        Call::LeaveGroup {
            group_id: group_id.clone(),
            member_id: member_id.clone(),
            instance_id: instance_id.clone(),
            reason: "it is closed".into(),
        },
        Call::OffsetCommit {
            protocol: GroupProtocol::Classic,
            group_id: group_id.clone(),
            member_id,
            instance_id,
            generation_or_epoch: 7,
            offsets: [(orders(0), at(5)), (orders(1), at(6)), (TopicPartition::new("audit", 0), at(7))].into(),
            topic_ids: TopicIds::new(),
        },
        Call::OffsetFetch {
            member: None,
            group_id,
            partitions: vec![orders(1), TopicPartition::new("audit", 0), orders(0)],
            topic_ids: TopicIds::new(),
        },
    ]
}

/// Decodes the body of a request frame and checks its header.
fn sent<'q, R: Request<'q>>(frame: &'q [u8], version: i16) -> R {
    let (header, reader) = decode_request_header(&frame[4..]).unwrap();
    assert_eq!((header.request_api_key, header.request_api_version), (R::API_KEY.code(), version));
    assert_eq!((header.correlation_id, header.client_id), (9, Some("c")));
    decode_request_body(reader, version).unwrap()
}

/// The answer that `call` decodes from `response`.
fn taken<'q, 'r, R: Request<'q>>(call: &Call, response: &R::Response<'r>, version: i16) -> GroupResponse {
    let frame = encode_response::<R>(response, version, 9).unwrap();
    call.decode(&frame[4..], version).unwrap()
}

#[test]
fn every_version_of_every_call_can_be_sent() {
    for instance_id in [None, Some("static")] {
        for call in calls(instance_id) {
            for version in call.versions() {
                let frame = call.encode(version, 9, Some("c")).unwrap();
                let (header, _) = decode_request_header(&frame[4..]).unwrap();
                assert_eq!(header.request_api_key, call.api_key().code(), "{call:?}");
            }
        }
    }
}

#[test]
fn what_is_sent_says_all_that_the_version_can() {
    let (session, rebalance) = (45_000, 300_000);
    for call in calls(Some("static")) {
        for version in call.versions() {
            let frame = call.encode(version, 9, Some("c")).unwrap();
            match &call {
                Call::FindCoordinator { .. } => {
                    let request: FindCoordinatorRequest<'_> = sent(&frame, version);
                    let key = if version < 4 { request.key } else { request.coordinator_keys[0] };
                    assert_eq!((key, request.key_type), (GROUP_ID, FindCoordinatorRequest::GROUP));
                }
                Call::JoinGroup { .. } => {
                    let request: JoinGroupRequest<'_> = sent(&frame, version);
                    assert_eq!((request.group_id, request.member_id), (GROUP_ID, "me"));
                    assert_eq!(request.group_instance_id, Some("static"));
                    assert_eq!((request.session_timeout_ms, request.rebalance_timeout_ms), (session, rebalance));
                    assert_eq!(request.protocol_type, "consumer");
                    let protocols: Vec<_> = request.protocols.iter().map(|one| (one.name, one.metadata)).collect();
                    assert_eq!(protocols, [("range", &[1, 2][..]), ("sticky", &[])]);
                    assert_eq!(request.reason, (version >= 8).then_some("it is new"));
                }
                Call::SyncGroup { .. } => {
                    let request: SyncGroupRequest<'_> = sent(&frame, version);
                    assert_eq!((request.group_id, request.member_id, request.generation_id), (GROUP_ID, "me", 7));
                    assert_eq!(request.protocol_name, (version >= 5).then_some("range"));
                    assert_eq!(request.protocol_type, (version >= 5).then_some("consumer"));
                    let given: Vec<_> = request.assignments.iter().map(|one| (one.member_id, one.assignment)).collect();
                    assert_eq!(given, [("me", &[5][..]), ("you", &[6, 7])]);
                }
                Call::ConsumerGroupHeartbeat(_) | Call::ShareGroupHeartbeat(_) => panic!("of the other protocols"),
                Call::Heartbeat { .. } => {
                    let request: HeartbeatRequest<'_> = sent(&frame, version);
                    assert_eq!((request.group_id, request.member_id, request.generation_id), (GROUP_ID, "me", 7));
                    assert_eq!(request.group_instance_id, Some("static"));
                }
                Call::LeaveGroup { .. } => {
                    let request: LeaveGroupRequest<'_> = sent(&frame, version);
                    let member = &request.members[0];
                    assert_eq!((request.group_id, member.member_id), (GROUP_ID, "me"));
                    assert_eq!(member.group_instance_id, Some("static"));
                    assert_eq!(member.reason, (version >= 5).then_some("it is closed"));
                }
                Call::OffsetCommit { .. } => {
                    let request: OffsetCommitRequest<'_> = sent(&frame, version);
                    assert_eq!((request.group_id, request.member_id), (GROUP_ID, "me"));
                    assert_eq!(request.generation_id_or_member_epoch, 7);
                    let one = |topic: &OffsetCommitRequestTopic<'_>| {
                        let at = |at: &OffsetCommitRequestPartition<'_>| {
                            assert_eq!((at.committed_metadata, at.committed_leader_epoch), (Some("m"), 3));
                            (at.partition_index, at.committed_offset)
                        };
                        (topic.name.to_owned(), topic.partitions.iter().map(at).collect::<Vec<_>>())
                    };
                    let topics: Vec<_> = request.topics.iter().map(one).collect();
                    assert_eq!(
                        topics,
                        [("audit".to_owned(), vec![(0, 7)]), ("orders".to_owned(), vec![(0, 5), (1, 6)])]
                    );
                }
                Call::OffsetFetch { .. } => {
                    let request: OffsetFetchRequest<'_> = sent(&frame, version);
                    assert_eq!(request.require_stable, version >= 7);
                    let asked: Vec<_> = match version {
                        ..=7 => {
                            let topics = request.topics.unwrap();
                            topics.into_iter().map(|topic| (topic.name, topic.partition_indexes)).collect()
                        }
                        _ => {
                            let topics = request.groups[0].topics.clone().unwrap();
                            topics.into_iter().map(|topic| (topic.name, topic.partition_indexes)).collect()
                        }
                    };
                    assert_eq!(asked, [("audit", vec![0]), ("orders", vec![1, 0])]);
                }
            }
        }
    }
}

#[test]
fn a_dynamic_member_leaves_under_every_version() {
    let call = &calls(None)[4];
    for version in 0..=2 {
        let frame = call.encode(version, 9, Some("c")).unwrap();
        let request: LeaveGroupRequest<'_> = sent(&frame, version);
        assert_eq!((request.member_id, request.members.len()), ("me", 0));
    }
}

#[test]
fn a_static_member_speaks_no_version_that_would_forget_it() {
    let starts: Vec<i16> = calls(Some("static")).iter().map(|call| *call.versions().start()).collect();
    assert_eq!(starts, [1, 5, 3, 3, 3, 7, 2]);
}

#[test]
fn a_reason_is_cut_between_characters() {
    assert_eq!(classic::said(""), None);
    assert_eq!(classic::said("short"), Some("short"));
    assert_eq!(classic::said(&"ü".repeat(300)).unwrap().chars().count(), classic::REASON_CHARS);
}

#[test]
fn no_duration_is_too_long_to_be_said() {
    assert_eq!(ms(Duration::MAX), i32::MAX);
}

#[test]
fn a_coordinator_is_read_in_every_version() {
    let call = &calls(None)[0];
    for version in call.versions() {
        let response = match version {
            ..=3 => FindCoordinatorResponse { node_id: 2, host: "h", port: 9092, ..Default::default() },
            _ => FindCoordinatorResponse {
                coordinators: vec![
                    Coordinator { key: "other", node_id: 1, ..Default::default() },
                    Coordinator { key: GROUP_ID, node_id: 2, host: "h", port: 9092, ..Default::default() },
                ],
                ..Default::default()
            },
        };
        let answer = taken::<FindCoordinatorRequest<'_>>(call, &response, version);
        let expected =
            GroupResponse::FindCoordinator { code: ErrorCode::None, node_id: 2, host: "h".into(), port: 9092 };
        assert_eq!(answer, expected);
    }
    let nobody = taken::<FindCoordinatorRequest<'_>>(call, &FindCoordinatorResponse::default(), 4);
    assert!(
        matches!(nobody, GroupResponse::FindCoordinator { code: ErrorCode::CoordinatorNotAvailable, .. }),
        "{nobody:?}"
    );
}

#[test]
fn a_join_is_read_in_every_version_and_each_member_once() {
    let call = &calls(None)[1];
    let member = |member_id, metadata| JoinGroupResponseMember { member_id, metadata, ..Default::default() };
    for version in call.versions() {
        let response = JoinGroupResponse {
            generation_id: 8,
            protocol_type: Some("consumer"),
            protocol_name: Some("range"),
            leader: "me",
            member_id: "me",
            members: vec![member("me", &[1]), member("you", &[2]), member("me", &[3])],
            skip_assignment: version >= 9,
            ..Default::default()
        };
        let expected = GroupResponse::JoinGroup {
            code: ErrorCode::None,
            generation: 8,
            member_id: "me".into(),
            leader: "me".into(),
            protocol_type: (version >= 7).then(|| "consumer".into()),
            protocol: Some("range".into()),
            skip_assignment: version >= 9,
            members: vec![("me".into(), None, vec![1]), ("you".into(), None, vec![2])],
        };
        assert_eq!(taken::<JoinGroupRequest<'_>>(call, &response, version), expected);
        let refused = JoinGroupResponse {
            error_code: ErrorCode::MemberIdRequired.code(),
            protocol_name: Some(""),
            member_id: "new",
            ..Default::default()
        };
        match taken::<JoinGroupRequest<'_>>(call, &refused, version) {
            GroupResponse::JoinGroup { code, member_id, protocol, generation, .. } => {
                assert_eq!((code, member_id.as_str()), (ErrorCode::MemberIdRequired, "new"));
                assert_eq!((protocol, generation), (None, -1));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_assignment_and_a_heartbeat_are_read_in_every_version() {
    let calls = calls(None);
    for version in calls[2].versions() {
        let response = SyncGroupResponse {
            protocol_type: Some("consumer"),
            protocol_name: Some("range"),
            assignment: &[1, 2, 3],
            ..Default::default()
        };
        let expected = GroupResponse::SyncGroup {
            code: ErrorCode::None,
            protocol_type: (version >= 5).then(|| "consumer".into()),
            protocol: (version >= 5).then(|| "range".into()),
            assignment: vec![1, 2, 3],
        };
        assert_eq!(taken::<SyncGroupRequest<'_>>(&calls[2], &response, version), expected);
    }
    for version in calls[3].versions() {
        let response = HeartbeatResponse { error_code: 27, ..Default::default() };
        let expected = GroupResponse::Heartbeat { code: ErrorCode::RebalanceInProgress };
        assert_eq!(taken::<HeartbeatRequest<'_>>(&calls[3], &response, version), expected);
    }
}

#[test]
fn leaving_is_judged_by_the_member_if_the_version_names_it() {
    let call = &calls(None)[4];
    for version in call.versions() {
        let members = match version {
            ..=2 => vec![],
            _ => vec![
                MemberResponse { member_id: "other", ..Default::default() },
                MemberResponse { member_id: "me", error_code: 25, ..Default::default() },
            ],
        };
        let error_code = if version <= 2 { 25 } else { 0 };
        let response = LeaveGroupResponse { error_code, members, ..Default::default() };
        let expected = GroupResponse::LeaveGroup { code: ErrorCode::UnknownMemberId };
        assert_eq!(taken::<LeaveGroupRequest<'_>>(call, &response, version), expected);
    }
    let silent = taken::<LeaveGroupRequest<'_>>(call, &LeaveGroupResponse::default(), 5);
    assert_eq!(silent, GroupResponse::LeaveGroup { code: ErrorCode::UnknownServerError });
    let moved = LeaveGroupResponse { error_code: 16, ..Default::default() };
    let expected = GroupResponse::LeaveGroup { code: ErrorCode::NotCoordinator };
    assert_eq!(taken::<LeaveGroupRequest<'_>>(call, &moved, 5), expected);
}

#[test]
fn bytes_that_are_no_answer_are_an_error_in_every_version() {
    for call in calls(None) {
        for version in call.versions() {
            for frame in [&[][..], &[0, 0, 0], &[0xff; 64], &[0x7f; 64]] {
                assert!(call.decode(frame, version).is_err(), "{} v{version} {frame:?}", call.api());
            }
        }
    }
}
