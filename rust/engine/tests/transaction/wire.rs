//! The encoded offsets of a transaction, checked with the protocol's codec.

use monedula_engine::group::TopicIds;
use monedula_engine::transaction::{Call, GroupMetadata, SessionConfig, TransactionResponse};
use monedula_protocol::api::ApiKey;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame::{decode_request_body, decode_request_header, encode_response};
use monedula_protocol::messages::txn_offset_commit::{
    TxnOffsetCommitRequest, TxnOffsetCommitResponse, TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use monedula_protocol::types::Uuid;

use crate::world::{config, group, identity, offsets, t};

const CORRELATION: i32 = 9;
const ID: Uuid = Uuid([7; 16]);

fn setup() -> SessionConfig {
    config(Some("id"))
}

fn commit(version2: bool, topic_ids: TopicIds) -> Call {
    let group = GroupMetadata { topic_ids, ..group() };
    Call::TxnOffsetCommit { identity: identity(9, 3), group, offsets: offsets(&[(0, 5), (1, 7)]), version2 }
}

// KIP-1319: offsets of a deleted topic were committed for the topic that was recreated under its name.
#[test]
fn topics_go_by_their_ids_where_all_are_known_and_the_transaction_takes_its_groups_in_by_itself() {
    let known: TopicIds = [("t".into(), ID)].into();
    assert_eq!(commit(true, known.clone()).versions(), 5..=6);
    assert_eq!(commit(true, TopicIds::new()).versions(), 5..=5);
    assert_eq!(commit(true, [("u".into(), ID)].into()).versions(), 5..=5);
    assert_eq!(commit(false, known).versions(), 3..=4);
}

#[test]
fn a_version_carries_names_or_ids_and_its_answer_is_that_of_the_partitions() {
    let call = commit(true, [("t".into(), ID)].into());
    for version in call.versions() {
        let frame = call.encode(&setup(), version, CORRELATION, Some("c")).expect("it encodes");
        let (header, body) = decode_request_header(&frame[4..]).expect("it has a header");
        assert_eq!((header.request_api_key, header.request_api_version), (ApiKey::TxnOffsetCommit.code(), version));
        let request: TxnOffsetCommitRequest<'_> = decode_request_body(body, version).expect("it decodes");
        assert_eq!((request.transactional_id, request.group_id, request.member_id), ("id", "g", "m"));
        assert_eq!((request.producer_id, request.producer_epoch), (9, 3));
        assert_eq!(request.generation_id_or_member_epoch, 5);
        let (name, topic_id) = if version < 6 { ("t", Uuid::ZERO) } else { ("", ID) };
        assert_eq!((request.topics[0].name, request.topics[0].topic_id), (name, topic_id));
        let sent: Vec<_> =
            request.topics[0].partitions.iter().map(|at| (at.partition_index, at.committed_offset)).collect();
        assert_eq!(sent, [(0, 5), (1, 7)]);

        let at = |partition_index, error_code| TxnOffsetCommitResponsePartition {
            partition_index,
            error_code,
            ..Default::default()
        };
        let topic = |name, topic_id, partitions| TxnOffsetCommitResponseTopic {
            name,
            topic_id,
            partitions,
            ..Default::default()
        };
        // The first was not in the request.
        let topics =
            vec![topic("u", Uuid([8; 16]), vec![at(0, 3)]), topic("t", ID, vec![at(0, 0), at(1, 100), at(1, 0)])];
        let response = TxnOffsetCommitResponse { topics, ..Default::default() };
        let frame = encode_response::<TxnOffsetCommitRequest<'_>>(&response, version, CORRELATION).expect("it encodes");
        let answer = call.decode(&setup(), &frame[4..], version).expect("it decodes").expect("no error");
        let TransactionResponse::Partitions(codes) = answer else { panic!("{answer:?}") };
        assert_eq!((codes[&t(0)], codes[&t(1)]), (ErrorCode::None, ErrorCode::UnknownTopicId), "{version}");
    }
}
