import logging
import pickle
import re
from typing import Any

import monedula
import pytest
from monedula import ConfigError, TopicPartition
from monedula.spark.source.bounds import Earliest, Latest, Offsets, Timestamp, Timestamps
from monedula.spark.source.options import COLUMNS, Assign, SourceOptions, Subscribe, SubscribePattern
from monedula.spark.source.schema import check_projection
from pyspark.sql.types import LongType, StructField, StructType

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def parse(**options: Any) -> SourceOptions:
    """Options over a topic; underscores stand for dots in names, as `kafka_client_id`."""
    dotted = {name.replace("_", "."): value for name, value in options.items()}
    return SourceOptions.parse({**SERVERS, "subscribe": "a", **dotted})


def refused(**options: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        parse(**options)
    return caught.value


def test_defaults_are_sparks() -> None:
    options = parse()
    assert options.selection == Subscribe(("a",))
    assert options.no_match == "error"
    assert options.fail_on_data_loss
    assert options.max_trigger_delay_ms == 900_000
    assert options.fetch_offset_num_retries == 3
    assert options.fetch_offset_retry_interval_ms == 1000
    assert options.poll_timeout_ms == 120_000
    assert options.group_id_prefix == "spark-kafka-source"
    assert not options.include_headers
    assert options.max_offsets_per_trigger is options.min_offsets_per_trigger is options.max_bytes_per_trigger is None
    assert options.min_partitions is options.max_partitions is options.max_records_per_partition is None
    assert options.columns is None
    assert options.batch_bounds() == (Earliest(), Latest())
    assert options.stream_start() == Latest()


def test_names_are_read_in_any_case() -> None:
    options = SourceOptions.parse(
        {"KAFKA.Bootstrap.Servers": "h:1", "SUBSCRIBE": "a", "MAXOFFSETSPERTRIGGER": "5", "failondataloss": "FALSE"}
    )
    assert options.kafka["bootstrap.servers"] == "h:1"
    assert options.max_offsets_per_trigger == 5
    assert not options.fail_on_data_loss


def test_options_can_be_pickled_and_show_no_settings() -> None:
    options = parse(kafka_client_id="secret", startingOffsets='{"a":{"0":5}}')
    assert pickle.loads(pickle.dumps(options)) == options
    assert "secret" not in repr(options)


def test_every_number_is_read() -> None:
    options = parse(
        maxOffsetsPerTrigger="100",
        minOffsetsPerTrigger="10",
        maxTriggerDelay="5s",
        maxBytesPerTrigger="64m",
        minPartitions="3",
        maxPartitions="7",
        maxRecordsPerPartition="1000",
        includeHeaders="true",
        fetchOffset_numRetries="5",
        fetchOffset_retryIntervalMs="0",
        kafkaConsumer_pollTimeoutMs="500",
        startingOffsetsByTimestampStrategy="LATEST",
    )
    assert (options.max_offsets_per_trigger, options.min_offsets_per_trigger) == (100, 10)
    assert (options.max_trigger_delay_ms, options.max_bytes_per_trigger) == (5000, 64 << 20)
    assert (options.min_partitions, options.max_partitions, options.max_records_per_partition) == (3, 7, 1000)
    assert options.include_headers
    assert (options.fetch_offset_num_retries, options.fetch_offset_retry_interval_ms) == (5, 0)
    assert options.poll_timeout_ms == 500
    assert options.no_match == "latest"


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("100ms", 100),
        ("10s", 10_000),
        ("15m", 900_000),
        ("2min", 120_000),
        ("1h", 3_600_000),
        ("1d", 86_400_000),
        ("250us", 0),
        ("5000us", 5),
        ("77", 77),
        (" 3S ", 3000),
        ("0", 0),
    ],
)
def test_times_are_read_as_spark_writes_them(text: str, milliseconds: int) -> None:
    assert parse(maxTriggerDelay=text).max_trigger_delay_ms == milliseconds


