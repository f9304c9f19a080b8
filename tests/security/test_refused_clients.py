"""Every call that needs a broker, of every kind of client, where the client is not let in: the same error, at once."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, NoReturn

import monedula
import pyarrow
import pytest
from monedula.admin import AclBinding, AclFilter, QuotaEntity, ScramUpsertion, TopicPartitionReplica
from monedula.testing import Broker

from tests.cli.processes import run

Settings = dict[str, Any]
NEVER_MS = 600_000
PATIENCE_SECONDS = 60.0
AT = ("orders", 0)
SHORT = {"max.block.ms": 300, "request.timeout.ms": 1500, "delivery.timeout.ms": 2000}
LIMITS_MS = (300, 3_000, 30_000)
"""Of a call that tries to log in until then. On a busy machine the first may be over before an attempt has ended."""
QUICK = {"reconnect.backoff.ms": 5, "reconnect.backoff.max.ms": 20, "retry.backoff.ms": 5, "retry.backoff.max.ms": 20}


def of_consumer(call: Callable[[monedula.Consumer], object], *topics: str, **more: Any) -> Callable[[Settings], object]:
    """What a consumer does, whose partition is assigned if it subscribes to nothing."""

    def does(settings: Settings) -> object:
        with monedula.Consumer({**settings, **more}, topics or None) as consumer:
            if not topics:
                consumer.assign({AT: 0})
            return call(consumer)

    return does


def of_async_consumer(
    call: Callable[[monedula.AsyncConsumer], Coroutine[Any, Any, object]], *topics: str, **more: Any
) -> Callable[[Settings], object]:
    async def does(settings: Settings) -> object:
        async with monedula.AsyncConsumer({**settings, **more}, topics or None) as consumer:
            if not topics:
                consumer.assign({AT: 0})
            return await call(consumer)

    return lambda settings: asyncio.run(does(settings))


async def first(batches: Any) -> object:
    async for batch in batches:
        return batch
    return None


def of_producer(call: Callable[[monedula.Producer], object], **more: Any) -> Callable[[Settings], object]:
    def does(settings: Settings) -> object:
        with monedula.Producer({**settings, **more}) as producer:
            return call(producer)

    return does


def of_async_producer(
    call: Callable[[monedula.AsyncProducer], Coroutine[Any, Any, object]], **more: Any
) -> Callable[[Settings], object]:
    async def does(settings: Settings) -> object:
        async with monedula.AsyncProducer({**settings, **more}) as producer:
            return await call(producer)

    return lambda settings: asyncio.run(does(settings))


async def sent(producer: monedula.AsyncProducer) -> object:
    return await producer.send("orders", b"x")


def of_admin(name: str, *arguments: Any, **named: Any) -> dict[str, Callable[[Settings], object]]:
    """The call, and the same under asyncio."""

    def does(settings: Settings) -> object:
        with monedula.Admin(settings) as admin:
            return getattr(admin, name)(*arguments, **named)

    async def does_async(settings: Settings) -> object:
        async with monedula.AsyncAdmin(settings) as admin:
            return await getattr(admin, name)(*arguments, **named)

    return {f"Admin.{name}": does, f"AsyncAdmin.{name}": lambda settings: asyncio.run(does_async(settings))}


def transaction(producer: monedula.Producer) -> None:
    with producer.transaction():
        producer.send("orders", b"x")


GROUP = {"group.id": "g"}
TRANSACTIONAL = {"transactional.id": "t"}
CALLS: dict[str, Callable[[Settings], object]] = {
    "Consumer.poll": of_consumer(lambda consumer: consumer.poll(PATIENCE_SECONDS)),
    "Consumer.poll of a member": of_consumer(lambda consumer: consumer.poll(PATIENCE_SECONDS), "orders", **GROUP),
    "Consumer.poll of a member, KIP-848": of_consumer(
        lambda consumer: consumer.poll(PATIENCE_SECONDS), "orders", **GROUP, **{"group.protocol": "consumer"}
    ),
    "Consumer.batches": of_consumer(lambda consumer: next(iter(consumer.batches()))),
    "Consumer.records": of_consumer(lambda consumer: next(iter(consumer.records()))),
    "Consumer.run": of_consumer(lambda consumer: consumer.run(print), "orders", **GROUP),
    "Consumer.assign of a topic": lambda settings: assigned_whole(settings),
    "Consumer.beginning_offsets": of_consumer(lambda consumer: consumer.beginning_offsets([AT])),
    "Consumer.end_offsets": of_consumer(lambda consumer: consumer.end_offsets([AT])),
    "Consumer.offsets_for_times": of_consumer(lambda consumer: consumer.offsets_for_times({AT: 0})),
    "Consumer.partitions_of": of_consumer(lambda consumer: consumer.partitions_of("orders")),
    "Consumer.committed": of_consumer(lambda consumer: consumer.committed([AT]), **GROUP),
    "Consumer.commit": of_consumer(lambda consumer: consumer.commit({AT: 1}), **GROUP),
    "Consumer.commit_async": of_consumer(
        lambda consumer: consumer.commit_async({AT: 1}).result(PATIENCE_SECONDS), **GROUP
    ),
    "AsyncConsumer.poll": of_async_consumer(lambda consumer: consumer.poll(timeout=PATIENCE_SECONDS)),
    "AsyncConsumer.poll of a member": of_async_consumer(
        lambda consumer: consumer.poll(timeout=PATIENCE_SECONDS), "orders", **GROUP
    ),
    "AsyncConsumer.batches": of_async_consumer(lambda consumer: first(consumer.batches())),
    "AsyncConsumer.records": of_async_consumer(lambda consumer: first(consumer.records())),
    "AsyncConsumer.run": of_async_consumer(lambda consumer: consumer.run(print), "orders", **GROUP),
    "AsyncConsumer.beginning_offsets": of_async_consumer(lambda consumer: consumer.beginning_offsets([AT])),
    "AsyncConsumer.end_offsets": of_async_consumer(lambda consumer: consumer.end_offsets([AT])),
    "AsyncConsumer.offsets_for_times": of_async_consumer(lambda consumer: consumer.offsets_for_times({AT: 0})),
    "AsyncConsumer.partitions_of": of_async_consumer(lambda consumer: consumer.partitions_of("orders")),
    "AsyncConsumer.committed": of_async_consumer(lambda consumer: consumer.committed([AT]), **GROUP),
    "AsyncConsumer.commit": of_async_consumer(lambda consumer: consumer.commit({AT: 1}), **GROUP),
    "Producer.send": of_producer(lambda producer: producer.send("orders", b"x").result(PATIENCE_SECONDS)),
    "Producer.send, acks=0": of_producer(
        lambda producer: producer.send("orders", b"x").result(PATIENCE_SECONDS),
        **{"acks": 0, "enable.idempotence": False},
    ),
    "Producer.partitions_for": of_producer(lambda producer: producer.partitions_for("orders")),
    "Producer.init_transactions": of_producer(lambda producer: producer.init_transactions(), **TRANSACTIONAL),
    "Producer.transaction": of_producer(transaction, **TRANSACTIONAL),
    "AsyncProducer.send": of_async_producer(sent),
    "AsyncProducer.partitions_for": of_async_producer(lambda producer: producer.partitions_for("orders")),
    "AsyncProducer.init_transactions": of_async_producer(
        lambda producer: producer.init_transactions(), **TRANSACTIONAL
    ),
    "read": lambda settings: list(monedula.read(settings, "orders")),
    "read_range": lambda settings: list(monedula.read_range(settings, *AT, 0, 5)),
    **of_admin("describe_acls"),
    **of_admin("create_acls", AclBinding("User:anna", "read", "topic", "orders")),
    **of_admin("delete_acls", AclFilter("User:anna")),
    **of_admin("describe_cluster"),
    **of_admin("describe_metadata_quorum"),
    **of_admin("elect_leaders", [AT]),
    **of_admin("alter_partition_reassignments", {AT: [1]}),
    **of_admin("list_partition_reassignments"),
    **of_admin("describe_configs", ("topic", "orders")),
    **of_admin("list_config_resources"),
    **of_admin("alter_configs", {("topic", "orders"): {"retention.ms": 1}}),
    **of_admin("list_groups"),
    **of_admin("describe_groups", "g"),
    **of_admin("delete_groups", "g"),
    **of_admin("list_group_offsets", "g"),
    **of_admin("alter_group_offsets", "g", {AT: 1}),
    **of_admin("reset_group_offsets", "g", "earliest", topics="orders"),
    **of_admin("delete_group_offsets", "g", [AT]),
    **of_admin("group_lag", "g"),
    **of_admin("list_offsets", "orders"),
    **of_admin("delete_records", {AT: 1}),
    **of_admin("describe_log_dirs"),
    **of_admin("alter_replica_log_dirs", {TopicPartitionReplica("orders", 0, 1): "/kafka"}),
    **of_admin("describe_client_quotas"),
    **of_admin("alter_client_quotas", {QuotaEntity(user="anna"): {"producer_byte_rate": 1.0}}),
    **of_admin("describe_user_scram_credentials"),
    **of_admin("alter_user_scram_credentials", ScramUpsertion("anna", "x")),
    **of_admin("create_delegation_token"),
    **of_admin("renew_delegation_token", b"x"),
    **of_admin("expire_delegation_token", b"x"),
    **of_admin("describe_delegation_tokens"),
    **of_admin("create_topics", "orders", partitions=1),
    **of_admin("delete_topics", "orders"),
    **of_admin("list_topics"),
    **of_admin("list_transactions"),
    **of_admin("describe_transactions", "t"),
    **of_admin("fence_producers", "t"),
    **of_admin("describe_producers", AT),
    **of_admin("abort_transaction", AT, 1, 0, 0),
    **of_admin("find_hanging_transactions", topics="orders"),
    **of_admin("describe_topics", "orders"),
    **of_admin("create_partitions", {"orders": 4}),
}
"""By name, each with what a client of these settings does."""

TIMED = {f"{kind}.{call}" for kind in ("Producer", "AsyncProducer") for call in ("init_transactions", "transaction")}
"""Calls that end by `max.block.ms` or their own timeout, and not by `bootstrap.timeout.ms`."""

LOCAL = {
    "assignment", "close", "flush", "hand_over", "health", "keep_alive", "lag", "metrics", "pause", "paused",
    "position", "resume", "schema", "seek", "seek_to_beginning", "seek_to_end", "subscribe", "subscription", "unassign",
    "unsubscribe", "wakeup", "assign", "enforce_rebalance", "finish", "group_metadata", "rebalance_wanted", "rewind",
    "register_metric", "unregister_metric",
}  # fmt: skip
"""Methods that ask no broker, or tell what became of others' requests in another way than by raising."""


