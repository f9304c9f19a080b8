"""Arguments that methods of the same name have in other clients, by method, with the replacement.

A class stands for its own call.
"""

_SECONDS = "timeout=1.0, in seconds"

_PARTITIONS = "topics={'orders': 3} makes a topic with 3 partitions, settings={'num.partitions': 3} is for all others"

_BY_QUERY = "read() takes it; here the query decides how its batches come"

ARGUMENTS: dict[str, dict[str, str]] = {
    "Broker": {
        "broker_count": "nodes=3",
        "brokers": "nodes=3",
        "config": "settings={'num.partitions': 3}",
        "num_brokers": "nodes=3",
        "num_partitions": _PARTITIONS,
        "partitions": _PARTITIONS,
        "replicas": "settings={'default.replication.factor': 3}, and as many nodes=",
        "replication_factor": "settings={'default.replication.factor': 3}, and as many nodes=",
        "topic": "topics='orders:3', or topics={'orders': 3}",
    },
    "NewTopic": {
        "config": "configs={'retention.ms': 3600000}",
        "num_partitions": "partitions=3",
        "replica_assignment": "assignments={0: [1, 2]}",
        "replica_assignments": "assignments={0: [1, 2]}",
        "topic": "name='orders'",
        "topic_configs": "configs={'retention.ms': 3600000}",
    },
    "dataset": {
        "columns": "the query names them: dataset(...).to_table(columns=['key', 'value'])",
        "max_bytes": _BY_QUERY,
        "max_rows": _BY_QUERY + "; dataset(...).head(10) reads as few",
        "progress": _BY_QUERY,
        "where": "the query has it: dataset(...).to_table(filter=pc.field('partition') == 0), or .filter(...)",
    },
    "fault": {
        "apis": "api='Fetch', or api=['Fetch', 'Produce']",
        "delay": "delay_ms=500",
        "error_code": "error='NOT_LEADER_OR_FOLLOWER'",
        "fragment": "fragment_bytes=1",
        "latency_ms": "delay_ms=500",
        "throttle": "throttle_ms=1000",
        "times": "count=2",
        "truncate": "truncate_bytes=10",
    },
    "subscribe": {
        "on_assign": "on_assigned=f, which is called with the partitions alone",
        "on_revoke": "on_revoked=f, which is called with the partitions alone",
        "listener": "give its methods as on_assigned=, on_revoked= and on_lost=",
    },
    "scan": {
        "columns": "the query names them: scan(...).select('key', 'value')",
        "max_bytes": _BY_QUERY,
        "max_rows": _BY_QUERY + "; scan(...).head(10) reads as few",
        "progress": _BY_QUERY,
        "where": "the query has it: scan(...).filter(pl.col('partition') == 0)",
    },
    "poll": {
        "timeout_ms": _SECONDS,
        "max_records": "max_rows=n is the most records of a batch",
        "update_offsets": "the position moves with what is returned; seek() takes it back",
    },
    "commit": {
        "message": "commit(batch), or commit({(record.topic, record.partition): record.offset + 1})",
        "offsets": "give them as the first argument: commit({(topic, partition): offset})",
        "asynchronous": "commit() waits for the result; commit_async() does not",
        "timeout_ms": _SECONDS,
    },
    "commit_async": {
        "offsets": "give them as the first argument: commit_async({(topic, partition): offset})",
        "callback": "commit_async(...).add_done_callback(f) calls f with the future",
    },
    "close": {
        "autocommit": "what is finished is committed where enable.auto.commit is true",
        "timeout_ms": _SECONDS,
        "null_logger": "leave it out",
    },
    "seek": {
        "offset": "seek(('orders', 0), 42)",
        "tp": "seek(('orders', 0), 42)",
    },
    "beginning_offsets": {"timeout_ms": _SECONDS},
    "end_offsets": {"timeout_ms": _SECONDS},
    "offsets_for_times": {"timeout_ms": _SECONDS},
    "committed": {
        "metadata": "the result has offset, metadata and leader_epoch in any case",
        "timeout_ms": _SECONDS,
    },
    "send": {
        "callback": "on_delivery=f, which is called with the future",
        "on_error": "on_delivery=f, which is called with the future, whatever its outcome",
        "timestamp_ms": "timestamp=..., in milliseconds since 1970 or as an aware datetime",
    },
    "send_batch": {
        "partition": "a column partition names the partition of each row",
    },
}

ALONE: dict[str, str] = {
    "seek": "seek(('orders', 0), 42), with the position as the second argument",
}
"""Methods that take one argument in other clients, but two here."""

_END = "timeout=5.0 ends it after so many seconds without a record; a queue has no end that is known before"
BY_NAME = "share groups subscribe to names, such as subscribe(['jobs', 'mails'])"
NO_CALLBACKS = (
    'health()["group"]["assigned"] has the partitions, and on_event=f of the constructor sees joins and losses; rows '
    "in hand stay locked whatever is assigned"
)
_NO_OFFSETS = "a share group has no offsets of members: accept(record) decides, and commit() tells the brokers"

OF_SHARE_CONSUMER: dict[str, dict[str, str]] = {
    "batches": {"max_wait": "fetch.max.wait.ms and fetch.min.bytes say how long brokers wait", "until": _END},
    "close": {"autocommit": "what was decided is told to the brokers, and the rest released"},
    "commit": {"message": _NO_OFFSETS, "offsets": _NO_OFFSETS},
    "commit_async": {"message": _NO_OFFSETS, "offsets": _NO_OFFSETS},
    "poll": {"update_offsets": _NO_OFFSETS},
    "records": {"until": _END},
    "run": {
        "commit_interval": "each record is decided by itself, as soon as its handler has returned",
        "order": "a share group has no order; that of a key or a partition is kept by run() of a Consumer",
        "transaction": "a share group is at least once; run() of a Consumer has transactions",
        "until": _END,
    },
    "subscribe": {
        **dict.fromkeys(("exclude", "pattern", "server_pattern"), BY_NAME),
        **dict.fromkeys(("listener", "on_assign", "on_assigned", "on_lost", "on_revoke", "on_revoked"), NO_CALLBACKS),
    },
}
"""Arguments of other clients, and of a `Consumer`, that have another replacement in a `ShareConsumer`."""
