"""`read(where=...)`: what is fetched for a condition, what of it is returned, and what a bad condition is told."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import monedula
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from monedula.testing import Broker

START_MS = 1_700_000_000_000
COUNT = 20


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(START_MS / 1000 + seconds, UTC)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Topic `orders`: three partitions of twenty records, a second apart. Topic `late`: one record is 9 s late."""
    with Broker(topics={"orders": 3, "late": 1}) as broker:
        for partition in range(3):
            times = [START_MS + 1000 * number for number in range(COUNT)]
            broker.append("orders", [f"{partition}:{n}" for n in range(COUNT)], partition=partition, timestamps=times)
        for number in range(COUNT):
            seconds = 3 if number == 12 else number
            broker.append("late", [str(number)], timestamps=START_MS + 1000 * seconds)
        yield broker


@pytest.fixture
def settings(broker: Broker) -> dict[str, Any]:
    return {"bootstrap.servers": broker.bootstrap_servers}


def ranges(stream: monedula.RecordStream) -> dict[int, tuple[int, int]]:
    return {partition.partition: offsets for partition, offsets in stream.ranges.items()}


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        (("partition", "=", 1), {1: (0, 20)}),
        (("partition", "in", [0, 2]), {0: (0, 20), 2: (0, 20)}),
        ([("partition", "!=", 0), ("partition", "<", 2)], {1: (0, 20)}),
        ([("offset", ">=", 5), ("offset", "<", 8), ("partition", "=", 0)], {0: (5, 8)}),
        (
            [[("partition", "=", 0), ("offset", "<", 3)], [("partition", "=", 1), ("offset", ">", 17)]],
            {0: (0, 3), 1: (18, 20)},
        ),
        ([("timestamp", ">=", at(12)), ("partition", "=", 2)], {2: (12, 20)}),
        ([("timestamp", ">", at(12)), ("partition", "=", 2)], {2: (13, 20)}),
        ([("timestamp", "=", START_MS + 12_000), ("partition", "=", 2)], {2: (12, 20)}),
        (("topic", "=", "returns"), {}),
        ([("offset", "=", 1 << 62), ("partition", "=", 0)], {0: (0, 0)}),
        ([("timestamp", ">", at(19)), ("partition", "=", 0)], {0: (0, 0)}),
        ([("timestamp", "<", at(0)), ("timestamp", ">", at(1)), ("partition", "=", 0)], {}),
    ],
    ids=str,
)
def test_only_what_may_meet_the_condition_is_read(
    settings: dict[str, Any], where: Any, wanted: dict[int, tuple[int, int]]
) -> None:
    stream = monedula.read(settings, "orders", where=where)
    assert ranges(stream) == wanted
    for batch in stream:
        assert batch.num_rows


def test_start_and_end_bound_a_condition(settings: dict[str, Any]) -> None:
    stream = monedula.read(settings, ("orders", 0), start=4, end=-4, where=[("offset", "<", 10)])
    assert ranges(stream) == {0: (4, 10)}
    assert pa.table(stream)["offset"].to_pylist() == list(range(4, 10))


def test_a_late_record_is_found_behind_those_that_are_younger(settings: dict[str, Any]) -> None:
    where = [("timestamp", ">=", at(2)), ("timestamp", "<", at(5))]
    stream = monedula.read(settings, "late", where=where)
    assert ranges(stream) == {0: (2, 20)}
    assert pa.table(stream)["value"].to_pylist() == [b"2", b"3", b"4", b"12"]


@pytest.mark.parametrize(
    ("max_lateness", "wanted", "values"),
    [
        (9, (2, 14), [b"2", b"3", b"4", b"12"]),
        (timedelta(seconds=9), (2, 14), [b"2", b"3", b"4", b"12"]),
        (0, (2, 5), [b"2", b"3", b"4"]),
        (float("inf"), (2, 20), [b"2", b"3", b"4", b"12"]),
        (1e12, (2, 20), [b"2", b"3", b"4", b"12"]),
    ],
)
def test_an_upper_bound_ends_a_read_where_no_record_may_be_so_late(
    settings: dict[str, Any], max_lateness: Any, wanted: tuple[int, int], values: list[bytes]
) -> None:
    where = [("timestamp", ">=", at(2)), ("timestamp", "<", at(5))]
    stream = monedula.read(settings, "late", where=where, max_lateness=max_lateness)
    assert ranges(stream) == {0: wanted}
    assert pa.table(stream)["value"].to_pylist() == values


