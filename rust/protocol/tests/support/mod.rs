//! Access to the golden files, for the tests of messages.

use std::path::Path;

use monedula_protocol::wire::json::Json;
use serde_json::Value;

/// One message as Apache Kafka encodes it.
pub(crate) struct GoldenCase {
    pub(crate) version: i16,
    pub(crate) name: String,
    pub(crate) bytes: &'static [u8],
    pub(crate) json: Value,
}

pub(crate) fn lines(file: &str) -> Vec<Value> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let path = directory.join(file).with_extension("jsonl");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(crate) fn cases(message: &str) -> Vec<GoldenCase> {
    let case = |line: &Value| GoldenCase {
        version: number(line, "version"),
        name: line["case"].as_str().unwrap().to_owned(),
        bytes: bytes(line).unwrap(),
        json: line["json"].clone(),
    };
    lines(message).iter().map(case).collect()
}

/// A small number of a line.
pub(crate) fn number(line: &Value, key: &str) -> i16 {
    i16::from_json(&line[key], 0).unwrap()
}

/// The bytes in a line; `None` where Kafka refuses to write any.
pub(crate) fn bytes(line: &Value) -> Option<&'static [u8]> {
    // Decoded base64 is leaked by `from_json`, and so is the text that it borrows from.
    let text = Box::leak(Box::new(line["bytes"].clone()));
    Option::from_json(text, 0).unwrap()
}

