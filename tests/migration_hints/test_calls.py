"""Every method of other clients is a method here, or the error says what to use. The lists are the clients' own."""

import asyncio
import inspect
import pickle
import re
from collections.abc import Callable, Iterator
from typing import Any

import aiokafka
import aiokafka.admin
import confluent_kafka
import confluent_kafka.admin
import confluent_kafka.aio
import kafka
import kafka.admin
import kafka.producer.future
import monedula
import pytest
from monedula import AsyncConsumer, AsyncProducer, AsyncShareConsumer, Consumer, Producer, ShareConsumer
from monedula._migration_hints.calls import CALLS
from monedula._migration_hints.names import NAMES
from monedula.admin import Admin, AsyncAdmin
from monedula.testing import Broker

FOREIGN: dict[type, list[type]] = {
    Consumer: [
        confluent_kafka.Consumer,
        confluent_kafka.aio.AIOConsumer,
        aiokafka.AIOKafkaConsumer,
        kafka.KafkaConsumer,
    ],
    Producer: [
        confluent_kafka.Producer,
        confluent_kafka.aio.AIOProducer,
        aiokafka.AIOKafkaProducer,
        kafka.KafkaProducer,
    ],
    ShareConsumer: [confluent_kafka.ShareConsumer],
    Admin: [confluent_kafka.admin.AdminClient, aiokafka.admin.AIOKafkaAdminClient, kafka.KafkaAdminClient],
}
BROKER_FREE = {"bootstrap.servers": "127.0.0.1:1"}


def public(kind: type) -> list[str]:
    return [name for name in dir(kind) if not name.startswith("_") and not name.isupper()]


@pytest.mark.parametrize(("ours", "theirs"), [(ours, each) for ours, all_ in FOREIGN.items() for each in all_])
def test_every_method_is_there_or_explained(ours: type, theirs: type) -> None:
    names = [name for name in public(theirs) if "KIP" not in name]
    assert len(names) > 10
    assert [name for name in names if not hasattr(ours, name) and name not in CALLS[ours.__name__]] == []


def test_no_method_that_is_explained_is_one_of_ours() -> None:
    answers = (monedula.Batch, monedula.Record, monedula.SendFuture)
    for ours in (Consumer, ShareConsumer, Producer, Admin, Broker, *answers):
        assert [name for name in CALLS[ours.__name__] if hasattr(ours, name)] == []


@pytest.fixture
def clients() -> Iterator[dict[type, Any]]:
    with Consumer(BROKER_FREE) as consumer, Producer(BROKER_FREE) as producer, Admin(BROKER_FREE) as admin:
        made = (AsyncConsumer, AsyncProducer, AsyncAdmin)
        yield {Consumer: consumer, Producer: producer, Admin: admin, **{kind: kind(BROKER_FREE) for kind in made}}


@pytest.mark.parametrize(
    ("kind", "name", "says"),
    [
        (Consumer, "consume", "poll(timeout, max_rows=n)"),
        (Consumer, "store_offsets", "finish(batch)"),
        (Consumer, "get_watermark_offsets", "end_offsets([partition])"),
        (Consumer, "list_topics", "Admin(settings).list_topics()"),
        (Consumer, "commitSync", "commit()"),
        (Consumer, "beginningOffsets", "here: beginning_offsets"),
        (Consumer, "acknowledge", "monedula.ShareConsumer"),
        (AsyncConsumer, "getone", "records()"),
        (AsyncConsumer, "getmany", "poll("),
        (AsyncConsumer, "start", "nothing is to be started"),
        (AsyncConsumer, "stop", "close()"),
        (Producer, "produce", "send(topic, value"),
        (Producer, "poll", "flush()"),
        (AsyncProducer, "send_and_wait", "await send(...)"),
        (Admin, "list_consumer_groups", "list_groups()"),
        (AsyncAdmin, "describeCluster", "here: describe_cluster"),
    ],
)
def test_who_calls_a_method_of_another_client_is_told_what_to_call(
    clients: dict[type, Any], kind: type, name: str, says: str
) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(clients[kind], name)
    assert str(caught.value).startswith(f"{kind.__name__!r} object has no attribute {name!r}; here: ")
    assert says in str(caught.value)


