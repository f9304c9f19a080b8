"""The pure parts of our source against the classes of Spark's own, call by call."""

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from monedula import ConfigError, TopicPartition
from monedula.spark.offsets import PartitionOffsets, from_dict, parse_assign, parse_offsets, parse_timestamps, to_dict
from monedula.spark.options.values import size_bytes, time_ms
from monedula.spark.source.limits import TriggerDelay, rate_limit
from monedula.spark.source.options import SourceOptions
from monedula.spark.source.pattern import topic_pattern
from monedula.spark.source.planning import OffsetRange, split

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster
from tests.spark._support.java_patterns import JavaPatterns
from tests.spark._support.jvm import SparkJvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SERVERS = {"kafka.bootstrap.servers": "localhost:1"}


@pytest.fixture(scope="module")
def jvm(spark: "SparkSession") -> SparkJvm:
    return SparkJvm(spark)


def accepted(reader: Any, *arguments: Any) -> Any:
    try:
        return reader(*arguments)
    except ConfigError:
        return None


def some_offsets(numbers: random.Random, largest: int) -> PartitionOffsets:
    names = ["t", "orders", "a-b.c_d"][: numbers.randrange(1, 4)]
    return {
        TopicPartition(name, index): numbers.choice([0, 1, numbers.randrange(largest)])
        for name in names
        for index in range(numbers.randrange(1, 14))
    }


@pytest.mark.parametrize("seed", range(10))
def test_checkpoints_are_read_by_each_others_source(jvm: SparkJvm, seed: int) -> None:
    offsets = some_offsets(random.Random(seed), 1 << 62)
    written = jvm.write_offsets(jvm.read_offsets(json.dumps(to_dict(offsets))))
    assert from_dict(json.loads(written)) == offsets


JSON_TEXTS = [
    '{"a":{"0":23,"1":-1},"b":{"0":-2}}',
    ' {"a":{"0":23}} ',
    '{"a":{"0":"23"}}',
    '{"a":{"10":1,"9":2}}',
    '{"a":{"+1":1}}',
    '{"a":{"01":1}}',
    '{"a":{}}',
    "{}",
    '{"a":{"0":9223372036854775807}}',
    '{"a":{"0":9223372036854775808}}',
    '{"a":{"2147483648":1}}',
    '{"a":{"0":1e3}}',
    '{"a":{"x":1}}',
    '{"a":[0]}',
    '{"a":[0,1],"b":[10]}',
    '{"a":["0"]}',
    '{"a":[]}',
    '{"a":[0.5]}',
    '{"a":3}',
    "[]",
    "[0]",
    "3",
    "earliest",
    "",
    '{"a":{"0":1}',
]


@pytest.mark.parametrize("text", JSON_TEXTS)
def test_what_we_read_in_json_spark_reads_alike(jvm: SparkJvm, text: str) -> None:
    for ours, theirs in (
        (accepted(parse_offsets, text, "startingOffsets"), jvm.read_offsets(text)),
        (accepted(parse_timestamps, text, "startingOffsetsByTimestamp"), jvm.read_timestamps(text)),
    ):
        assert ours is None or (theirs is not None and from_json(jvm.write_offsets(theirs)) == ours)
    partitions = accepted(parse_assign, text)
    assert partitions is None or set(partitions) == jvm.read_assign(text)


def from_json(text: str) -> PartitionOffsets:
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in json.loads(text).items()
        for partition, offset in partitions.items()
    }


