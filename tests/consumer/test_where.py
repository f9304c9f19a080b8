"""`where=` of consumers: which records are returned, and where the group goes on."""

from typing import Any

import monedula
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from monedula import ArgumentError, DecodeError, Json
from monedula.testing import Broker

from tests.conftest import TopicFactory
from tests.consumer.conftest import ConsumerFactory, Opens
from tests.consumer.typed import SCHEMA, bad, document
from tests.consumer.uniform import Uniform
from tests.kafka import KafkaCluster

KINDS = ("paid", "open", None)


@pytest.fixture
def name(kafka: KafkaCluster, topic: TopicFactory) -> str:
    """One partition with 60 records: keys k0 to k9 and none; a header `kind` twice, of which the last one counts."""
    made = topic()
    with monedula.Producer({"bootstrap.servers": kafka.bootstrap}) as producer:
        for number in range(60):
            kind = KINDS[number % 3]
            headers = [("kind", b"first"), ("kind", None if kind is None else kind.encode())] if number % 6 else []
            key = None if number % 11 == 10 else f"k{number % 11}"
            producer.send(made, f"{number}", key=key, headers=headers, partition=0, timestamp=1000 * number)
    return made


def numbers(reader: Uniform, **options: Any) -> list[int]:
    batches = reader.batches(timeout=20, until="latest", **options)
    return [int(record.value) for batch in batches for record in batch.records()]


def kind_of(number: int) -> str | None:
    return KINDS[number % 3] if number % 6 else None


CONDITIONS: list[tuple[Any, Any]] = [
    (("key", "=", "k3"), lambda n: n % 11 == 3),
    (("key", "in", [b"k3", "k4"]), lambda n: n % 11 in (3, 4)),
    (("key", "!=", "k3"), lambda n: n % 11 not in (3, 10)),
    (("key", ">=", "k8"), lambda n: n % 11 in (8, 9)),
    (("key", "is null"), lambda n: n % 11 == 10),
    (("headers.kind", "=", "paid"), lambda n: kind_of(n) == "paid"),
    (("headers.kind", "not in", ["paid", "first"]), lambda n: kind_of(n) == "open"),
    (("headers.kind", "is null"), lambda n: kind_of(n) is None),
    (("headers.nothing", "is not null"), lambda n: n < 0),
    ([("headers.kind", "=", b"open"), ("offset", "<", 20)], lambda n: kind_of(n) == "open" and n < 20),
    ([[("key", "=", "k3")], [("timestamp", "<", 5000)]], lambda n: n % 11 == 3 or n < 5),
    (pc.field("key") == b"k3", lambda n: n % 11 == 3),
    (~pc.field("key").isin([b"k3", b"k4"]), lambda n: n % 11 not in (3, 4)),
]


@pytest.mark.parametrize(("where", "holds"), CONDITIONS, ids=[str(where) for where, _ in CONDITIONS])
def test_the_records_are_those_that_meet_the_condition(
    name: str, consumer: ConsumerFactory, where: Any, holds: Any
) -> None:
    reader = consumer(name, where=where)
    wanted = [number for number in range(60) if holds(number)]
    assert numbers(reader) == wanted
    assert reader.position((name, 0)) == 60
    assert reader.metrics()["records_filtered"] == 60 - len(wanted)
    assert reader.lag((name, 0)) == {(name, 0): 0}


@pytest.mark.parametrize(("where", "holds"), CONDITIONS, ids=[str(where) for where, _ in CONDITIONS])
def test_a_read_has_the_same_records(kafka: KafkaCluster, name: str, where: Any, holds: Any) -> None:
    with monedula.read({"bootstrap.servers": kafka.bootstrap}, name, where=where, columns=["value"]) as stream:
        found = [int(record.value or b"") for batch in stream for record in batch.records()]
        assert found == [number for number in range(60) if holds(number)]
        assert stream.progress[0] == stream.progress[1]


def test_neither_key_nor_headers_need_be_among_the_columns(name: str, consumer: ConsumerFactory) -> None:
    where = [("key", "=", "k3"), ("headers.kind", "=", "paid")]
    reader = consumer(name, where=where, columns=["value"])
    assert reader.schema.names == ["value"]
    assert numbers(reader) == [number for number in range(60) if number % 11 == 3 and kind_of(number) == "paid"]


