"""Every time-out says what was waited for, of whom, how long, and what failed last."""

import asyncio
import inspect
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NoReturn

import monedula
import pyarrow
import pytest
from monedula import admin
from monedula.testing import Broker

ORDERS = ("orders", 0)
TIMEOUT = 1.5
"""In seconds: a broker that is silent for a second owes an answer."""

KINDS = ("sync", "async")

ACL = admin.AclBinding("User:alice", "read", "topic", "orders")

TABLE = pyarrow.table({"value": [b"x"]})

ADMIN_CALLS: dict[str, tuple[object, ...]] = {
    "abort_transaction": (ORDERS, 1, 0, 0),
    "alter_client_quotas": ({admin.QuotaEntity(user="alice"): {"producer_byte_rate": 1.0}},),
    "alter_configs": ({("topic", "orders"): {"retention.ms": 1}},),
    "alter_group_offsets": ("etl", {ORDERS: 0}),
    "alter_partition_reassignments": ({ORDERS: [1]},),
    "alter_replica_log_dirs": ({("orders", 0, 1): "/tmp"},),
    "alter_user_scram_credentials": (admin.ScramDeletion("alice", "SCRAM-SHA-256"),),
    "create_acls": (ACL,),
    "create_delegation_token": (),
    "create_partitions": ({"orders": 2},),
    "create_topics": ("payments",),
    "delete_acls": (ACL,),
    "delete_group_offsets": ("etl", [ORDERS]),
    "delete_groups": ("etl",),
    "delete_records": ({ORDERS: 0},),
    "delete_topics": ("orders",),
    "describe_acls": (),
    "describe_client_quotas": (),
    "describe_cluster": (),
    "describe_configs": (("topic", "orders"),),
    "describe_delegation_tokens": (),
    "describe_groups": ("etl",),
    "describe_log_dirs": (1,),
    "describe_metadata_quorum": (),
    "describe_producers": (ORDERS,),
    "describe_topics": ("orders",),
    "describe_transactions": ("billing",),
    "describe_user_scram_credentials": (),
    "elect_leaders": ([ORDERS],),
    "expire_delegation_token": (b"hmac",),
    "fence_producers": ("billing",),
    "find_hanging_transactions": (),
    "group_lag": ("etl",),
    "list_config_resources": (),
    "list_group_offsets": ("etl",),
    "list_groups": (),
    "list_offsets": ("orders",),
    "list_partition_reassignments": (),
    "list_topics": (),
    "list_transactions": (),
    "renew_delegation_token": (b"hmac",),
    "reset_group_offsets": ("etl", "earliest"),
}

CONSUMER_CALLS: dict[str, Callable[[Any], Any]] = {
    "commit": lambda consumer: consumer.commit({ORDERS: 1}, timeout=TIMEOUT),
    "committed": lambda consumer: consumer.committed([ORDERS], timeout=TIMEOUT),
    "beginning_offsets": lambda consumer: consumer.beginning_offsets([ORDERS], timeout=TIMEOUT),
    "end_offsets": lambda consumer: consumer.end_offsets([ORDERS], timeout=TIMEOUT),
    "offsets_for_times": lambda consumer: consumer.offsets_for_times({ORDERS: "1h ago"}, timeout=TIMEOUT),
    "partitions_of": lambda consumer: consumer.partitions_of("payments", timeout=TIMEOUT),
}

PRODUCER_CALLS: dict[str, Callable[[Any], Any]] = {
    "flush": lambda producer: (producer.send("orders", "x"), producer.flush(timeout=TIMEOUT)),
    "result": lambda producer: producer.send("orders", "x").result(timeout=TIMEOUT),
    "exception": lambda producer: producer.send("orders", "x").exception(timeout=TIMEOUT),
    "report": lambda producer: producer.send_batch(TABLE, "orders").report(timeout=TIMEOUT),
    "partitions_for": lambda producer: producer.partitions_for("payments", timeout=TIMEOUT),
}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with made() as broker:
        yield broker


def made() -> Broker:
    return Broker(topics={"orders": 1})


@pytest.fixture(params=["stopped", "black hole"], scope="module")
def way(request: pytest.FixtureRequest) -> str:
    """How a broker dies: it refuses connections, or it says nothing."""
    found: str = request.param
    return found


@pytest.fixture
def kill(way: str, broker: Broker) -> Callable[[], object]:
    """Has the broker die."""
    broker.append("orders", ["a"])
    return lambda: die(broker, way)


def die(broker: Broker, way: str) -> None:
    if way == "black hole":
        broker.fault(black_hole="both")
        return
    broker.stop_node(1)
    until = time.monotonic() + 5
    while broker.connections() and time.monotonic() < until:
        time.sleep(0.01)