@pytest.mark.parametrize("how", ["iterate", "arrow"])
def test_columns_that_only_the_condition_needs_are_not_returned(settings: dict[str, Any], how: str) -> None:
    where = [("timestamp", ">=", at(18)), ("offset", "!=", 18), ("partition", "=", 0)]
    stream = monedula.read(settings, "orders", where=where, columns=["value"])
    assert stream.schema.names == ["value"]
    if how == "iterate":
        (batch,) = list(stream)
        assert (batch.schema.names, [span.next_offset for span in batch.spans]) == (["value"], [20])
        found = pa.record_batch(batch).to_pydict()
    else:
        found = pa.table(stream).to_pydict()
    assert found == {"value": [b"0:19"]}


def test_a_condition_goes_with_typed_columns() -> None:
    with Broker(topics=["typed"]) as broker:
        broker.append("typed", [f'{{"id": {number}}}' for number in range(9)])
        settings = {"bootstrap.servers": broker.bootstrap_servers}
        value = monedula.Json("id bigint")
        stream = monedula.read(settings, "typed", where=("offset", "in", [2, 7]), value=value, columns=["value"])
        assert pa.table(stream)["value"].to_pylist() == [{"id": 2}, {"id": 7}]


def test_spans_count_the_rows_that_are_left(settings: dict[str, Any]) -> None:
    (batch,) = list(monedula.read(settings, "orders", where=[("offset", "in", [3, 4, 9]), ("partition", "=", 1)]))
    assert [(span.rows, span.first_offset, span.next_offset) for span in batch.spans] == [(3, 3, 10)]
    assert batch.offsets == {("orders", 1): 10}


def test_partitions_that_are_not_wanted_are_not_asked_for() -> None:
    with Broker(nodes=2, topics={"orders": 2}) as broker:
        for partition in range(2):
            broker.append("orders", ["a"], partition=partition)
        settings = {"bootstrap.servers": broker.bootstrap_servers, "default.api.timeout.ms": 2_000}
        with monedula.Admin(settings) as admin:
            partitions = admin.describe_topics("orders")["orders"].partitions
        (gone, kept) = (partitions[0], partitions[1])
        assert gone.leader is not None
        assert gone.leader != kept.leader
        broker.stop_node(gone.leader)
        assert pa.table(monedula.read(settings, "orders", where=("partition", "=", kept.partition))).num_rows == 1


def test_an_open_transaction_is_no_reason_to_read_everything() -> None:
    with Broker(topics=["orders"]) as broker:
        broker.append("orders", ["old"] * 50, timestamps=START_MS)
        settings = {"bootstrap.servers": broker.bootstrap_servers, "isolation.level": "read_committed"}
        with monedula.Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="open") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("orders", "open", timestamp=START_MS + 9_000).result(30.0)
            stream = monedula.read(settings, "orders", where=("timestamp", ">", START_MS + 5_000))
            assert ranges(stream) == {0: (0, 0)}
            producer.abort_transaction()


def test_progress_reaches_its_end_where_no_row_is_left(settings: dict[str, Any]) -> None:
    told: list[tuple[int, int]] = []
    where = [("offset", "in", [0, 19]), ("timestamp", "=", at(7)), ("partition", "=", 0)]
    stream = monedula.read(settings, "orders", where=where, progress=lambda done, total: told.append((done, total)))
    assert list(stream) == []
    assert stream.progress == (stream.progress[1],) * 2


