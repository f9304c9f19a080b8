"""What Spark's own source refuses, ours refuses with the same words; where it does not, ours says why."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.kafka import KafkaCluster
from tests.spark._support.sources import JVM, OURS, load, options_for

TOPIC = "spark-batch-errors"


@pytest.fixture(scope="module")
def refusing(kafka: KafkaCluster) -> KafkaCluster:
    """With a topic of two partitions, five records each."""
    kafka.helper.create_topic(TOPIC, partitions=2)
    kafka.helper.produce(TOPIC, [{"value": "x", "partition": n % 2} for n in range(10)])
    return kafka


def _offsets(first: int, second: int | None = None) -> str:
    return f'{{"{TOPIC}":{{"0":{first}' + ("}}" if second is None else f',"1":{second}}}}}')


# Words of the JVM source's error, which both sources must use.
SAME_WORDS: dict[str, tuple[dict[str, Any], str]] = {
    "nothing selected": ({}, "One of the following options must be specified for Kafka source: subscribe"),
    "two selections": (
        {"subscribe": TOPIC, "assign": f'{{"{TOPIC}":[0]}}'},
        "Only one of the following options can be specified for Kafka source",
    ),
    "blank topic": ({"subscribe": " "}, "No topics to subscribe to as specified value for option 'subscribe' is ' '"),
    "blank pattern": ({"subscribePattern": ""}, "Pattern to subscribe is empty as specified value for option"),
    "assign no JSON": ({"assign": "x"}, "No topicpartitions to assign as specified value for option 'assign' is 'x'"),
    "start latest": (
        {"subscribe": TOPIC, "startingOffsets": "latest"},
        "starting offset can't be latest for batch queries on Kafka",
    ),
    "start latest in one": (
        {"subscribe": TOPIC, "startingOffsets": _offsets(-1, 0)},
        f"startingOffsets for {TOPIC}-0 can't be latest for batch queries on Kafka",
    ),
    "end earliest": (
        {"subscribe": TOPIC, "endingOffsets": "earliest"},
        "ending offset can't be earliest for batch queries on Kafka",
    ),
    "end earliest in one": (
        {"subscribe": TOPIC, "endingOffsets": _offsets(-2, 0)},
        f"ending offset for {TOPIC}-0 can't be earliest for batch queries on Kafka",
    ),
    "partitions missing": (
        {"subscribe": TOPIC, "startingOffsets": _offsets(0)},
        "Partitions specified for Kafka start offsets don't match what are assigned.",
    ),
    "start behind end": (
        {"subscribe": TOPIC, "startingOffsets": _offsets(3, 0), "endingOffsets": _offsets(1, 5)},
        f"The specified start offset 3 is greater than the end offset 1 for topic {TOPIC} partition 0.",
    ),
    "start behind the log": (
        {"subscribe": TOPIC, "startingOffsets": _offsets(100, 0)},
        f"The resolved start offset 100 is greater than the resolved end offset 5 for topic {TOPIC} partition 0.",
    ),
    "no record as young": (
        {"subscribe": TOPIC, "startingTimestamp": 9_999_999_999_999},
        "No offset matched from request of topic-partition",
    ),
    "time no number": ({"subscribe": TOPIC, "startingTimestamp": "abc"}, "Expected a single long value, got abc"),
    "offsets no JSON": ({"subscribe": TOPIC, "startingOffsets": "x"}, 'Expected e.g. {"topicA":{"0":23,"1":-1}'),
    "no partitions": ({"subscribe": TOPIC, "minPartitions": 0}, "minPartitions must be positive"),
    "limits cross": (
        {"subscribe": TOPIC, "minOffsetsPerTrigger": 10, "maxOffsetsPerTrigger": 5},
        "The value of minOffsetPerTrigger(10) is higher than the maxOffsetsPerTrigger(5).",
    ),
    "offset reset": (
        {"subscribe": TOPIC, "kafka_auto_offset_reset": "earliest"},
        "Kafka option 'auto.offset.reset' is not supported.",
    ),
    "key deserializer": (
        {"subscribe": TOPIC, "kafka_key_deserializer": "x"},
        "Kafka option 'key.deserializer' is not supported as keys are deserialized as byte arrays",
    ),
    "value deserializer": (
        {"subscribe": TOPIC, "kafka_value_deserializer": "x"},
        "Kafka option 'value.deserializer' is not supported as values are deserialized as byte arrays",
    ),
    "auto commit": (
        {"subscribe": TOPIC, "kafka_enable_auto_commit": "true"},
        "Kafka option 'enable.auto.commit' is not supported",
    ),
    "interceptors": (
        {"subscribe": TOPIC, "kafka_interceptor_classes": "x"},
        "Kafka option 'interceptor.classes' is not supported",
    ),
}

# For these, Java's exceptions name no option; ours must name it.
BETTER_WORDS: dict[str, tuple[dict[str, Any], str]] = {
    "strategy": (
        {"subscribe": TOPIC, "startingOffsetsByTimestampStrategy": "sometimes"},
        "option 'startingOffsetsByTimestampStrategy' is 'sometimes': expected error or latest",
    ),
    "boolean": (
        {"subscribe": TOPIC, "failOnDataLoss": "maybe"},
        "option 'failOnDataLoss' is 'maybe': expected true or",
    ),
    "number": ({"subscribe": TOPIC, "minPartitions": "x"}, "option 'minPartitions' is 'x': expected a whole number"),
    "no such topic": ({"subscribe": "spark-absent"}, "spark-absent: the cluster does not know this topic"),
    "isolation": (
        {"subscribe": TOPIC, "kafka_isolation_level": "x"},
        "option 'kafka.isolation.level': isolation.level=\"x\": expected one of read_uncommitted, read_committed",
    ),
    "group end": ({"subscribe": TOPIC, "kafka_fetch_min_bytes": "x"}, "option 'kafka.fetch.min.bytes'"),
}


def _refusal(spark: SparkSession, source: str, options: dict[str, str]) -> str:
    with pytest.raises(Exception) as caught:  # noqa: PT011 (the words are judged by who asks; Spark's types vary)
        load(spark, source, options).collect()
    return " ".join(str(caught.value).split())


@pytest.mark.parametrize("case", SAME_WORDS)
def test_refused_with_the_same_words(spark: SparkSession, refusing: KafkaCluster, case: str) -> None:
    given, words = SAME_WORDS[case]
    options = options_for(refusing, **given)
    assert words in _refusal(spark, JVM, options)
    assert words in _refusal(spark, OURS, options)


@pytest.mark.parametrize("case", BETTER_WORDS)
def test_refused_with_better_words(spark: SparkSession, refusing: KafkaCluster, case: str) -> None:
    given, words = BETTER_WORDS[case]
    options = options_for(refusing, **given)
    _refusal(spark, JVM, options)
    assert words in _refusal(spark, OURS, options)


def test_without_servers(spark: SparkSession) -> None:
    words = "Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer"
    for source in (JVM, OURS):
        assert words in _refusal(spark, source, {"subscribe": TOPIC})


def test_a_partition_that_does_not_exist_is_never_left_out(spark: SparkSession, refusing: KafkaCluster) -> None:
    # Spark's own source reads the other partitions, and does not mention the missing one.
    words = f"{TOPIC}-7 does not exist; the topic has 2 partitions"
    assert words in _refusal(spark, OURS, options_for(refusing, assign=f'{{"{TOPIC}":[0,7]}}'))


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("value string", "column 'value' is binary, not string"),
        ("values binary", "there is no column 'values'"),
        ("value binary not null", "column 'value' cannot be NOT NULL"),
    ],
)
def test_a_schema_that_is_not_the_sources(spark: SparkSession, refusing: KafkaCluster, schema: str, words: str) -> None:
    reader = spark.read.format(OURS).options(**options_for(refusing, subscribe=TOPIC)).schema(schema)
    with pytest.raises(Exception, match=words):
        reader.load().collect()


def test_a_misspelt_option_names_the_nearest(spark: SparkSession, refusing: KafkaCluster) -> None:
    options = options_for(refusing, subscribe=TOPIC, startingOffset="earliest")
    assert "startingOffsets" in _refusal(spark, OURS, options)
