"""Beginners' mistakes and their errors. Almost none of them needs a broker."""

import io
import re
from datetime import datetime
from typing import Any

import monedula
import pyarrow
import pytest

from tests.producer.conftest import ProducerFactory

NOWHERE = "127.0.0.1:1"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"value": 5}, r"value=5 \(int\): expected bytes, str or None; str\(\) makes a text of it"),
        ({"value": {"a": 1}}, r"value=\{'a': 1\} \(dict\): .*json\.dumps\(\) makes a str of it"),
        ({"value": datetime(2020, 1, 1)}, r"value=datetime.* \(datetime\): .*encode it first"),
        ({"value": "\ud800"}, "value: this str cannot be written as UTF-8"),
        ({"key": 5}, r"key=5 \(int\)"),
        ({"key": ["a"]}, r"key=\['a'\] \(list\)"),
        ({"topic": b"orders"}, r"topic=b'orders' \(bytes\): expected its name, a str"),
        ({"topic": None}, r"topic=None \(NoneType\)"),
        ({"topic": ""}, "topic"),
        ({"topic": "x" * 250}, "249"),
        ({"topic": "or/ders"}, r'"or/ders" is no name for a topic: expected 1 to 249 of the characters a-z'),
        ({"topic": ".."}, "is no name"),
        ({"partition": -1}, r"partition=-1 \(int\): expected a whole number, 0 or more; leave it out"),
        ({"partition": "0"}, r"partition='0' \(str\)"),
        ({"partition": 1.5}, r"partition=1\.5 \(float\)"),
        ({"partition": True}, r"partition=True \(bool\)"),
        ({"timestamp": -1}, "-1 is before 1970"),
        ({"timestamp": 1.5}, r"1\.5 is no time: expected milliseconds since 1970"),
        ({"timestamp": datetime(2020, 1, 1)}, "has no time zone"),
        ({"timestamp": 1 << 70}, "64 bits"),
        ({"headers": "trace"}, r"headers='trace' \(str\): expected pairs such as"),
        ({"headers": [("a", b"1", 2)]}, "expected pairs"),
        ({"headers": iter([("a", b"1")])}, "expected pairs"),
        ({"headers": [(1, b"1")]}, r"the header's name 1 \(int\): expected a str"),
        ({"headers": {"a": 1}}, r"a header's value=1 \(int\)"),
        ({"on_delivery": 5}, "5 cannot be called"),
    ],
)
def test_an_argument_that_makes_no_sense(producer: ProducerFactory, arguments: dict[str, Any], told: str) -> None:
    sender = producer(bootstrap_servers=NOWHERE)
    given = {"topic": "orders", "value": "x", **arguments}
    with pytest.raises(monedula.ArgumentError, match=told):
        sender.send(**given)


def test_a_closed_producer_looks_nothing_up(producer: ProducerFactory) -> None:
    """It would connect again, and nothing would end that connection."""
    sender = producer(bootstrap_servers=NOWHERE)
    sender.close()
    with pytest.raises(monedula.errors.ClosedError, match="the producer is closed"):
        sender.partitions_for("orders")


@pytest.mark.parametrize("topic", [5, b"orders", ["orders"]])
async def test_a_topic_is_a_text(producer: ProducerFactory, topic: Any) -> None:
    sender, told = (
        producer(bootstrap_servers=NOWHERE),
        rf"topic={re.escape(repr(topic))} \(.*\): expected its name, a str",
    )
    with pytest.raises(monedula.ArgumentError, match=told):
        sender.partitions_for(topic)
    with pytest.raises(monedula.ArgumentError, match=told):
        sender.send_batch(pyarrow.table({"value": ["x"]}), topic)
    other = monedula.AsyncProducer(bootstrap_servers=NOWHERE)
    with pytest.raises(monedula.ArgumentError, match=told):
        await other.partitions_for(topic)
    with pytest.raises(monedula.ArgumentError, match=told):
        await other.send_batch(pyarrow.table({"value": ["x"]}), topic)
    await other.close()


@pytest.mark.parametrize("name", ["client.id", "group.id", "group.instance.id", "client.rack", "transactional.id"])
def test_a_setting_that_no_request_can_hold(name: str) -> None:
    """Nothing would ever be sent; a member of such a group read nothing, and said nothing."""
    kind: Any = monedula.Producer if name in ("client.id", "transactional.id") else monedula.Consumer
    with pytest.raises(monedula.ConfigError, match=f"{name} has 32768 bytes; Kafka's protocol has room for 32767"):
        kind({"bootstrap.servers": NOWHERE, name: "x" * 32768})
    kind({"bootstrap.servers": NOWHERE, "group.id": "g", name: "x" * 32767}).close()


def test_no_topic_at_all(producer: ProducerFactory) -> None:
    with pytest.raises(TypeError, match="topic"):
        producer(bootstrap_servers=NOWHERE).send()  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"value_serializer": str}, "value_serializer"),
        ({"linger_msec": 5}, "did you mean linger.ms"),
        ({"acks": 2}, "acks"),
        ({"acks": 1, "enable_idempotence": True}, "acks=1 does not go with enable.idempotence=true"),
        ({"delivery_timeout_ms": 100, "linger_ms": 50, "request_timeout_ms": 100}, "100 ms.*50"),
        ({"compression_type": "brotli"}, "brotli"),
        ({"partitioner": "nearest"}, "nearest"),
    ],
)
def test_a_setting_that_does_not_do(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(monedula.ConfigError, match=told):
        monedula.Producer(bootstrap_servers=NOWHERE, **settings)


def test_a_partitioner_that_is_none() -> None:
    with pytest.raises(monedula.ArgumentError, match="partitioner=5: expected a function"):
        monedula.Producer(bootstrap_servers=NOWHERE, partitioner=5)  # type: ignore[arg-type]


def test_settings_of_a_consumer_are_no_error() -> None:
    with monedula.Producer(bootstrap_servers=NOWHERE, group_id="etl", auto_offset_reset="earliest") as sender:
        assert sender.metrics()


@pytest.mark.parametrize(
    "data",
    [[{"value": "x"}], {"value": ["x"]}, b"bytes", io.BytesIO(b"x"), 5, None],
    ids=lambda data: type(data).__name__,
)
def test_a_batch_that_is_no_arrow_data(producer: ProducerFactory, data: Any) -> None:
    told = f"{type(data).__name__} is no Arrow data: expected a pyarrow Table"
    with pytest.raises(monedula.ArgumentError, match=told):
        producer(bootstrap_servers=NOWHERE).send_batch(data, "orders")