def test_what_is_explained_is_neither_there_nor_listed(clients: dict[type, Any]) -> None:
    producer = clients[Producer]
    assert not hasattr(producer, "produce")
    assert getattr(producer, "produce", None) is None
    assert "produce" not in dir(producer)
    assert "produce" not in dir(Producer)


def test_a_misspelt_method_still_has_the_nearest_name(clients: dict[type, Any]) -> None:
    with pytest.raises(AttributeError, match=r"^'Consumer' object has no attribute 'comit'$") as caught:
        _ = clients[Consumer].comit
    assert (caught.value.name, caught.value.obj) == ("comit", clients[Consumer])


def test_a_subclass_is_told_too() -> None:
    class Mine(Producer):
        pass

    with Mine(BROKER_FREE) as producer, pytest.raises(AttributeError, match=r"^'Mine' .*; here: send\("):
        _ = producer.produce  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("method", "arguments", "says"),
    [
        ("subscribe", {"topics": ["orders"], "on_assign": print}, "on_assigned="),
        ("subscribe", {"topics": ["orders"], "listener": object()}, "on_revoked="),
        ("poll", {"timeout_ms": 1000}, "timeout=1.0"),
        ("commit", {"asynchronous": False}, "commit_async()"),
        ("commit", {"message": object()}, "commit(batch)"),
        ("commit_async", {"callback": print}, "add_done_callback"),
        ("close", {"autocommit": False}, "enable.auto.commit"),
    ],
)
@pytest.mark.parametrize("kind", [Consumer, AsyncConsumer])
def test_arguments_of_other_clients_are_explained(
    clients: dict[type, Any], kind: type, method: str, arguments: dict[str, Any], says: str
) -> None:
    async def called() -> None:
        await getattr(clients[AsyncConsumer], method)(**arguments)

    with pytest.raises(TypeError) as caught:
        asyncio.run(called()) if kind is AsyncConsumer else getattr(clients[Consumer], method)(**arguments)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("method", "arguments", "says"),
    [
        ("batches", {"until": "latest"}, "timeout=5.0 ends it"),
        ("close", {"autocommit": False}, "the rest released"),
        ("commit", {"offsets": {}}, "accept(record) decides"),
        ("commit_async", {"offsets": {}}, "accept(record) decides"),
        ("poll", {"timeout_ms": 1000}, "timeout=1.0"),
        ("records", {"until": "latest"}, "timeout=5.0 ends it"),
        ("run", {"handler": print, "order": "key"}, "a share group has no order"),
        ("run", {"handler": print, "transaction": None}, "at least once"),
        ("run", {"handler": print, "until": "latest"}, "timeout=5.0 ends it"),
        ("subscribe", {"pattern": "orders.*"}, "subscribe(['jobs', 'mails'])"),
        ("subscribe", {"topics": "orders", "on_assign": print}, "on_event=f"),
        ("subscribe", {"topics": "orders", "on_assigned": print}, "on_event=f"),
    ],
)
@pytest.mark.parametrize("kind", [ShareConsumer, AsyncShareConsumer])
def test_arguments_that_a_share_consumer_lacks_are_explained(
    kind: Any, method: str, arguments: dict[str, Any], says: str
) -> None:
    consumer = kind({**BROKER_FREE, "group.id": "queue"})

    async def called() -> None:
        await getattr(consumer, method)(**arguments)

    unknown = next(name for name in arguments if name not in ("handler", "topics"))
    with pytest.raises(TypeError, match=rf"^{method}\(\) takes no argument '{unknown}'; here: ") as caught:
        asyncio.run(called()) if kind is AsyncShareConsumer else getattr(consumer, method)(**arguments)
    assert says in str(caught.value)


@pytest.mark.parametrize(("argument", "says"), [("partitions", "topics={'orders': 3}"), ("brokers", "nodes=3")])
def test_arguments_of_other_brokers_for_tests_are_explained(argument: str, says: str) -> None:
    with pytest.raises(TypeError, match=rf"^Broker\(\) takes no argument '{argument}'; here: {re.escape(says)}"):
        Broker(**{argument: 3})  # type: ignore[arg-type]