def assigned_whole(settings: Settings) -> object:
    with monedula.Consumer(settings) as consumer:
        consumer.assign("orders")
        return consumer.poll(PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(security="SASL_SSL", users={"anna": "right"}, topics={"orders": 1}) as started:
        yield started


def wrong_password(broker: Broker) -> Settings:
    return {**broker.client_settings("anna"), "sasl.password": "wrong", "bootstrap.timeout.ms": NEVER_MS}


def untrusted_certificate(broker: Broker) -> Settings:
    with Broker(security="SSL") as other:
        return {**broker.client_settings("anna"), "ssl.ca.pem": other.ca_pem, "bootstrap.timeout.ms": NEVER_MS}


def sealed() -> NoReturn:
    raise RuntimeError("the vault is sealed")


def no_token(broker: Broker) -> Settings:
    settings = broker.client_settings("anna", mechanism="OAUTHBEARER")
    return {**settings, **SHORT, **limited(LIMITS_MS[1]), "oauth_cb": sealed, "sasl.login.retry.backoff.ms": 20}


def limited(limit_ms: int) -> Settings:
    return {"bootstrap.timeout.ms": limit_ms, "max.block.ms": limit_ms}


def raised_by(call: Callable[[Settings], object], refusal: Callable[[Broker], Settings], broker: Broker) -> Exception:
    """What a call raises once the login was tried: with the first limit that leaves the time for it."""
    for limit_ms in LIMITS_MS:
        limits = limited(limit_ms) if refusal is no_token else {}
        with pytest.raises(monedula.KafkaError) as raised:
            call({**refusal(broker), **QUICK, **limits})
        if isinstance(raised.value, monedula.errors.AuthenticationError):
            break
    return raised.value


REFUSALS: dict[Callable[[Broker], Settings], str] = {
    wrong_password: "sasl.password",
    untrusted_certificate: "ssl.truststore.location",
    no_token: "the vault is sealed",
}
"""How a client is not let in, and what the error says then."""


@pytest.mark.timeout(PATIENCE_SECONDS)
@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.__name__)
@pytest.mark.parametrize("call", CALLS)
def test_a_client_that_is_not_let_in_says_so_whatever_it_is_asked(
    broker: Broker, call: str, refusal: Callable[[Broker], Settings]
) -> None:
    if refusal is no_token and call in TIMED:
        pytest.skip("a source of tokens may come to its senses, and these calls have a limit of their own")
    error = raised_by(CALLS[call], refusal, broker)
    assert isinstance(error, monedula.errors.AuthenticationError)
    assert REFUSALS[refusal] in str(error)
    assert error.broker == broker.bootstrap_servers
    assert error.mechanism
    assert not error.retriable


