//! The kinds of log events: their stable names, their parts of the client, and their levels.

use super::{EventKind, Level};

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident: $part:literal $name:literal $level:ident $($repeats:ident)?;)*) => {
        $($(#[$doc])* pub const $kind: EventKind =
            EventKind { name: $name, part: $part, level: Level::$level, is_limited: kinds!(@ $($repeats)?) };)*

        /// Every kind.
        pub const ALL: &[EventKind] = &[$($kind,)*];
    };
    (@ limited) => { true };
    (@) => { false };
}

kinds! {
    /// A setting does nothing, or is outdated.
    CONFIG_WARNING: "config" "config_warning" Warning;

    /// An attempt to connect begins.
    CONNECTING: "network" "connecting" Debug;
    /// A connection stands.
    CONNECTED: "network" "connected" Debug;
    /// The first connection of the client stands.
    FIRST_CONNECTED: "network" "first_connected" Info;
    /// A connection to an address stands again, after attempts that failed.
    CONNECTED_AGAIN: "network" "connected_again" Info;
    /// An attempt to connect failed; another follows.
    CONNECTION_FAILED: "network" "connection_failed" Warning limited;
    /// The brokers of old metadata are forgotten, and `bootstrap.servers` is asked again.
    REBOOTSTRAPPED: "network" "rebootstrapped" Warning limited;

    /// A request was sent.
    REQUEST_SENT: "connection" "request_sent" Debug;
    /// A response was received.
    RESPONSE_RECEIVED: "connection" "response_received" Debug;
    /// A connection ended, and nothing waited for it.
    CONNECTION_CLOSED: "connection" "connection_closed" Debug;
    /// A connection ended with requests in flight.
    CONNECTION_LOST: "connection" "connection_lost" Info limited;
    /// A connection that was given up cannot be reset.
    RESET_FAILED: "connection" "reset_failed" Debug;
    /// A broker asks for a pause, because a quota is exceeded.
    THROTTLED: "connection" "throttled" Info limited;
    /// A response is larger than `receive.message.max.bytes`.
    RESPONSE_TOO_LARGE: "connection" "response_too_large" Warning limited;
    /// A response for which there is no memory.
    NO_MEMORY: "connection" "no_memory" Warning limited;

    /// A SASL login succeeded.
    LOGGED_IN: "login" "logged_in" Debug;
    /// A connection was authenticated again (KIP-368).
    REAUTHENTICATED: "login" "reauthenticated" Debug;
    /// A connection could not be authenticated again, and is replaced.
    REAUTHENTICATION_FAILED: "login" "reauthentication_failed" Warning limited;
    /// Certificates or keys were read again.
    CERTIFICATES_CHANGED: "tls" "certificates_changed" Info;
    /// Changed certificates or keys cannot be used; those from before are.
    CERTIFICATES_UNUSABLE: "tls" "certificates_unusable" Warning;
    /// Files of certificates and keys could not be read in time; what was read before is used.
    CERTIFICATES_UNREAD: "tls" "certificates_unread" Warning limited;

    /// A broker did not return metadata; the next one is asked.
    METADATA_FAILED: "metadata" "metadata_failed" Debug;

    /// A Fetch failed as a whole; it is repeated.
    FETCH_FAILED: "fetch" "fetch_failed" Info limited;
    /// A partition's position was moved, because the log no longer held it.
    POSITION_RESET: "fetch" "position_reset" Warning;
    /// Reading of a partition stopped.
    PARTITION_STOPPED: "fetch" "partition_stopped" Warning;
    /// Records were left out since their key or value cannot be decoded.
    RECORDS_DROPPED: "fetch" "records_dropped" Warning limited;
    /// The schema registry cannot be asked, or answers with what no registry does.
    REGISTRY_FAILED: "registry" "registry_failed" Warning limited;
    /// The schema registry answers again.
    REGISTRY_ANSWERS: "registry" "registry_answers" Info;
    /// The end of a loop with `until` is not known yet.
    END_UNKNOWN: "fetch" "end_unknown" Warning limited;
    /// The task that fetches ended: a bug.
    FETCH_TASK_ENDED: "fetch" "fetch_task_ended" Warning;

    /// The member's state changed.
    STATE_CHANGED: "groups" "state_changed" Debug;
    /// The broker lacks KIP-848, so the classic protocol is used.
    FELL_BACK: "groups" "fell_back" Warning;
    /// The group's coordinator is known.
    COORDINATOR_FOUND: "groups" "coordinator_found" Debug;
    /// The group's coordinator has to be found again.
    COORDINATOR_LOST: "groups" "coordinator_lost" Info limited;
    /// A rebalance began.
    REBALANCE_STARTED: "groups" "rebalance_started" Info;
    /// The member joined.
    JOINED: "groups" "joined" Debug;
    /// The member has its assignment.
    ASSIGNED: "groups" "assigned" Info;
    /// The member has left the group.
    LEFT: "groups" "left" Info;
    /// A heartbeat was acknowledged.
    HEARTBEAT: "groups" "heartbeat" Trace;
    /// Offsets were committed.
    COMMITTED: "groups" "committed" Debug;
    /// The offsets of some partitions were not committed.
    COMMIT_FAILED: "groups" "commit_failed" Warning limited;
    /// Records of a share group were not acknowledged, or their locks not renewed.
    ACKNOWLEDGEMENT_FAILED: "groups" "acknowledgement_failed" Warning limited;
    /// A request of the group is repeated.
    GROUP_REQUEST_RETRIED: "groups" "group_request_retried" Debug;
    /// Partitions are to be revoked.
    REVOCATION_WANTED: "groups" "revocation_wanted" Debug;
    /// Partitions were lost.
    PARTITIONS_LOST: "groups" "partitions_lost" Warning;
    /// Partitions are reserved for members that were lost.
    PARTITIONS_RESERVED: "groups" "partitions_reserved" Info;
    /// Partitions are reserved no longer.
    RESERVATION_ENDED: "groups" "reservation_ended" Info;
    /// Nothing is handed out until a heartbeat is acknowledged.
    LEASE_EXPIRED: "groups" "lease_expired" Warning;
    /// Records are handed out again.
    LEASE_RENEWED: "groups" "lease_renewed" Info;
    /// The membership met an error, which the next call raises.
    GROUP_FAILED: "groups" "group_failed" Warning limited;
    /// A subscribed topic does not exist.
    TOPIC_MISSING: "groups" "topic_missing" Warning;
    /// A subscribed topic that did not exist is there.
    TOPIC_FOUND: "groups" "topic_found" Info;
    /// The topics of a pattern, or of ids, could not be looked up.
    TOPIC_LOOKUP_FAILED: "groups" "topic_lookup_failed" Warning limited;
    /// The committed offset at which a partition starts is not known yet.
    START_UNKNOWN: "groups" "start_unknown" Warning limited;
    /// Rows were dropped by their holder before they were finished.
    ROWS_UNFINISHED: "groups" "rows_unfinished" Warning;
    /// Settings of the group that do not fit together, or a call that does nothing.
    GROUP_WARNING: "groups" "group_warning" Warning;
    /// The leader could not compute an assignment yet.
    ASSIGNMENT_FAILED: "groups" "assignment_failed" Warning limited;

    /// Records are sent to a broker.
    BATCH_SENT: "producer" "batch_sent" Debug;
    /// A batch is too large for the broker, and is divided.
    BATCH_SPLIT: "producer" "batch_split" Info limited;
    /// A batch was refused for now, and is sent again.
    BATCH_RETRIED: "producer" "batch_retried" Debug;
    /// A Produce request got no response; it is repeated.
    PRODUCE_FAILED: "producer" "produce_failed" Info limited;
    /// A batch could not be compressed, and is sent as it is.
    NOT_COMPRESSED: "producer" "not_compressed" Warning limited;
    /// Records were not delivered.
    RECORDS_FAILED: "producer" "records_failed" Warning limited;
    /// A topic has no partitions yet, and is looked up again.
    TOPIC_UNKNOWN: "producer" "topic_unknown" Info limited;
    /// A topic that nothing was sent to for long is forgotten.
    TOPIC_FORGOTTEN: "producer" "topic_forgotten" Debug;
    /// A producer id is needed.
    IDENTITY_NEEDED: "producer" "identity_needed" Debug;
    /// Callbacks cannot be run any more.
    CALLBACKS_LOST: "producer" "callbacks_lost" Warning;
    /// Records were not delivered before the producer ended.
    RECORDS_LOST: "producer.end" "records_lost" Warning;
    /// Records failed, and nobody asked for their outcome before the interpreter ended.
    FAILURES_UNSEEN: "producer.end" "failures_unseen" Warning;

    /// The state of the transactional producer changed.
    TRANSACTION_STATE: "transaction" "transaction_state" Debug;
    /// The transactional producer cannot go on.
    TRANSACTION_FAILED: "transaction" "transaction_failed" Warning;
    /// A request of the transaction is repeated.
    TRANSACTION_RETRIED: "transaction" "transaction_retried" Info limited;

    /// A request of the admin client is repeated.
    ADMIN_RETRIED: "admin" "admin_retried" Debug;

    /// A broker asks for the client's metrics (KIP-714).
    METRICS_FIRST_WANTED: "telemetry" "metrics_first_wanted" Info;
    /// A broker asks again for the client's metrics, or for other ones.
    METRICS_WANTED: "telemetry" "metrics_wanted" Debug;
    /// Metrics could not be pushed to a broker.
    METRICS_NOT_PUSHED: "telemetry" "metrics_not_pushed" Info limited;
    /// A registered metric has no value; told once for each.
    METRIC_NOT_READ: "telemetry" "metric_not_read" Warning;

    /// A line of the embedded broker's log, at its own level.
    BROKER: "broker" "broker" Info;
}
