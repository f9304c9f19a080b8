"""Log events leave the core when they happen, each with its fields, and repetitions do not flood."""

import json
import logging
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import monedula
import pytest
from monedula._logging import _PARTS
from monedula.testing import Broker

from tests.consumer.conftest import ConsumerFactory

FIELDS = {"event", "client_id", "group", "broker", "topic", "partition", "error_code", "repeated"}


class Heard(logging.Handler):
    """Keeps records, and lets a test wait for one."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self._came = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        with self._came:
            self.records.append(record)
            self._came.notify_all()

    def named(self, event: str, broker: str | None = None) -> list[logging.LogRecord]:
        """Events of that name, about that broker: another test's client may still have something to say."""
        named = [record for record in list(self.records) if getattr(record, "event", None) == event]
        return [record for record in named if broker in (None, vars(record)["broker"])]

    def wait(self, event: str, broker: str | None = None) -> logging.LogRecord:
        with self._came:
            found = self._came.wait_for(lambda: self.named(event, broker), timeout=20)
        assert found, [record.getMessage() for record in self.records]
        return self.named(event, broker)[0]


@pytest.fixture
def heard() -> Iterator[Heard]:
    handler, logger = Heard(), logging.getLogger("monedula")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 1}) as broker:
        broker.append("orders", ["a"])
        yield broker


def test_a_consumer_that_waits_says_at_once_that_its_broker_died(broker: Broker, heard: Heard) -> None:
    with monedula.Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign("orders")
        assert consumer.poll(timeout=20)
        waiting = threading.Thread(target=lambda: list(consumer.batches()))
        waiting.start()
        address = broker.bootstrap_servers
        before = time.time()
        broker.stop_node(1)
        record = heard.wait("connection_failed", address)
        assert waiting.is_alive()
        assert before <= record.created <= time.time()
        assert (record.levelname, record.name) == ("WARNING", "monedula.network")
        assert (vars(record)["broker"], vars(record)["client_id"]) == (address, "monedula")
        assert re.search("refused", record.getMessage())
        consumer.wakeup()
        waiting.join()


def test_an_event_has_the_time_at_which_it_happened_whenever_a_handler_gets_it(broker: Broker, heard: Heard) -> None:
    goes_on = threading.Event()
    heard.addFilter(lambda _: goes_on.wait(20))
    with monedula.Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign("orders")
        assert consumer.poll(timeout=20)
        happened = time.time()
        goes_on.set()
        record = heard.wait("first_connected", broker.bootstrap_servers)
        assert record.created <= happened
        assert record.msecs == int(record.created % 1 * 1000)
        started, now = record.created - record.relativeCreated / 1000, logging.makeLogRecord({})
        assert started == pytest.approx(now.created - now.relativeCreated / 1000, abs=1e-3)


def test_repeated_failures_are_told_of_once(consumer: ConsumerFactory, broker: Broker, heard: Heard) -> None:
    settings: dict[str, Any] = {"reconnect_backoff_ms": 10, "reconnect_backoff_max_ms": 10, "retry_backoff_ms": 10}
    reader = consumer("orders", bootstrap_servers=broker.bootstrap_servers, **settings)
    reader.take(1)
    broker.stop_node(1)
    while reader.metrics()["connections_failed"] < 10:
        reader.poll(timeout=0.05)
    assert len(heard.named("connection_failed", broker.bootstrap_servers)) == 1


def test_events_have_fields_that_a_json_formatter_can_use(broker: Broker, heard: Heard) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "client.id": "c-1", "group.id": "etl"}
    with monedula.Consumer(settings, ["orders", "missing"], auto_offset_reset="earliest") as consumer:
        assert consumer.poll(timeout=20)
        assigned, missing = heard.wait("assigned"), heard.wait("topic_missing")
    for record in heard.records:
        if record.name != "monedula.broker":
            assert vars(record).keys() >= FIELDS
            json.dumps({name: vars(record)[name] for name in FIELDS})
    assert {vars(assigned)[name] for name in ("client_id", "group")} == {"c-1", "etl"}
    fields = {name: vars(missing)[name] for name in ("topic", "error_code", "partition")}
    assert fields == {"topic": "missing", "error_code": "UNKNOWN_TOPIC_OR_PARTITION", "partition": None}


def test_a_format_with_fields_takes_every_event(broker: Broker, heard: Heard) -> None:
    heard.setFormatter(logging.Formatter("%(event)s %(broker)s %(group)s %(topic)s %(client_id)s %(error_code)s"))
    with monedula.Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        consumer.assign("orders")
        consumer.poll(timeout=0.1)
        heard.wait("first_connected")
    assert all(heard.format(record) for record in heard.records)