@pytest.mark.timeout(PATIENCE_SECONDS)
@pytest.mark.parametrize("call", ["Producer.partitions_for", "AsyncProducer.partitions_for"])
def test_a_call_without_a_token_ends_by_the_time_of_the_bootstrap(broker: Broker, call: str) -> None:
    with pytest.raises(monedula.errors.AuthenticationError, match="the vault is sealed"):
        CALLS[call]({**no_token(broker), **QUICK, "max.block.ms": NEVER_MS})


@pytest.mark.parametrize("refusal", [wrong_password, untrusted_certificate], ids=lambda refusal: refusal.__name__)
def test_a_record_that_is_sent_once_the_client_is_refused_is_refused_at_once(
    broker: Broker, refusal: Callable[[Broker], Settings]
) -> None:
    with monedula.Producer({**refusal(broker), **QUICK}) as producer:
        with pytest.raises(monedula.errors.AuthenticationError):
            producer.send("orders", b"x").result(PATIENCE_SECONDS)
        # Nobody asks for the results of these sends.
        for topic in ("orders", "others"):
            with pytest.raises(monedula.errors.AuthenticationError, match=REFUSALS[refusal].replace(".", r"\.")):
                producer.send(topic, b"y")
            with pytest.raises(monedula.errors.AuthenticationError):
                producer.send_batch(pyarrow.table({"value": ["y"]}), topic=topic)