@pytest.mark.parametrize("seed", range(60))
def test_ranges_are_split_as_spark_splits_them(jvm: SparkJvm, seed: int) -> None:
    numbers = random.Random(seed)
    largest = numbers.choice([10, 1000, 10**9, 1 << 55])
    ranges = []
    for index in range(numbers.randrange(1, 8)):
        start = numbers.randrange(largest)
        size = numbers.choice([0, 1, -1, numbers.randrange(largest), numbers.randrange(largest), largest])
        ranges.append(OffsetRange(TopicPartition("t", index), start, start + size))
    min_partitions = numbers.choice([None, 1, 3, 10, 97])
    max_records = numbers.choice([None, None, max(largest // 7, 1), largest // 3, largest])
    made = split(ranges, min_partitions, max_records)
    assert made == jvm.split(ranges, min_partitions, max_records)


@pytest.mark.parametrize("seed", range(40))
def test_offsets_are_limited_as_spark_limits_them(jvm: SparkJvm, seed: int) -> None:
    numbers = random.Random(seed)
    largest = numbers.choice([10, 1000, 1 << 40, 1 << 58])
    start = some_offsets(numbers, largest)
    latest = {each: offset + numbers.choice([-1, 0, 1, numbers.randrange(largest)]) for each, offset in start.items()}
    latest = {each: max(offset, 0) for each, offset in latest.items()}
    limit = numbers.choice([1, 7, 1000, largest, (1 << 63) - 1])
    arguments = [jvm.read_offsets(json.dumps(to_dict(offsets))) for offsets in (start, latest)]
    theirs = jvm.call_private(jvm.micro_batch_stream(), "rateLimit", [jvm.long(limit), *arguments])
    assert rate_limit(limit, start, latest, {}) == from_dict(json.loads(jvm.write_offsets(theirs)))


@pytest.mark.parametrize("seed", range(10))
def test_micro_batches_wait_as_long_as_sparks(jvm: SparkJvm, seed: int) -> None:
    numbers = random.Random(seed)
    stream, delay, now_ms = jvm.micro_batch_stream(), TriggerDelay(), 1_700_000_000_000
    for _ in range(12):
        now_ms += numbers.choice([0, 1, 30_000, 59_999, 60_000])
        start = {TopicPartition("t", 0): numbers.randrange(20)}
        latest = {each: offset + numbers.randrange(14) for each, offset in start.items()}
        latest |= {TopicPartition("t", 1): numbers.randrange(3)}
        given = [jvm.read_offsets(json.dumps(to_dict(offsets))) for offsets in (latest, start)]
        jvm.set_clock(now_ms)
        theirs = jvm.call_private(stream, "delayBatch", [jvm.long(10), *given, jvm.long(60_000)])
        assert delay.should_wait(10, 60_000, start, latest, now_ms) == theirs


@pytest.mark.parametrize(
    "text", ["100ms", "10s", "15m", "2min", "1h", "1d", "5000us", "77", " 3S ", "1 s", "x", "1.5s"]
)
def test_times_are_read_as_spark_reads_them(jvm: SparkJvm, text: str) -> None:
    assert accepted(time_ms, "maxTriggerDelay", text) == jvm.time_ms(text)


@pytest.mark.parametrize("text", ["77", "512k", "64MB", "1g", "2tb", "9b", "1p", "0.5g", "64 m", "1e", "x"])
def test_sizes_are_read_as_spark_reads_them(jvm: SparkJvm, text: str) -> None:
    assert accepted(size_bytes, "maxBytesPerTrigger", text) == jvm.size_bytes(text)


REFUSED_BY_SPARK: list[dict[str, str]] = [
    {},
    {"subscribe": "a", "assign": '{"a":[0]}'},
    {"subscribe": " ,"},
    {"assign": "a"},
    {"assign": '{"a":0}'},
    {"subscribePattern": " "},
    {"subscribe": "a", "minPartitions": "0"},
    {"subscribe": "a", "maxRecordsPerPartition": "-1"},
    {"subscribe": "a", "minOffsetsPerTrigger": "6", "maxOffsetsPerTrigger": "5"},
    {"subscribe": "a", "kafka.auto.offset.reset": "earliest"},
    {"subscribe": "a", "kafka.key.deserializer": "x"},
    {"subscribe": "a", "kafka.value.deserializer": "x"},
    {"subscribe": "a", "kafka.enable.auto.commit": "true"},
    {"subscribe": "a", "kafka.interceptor.classes": "x"},
]
REFUSED_IN_BATCHES: list[dict[str, str]] = [
    {"startingOffsets": "latest"},
    {"startingOffsets": "first"},
    {"startingOffsets": '{"a":{"0":-1}}'},
    {"endingOffsets": "earliest"},
    {"endingOffsets": '{"a":{"0":-2}}'},
    {"startingTimestamp": "soon"},
    {"endingTimestamp": "1.5"},
    {"startingOffsetsByTimestamp": '{"a":5}'},
    {"startingOffsets": '{"a":{"0":2}}', "endingOffsets": '{"a":{"0":1}}'},
    {"startingOffsets": '{"a":{"0":1}}', "endingOffsets": '{"b":{"0":1}}'},
    {"startingOffsetsByTimestamp": '{"a":{"0":2}}', "endingOffsetsByTimestamp": '{"a":{"0":1}}'},
]
REFUSED_IN_STREAMS = [{"endingOffsets": "latest"}, {"endingOffsetsByTimestamp": '{"a":{"0":1}}'}]


def sparks_error(reader: Any, options: dict[str, str]) -> str:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as caught:
        reader.format("kafka").options(**options).load()
    return " ".join(str(caught.value).splitlines())


def our_error(call: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        call()
    return str(caught.value)


def same_words(ours: str, theirs: str) -> bool:
    """Whether our message has Spark's in it; case, line ends and the class of the error aside."""

    def words(text: str) -> str:
        return " ".join(text.lower().split()).rstrip(". ")

    tail = words(theirs)
    return words(ours).endswith(tail) or words(ours) in tail or tail in words(ours)


@pytest.mark.parametrize("options", REFUSED_BY_SPARK)
def test_what_spark_refuses_we_refuse_in_its_words(spark: "SparkSession", options: dict[str, str]) -> None:
    theirs = sparks_error(spark.read, {**SERVERS, **options})
    ours = our_error(lambda: SourceOptions.parse({**SERVERS, **options}))
    assert same_words(ours, theirs), (ours, theirs)


@pytest.mark.parametrize("options", REFUSED_IN_BATCHES)
def test_bounds_that_spark_refuses_we_refuse_in_its_words(spark: "SparkSession", options: dict[str, str]) -> None:
    given = {**SERVERS, "subscribe": "a", **options}
    theirs = sparks_error(spark.read, given)
    assert same_words(our_error(SourceOptions.parse(given).batch_bounds), theirs), theirs


@pytest.mark.parametrize("options", REFUSED_IN_STREAMS)
def test_ends_that_spark_refuses_we_refuse_in_its_words(spark: "SparkSession", options: dict[str, str]) -> None:
    given = {**SERVERS, "subscribe": "a", **options}
    theirs = sparks_error(spark.readStream, given)
    assert same_words(our_error(SourceOptions.parse(given).stream_start), theirs), theirs


def test_servers_that_are_missing_are_refused_in_sparks_words(spark: "SparkSession") -> None:
    theirs = sparks_error(spark.read, {"subscribe": "a"})
    assert same_words(our_error(lambda: SourceOptions.parse({"subscribe": "a"})), theirs), theirs


def test_a_pattern_subscribes_to_the_topics_that_spark_subscribes_to(
    jvm: SparkJvm, kafka: KafkaCluster, topic: TopicFactory
) -> None:
    names = {topic(), topic()}
    stem = min(names).rpartition("-")[0]
    for pattern in (stem, f"^{stem}", f"{stem}-", f"{stem}-[0-9]+$", stem[1:], "^" + stem[1:], f"{min(names)}$"):
        theirs = jvm.topics_of_pattern(pattern, kafka.bootstrap) & names
        assert {name for name in names if topic_pattern(pattern).search(name)} == theirs


ORDINARY_PATTERNS = r"""
    orders-.* (a|b)\.v[0-9]+ (?!internal)[a-z]+ ^topic-\d{3}$ orders|payments .* [a-zA-Z0-9._-]+ prod\..*\.events
    ^(?!_).* (?i)orders.* topic_[0-9]{1,3} (eu|us)-(east|west)-[1-3] dev-(.+) \w+-\w+ [^.]+\.[^.]+ a+b*c?
    .*(?<!-dlq)$ ^(?:prod|stage)\.(?!tmp).+$ orders(-dlq)? \Qa.b\E.* [\w.-]*events \p{Alpha}+ (.*)-(.*) ^.+-changelog$
    ^(?!.*tmp).* ^(?!(.*-)?dlq$).+
"""


@pytest.fixture(scope="module")
def topic_names() -> list[str]:
    numbers = random.Random(7)
    names = (
        "a A b ab aB ba a.b a-b a_b 0 01 a0 t k K aa aaa abab abb .. - _ a.b.c AbAb Z9 bbb 0000 1a b. aA -a- 1-1 tt0"
    )
    names += (
        " orders orders-eu a.v12 internal topic-123 topic_7 us-east-1 prod.x.events orders-dlq _schemas a-changelog"
    )
    rest = ("".join(numbers.choice("abAB019.-_tkzZ") for _ in range(numbers.randrange(1, 9))) for _ in range(40))
    return sorted({*names.split(), *rest})


def found_by_us(pattern: str, names: list[str]) -> tuple[set[str], set[str]]:
    ours = topic_pattern(pattern)
    return {name for name in names if ours.fullmatch(name)}, {name for name in names if ours.search(name)}


def test_ordinary_patterns_are_never_refused(jvm: SparkJvm, topic_names: list[str]) -> None:
    for pattern in ORDINARY_PATTERNS.split():
        assert found_by_us(pattern, topic_names) == jvm.matches(pattern, topic_names), pattern


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in (1, 2, 3))])
def test_patterns_mean_what_java_means_or_are_refused(jvm: SparkJvm, topic_names: list[str], seed: int) -> None:
    patterns, translated, telling = JavaPatterns(seed), 0, 0
    for _ in range(750):
        pattern = patterns.pattern()
        if accepted(topic_pattern, pattern) is None:
            continue
        theirs = jvm.matches(pattern, topic_names)
        assert theirs is not None, f"{pattern!r} is none to Java"
        assert found_by_us(pattern, topic_names) == theirs, repr(pattern)
        translated += 1
        telling += 0 < len(theirs[0]) < len(topic_names)
    assert translated > 120
    assert telling > 40


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_very_many_patterns_mean_what_java_means_or_are_refused(jvm: SparkJvm, topic_names: list[str]) -> None:
    for seed in range(100, 160):
        test_patterns_mean_what_java_means_or_are_refused(jvm, topic_names, seed)
