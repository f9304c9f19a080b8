//! The APIs, one file each, and the way of a frame to its file.
//!
//! A file has `handle`, which does the work, and `refuse`, which answers the whole request with one error as Kafka does, for
//! faults and for what is refused as a whole. `mentions` names the groups and partitions of a request, by which faults and
//! observers select.

mod add_offsets_to_txn;
mod add_partitions_to_txn;
mod alter_configs;
mod alter_partition_reassignments;
mod alter_replica_log_dirs;
mod altering;
mod api_versions;
mod consumer_group_describe;
mod consumer_group_heartbeat;
mod create_partitions;
mod create_topics;
mod delete_groups;
mod delete_records;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
mod describe_groups;
mod describe_log_dirs;
mod describe_producers;
mod describe_quorum;
mod describe_topic_partitions;
mod describe_transactions;
mod elect_leaders;
mod end_txn;
mod fetch;
mod find_coordinator;
mod heartbeat;
mod incremental_alter_configs;
mod init_producer_id;
mod join_group;
mod leave_group;
mod list_config_resources;
mod list_groups;
mod list_offsets;
mod list_partition_reassignments;
mod list_transactions;
mod metadata;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod produce;
mod resource;
mod sync_group;
mod txn_offset_commit;
mod update_features;

use std::sync::Arc;

use bytes::Bytes;
use monedula_protocol::api::{ApiKey, Request};
use monedula_protocol::error::WireError;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame::decode_request_header;
use monedula_protocol::types::Uuid;
use monedula_protocol::wire::Reader;

pub(crate) use join_group::answer as answer_join;
pub(crate) use sync_group::answer as answer_sync;

use crate::cluster::NodeId;
use crate::core::{Answer, Call, ConnectionId, Core, Current, Hex, Ticket};
use crate::faults;

/// What a client that may do everything is told that it may do: the bits of Kafka's operations on a cluster and on a topic.
pub(crate) const CLUSTER_OPERATIONS: i32 = 8096;
pub(crate) const TOPIC_OPERATIONS: i32 = 3576;

/// An error with the words that go with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) code: ErrorCode,
    pub(crate) message: Option<String>,
}

impl ApiError {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: Some(message.into()) }
    }
}

/// What a request is about.
#[derive(Debug, Default)]
pub(crate) struct Mentions<'a> {
    pub(crate) groups: Vec<&'a str>,
    pub(crate) transactional_id: Option<&'a str>,
    pub(crate) partitions: Vec<(TopicKey<'a>, i32)>,
    /// Topics that are named without partitions.
    pub(crate) topics: Vec<TopicKey<'a>>,
    /// The fetch session (KIP-227) whose partitions are meant too; 0 for none.
    pub(crate) session: i32,
    /// Whether no answer is expected (acks=0): an error then closes the connection.
    pub(crate) unanswered: bool,
}

/// A topic as a request names it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum TopicKey<'a> {
    Name(&'a str),
    Id(Uuid),
}

impl<'a> TopicKey<'a> {
    /// From a name and an id of which the request's version has one.
    pub(crate) fn new(name: &'a str, id: Uuid) -> Self {
        if id.is_zero() { Self::Name(name) } else { Self::Id(id) }
    }
}

macro_rules! apis {
    ($($key:ident, $module:ident, $request:ty;)*) => {
        /// What is offered: each API with its versions.
        pub(crate) const IMPLEMENTED: &[(ApiKey, i16, i16)] = &[
            $((ApiKey::$key, *<$request as Request<'_>>::VERSIONS.start(), *<$request as Request<'_>>::VERSIONS.end()),)*
        ];

        fn dispatch(core: &mut Core, call: &Call<'_>, body: Reader<'_>) -> Answer {
            match call.key {
                $(ApiKey::$key => {
                    let request = match decode::<$request>(call, body) {
                        Ok(request) => request,
                        Err(error) => return Answer::Close(error.to_string()),
                    };
                    if !core.faults.is_empty() {
                        let mentions = $module::mentions(&request);
                        let refused = |error| match mentions.unanswered {
                            true => Answer::Close(format!("a fault refuses it: {error}")),
                            false => call.answer::<$request>(&$module::refuse(&request, error)),
                        };
                        if let Some(answer) = faults::on_request(core, call, &mentions, &refused) {
                            return answer;
                        }
                    }
                    $module::handle(core, call, &request)
                })*
                key => Answer::Close(format!("{key} is not implemented")),
            }
        }
    };
}