@pytest.mark.parametrize("sent_before", [0, 1])
@pytest.mark.parametrize("sent_after", [0, 1])
def test_a_transaction_that_is_open_while_the_login_is_refused_fails_because_of_that(
    sent_before: int, sent_after: int
) -> None:
    """Whatever of it failed first: it can be neither committed nor aborted."""
    with Broker(security="SASL_PLAINTEXT", users={"anna": "right"}, topics={"orders": 1}) as broker:
        settings = {**broker.client_settings("anna"), **QUICK, **TRANSACTIONAL}
        with monedula.Producer(settings) as producer:
            producer.init_transactions()

            def work() -> None:
                with producer.transaction():
                    producer.send("orders", b"x").result(PATIENCE_SECONDS)
                    broker.set_password("anna", "another")
                    for _ in range(sent_before):
                        producer.send("orders", b"x")
                    broker.expire_sessions()
                    for _ in range(sent_after):
                        producer.send("orders", b"x")

            for _ in range(2):
                with pytest.raises(monedula.errors.AuthenticationError):
                    work()
            with pytest.raises(monedula.errors.AuthenticationError):
                producer.send("orders", b"x")


@pytest.mark.parametrize("call", ["Producer.init_transactions", "Producer.transaction"])
def test_a_call_that_ends_by_its_own_limit_has_the_words_of_the_source_of_tokens(broker: Broker, call: str) -> None:
    with pytest.raises(monedula.KafkaTimeoutError, match="the vault is sealed"):
        CALLS[call]({**no_token(broker), **QUICK})


@pytest.mark.parametrize("method", ["send_batch", "send_many"])
@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.__name__)
def test_rows_that_were_not_delivered_say_why(
    broker: Broker, refusal: Callable[[Broker], Settings], method: str
) -> None:
    arguments: Any = {"send_batch": (pyarrow.table({"value": ["x"]}), "orders"), "send_many": ("orders", ["x"])}[method]
    with (
        monedula.Producer({**refusal(broker), **QUICK}) as producer,
        pytest.raises(monedula.errors.BatchSendError, match=REFUSALS[refusal].replace(".", r"\.")),
    ):
        getattr(producer, method)(*arguments).result(PATIENCE_SECONDS)


