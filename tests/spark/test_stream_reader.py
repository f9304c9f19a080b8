"""The driver's side of a streaming query, called as Spark calls it, on a real Kafka."""

import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from monedula import ConfigError, UnknownTopicError
from monedula.errors import DataLossError

from tests.conftest import TopicFactory
from tests.kafka import KafkaCluster
from tests.real.reading import core

stream = pytest.importorskip("monedula.spark.source.stream", reason="pyspark is not installed")
from monedula.spark.source import batch  # noqa: E402
from monedula.spark.source.cluster import Cluster  # noqa: E402
from monedula.spark.source.source import Source  # noqa: E402
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows  # noqa: E402

ALL = ReadAllAvailable()


def _reader(kafka: KafkaCluster, topic: str, **options: str) -> Any:
    given = {"kafka.bootstrap.servers": kafka.bootstrap, "fetchOffset.retryIntervalMs": "10", **options}
    if not {"subscribe", "subscribePattern", "assign"} & set(options):
        given["subscribe"] = topic
    return stream.StreamReader(Source(given))


def _produce(kafka: KafkaCluster, topic: str, count: int, partition: int = 0) -> None:
    kafka.helper.produce(topic, [{"value": b"%d" % n, "partition": partition} for n in range(count)])


def _log(offset: dict[str, Any]) -> dict[str, Any]:
    """An offset as it comes back out of Spark's offset log."""
    read: dict[str, Any] = json.loads(json.dumps(offset))
    return read


def _ranges(partitions: list[Any]) -> dict[tuple[str, int], tuple[int, int]]:
    return {tuple(each.partition): (each.start, each.end) for task in partitions for each in task.value.ranges}


