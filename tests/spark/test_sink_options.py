"""Options and columns of the sink, without a session."""

import logging
import pickle
from typing import Any

import pytest
from monedula import ConfigError
from monedula.spark.sink.options import SinkOptions
from monedula.spark.sink.sink import Sink
from pyspark.sql.types import ArrayType, BinaryType, DataType, StringType, StructField, StructType

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


def parse(**options: Any) -> SinkOptions:
    """Underscores stand for dots in names, as `kafka_client_id`."""
    return SinkOptions.parse({**SERVERS, **{name.replace("_", "."): value for name, value in options.items()}})


def refused(**options: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        parse(**options)
    return caught.value


def test_names_are_read_in_any_case_and_defaults_are_small() -> None:
    options = SinkOptions.parse({"KAFKA.Bootstrap.Servers": "h:1", "TOPIC": "orders"})
    assert options.topic == "orders"
    assert options.kafka == {
        "bootstrap.servers": "h:1",
        "buffer.memory": "33554432",
        "client.id": "spark-kafka-sink",
    }


def test_settings_of_kafka_go_to_the_producer_under_any_of_their_names() -> None:
    options = parse(kafka_acks="1", kafka_compression_type="zstd", kafka_client_id="me", kafka_linger_ms="20")
    assert {name: options.kafka[name] for name in ("acks", "compression.type", "client.id", "linger.ms")} == {
        "acks": "1",
        "compression.type": "zstd",
        "client.id": "me",
        "linger.ms": "20",
    }
    assert "buffer.memory" not in SinkOptions.parse({**SERVERS, "kafka.queue.buffering.max.kbytes": "65536"}).kafka


def test_options_can_be_pickled_and_show_no_settings() -> None:
    options = parse(kafka_client_id="secret")
    assert pickle.loads(pickle.dumps(options)) == options
    assert "secret" not in repr(options)


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("kafka.key.serializer", "x", "as keys are serialized with ByteArraySerializer."),
        ("kafka.value.serializer", "x", "as value are serialized with ByteArraySerializer."),
        ("kafka.transactional.id", "x", "a sink writes at least once"),
        ("kafka.transactional_id", "x", "a sink writes at least once"),
        ("kafka.interceptor.classes", "x", "no class of Java"),
        ("kafka.acks", "2", "acks"),
        ("kafka.partitioner.class", "com.example.Mine", "partitioner"),
        ("kafka.compresion.type", "lz4", "compression.type"),
        ("topics", "orders", "did you mean 'topic'?"),
        ("includeHeaders", "1", "true or false"),
    ],
)
def test_what_does_not_do_is_refused_in_words_that_help(option: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SinkOptions.parse({**SERVERS, option: value})
    assert said in str(caught.value)
    assert caught.value.key is not None


def test_contradictions_are_reported_on_the_driver() -> None:
    assert "enable.idempotence" in str(refused(kafka_enable_idempotence="true", kafka_acks="1"))


def test_servers_are_required() -> None:
    with pytest.raises(ConfigError, match="must be specified for configuring Kafka producer; settings of Kafka begin"):
        SinkOptions.parse({"bootstrap.servers": "localhost:9092", "topic": "orders"})


def test_options_of_a_source_and_of_spark_are_passed_along(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        parse(subscribe="a", startingOffsets="earliest", checkpointLocation="/x", path="/y", includeHeaders="true")
    assert caplog.messages == []


def test_what_has_no_effect_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        kafka = parse(kafka_metric_reporters="x", kafka_metrics_num_samples="3", mergeSchema="true").kafka
    assert caplog.messages == [
        "options that are not known are ignored: mergeschema",
        "options that this sink has no use for are left out: kafka.metric.reporters, kafka.metrics.num.samples",
    ]
    assert "metric.reporters" not in kafka


HEADER = StructType([StructField("key", StringType(), nullable=False), StructField("value", BinaryType())])


def sink(columns: dict[str, str | DataType], **options: str) -> Sink:
    schema = StructType()
    for name, type_ in columns.items():
        schema.add(name, type_)
    return Sink({**SERVERS, **options}, schema)


def test_columns_that_kafka_has_no_place_for_are_left_out() -> None:
    made = sink({"offset": "long", "value": "binary", "nonsense": "double", "key": "string"}, topic="orders")
    assert made.settings.columns == (("key", 3), ("value", 1))


def test_the_option_topic_goes_before_the_column_whatever_its_type() -> None:
    assert sink({"value": "string", "topic": "integer"}, topic="orders").settings.columns == (("value", 0),)
    assert sink({"value": "string", "topic": "string"}).settings.columns == (("topic", 1), ("value", 0))


def test_nullability_is_of_no_matter() -> None:
    made = sink({"value": "string", "headers": ArrayType(HEADER, containsNull=False)}, topic="orders")
    assert made.settings.columns == (("value", 0), ("headers", 1))


def test_a_sink_can_be_pickled() -> None:
    made = sink({"value": "string"}, topic="orders")
    assert pickle.loads(pickle.dumps(made)).settings == made.settings
