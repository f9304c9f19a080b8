//! The APIs, one file each, and the dispatch of a request frame to its file.
//!
//! Each file has up to three functions: `handle` carries the request out; `refuse` answers the whole request with one
//! error, as Kafka does, when `handle` returns it or a fault demands it (without it the response has the error code
//! alone, or its message too); `mentions` lists the groups, topics and partitions that the request names, by which
//! faults and observers select requests (without it there are none).
//!
//! Each API asks the authorizer, if there is one, where Kafka asks it, before faults on partitions are looked up.
//!
//! Only Produce and Fetch are throttled by quotas; in other responses the throttle time is 0 unless a fault sets it. In
//! requests to the controller and in Produce, a `timeout_ms` of 0 has Kafka's effect; a longer one never passes,
//! because nothing waits for replicas or a controller. Each node itself carries out what Kafka's brokers forward to the
//! controller. Each file's header says what else is not implemented.

mod acknowledging;
mod add_offsets_to_txn;
mod add_partitions_to_txn;
mod alter_client_quotas;
mod alter_configs;
mod alter_partition_reassignments;
mod alter_replica_log_dirs;
mod alter_share_group_offsets;
mod alter_user_scram_credentials;
mod altering;
mod api_versions;
mod consumer_group_describe;
mod consumer_group_heartbeat;
mod create_acls;
mod create_delegation_token;
mod create_partitions;
mod create_topics;
mod delete_acls;
mod delete_groups;
mod delete_records;
mod delete_share_group_offsets;
mod delete_topics;
mod describe_acls;
mod describe_client_quotas;
mod describe_cluster;
mod describe_configs;
mod describe_delegation_token;
mod describe_groups;
mod describe_log_dirs;
mod describe_producers;
mod describe_quorum;
mod describe_share_group_offsets;
mod describe_topic_partitions;
mod describe_transactions;
mod describe_user_scram_credentials;
mod elect_leaders;
mod end_txn;
mod expire_delegation_token;
mod fetch;
mod find_coordinator;
mod get_telemetry_subscriptions;
mod group_offsets;
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
mod push_telemetry;
mod renew_delegation_token;
mod resource;
mod sasl_authenticate;
mod sasl_handshake;
mod share_acknowledge;
mod share_fetch;
mod share_group_describe;
mod share_group_heartbeat;
mod sync_group;
mod txn_offset_commit;
mod update_features;
mod write_txn_markers;

use bytes::Bytes;
use monedula_protocol::api::{ApiKey, Message, Request};
use monedula_protocol::error::WireError;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame::{decode_request_header, decode_response};
use monedula_protocol::messages;
use monedula_protocol::sasl::scram::ScramHash;
use monedula_protocol::wire::Reader;

use crate::core::{Core, Hex, has_secrets};
use crate::error::ApiError;
use crate::request::{Answer, Call, ConnectionId, Mentions, Origin, Ticket, TopicKey};
use crate::security::{Gate, Login, Operation, Resource};

/// The operations that a client may do with the cluster, one bit each; none for a client that may not describe it.
fn cluster_operations(core: &Core, call: &Call<'_>) -> i32 {
    match core.allows(call, Operation::Describe, Resource::Cluster) {
        true => core.authorized_operations(call, Resource::Cluster),
        false => 0,
    }
}

/// An answer, or the error with which the whole request is refused.
type Handled = Result<Answer, ErrorCode>;

macro_rules! refusal {
    ($module:ident::$request:ident, $asked:expr, $error:expr, refuse $($own:ident)*) => {
        $module::refuse($asked, $error)
    };
    ($module:ident::$request:ident, $asked:expr, $error:expr, message $($own:ident)*) => {{
        let mut response = <messages::$module::$request<'_> as Request<'_>>::Response::default();
        (response.error_code, response.error_message) = ($error.code(), Some($error.message()));
        response
    }};
    ($module:ident::$request:ident, $asked:expr, $error:expr, $($own:ident)*) => {{
        let mut response = <messages::$module::$request<'_> as Request<'_>>::Response::default();
        response.error_code = $error.code();
        response
    }};
}