@pytest.mark.parametrize("nodes", [1, 9])
def test_a_client_that_closes_has_little_to_say(heard: Heard, nodes: int) -> None:
    with Broker(nodes=nodes, topics={"orders": nodes}) as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "etl"}
        with monedula.Consumer(settings, "orders", auto_offset_reset="earliest") as consumer:
            for partition in range(nodes):
                broker.append("orders", ["a"], partition=partition)
            rows = 0
            while rows < nodes:
                rows += len(consumer.poll(timeout=20))
            before = len(heard.records)
        said = [record for record in heard.records[before:] if record.name != "monedula.broker"]
    assert [vars(record)["event"] for record in said] == ["left"]


def test_a_handler_may_call_a_client(broker: Broker) -> None:
    """And so one that sends its records to Kafka works."""
    logger = logging.getLogger("monedula.network")
    told: list[dict[str, object]] = []

    class Asks(logging.Handler):
        def emit(self, _: logging.LogRecord) -> None:
            told.append(consumer.health())
            consumer.poll(timeout=0)

    handler = Asks()
    logger.addHandler(handler)
    try:
        with monedula.Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign("orders")
            logger.setLevel(logging.INFO)
            assert consumer.poll(timeout=20) or consumer.position(("orders", 0)) == 1
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)


def test_a_child_logger_can_say_more_than_the_others(broker: Broker, heard: Heard) -> None:
    requests = logging.getLogger("monedula.connection")
    logging.getLogger("monedula").setLevel(logging.WARNING)
    requests.setLevel(logging.DEBUG)
    try:
        with monedula.Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign("orders")
            assert consumer.poll(timeout=20)
    finally:
        requests.setLevel(logging.NOTSET)
    assert {record.name for record in heard.records} == {"monedula.connection"}


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


FORKED = """
import logging, os, sys
import monedula
logging.basicConfig(format="%(process)d %(event)s", level="INFO", stream=sys.stdout)
def read():
    with monedula.Consumer(bootstrap_servers=sys.argv[1], auto_offset_reset="earliest") as consumer:
        consumer.assign("orders")
        assert consumer.poll(timeout=20)
read()
child = os.fork()
if not child:
    read()
    sys.exit(0)
os.waitpid(child, 0)
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="there is no fork")
def test_a_forked_child_logs_what_its_own_clients_do(broker: Broker) -> None:
    done = run(FORKED, broker.bootstrap_servers)
    assert done.returncode == 0, done.stderr
    connected = [line for line in done.stdout.splitlines() if line.endswith("first_connected")]
    assert len(connected) == len({line.split()[0] for line in connected}) == 2


ENDS = """
import logging, sys, time
import monedula
class Slow(logging.Handler):
    def emit(self, record):
        print(record.event, flush=True)
        time.sleep(float(sys.argv[2]))
logging.getLogger("monedula").addHandler(Slow())
logging.getLogger("monedula").setLevel("INFO")
settings = {"bootstrap.servers": sys.argv[1], "group.id": "etl", "auto.offset.reset": "earliest"}
consumer = monedula.Consumer(settings, ["orders"])
assert consumer.poll(timeout=20)
"""


@pytest.mark.parametrize("pause_s", ["0", "0.3"])
def test_the_end_of_the_interpreter_passes_on_what_is_left(broker: Broker, pause_s: str) -> None:
    done = run(ENDS, broker.bootstrap_servers, pause_s)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert done.stdout.splitlines()[-1] == "left"


def test_the_level_of_every_part_is_followed() -> None:
    kinds = (Path(__file__).parents[2] / "rust/client/src/log/kinds.rs").read_text()
    parts = set(re.findall(r'"([a-z.]+)" "[a-z_]+" (?:Trace|Debug|Info|Warning)', kinds))
    assert parts - {"broker"} == set(_PARTS) - {"log"}


def test_every_event_is_in_the_table_of_the_documentation() -> None:
    root = Path(__file__).parents[2]
    kinds = (root / "rust/client/src/log/kinds.rs").read_text()
    names = re.findall(r'"([a-z.]+)" "([a-z_]+)" (Trace|Debug|Info|Warning)', kinds)
    of_python = (path.read_text() for path in (root / "python/monedula").rglob("*.py"))
    warned = [found for text in of_python for found in re.findall(r'\balert\(\s*"([a-z.]+)",\s*"([a-z_]+)"', text)]
    names += [(part, name, "Warning") for part, name in warned if (part, name, "Warning") not in names]
    table = (root / "docs/logging.md").read_text()
    rows = re.findall(r"^\| `([a-z_]+)` \| `([a-z.]+)` \| ([a-z]+)", table, re.MULTILINE)
    levels: Callable[[str], str] = str.lower
    assert sorted((name, part, levels(level)) for part, name, level in names) == sorted(rows)