apis! {
    Produce, produce, monedula_protocol::messages::produce::ProduceRequest<'_>;
    Fetch, fetch, monedula_protocol::messages::fetch::FetchRequest<'_>;
    ListOffsets, list_offsets, monedula_protocol::messages::list_offsets::ListOffsetsRequest<'_>;
    Metadata, metadata, monedula_protocol::messages::metadata::MetadataRequest<'_>;
    OffsetCommit, offset_commit, monedula_protocol::messages::offset_commit::OffsetCommitRequest<'_>;
    OffsetFetch, offset_fetch, monedula_protocol::messages::offset_fetch::OffsetFetchRequest<'_>;
    FindCoordinator, find_coordinator, monedula_protocol::messages::find_coordinator::FindCoordinatorRequest<'_>;
    JoinGroup, join_group, monedula_protocol::messages::join_group::JoinGroupRequest<'_>;
    Heartbeat, heartbeat, monedula_protocol::messages::heartbeat::HeartbeatRequest<'_>;
    LeaveGroup, leave_group, monedula_protocol::messages::leave_group::LeaveGroupRequest<'_>;
    SyncGroup, sync_group, monedula_protocol::messages::sync_group::SyncGroupRequest<'_>;
    DescribeGroups, describe_groups, monedula_protocol::messages::describe_groups::DescribeGroupsRequest<'_>;
    ListGroups, list_groups, monedula_protocol::messages::list_groups::ListGroupsRequest<'_>;
    ConsumerGroupHeartbeat, consumer_group_heartbeat,
        monedula_protocol::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest<'_>;
    ConsumerGroupDescribe, consumer_group_describe,
        monedula_protocol::messages::consumer_group_describe::ConsumerGroupDescribeRequest<'_>;
    ApiVersions, api_versions, monedula_protocol::messages::api_versions::ApiVersionsRequest<'_>;
    CreateTopics, create_topics, monedula_protocol::messages::create_topics::CreateTopicsRequest<'_>;
    DeleteTopics, delete_topics, monedula_protocol::messages::delete_topics::DeleteTopicsRequest<'_>;
    DeleteRecords, delete_records, monedula_protocol::messages::delete_records::DeleteRecordsRequest<'_>;
    OffsetForLeaderEpoch, offset_for_leader_epoch, monedula_protocol::messages::offset_for_leader_epoch::OffsetForLeaderEpochRequest<'_>;
    CreatePartitions, create_partitions, monedula_protocol::messages::create_partitions::CreatePartitionsRequest<'_>;
    DescribeConfigs, describe_configs, monedula_protocol::messages::describe_configs::DescribeConfigsRequest<'_>;
    AlterConfigs, alter_configs, monedula_protocol::messages::alter_configs::AlterConfigsRequest<'_>;
    IncrementalAlterConfigs, incremental_alter_configs, monedula_protocol::messages::incremental_alter_configs::IncrementalAlterConfigsRequest<'_>;
    InitProducerId, init_producer_id, monedula_protocol::messages::init_producer_id::InitProducerIdRequest<'_>;
    AddPartitionsToTxn, add_partitions_to_txn, monedula_protocol::messages::add_partitions_to_txn::AddPartitionsToTxnRequest<'_>;
    AddOffsetsToTxn, add_offsets_to_txn, monedula_protocol::messages::add_offsets_to_txn::AddOffsetsToTxnRequest<'_>;
    TxnOffsetCommit, txn_offset_commit, monedula_protocol::messages::txn_offset_commit::TxnOffsetCommitRequest<'_>;
    EndTxn, end_txn, monedula_protocol::messages::end_txn::EndTxnRequest<'_>;
    DescribeTransactions, describe_transactions, monedula_protocol::messages::describe_transactions::DescribeTransactionsRequest<'_>;
    ListTransactions, list_transactions, monedula_protocol::messages::list_transactions::ListTransactionsRequest<'_>;
    AlterPartitionReassignments, alter_partition_reassignments,
        monedula_protocol::messages::alter_partition_reassignments::AlterPartitionReassignmentsRequest<'_>;
    ListPartitionReassignments, list_partition_reassignments,
        monedula_protocol::messages::list_partition_reassignments::ListPartitionReassignmentsRequest<'_>;
    ElectLeaders, elect_leaders, monedula_protocol::messages::elect_leaders::ElectLeadersRequest<'_>;
    DescribeTopicPartitions, describe_topic_partitions, monedula_protocol::messages::describe_topic_partitions::DescribeTopicPartitionsRequest<'_>;
    DescribeCluster, describe_cluster, monedula_protocol::messages::describe_cluster::DescribeClusterRequest<'_>;
    DescribeLogDirs, describe_log_dirs, monedula_protocol::messages::describe_log_dirs::DescribeLogDirsRequest<'_>;
    AlterReplicaLogDirs, alter_replica_log_dirs, monedula_protocol::messages::alter_replica_log_dirs::AlterReplicaLogDirsRequest<'_>;
    DescribeQuorum, describe_quorum, monedula_protocol::messages::describe_quorum::DescribeQuorumRequest<'_>;
    UpdateFeatures, update_features, monedula_protocol::messages::update_features::UpdateFeaturesRequest<'_>;
    ListConfigResources, list_config_resources, monedula_protocol::messages::list_config_resources::ListConfigResourcesRequest<'_>;
    DescribeProducers, describe_producers, monedula_protocol::messages::describe_producers::DescribeProducersRequest<'_>;
    DeleteGroups, delete_groups, monedula_protocol::messages::delete_groups::DeleteGroupsRequest<'_>;
    OffsetDelete, offset_delete, monedula_protocol::messages::offset_delete::OffsetDeleteRequest<'_>;
}