def test_what_a_broker_for_tests_lacks_says_what_to_use(broker: Broker) -> None:
    for name, says in (("get_records", "monedula.read("), ("wait_for", "observe("), ("reset", "remove_faults()")):
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'; here: .*{re.escape(says)}"):
            getattr(broker, name)
    with pytest.raises(TypeError, match=r"^fault\(\) takes no argument 'delay'; here: delay_ms=500$"):
        broker.fault(api="Fetch", delay=5)  # type: ignore[call-arg]
    with pytest.raises(monedula.ArgumentError, match=r"one effect of error, delay_ms, .*; given: hold, throttle_ms$"):
        broker.fault(api="Fetch", hold=True, throttle_ms=5)


@pytest.mark.parametrize(
    "theirs",
    [
        kafka.admin.NewTopic("orders", 3, 1),
        aiokafka.admin.NewTopic("orders", 3, 1),
        confluent_kafka.admin.NewTopic("orders", 3, 1),
    ],
)
def test_a_topic_to_create_of_another_client_is_explained(clients: dict[type, Any], theirs: Any) -> None:
    says = r"of another client; here: monedula\.NewTopic\('orders', part"
    for given in (theirs, [theirs]):
        with pytest.raises(monedula.ArgumentError, match=says):
            clients[Admin].create_topics(given)


def test_results_of_admin_calls_of_other_clients_are_explained(broker: Broker) -> None:
    with Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
        made = admin.create_topics("new")
        for told, of, name in (
            ("the call has waited for the result", made["new"], "result"),
            ("topic names are its keys", admin.list_topics(), "topics"),
            ("nodes", admin.describe_cluster(), "brokers"),
            ("this is the dict of all groups", admin.list_groups(), "valid"),
        ):
            with pytest.raises(AttributeError, match=f"has no attribute '{name}'; here: .*{told}"):
                getattr(of, name)
    with pytest.raises(TypeError, match=r"^NewTopic\(\) takes no argument 'num_partitions'; here: partitions=3$"):
        monedula.NewTopic("orders", num_partitions=3)  # type: ignore[call-arg]


def test_a_dict_of_topics_is_refused_where_its_numbers_would_be_lost(clients: dict[type, Any]) -> None:
    with pytest.raises(monedula.ArgumentError, match=r"expected names, or NewTopic\('orders', partitions=3\) for each"):
        clients[Admin].create_topics({"orders": 3})


def test_a_partition_with_an_offset_is_explained() -> None:
    for given, named in ((("orders", 0, 42), {}), (("orders", 0), {"offset": 42})):
        with pytest.raises(TypeError, match=r"here an offset stands beside it, as in \{\('orders', 0\): 42\}$"):
            monedula.TopicPartition(*given, **named)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"missing 1 required positional argument: 'partition'$"):
        monedula.TopicPartition("orders")  # type: ignore[call-arg]
    partition = monedula.TopicPartition(topic="orders", partition=1)
    assert pickle.loads(pickle.dumps(partition)) == partition._replace(partition=1) == ("orders", 1)


def test_partitions_with_times_are_explained(clients: dict[type, Any]) -> None:
    with pytest.raises(monedula.ArgumentError, match=r"expected a dict such as \{\('orders', 0\): '1h ago'\}"):
        clients[Consumer].offsets_for_times([confluent_kafka.TopicPartition("orders", 0, 3)])
    with pytest.raises(monedula.ArgumentError, match="expected a dict"):
        asyncio.run(clients[AsyncConsumer].offsets_for_times([("orders", 0)]))


def test_coroutine_functions_stay_what_they_are() -> None:
    assert all(asyncio.iscoroutinefunction(getattr(AsyncConsumer, name)) for name in ("close", "committed"))


def test_a_loop_over_a_consumer_is_told_over_what_to_loop(clients: dict[type, Any]) -> None:
    with pytest.raises(TypeError, match=r"here: use `for record in consumer\.records\(\)`"):
        iter(clients[Consumer])

    async def main() -> None:
        async for _ in clients[AsyncConsumer]:
            pass

    with pytest.raises(TypeError, match=r"here: use `async for record in consumer\.records\(\)`"):
        asyncio.run(main())


@pytest.mark.parametrize("method", ["pause", "resume", "seek_to_beginning", "seek_to_end", "lag"])
def test_a_list_of_partitions_is_told_to_be_unpacked(clients: dict[type, Any], method: str) -> None:
    with pytest.raises(monedula.ArgumentError, match=rf"given one by one, such as {method}\(\*partitions\)"):
        getattr(clients[Consumer], method)([("orders", 0)])


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 1}) as broker:
        broker.append("orders", ["a"])
        yield broker