@pytest.mark.parametrize("kind", [monedula.Consumer, monedula.AsyncConsumer, monedula.Producer, monedula.AsyncProducer])
def test_the_table_has_every_method_that_asks_a_broker(kind: type) -> None:
    told = {name.split(" ")[0].split(",")[0] for name in CALLS}
    skipped = LOCAL | {"begin_transaction", "commit_transaction", "abort_transaction", "send_offsets", "transaction"}
    skipped |= {"send_batch", "send_many"} | ({"commit_async"} if kind.__name__.startswith("Async") else set())
    public = {name for name in dir(kind) if not name.startswith("_")}
    assert not {name for name in public - skipped if f"{kind.__name__}.{name}" not in told}


def test_the_table_has_every_method_of_admin() -> None:
    public = {name for name in dir(monedula.Admin) if not name.startswith("_")} - LOCAL
    assert not {name for name in public if f"Admin.{name}" not in CALLS}


@pytest.mark.parametrize(
    "call", ["Consumer.poll", "Consumer.end_offsets", "Producer.send", "Admin.list_topics", "read"]
)
def test_a_source_of_tokens_that_hangs_is_named(broker: Broker, call: str) -> None:
    is_over = threading.Event()
    settings = broker.client_settings("anna", mechanism="OAUTHBEARER")
    settings |= {
        "bootstrap.timeout.ms": "1500",
        **{key: str(value) for key, value in SHORT.items()},
        "socket.connection.setup.timeout.ms": "500",
    }
    try:
        with pytest.raises(monedula.errors.AuthenticationError, match="its source has not returned"):
            CALLS[call]({**settings, **QUICK, "oauth_cb": is_over.wait})
    finally:
        is_over.set()


def test_a_source_of_tokens_that_comes_to_its_senses_is_asked_again(broker: Broker) -> None:
    """Not like a refused password: no broker was asked."""
    answers: list[Callable[[], str]] = [sealed]
    with monedula.Admin({**no_token(broker), **QUICK, "oauth_cb": lambda: answers[0]()}) as admin:
        with pytest.raises(monedula.errors.AuthenticationError, match="the vault is sealed"):
            admin.list_topics()
        answers[0] = lambda: broker.mint_token("anna")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                assert "orders" in admin.list_topics()
                return
            except (monedula.errors.AuthenticationError, monedula.errors.BrokerConnectionError):
                assert time.monotonic() < deadline


COMMANDS = {
    "topics": ["topics", "list"],
    "groups": ["groups", "list"],
    "consume": ["consume", "orders", "--from", "earliest"],
    "produce": ["produce", "orders"],
    "acls": ["acls", "list"],
}


@pytest.mark.parametrize("refusal", [wrong_password, untrusted_certificate], ids=lambda refusal: refusal.__name__)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_is_not_let_in_says_so(
    broker: Broker, command: str, refusal: Callable[[Broker], Settings], tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    escaped = {key: str(value).replace("\n", "\\n") for key, value in refusal(broker).items()}
    file.write_text("".join(f"{key}={value}\n" for key, value in escaped.items()))
    ended = run(*COMMANDS[command], "-F", str(file), stdin=b"x\n")
    said = ended.stderr.decode()
    assert ended.returncode == 1, said
    assert REFUSALS[refusal] in said
    assert broker.bootstrap_servers in said
    assert "Traceback" not in said


def test_the_log_says_that_a_refused_login_is_not_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("WARNING", "monedula")
    with Broker(security="SASL_PLAINTEXT", users={"anna": "right"}) as broker:
        settings = {**broker.client_settings("anna"), "sasl.password": "canary"}
        with monedula.Admin(settings) as admin, pytest.raises(monedula.errors.AuthenticationError):
            admin.list_topics()
        address = broker.bootstrap_servers
    (told,) = (record.getMessage() for record in caplog.records if record.name == "monedula.network")
    assert told.count(address) == 1
    assert "Check sasl.username and sasl.password" in told
    assert told.endswith(". It is not tried again: make another client then")
    assert "next in" not in told
    assert "canary" not in told
