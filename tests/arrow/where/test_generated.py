"""Whatever the condition and whatever the log: what is read are the rows of the whole topic that meet the condition."""

from collections.abc import Iterator
from random import Random
from typing import Any

import duckdb
import monedula
import pytest
from monedula._filters import ranges
from monedula.testing import Broker

from tests.arrow.where import logs
from tests.arrow.where.generated import Generator, holds
from tests.kafka import KafkaCluster

SEED = 20_261_126


class World:
    """Topics, all their rows, and generated conditions on them."""

    def __init__(self, settings: dict[str, Any], topics: list[str], seed: int) -> None:
        self.settings = {**settings, "isolation.level": "read_committed"}
        self.topics = topics
        self.rows = logs.rows_of(monedula.read(self.settings, topics))
        self.late_ms = logs.lateness_ms(self.rows)
        self.random = Random(seed)
        self.generator = Generator(self.random, self.rows)

    def some(self) -> tuple[list[str], float | None]:
        """Some of the topics, and what a user who knows their logs may say of the lateness.

        A transaction's marker has the broker's time, which is years after that of the records here.
        """
        topics = self.random.sample(self.topics, self.random.randint(1, len(self.topics)))
        if any(topic.endswith("-aborted") for topic in topics):
            return topics, None
        return topics, self.random.choice((None, self.late_ms / 1000, self.late_ms / 500))

    def rows_in(self, topics: list[str]) -> logs.Rows:
        return [row for row in self.rows if row["topic"] in topics]

    def check(self, found: Any, wanted: logs.Rows, text: str) -> None:
        assert logs.rows_of(found) == wanted, text


@pytest.fixture(scope="module", params=[1, 3, 9, 50], ids=lambda nodes: f"{nodes}-nodes")
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with Broker(nodes=request.param) as broker:
        topics = logs.make_on_embedded(broker, SEED + request.param)
        yield World({"bootstrap.servers": broker.bootstrap_servers}, topics, SEED)


@pytest.fixture(scope="module")
def kafka_world(kafka: KafkaCluster) -> World:
    settings = {"bootstrap.servers": kafka.bootstrap}
    return World(settings, logs.make(settings, "where-generated", SEED), SEED)


def check_reads(world: World, count: int) -> None:
    for _ in range(count):
        tree, (topics, late) = world.generator.tree(), world.some()
        wanted = [row for row in world.rows_in(topics) if tree.holds(row)]
        for where in (tree.pyarrow, tree.polars):
            stream = monedula.read(world.settings, topics, where=where, max_lateness=late)
            world.check(stream, wanted, f"{tree.text} late {late}: {where}")
        tuples = world.generator.tuples()
        wanted = [
            row for row in world.rows_in(topics) if any(all(holds(leaf, row) for leaf in some) for some in tuples)
        ]
        stream = monedula.read(world.settings, topics, where=tuples, max_lateness=late)
        world.check(stream, wanted, f"{tuples} late {late}")


def check_scans(world: World, count: int) -> None:
    for _ in range(count):
        tree, (topics, late) = world.generator.tree(any_column=True), world.some()
        wanted = [row for row in world.rows_in(topics) if tree.holds(row)]
        frame = monedula.scan(world.settings, topics, max_lateness=late)
        engine = world.random.choice(("streaming", "in-memory"))
        found = frame.filter(tree.polars).collect(engine=engine)  # type: ignore[call-overload]
        world.check(found, wanted, f"{tree.text} late {late}")
        dataset = monedula.dataset(world.settings, topics, max_lateness=late)
        found = dataset.to_table(filter=tree.pyarrow)
        world.check(found, wanted, f"{tree.text} late {late}")


def check_sql(world: World, count: int) -> None:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for _ in range(count):
            topics, late = world.some()
            connection.register("topics", monedula.dataset(world.settings, topics, max_lateness=late))
            some = [world.generator.leaf() for _ in range(world.random.randint(1, 4))]
            joined = world.random.choice((" AND ", " OR "))
            sql = joined.join(_sql(*leaf) for leaf in some)
            every = all if joined == " AND " else any
            wanted = [row for row in world.rows_in(topics) if every(holds(leaf, row) for leaf in some)]
            found = connection.sql(f"SELECT * FROM topics WHERE {sql}").to_arrow_table()
            world.check(found, wanted, sql)


def _sql(column: str, name: str, value: Any = "") -> str:
    def literal(one: Any) -> str:
        if isinstance(one, bytes):
            return f"'{one.decode()}'::BLOB"
        return str(one) if isinstance(one, int) else f"'{one}'" + ("" if column == "topic" else "::TIMESTAMPTZ")

    if name in ("is null", "is not null"):
        return f'"{column}" {name}'
    operand = f"({', '.join(map(literal, value))})" if isinstance(value, list) else literal(value)
    return f'"{column}" {name} {operand}'


def test_a_read_with_a_condition_has_the_rows_that_meet_it(world: World) -> None:
    check_reads(world, 60)


def test_ranges_of_a_partition_that_are_read_apart_have_the_same_rows(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for near, spans in ((1, 100), (3, 2)):
        monkeypatch.setattr(ranges, "_NEAR_OFFSETS", near)
        monkeypatch.setattr(ranges, "_MAX_SPANS", spans)
        check_reads(world, 20)
        check_scans(world, 10)


def test_a_scan_and_a_dataset_have_the_rows_that_meet_their_filters(world: World) -> None:
    check_scans(world, 30)


def test_a_query_of_duckdb_has_the_rows_that_meet_its_conditions(world: World) -> None:
    check_sql(world, 30)


def test_on_a_real_kafka_too(kafka_world: World) -> None:
    check_reads(kafka_world, 40)
    check_scans(kafka_world, 20)
    check_sql(kafka_world, 20)