def test_who_takes_a_batch_for_a_message_is_told_where_the_records_are(broker: Broker) -> None:
    with Consumer({"bootstrap.servers": broker.bootstrap_servers}) as consumer:
        consumer.assign({("orders", 0): 0})
        batch: Any = consumer.poll(timeout=10.0)
    with pytest.raises(AttributeError, match=r"here: errors are raised by the call that reads; .*batch\.records\(\)"):
        batch.error()
    with pytest.raises(AttributeError, match=r"here: .*batch\.records\(\)"):
        batch.value()
    with pytest.raises(AttributeError, match=r"batch\.records\(\) yields them"):
        batch.items()  # kafka-python's poll() returns a dict
    record: Any = next(batch.records())
    with pytest.raises(AttributeError, match=r"'Record' .*; here: there is none: errors are raised"):
        record.error()
    with pytest.raises(AttributeError, match=r"'Batch' .*; here: .*ShareConsumer, such as consumer\.accept\(batch\)"):
        batch.accept()
    with pytest.raises(AttributeError, match=r"'Batch' .*; here: consumer\.commit\(batch\)"):
        batch.commit()
    with pytest.raises(AttributeError, match=r"'Record' .*; here: .*ShareConsumer, such as consumer\.accept\(record\)"):
        record.accept()
    assert not hasattr(batch, "error")
    assert not hasattr(record, "error")


def test_futures_of_other_clients_are_explained(broker: Broker) -> None:
    with Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        future: Any = producer.send("orders", "b")
        with pytest.raises(AttributeError, match=r"'SendFuture' .*; here: result\(timeout\), in seconds"):
            future.get(timeout=10)
        with pytest.raises(AttributeError, match=r"add_done_callback"):
            future.add_errback(print)
        assert (
            set(public(kafka.producer.future.FutureRecordMetadata)) & {"get", "add_errback"}
            <= CALLS["SendFuture"].keys()
        )


def test_arguments_of_other_producers_are_explained(broker: Broker) -> None:
    with Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        send: Any = producer.send
        with pytest.raises(TypeError, match=r"send\(\) takes no argument 'timestamp_ms'; here: timestamp="):
            send("orders", "c", timestamp_ms=1)
        with pytest.raises(TypeError, match=r"send\(\) takes no argument 'callback'; here: on_delivery="):
            send("orders", "c", callback=print)
        with pytest.raises(TypeError, match=r"send\(\) got an unexpected keyword argument 'kye'"):
            send("orders", "c", kye="k")


@pytest.mark.parametrize("theirs", [confluent_kafka, aiokafka, kafka])
def test_every_name_of_another_client_is_there_or_explained(theirs: Any) -> None:
    names = [name for name, value in vars(theirs).items() if name[0].isupper() and not isinstance(value, type(kafka))]
    assert len(names) > 9
    known = {"Consumer", "Producer"}  # the same names with other arguments
    assert [
        name
        for name in names
        if not any(hasattr(ours, name) for ours in (monedula, monedula.admin)) and name not in NAMES.keys() | known
    ] == []


def test_no_name_that_is_explained_is_one_of_ours() -> None:
    assert [name for name in NAMES if hasattr(monedula, name) or hasattr(monedula.admin, name)] == []


@pytest.mark.parametrize(
    ("source", "kind", "says"),
    [
        ("from monedula import KafkaConsumer", ImportError, "here: monedula.Consumer"),
        ("from monedula import Consumer, AIOKafkaProducer", ImportError, "here: monedula.AsyncProducer"),
        ("from monedula import KafkaShareConsumer", ImportError, "here: monedula.ShareConsumer"),
        ("from monedula.admin import AdminClient", ImportError, "here: monedula.Admin"),
        ("import monedula; monedula.AdminClient", AttributeError, "here: monedula.Admin"),
        ("import monedula; monedula.ConfigResource", AttributeError, "here: monedula.admin.ConfigResource"),
        ("import monedula; monedula.OFFSET_BEGINNING", AttributeError, "'earliest'"),
        (
            "from monedula import AvroSerializer",
            ImportError,
            "value=monedula.Avro(schema)) encodes",
        ),
        ("from monedula import JSONDeserializer", ImportError, "value=monedula.Json(schema, framing='confluent')) de"),
        ("from monedula import SchemaRegistryClient", ImportError, "here: monedula.SchemaRegistry({"),
    ],
)
def test_who_imports_a_name_of_another_client_is_told_what_to_import(source: str, kind: type, says: str) -> None:
    with pytest.raises(kind) as caught:
        exec(source)
    assert says in str(caught.value)


