"""Table of metric families: names in Prometheus, and their sources in `metrics()` and `health()`."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

Kind = Literal["counter", "gauge"]
Role = Literal["consumer", "share_consumer", "producer", "admin"]

EVERY: tuple[Role, ...] = ("consumer", "share_consumer", "producer", "admin")
LIVE: tuple[Role, ...] = ("consumer", "share_consumer", "producer")
CONSUMER: tuple[Role, ...] = ("consumer",)
SHARE: tuple[Role, ...] = ("share_consumer",)
READER: tuple[Role, ...] = CONSUMER + SHARE
PRODUCER: tuple[Role, ...] = ("producer",)


class Family(NamedTuple):
    """A metric family with one value for each client."""

    name: str
    """Name without `_total`, which Prometheus appends to counters."""
    source: str
    """Key in `metrics()`, or for a gauge in `health()`; with the prefix `group.`, a key of its `group`."""
    kind: Kind
    roles: tuple[Role, ...]
    help: str


def _counters(roles: tuple[Role, ...], *rows: tuple[str, str, str]) -> list[Family]:
    return [Family(f"monedula_{name}", source, "counter", roles, text) for name, source, text in rows]


def _gauges(roles: tuple[Role, ...], *rows: tuple[str, str, str]) -> list[Family]:
    return [Family(f"monedula_{name}", source, "gauge", roles, text) for name, source, text in rows]


FAMILIES: tuple[Family, ...] = (
    *_counters(
        EVERY,
        ("connections_opened", "connections_opened", "Connections established."),
        ("connections_closed", "connections_closed", "Connections closed because they broke, timed out or were idle."),
        ("connections_failed", "connections_failed", "Failed attempts to connect, those to authenticate among them."),
        ("requests_sent", "requests_sent", "Requests sent."),
        ("responses_received", "responses_received", "Responses received."),
        ("received_bytes", "bytes_received", "Bytes received."),
        ("metadata_updates", "metadata_updates", "Metadata responses."),
        ("throttled_responses", "throttled", "Responses with a quota throttle time."),
    ),
    *_counters(
        READER,
        ("fetches_sent", "fetches_sent", "Fetch requests sent."),
        ("fetches_empty", "fetches_empty", "Fetch responses without a record."),
        ("records_delivered", "records_delivered", "Records handed out."),
        ("records_dropped", "records_dropped", "Records dropped since their key or value cannot be decoded."),
        ("records_with_nulls", "records_with_nulls", "Rows with nulls since their key or value cannot be decoded."),
        ("delivered_bytes", "bytes_delivered", "Bytes of the Arrow columns handed out."),
        ("batches_delivered", "batches_delivered", "Batches handed out."),
        ("budget_waits", "budget_waits", "How often a fetch had to wait for queued.max.bytes."),
    ),
    *_counters(
        READER,
        ("run_handled_records", "run_handled", "Records that the handler of run() has handled."),
        ("run_retries", "run_retries", "Failed calls of the handler of run() that were tried again."),
        ("run_dead_letters", "run_dead_letters", "Records that failed, and were written to the dead letter topic."),
        ("run_skipped_records", "run_skipped", "Records that failed, and were skipped because on_error said so."),
        ("run_abandoned", "run_abandoned", "How often run() waited no longer for a handler."),
    ),
    *_counters(
        CONSUMER,
        ("records_filtered", "records_filtered", "Records left out since they do not meet where=."),
        ("positions_lost", "positions_lost", "Positions that were reset because the log no longer held them."),
    ),
    *_counters(
        PRODUCER + SHARE,
        (
            "records_acknowledged",
            "records_acknowledged",
            "Records acknowledged: by brokers, or in a share group to them.",
        ),
    ),
    *_counters(
        SHARE,
        (
            "records_unacknowledged",
            "unacknowledged_records",
            "Records whose acknowledgement took no effect, or may not have; they may be delivered again.",
        ),
        ("run_released_records", "run_released", "Records that failed, and were released to be delivered again."),
        ("run_rejected_records", "run_rejected", "Records that failed, and were rejected because on_error said so."),
    ),
    *_counters(
        PRODUCER,
        ("batches_sent", "batches_sent", "Record batches sent, including retries."),
        ("sent_bytes", "bytes_sent", "Bytes of the record batches sent, including retries."),
        ("records_failed", "records_failed", "Records that could not be delivered."),
    ),
    *_counters(
        CONSUMER,
        ("group_rebalances", "group_rebalance_count", "Rebalances completed."),
        ("group_rebalance_seconds", "group_rebalance_seconds_total", "Seconds spent in rebalances."),
        ("group_joins", "group_join_count", "JoinGroup requests answered."),
        ("group_join_seconds", "group_join_seconds_total", "Seconds between JoinGroup requests and their answers."),
        ("group_syncs", "group_sync_count", "SyncGroup requests answered."),
        ("group_sync_seconds", "group_sync_seconds_total", "Seconds between SyncGroup requests and their answers."),
        ("group_heartbeats", "group_heartbeat_count", "Heartbeats answered."),
        ("group_heartbeat_seconds", "group_heartbeat_seconds_total", "Seconds between heartbeats and their answers."),
        ("group_commits", "group_commit_count", "Commits answered."),
        ("group_commit_seconds", "group_commit_seconds_total", "Seconds between commits and their answers."),
        ("group_commit_failed_partitions", "group_commit_failed_partitions", "Partitions whose commit failed."),
        ("group_callbacks", "group_callbacks", "Rebalance callbacks called."),
        ("group_coordinators_lost", "group_coordinators_lost", "How often the coordinator was lost."),
        ("group_events_lost", "group_events_lost", "Events that were dropped because on_event did not keep up."),
        ("group_lease_expiries", "group_lease_expiries", "How often heartbeats failed until the lease was over."),
        ("group_losses_waited_for", "group_losses_waited_for", "Losses of members whose return was waited for."),
        ("group_partitions_gained", "group_partitions_gained", "Partitions newly assigned."),
        ("group_partitions_revoked", "group_partitions_revoked", "Partitions revoked."),
        ("group_partitions_lost", "group_partitions_lost", "Partitions lost without a revocation."),
        ("group_records_stalled", "group_records_stalled", "Records not handed out because the lease was over."),
        ("group_retried_errors", "group_retried_errors", "Errors of the membership that were retried."),
        ("landing_rows", "landing_rows", "Rows that a landing job has committed."),
        ("landing_files", "landing_files", "Data files that a landing job has committed."),
        ("landing_file_bytes", "landing_bytes", "Bytes of the data files that a landing job has committed."),
        ("landing_commits", "landing_commits", "Commits of a landing job."),
        ("landing_conflicts", "landing_conflicts", "How often another worker was first, and rows were read anew."),
        (
            "landing_discarded_rows",
            "landing_discarded_rows",
            "Rows that a landing job has discarded to read them anew.",
        ),
        ("landing_bad_records", "landing_bad_records", "Records that cannot be decoded and became rows with _error."),
        ("landing_dead_letters", "landing_dead_letters", "Records of a landing job's commits that are dead letters."),
    ),
    *_gauges(
        LIVE,
        ("connections", "connections", "Open connections."),
        ("brokers", "brokers", "Brokers known from metadata."),
        (
            "certificate_expiry_timestamp_seconds",
            "certificate_expires",
            "When the client's own certificate expires, as a Unix time; only with one.",
        ),
        ("failing_seconds", "failing_for", "For how long no broker has answered; 0 while one does."),
    ),
    *_gauges(
        READER,
        ("group_unknown_topics", "group.unknown_topics", "Subscribed topics that do not exist."),
        ("budget_used_bytes", "budget_used_bytes", "Bytes of queued.max.bytes in use."),
        ("budget_bytes", "budget_bytes", "queued.max.bytes."),
        ("run_in_flight", "run_in_flight", "Records whose handler runs now."),
        ("run_waiting", "run_waiting", "Records that wait for a handler, retries included."),
        ("run_waiting_bytes", "run_waiting_bytes", "Bytes of the records that wait or are handled."),
        ("run_oldest_seconds", "run_oldest_seconds", "For how long the oldest call of a handler has run."),
    ),
    *_gauges(
        SHARE,
        ("records_in_hand", "rows_in_hand", "Records handed out of which nothing was decided yet."),
        ("group_assigned_partitions", "group.assigned", "Partitions from which the member is given records."),
    ),
    *_gauges(
        CONSUMER,
        ("group_owned_partitions", "group.owned", "Partitions that the member owns."),
        ("group_pending_commits", "group.pending_commits", "Commits without an answer."),
        ("group_last_heartbeat_seconds", "group.last_heartbeat_ago", "Seconds since the last heartbeat was answered."),
        ("group_lease_seconds", "group.lease_left", "Seconds until nothing is handed out without a heartbeat."),
        ("group_rebalance_seconds_max", "group_rebalance_seconds_max", "The longest rebalance."),
        ("group_commit_seconds_max", "group_commit_seconds_max", "The longest commit."),
        ("group_partitions_reserved", "group_partitions_reserved", "Partitions reserved for lost members."),
        ("landing_pending_rows", "landing_pending_rows", "Rows that a landing job has not committed yet."),
        (
            "landing_last_commit_seconds",
            "landing_last_commit_seconds",
            "Seconds since the last commit of a landing job, or since it began.",
        ),
        (
            "landing_pending_seconds",
            "landing_pending_seconds",
            "For how long a landing job has had something to commit, or to begin; 0 if there is nothing.",
        ),
        (
            "landing_commit_interval_seconds",
            "landing_commit_interval_seconds",
            "Seconds after which a landing job commits, as it was told.",
        ),
        (
            "landing_freshness_seconds",
            "landing_freshness_seconds",
            "Seconds from the timestamp of the newest record of a landing job's last commit to that commit.",
        ),
    ),
    *_gauges(
        PRODUCER,
        ("memory_used_bytes", "memory_used_bytes", "Bytes of buffer.memory in use."),
        ("memory_bytes", "memory_bytes", "buffer.memory."),
        ("sends_waiting_for_room", "waiting_for_room", "Sends that wait for room in buffer.memory."),
        ("records_unfinished", "records_unfinished", "Records without an outcome."),
        ("requests_in_flight", "requests_in_flight", "Produce requests without an answer."),
        ("batches_in_flight", "batches_in_flight", "Record batches without an answer."),
    ),
)

RETRIED_ERRORS = "monedula_retried_errors"
GROUP_STATE = "monedula_group_state"
STOPPED_PARTITIONS = "monedula_consumer_stopped_partitions"
PAUSED_PARTITIONS = "monedula_consumer_paused_partitions"
LAG = "monedula_consumer_lag_records"
FINISHED_LAG = "monedula_consumer_finished_lag_records"
POSITION = "monedula_consumer_position"
LOG_END_OFFSET = "monedula_consumer_log_end_offset"
QUEUED_RECORDS = "monedula_consumer_queued_records"
QUEUED_BYTES = "monedula_consumer_queued_bytes"

OTHER_HELP: Mapping[str, str] = {
    RETRIED_ERRORS: "Errors that were retried instead of raised, by name.",
    GROUP_STATE: "1 for the state that the group membership is in.",
    STOPPED_PARTITIONS: "Assigned partitions that stopped with an error.",
    PAUSED_PARTITIONS: "Assigned partitions that are paused.",
    LAG: "Offsets between the position and the end of the log, as of the last fetch.",
    FINISHED_LAG: "Offsets between the first record that is not finished and the end of the log; only in a group.",
    POSITION: "The offset of the next record to hand out.",
    LOG_END_OFFSET: "The end of the log, as of the last fetch.",
    QUEUED_RECORDS: "Records fetched and not handed out.",
    QUEUED_BYTES: "Bytes fetched and not handed out.",
}
"""Help texts of the families with further labels."""


def value_of(family: Family, metrics: Mapping[str, float], health: Mapping[str, Any]) -> float | None:
    """Return the value of a family for a client; `None` if it has none, such as a lease without a membership."""
    if family.source in metrics:
        return metrics[family.source]
    holder: Mapping[str, Any] | None = health
    name = family.source
    if name.startswith("group."):
        holder, name = health.get("group"), name.removeprefix("group.")
    if holder is None or name not in holder:
        return None
    value = holder[name]
    if value is None:
        return 0.0 if name == "failing_for" else None
    return float(len(value)) if isinstance(value, (list, tuple, set)) else float(value)