def test_a_crash_before_the_first_commit_reads_the_same_offsets_again(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    _produce(kafka, name, 5)
    first = _reader(kafka, name, startingOffsets="latest")
    start = _log(first.initialOffset())
    assert first.initialOffset() == start == {name: {"0": 5}}
    _produce(kafka, name, 3)
    end = _log(first.latestOffset(start, ALL))
    assert end == {"$start": {name: {"0": 5}}, name: {"0": 8}}
    planned = _ranges(first.partitions(start, end))
    first.stop()
    _produce(kafka, name, 10)
    second = _reader(kafka, name, startingOffsets="latest")
    resolved_anew = _log(second.initialOffset())
    assert resolved_anew == {name: {"0": 18}}
    assert _ranges(second.partitions(resolved_anew, end)) == planned == {(name, 0): (5, 8)}
    # The batch after it starts at that end, which names no starting offsets any more.
    assert _log(second.latestOffset(end, ALL)) == {name: {"0": 18}}
    second.stop()


def test_a_first_batch_without_rows_keeps_its_start_too(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    _produce(kafka, name, 5)
    reader = _reader(kafka, name)
    start = _log(reader.initialOffset())
    end = _log(reader.latestOffset(start, ALL))
    assert end == {"$start": {name: {"0": 5}}, name: {"0": 5}}
    assert reader.partitions(start, end) == []
    assert reader.latestOffset(end, ALL) is end
    reader.stop()


def test_nothing_new_is_the_start_itself(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic(2)
    _produce(kafka, name, 5)
    reader = _reader(kafka, name)
    start = {name: {"0": 5, "1": 0}}
    assert reader.latestOffset(start, ALL) is start
    reader.stop()


def test_a_limit_is_shared_out_and_read_all_available_overrides_it(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic(2)
    _produce(kafka, name, 30, 0)
    _produce(kafka, name, 10, 1)
    reader = _reader(kafka, name, maxOffsetsPerTrigger="20")
    assert reader.getDefaultReadLimit() == ReadMaxRows(20)
    start = {name: {"0": 0, "1": 0}}
    assert reader.latestOffset(start, ReadMaxRows(20)) == {name: {"0": 15, "1": 5}}
    assert reader.latestOffset(start, ALL) == {name: {"0": 30, "1": 10}}
    assert reader.reportLatestOffset() == {name: {"0": 30, "1": 10}}
    reader.stop()


def test_bytes_limit_a_batch_by_what_records_weigh(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    kafka.helper.produce(name, [{"value": b"v" * 1000, "partition": 0}] * 200)
    reader = _reader(kafka, name, maxBytesPerTrigger="50k")
    end = reader.latestOffset({name: {"0": 0}}, reader.getDefaultReadLimit())[name]["0"]
    assert 40 <= end <= 52
    reader.stop()


def test_too_few_offsets_wait_for_the_delay(
    kafka: KafkaCluster, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic()
    _produce(kafka, name, 5)
    clock = [1_000_000_000]
    monkeypatch.setattr(stream.time, "time_ns", lambda: clock[0] * 1_000_000)
    reader = _reader(kafka, name, minOffsetsPerTrigger="10", maxTriggerDelay="60s")
    start = {name: {"0": 0}}
    first = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert first == {name: {"0": 5}}  # the first never waits
    _produce(kafka, name, 5)
    assert reader.latestOffset(first, reader.getDefaultReadLimit()) is first
    clock[0] += 60_000
    assert reader.latestOffset(first, reader.getDefaultReadLimit()) == {name: {"0": 10}}
    reader.stop()


def test_available_now_stops_at_what_was_there_first(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    _produce(kafka, name, 4)
    reader = _reader(kafka, name, maxOffsetsPerTrigger="3")
    reader.prepareForTriggerAvailableNow()
    first = reader.latestOffset({name: {"0": 0}}, reader.getDefaultReadLimit())
    _produce(kafka, name, 9)
    second = reader.latestOffset(first, reader.getDefaultReadLimit())
    assert (first, second) == ({name: {"0": 3}}, {name: {"0": 4}})
    assert reader.latestOffset(second, reader.getDefaultReadLimit()) is second
    reader.stop()


@pytest.mark.req("S084")
def test_new_partitions_start_at_their_beginning_and_their_start_is_kept(
    kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic()
    _produce(kafka, name, 4)
    reader = _reader(kafka, name)
    start = _log(reader.initialOffset())
    before = _log(reader.latestOffset(start, ALL))
    kafka.helper.add_partitions(name, 2)
    _produce(kafka, name, 6, 1)
    end = _log(reader.latestOffset(before, ALL))
    assert end == {"$start": {name: {"1": 0}}, name: {"0": 4, "1": 6}}
    assert _ranges(reader.partitions(before, end)) == {(name, 1): (0, 6)}
    reader.stop()


def test_a_topic_made_anew_that_ends_where_the_old_one_did_is_read(kafka: KafkaCluster, topic: TopicFactory) -> None:
    """Spark runs no batch between two equal offsets: the new log would never be read."""
    name = topic()
    _produce(kafka, name, 4)
    reader = _reader(kafka, name, startingOffsets="earliest", failOnDataLoss="false")
    done = _log(reader.latestOffset(_log(reader.initialOffset()), ALL))
    kafka.helper.delete_topic(name)
    kafka.helper.create_topic(name)
    _produce(kafka, name, 4)
    planned = []
    for _ in range(2):
        end = _log(reader.latestOffset(done, ALL))
        if end != done:
            planned.append(_ranges(reader.partitions(done, end)))
        done = end
    assert planned[-1] == {(name, 0): (0, 4)}
    assert _log(reader.latestOffset(done, ALL)) == done
    reader.stop()


def test_a_pattern_finds_topics_that_are_created_later(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    reader = _reader(kafka, name, subscribePattern=f"{name}(-later)?$")
    start = _log(reader.initialOffset())
    kafka.helper.create_topic(f"{name}-later")
    _produce(kafka, f"{name}-later", 2)
    end = reader.latestOffset(_log(reader.latestOffset(start, ALL)), ALL)
    assert end == {"$start": {f"{name}-later": {"0": 0}}, name: {"0": 0}, f"{name}-later": {"0": 2}} or end[
        f"{name}-later"
    ] == {"0": 2}
    reader.stop()


def test_topics_of_kafkas_own_are_never_read(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    with core(kafka.bootstrap) as client:
        # The first commit to a group makes Kafka create its topic of offsets.
        client.commit_group_offsets("any-group", [((name, 0), 0)], 60.0)
    own = "__consumer_offsets"
    for options in ({"subscribePattern": f"^({own}|{name})$"}, {"subscribe": f"{own},{name}"}):
        reader = _reader(kafka, name, **options)
        assert reader.initialOffset() == {name: {"0": 0}}
        reader.stop()


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_topic_that_is_deleted_is_data_loss(kafka: KafkaCluster, topic: TopicFactory, fail: str) -> None:
    name, other = topic(), topic()
    _produce(kafka, name, 4)
    reader = _reader(kafka, name, subscribe=f"{name},{other}", failOnDataLoss=fail)
    begun = {name: {"0": 2}, other: {"0": 0}}
    kafka.helper.delete_topic(name)
    end = _log(reader.latestOffset(begun, ALL))
    assert end == {other: {"0": 0}}
    if fail == "true":
        with pytest.raises(DataLossError, match=f"Partitions {name}-0 have been deleted"):
            reader.partitions(begun, end)
    else:
        assert reader.partitions(begun, end) == []
    reader.stop()


def test_a_replay_goes_on_without_a_topic_that_was_deleted_meanwhile(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name, other = topic(), topic()
    _produce(kafka, other, 3)
    begun, end = {name: {"0": 0}, other: {"0": 0}}, {name: {"0": 4}, other: {"0": 3}}
    kafka.helper.delete_topic(name)
    reader = _reader(kafka, name, subscribe=f"{name},{other}", failOnDataLoss="false")
    assert _ranges(reader.partitions(begun, end)) == {(other, 0): (0, 3)}
    after = reader.latestOffset(end, ALL)
    assert reader.latestOffset(after, ALL) is after
    # If the topic is created again, it is read from its beginning.
    kafka.helper.create_topic(name)
    _produce(kafka, name, 2)
    assert reader.latestOffset(after, ALL) == {"$start": {name: {"0": 0}}, name: {"0": 2}, other: {"0": 3}}
    reader.stop()


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_topic_that_is_created_again_is_data_loss_however_long_it_is(
    kafka: KafkaCluster, topic: TopicFactory, fail: str
) -> None:
    name = topic()
    _produce(kafka, name, 4)
    reader = _reader(kafka, name, failOnDataLoss=fail)
    begun = _log(reader.latestOffset({name: {"0": 0}}, ALL))
    kafka.helper.delete_topic(name)
    kafka.helper.create_topic(name)
    _produce(kafka, name, 9)
    if fail == "true":
        with pytest.raises(DataLossError, match=f"Topic {name} was deleted and created again"):
            reader.latestOffset(begun, ALL)
    else:
        end = _log(reader.latestOffset(begun, ALL))
        assert end == {"$start": {name: {"0": 0}}, name: {"0": 9}}
        assert _ranges(reader.partitions(begun, end)) == {(name, 0): (0, 9)}
    reader.stop()


def test_a_topic_that_is_created_again_and_as_long_as_it_was_is_read(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    _produce(kafka, name, 4)
    reader = _reader(kafka, name, failOnDataLoss="false")
    begun = _log(reader.latestOffset({name: {"0": 0}}, ALL))
    kafka.helper.delete_topic(name)
    kafka.helper.create_topic(name)
    _produce(kafka, name, 4)
    end = _log(reader.latestOffset(begun, ALL))
    assert end == {"$start": {name: {"0": 0}}, name: {"0": 4}}
    assert _ranges(reader.partitions(begun, end)) == {(name, 0): (0, 4)}
    assert _log(reader.latestOffset(end, ALL)) == end
    reader.stop()


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_planned_batch_that_the_log_no_longer_reaches_is_data_loss(
    kafka: KafkaCluster, topic: TopicFactory, fail: str
) -> None:
    name = topic()
    _produce(kafka, name, 4)
    reader = _reader(kafka, name, failOnDataLoss=fail)
    begun, end = {name: {"0": 2}}, {name: {"0": 50}}
    if fail == "true":
        with pytest.raises(DataLossError, match=f"Partition {name}-0 offset was changed from 50 to 4"):
            reader.partitions(begun, end)
    else:
        assert _ranges(reader.partitions(begun, end)) == {(name, 0): (2, 4)}
    reader.stop()


def test_ends_that_go_backward_are_data_loss(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    _produce(kafka, name, 4)
    reader = _reader(kafka, name)
    end = _log(reader.latestOffset({name: {"0": 9}}, ALL))
    assert end == {name: {"0": 4}}
    with pytest.raises(DataLossError, match=f"Partition {name}-0 offset was changed from 9 to 4"):
        reader.partitions({name: {"0": 9}}, end)
    reader.stop()


def test_a_new_partition_without_its_first_records_is_data_loss(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic(2)
    _produce(kafka, name, 4, 1)
    kafka.helper.delete_records(name, {1: 3})
    reader = _reader(kafka, name)
    with pytest.raises(DataLossError, match=f"Added partition {name}-1 starts from 3 instead of 0"):
        reader.latestOffset({name: {"0": 0}}, ALL)
    reader.stop()


def test_a_first_batch_of_another_source_is_refused_where_its_start_is_not_known(
    kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic()
    _produce(kafka, name, 4)
    planned_by_other = {name: {"0": 3}}
    reader = _reader(kafka, name, startingOffsets="latest")
    with pytest.raises(DataLossError, match="planned by another Kafka source and never finished"):
        reader.partitions(_log(reader.initialOffset()), planned_by_other)
    reader.stop()
    certain = _reader(kafka, name, startingOffsets="earliest")
    assert _ranges(certain.partitions(_log(certain.initialOffset()), planned_by_other)) == {(name, 0): (0, 3)}
    certain.stop()


STARTS: dict[str, Callable[[str], dict[str, str]]] = {
    "earliest": lambda _: {"startingOffsets": "earliest"},
    "latest": lambda _: {"startingOffsets": "latest"},
    "offsets": lambda name: {"startingOffsets": json.dumps({name: {"0": 1}})},
    "the earliest of a partition": lambda name: {"startingOffsets": json.dumps({name: {"0": -2}})},
    "the latest of a partition": lambda name: {"startingOffsets": json.dumps({name: {"0": -1}})},
    "times of partitions": lambda name: {"startingOffsetsByTimestamp": json.dumps({name: {"0": 1000}})},
    "a time": lambda _: {"startingTimestamp": "1000"},
}


def _planned_first_batch(kafka: KafkaCluster, name: str, **options: str) -> tuple[dict[str, Any], Any]:
    """The end of a query's first batch as its checkpoint has it, and what the batch reads."""
    reader = _reader(kafka, name, **options)
    reader.prepareForTriggerAvailableNow()
    start = _log(reader.initialOffset())
    _produce(kafka, name, 3)
    end = _log(reader.latestOffset(start, ALL))
    planned = _ranges(reader.partitions(start, end))
    reader.stop()
    assert planned
    return end, planned


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("fail", ["true", "false"])
@pytest.mark.parametrize("is_available_now", [True, False])
def test_a_first_batch_is_replayed_by_its_own_start_after_the_topic_grew(
    kafka: KafkaCluster, topic: TopicFactory, start: str, fail: str, is_available_now: bool
) -> None:
    name = topic()
    _produce(kafka, name, 5)
    options = {**STARTS[start](name), "failOnDataLoss": fail}
    end, planned = _planned_first_batch(kafka, name, **options)
    kafka.helper.add_partitions(name, 2)
    _produce(kafka, name, 4, 1)
    second = _reader(kafka, name, **options)
    if is_available_now:
        second.prepareForTriggerAvailableNow()
    assert _ranges(second.partitions(_log(second.initialOffset()), end)) == planned
    after = _log(second.latestOffset(end, ALL))
    assert after == {"$start": {name: {"1": 0}}, name: {"0": 8, "1": 4}}
    assert _ranges(second.partitions(end, after)) == {(name, 1): (0, 4)}
    second.stop()


@pytest.mark.parametrize("start", ["earliest", "latest", "a time"])
def test_a_first_batch_is_replayed_after_the_pattern_found_another_topic(
    kafka: KafkaCluster, topic: TopicFactory, start: str
) -> None:
    name = topic()
    _produce(kafka, name, 5)
    options = {**STARTS[start](name), "subscribePattern": f"^{name}(-later)?$"}
    end, planned = _planned_first_batch(kafka, name, **options)
    kafka.helper.create_topic(f"{name}-later")
    _produce(kafka, f"{name}-later", 2)
    second = _reader(kafka, name, **options)
    assert _ranges(second.partitions(_log(second.initialOffset()), end)) == planned
    after = _log(second.latestOffset(end, ALL))
    assert _ranges(second.partitions(end, after)) == {(f"{name}-later", 0): (0, 2)}
    second.stop()


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_first_batch_of_a_pattern_that_found_nothing_is_replayed_as_nothing(
    kafka: KafkaCluster, topic: TopicFactory, start: str
) -> None:
    name = f"{topic()}-later"
    options = {**STARTS[start](name), "subscribePattern": f"^{name}$"}
    first = _reader(kafka, name, **options)
    end = _log(first.latestOffset(_log(first.initialOffset()), ALL))
    assert end == {}
    first.stop()
    kafka.helper.create_topic(name)
    _produce(kafka, name, 2)
    second = _reader(kafka, name, **options)
    assert second.partitions(_log(second.initialOffset()), end) == []
    after = _log(second.latestOffset(end, ALL))
    assert _ranges(second.partitions(end, after)) == {(name, 0): (0, 2)}
    second.stop()


@pytest.mark.parametrize("start", STARTS)
def test_the_options_of_a_restart_do_not_move_a_first_batch(
    kafka: KafkaCluster, topic: TopicFactory, start: str
) -> None:
    name = topic()
    _produce(kafka, name, 5)
    end, planned = _planned_first_batch(kafka, name, startingOffsets="latest")
    second = _reader(kafka, name, **STARTS[start](name))
    assert _ranges(second.partitions(_log(second.initialOffset()), end)) == planned == {(name, 0): (5, 8)}
    second.stop()


@pytest.mark.parametrize("start", STARTS)
def test_a_first_batch_goes_on_without_a_topic_that_was_deleted_meanwhile(
    kafka: KafkaCluster, topic: TopicFactory, start: str
) -> None:
    name, deleted = topic(), topic()
    _produce(kafka, name, 5)
    _produce(kafka, deleted, 5)
    given = {
        option: text.replace(f'"{name}"', f'"{name}": {{"0": 1}}, "{deleted}"')
        for option, text in STARTS[start](name).items()
    }
    options = {**given, "subscribe": f"{name},{deleted}", "failOnDataLoss": "false"}
    end, planned = _planned_first_batch(kafka, name, **options)
    kafka.helper.delete_topic(deleted)
    second = _reader(kafka, name, **options)
    kept = {partition: offsets for partition, offsets in planned.items() if partition[0] == name}
    assert _ranges(second.partitions(_log(second.initialOffset()), end)) == kept
    assert second.latestOffset(_log(second.latestOffset(end, ALL)), ALL) == {name: {"0": 8}}
    second.stop()


@pytest.mark.parametrize("fail", ["true", "false"])
@pytest.mark.parametrize("start", ["earliest", "offsets", "a time"])
def test_a_first_batch_of_a_topic_made_anew_and_shorter_is_data_loss(
    kafka: KafkaCluster, topic: TopicFactory, start: str, fail: str
) -> None:
    name = topic()
    _produce(kafka, name, 5)
    options = {**STARTS[start](name), "failOnDataLoss": fail}
    end, planned = _planned_first_batch(kafka, name, **options)
    kafka.helper.delete_topic(name)
    kafka.helper.create_topic(name, partitions=2)
    _produce(kafka, name, 4)
    second = _reader(kafka, name, **options)
    begun = _log(second.initialOffset())
    if fail == "true":
        with pytest.raises(DataLossError, match=f"Partition {name}-0 offset was changed from 8 to 4"):
            second.partitions(begun, end)
    else:
        assert _ranges(second.partitions(begun, end)) == {(name, 0): (planned[name, 0][0], 4)}
    second.stop()


@pytest.mark.parametrize("start", ["offsets", "times of partitions"])
@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_new_query_whose_start_does_not_fit_the_topic_is_refused(
    kafka: KafkaCluster, topic: TopicFactory, start: str, fail: str
) -> None:
    name = topic(2)
    reader = _reader(kafka, name, **STARTS[start](name), failOnDataLoss=fail)
    with pytest.raises(ConfigError, match="don't match what are assigned"):
        reader.latestOffset(_log(reader.initialOffset()), ALL)
    reader.stop()
    without_admission_control = _reader(kafka, name, **STARTS[start](name), failOnDataLoss=fail)
    with pytest.raises(ConfigError, match="don't match what are assigned"):
        without_admission_control.latestOffset()
    without_admission_control.stop()


def test_a_new_query_over_a_topic_that_never_was_is_refused_without_fail_on_data_loss(kafka: KafkaCluster) -> None:
    reader = _reader(kafka, "no-such-topic-anywhere", failOnDataLoss="false")
    with pytest.raises(UnknownTopicError, match="no-such-topic-anywhere"):
        reader.latestOffset(_log(reader.initialOffset()), ALL)
    reader.stop()


@pytest.mark.parametrize("start", ["earliest", "offsets", "the earliest of a partition"])
def test_a_first_batch_of_another_source_is_replayed_after_the_topic_grew(
    kafka: KafkaCluster, topic: TopicFactory, start: str
) -> None:
    name = topic()
    _produce(kafka, name, 4)
    kafka.helper.add_partitions(name, 2)
    reader = _reader(kafka, name, **STARTS[start](name))
    begins = 1 if start == "offsets" else 0
    assert _ranges(reader.partitions(_log(reader.initialOffset()), {name: {"0": 3}})) == {(name, 0): (begins, 3)}
    reader.stop()


def test_a_first_batch_of_another_source_that_began_at_the_end_of_a_partition_is_refused(
    kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic()
    _produce(kafka, name, 4)
    reader = _reader(kafka, name, **STARTS["the latest of a partition"](name))
    with pytest.raises(DataLossError, match="planned by another Kafka source and never finished"):
        reader.partitions(_log(reader.initialOffset()), {name: {"0": 3}})
    reader.stop()


def test_a_topic_that_is_deleted_before_the_first_batch_is_planned_is_data_loss(
    kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name, deleted = topic(), topic()
    _produce(kafka, name, 4)
    reader = _reader(kafka, name, subscribe=f"{name},{deleted}", startingOffsets="earliest")
    start = _log(reader.initialOffset())
    kafka.helper.delete_topic(deleted)
    end = _log(reader.latestOffset(start, ALL))
    with pytest.raises(DataLossError, match=f"Partitions {deleted}-0 have been deleted"):
        reader.partitions(start, end)
    reader.stop()


def test_a_batch_of_a_topic_that_grows_while_it_is_planned_loses_nothing(
    kafka: KafkaCluster, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic()
    _produce(kafka, name, 4)

    resolve = Cluster.resolve

    def resolve_late(*arguments: Any) -> Any:
        _produce(kafka, name, 3)
        return resolve(*arguments)

    monkeypatch.setattr(Cluster, "resolve", resolve_late)
    ends = json.dumps({name: {"0": -1}})
    options = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": name, "endingOffsets": ends}
    assert _ranges(batch.BatchReader(Source(options)).partitions()) == {(name, 0): (0, 7)}


def test_an_offset_of_another_kind_of_source_is_refused(kafka: KafkaCluster, topic: TopicFactory) -> None:
    reader = _reader(kafka, topic())
    with pytest.raises(ConfigError, match="another kind of source"):
        reader.partitions({"logOffset": 3}, {"logOffset": 4})


def test_a_topic_that_never_was_is_an_error_that_names_it(kafka: KafkaCluster) -> None:
    reader = _reader(kafka, "no-such-topic-anywhere")
    with pytest.raises(UnknownTopicError, match="no-such-topic-anywhere: the cluster does not know this topic"):
        reader.initialOffset()
    assigned = _reader(kafka, "", assign='{"no-such-topic-anywhere": [0]}')
    with pytest.raises(UnknownTopicError, match="no-such-topic-anywhere"):
        assigned.initialOffset()


def test_a_reader_is_pickled_with_nothing_open(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    reader = pickle.loads(pickle.dumps(_reader(kafka, name)))
    assert reader.initialOffset() == {name: {"0": 0}}
    reader.stop()


def test_tasks_carry_where_their_partitions_are(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic(3)
    for partition in range(3):
        _produce(kafka, name, 4, partition)
    reader = _reader(kafka, name, maxPartitions="2")
    tasks = reader.partitions({name: dict.fromkeys("012", 0)}, {name: dict.fromkeys("012", 4)})
    assert len(tasks) == 2
    for task in tasks:
        partitions = {tuple(each.partition) for each in task.value.ranges}
        assert {tuple(partition) for partition, _, _, _ in task.value.leaders} == partitions
        ((node, host, port),) = task.value.brokers
        assert f"{host}:{port}" == kafka.bootstrap
        assert all((leader, len(topic_id)) == (node, 22) for _, topic_id, leader, _ in task.value.leaders)
    reader.stop()


def test_a_spark_that_tells_no_start_gets_the_same_offsets_as_one_that_does(
    kafka: KafkaCluster, topic: TopicFactory, caplog: pytest.LogCaptureFixture
) -> None:
    name = topic()
    _produce(kafka, name, 5)
    first = _reader(kafka, name, startingOffsets="latest", maxOffsetsPerTrigger="1")
    end = first.latestOffset()
    _produce(kafka, name, 4)
    # The order of Spark 4.0 and 4.1: where the first batch starts is asked after where it ends.
    start = first.initialOffset()
    assert (start, end) == ({name: {"0": 5}}, {"$start": {name: {"0": 5}}, name: {"0": 5}})
    assert _ranges(first.partitions(start, end)) == {}
    after = _log(first.latestOffset())
    assert after == {name: {"0": 9}}
    assert _ranges(first.partitions(end, after)) == {(name, 0): (5, 9)}
    assert first.latestOffset() == after
    first.stop()
    assert sum("are ignored: data sources in Python" in record.message for record in caplog.records) == 1
    second = _reader(kafka, name, startingOffsets="latest")
    assert second.partitions(after, after) == []  # how they show a restarted query its checkpoint
    assert second.latestOffset() == after
    _produce(kafka, name, 1)
    assert second.latestOffset() == {name: {"0": 10}}
    second.stop()