def test_a_misspelt_name_still_has_the_nearest_one() -> None:
    with pytest.raises(AttributeError) as caught:
        _ = monedula.Consumr  # type: ignore[attr-defined]
    assert (caught.value.name, caught.value.obj) == ("Consumr", monedula)


@pytest.mark.parametrize("kind", [Consumer, AsyncConsumer])
def test_a_partition_of_another_client_is_told_to_be_a_tuple(clients: dict[type, Any], kind: type) -> None:
    theirs = confluent_kafka.TopicPartition("orders", 0, 42)
    for arguments, keywords in [((theirs,), {}), ((("orders", 0),), {"offset": 42})]:
        with pytest.raises(TypeError, match=r"here: seek\(\('orders', 0\), 42\)"):
            clients[kind].seek(*arguments, **keywords)
    with pytest.raises(monedula.ArgumentError, match=r"not TopicPartition: give \('orders', 0\)"):
        clients[kind].seek(theirs, 42)


@pytest.mark.parametrize("kind", [AsyncConsumer, AsyncProducer, AsyncAdmin])
def test_a_plain_with_over_a_client_for_asyncio_is_told_to_be_async(clients: dict[type, Any], kind: type) -> None:
    with pytest.raises(TypeError, match="use `async with`"), clients[kind]:
        pass


@pytest.mark.parametrize("method", ["batches", "records"])
def test_a_plain_loop_over_a_client_for_asyncio_is_told_to_be_async(clients: dict[type, Any], method: str) -> None:
    with pytest.raises(TypeError, match="use `async for`"):
        iter(getattr(clients[AsyncConsumer], method)())


def test_who_treats_the_embedded_broker_as_another_one_is_told_what_to_call() -> None:
    with Broker() as broker:
        for name, says in {
            "start": "it runs",
            "produce": "append(",
            "url": "bootstrap_servers",
            "close": "stop()",
        }.items():
            with pytest.raises(AttributeError) as caught:
                getattr(broker, name)
            assert says in str(caught.value)


def call(method: Callable[..., Any], client: object) -> None:
    """Call a method with arguments that none takes."""
    called = method(client, *[BROKER_FREE] * 20, no_such_argument=1)
    if inspect.iscoroutine(called):
        asyncio.run(called)


CLIENTS = (Consumer, AsyncConsumer, Producer, AsyncProducer, Admin, AsyncAdmin)


@pytest.mark.parametrize("kind", CLIENTS)
def test_errors_about_arguments_name_the_class_that_users_know(kind: type) -> None:
    """Methods come from mixins, which Python's errors would name."""
    names = [name for name in public(kind) if inspect.isfunction(getattr(kind, name))]
    assert len(names) > 5
    for name in ["__new__" if kind in (Producer, AsyncProducer) else "__init__", *names]:
        # Where a call looks for its event loop before anything else, it needs an object of its own.
        client = object.__new__(kind) if kind is AsyncAdmin else BROKER_FREE

        with pytest.raises(TypeError) as raised:
            call(getattr(kind, name), client)
        assert str(raised.value).startswith(f"{kind.__name__}.{name}() "), name


def test_errors_about_arguments_of_send_name_the_producer() -> None:
    with Producer(BROKER_FREE) as producer, pytest.raises(TypeError, match=r"^Producer\.send\(\) got an unexpected"):
        producer.send("orders", no_such_argument=1)  # type: ignore[call-arg]


def test_a_method_of_a_client_says_what_the_mixin_says() -> None:
    for kind in CLIENTS:
        for name in public(kind):
            method = getattr(kind, name)
            if inspect.isfunction(method):
                assert method.__doc__, name
                assert method.__qualname__ == f"{kind.__name__}.{name}"
                assert inspect.signature(method).parameters, name