Call = Callable[[Broker, Callable[[], object]], object]


class Raised:
    """What calls raised that were made at the same time, as the broker died: they take as long as one of them.

    Args:
        way: how it dies.
        calls: each gets the broker and what it has to call once it is about to call.
    """

    def __init__(self, way: str, calls: Mapping[Any, Call]) -> None:
        with made() as broker, ThreadPoolExecutor(len(calls)) as pool:
            broker.append("orders", ["a"])
            ready = threading.Barrier(len(calls), lambda: die(broker, way), timeout=60)
            made_calls = {name: pool.submit(call, broker, ready.wait) for name, call in calls.items()}
            self._errors = {name: call.exception() for name, call in made_calls.items()}
            self._servers = broker.bootstrap_servers

    def by(self, name: Any) -> NoReturn:
        """Raise what this call has raised, and look whether it tells enough."""
        error = self._errors[name]
        assert error is not None, "it did not fail"
        if isinstance(error, monedula.KafkaTimeoutError | monedula.errors.BrokerConnectionError):
            assert_tells(error, self._servers)
        raise error


FAILS = (monedula.KafkaTimeoutError, monedula.errors.BrokerConnectionError)


def assert_tells(error: BaseException, servers: str) -> None:
    """The message has the broker, the time, and the failure."""
    text = str(error)
    assert servers in text, text
    assert re.search(r"refused|no answer to \w+|no answer within|no connection for|closed", text), text
    assert re.search(r"\d(\.\d+)? m?s\b", text), text
    if isinstance(error, monedula.KafkaTimeoutError):
        assert error.last_error
        assert error.last_error in text


def test_the_table_has_every_call_of_the_admin_client_that_may_time_out() -> None:
    methods = inspect.getmembers(monedula.Admin, inspect.isfunction)
    timed = {name for name, method in methods if "timeout" in inspect.signature(method).parameters}
    assert timed - {"close"} == ADMIN_CALLS.keys()


@pytest.fixture(scope="module")
def raised_by_admin(way: str) -> Raised:
    def call(name: str, broker: Broker, kill: Callable[[], object]) -> None:
        with monedula.Admin(bootstrap_servers=broker.bootstrap_servers) as client:
            client.list_topics()
            kill()
            getattr(client, name)(*ADMIN_CALLS[name], timeout=TIMEOUT)

    return Raised(way, {name: partial(call, name) for name in ADMIN_CALLS})


@pytest.mark.parametrize("name", ADMIN_CALLS)
def test_a_call_of_the_admin_client(name: str, raised_by_admin: Raised) -> None:
    with pytest.raises(FAILS):
        raised_by_admin.by(name)


@pytest.fixture(scope="module")
def raised_by_consumers(way: str) -> Raised:
    def settings(broker: Broker) -> dict[str, str]:
        return {"bootstrap.servers": broker.bootstrap_servers, "group.id": "etl", "auto.offset.reset": "earliest"}

    async def asynchronous(name: str, broker: Broker, kill: Callable[[], object]) -> None:
        async with monedula.AsyncConsumer(settings(broker)) as consumer:
            consumer.assign({ORDERS: "earliest"})
            assert await consumer.poll(timeout=20)
            await consumer.committed()
            kill()
            await CONSUMER_CALLS[name](consumer)

    def synchronous(name: str, broker: Broker, kill: Callable[[], object]) -> None:
        with monedula.Consumer(settings(broker)) as consumer:
            consumer.assign({ORDERS: "earliest"})
            assert consumer.poll(timeout=20)
            consumer.committed()
            kill()
            CONSUMER_CALLS[name](consumer)

    def call(kind: str, name: str, broker: Broker, kill: Callable[[], object]) -> None:
        synchronous(name, broker, kill) if kind == "sync" else asyncio.run(asynchronous(name, broker, kill))

    return Raised(way, {(kind, name): partial(call, kind, name) for kind in KINDS for name in CONSUMER_CALLS})


@pytest.mark.parametrize("name", CONSUMER_CALLS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_call_of_a_consumer(name: str, kind: str, raised_by_consumers: Raised) -> None:
    with pytest.raises(FAILS):
        raised_by_consumers.by((kind, name))


def test_a_commit_that_is_not_waited_for(broker: Broker, kill: Callable[[], object]) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "etl", "auto.offset.reset": "earliest"}
    consumer = monedula.Consumer(settings)
    consumer.assign({ORDERS: "earliest"})
    assert consumer.poll(timeout=20)
    kill()
    while consumer.health()["ok"]:
        consumer.poll(timeout=0.1)
    with pytest.raises(monedula.KafkaTimeoutError) as raised:
        consumer.commit_async().result(timeout=TIMEOUT)
    consumer.close(timeout=0)
    assert_tells(raised.value, broker.bootstrap_servers)


