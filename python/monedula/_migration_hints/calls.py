"""Methods and attributes of other clients that have another name here, by our class, with the replacement."""

_CREDENTIALS = (
    "make a new client with the new password; tokens that change come from the function of the setting "
    "sasl.oauthbearer.token.provider"
)
_CONNECTED = 'health()["bootstrapped"] says whether the cluster was reached; nothing needs to be called before'
_CLUSTER_ID = "Admin(settings).describe_cluster().cluster_id"
_CLOSE = "close() does it, and so does leaving a with block"
_FIELD = (
    "this is a batch of records: batch.records() yields them one by one, each with topic, partition, offset, key, value"
)
_NOT_YET = "it cannot be done with monedula yet; Kafka's own {} can"

_OF_SHARE = "monedula.ShareConsumer has it, for share groups; a consumer group has finish(batch) and commit()"
_DECIDE = "accept, release, reject and renew are methods of the ShareConsumer, such as consumer.accept({})"

_NO_POSITIONS = (
    "a share group has no positions of members; Admin(settings).reset_group_offsets(group, ...) moves a group without "
    "members"
)

CALLS: dict[str, dict[str, str]] = {
    "Consumer": {
        **dict.fromkeys(("accept", "acknowledge", "reject", "release", "renew"), _OF_SHARE),
        "bootstrap": _CONNECTED,
        "bootstrap_connected": _CONNECTED,
        "cluster_id": _CLUSTER_ID,
        "commit_sync": "commit() waits for the result",
        "consume": "poll(timeout, max_rows=n) returns a batch of up to n records",
        "consumer_group_metadata": "group_metadata()",
        "current_lag": "lag(partition)",
        "get_watermark_offsets": "beginning_offsets([partition]) and end_offsets([partition])",
        "getmany": "poll(timeout, max_rows=n) returns one batch; batches() yields them",
        "getone": "records() yields records one by one; anext(consumer.records()) is one of them",
        "highwater": "end_offsets([partition]) asks for it; lag(partition) knows it from the last fetch",
        "incremental_assign": "a subscription assigns by itself; by hand, assign() takes all partitions at once",
        "incremental_unassign": "a subscription revokes by itself; by hand, assign() takes all partitions at once",
        "last_poll_timestamp": "note the time in your own loop; nothing else polls",
        "last_stable_offset": "end_offsets([partition]) with isolation.level=read_committed",
        "list_topics": "Admin(settings).list_topics(), or partitions_of('orders') for the partitions of one topic",
        "memberid": "group_metadata().member_id",
        "partitions_for": "partitions_of('orders')",
        "partitions_for_topic": "partitions_of('orders')",
        "seek_to_committed": "rewind() for all partitions, seek(partition, 'committed') for one",
        "set_sasl_credentials": _CREDENTIALS,
        "start": "nothing is to be started: the first call connects; `async with` closes at the end",
        "stop": _CLOSE,
        "store_offsets": "finish(batch), as taking the next batch does; auto-commit commits what is finished",
        "topics": "Admin(settings).list_topics()",
    },
    "ShareConsumer": {
        "acknowledge": "accept(batch), release(batch, rows) and reject(batch, rows), or of a Record",
        "acknowledge_offset": "what cannot be decoded is released by itself; reject(record) is for the others",
        "acquisition_lock_timeout_ms": "batch.deadline is when the first lock ends; those of rows in hand are renewed",
        "assign": _NO_POSITIONS,
        "assignment": 'health()["group"]["assigned"]',
        "client_instance_id": 'health()["client_instance_id"]',
        "commit_sync": "commit() waits for the outcomes, and returns the number of rows by partition",
        "committed": _NO_POSITIONS,
        "consume": "poll(timeout, max_rows=n) returns a batch of up to n records",
        "finish": "accept(batch); asking for the next batch does it by itself",
        "lag": "Admin(settings).group_lag(group)",
        "pause": "nothing is fetched while no call waits; max.poll.records bounds what one brings",
        "position": _NO_POSITIONS,
        "resume": "nothing is fetched while no call waits; max.poll.records bounds what one brings",
        "rewind": _NO_POSITIONS,
        "seek": _NO_POSITIONS,
        "seek_to_beginning": _NO_POSITIONS,
        "seek_to_end": _NO_POSITIONS,
        "set_acknowledgement_commit_callback": (
            "commit() raises AcknowledgeError; commit_async().add_done_callback(f) calls f with the outcome"
        ),
        "set_sasl_credentials": _CREDENTIALS,
        "start": "nothing is to be started: the first call connects; `async with` closes at the end",
        "stop": _CLOSE,
    },
    "Producer": {
        "bootstrap_connected": _CONNECTED,
        "cluster_id": _CLUSTER_ID,
        "create_batch": "send(...) makes batches by itself; send_many(topic, records) sends a list of them",
        "list_topics": "Admin(settings).list_topics(), or partitions_for('orders') for the partitions of one topic",
        "max_usable_produce_magic": "records always have format 2",
        "poll": "nothing is to be polled: callbacks run in a thread of their own; flush() waits for all of them",
        "produce": "send(topic, value, key=..., on_delivery=f), where f is called with the future",
        "produce_batch": "send_many(topic, [(key, value), ...]), or send_batch(table, topic) for a whole table",
        "purge": "close(0) gives up what is not acknowledged",
        "send_and_wait": "await send(...), or send(...).result()",
        "send_offsets_to_transaction": "send_offsets(consumer), or `with producer.transaction(consumer):`",
        "set_sasl_credentials": _CREDENTIALS,
        "start": "nothing is to be started: the first call connects; `async with` closes at the end",
        "stop": _CLOSE,
    },
    "Admin": {
        "alter_consumer_group_offsets": "alter_group_offsets(group, {(topic, partition): offset})",
        "api_versions": "versions are negotiated with each broker by itself",
        "cluster_id": "describe_cluster().cluster_id",
        "delete_consumer_groups": "delete_groups(group)",
        "describe_consumer_groups": "describe_groups(group)",
        "describe_features": _NOT_YET.format("kafka-features.sh"),
        "describe_topic_partitions": "describe_topics(topic)",
        "find_coordinator": "describe_groups(group) has the coordinator",
        "get_broker_version_data": "versions are negotiated with each broker by itself",
        "incremental_alter_configs": "alter_configs(...), which changes the settings that it is given and no others",
        "list_consumer_group_offsets": "list_group_offsets(group)",
        "list_consumer_groups": "list_groups()",
        "list_partition_offsets": "list_offsets(...)",
        "poll": "nothing is to be polled: each call returns its result",
        "remove_group_members": _NOT_YET.format("kafka-consumer-groups.sh"),
        "reset_configs": "alter_configs(...) with None as the value goes back to the default",
        "set_sasl_credentials": _CREDENTIALS,
        "start": "nothing is to be started: the first call connects; `async with` closes at the end",
        "update_features": _NOT_YET.format("kafka-features.sh"),
        "wait_for_topics": "create_topics() returns once the controller has made them; describe_topics() asks again",
    },
    "Topics": {"topics": "this is the dict: topic names are its keys, and [name].partitions is their number"},
    "CreatedTopic": {
        **dict.fromkeys(("result", "exception"), "the call has waited for the result, and raises if it failed"),
        "error_code": "errors are raised by the call, unless it has errors='return'",
    },
    "ClusterDescription": {"brokers": "nodes", "controller_id": "controller"},
    "Groups": {
        "valid": "this is the dict of all groups, by id",
        "result": "the call has waited for the result; this is the dict of all groups, by id",
    },
    "Broker": {
        "start": "it runs from Broker() on; `with Broker() as broker:` stops it at the end",
        "get_bootstrap_server": "bootstrap_servers",  # of testcontainers
        **dict.fromkeys(("close", "shutdown"), "stop(), or the end of `with Broker() as broker:`"),
        **dict.fromkeys(("address", "bootstrap_server", "port", "url"), "bootstrap_servers, with host and port"),
        **dict.fromkeys(("produce", "send"), "append(topic, [(key, value), ...]), or a Producer"),
        **dict.fromkeys(("clear", "reset"), "remove_faults(), delete_topic(topic), or another Broker()"),
        **dict.fromkeys(("end_offsets", "offsets"), "Admin(settings).list_offsets({(topic, 0): 'latest'})"),
        "lag": "Admin(settings).group_lag(group)",
        "list_topics": "Admin(settings).list_topics()",
        **dict.fromkeys(("wait", "wait_for"), "observe(api='Produce', topic=topic) first, then wait(count) on it"),
        **dict.fromkeys(
            ("consume", "get_messages", "get_records", "messages", "read", "records"),
            'monedula.read({"bootstrap.servers": broker.bootstrap_servers}, topic)',
        ),
        "topics": "Admin(settings).list_topics()",
    },
    "Batch": {
        **dict.fromkeys(("accept", "acknowledge", "reject", "release", "renew"), _DECIDE.format("batch")),
        **dict.fromkeys(("ack", "commit"), "consumer.commit(batch)"),
        "error": "errors are raised by the call that reads; " + _FIELD,
        **dict.fromkeys(("headers", "key", "offset", "partition", "timestamp", "topic", "value"), _FIELD),
        **dict.fromkeys(
            ("items", "keys", "values"),
            "one batch has the records of all partitions; batch.records() yields them",
        ),
        **dict.fromkeys(
            ("column", "columns", "column_names", "filter", "to_pydict", "to_pylist"),
            "batch.to_pyarrow() is a RecordBatch of pyarrow, which has it",
        ),
    },
    "Record": {
        **dict.fromkeys(("accept", "ack", "acknowledge", "reject", "release", "renew"), _DECIDE.format("record")),
        "error": "there is none: errors are raised by the call that reads",
        "checksum": "checksums are verified for whole batches, see check.crcs",
        "latency": "a producer's metrics() have it",
        "leader_epoch": "batch.spans have the leader epoch of each run of rows",
        **dict.fromkeys(("deserialized_key", "deserialized_value"), "record.key and record.value are bytes to decode"),
        "serialized_key_size": "len(record.key)",
        "serialized_value_size": "len(record.value)",
    },
    "SendFuture": {
        "get": "result(timeout), in seconds",
        **dict.fromkeys(
            ("add_callback", "add_errback", "add_both"),
            "add_done_callback(f), which calls f with the future",
        ),
        "failed": "done() and exception() is not None",
        "is_done": "done()",
        "succeeded": "done() and exception() is None",
    },
}