@pytest.mark.parametrize(
    ("text", "size"),
    [("77", 77), ("512k", 512 << 10), ("64MB", 64 << 20), ("1g", 1 << 30), ("2tb", 2 << 40), ("9b", 9)],
)
def test_sizes_are_read_as_spark_writes_them(text: str, size: int) -> None:
    assert parse(maxBytesPerTrigger=text).max_bytes_per_trigger == size


@pytest.mark.parametrize(
    ("option", "text", "expected"),
    [
        ("maxOffsetsPerTrigger", "many", "a whole number"),
        ("maxOffsetsPerTrigger", "1_000", "a whole number"),
        ("maxOffsetsPerTrigger", "1.5", "a whole number"),
        ("maxOffsetsPerTrigger", "٣", "a whole number"),
        ("maxOffsetsPerTrigger", "9223372036854775808", "a whole number"),
        ("minOffsetsPerTrigger", "-1", "a whole number from 0"),
        ("minPartitions", "2147483648", "a whole number"),
        ("maxRecordsPerPartition", "", "a whole number"),
        ("fetchOffset.numRetries", "0", "a whole number from 1"),
        ("kafkaConsumer.pollTimeoutMs", "2s", "a whole number"),
        ("failOnDataLoss", "yes", "true or false"),
        ("includeHeaders", "1", "true or false"),
        ("maxTriggerDelay", "soon", "a time such as"),
        ("maxTriggerDelay", "1 hour", "a time such as"),
        ("maxTriggerDelay", "-1s", "a time such as"),
        ("maxTriggerDelay", "9223372036854775807d", "a time such as"),
        ("maxBytesPerTrigger", "0", "a size such as"),
        ("maxBytesPerTrigger", "0.5g", "a size such as"),
        ("maxBytesPerTrigger", "64 m", "a size such as"),
        ("startingOffsetsByTimestampStrategy", "earliest", "error or latest"),
    ],
)
def test_a_value_that_does_not_do_is_refused_with_what_would(option: str, text: str, expected: str) -> None:
    error = refused(**{option: text})
    assert error.key == option
    assert f"option '{option}' is '{text}': expected {expected}" in str(error)


@pytest.mark.parametrize("option", ["minPartitions", "maxPartitions", "maxRecordsPerPartition", "maxOffsetsPerTrigger"])
@pytest.mark.parametrize("text", ["0", "-1"])
def test_limits_must_be_positive(option: str, text: str) -> None:
    assert str(refused(**{option: text})) == f"{option} must be positive"


def test_limits_that_contradict_each_other_are_refused() -> None:
    error = refused(minOffsetsPerTrigger="6", maxOffsetsPerTrigger="5")
    assert str(error) == "The value of minOffsetPerTrigger(6) is higher than the maxOffsetsPerTrigger(5)."
    error = refused(minPartitions="6", maxPartitions="5")
    assert str(error) == "minPartitions(6) is higher than maxPartitions(5)"


def test_topics_are_named_between_commas() -> None:
    assert parse(subscribe=" a,b ,,a").selection == Subscribe(("a", "b"))


def test_partitions_are_assigned() -> None:
    options = SourceOptions.parse({**SERVERS, "assign": ' {"a":[1,0]}'})
    assert options.selection == Assign((A0, A1))