def test_a_commit_of_a_member(broker: Broker, kill: Callable[[], object]) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "etl", "auto.offset.reset": "earliest"}
    consumer = monedula.Consumer(settings, ["orders"])
    assert consumer.poll(timeout=20)
    kill()
    with pytest.raises(monedula.errors.CommitFailedError) as raised:
        consumer.commit(timeout=TIMEOUT)
    consumer.close(timeout=0)
    assert broker.bootstrap_servers in str(raised.value)


@pytest.fixture(scope="module")
def raised_by_producers(way: str) -> Raised:
    def call(name: str, broker: Broker, kill: Callable[[], object]) -> None:
        producer = monedula.Producer(
            bootstrap_servers=broker.bootstrap_servers, delivery_timeout_ms=3000, request_timeout_ms=2000
        )
        producer.send("orders", "x").result()
        kill()
        try:
            PRODUCER_CALLS[name](producer)
        finally:
            producer.close(timeout=0)

    return Raised(way, {name: partial(call, name) for name in PRODUCER_CALLS})


@pytest.mark.parametrize("name", PRODUCER_CALLS)
def test_a_call_of_a_producer(name: str, raised_by_producers: Raised) -> None:
    with pytest.raises(FAILS):
        raised_by_producers.by(name)


def test_a_record_that_was_not_delivered_in_time(broker: Broker, kill: Callable[[], object]) -> None:
    settings: dict[str, Any] = {"delivery_timeout_ms": 1500, "request_timeout_ms": 1200, "linger_ms": 0}
    producer = monedula.Producer(bootstrap_servers=broker.bootstrap_servers, **settings)
    producer.send("orders", "x").result()
    kill()
    with pytest.raises(monedula.errors.DeliveryTimeoutError) as raised:
        producer.send("orders", "x").result()
    producer.close(timeout=0)
    assert broker.bootstrap_servers in str(raised.value)


def test_a_full_buffer(broker: Broker, kill: Callable[[], object]) -> None:
    settings: dict[str, Any] = {"buffer_memory": 70_000, "max_block_ms": 1500, "batch_size": 16_000}
    producer = monedula.Producer(bootstrap_servers=broker.bootstrap_servers, **settings)
    producer.send("orders", "x").result()
    kill()
    with pytest.raises(monedula.errors.BufferFullError) as raised:
        deque(producer.send("orders", "x" * 10_000) for _ in range(10))
    producer.close(timeout=0)
    assert broker.bootstrap_servers in str(raised.value)


@pytest.mark.parametrize("verb", ["init_transactions", "commit_transaction"])
def test_a_transaction(verb: str, broker: Broker, kill: Callable[[], object]) -> None:
    producer = monedula.Producer(
        bootstrap_servers=broker.bootstrap_servers, transactional_id="t", request_timeout_ms=1000
    )
    if verb == "init_transactions":
        producer.partitions_for("orders")
        kill()
    else:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", "x").result()
        kill()
    with pytest.raises(monedula.KafkaTimeoutError) as raised:
        getattr(producer, verb)(timeout=TIMEOUT)
    producer.close(timeout=0)
    assert_tells(raised.value, broker.bootstrap_servers)


MISSPELT: dict[str, Callable[[Any, Any], Any]] = {
    "end_offsets": lambda consumer, _: consumer.end_offsets([("ordres", 0)], timeout=TIMEOUT),
    "offsets_for_times": lambda consumer, _: consumer.offsets_for_times({("ordres", 0): "1h ago"}, timeout=TIMEOUT),
    "partitions_of": lambda consumer, _: consumer.partitions_of("ordres", timeout=TIMEOUT),
    "partitions_for": lambda _, producer: producer.partitions_for("ordres", timeout=TIMEOUT),
    "result": lambda _, producer: producer.send("ordres", "x").result(timeout=TIMEOUT),
    "flush": lambda _, producer: (producer.send("ordres", "x"), producer.flush(timeout=TIMEOUT)),
}


@pytest.mark.parametrize("call", MISSPELT.values(), ids=MISSPELT)
def test_a_topic_that_is_not_known_is_named(call: Callable[[Any, Any], Any], broker: Broker) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    producer = monedula.Producer(settings)
    with monedula.Consumer(settings) as consumer, pytest.raises(monedula.KafkaTimeoutError) as raised:
        call(consumer, producer)
    producer.close(0)
    assert "the topic ordres is not known to the brokers" in str(raised.value)
