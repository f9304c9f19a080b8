//! Kafka's error codes: their numbers, names and descriptions, and which of them may be retried.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// The name of a code that this crate does not know. Each name is leaked once: there are at most 65536.
fn unknown_name(code: i16) -> &'static str {
    static NAMES: Mutex<BTreeMap<i16, &'static str>> = Mutex::new(BTreeMap::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    names.entry(code).or_insert_with(|| Box::leak(format!("UNKNOWN_CODE_{code}").into_boxed_str()))
}

macro_rules! error_codes {
    ($($code:literal $variant:ident $name:ident $kind:ident $message:literal;)*) => {
        /// One of Kafka's error codes.
        #[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $(#[doc = concat!("Code ", $code, ": ", $message, ".")] $variant,)*
            /// A code that this crate does not know, such as one of a newer broker.
            Unknown(i16),
        }

        impl ErrorCode {
            /// The error with this code.
            pub fn from_code(code: i16) -> Self {
                match code {
                    $($code => Self::$variant,)*
                    _ => Self::Unknown(code),
                }
            }

            /// The code on the wire.
            pub fn code(self) -> i16 {
                match self {
                    $(Self::$variant => $code,)*
                    Self::Unknown(code) => code,
                }
            }

            /// Kafka's name of the error, such as `UNKNOWN_TOPIC_OR_PARTITION`; `UNKNOWN_CODE_` and the number for an
            /// unknown code.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($name),)*
                    Self::Unknown(code) => unknown_name(code),
                }
            }

            /// Returns true if Kafka's own clients may retry the same request after this error.
            pub fn is_retriable(self) -> bool {
                match self {
                    $(Self::$variant => error_codes!(@$kind),)*
                    Self::Unknown(_) => false,
                }
            }

            /// A short description of the error.
            pub fn message(self) -> &'static str {
                match self {
                    $(Self::$variant => $message,)*
                    Self::Unknown(_) => "an error that this client does not know",
                }
            }
        }
    };
    (@retriable) => { true };
    (@fatal) => { false };
}