def test_topics_are_subscribed_to_by_pattern() -> None:
    options = SourceOptions.parse({**SERVERS, "subscribePattern": " orders-.* "})
    assert options.selection == SubscribePattern("orders-.*")


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ({}, "One of the following options must be specified for Kafka source: "),
        ({"subscribe": "a", "assign": "{}"}, "Only one of the following options can be specified for Kafka source: "),
        ({"subscribe": " , "}, "No topics to subscribe to as specified value for option 'subscribe' is ' , '"),
        ({"subscribe": "['a', 'b']"}, "'['a'' is no topic's name; names are separated by commas"),
        ({"subscribe": "a,orders.*"}, "'orders.*' is no topic's name"),
        ({"assign": "a"}, "No topicpartitions to assign as specified value for option 'assign' is 'a'"),
        ({"assign": "{}"}, "No topicpartitions to assign as specified value for option 'assign' is '{}'"),
        ({"assign": '{"a":3}'}, 'Expected e.g. {"topicA":[0,1],"topicB":[0,1]}, got {"a":3}'),
        ({"subscribePattern": " "}, "Pattern to subscribe is empty as specified value for option 'subscribePattern'"),
    ],
)
def test_a_selection_that_cannot_be_is_refused_in_sparks_words(selection: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        SourceOptions.parse({**SERVERS, **selection})


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("auto.offset.reset", "Kafka option 'auto.offset.reset' is not supported. Instead set the source option"),
        ("auto_offset_reset", "Kafka option 'auto.offset.reset' is not supported"),
        (
            "key.deserializer",
            "Kafka option 'key.deserializer' is not supported as keys are deserialized as byte arrays",
        ),
        ("value.deserializer", "Kafka option 'value.deserializer' is not supported as values are deserialized as byte"),
        ("enable.auto.commit", "Kafka option 'enable.auto.commit' is not supported"),
        ("interceptor.classes", "Kafka option 'interceptor.classes' is not supported"),
    ],
)
def test_settings_that_spark_refuses_are_refused(setting: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        SourceOptions.parse({**SERVERS, "subscribe": "a", f"kafka.{setting}": "x"})
    assert caught.value.key == "kafka." + setting.replace("_", ".")


def test_bootstrap_servers_must_be_given() -> None:
    with pytest.raises(ConfigError, match=r"Option 'kafka\.bootstrap\.servers' must be specified for configuring"):
        SourceOptions.parse({"subscribe": "a", "bootstrap.servers": "h:1"})


def test_settings_go_to_the_client_with_defaults_for_spark() -> None:
    options = parse(kafka_fetch_max_bytes="1048576")
    assert options.kafka == {
        "bootstrap.servers": "localhost:9092",
        "fetch.max.bytes": "1048576",
        "client.id": "spark-kafka-source",
        "isolation.level": "read_uncommitted",
        "queued.max.bytes": "33554432",
    }
    monedula.Consumer(options.kafka).close()


def test_defaults_give_way_to_settings_of_any_name() -> None:
    settings = {"client.id": "me", "isolation.level": "read_committed", "queued.max.messages.kbytes": "4096"}
    options = parse(groupIdPrefix="us", **{f"kafka.{name}": value for name, value in settings.items()})
    assert options.kafka == {"bootstrap.servers": "localhost:9092", **settings}
    assert parse(groupIdPrefix="us").kafka["client.id"] == "us"


def test_settings_of_java_consumers_are_left_out_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    options = parse(kafka_max_poll_records="10000", kafka_session_timeout_ms="6000", kafka_metrics_num_samples="2")
    assert options.kafka.keys() == parse().kafka.keys()
    assert [record.getMessage() for record in caplog.records] == [
        (
            "options that this source has no use for are left out: "
            "kafka.max.poll.records, kafka.metrics.num.samples, kafka.session.timeout.ms"
        )
    ]


def test_a_group_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    assert "group.id" not in parse(kafka_group_id="g", groupIdPrefix="p").kafka
    messages = [record.getMessage() for record in caplog.records]
    assert "Kafka option 'kafka.group.id' has been set on this query, it is not recommended" in messages[0]
    assert messages[1] == "Option groupIdPrefix will be ignored as option kafka.group.id has been set."


def test_a_setting_that_the_client_refuses_is_an_error_that_names_the_option() -> None:
    error = refused(kafka_fetch_max_byte="5")
    assert error.key == "kafka.fetch.max.byte"
    assert str(error).startswith("option 'kafka.fetch.max.byte': ")
    assert "did you mean fetch.max.bytes?" in str(error)
    assert "no class is loaded" in str(refused(kafka_sasl_login_class="com.example.Login"))


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("startingOffset", "startingOffsets"),
        ("minOffsetPerTrigger", "minOffsetsPerTrigger"),
        ("maxOffsetPerTriggers", "maxOffsetsPerTrigger"),
        ("failOnDataLos", "failOnDataLoss"),
        ("column", "columns"),
        ("subscribes", "subscribe"),
    ],
)
def test_a_misspelt_option_names_the_nearest(option: str, meant: str) -> None:
    assert str(refused(**{option: "x"})).endswith(f"is not known; did you mean '{meant}'?")