/// The body of a request. Bytes behind it are let through, as Kafka does: librdkafka sends three with Metadata.
fn decode<'a, R: Request<'a>>(call: &Call<'_>, mut body: Reader<'a>) -> Result<R, WireError> {
    let request = R::decode(&mut body, call.version)?;
    if body.remaining() > 0 {
        log::debug!("{} v{} of {} has {} bytes too many", call.key, call.version, call.client_id, body.remaining());
    }
    Ok(request)
}

/// Works on one frame.
pub(crate) fn serve(
    core: &mut Core,
    connection: ConnectionId,
    node: NodeId,
    client_host: &Arc<str>,
    frame: &Bytes,
) -> Answer {
    let (header, body) = match decode_request_header(frame) {
        Ok(decoded) => decoded,
        Err(error) => return Answer::Close(error.to_string()),
    };
    // The header was decoded by this key, so it is one.
    let Some(key) = ApiKey::from_code(header.request_api_key) else {
        return Answer::Close(format!("unknown API key {}", header.request_api_key));
    };
    let version = header.request_api_version;
    let ticket = Ticket { connection, version, correlation_id: header.correlation_id };
    let client_id = header.client_id.unwrap_or_default();
    let call = Call { key, version, ticket, node, client_id, client_host, frame };
    let flexible = version >= key.flexible_from();
    core.asked(connection, client_id, Current { key, version, correlation_id: header.correlation_id, flexible });
    log::debug!(
        "node {node}: {key} v{version}, correlation id {}, client {client_id:?} at {client_host}: {} bytes",
        header.correlation_id,
        frame.len()
    );
    log::trace!("node {node}: {key} v{version}, correlation id {}: {}", header.correlation_id, Hex(frame));
    match core.offered(key) {
        Some((min, max)) if (min..=max).contains(&version) => dispatch(core, &call, body),
        // KIP-511: whoever asks for the versions cannot know them yet.
        Some(_) if key == ApiKey::ApiVersions => api_versions::unsupported(&call),
        _ => Answer::Close(format!("{key} version {version} is not offered")),
    }
}

impl Core {
    /// The versions of an API that are offered, `None` if it is not.
    pub(crate) fn offered(&self, key: ApiKey) -> Option<(i16, i16)> {
        let &(_, min, max) = IMPLEMENTED.iter().find(|(implemented, ..)| *implemented == key)?;
        let max = self.settings.max_versions.get(&key.code()).map_or(max, |&masked| masked.min(max));
        (min <= max).then_some((min, max))
    }
}

/// What a client hears of PRODUCER_FENCED: those of versions that do not know it yet hear INVALID_PRODUCER_EPOCH (KIP-588).
fn fenced_for(version: i16, known_from: i16, error: ErrorCode) -> ErrorCode {
    match error {
        ErrorCode::ProducerFenced if version < known_from => ErrorCode::InvalidProducerEpoch,
        error => error,
    }
}

/// The code of an outcome: 0 where there is no error.
pub(crate) fn code(outcome: Result<(), ErrorCode>) -> i16 {
    outcome.err().unwrap_or(ErrorCode::None).code()
}
