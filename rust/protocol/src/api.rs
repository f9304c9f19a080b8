//! The API keys and versions that this crate supports, version negotiation, and the traits of messages and requests.

use std::fmt;
use std::ops::RangeInclusive;

use crate::error::WireError;
use crate::messages;
use crate::wire::{Reader, Writer};

/// A message: the body of a request or response, or a header.
pub trait Message<'a>: Sized + Clone + fmt::Debug + PartialEq + Default {
    /// Kafka's name of the message, such as `FetchRequest`.
    const NAME: &'static str;

    /// Decodes the message. Bytes behind it stay in `reader`.
    ///
    /// # Errors
    /// Malformed bytes, and [`WireError::UnsupportedVersion`].
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, WireError>;

    /// Appends the encoded message.
    ///
    /// # Errors
    /// A field that `version` cannot carry, and [`WireError::UnsupportedVersion`]. Bytes written before the error
    /// stay in `writer`.
    fn encode(&self, writer: &mut Writer, version: i16) -> Result<(), WireError>;

    /// All error codes of the message, 0 for success, in the order of its fields.
    fn error_codes(&self) -> Vec<i16>;
}

/// The body of a request.
pub trait Request<'a>: Message<'a> {
    /// The API of the request.
    const API_KEY: ApiKey;
    /// The versions that this crate supports.
    const VERSIONS: RangeInclusive<i16>;
    /// The first flexible version (KIP-482); `i16::MAX` if there is none.
    const FLEXIBLE_FROM: i16;
    /// The body of the response.
    type Response<'r>: Message<'r>;
}

macro_rules! api_keys {
    ($($key:ident = $code:literal, $module:ident::$request:ident;)*) => {
        /// The APIs that this crate supports; Kafka has more.
        #[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[repr(i16)]
        #[non_exhaustive]
        pub enum ApiKey {
            $(
                #[doc = concat!(
                    "Key ", $code, ": [`", stringify!($request), "`](crate::messages::", stringify!($module), "::",
                    stringify!($request), ")."
                )]
                $key = $code,
            )*
        }

        const SUPPORTED: &[(ApiKey, i16, i16)] = &[
            $((
                ApiKey::$key,
                *<messages::$module::$request<'_> as Request<'_>>::VERSIONS.start(),
                *<messages::$module::$request<'_> as Request<'_>>::VERSIONS.end(),
            ),)*
        ];

        impl ApiKey {
            /// The API with this code, if this crate supports it.
            pub fn from_code(code: i16) -> Option<Self> {
                match code {
                    $($code => Some(Self::$key),)*
                    _ => None,
                }
            }

            /// Kafka's name of the API.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$key => stringify!($key),)*
                }
            }

            /// The first flexible version of the API's messages (KIP-482).
            pub fn flexible_from(self) -> i16 {
                match self {
                    $(Self::$key => <messages::$module::$request<'_> as Request<'_>>::FLEXIBLE_FROM,)*
                }
            }
        }
    };
}