def test_options_of_others_are_ignored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    parse(path="/x", topic="out", mergeSchema="true", bootstrap_servers="h:1")
    assert [record.getMessage() for record in caplog.records] == [
        "options that are not known are ignored: mergeschema, bootstrap.servers (did you mean kafka.bootstrap.servers?)"
    ]


def test_columns_come_in_the_schemas_order() -> None:
    assert parse().column_names() == COLUMNS[:-1]
    assert parse(includeHeaders="true").column_names() == COLUMNS
    options = parse(columns="Value, KEY,timestamptype")
    assert options.columns == options.column_names() == ("key", "value", "timestampType")
    assert parse(columns="value", includeHeaders="true").column_names() == ("value", "headers")
    assert parse(columns="headers").column_names() == ("headers",)


def test_columns_are_those_of_the_client() -> None:
    with monedula.Consumer({"bootstrap.servers": "localhost:9092"}, columns=COLUMNS) as consumer:
        assert tuple(consumer.schema.names) == COLUMNS


@pytest.mark.parametrize("text", ["", "value,,key", "payload"])
def test_a_column_that_is_none_is_refused(text: str) -> None:
    error = refused(columns=text)
    assert error.key == "columns"
    assert "timestampType" in str(error)


def test_the_start_of_a_stream_is_read() -> None:
    assert parse(startingOffsets="Earliest ").stream_start() == Earliest()
    assert parse(startingOffsets='{"a":{"0":-1,"1":-2}}').stream_start() == Offsets({A0: -1, A1: -2})
    assert parse(startingOffsetsByTimestamp='{"a":{"0":5}}').stream_start() == Timestamps({A0: 5})
    assert parse(startingTimestamp=" 5 ").stream_start() == Timestamp(5)


def test_one_time_comes_before_times_and_times_before_offsets() -> None:
    both = {"startingOffsets": "latest", "startingOffsetsByTimestamp": '{"a":{"0":5}}'}
    assert parse(**both).batch_bounds()[0] == Timestamps({A0: 5})
    assert parse(**both, startingTimestamp="7").stream_start() == Timestamp(7)
    assert parse(endingOffsets="junk", endingTimestamp="7").batch_bounds()[1] == Timestamp(7)


@pytest.mark.parametrize("text", ["soon", "1.5", "", "-5", "9223372036854775808", "1_0"])
def test_a_time_that_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="Expected a single long value, got"):
        parse(startingTimestamp=text).stream_start()