macro_rules! mentions {
    ($module:ident, $asked:expr, $(refuse)? $(message)? mentions) => {
        $module::mentions($asked)
    };
    ($module:ident, $asked:expr, refuse groups $field:ident) => {
        Mentions { groups: $asked.$field.clone(), ..Mentions::default() }
    };
    ($module:ident, $asked:expr, refuse resources) => {
        resource::mentions($asked.resources.iter().map(|wanted| (wanted.resource_type, wanted.resource_name)))
    };
    ($module:ident, $asked:expr, $(refuse)? group_id) => {
        Mentions { groups: vec![$asked.group_id], ..Mentions::default() }
    };
    ($module:ident, $asked:expr, $(refuse)? topics) => {{
        let topics = $asked.topics.iter().map(|topic| TopicKey::Name(topic.name)).collect();
        Mentions { topics, ..Mentions::default() }
    }};
    ($module:ident, $asked:expr, $(refuse)? $(message)?) => {
        Mentions::default()
    };
}

macro_rules! apis {
    ($($module:ident::$request:ident($($own:ident)*),)*) => {
        /// The implemented APIs with their versions.
        pub(crate) const IMPLEMENTED: &[(ApiKey, i16, i16)] = &[$(versions::<messages::$module::$request<'_>>(),)*];

        /// The error codes in an answer, 0 for success. `None` if it cannot be read.
        pub(crate) fn error_codes(key: ApiKey, version: i16, frame: &[u8]) -> Option<Vec<i16>> {
            match key {
                $(messages::$module::$request::API_KEY => {
                    let response = decode_response::<messages::$module::$request<'_>>(frame, version).ok()?;
                    Some(response.error_codes())
                })*
                _ => None,
            }
        }

        /// Carries a request out; one that is `illegal` while a client logs in is refused.
        fn dispatch(core: &mut Core, call: &Call<'_>, body: Reader<'_>, illegal: bool) -> Answer {
            match call.key {
                $(messages::$module::$request::API_KEY => {
                    let request = match decode::<messages::$module::$request<'_>>(call, body) {
                        Ok(request) => request,
                        Err(error) => return Answer::Close(error.to_string()),
                    };
                    let refuse = |error: ErrorCode| {
                        let response = refusal!($module::$request, &request, error, $($own)*);
                        call.answer::<messages::$module::$request<'_>>(&response)
                    };
                    if illegal {
                        return refuse(ErrorCode::IllegalSaslState).late("another request came during its login");
                    }
                    if !core.faults.is_empty() {
                        let mentions = mentions!($module, &request, $($own)*);
                        let refused = |error| match (mentions.unanswered, call.key) {
                            (true, _) => Answer::Close(format!("a fault refuses it: {error}")),
                            // A login that is refused ends the connection, whoever refuses it.
                            (_, ApiKey::SaslHandshake | ApiKey::SaslAuthenticate) => {
                                refuse(error).late("a fault refuses it")
                            }
                            _ => refuse(error),
                        };
                        if let Some(answer) = core.stopped(call, &mentions, &refused) {
                            return answer;
                        }
                    }
                    $module::handle(core, call, &request).unwrap_or_else(refuse)
                })*
                key => Answer::Close(format!("{key} is not implemented")),
            }
        }
    };
}

// In brackets are the functions that a file has besides `handle`, or the field that has all that the request mentions;
// with `message`, a refusal has the error's message beside its code. The API key and the versions come from the type.
apis! {
    produce::ProduceRequest(refuse mentions),
    fetch::FetchRequest(refuse mentions),
    list_offsets::ListOffsetsRequest(refuse mentions),
    metadata::MetadataRequest(refuse mentions),
    offset_commit::OffsetCommitRequest(refuse mentions),
    offset_fetch::OffsetFetchRequest(refuse mentions),
    find_coordinator::FindCoordinatorRequest(refuse mentions),
    join_group::JoinGroupRequest(refuse group_id),
    heartbeat::HeartbeatRequest(group_id),
    leave_group::LeaveGroupRequest(group_id),
    sync_group::SyncGroupRequest(group_id),
    describe_groups::DescribeGroupsRequest(refuse groups groups),
    list_groups::ListGroupsRequest(),
    consumer_group_heartbeat::ConsumerGroupHeartbeatRequest(group_id),
    consumer_group_describe::ConsumerGroupDescribeRequest(refuse groups group_ids),
    share_group_heartbeat::ShareGroupHeartbeatRequest(group_id),
    share_group_describe::ShareGroupDescribeRequest(refuse groups group_ids),
    share_fetch::ShareFetchRequest(mentions),
    share_acknowledge::ShareAcknowledgeRequest(mentions),
    describe_share_group_offsets::DescribeShareGroupOffsetsRequest(refuse mentions),
    alter_share_group_offsets::AlterShareGroupOffsetsRequest(group_id),
    delete_share_group_offsets::DeleteShareGroupOffsetsRequest(group_id),
    api_versions::ApiVersionsRequest(),
    create_topics::CreateTopicsRequest(refuse topics),
    delete_topics::DeleteTopicsRequest(refuse mentions),
    delete_records::DeleteRecordsRequest(refuse mentions),
    offset_for_leader_epoch::OffsetForLeaderEpochRequest(refuse mentions),
    create_partitions::CreatePartitionsRequest(refuse topics),
    describe_configs::DescribeConfigsRequest(refuse resources),
    alter_configs::AlterConfigsRequest(refuse resources),
    incremental_alter_configs::IncrementalAlterConfigsRequest(refuse resources),
    init_producer_id::InitProducerIdRequest(refuse mentions),
    add_partitions_to_txn::AddPartitionsToTxnRequest(refuse mentions),
    add_offsets_to_txn::AddOffsetsToTxnRequest(mentions),
    txn_offset_commit::TxnOffsetCommitRequest(refuse mentions),
    end_txn::EndTxnRequest(mentions),
    write_txn_markers::WriteTxnMarkersRequest(refuse mentions),
    describe_transactions::DescribeTransactionsRequest(refuse mentions),
    list_transactions::ListTransactionsRequest(),
    alter_partition_reassignments::AlterPartitionReassignmentsRequest(refuse mentions),
    list_partition_reassignments::ListPartitionReassignmentsRequest(message mentions),
    elect_leaders::ElectLeadersRequest(refuse mentions),
    describe_topic_partitions::DescribeTopicPartitionsRequest(refuse topics),
    describe_cluster::DescribeClusterRequest(refuse),
    describe_log_dirs::DescribeLogDirsRequest(mentions),
    alter_replica_log_dirs::AlterReplicaLogDirsRequest(refuse mentions),
    describe_quorum::DescribeQuorumRequest(message),
    update_features::UpdateFeaturesRequest(message),
    list_config_resources::ListConfigResourcesRequest(),
    describe_producers::DescribeProducersRequest(refuse mentions),
    delete_groups::DeleteGroupsRequest(refuse groups groups_names),
    describe_acls::DescribeAclsRequest(message),
    create_acls::CreateAclsRequest(refuse),
    delete_acls::DeleteAclsRequest(refuse),
    sasl_handshake::SaslHandshakeRequest(),
    sasl_authenticate::SaslAuthenticateRequest(message),
    create_delegation_token::CreateDelegationTokenRequest(),
    renew_delegation_token::RenewDelegationTokenRequest(),
    expire_delegation_token::ExpireDelegationTokenRequest(),
    describe_delegation_token::DescribeDelegationTokenRequest(),
    describe_client_quotas::DescribeClientQuotasRequest(refuse),
    alter_client_quotas::AlterClientQuotasRequest(refuse),
    describe_user_scram_credentials::DescribeUserScramCredentialsRequest(refuse),
    alter_user_scram_credentials::AlterUserScramCredentialsRequest(refuse),
    offset_delete::OffsetDeleteRequest(mentions),
    get_telemetry_subscriptions::GetTelemetrySubscriptionsRequest(),
    push_telemetry::PushTelemetryRequest(),
}

const fn versions<'a, R: Request<'a>>() -> (ApiKey, i16, i16) {
    (R::API_KEY, *R::VERSIONS.start(), *R::VERSIONS.end())
}

/// Decodes the body of a request. Trailing bytes are ignored, as Kafka does: librdkafka sends three with Metadata.
fn decode<'a, R: Request<'a>>(call: &Call<'_>, mut body: Reader<'a>) -> Result<R, WireError> {
    let request = R::decode(&mut body, call.version)?;
    if body.remaining() > 0 {
        log::debug!("{} v{} of {} has {} bytes too many", call.key, call.version, call.client_id, body.remaining());
    }
    Ok(request)
}

pub(crate) fn serve(core: &mut Core, connection: ConnectionId, origin: &Origin, frame: &Bytes) -> Answer {
    if core.peers.login(connection).is_some_and(Login::takes_raw_frames) {
        return sasl_authenticate::raw(core, connection, frame);
    }
    let (header, body) = match decode_request_header(frame) {
        Ok(decoded) => decoded,
        Err(error) => return Answer::Close(error.to_string()),
    };
    // The layout of the header depends on the key, so decode_request_header has already refused unknown ones.
    let Some(key) = ApiKey::from_code(header.request_api_key) else {
        return Answer::Close(format!("unknown API key {}", header.request_api_key));
    };
    let version = header.request_api_version;
    let ticket = Ticket { connection, version, correlation_id: header.correlation_id };
    let client_id = header.client_id.unwrap_or_default();
    let Origin { node, host, .. } = origin;
    let call = Call { key, version, ticket, node: *node, client_id, origin, frame };
    core.asked(connection, client_id, call.current());
    log::debug!(
        "node {node}: {key} v{version}, correlation id {}, client {client_id:?} at {host}: {} bytes",
        header.correlation_id,
        frame.len()
    );
    if !has_secrets(key) {
        log::trace!("node {node}: {key} v{version}, correlation id {}: {}", header.correlation_id, Hex(frame));
    }
    let gate = core.peers.login(connection).map_or(Gate::Pass, |login| login.gate(key, core.now_ms));
    match gate {
        Gate::Pass | Gate::Refuse => {}
        Gate::Close(reason) => return Answer::Refused(Vec::new(), reason),
        Gate::Expired => return Answer::Close("its session has ended, and it has not logged in again".to_owned()),
    }
    match core.offered(key) {
        Some((min, max)) if (min..=max).contains(&version) => dispatch(core, &call, body, gate == Gate::Refuse),
        // KIP-511: a client that asks for the versions cannot know them yet.
        Some(_) if key == ApiKey::ApiVersions => api_versions::unsupported(&call),
        _ => Answer::Close(format!("{key} version {version} is not offered")),
    }
}

impl Core {
    /// The lowest and highest version of an API that this broker offers (`max_versions` of the settings lowers the
    /// highest), `None` if it does not offer the API.
    pub(crate) fn offered(&self, key: ApiKey) -> Option<(i16, i16)> {
        if matches!(key, ApiKey::GetTelemetrySubscriptions | ApiKey::PushTelemetry) && !self.settings.client_metrics {
            return None;
        }
        let &(_, min, max) = IMPLEMENTED.iter().find(|(implemented, ..)| *implemented == key)?;
        let max = self.settings.max_versions.get(&key.code()).map_or(max, |&masked| masked.min(max));
        (min <= max).then_some((min, max))
    }
}

/// True if Kafka's controller gives a request up before it looks at it. It does so if there is no time, and its answer
/// is REQUEST_TIMED_OUT for all that the request names.
fn has_no_time(timeout_ms: i32) -> bool {
    timeout_ms <= 0
}

/// Replaces PRODUCER_FENCED by INVALID_PRODUCER_EPOCH for versions below `known_from`, whose clients do not know it
/// (KIP-588).
fn fenced_for(version: i16, known_from: i16, error: ErrorCode) -> ErrorCode {
    match error {
        ErrorCode::ProducerFenced if version < known_from => ErrorCode::InvalidProducerEpoch,
        error => error,
    }
}

fn scram_hash(code: i8) -> Option<ScramHash> {
    [ScramHash::Sha256, ScramHash::Sha512].into_iter().find(|&hash| scram_code(hash) == code)
}

fn scram_code(hash: ScramHash) -> i8 {
    match hash {
        ScramHash::Sha256 => 1,
        ScramHash::Sha512 => 2,
    }
}

/// The error code of an outcome, 0 for success.
pub(crate) fn code(outcome: Result<(), ErrorCode>) -> i16 {
    outcome.err().unwrap_or(ErrorCode::None).code()
}
