"""`read(where=...)` with several ranges of a partition: each is read once, and what lies between is not fetched."""

from collections.abc import Iterator
from datetime import UTC, datetime
from random import Random
from typing import Any

import monedula
import pyarrow as pa
import pytest
from monedula._filters import ranges
from monedula.testing import Broker

PARTITIONS = 2
BATCHES = 80
BATCH_ROWS = 1_000
START_MS = 1_700_000_000_000
SMALL_FETCHES = {"max.partition.fetch.bytes": 64 << 10, "fetch.max.bytes": 64 << 10}


@pytest.fixture(scope="module", params=[1, 3, 9, 50], ids=lambda nodes: f"{nodes}-nodes")
def settings(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """Topic `orders`: 8 MB in each partition, a batch of 1,000 records for each second."""
    with Broker(nodes=request.param, topics={"orders": PARTITIONS}) as broker:
        for partition in range(PARTITIONS):
            for second in range(BATCHES):
                values = [b"x" * 100] * BATCH_ROWS
                broker.append("orders", values, partition=partition, timestamps=START_MS + second * 1000)
        yield {"bootstrap.servers": broker.bootstrap_servers, **SMALL_FETCHES}


def at(second: int) -> datetime:
    return datetime.fromtimestamp(START_MS / 1000 + second, UTC)


def read(stream: monedula.RecordStream) -> tuple[dict[int, list[int]], int]:
    """The offsets that were read of each partition, in their order, and the bytes that were received."""
    offsets: dict[int, list[int]] = {}
    for batch in stream:
        rows: list[dict[str, Any]] = pa.record_batch(batch).select(["partition", "offset"]).to_pylist()
        for partition, offset in (row.values() for row in rows):
            offsets.setdefault(partition, []).append(offset)
    assert stream.progress[0] == stream.progress[1]
    return offsets, stream.metrics()["bytes_received"]


@pytest.fixture(scope="module")
def all_bytes(settings: dict[str, Any]) -> int:
    offsets, received = read(monedula.read(settings, "orders"))
    assert offsets == {partition: list(range(BATCHES * BATCH_ROWS)) for partition in range(PARTITIONS)}
    return received


def test_what_lies_between_distant_ranges_is_not_fetched(settings: dict[str, Any], all_bytes: int) -> None:
    wanted = [3, 4, 30_500, 79_999]
    offsets, received = read(monedula.read(settings, "orders", where=("offset", "in", wanted)))
    assert offsets == dict.fromkeys(range(PARTITIONS), wanted)
    # Three fetches of each partition, each with a batch or two of a hundred kilobytes.
    assert received * 10 < all_bytes


def test_partitions_may_have_different_ranges(settings: dict[str, Any], all_bytes: int) -> None:
    where = [
        [("partition", "=", 0), ("offset", "<", 2)],
        [("partition", "=", 0), ("offset", ">=", 79_998)],
        [("partition", "=", 1), ("offset", "=", 40_000)],
    ]
    stream = monedula.read(settings, "orders", where=where)
    assert stream.ranges == {("orders", 0): (0, 80_000), ("orders", 1): (40_000, 40_001)}
    assert stream.progress == (0, 5)
    offsets, received = read(stream)
    assert offsets == {0: [0, 1, 79_998, 79_999], 1: [40_000]}
    assert received * 10 < all_bytes


def test_distant_ranges_of_times_are_read_each_with_a_known_lateness(settings: dict[str, Any], all_bytes: int) -> None:
    where = [[("timestamp", "=", at(5))], [("timestamp", ">=", at(60)), ("timestamp", "<", at(61))]]
    offsets, received = read(monedula.read(settings, "orders", where=where, max_lateness=0))
    wanted = [*range(5_000, 6_000), *range(60_000, 61_000)]
    assert offsets == dict.fromkeys(range(PARTITIONS), wanted)
    assert received * 5 < all_bytes


def test_a_stream_of_arrow_goes_through_all_ranges(settings: dict[str, Any]) -> None:
    wanted = [7, 20_000, 40_000, 60_000]
    stream = monedula.read(settings, ("orders", 1), where=("offset", "in", wanted), columns=["offset"])
    assert pa.table(stream)["offset"].to_pylist() == wanted


def test_a_stream_that_is_closed_between_two_ranges_returns_no_more(settings: dict[str, Any]) -> None:
    stream = monedula.read(settings, ("orders", 0), where=("offset", "in", [7, 60_000]), max_rows=1)
    assert next(stream).num_rows == 1
    stream.close()
    with pytest.raises(monedula.errors.ClosedError):
        next(stream)


def test_generated_ranges_are_read_exactly_once(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(settings["bootstrap.servers"].count(","))
    for _ in range(12):
        monkeypatch.setattr(ranges, "_NEAR_OFFSETS", random.choice((1, 500, 10_000)))
        monkeypatch.setattr(ranges, "_MAX_SPANS", random.choice((1, 2, 5, 100)))
        edges = sorted(random.sample(range(BATCHES * BATCH_ROWS), 2 * random.randint(1, 6)))
        pairs = list(zip(edges[::2], edges[1::2], strict=True))
        pairs = [(first, min(last, first + random.choice((1, 30, 3_000)))) for first, last in pairs]
        where = [[("offset", ">=", first), ("offset", "<", last)] for first, last in random.sample(pairs, len(pairs))]
        start, end = (0, 80_000) if random.random() < 0.5 else (pairs[0][0] + 1, pairs[-1][1])
        pair = ("orders", random.randrange(PARTITIONS))
        stream = monedula.read(settings, pair, where=where, start=start, end=end, max_rows=random.choice((7, 100_000)))
        wanted = [offset for first, last in pairs for offset in range(first, last) if start <= offset < end]
        offsets, _ = read(stream)
        assert offsets.get(pair[1], []) == wanted, (pairs, start, end)


def test_of_too_many_ranges_those_with_the_largest_gaps_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "_MAX_SPANS", 3)
    pieces = [(0, 1), (20_000, 20_001), (60_000, 60_001), (80_000, 80_001), (200_000, 200_001)]
    assert ranges._joined(pieces) == [(0, 20_001), (60_000, 80_001), (200_000, 200_001)]
    assert ranges._joined([]) == []
    assert ranges._joined([(5, 9), (0, 6)]) == [(0, 9)]