/// Calls `$each!` with a name for a test, the message and its versions, for every supported message. A new API takes
/// two more lines here.
#[macro_export]
macro_rules! for_each_message {
    ($each:ident) => {
        $each! {
            request_header: header::RequestHeader, 1..=2, 2;
            response_header: header::ResponseHeader, 0..=1, 1;
            api_versions_request: api_versions::ApiVersionsRequest, 0..=5, 3;
            api_versions_response: api_versions::ApiVersionsResponse, 0..=5, 3;
            sasl_handshake_request: sasl_handshake::SaslHandshakeRequest, 0..=1, i16::MAX;
            sasl_handshake_response: sasl_handshake::SaslHandshakeResponse, 0..=1, i16::MAX;
            sasl_authenticate_request: sasl_authenticate::SaslAuthenticateRequest, 0..=2, 2;
            sasl_authenticate_response: sasl_authenticate::SaslAuthenticateResponse, 0..=2, 2;
            fetch_request: fetch::FetchRequest, 4..=18, 12;
            fetch_response: fetch::FetchResponse, 4..=18, 12;
            list_offsets_request: list_offsets::ListOffsetsRequest, 1..=11, 6;
            list_offsets_response: list_offsets::ListOffsetsResponse, 1..=11, 6;
            metadata_request: metadata::MetadataRequest, 0..=13, 9;
            metadata_response: metadata::MetadataResponse, 0..=13, 9;
            offset_for_leader_epoch_request: offset_for_leader_epoch::OffsetForLeaderEpochRequest, 2..=4, 4;
            offset_for_leader_epoch_response: offset_for_leader_epoch::OffsetForLeaderEpochResponse, 2..=4, 4;
            find_coordinator_request: find_coordinator::FindCoordinatorRequest, 0..=6, 3;
            find_coordinator_response: find_coordinator::FindCoordinatorResponse, 0..=6, 3;
            offset_commit_request: offset_commit::OffsetCommitRequest, 2..=10, 8;
            offset_commit_response: offset_commit::OffsetCommitResponse, 2..=10, 8;
            offset_fetch_request: offset_fetch::OffsetFetchRequest, 1..=10, 6;
            offset_fetch_response: offset_fetch::OffsetFetchResponse, 1..=10, 6;
            produce_request: produce::ProduceRequest, 3..=13, 9;
            produce_response: produce::ProduceResponse, 3..=13, 9;
            join_group_request: join_group::JoinGroupRequest, 0..=9, 6;
            join_group_response: join_group::JoinGroupResponse, 0..=9, 6;
            heartbeat_request: heartbeat::HeartbeatRequest, 0..=4, 4;
            heartbeat_response: heartbeat::HeartbeatResponse, 0..=4, 4;
            leave_group_request: leave_group::LeaveGroupRequest, 0..=5, 4;
            leave_group_response: leave_group::LeaveGroupResponse, 0..=5, 4;
            sync_group_request: sync_group::SyncGroupRequest, 0..=5, 4;
            sync_group_response: sync_group::SyncGroupResponse, 0..=5, 4;
            describe_groups_request: describe_groups::DescribeGroupsRequest, 0..=6, 5;
            describe_groups_response: describe_groups::DescribeGroupsResponse, 0..=6, 5;
            list_groups_request: list_groups::ListGroupsRequest, 0..=5, 3;
            list_groups_response: list_groups::ListGroupsResponse, 0..=5, 3;
            delete_groups_request: delete_groups::DeleteGroupsRequest, 0..=3, 2;
            delete_groups_response: delete_groups::DeleteGroupsResponse, 0..=3, 2;
            offset_delete_request: offset_delete::OffsetDeleteRequest, 0..=0, i16::MAX;
            offset_delete_response: offset_delete::OffsetDeleteResponse, 0..=0, i16::MAX;
            consumer_group_heartbeat_request: consumer_group_heartbeat::ConsumerGroupHeartbeatRequest, 0..=1, 0;
            consumer_group_heartbeat_response: consumer_group_heartbeat::ConsumerGroupHeartbeatResponse, 0..=1, 0;
            consumer_group_describe_request: consumer_group_describe::ConsumerGroupDescribeRequest, 0..=1, 0;
            consumer_group_describe_response: consumer_group_describe::ConsumerGroupDescribeResponse, 0..=1, 0;
            share_group_heartbeat_request: share_group_heartbeat::ShareGroupHeartbeatRequest, 1..=1, 1;
            share_group_heartbeat_response: share_group_heartbeat::ShareGroupHeartbeatResponse, 1..=1, 1;
            share_group_describe_request: share_group_describe::ShareGroupDescribeRequest, 1..=1, 1;
            share_group_describe_response: share_group_describe::ShareGroupDescribeResponse, 1..=1, 1;
            share_fetch_request: share_fetch::ShareFetchRequest, 1..=2, 1;
            share_fetch_response: share_fetch::ShareFetchResponse, 1..=2, 1;
            share_acknowledge_request: share_acknowledge::ShareAcknowledgeRequest, 1..=2, 1;
            share_acknowledge_response: share_acknowledge::ShareAcknowledgeResponse, 1..=2, 1;
            describe_share_group_offsets_request: describe_share_group_offsets::DescribeShareGroupOffsetsRequest, 0..=1, 0;
            describe_share_group_offsets_response: describe_share_group_offsets::DescribeShareGroupOffsetsResponse, 0..=1, 0;
            alter_share_group_offsets_request: alter_share_group_offsets::AlterShareGroupOffsetsRequest, 0..=0, 0;
            alter_share_group_offsets_response: alter_share_group_offsets::AlterShareGroupOffsetsResponse, 0..=0, 0;
            delete_share_group_offsets_request: delete_share_group_offsets::DeleteShareGroupOffsetsRequest, 0..=0, 0;
            delete_share_group_offsets_response: delete_share_group_offsets::DeleteShareGroupOffsetsResponse, 0..=0, 0;
            add_partitions_to_txn_request: add_partitions_to_txn::AddPartitionsToTxnRequest, 0..=5, 3;
            add_partitions_to_txn_response: add_partitions_to_txn::AddPartitionsToTxnResponse, 0..=5, 3;
            add_offsets_to_txn_request: add_offsets_to_txn::AddOffsetsToTxnRequest, 0..=4, 3;
            add_offsets_to_txn_response: add_offsets_to_txn::AddOffsetsToTxnResponse, 0..=4, 3;
            end_txn_request: end_txn::EndTxnRequest, 0..=5, 3;
            end_txn_response: end_txn::EndTxnResponse, 0..=5, 3;
            txn_offset_commit_request: txn_offset_commit::TxnOffsetCommitRequest, 0..=6, 3;
            txn_offset_commit_response: txn_offset_commit::TxnOffsetCommitResponse, 0..=6, 3;
            create_topics_request: create_topics::CreateTopicsRequest, 2..=7, 5;
            create_topics_response: create_topics::CreateTopicsResponse, 2..=7, 5;
            delete_topics_request: delete_topics::DeleteTopicsRequest, 1..=6, 4;
            delete_topics_response: delete_topics::DeleteTopicsResponse, 1..=6, 4;
            delete_records_request: delete_records::DeleteRecordsRequest, 0..=2, 2;
            delete_records_response: delete_records::DeleteRecordsResponse, 0..=2, 2;
            init_producer_id_request: init_producer_id::InitProducerIdRequest, 0..=5, 2;
            init_producer_id_response: init_producer_id::InitProducerIdResponse, 0..=5, 2;
            describe_configs_request: describe_configs::DescribeConfigsRequest, 1..=4, 4;
            describe_configs_response: describe_configs::DescribeConfigsResponse, 1..=4, 4;
            describe_log_dirs_request: describe_log_dirs::DescribeLogDirsRequest, 1..=5, 2;
            describe_log_dirs_response: describe_log_dirs::DescribeLogDirsResponse, 1..=5, 2;
            create_partitions_request: create_partitions::CreatePartitionsRequest, 0..=3, 2;
            create_partitions_response: create_partitions::CreatePartitionsResponse, 0..=3, 2;
            alter_partition_reassignments_request: alter_partition_reassignments::AlterPartitionReassignmentsRequest, 0..=1, 0;
            alter_partition_reassignments_response: alter_partition_reassignments::AlterPartitionReassignmentsResponse, 0..=1, 0;
            list_partition_reassignments_request: list_partition_reassignments::ListPartitionReassignmentsRequest, 0..=0, 0;
            list_partition_reassignments_response: list_partition_reassignments::ListPartitionReassignmentsResponse, 0..=0, 0;
            elect_leaders_request: elect_leaders::ElectLeadersRequest, 0..=2, 2;
            elect_leaders_response: elect_leaders::ElectLeadersResponse, 0..=2, 2;
            incremental_alter_configs_request: incremental_alter_configs::IncrementalAlterConfigsRequest, 0..=1, 1;
            incremental_alter_configs_response: incremental_alter_configs::IncrementalAlterConfigsResponse, 0..=1, 1;
            alter_configs_request: alter_configs::AlterConfigsRequest, 0..=2, 2;
            alter_configs_response: alter_configs::AlterConfigsResponse, 0..=2, 2;
            alter_replica_log_dirs_request: alter_replica_log_dirs::AlterReplicaLogDirsRequest, 1..=2, 2;
            alter_replica_log_dirs_response: alter_replica_log_dirs::AlterReplicaLogDirsResponse, 1..=2, 2;
            describe_quorum_request: describe_quorum::DescribeQuorumRequest, 0..=2, 0;
            describe_quorum_response: describe_quorum::DescribeQuorumResponse, 0..=2, 0;
            update_features_request: update_features::UpdateFeaturesRequest, 0..=2, 0;
            update_features_response: update_features::UpdateFeaturesResponse, 0..=2, 0;
            list_config_resources_request: list_config_resources::ListConfigResourcesRequest, 0..=1, 0;
            list_config_resources_response: list_config_resources::ListConfigResourcesResponse, 0..=1, 0;
            get_telemetry_subscriptions_request: get_telemetry_subscriptions::GetTelemetrySubscriptionsRequest, 0..=0, 0;
            get_telemetry_subscriptions_response: get_telemetry_subscriptions::GetTelemetrySubscriptionsResponse, 0..=0, 0;
            push_telemetry_request: push_telemetry::PushTelemetryRequest, 0..=0, 0;
            push_telemetry_response: push_telemetry::PushTelemetryResponse, 0..=0, 0;
            describe_cluster_request: describe_cluster::DescribeClusterRequest, 0..=2, 0;
            describe_cluster_response: describe_cluster::DescribeClusterResponse, 0..=2, 0;
            describe_producers_request: describe_producers::DescribeProducersRequest, 0..=0, 0;
            describe_producers_response: describe_producers::DescribeProducersResponse, 0..=0, 0;
            describe_transactions_request: describe_transactions::DescribeTransactionsRequest, 0..=0, 0;
            describe_transactions_response: describe_transactions::DescribeTransactionsResponse, 0..=0, 0;
            list_transactions_request: list_transactions::ListTransactionsRequest, 0..=2, 0;
            list_transactions_response: list_transactions::ListTransactionsResponse, 0..=2, 0;
            describe_topic_partitions_request: describe_topic_partitions::DescribeTopicPartitionsRequest, 0..=0, 0;
            describe_topic_partitions_response: describe_topic_partitions::DescribeTopicPartitionsResponse, 0..=0, 0;
            describe_acls_request: describe_acls::DescribeAclsRequest, 1..=3, 2;
            describe_acls_response: describe_acls::DescribeAclsResponse, 1..=3, 2;
            create_acls_request: create_acls::CreateAclsRequest, 1..=3, 2;
            create_acls_response: create_acls::CreateAclsResponse, 1..=3, 2;
            delete_acls_request: delete_acls::DeleteAclsRequest, 1..=3, 2;
            delete_acls_response: delete_acls::DeleteAclsResponse, 1..=3, 2;
            create_delegation_token_request: create_delegation_token::CreateDelegationTokenRequest, 1..=3, 2;
            create_delegation_token_response: create_delegation_token::CreateDelegationTokenResponse, 1..=3, 2;
            renew_delegation_token_request: renew_delegation_token::RenewDelegationTokenRequest, 1..=2, 2;
            renew_delegation_token_response: renew_delegation_token::RenewDelegationTokenResponse, 1..=2, 2;
            expire_delegation_token_request: expire_delegation_token::ExpireDelegationTokenRequest, 1..=2, 2;
            expire_delegation_token_response: expire_delegation_token::ExpireDelegationTokenResponse, 1..=2, 2;
            describe_delegation_token_request: describe_delegation_token::DescribeDelegationTokenRequest, 1..=3, 2;
            describe_delegation_token_response: describe_delegation_token::DescribeDelegationTokenResponse, 1..=3, 2;
            describe_client_quotas_request: describe_client_quotas::DescribeClientQuotasRequest, 0..=1, 1;
            describe_client_quotas_response: describe_client_quotas::DescribeClientQuotasResponse, 0..=1, 1;
            alter_client_quotas_request: alter_client_quotas::AlterClientQuotasRequest, 0..=1, 1;
            alter_client_quotas_response: alter_client_quotas::AlterClientQuotasResponse, 0..=1, 1;
            describe_user_scram_credentials_request: describe_user_scram_credentials::DescribeUserScramCredentialsRequest, 0..=0, 0;
            describe_user_scram_credentials_response: describe_user_scram_credentials::DescribeUserScramCredentialsResponse, 0..=0, 0;
            alter_user_scram_credentials_request: alter_user_scram_credentials::AlterUserScramCredentialsRequest, 0..=0, 0;
            alter_user_scram_credentials_response: alter_user_scram_credentials::AlterUserScramCredentialsResponse, 0..=0, 0;
            write_txn_markers_request: write_txn_markers::WriteTxnMarkersRequest, 1..=2, 1;
            write_txn_markers_response: write_txn_markers::WriteTxnMarkersResponse, 1..=2, 1;
        }
    };
}