@pytest.mark.parametrize(
    ("where", "told"),
    [
        (("value", "=", b"x"), "it takes no condition on value: filter what was read"),
        (("ofset", "=", 3), "there is no column 'ofset'; .*did you mean 'offset'"),
        (("offset", "==="), "has 2 elements; expected \\(column, operator, value\\)"),
        (("offset", "like", 3), "there is no operator 'like'; expected"),
        (("offset", "=", "3"), "offset is compared with a number, not with str"),
        (("offset", "=", True), "offset is compared with a number, not with bool"),
        (("offset", "<", float("nan")), "offset cannot be compared with nan"),
        (("partition", "=", [0, 1]), 'several values are compared by "in"'),
        (("partition", "in", 3), 'take a list of values, such as \\[3\\]'),
        (("topic", "=", 3), "a topic is compared with a name, not with int"),
        (("key", "=", "\ud800"), "the text '.*' cannot be written as UTF-8; give bytes"),
        (("headers.kind", "in", ["a", "\ud800"]), "the text '.*' cannot be written as UTF-8; give bytes"),
        (("headers.\ud800", "is null"), "no header has this name, which cannot be written as UTF-8"),
        (("timestamp", ">=", datetime(2026, 11, 21)), "has no time zone; use datetime.now"),
        (("timestamp", ">=", "an hour ago"), "'an hour ago' is no time: expected"),
        (("timestamp", ">=", date(2026, 11, 21)), "a day is text: '2026-11-21'"),
        (("timestamp", ">=", 1_795_000_000.5), "seconds since 1970 are int\\(seconds \\* 1000\\)"),
        (["partition", "=", 1], "a condition is a tuple: give \\('partition', '=', 1\\)"),
        ([["partition", "=", 1]], "a condition is a tuple: give \\('partition', '=', 1\\)"),
        ({"partition": 1}, "'partition' is no condition; expected tuples such as"),
        ([], "has no condition; leave it out"),
        ([[]], "a list of conditions is empty"),
        ([("offset", ">", 3), [("partition", "=", 0)]], "is no condition and lists of them at once"),
        ("offset > 3", "expected tuples such as"),
        (3, "expected tuples such as"),
        (all, "expected tuples such as"),
        (pc.field("value") == b"x", "it takes no condition on value"),
        (pc.field("ofset") == 3, "No match for FieldRef.Name\\(ofset\\)"),
        (pc.field("timestamp") > datetime(2026, 11, 21), "decided before.*a time has a time zone"),
        (pc.field("offset") + 1 == 3, "is no condition that is decided before"),
        (pl.col("value") == b"x", "it takes no condition on value"),
        (pl.col("offset") % 2 == 0, "is no condition that is decided before"),
        (pl.col("key") == "7", "of key with bytes such as b'7'"),
        (pl.col("timestamp") > datetime(2026, 11, 21), "is no condition that is decided before.*time zone"),
        (pl.DataFrame({"offset": [3]}), "is a DataFrame of polars; expected an expression"),
        (pa.array([True]), "of pyarrow; expected an expression"),
    ],
    ids=lambda value: ascii(str(value))[:60],
)  # fmt: skip
def test_a_bad_condition_is_told_what_is_wrong_and_what_to_do(where: Any, told: str) -> None:
    with pytest.raises(monedula.ArgumentError, match=f"(?s){told}"):
        monedula.read({"bootstrap.servers": "127.0.0.1:1"}, "orders", where=where)


@pytest.mark.parametrize("wrong", [-1, "5m", float("nan")])
def test_a_lateness_that_is_no_duration_is_refused(wrong: Any) -> None:
    with pytest.raises(monedula.ArgumentError, match=r"max_lateness=.*expected seconds"):
        monedula.read({"bootstrap.servers": "127.0.0.1:1"}, "orders", where=("offset", ">", 3), max_lateness=wrong)


def test_a_lateness_without_a_condition_is_refused() -> None:
    with pytest.raises(monedula.ArgumentError, match="without where it has no effect"):
        monedula.read({"bootstrap.servers": "127.0.0.1:1"}, "orders", max_lateness=3)


def test_more_alternatives_than_are_worth_to_follow_are_refused(settings: dict[str, Any]) -> None:
    where = [[("offset", "=", 2 * n), ("timestamp", "=", START_MS + 2 * n)] for n in range(600)]
    with pytest.raises(monedula.ArgumentError, match=r"where combines .* ranges of offsets with ranges of times"):
        monedula.read(settings, "orders", where=where)


@pytest.mark.parametrize(
    "where",
    [
        pc.field("offset").isin([3, 5]) & (pc.field("partition") == 0),
        (pc.field("offset") > 2) & (pc.field("offset") < 6) & (pc.field("offset") != 4) & ~(pc.field("partition") > 0),
        pc.starts_with(pc.field("topic"), "ord") & pc.field("offset").isin([3, 5]) & (pc.field("partition") == 0),
        pl.col("offset").is_in([3, 5]) & (pl.col("partition") == 0),
        (pl.col("offset").is_between(3, 5) & (pl.col("offset") != 4)) & pl.col("partition").is_in([0]),
        (pl.lit(3) <= pl.col("offset")) & (pl.col("offset") < 5.5) & (pl.col("offset") != 4)
        & (pl.col("partition") < 1),
        (pl.col("timestamp") > pl.lit(at(4)) - pl.duration(seconds=2))
        & (pl.col("offset") < 6) & (pl.col("offset") != 4) & (pl.col("partition") == 0),
        [("offset", "in", (3, 5)), ("partition", "<", 0.5)],
        [("offset", "in", range(3, 6)), ("offset", "<>", 4), ("partition", "not in", {1, 2})],
    ],
    ids=str,
)  # fmt: skip
def test_a_condition_may_be_written_in_many_ways(settings: dict[str, Any], where: Any) -> None:
    stream = monedula.read(settings, "orders", where=where)
    assert ranges(stream) == {0: (3, 6)}
    assert pa.table(stream)["offset"].to_pylist() == [3, 5]