@pytest.mark.parametrize(
    ("option", "what"),
    [
        ("endingOffsets", "ending offset"),
        ("endingOffsetsByTimestamp", "ending timestamp"),
        ("endingTimestamp", "ending timestamp"),
    ],
)
def test_a_stream_has_no_end(option: str, what: str) -> None:
    with pytest.raises(ConfigError, match=f"{what} not valid in streaming queries"):
        parse(**{option: "latest"}).stream_start()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries on Kafka"),
        ({"startingOffsets": '{"a":{"0":-1}}'}, "startingOffsets for a-0 can't be latest for batch queries on Kafka"),
        ({"endingOffsets": "earliest"}, "ending offset can't be earliest for batch queries on Kafka"),
        ({"endingOffsets": '{"a":{"0":-2}}'}, "ending offset for a-0 can't be earliest for batch queries on Kafka"),
        (
            {"startingOffsets": '{"a":{"0":1}}', "endingOffsets": '{"a":{"0":1,"1":2}}'},
            "same topic-partitions. Topic-partitions for start offset: a-0, topic-partitions for end offset: a-0, a-1.",
        ),
        (
            {"startingOffsets": '{"a":{"0":2}}', "endingOffsets": '{"a":{"0":1}}'},
            "The specified start offset 2 is greater than the end offset 1 for topic a partition 0.",
        ),
        (
            {"startingOffsetsByTimestamp": '{"a":{"0":2}}', "endingOffsetsByTimestamp": '{"a":{"0":1}}'},
            "The specified start timestamp 2 is greater than the end timestamp 1 for topic a partition 0.",
        ),
    ],
)
def test_bounds_of_a_batch_that_cannot_be_are_refused_in_sparks_words(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        parse(**options).batch_bounds()


def test_bounds_of_a_batch_may_be_ends_of_the_log() -> None:
    options = parse(startingOffsets='{"a":{"0":-2,"1":5}}', endingOffsets='{"a":{"0":3,"1":-1}}')
    assert options.batch_bounds() == (Offsets({A0: -2, A1: 5}), Offsets({A0: 3, A1: -1}))


def test_limits_of_triggers_are_warned_of_in_batches(caplog: pytest.LogCaptureFixture) -> None:
    limits = {"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "1", "maxTriggerDelay": "1s"}
    with caplog.at_level(logging.WARNING, "monedula.spark"):
        parse(**limits, maxBytesPerTrigger="1g").batch_bounds()
    assert [record.getMessage() for record in caplog.records] == [
        f"{name} option ignored in batch queries" for name in [*limits, "maxBytesPerTrigger"]
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "FAILFAST"}, "option 'mode' is 'value.mode' here"),
        ({"timestampFormat": "yyyy"}, "option 'timestampFormat' is 'value.timestampFormat' here"),
        ({"value.deadLetter": "failed"}, "option 'value.deadletter' is not known; expected one of value.format"),
    ],
)
def test_options_of_from_json_have_the_name_of_their_column(options: dict[str, str], message: str) -> None:
    assert message in str(refused(**{"value.format": "json", **options}))


def test_a_corrupt_record_that_the_schema_lacks_is_no_mistake_in_spark() -> None:
    parsed = parse(**{"value.format": "json", "value.columnNameOfCorruptRecord": "bad"})
    schema = StructType([StructField("id", LongType())])
    assert parsed.typed[0].with_schema(schema.json()).decoder().spec.fields == ["id: int64"]


@pytest.mark.parametrize(
    ("typed", "field", "message"),
    [
        (
            (),
            StructField("value", StructType([StructField("id", LongType())])),
            r"add .option\('value.format', 'json'\)",
        ),
        ((), StructField("id", LongType()), r"Fields of JSON come with .option\('value.format', 'json'\)"),
        (("json",), StructField("id", LongType()), r"columns with .option\('value.flatten', 'true'\)"),
    ],
)
def test_a_schema_of_json_fields_says_which_options_they_need(
    typed: tuple[str, ...], field: StructField, message: str
) -> None:
    columns = parse(**{"value.format": "json"}).typed if typed else ()
    with pytest.raises(ConfigError, match=message):
        check_projection(StructType([field]), columns)


def test_a_registry_that_no_column_needs_is_told(caplog: pytest.LogCaptureFixture) -> None:
    given = {"kafka.bootstrap.servers": "x:1", "subscribe": "o", "kafka.schema.registry.url": "http://me:hush@x"}
    SourceOptions.parse({**given, "value.format": "avro", "value.subject": "s"})
    assert caplog.text == ""
    SourceOptions.parse(given)
    assert "settings are not used: kafka.schema.registry.url; the option value.format=avro" in caplog.text
    assert "hush" not in caplog.text