error_codes! {
    -1 UnknownServerError UNKNOWN_SERVER_ERROR fatal "the broker failed in a way it did not expect";
    0 None NONE fatal "no error";
    1 OffsetOutOfRange OFFSET_OUT_OF_RANGE fatal "the offset is outside the partition's log";
    2 CorruptMessage CORRUPT_MESSAGE retriable "the message is corrupt, oversized, or lacks a key that compaction needs";
    3 UnknownTopicOrPartition UNKNOWN_TOPIC_OR_PARTITION retriable "the broker does not host this topic or partition";
    4 InvalidFetchSize INVALID_FETCH_SIZE fatal "the fetch size is invalid";
    5 LeaderNotAvailable LEADER_NOT_AVAILABLE retriable "the partition has no leader at the moment";
    6 NotLeaderOrFollower NOT_LEADER_OR_FOLLOWER retriable "the broker is not the leader, or not a replica, of this partition";
    7 RequestTimedOut REQUEST_TIMED_OUT retriable "the broker did not finish in time";
    8 BrokerNotAvailable BROKER_NOT_AVAILABLE fatal "the broker is not available";
    9 ReplicaNotAvailable REPLICA_NOT_AVAILABLE retriable "the replica is not available";
    10 MessageTooLarge MESSAGE_TOO_LARGE fatal "the message is larger than the broker accepts";
    11 StaleControllerEpoch STALE_CONTROLLER_EPOCH fatal "the controller has moved to another broker";
    12 OffsetMetadataTooLarge OFFSET_METADATA_TOO_LARGE fatal "the metadata of the committed offset is too large";
    13 NetworkException NETWORK_EXCEPTION retriable "the connection ended before the answer";
    14 CoordinatorLoadInProgress COORDINATOR_LOAD_IN_PROGRESS retriable "the coordinator is still loading";
    15 CoordinatorNotAvailable COORDINATOR_NOT_AVAILABLE retriable "the coordinator is not available";
    16 NotCoordinator NOT_COORDINATOR retriable "this broker is not the coordinator";
    17 InvalidTopicException INVALID_TOPIC_EXCEPTION fatal "the topic name is invalid, or the topic may not be used this way";
    18 RecordListTooLarge RECORD_LIST_TOO_LARGE fatal "the batch is larger than a log segment";
    19 NotEnoughReplicas NOT_ENOUGH_REPLICAS retriable "too few replicas are in sync";
    20 NotEnoughReplicasAfterAppend NOT_ENOUGH_REPLICAS_AFTER_APPEND retriable "too few replicas took the messages, which are in the log";
    21 InvalidRequiredAcks INVALID_REQUIRED_ACKS fatal "the value of acks is invalid";
    22 IllegalGeneration ILLEGAL_GENERATION fatal "the generation of the group is another";
    23 InconsistentGroupProtocol INCONSISTENT_GROUP_PROTOCOL fatal "the group's members speak another protocol, or none was named";
    24 InvalidGroupId INVALID_GROUP_ID fatal "the group id is invalid";
    25 UnknownMemberId UNKNOWN_MEMBER_ID fatal "the coordinator does not know this member";
    26 InvalidSessionTimeout INVALID_SESSION_TIMEOUT fatal "the session timeout is outside the broker's range";
    27 RebalanceInProgress REBALANCE_IN_PROGRESS fatal "the group is rebalancing: rejoin";
    28 InvalidCommitOffsetSize INVALID_COMMIT_OFFSET_SIZE fatal "the size of the commit is invalid";
    29 TopicAuthorizationFailed TOPIC_AUTHORIZATION_FAILED fatal "not authorized for the topic";
    30 GroupAuthorizationFailed GROUP_AUTHORIZATION_FAILED fatal "not authorized for the group";
    31 ClusterAuthorizationFailed CLUSTER_AUTHORIZATION_FAILED fatal "not authorized for the cluster";
    32 InvalidTimestamp INVALID_TIMESTAMP fatal "the timestamp is out of range";
    33 UnsupportedSaslMechanism UNSUPPORTED_SASL_MECHANISM fatal "the broker does not support the SASL mechanism";
    34 IllegalSaslState ILLEGAL_SASL_STATE fatal "the request is not valid in this state of SASL";
    35 UnsupportedVersion UNSUPPORTED_VERSION fatal "the broker does not speak this version";
    36 TopicAlreadyExists TOPIC_ALREADY_EXISTS fatal "the topic exists already";
    37 InvalidPartitions INVALID_PARTITIONS fatal "the number of partitions is invalid";
    38 InvalidReplicationFactor INVALID_REPLICATION_FACTOR fatal "the replication factor is invalid";
    39 InvalidReplicaAssignment INVALID_REPLICA_ASSIGNMENT fatal "the replica assignment is invalid";
    40 InvalidConfig INVALID_CONFIG fatal "the configuration is invalid";
    41 NotController NOT_CONTROLLER retriable "this broker is not the controller";
    42 InvalidRequest INVALID_REQUEST fatal "the request is malformed, or not one for this broker";
    43 UnsupportedForMessageFormat UNSUPPORTED_FOR_MESSAGE_FORMAT fatal "the format of the messages does not support the request";
    44 PolicyViolation POLICY_VIOLATION fatal "the request violates a policy";
    45 OutOfOrderSequenceNumber OUT_OF_ORDER_SEQUENCE_NUMBER fatal "the sequence number is out of order";
    46 DuplicateSequenceNumber DUPLICATE_SEQUENCE_NUMBER fatal "the sequence number was seen before";
    47 InvalidProducerEpoch INVALID_PRODUCER_EPOCH fatal "the producer's epoch is old";
    48 InvalidTxnState INVALID_TXN_STATE fatal "the transaction is not in a state for this";
    49 InvalidProducerIdMapping INVALID_PRODUCER_ID_MAPPING fatal "the producer id does not belong to the transactional id";
    50 InvalidTransactionTimeout INVALID_TRANSACTION_TIMEOUT fatal "the transaction timeout is above the broker's maximum";
    51 ConcurrentTransactions CONCURRENT_TRANSACTIONS retriable "the transaction is busy with another operation";
    52 TransactionCoordinatorFenced TRANSACTION_COORDINATOR_FENCED fatal "the transaction coordinator has been replaced";
    53 TransactionalIdAuthorizationFailed TRANSACTIONAL_ID_AUTHORIZATION_FAILED fatal "not authorized for the transactional id";
    54 SecurityDisabled SECURITY_DISABLED fatal "security is disabled";
    55 OperationNotAttempted OPERATION_NOT_ATTEMPTED fatal "the operation was not attempted";
    56 KafkaStorageError KAFKA_STORAGE_ERROR retriable "the broker cannot access its disk";
    57 LogDirNotFound LOG_DIR_NOT_FOUND fatal "the log directory is not configured";
    58 SaslAuthenticationFailed SASL_AUTHENTICATION_FAILED fatal "SASL authentication failed";
    59 UnknownProducerId UNKNOWN_PRODUCER_ID fatal "the broker knows nothing of this producer id";
    60 ReassignmentInProgress REASSIGNMENT_IN_PROGRESS fatal "the partition is being reassigned";
    61 DelegationTokenAuthDisabled DELEGATION_TOKEN_AUTH_DISABLED fatal "delegation tokens are disabled";
    62 DelegationTokenNotFound DELEGATION_TOKEN_NOT_FOUND fatal "the delegation token does not exist";
    63 DelegationTokenOwnerMismatch DELEGATION_TOKEN_OWNER_MISMATCH fatal "the delegation token belongs to another";
    64 DelegationTokenRequestNotAllowed DELEGATION_TOKEN_REQUEST_NOT_ALLOWED fatal "delegation tokens cannot be requested over this connection";
    65 DelegationTokenAuthorizationFailed DELEGATION_TOKEN_AUTHORIZATION_FAILED fatal "not authorized for the delegation token";
    66 DelegationTokenExpired DELEGATION_TOKEN_EXPIRED fatal "the delegation token has expired";
    67 InvalidPrincipalType INVALID_PRINCIPAL_TYPE fatal "the type of principal is not supported";
    68 NonEmptyGroup NON_EMPTY_GROUP fatal "the group has members";
    69 GroupIdNotFound GROUP_ID_NOT_FOUND fatal "the group does not exist";
    70 FetchSessionIdNotFound FETCH_SESSION_ID_NOT_FOUND retriable "the fetch session does not exist";
    71 InvalidFetchSessionEpoch INVALID_FETCH_SESSION_EPOCH retriable "the epoch of the fetch session is another";
    72 ListenerNotFound LISTENER_NOT_FOUND retriable "the leader lacks the listener that metadata was asked on";
    73 TopicDeletionDisabled TOPIC_DELETION_DISABLED fatal "topics cannot be deleted here";
    74 FencedLeaderEpoch FENCED_LEADER_EPOCH retriable "the leader epoch is older than the broker's";
    75 UnknownLeaderEpoch UNKNOWN_LEADER_EPOCH retriable "the leader epoch is newer than the broker's";
    76 UnsupportedCompressionType UNSUPPORTED_COMPRESSION_TYPE fatal "the compression type is not supported";
    77 StaleBrokerEpoch STALE_BROKER_EPOCH fatal "the broker epoch is old";
    78 OffsetNotAvailable OFFSET_NOT_AVAILABLE retriable "the new leader does not know its high watermark yet";
    79 MemberIdRequired MEMBER_ID_REQUIRED fatal "the member must join again with the id it was given";
    80 PreferredLeaderNotAvailable PREFERRED_LEADER_NOT_AVAILABLE retriable "the preferred leader is not available";
    81 GroupMaxSizeReached GROUP_MAX_SIZE_REACHED fatal "the group is full";
    82 FencedInstanceId FENCED_INSTANCE_ID fatal "another member has taken over this group instance id";
    83 EligibleLeadersNotAvailable ELIGIBLE_LEADERS_NOT_AVAILABLE retriable "no eligible leader is available";
    84 ElectionNotNeeded ELECTION_NOT_NEEDED retriable "the partition needs no election";
    85 NoReassignmentInProgress NO_REASSIGNMENT_IN_PROGRESS fatal "no reassignment is in progress";
    86 GroupSubscribedToTopic GROUP_SUBSCRIBED_TO_TOPIC fatal "the group is subscribed to the topic";
    87 InvalidRecord INVALID_RECORD fatal "the record is invalid";
    88 UnstableOffsetCommit UNSTABLE_OFFSET_COMMIT retriable "a transaction has offsets that are not decided yet";
    89 ThrottlingQuotaExceeded THROTTLING_QUOTA_EXCEEDED retriable "the quota is exceeded";
    90 ProducerFenced PRODUCER_FENCED fatal "a newer producer with this transactional id has taken over";
    91 ResourceNotFound RESOURCE_NOT_FOUND fatal "the resource does not exist";
    92 DuplicateResource DUPLICATE_RESOURCE fatal "the resource is named twice";
    93 UnacceptableCredential UNACCEPTABLE_CREDENTIAL fatal "the credential is not acceptable";
    94 InconsistentVoterSet INCONSISTENT_VOTER_SET fatal "the voters are others than expected";
    95 InvalidUpdateVersion INVALID_UPDATE_VERSION fatal "the update's version is invalid";
    96 FeatureUpdateFailed FEATURE_UPDATE_FAILED fatal "the features could not be updated";
    97 PrincipalDeserializationFailure PRINCIPAL_DESERIALIZATION_FAILURE fatal "the forwarded principal cannot be read";
    98 SnapshotNotFound SNAPSHOT_NOT_FOUND fatal "the snapshot does not exist";
    99 PositionOutOfRange POSITION_OUT_OF_RANGE fatal "the position is outside the snapshot";
    100 UnknownTopicId UNKNOWN_TOPIC_ID retriable "the broker does not host this topic id";
    101 DuplicateBrokerRegistration DUPLICATE_BROKER_REGISTRATION fatal "the broker id is in use";
    102 BrokerIdNotRegistered BROKER_ID_NOT_REGISTERED fatal "the broker id is not registered";
    103 InconsistentTopicId INCONSISTENT_TOPIC_ID retriable "the log has another topic id";
    104 InconsistentClusterId INCONSISTENT_CLUSTER_ID fatal "the cluster has another id";
    105 TransactionalIdNotFound TRANSACTIONAL_ID_NOT_FOUND fatal "the transactional id does not exist";
    106 FetchSessionTopicIdError FETCH_SESSION_TOPIC_ID_ERROR retriable "the fetch session mixes topic names and ids";
    107 IneligibleReplica INELIGIBLE_REPLICA fatal "a replica of the new in-sync set is not eligible";
    108 NewLeaderElected NEW_LEADER_ELECTED fatal "the partition was updated, and has another leader now";
    109 OffsetMovedToTieredStorage OFFSET_MOVED_TO_TIERED_STORAGE fatal "the offset has moved to tiered storage";
    110 FencedMemberEpoch FENCED_MEMBER_EPOCH fatal "the member's epoch is fenced: give up all partitions and rejoin";
    111 UnreleasedInstanceId UNRELEASED_INSTANCE_ID fatal "another member still holds this group instance id";
    112 UnsupportedAssignor UNSUPPORTED_ASSIGNOR fatal "the coordinator does not support the assignor";
    113 StaleMemberEpoch STALE_MEMBER_EPOCH fatal "the member's epoch is old: heartbeat, then retry";
    114 MismatchedEndpointType MISMATCHED_ENDPOINT_TYPE fatal "the endpoint is of the wrong type";
    115 UnsupportedEndpointType UNSUPPORTED_ENDPOINT_TYPE fatal "the type of endpoint is not supported";
    116 UnknownControllerId UNKNOWN_CONTROLLER_ID fatal "the controller id is not known";
    117 UnknownSubscriptionId UNKNOWN_SUBSCRIPTION_ID fatal "the telemetry subscription is old or unknown";
    118 TelemetryTooLarge TELEMETRY_TOO_LARGE fatal "the telemetry is larger than the broker accepts";
    119 InvalidRegistration INVALID_REGISTRATION fatal "the controller refuses the broker's registration";
    120 TransactionAbortable TRANSACTION_ABORTABLE fatal "the transaction failed and can be aborted";
    121 InvalidRecordState INVALID_RECORD_STATE fatal "the state of the record does not allow this";
    122 ShareSessionNotFound SHARE_SESSION_NOT_FOUND retriable "the share session does not exist";
    123 InvalidShareSessionEpoch INVALID_SHARE_SESSION_EPOCH retriable "the epoch of the share session is another";
    124 FencedStateEpoch FENCED_STATE_EPOCH fatal "the epoch of the share group's state is another";
    125 InvalidVoterKey INVALID_VOTER_KEY fatal "the voter's key is another";
    126 DuplicateVoter DUPLICATE_VOTER fatal "the voter exists already";
    127 VoterNotFound VOTER_NOT_FOUND fatal "the voter does not exist";
    128 InvalidRegularExpression INVALID_REGULAR_EXPRESSION fatal "the regular expression is not valid";
    129 RebootstrapRequired REBOOTSTRAP_REQUIRED fatal "the client's metadata is too old: bootstrap again";
    130 StreamsInvalidTopology STREAMS_INVALID_TOPOLOGY fatal "the topology is invalid";
    131 StreamsInvalidTopologyEpoch STREAMS_INVALID_TOPOLOGY_EPOCH fatal "the epoch of the topology is invalid";
    132 StreamsTopologyFenced STREAMS_TOPOLOGY_FENCED fatal "the epoch of the topology is old";
    133 ShareSessionLimitReached SHARE_SESSION_LIMIT_REACHED retriable "the broker has no room for another share session";
    134 GroupDeletionFailed GROUP_DELETION_FAILED fatal "the group cannot be deleted";
    135 StreamsTopologyDescriptionUpdateFailed STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED fatal "the description of the topology cannot be stored";
    136 ControllerIdNotRegistered CONTROLLER_ID_NOT_REGISTERED fatal "no controller of this id is registered";
}

impl ErrorCode {
    /// `Ok` for code 0, otherwise the error with this code.
    pub fn check(code: i16) -> Result<(), Self> {
        match Self::from_code(code) {
            Self::None => Ok(()),
            error => Err(error),
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.name(), self.code(), self.message())
    }
}

impl std::error::Error for ErrorCode {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_survives_the_round_trip() {
        for code in i16::MIN..=i16::MAX {
            assert_eq!(ErrorCode::from_code(code).code(), code);
        }
    }

    #[test]
    fn an_unknown_code_is_named_and_not_retried() {
        let error = ErrorCode::from_code(9999);
        assert_eq!(error, ErrorCode::Unknown(9999));
        assert_eq!(error.to_string(), "UNKNOWN_CODE_9999 (9999): an error that this client does not know");
        assert!(!error.is_retriable());
        assert_eq!((error.name(), ErrorCode::from_code(-2).name()), ("UNKNOWN_CODE_9999", "UNKNOWN_CODE_-2"));
    }
}
