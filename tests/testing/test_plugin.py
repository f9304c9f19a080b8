"""The fixtures, in a pytest of their own."""

import subprocess
import sys
from pathlib import Path

SUITE = """
import sys

def test_nothing_is_loaded_before_it_is_asked_for():
    assert not [name for name in sys.modules if name.split(".")[0] in ("monedula", "pyspark", "pyarrow")]

def test_a_broker(monedula_broker):
    monedula_broker.create_topic("orders", 1)
    assert list(monedula_broker.append("orders", ["a"])) == [0]
    STARTED.append(monedula_broker)

def test_a_broker_with_a_registry(monedula_registry_broker):
    assert monedula_registry_broker.registry.register("orders-value", '"int"') == 1

def test_several_brokers(monedula_broker_factory):
    one, two = monedula_broker_factory(topics={"orders": 3}), monedula_broker_factory(nodes=2)
    assert (len(one.addresses), len(two.addresses)) == (1, 2)
    STARTED.extend([one, two])

def test_one_test_of_the_session(monedula_session_broker):
    monedula_session_broker.create_topic("first", 1)
    SHARED.append(monedula_session_broker)

def test_another_test_of_the_session(monedula_session_broker):
    assert SHARED == [monedula_session_broker]
    assert list(monedula_session_broker.append("first", ["a"])) == [0]

def test_they_stop_with_their_tests():
    from monedula.errors import ClosedError
    for broker in STARTED:
        try:
            broker.create_topic("late")
        except ClosedError:
            continue
        raise AssertionError(broker)
    assert len(STARTED) == 3

STARTED = []
SHARED = []
"""


def run(suite: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Runs a file of tests, in a pytest of its own."""
    (folder / "test_suite.py").write_text(suite)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, check=False)


def test_the_fixtures_are_found_and_stop_what_they_start(tmp_path: Path) -> None:
    done = run(SUITE, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 passed" in done.stdout


FAILING = """
import monedula
import pytest

def test_that_fails(monedula_broker_factory, monedula_session_broker):
    broker = monedula_broker_factory(topics={"orders": 1})
    broker.fault(api="Metadata", topic="orders", error="LEADER_NOT_AVAILABLE", count=1)
    with broker.fault(api="Fetch", delay_ms=1, count=1):
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "etl"}
        with monedula.Consumer(settings | {"auto.offset.reset": "earliest"}) as consumer:
            consumer.subscribe("orders")
            broker.append("orders", ["a"])
            assert next(consumer.records(timeout=10.0)).value == b"b"

def test_that_fails_after_its_broker_stopped(monedula_broker):
    monedula_broker.stop()
    raise AssertionError("its own")

def test_that_fails_at_its_registry(monedula_registry_broker):
    registry = monedula_registry_broker.registry
    registry.register("orders-value", '"int"')
    registry.fault(path="/subjects/*", status=503, count=1)
    with registry.fault(path="/subjects", delay_ms=1):
        client = monedula.SchemaRegistry({"schema.registry.url": registry.url})
    assert client.get("orders-value").version == 2

def test_that_fails_without_a_broker():
    raise AssertionError("no broker")

def test_that_passes(monedula_broker):
    pass
"""


def test_the_report_of_a_failing_test_tells_what_its_broker_saw(tmp_path: Path) -> None:
    done = run(FAILING, tmp_path)
    told = done.stdout
    assert "4 failed, 1 passed" in told, told + done.stderr
    assert told.count("- embedded broker at ") == 4, told
    assert "fault 1: effect='error', error='LEADER_NOT_AVAILABLE'" in told, told
    assert "when apis=['Metadata'], topic='orders': 1 hits\n" in told, told
    assert "fault 2: effect='delay', ms=1 when apis=['Fetch']: 1 hits, removed\n" in told, told
    assert "group etl: " in told, told
    assert "Metadata v" in told, told
    assert " bytes, LEADER_NOT_AVAILABLE, after " in told, told
    assert "it cannot be asked: ClosedError" in told, told
    assert "no request came to the broker\n" in told, told
    fault = "effect='answer', status=503"
    assert f"registry's fault 1: {fault}" in told, told
    assert " when path='/subjects/*', on='request': 1 hits\n" in told, told
    assert "when path='/subjects', on='request': 0 hits, removed\n" in told, told
    assert "the last 2 requests to the registry:\n" in told, told
    assert "  GET /subjects/orders-value/versions/latest: 503\n" in told, told
    assert "  GET /subjects/orders-value/versions/latest: 200\n" in told, told
