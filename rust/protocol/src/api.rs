//! The API keys and versions that this crate supports, version negotiation, and the traits of messages and requests.

use std::fmt;
use std::ops::RangeInclusive;

use crate::error::WireError;
use crate::messages::add_offsets_to_txn::AddOffsetsToTxnRequest;
use crate::messages::add_partitions_to_txn::AddPartitionsToTxnRequest;
use crate::messages::alter_client_quotas::AlterClientQuotasRequest;
use crate::messages::alter_configs::AlterConfigsRequest;
use crate::messages::alter_partition_reassignments::AlterPartitionReassignmentsRequest;
use crate::messages::alter_replica_log_dirs::AlterReplicaLogDirsRequest;
use crate::messages::alter_user_scram_credentials::AlterUserScramCredentialsRequest;
use crate::messages::api_versions::ApiVersionsRequest;
use crate::messages::consumer_group_describe::ConsumerGroupDescribeRequest;
use crate::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest;
use crate::messages::create_acls::CreateAclsRequest;
use crate::messages::create_delegation_token::CreateDelegationTokenRequest;
use crate::messages::create_partitions::CreatePartitionsRequest;
use crate::messages::create_topics::CreateTopicsRequest;
use crate::messages::delete_acls::DeleteAclsRequest;
use crate::messages::delete_groups::DeleteGroupsRequest;
use crate::messages::delete_records::DeleteRecordsRequest;
use crate::messages::delete_topics::DeleteTopicsRequest;
use crate::messages::describe_acls::DescribeAclsRequest;
use crate::messages::describe_client_quotas::DescribeClientQuotasRequest;
use crate::messages::describe_cluster::DescribeClusterRequest;
use crate::messages::describe_configs::DescribeConfigsRequest;
use crate::messages::describe_delegation_token::DescribeDelegationTokenRequest;
use crate::messages::describe_groups::DescribeGroupsRequest;
use crate::messages::describe_log_dirs::DescribeLogDirsRequest;
use crate::messages::describe_producers::DescribeProducersRequest;
use crate::messages::describe_quorum::DescribeQuorumRequest;
use crate::messages::describe_topic_partitions::DescribeTopicPartitionsRequest;
use crate::messages::describe_transactions::DescribeTransactionsRequest;
use crate::messages::describe_user_scram_credentials::DescribeUserScramCredentialsRequest;
use crate::messages::elect_leaders::ElectLeadersRequest;
use crate::messages::end_txn::EndTxnRequest;
use crate::messages::expire_delegation_token::ExpireDelegationTokenRequest;
use crate::messages::fetch::FetchRequest;
use crate::messages::find_coordinator::FindCoordinatorRequest;
use crate::messages::get_telemetry_subscriptions::GetTelemetrySubscriptionsRequest;
use crate::messages::heartbeat::HeartbeatRequest;
use crate::messages::incremental_alter_configs::IncrementalAlterConfigsRequest;
use crate::messages::init_producer_id::InitProducerIdRequest;
use crate::messages::join_group::JoinGroupRequest;
use crate::messages::leave_group::LeaveGroupRequest;
use crate::messages::list_config_resources::ListConfigResourcesRequest;
use crate::messages::list_groups::ListGroupsRequest;
use crate::messages::list_offsets::ListOffsetsRequest;
use crate::messages::list_partition_reassignments::ListPartitionReassignmentsRequest;
use crate::messages::list_transactions::ListTransactionsRequest;
use crate::messages::metadata::MetadataRequest;
use crate::messages::offset_commit::OffsetCommitRequest;
use crate::messages::offset_delete::OffsetDeleteRequest;
use crate::messages::offset_fetch::OffsetFetchRequest;
use crate::messages::offset_for_leader_epoch::OffsetForLeaderEpochRequest;
use crate::messages::produce::ProduceRequest;
use crate::messages::push_telemetry::PushTelemetryRequest;
use crate::messages::renew_delegation_token::RenewDelegationTokenRequest;
use crate::messages::sasl_authenticate::SaslAuthenticateRequest;
use crate::messages::sasl_handshake::SaslHandshakeRequest;
use crate::messages::sync_group::SyncGroupRequest;
use crate::messages::txn_offset_commit::TxnOffsetCommitRequest;
use crate::messages::update_features::UpdateFeaturesRequest;
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
    ($($(#[$meta:meta])* $key:ident = $code:literal, $request:ident;)*) => {
        /// The APIs that this crate supports; Kafka has more.
        #[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[repr(i16)]
        #[non_exhaustive]
        pub enum ApiKey {
            $($(#[$meta])* $key = $code,)*
        }

        const SUPPORTED: &[(ApiKey, i16, i16)] = &[
            $((
                ApiKey::$key,
                *<$request<'_> as Request<'_>>::VERSIONS.start(),
                *<$request<'_> as Request<'_>>::VERSIONS.end(),
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
                    $(Self::$key => <$request<'_> as Request<'_>>::FLEXIBLE_FROM,)*
                }
            }
        }
    };
}

api_keys! {
    /// Appends records.
    Produce = 0, ProduceRequest;
    /// Reads records.
    Fetch = 1, FetchRequest;
    /// Looks up offsets by timestamp.
    ListOffsets = 2, ListOffsetsRequest;
    /// Describes brokers, topics and partitions.
    Metadata = 3, MetadataRequest;
    /// Commits a group's offsets.
    OffsetCommit = 8, OffsetCommitRequest;
    /// Reads the committed offsets of groups.
    OffsetFetch = 9, OffsetFetchRequest;
    /// Finds the coordinators of groups or transactional ids.
    FindCoordinator = 10, FindCoordinatorRequest;
    /// Joins a classic group.
    JoinGroup = 11, JoinGroupRequest;
    /// Keeps a member of a classic group alive.
    Heartbeat = 12, HeartbeatRequest;
    /// Removes members from a group.
    LeaveGroup = 13, LeaveGroupRequest;
    /// Sends the leader's assignments of a group, and returns each member's own.
    SyncGroup = 14, SyncGroupRequest;
    /// Describes classic groups.
    DescribeGroups = 15, DescribeGroupsRequest;
    /// Lists the groups that a broker coordinates.
    ListGroups = 16, ListGroupsRequest;
    /// Chooses a SASL mechanism.
    SaslHandshake = 17, SaslHandshakeRequest;
    /// Lists the API versions that a broker supports.
    ApiVersions = 18, ApiVersionsRequest;
    /// Creates topics.
    CreateTopics = 19, CreateTopicsRequest;
    /// Deletes topics.
    DeleteTopics = 20, DeleteTopicsRequest;
    /// Deletes records by moving the log start offset forward.
    DeleteRecords = 21, DeleteRecordsRequest;
    /// Gives a producer its id and epoch.
    InitProducerId = 22, InitProducerIdRequest;
    /// Looks up the end offsets of leader epochs (KIP-320).
    OffsetForLeaderEpoch = 23, OffsetForLeaderEpochRequest;
    /// Adds partitions to transactions.
    AddPartitionsToTxn = 24, AddPartitionsToTxnRequest;
    /// Adds a group's partition of `__consumer_offsets` to a transaction.
    AddOffsetsToTxn = 25, AddOffsetsToTxnRequest;
    /// Commits or aborts a transaction.
    EndTxn = 26, EndTxnRequest;
    /// Commits a group's offsets within a transaction.
    TxnOffsetCommit = 28, TxnOffsetCommitRequest;
    /// Describes ACLs (KIP-140).
    DescribeAcls = 29, DescribeAclsRequest;
    /// Creates ACLs (KIP-140).
    CreateAcls = 30, CreateAclsRequest;
    /// Deletes ACLs (KIP-140).
    DeleteAcls = 31, DeleteAclsRequest;
    /// Describes the configs of topics, brokers and groups.
    DescribeConfigs = 32, DescribeConfigsRequest;
    /// Replaces all configs of topics and brokers.
    AlterConfigs = 33, AlterConfigsRequest;
    /// Moves replicas between the log directories of a broker (KIP-113).
    AlterReplicaLogDirs = 34, AlterReplicaLogDirsRequest;
    /// Describes a broker's log directories and the replicas in them (KIP-113).
    DescribeLogDirs = 35, DescribeLogDirsRequest;
    /// Carries the messages of a SASL mechanism (KIP-152).
    SaslAuthenticate = 36, SaslAuthenticateRequest;
    /// Adds partitions to topics.
    CreatePartitions = 37, CreatePartitionsRequest;
    /// Creates a delegation token (KIP-48).
    CreateDelegationToken = 38, CreateDelegationTokenRequest;
    /// Moves the expiry of a delegation token (KIP-48).
    RenewDelegationToken = 39, RenewDelegationTokenRequest;
    /// Brings the expiry of a delegation token forward, or deletes it (KIP-48).
    ExpireDelegationToken = 40, ExpireDelegationTokenRequest;
    /// Describes delegation tokens (KIP-48).
    DescribeDelegationToken = 41, DescribeDelegationTokenRequest;
    /// Deletes groups (KIP-229).
    DeleteGroups = 42, DeleteGroupsRequest;
    /// Triggers leader elections.
    ElectLeaders = 43, ElectLeadersRequest;
    /// Changes single configs, and leaves the others as they are (KIP-339).
    IncrementalAlterConfigs = 44, IncrementalAlterConfigsRequest;
    /// Reassigns partitions to other brokers (KIP-455).
    AlterPartitionReassignments = 45, AlterPartitionReassignmentsRequest;
    /// Lists the partition reassignments in progress (KIP-455).
    ListPartitionReassignments = 46, ListPartitionReassignmentsRequest;
    /// Deletes a group's committed offsets of single partitions (KIP-496).
    OffsetDelete = 47, OffsetDeleteRequest;
    /// Describes the quotas of users, client ids and addresses (KIP-546).
    DescribeClientQuotas = 48, DescribeClientQuotasRequest;
    /// Changes the quotas of users, client ids and addresses (KIP-546).
    AlterClientQuotas = 49, AlterClientQuotasRequest;
    /// Describes the SCRAM credentials of users (KIP-554).
    DescribeUserScramCredentials = 50, DescribeUserScramCredentialsRequest;
    /// Sets and deletes SCRAM credentials of users (KIP-554).
    AlterUserScramCredentials = 51, AlterUserScramCredentialsRequest;
    /// Describes the KRaft quorum (KIP-595).
    DescribeQuorum = 55, DescribeQuorumRequest;
    /// Changes the finalized levels of features (KIP-584).
    UpdateFeatures = 57, UpdateFeaturesRequest;
    /// Describes the cluster's nodes (KIP-700).
    DescribeCluster = 60, DescribeClusterRequest;
    /// Describes the active producers of partitions (KIP-664).
    DescribeProducers = 61, DescribeProducersRequest;
    /// Describes transactions (KIP-664).
    DescribeTransactions = 65, DescribeTransactionsRequest;
    /// Lists transactional ids (KIP-664).
    ListTransactions = 66, ListTransactionsRequest;
    /// Joins, keeps membership in, and leaves a group of the consumer protocol (KIP-848).
    ConsumerGroupHeartbeat = 68, ConsumerGroupHeartbeatRequest;
    /// Describes groups of the consumer protocol (KIP-848).
    ConsumerGroupDescribe = 69, ConsumerGroupDescribeRequest;
    /// Tells a client which metrics to send (KIP-714).
    GetTelemetrySubscriptions = 71, GetTelemetrySubscriptionsRequest;
    /// Sends a client's metrics (KIP-714).
    PushTelemetry = 72, PushTelemetryRequest;
    /// Lists the resources that have configs (KIP-1142).
    ListConfigResources = 74, ListConfigResourcesRequest;
    /// Describes topics and partitions in pages (KIP-966).
    DescribeTopicPartitions = 75, DescribeTopicPartitionsRequest;
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