def test_rows_are_cut_at_max_rows_and_none_is_lost(name: str, consumer: ConsumerFactory) -> None:
    reader = consumer(name, where=("headers.kind", "is not null"))
    assert numbers(reader, max_rows=3) == [number for number in range(60) if kind_of(number) is not None]


def test_a_group_commits_the_place_behind_what_was_left_out(
    name: str, consumer: ConsumerFactory, kafka: KafkaCluster
) -> None:
    group = f"{name}-group"
    reader = consumer(where=("offset", "=", 30), group_id=group)
    reader.subscribe([name])
    assert [int(record.value) for record in reader.poll(timeout=30).records()] == [30]
    reader.poll(timeout=0.1)
    reader.commit()
    with monedula.Admin({"bootstrap.servers": kafka.bootstrap}) as admin:
        (place,) = admin.list_group_offsets(group).values()
    assert place is not None
    assert place.offset == 60


def test_a_poll_that_finds_nothing_returns_in_time(name: str, consumer: ConsumerFactory) -> None:
    reader = consumer(name, where=("key", "=", "nobody"))
    assert len(reader.poll(timeout=0.5)) == 0
    assert reader.position((name, 0)) == 60


def test_values_that_cannot_be_decoded_are_left_out_by_the_condition(
    broker: Broker, empty_topic: str, opens: Opens
) -> None:
    broker.append(empty_topic, [("a", document(0)), ("b", bad(1)), ("a", document(2)), ("b", bad(3))])
    reader = opens(empty_topic, value=Json(SCHEMA), where=("key", "=", "a"))
    assert [record.value["id"] for record in reader.poll(timeout=20).records()] == [0, 2]
    with pytest.raises(DecodeError):
        opens(empty_topic, value=Json(SCHEMA), where=("key", "=", "b")).poll(timeout=20)
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    dropping = opens(empty_topic, value=Json(SCHEMA, mode="drop"), where=("key", "=", "a"))
    assert len(dropping.poll(timeout=20)) == 2
    assert (dropping.metrics()["records_filtered"], dropping.metrics()["records_dropped"]) == (2, 0)
    for where in (("key", "=", "a"), ("offset", "in", [0, 2])):
        with monedula.read(settings, empty_topic, value=Json(SCHEMA), where=where) as stream:
            assert stream.to_polars()["value"].struct.field("id").to_list() == [0, 2]
    orders = monedula.scan(settings, empty_topic, value=Json(SCHEMA)).filter(pl.col("offset").is_in([0, 2]))
    assert orders.collect()["value"].struct.field("id").to_list() == [0, 2]


def test_a_key_is_compared_as_it_was_written_whatever_it_is_decoded_to(
    broker: Broker, empty_topic: str, opens: Opens
) -> None:
    broker.append(empty_topic, [('{"id": 7}', "a"), ('{"id":7}', "b"), ("no json", "c")])
    key = Json(pa.schema({"id": pa.int32()}))
    reader = opens(empty_topic, key=key, where=("key", "=", '{"id":7}'))
    assert [(record.key, record.value) for record in reader.poll(timeout=20).records()] == [({"id": 7}, b"b")]


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (("value", "=", b"x"), "it takes no condition on value"),
        (("headers", "=", b"x"), "headers.NAME"),
        (("key", "=", 5), "compared with bytes, or with a text for its UTF-8, not with int"),
        (("key", "=", None), "is null"),
        (("kee", "=", b"x"), "did you mean 'key'"),
        (("key", "is null", b"x"), "has 3 elements"),
        (("key", "~", b"x"), "there is no operator"),
        (("key", "=", [b"x"]), '"in" or "not in"'),
        (pc.field("value") == b"x", "it takes no condition on value"),
        ("key = x", "expected tuples"),
    ],
)
def test_what_is_no_condition_is_refused(opens: Opens, where: Any, said: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        opens("orders", where=where)
    assert said in str(refused.value)