api_keys! {
    Produce = 0, produce::ProduceRequest;
    Fetch = 1, fetch::FetchRequest;
    ListOffsets = 2, list_offsets::ListOffsetsRequest;
    Metadata = 3, metadata::MetadataRequest;
    OffsetCommit = 8, offset_commit::OffsetCommitRequest;
    OffsetFetch = 9, offset_fetch::OffsetFetchRequest;
    FindCoordinator = 10, find_coordinator::FindCoordinatorRequest;
    JoinGroup = 11, join_group::JoinGroupRequest;
    Heartbeat = 12, heartbeat::HeartbeatRequest;
    LeaveGroup = 13, leave_group::LeaveGroupRequest;
    SyncGroup = 14, sync_group::SyncGroupRequest;
    DescribeGroups = 15, describe_groups::DescribeGroupsRequest;
    ListGroups = 16, list_groups::ListGroupsRequest;
    SaslHandshake = 17, sasl_handshake::SaslHandshakeRequest;
    ApiVersions = 18, api_versions::ApiVersionsRequest;
    CreateTopics = 19, create_topics::CreateTopicsRequest;
    DeleteTopics = 20, delete_topics::DeleteTopicsRequest;
    DeleteRecords = 21, delete_records::DeleteRecordsRequest;
    InitProducerId = 22, init_producer_id::InitProducerIdRequest;
    OffsetForLeaderEpoch = 23, offset_for_leader_epoch::OffsetForLeaderEpochRequest;
    AddPartitionsToTxn = 24, add_partitions_to_txn::AddPartitionsToTxnRequest;
    AddOffsetsToTxn = 25, add_offsets_to_txn::AddOffsetsToTxnRequest;
    EndTxn = 26, end_txn::EndTxnRequest;
    WriteTxnMarkers = 27, write_txn_markers::WriteTxnMarkersRequest;
    TxnOffsetCommit = 28, txn_offset_commit::TxnOffsetCommitRequest;
    DescribeAcls = 29, describe_acls::DescribeAclsRequest;
    CreateAcls = 30, create_acls::CreateAclsRequest;
    DeleteAcls = 31, delete_acls::DeleteAclsRequest;
    DescribeConfigs = 32, describe_configs::DescribeConfigsRequest;
    AlterConfigs = 33, alter_configs::AlterConfigsRequest;
    AlterReplicaLogDirs = 34, alter_replica_log_dirs::AlterReplicaLogDirsRequest;
    DescribeLogDirs = 35, describe_log_dirs::DescribeLogDirsRequest;
    SaslAuthenticate = 36, sasl_authenticate::SaslAuthenticateRequest;
    CreatePartitions = 37, create_partitions::CreatePartitionsRequest;
    CreateDelegationToken = 38, create_delegation_token::CreateDelegationTokenRequest;
    RenewDelegationToken = 39, renew_delegation_token::RenewDelegationTokenRequest;
    ExpireDelegationToken = 40, expire_delegation_token::ExpireDelegationTokenRequest;
    DescribeDelegationToken = 41, describe_delegation_token::DescribeDelegationTokenRequest;
    DeleteGroups = 42, delete_groups::DeleteGroupsRequest;
    ElectLeaders = 43, elect_leaders::ElectLeadersRequest;
    IncrementalAlterConfigs = 44, incremental_alter_configs::IncrementalAlterConfigsRequest;
    AlterPartitionReassignments = 45, alter_partition_reassignments::AlterPartitionReassignmentsRequest;
    ListPartitionReassignments = 46, list_partition_reassignments::ListPartitionReassignmentsRequest;
    OffsetDelete = 47, offset_delete::OffsetDeleteRequest;
    DescribeClientQuotas = 48, describe_client_quotas::DescribeClientQuotasRequest;
    AlterClientQuotas = 49, alter_client_quotas::AlterClientQuotasRequest;
    DescribeUserScramCredentials = 50, describe_user_scram_credentials::DescribeUserScramCredentialsRequest;
    AlterUserScramCredentials = 51, alter_user_scram_credentials::AlterUserScramCredentialsRequest;
    DescribeQuorum = 55, describe_quorum::DescribeQuorumRequest;
    UpdateFeatures = 57, update_features::UpdateFeaturesRequest;
    DescribeCluster = 60, describe_cluster::DescribeClusterRequest;
    DescribeProducers = 61, describe_producers::DescribeProducersRequest;
    DescribeTransactions = 65, describe_transactions::DescribeTransactionsRequest;
    ListTransactions = 66, list_transactions::ListTransactionsRequest;
    ConsumerGroupHeartbeat = 68, consumer_group_heartbeat::ConsumerGroupHeartbeatRequest;
    ConsumerGroupDescribe = 69, consumer_group_describe::ConsumerGroupDescribeRequest;
    GetTelemetrySubscriptions = 71, get_telemetry_subscriptions::GetTelemetrySubscriptionsRequest;
    PushTelemetry = 72, push_telemetry::PushTelemetryRequest;
    ListConfigResources = 74, list_config_resources::ListConfigResourcesRequest;
    DescribeTopicPartitions = 75, describe_topic_partitions::DescribeTopicPartitionsRequest;
    ShareGroupHeartbeat = 76, share_group_heartbeat::ShareGroupHeartbeatRequest;
    ShareGroupDescribe = 77, share_group_describe::ShareGroupDescribeRequest;
    ShareFetch = 78, share_fetch::ShareFetchRequest;
    ShareAcknowledge = 79, share_acknowledge::ShareAcknowledgeRequest;
    DescribeShareGroupOffsets = 90, describe_share_group_offsets::DescribeShareGroupOffsetsRequest;
    AlterShareGroupOffsets = 91, alter_share_group_offsets::AlterShareGroupOffsetsRequest;
    DeleteShareGroupOffsets = 92, delete_share_group_offsets::DeleteShareGroupOffsetsRequest;
}

impl ApiKey {
    /// The code on the wire.
    pub fn code(self) -> i16 {
        self as i16
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Every supported API, with its lowest and highest supported version.
pub fn supported() -> &'static [(ApiKey, i16, i16)] {
    SUPPORTED
}

/// The highest version that both sides support; `None` if there is none.
pub fn negotiate(ours: RangeInclusive<i16>, broker_min: i16, broker_max: i16) -> Option<i16> {
    let highest = broker_max.min(*ours.end());
    let lowest = broker_min.max(*ours.start());
    (lowest <= highest).then_some(highest)
}

pub(crate) fn check_version(message: &'static str, version: i16, min: i16, max: i16) -> Result<(), WireError> {
    if (min..=max).contains(&version) {
        return Ok(());
    }
    Err(WireError::UnsupportedVersion { message, version, min, max })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_common_version_wins() {
        assert_eq!(negotiate(4..=17, 0, 12), Some(12));
        assert_eq!(negotiate(4..=17, 4, 20), Some(17));
        assert_eq!(negotiate(4..=17, 17, 17), Some(17));
        assert_eq!(negotiate(4..=17, 0, 4), Some(4));
        assert_eq!(negotiate(4..=17, 0, 3), None);
        assert_eq!(negotiate(4..=17, 18, 20), None);
        // A broker that withdraws an API sends an empty range.
        assert_eq!(negotiate(4..=17, 5, 4), None);
    }

    #[test]
    fn codes_and_keys_match() {
        for &(key, min, max) in supported() {
            assert_eq!(ApiKey::from_code(key.code()), Some(key));
            assert!(min <= max);
        }
        assert_eq!(ApiKey::from_code(-1), None);
        assert_eq!(ApiKey::Metadata.to_string(), "Metadata");
    }
}
